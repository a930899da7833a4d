"""Study results: sorted by dataset, row and code length."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.experiments.experiment import settings
from corrhash.experiments.result_files import load_results
from corrhash.experiments.results import StudyResults
from tests.experiments.synthetic_results import make_result, make_study


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    make_study(folder)
    return StudyResults(load_results(folder))


def test_rows_are_in_the_order_of_the_paper(study):
    names = ["cvh", "scm", "dcmh", "chn", "chn-m", "chn-i", "chn-q", "classifier"]
    assert study.rows == names
    assert study.label_length_rows == {"classifier"}
    assert study.code_lengths("scenes") == [16, 32]
    assert study.plotted_bits("scenes") == 32


def test_chn_b_is_chn_ranked_by_cosine(study):
    assert study.has("scenes", "chn-b")
    before = study.maps("scenes", "chn", 16, "image->text", "cosine")
    assert study.maps("scenes", "chn-b", 16, "image->text") == before


def test_results_on_unseen_labels_are_kept_apart(study):
    assert len(study.unseen["scenes", "chn", 32]) == 2
    assert len(study.maps("scenes", "chn", 32, "image->text")) == 2


def test_average_precisions_are_means_over_lengths(study):
    by_seed = study.average_precisions("scenes", "chn", [16, 32], "image->text")
    assert list(by_seed) == [0, 1]
    maps = [study.maps("scenes", "chn", b, "image->text") for b in (16, 32)]
    np.testing.assert_allclose([aps.mean() for aps in by_seed.values()], np.mean(maps, axis=0))


def test_fixed_and_mixed_splits(study, tmp_path):
    assert not study.fixed_split("scenes")
    for seed in (0, 1):
        make_result(tmp_path, "cvh", 16, seed, level=0.4, split="one")
    fixed = StudyResults(load_results(tmp_path))
    assert fixed.fixed_split("scenes")
    assert fixed.seeds_with_mixed_splits("scenes") == []
    make_result(tmp_path, "scm", 16, 1, level=0.4, split="another")
    assert StudyResults(load_results(tmp_path)).seeds_with_mixed_splits("scenes") == [1]


def test_two_results_for_one_cell_are_rejected(tmp_path):
    make_result(tmp_path, "cvh", 16, 0, level=0.4)
    make_result(tmp_path, "cvh", 16, 0, level=0.5, params=settings({"ridge": 1.0}))
    with pytest.raises(InputError, match="Two results for cvh, 16 bits, seed 0 on scenes"):
        StudyResults(load_results(tmp_path))
