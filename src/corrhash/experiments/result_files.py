"""Result files: one per experiment while a study runs, one per study to keep and to share.

A file is JSON, with the arrays in the ``.npz`` of the same name. The file of a study keeps only
what a report reads.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from corrhash._files import atomic_write, make_folder
from corrhash.errors import InputError
from corrhash.experiments.experiment import Experiment
from corrhash.experiments.results import BINARIZED, Result, StudyResults

RESULT_FORMAT = "corrhash result 1"
TRIAL_FORMAT = "corrhash trial 1"
STUDY_FORMAT = "corrhash study 1"
TRIALS = "tuning"
"""The folder of tuning trials, inside the folder of results."""

AP_STEP = 1e-3
"""Resolution of the average precisions in the file of a study."""

NO_AP = np.iinfo(np.uint16).max
"""Stands for NaN among average precisions."""

STUDY_FACTS = {
    "dataset": (
        "fingerprint",
        "split",
        "image_features",
        "sizes",
        "n_labels",
        "share_similar_training_pairs",
    ),
    "n_bits": (),
    "ranked_by": (),
    "sign": (),
    "notes": (),
    "seconds": ("fit", "encode"),
    "peak_mb": (),
}
"""Facts that the file of a study keeps, and which of their entries; all if none is named."""

STUDY_METRICS = {
    "hamming": (
        "map",
        "definition",
        "ties",
        "depth",
        "n_queries",
        "n_database",
        "n_without_relevant",
        "n_empty_text",
        "n_distinct_database",
        "precision_at_1",
        "precision_at_10",
    ),
    "cosine": ("map",),
    "without_trained": ("map",),
}
"""Metrics of each direction that the file of a study keeps, where they were measured."""


UNREPORTED = (
    "log.seconds",
    "log.distinct_codes",
    "log.quantization_active",
    "text->image.similar",
    "text->image.dissimilar",
    *(f"{direction}.radius" for direction in ("image->text", "text->image")),
)
"""Arrays that no table or figure reads."""


def load_results(path: str | Path) -> list[Result]:
    """Load all results from a folder or from the file of a study, in order of their names."""
    path = Path(path)
    if path.is_file():
        return _read_study(path)
    results = [_read_result(file) for file in sorted(path.glob("*.json"))]
    if not results:
        raise InputError(f"No results in {path}. Create some: corrhash run PLAN --out {path}")
    return results


def load_trials(path: str | Path) -> list[dict[str, Any]]:
    """Load all tuning trials from a folder of results or from the file of a study."""
    path = Path(path)
    if path.is_file():
        trials: list[dict[str, Any]] = _read_json(path, STUDY_FORMAT)["trials"]
        return trials
    return [_read_json(file, TRIAL_FORMAT) for file in sorted((path / TRIALS).glob("*.json"))]


def save_result(
    experiment: Experiment,
    facts: Mapping[str, Any],
    arrays: dict[str, np.ndarray],
    folder: str | Path,
) -> Result:
    """Write the arrays, then the JSON file, which makes the result valid."""
    path = make_folder(folder) / f"{experiment.name}.json"
    with atomic_write(path.with_suffix(".npz")) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    content = {"format": RESULT_FORMAT, "experiment": experiment.as_dict(), **facts}
    _write(path, json.dumps(content, indent=1, allow_nan=False))
    return Result(experiment, facts, lambda: arrays)


def find_result(experiment: Experiment, folder: str | Path) -> Result | None:
    """Return the stored result of an experiment, or None."""
    path = Path(folder) / f"{experiment.name}.json"
    return _read_result(path) if path.exists() else None


def save_trial(experiment: Experiment, numbers: Mapping[str, Any], folder: str | Path) -> None:
    """Write the validation mAP of the settings of an experiment."""
    path = make_folder(Path(folder) / TRIALS) / f"{experiment.name}.json"
    content = {"format": TRIAL_FORMAT, "experiment": experiment.as_dict(), **numbers}
    _write(path, json.dumps(content, indent=1, allow_nan=False))


def find_trial(experiment: Experiment, folder: str | Path) -> dict[str, Any] | None:
    """Return the stored trial of the settings of an experiment, or None."""
    path = Path(folder) / TRIALS / f"{experiment.name}.json"
    return _read_json(path, TRIAL_FORMAT) if path.exists() else None


def _read_result(path: Path) -> Result:
    content = _read_json(path, RESULT_FORMAT)
    experiment = Experiment.from_dict(content["experiment"])
    return Result(experiment, content, lambda: _read_npz(path.with_suffix(".npz")))


def save_study(path: str | Path, study: StudyResults, trials: Sequence[Mapping[str, Any]]) -> None:
    """Write what a report reads of a study: one JSON file and one ``.npz`` of the same name.

    The JSON file has a line per result and per trial. The ``.npz`` stacks arrays of the same name
    and length, ``NAME/LENGTH``, beside the numbers of their results, ``NAME/LENGTH/results``.
    """
    path = Path(path)
    results = [
        result
        for cells in (study.cells, study.unseen)
        for cell in sorted(cells)
        for result in cells[cell]
    ]
    stacks: dict[str, tuple[list[np.ndarray], list[int]]] = {}
    for number, result in enumerate(results):
        for name, values in _reported_arrays(result, study).items():
            arrays, numbers = stacks.setdefault(f"{name}/{len(values)}", ([], []))
            arrays.append(values)
            numbers.append(number)
    stored = {}
    for name, (arrays, numbers) in stacks.items():
        stored[name] = np.asfortranarray(arrays)  # similar values side by side compress better
        stored[f"{name}/results"] = np.array(numbers, dtype=np.uint16)
    with atomic_write(path.with_suffix(".npz")) as file:
        _write_npz(file, stored)
    lines = [
        f'{{"format": "{STUDY_FORMAT}",',
        '"results": [',
        ",\n".join(json.dumps(_reported_facts(result), allow_nan=False) for result in results),
        "],",
        '"trials": [',
        ",\n".join(json.dumps(_reported_trial(trial), allow_nan=False) for trial in trials),
        "]}",
    ]
    _write(path, "\n".join(lines))


def unpack_study(path: str | Path, folder: str | Path) -> None:
    """Copy the results and trials of a study, given by its file or folder, that ``folder`` lacks.

    A study continues from them. What the file of a study does not keep is absent.
    """
    for result in load_results(path):
        if find_result(result.experiment, folder) is None:
            save_result(result.experiment, result.facts, result.arrays, folder)
    for trial in load_trials(path):
        experiment = Experiment.from_dict(trial["experiment"])
        if find_trial(experiment, folder) is None:
            save_trial(experiment, trial, folder)


def _read_study(path: Path) -> list[Result]:
    content = _read_json(path, STUDY_FORMAT)

    @cache
    def by_result() -> dict[int, dict[str, np.ndarray]]:
        stored = _read_npz(path.with_suffix(".npz"))
        arrays: dict[int, dict[str, np.ndarray]] = {}
        for key in stored:
            name, _, length = key.partition("/")
            if length.isdigit():
                stack = _unpack_ap(stored[key]) if name.endswith(".ap") else stored[key]
                for number, values in zip(stored[f"{key}/results"], stack, strict=True):
                    arrays.setdefault(int(number), {})[name] = values
        return arrays

    def reader(number: int) -> Any:
        return lambda: by_result().get(number, {})

    return sorted(
        (
            Result(Experiment.from_dict(facts["experiment"]), facts, reader(number))
            for number, facts in enumerate(content["results"])
        ),
        key=lambda result: result.experiment.name,
    )


def _reported_facts(result: Result) -> dict[str, Any]:
    facts: dict[str, Any] = {"experiment": result.experiment.as_dict()}
    for name, entries in STUDY_FACTS.items():
        value = result.facts[name]
        facts[name] = {entry: value[entry] for entry in entries} if entries else value
    facts["directions"] = {
        direction: {
            ranked_by: {n: metrics[ranked_by][n] for n in names if n in metrics[ranked_by]}
            for ranked_by, names in STUDY_METRICS.items()
            if ranked_by in metrics
        }
        | {"variants": _rounded(metrics.get("variants", {}))}
        for direction, metrics in result.facts["directions"].items()
    }
    return facts


def _rounded(maps: Mapping[str, float | None]) -> dict[str, float | None]:
    """Round to the digits that tables print, and two more."""
    return {name: value if value is None else round(value, 5) for name, value in maps.items()}


def _reported_trial(trial: Mapping[str, Any]) -> dict[str, Any]:
    return {name: trial[name] for name in ("experiment", "validation_map", "error")}


def _reported_arrays(result: Result, study: StudyResults) -> dict[str, np.ndarray]:
    """Select the arrays that tables and figures read: AP, and curves at one code length."""
    experiment = result.experiment
    if experiment.unseen:
        return {}
    compared = ("hamming", "cosine") if experiment.row in BINARIZED else ("hamming",)
    cell = experiment.dataset, experiment.row, result.n_bits
    plotted = cell == study.plotted_cell(experiment.dataset, experiment.row)
    kept = {}
    for name, values in result.arrays.items():
        if name.endswith(".ap"):
            if name.split(".")[-2] in compared:
                kept[name] = _pack_ap(values)
        elif plotted and not name.startswith(UNREPORTED):
            kept[name] = values
    return kept


def _pack_ap(values: np.ndarray) -> np.ndarray:
    """Round (n,) average precisions to steps of .001 so that their mean stays exact.

    Running sums are rounded, not values: the error of each sum, hence of n times the mean, is at
    most half a step.
    """
    known = ~np.isnan(values)
    steps = np.rint(np.cumsum(values[known], dtype=np.float64) / AP_STEP)
    packed = np.full(len(values), NO_AP, dtype=np.uint16)
    packed[known] = np.diff(steps, prepend=0)
    return packed


def _unpack_ap(packed: np.ndarray) -> np.ndarray:
    values: np.ndarray = np.where(packed == NO_AP, np.nan, packed * AP_STEP)
    return values


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text.encode() + b"\n")


def _read_json(path: Path, wanted: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != wanted:
            raise ValueError(f"format {content['format']!r}, expected {wanted!r}")
        for facts in content["results"] if wanted == STUDY_FORMAT else [content]:
            Experiment.from_dict(facts["experiment"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        if wanted == STUDY_FORMAT:
            way_out = "Pass the folder written by corrhash run, or the results.json of a report."
        else:
            way_out = "Delete it and run the plan again, or choose a folder with results only."
        raise InputError(f"Cannot read results from {path} ({error}). {way_out}") from error
    return dict(content)


def _write_npz(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an ``.npz`` with LZMA, which is smaller than deflate here."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        for name, values in arrays.items():
            # A fixed date: the same results give the same bytes.
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = zipfile.ZIP_LZMA
            with archive.open(entry, "w") as member:
                np.lib.format.write_array(member, values, allow_pickle=False)


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        json_name = path.with_suffix(".json").name
        raise InputError(
            f"Cannot read {path} ({error}). Delete {json_name} and run the plan again."
        ) from error
