"""Claims: held, not held or undecided, as the numbers say."""

import pytest

from corrhash.experiments.claims import best_shallow, claims_table
from corrhash.experiments.gathered import Gathered
from corrhash.experiments.results import load_results
from tests.experiments.made_results import make_result, make_study


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    make_study(folder, seeds=(0, 1, 2))
    return Gathered(load_results(folder))


def lines(found):
    """Claim -> what was measured, and the verdict, image -> text."""
    rows = [[e.text for e in row] for row in claims_table(found).rows]
    return {row[0]: (row[3], row[-1]) for row in rows if row[2] == "image → text"}


def test_each_claim_is_judged_by_its_numbers(found):
    claims = lines(found)
    assert best_shallow(found, "scenes", "image->text") == "scm"
    assert claims["CHN above the best shallow method, SCM"] == ("+.100", "held")
    assert claims["(a) margins help: CHN above CHN-M"][1] == "held"
    assert claims["(b) cosines help: CHN above CHN-I"][1] == "not held"
    assert claims["CHN first at every recall level, 32 bits"][1] == "held"
    rounding = "(c) CHN loses less than CHN-Q when rounded"
    assert claims[rounding] == ("+.050", "held")
    assert claims[f"{rounding}, 16 bits"] == ("+.050", "held")


def test_the_rank_of_chn_is_told_where_it_is_not_first(tmp_path):
    make_result(tmp_path, "chn", 32, level=0.5)
    make_result(tmp_path, "dcmh", 32, level=0.6)
    make_result(tmp_path, "cvh", 32, level=0.4)
    claims = lines(Gathered(load_results(tmp_path)))
    ranks = claims["CHN first at every R up to 1,000, 32 bits"]
    assert ranks == ("0 of 3, at worst 2nd", "not held")


def test_without_chn_there_is_nothing_to_claim(tmp_path):
    make_result(tmp_path, "cvh", 32, level=0.4)
    assert claims_table(Gathered(load_results(tmp_path))) is None


def test_the_gain_of_the_paper_stands_beside_ours(tmp_path):
    for row, level in (("chn", 0.7), ("dcmh", 0.65)):
        make_result(tmp_path, row, 16, level=level, dataset="mirflickr25k")
    table = claims_table(Gathered(load_results(tmp_path)))
    row = [e.text for e in table.rows[0]]
    assert (row[0], row[3], row[6]) == ("CHN above DCMH", "+.050", "+.055")
