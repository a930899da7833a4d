"""Result: what an experiment gave, as a JSON file and the file of arrays beside it.

Tables and plots are made of these files and of nothing else.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.atomic_write import atomic_write, make_folder
from corrhash.errors import InputError
from corrhash.experiments.experiment import Experiment

FORMAT = "corrhash result 1"
TRIAL_FORMAT = "corrhash trial 1"
TRIALS = "tuning"
"""The folder of trials, below that of the results."""


@dataclass(frozen=True, eq=False)
class Result:
    """What came out of an experiment.

    Parameters
    ----------
    experiment : what was run.
    facts : everything but the arrays; ``docs/study.md`` lists it.
    path : the JSON file. The arrays stand in the ``.npz`` of the same name.
    """

    experiment: Experiment
    facts: Mapping[str, Any]
    path: Path

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """AP per query, curves, histograms, bit means and the training log, by name."""
        path = self.path.with_suffix(".npz")
        try:
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise InputError(
                f"Cannot read {path} ({error}). Delete {self.path.name} and run the plan again."
            ) from error

    @property
    def n_bits(self) -> int:
        """The length of the codes."""
        return int(self.facts["n_bits"])

    def scores(self, direction: str, ranked_by: str | None = None) -> Mapping[str, Any]:
        """The numbers of a direction, ranked as the method is, or by ``hamming`` or ``cosine``."""
        of_direction: Mapping[str, Any] = self.facts["directions"][direction]
        numbers: Mapping[str, Any] = of_direction[ranked_by or self.facts["ranked_by"]]
        return numbers

    def map(self, direction: str, ranked_by: str | None = None) -> float:
        """Mean average precision."""
        value = self.scores(direction, ranked_by)["map"]
        return float("nan") if value is None else float(value)

    def map_without_trained(self, direction: str) -> float:
        """MAP with the training items taken out of the database; NaN if it has no others."""
        value = self.facts["directions"][direction].get("without_trained", {}).get("map")
        return float("nan") if value is None else float(value)

    def average_precisions(self, direction: str, ranked_by: str | None = None) -> np.ndarray:
        """(n_queries,) NaN where a query is left out."""
        return self.arrays[f"{direction}.{ranked_by or self.facts['ranked_by']}.ap"]


def save_result(
    experiment: Experiment, facts: Mapping[str, Any], arrays: dict[str, Any], folder: Path
) -> Result:
    """Write the arrays, then the JSON file, which makes the result valid."""
    path = result_path(experiment, folder)
    make_folder(folder)
    with atomic_write(path.with_suffix(".npz")) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    _write(path, {"format": FORMAT, "experiment": experiment.as_dict(), **facts})
    return Result(experiment, facts, path)


def result_path(experiment: Experiment, folder: Path) -> Path:
    """Where the result of an experiment is kept."""
    return Path(folder) / f"{experiment.name}.json"


def find_result(experiment: Experiment, folder: Path) -> Result | None:
    """The result of an experiment, if it is there."""
    path = result_path(experiment, folder)
    return read_result(path) if path.exists() else None


def read_result(path: Path) -> Result:
    """The result in a JSON file."""
    content = _read(path, FORMAT)
    return Result(Experiment.from_dict(content["experiment"]), content, path)


def load_results(folder: str | Path) -> list[Result]:
    """All results of a folder, in order of their names."""
    results = [read_result(path) for path in sorted(Path(folder).glob("*.json"))]
    if not results:
        raise InputError(
            f"There are no results in {folder}. Make some: corrhash run PLAN --out {folder}."
        )
    return results


def save_trial(experiment: Experiment, numbers: Mapping[str, Any], folder: Path) -> None:
    """Keep how well settings served validation items."""
    path = trial_path(experiment, folder)
    make_folder(path.parent)
    _write(path, {"format": TRIAL_FORMAT, "experiment": experiment.as_dict(), **numbers})


def trial_path(experiment: Experiment, folder: Path) -> Path:
    """Where the trial of an experiment's settings is kept."""
    return Path(folder) / TRIALS / f"{experiment.name}.json"


def find_trial(experiment: Experiment, folder: Path) -> dict[str, Any] | None:
    """The trial of an experiment's settings, if it is there."""
    path = trial_path(experiment, folder)
    return _read(path, TRIAL_FORMAT) if path.exists() else None


def load_trials(folder: str | Path) -> list[dict[str, Any]]:
    """All trials of a folder of results."""
    return [_read(path, TRIAL_FORMAT) for path in sorted((Path(folder) / TRIALS).glob("*.json"))]


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(content, indent=1, allow_nan=False).encode() + b"\n")


def _read(path: Path, wanted: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != wanted:
            raise ValueError(f"format {content['format']!r}, not {wanted!r}")
        Experiment.from_dict(content["experiment"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"Cannot read {path} ({error}). Delete it and run the plan again, or choose a folder "
            "that holds nothing but results."
        ) from error
    return dict(content)
