"""Claims of the paper: supported, not supported or inconclusive."""

import pytest

from corrhash.experiments.report.claims import best_shallow, claims_table
from corrhash.experiments.result_files import load_results
from corrhash.experiments.results import StudyResults
from tests.experiments.synthetic_results import make_result, make_study


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    make_study(folder, seeds=(0, 1, 2))
    return StudyResults(load_results(folder))


def lines(study):
    """Return claim -> (measured, verdict) for image queries."""
    rows = [[e.text for e in row] for row in claims_table(study).rows]
    return {row[0]: (row[3], row[-1]) for row in rows if row[2] == "I→T"}


def test_verdicts_follow_the_measurements(study):
    claims = lines(study)
    assert best_shallow(study, "scenes", "image->text") == "scm"
    assert claims["CHN is better than the best shallow method (SCM)"] == ("+.100", "supported")
    assert claims["(a) Margins help: CHN is better than CHN-M"][1] == "supported"
    assert claims["(b) Cosine similarity helps: CHN is better than CHN-I"][1] == "not supported"
    assert claims["CHN is best at every recall level, 32 bits"][1] == "supported"
    binarization = "(c) CHN loses less mAP by binarization than CHN-Q"
    assert claims[binarization] == ("+.050", "supported")
    assert claims[f"{binarization}, 16 bits"] == ("+.050", "supported")


def test_worst_rank_is_reported(tmp_path):
    make_result(tmp_path, "chn", 32, level=0.5)
    make_result(tmp_path, "dcmh", 32, level=0.6)
    make_result(tmp_path, "cvh", 32, level=0.4)
    claims = lines(StudyResults(load_results(tmp_path)))
    ranks = claims["CHN is best at every R up to 1,000, 32 bits"]
    assert ranks == ("best at 0 of 3, worst rank 2", "not supported")


def test_no_claims_without_chn(tmp_path):
    make_result(tmp_path, "cvh", 32, level=0.4)
    assert claims_table(StudyResults(load_results(tmp_path))) is None


def test_published_gain_is_shown(tmp_path):
    for row, level in (("chn", 0.7), ("dcmh", 0.65)):
        make_result(tmp_path, row, 16, level=level, dataset="mirflickr25k")
    table = claims_table(StudyResults(load_results(tmp_path)))
    row = [e.text for e in table.rows[0]]
    assert (row[0], row[3], row[6]) == ("CHN is better than DCMH", "+.050", "+.055")
