"""Results: whole files or none, and plain words for what is not one."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.experiments.experiment import Experiment
from corrhash.experiments.results import find_result, load_results, save_result

CELL = Experiment("synthetic", "cvh", 16, 0)
FACTS = {
    "n_bits": 16,
    "ranked_by": "hamming",
    "directions": {"image->text": {"hamming": {"map": 0.25}, "without_trained": {"map": None}}},
}


def test_a_result_comes_back(tmp_path):
    save_result(CELL, FACTS, {"image->text.hamming.ap": np.array([0.5, np.nan])}, tmp_path)
    again = find_result(CELL, tmp_path)
    assert again.experiment == CELL
    assert again.map("image->text") == 0.25
    assert np.isnan(again.map_without_trained("image->text"))
    np.testing.assert_array_equal(again.average_precisions("image->text"), [0.5, np.nan])


def test_arrays_without_their_json_file_are_not_a_result(tmp_path):
    result = save_result(CELL, FACTS, {}, tmp_path)
    result.path.unlink()
    assert find_result(CELL, tmp_path) is None


def test_what_is_not_a_result_is_named(tmp_path):
    with pytest.raises(InputError, match="There are no results in .*corrhash run PLAN"):
        load_results(tmp_path)
    result = save_result(CELL, FACTS, {"a": np.ones(3)}, tmp_path)
    result.path.with_suffix(".npz").write_bytes(b"half")
    with pytest.raises(InputError, match="Cannot read .*npz.*Delete .*json and run the plan again"):
        _ = load_results(tmp_path)[0].arrays
    result.path.write_text('{"format": "another"}')
    with pytest.raises(InputError, match="Cannot read .*format 'another'"):
        load_results(tmp_path)
