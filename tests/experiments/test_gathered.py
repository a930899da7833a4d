"""Gathered: results in the order of the paper's tables."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.experiments.experiment import settings
from corrhash.experiments.gathered import Gathered
from corrhash.experiments.results import load_results
from tests.experiments.made_results import make_result, make_study


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    make_study(folder)
    return Gathered(load_results(folder))


def test_rows_stand_in_the_order_of_the_paper(found):
    names = ["cvh", "scm", "dcmh", "chn", "chn-m", "chn-i", "chn-q", "classifier"]
    assert found.rows == names
    assert found.own_length == {"classifier"}
    assert found.lengths("scenes") == [16, 32]
    assert found.shown_length("scenes") == 32


def test_chn_b_is_chn_before_its_scores_are_rounded(found):
    assert found.has("scenes", "chn-b")
    before = found.maps("scenes", "chn", 16, "image->text", "cosine")
    assert found.maps("scenes", "chn-b", 16, "image->text") == before


def test_unseen_labels_are_kept_apart(found):
    assert len(found.unseen["scenes", "chn", 32]) == 2
    assert len(found.maps("scenes", "chn", 32, "image->text")) == 2


def test_average_precisions_are_averaged_over_lengths(found):
    by_seed = found.average_precisions("scenes", "chn", [16, 32], "image->text")
    assert list(by_seed) == [0, 1]
    maps = [found.maps("scenes", "chn", b, "image->text") for b in (16, 32)]
    np.testing.assert_allclose([aps.mean() for aps in by_seed.values()], np.mean(maps, axis=0))


def test_a_split_is_fixed_where_all_seeds_share_it(found, tmp_path):
    assert not found.fixed_split("scenes")
    for seed in (0, 1):
        make_result(tmp_path, "cvh", 16, seed, level=0.4, split="one")
    fixed = Gathered(load_results(tmp_path))
    assert fixed.fixed_split("scenes")
    assert fixed.mixed_data("scenes") == []
    make_result(tmp_path, "scm", 16, 1, level=0.4, split="another")
    assert Gathered(load_results(tmp_path)).mixed_data("scenes") == [1]


def test_two_results_for_one_cell_are_refused(tmp_path):
    make_result(tmp_path, "cvh", 16, 0, level=0.4)
    make_result(tmp_path, "cvh", 16, 0, level=0.5, params=settings({"eps": 1.0}))
    with pytest.raises(InputError, match="Two results are of cvh, 16 bits, seed 0 on scenes"):
        Gathered(load_results(tmp_path))
