"""Result files: complete or absent, and the same report from either form."""

import json

import numpy as np
import pytest

from corrhash import InputError
from corrhash.experiments.experiment import Experiment
from corrhash.experiments.report.figures import draw_figures
from corrhash.experiments.report.page import all_tables
from corrhash.experiments.report.significance import difference
from corrhash.experiments.result_files import (
    _pack_ap,
    _unpack_ap,
    find_result,
    find_trial,
    load_results,
    load_trials,
    save_result,
    save_study,
    save_trial,
    unpack_study,
)
from corrhash.experiments.results import StudyResults
from tests.experiments.synthetic_results import make_study

ROUNDED = ("claims", "significance")
"""Tables of intervals over queries, whose last digit may differ."""

EXPERIMENT = Experiment("synthetic", "cvh", 16, 0)
FACTS = {
    "n_bits": 16,
    "ranked_by": "hamming",
    "directions": {"image->text": {"hamming": {"map": 0.25}, "without_trained": {"map": None}}},
}


def test_result_round_trip(tmp_path):
    save_result(EXPERIMENT, FACTS, {"image->text.hamming.ap": np.array([0.5, np.nan])}, tmp_path)
    loaded = find_result(EXPERIMENT, tmp_path)
    assert loaded.experiment == EXPERIMENT
    assert loaded.map("image->text") == 0.25
    assert np.isnan(loaded.map_without_trained("image->text"))
    np.testing.assert_array_equal(loaded.average_precisions("image->text"), [0.5, np.nan])


def test_arrays_without_json_are_not_a_result(tmp_path):
    save_result(EXPERIMENT, FACTS, {}, tmp_path)
    (tmp_path / f"{EXPERIMENT.name}.json").unlink()
    assert find_result(EXPERIMENT, tmp_path) is None


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"No results in .*corrhash run PLAN"):
        load_results(tmp_path)
    path = tmp_path / f"{EXPERIMENT.name}.json"
    save_result(EXPERIMENT, FACTS, {"a": np.ones(3)}, tmp_path)
    path.with_suffix(".npz").write_bytes(b"half")
    with pytest.raises(
        InputError, match=r"Cannot read .*npz.*Delete .*json and run the plan again"
    ):
        _ = load_results(tmp_path)[0].arrays
    path.write_text('{"format": "another"}')
    for source in (tmp_path, path):
        with pytest.raises(InputError, match="Cannot read .*format 'another'"):
            load_results(source)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    make_study(folder)
    trial = Experiment("scenes", "chn", 32, 0)
    save_trial(trial, {"validation_map": 0.5, "error": None, "notes": []}, folder)
    return folder


@pytest.fixture(scope="module")
def packed(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "study.json"
    save_study(path, StudyResults(load_results(folder)), load_trials(folder))
    return path


def test_study_file_gives_the_same_tables(folder, packed):
    def tables(path):
        found = all_tables(StudyResults(load_results(path)), load_trials(path))
        return [table for table in found if table.name not in ROUNDED]

    assert tables(packed) == tables(folder)


def test_study_file_keeps_intervals_over_queries(folder, packed):
    def gap(path):
        study = StudyResults(load_results(path))
        pair = [
            study.average_precisions("scenes", row, [16, 32], "image->text")
            for row in ("chn", "dcmh")
        ]
        return difference(*pair, same_queries=False)

    one, other = gap(folder), gap(packed)
    assert other.mean == pytest.approx(one.mean, abs=1e-4)
    assert (other.low, other.high) == pytest.approx((one.low, one.high), abs=1e-3)
    assert other.verdict == one.verdict


def test_study_file_gives_the_same_figures(folder, packed):
    one, other = (list(draw_figures(StudyResults(load_results(path)))) for path in (folder, packed))
    assert one == other


def test_packing_a_study_file_again_changes_nothing(packed, tmp_path):
    save_study(tmp_path / "b.json", StudyResults(load_results(packed)), load_trials(packed))
    for suffix in (".json", ".npz"):
        again = (tmp_path / "b.json").with_suffix(suffix).read_bytes()
        assert again == packed.with_suffix(suffix).read_bytes()


def test_unpacked_study_gives_the_same_report(folder, packed, tmp_path):
    unpack_study(packed, tmp_path)
    names = {result.experiment.name for result in load_results(folder)}
    assert {result.experiment.name for result in load_results(tmp_path)} == names
    assert find_trial(Experiment("scenes", "chn", 32, 0), tmp_path)["validation_map"] == 0.5
    one, other = (
        list(all_tables(StudyResults(load_results(path)), load_trials(path)))
        for path in (packed, tmp_path)
    )
    assert one == other
    again = tmp_path / "again" / "study.json"
    again.parent.mkdir()
    save_study(again, StudyResults(load_results(tmp_path)), load_trials(tmp_path))
    for suffix in (".json", ".npz"):
        assert again.with_suffix(suffix).read_bytes() == packed.with_suffix(suffix).read_bytes()


def test_unpacking_keeps_what_a_folder_has(packed, tmp_path):
    experiment = load_results(packed)[0].experiment
    save_result(experiment, FACTS, {}, tmp_path)
    trial = Experiment("scenes", "chn", 32, 0)
    save_trial(trial, {"validation_map": 0.75, "error": None}, tmp_path)
    unpack_study(packed, tmp_path)
    assert find_result(experiment, tmp_path).map("image->text") == 0.25
    assert find_trial(trial, tmp_path)["validation_map"] == 0.75
    assert len(load_results(tmp_path)) == len(load_results(packed))


def test_study_file_has_a_line_per_result(folder, packed):
    lines = packed.read_text().splitlines()
    named = [json.loads(line.rstrip(",")) for line in lines if line.startswith('{"experiment"')]
    assert len(named) == len(load_results(folder)) + len(load_trials(folder))


def test_packed_average_precisions_keep_their_mean():
    values = np.random.default_rng(0).random(1000)
    values[::7] = np.nan
    packed = _unpack_ap(_pack_ap(values))
    np.testing.assert_array_equal(np.isnan(packed), np.isnan(values))
    assert np.nanmax(abs(packed - values)) <= 1e-3
    assert np.nanmean(packed) == pytest.approx(np.nanmean(values), abs=1e-6)


def test_other_json_files_are_not_to_be_deleted(tmp_path):
    (tmp_path / "items.json").write_text("[]")
    with pytest.raises(
        InputError, match="Pass the folder written by corrhash run, or the results.json"
    ):
        load_results(tmp_path / "items.json")
