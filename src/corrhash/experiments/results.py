"""Results of experiments: of one model, and of a whole study by dataset, row and code length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from corrhash.errors import InputError
from corrhash.experiments.experiment import Experiment

NAMES = {
    "cvh": "CVH",
    "imh": "IMH",
    "cmssh": "CMSSH",
    "rahh": "RaHH",
    "scm": "SCM",
    "scm-orth": "SCM-orth",
    "seph": "SePH",
    "mmnn": "MMNN",
    "mmnn-pairs": "MMNN-pairs",
    "dcmh": "DCMH",
    "dchmt": "DCHMT",
    "dsph": "DSPH",
    "djsrh": "DJSRH",
    "ucch": "UCCH",
    "itq": "ITQ",
    "lsh": "LSH",
    "chn": "CHN",
    "chn-m": "CHN-M",
    "chn-i": "CHN-I",
    "chn-q": "CHN-Q",
    "chn-b": "CHN-B",
    "chn-plus": "CHN-plus",
    "classifier": "classifier code",
}
"""Printed names of the methods, in the order of the paper's tables, then those it does not have."""

SHALLOW = ("cvh", "imh", "cmssh", "rahh", "scm", "scm-orth", "seph")
COMPARED = (*SHALLOW, "mmnn", "mmnn-pairs", "dcmh", "chn")
"""The hashing methods among which the paper ranks CHN."""

VARIANTS = ("chn-m", "chn-i", "chn-q", "chn", "chn-b")
BINARIZED = ("chn", "chn-q", "chn-plus")
"""Rows whose mAP is reported before and after binarization."""

PLOTTED_BITS = 32
"""Code length of the curves, or the nearest that was run."""

Cell = tuple[str, str, int]
"""Dataset, row and code length."""


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of one experiment.

    Parameters
    ----------
    experiment : what was run.
    facts : everything except the arrays; ``docs/reference/file_formats.md`` lists it.
    read_arrays : loads the arrays on first use.
    """

    experiment: Experiment
    facts: Mapping[str, Any]
    read_arrays: Callable[[], dict[str, np.ndarray]]

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """AP per query, curves, distance histograms, bit means and the training log, by name."""
        return self.read_arrays()

    @property
    def n_bits(self) -> int:
        """Code length."""
        return int(self.facts["n_bits"])

    def scores(self, direction: str, ranked_by: str | None = None) -> Mapping[str, Any]:
        """Return the metrics of a direction, ranked by ``hamming`` or ``cosine``.

        The default is the ranking of the method.
        """
        of_direction: Mapping[str, Any] = self.facts["directions"][direction]
        numbers: Mapping[str, Any] = of_direction[ranked_by or self.facts["ranked_by"]]
        return numbers

    def map(self, direction: str, ranked_by: str | None = None) -> float:
        """Return the mean average precision of a direction."""
        value = self.scores(direction, ranked_by)["map"]
        return float("nan") if value is None else float(value)

    def map_without_trained(self, direction: str) -> float:
        """Return mAP with training items removed from the database; NaN if none remain."""
        value = self.facts["directions"][direction].get("without_trained", {}).get("map")
        return float("nan") if value is None else float(value)

    def map_variants(self, direction: str) -> Mapping[str, float]:
        """Return mAP under other definitions, by name; empty in results without them."""
        variants: Mapping[str, float] = self.facts["directions"][direction].get("variants", {})
        return variants

    def average_precisions(self, direction: str, ranked_by: str | None = None) -> np.ndarray:
        """Return (n_queries,) average precisions; NaN for excluded queries."""
        return self.arrays[f"{direction}.{ranked_by or self.facts['ranked_by']}.ap"]


class StudyResults:
    """The results of a study; those on unseen labels are kept apart.

    Attributes
    ----------
    cells, unseen : (dataset, row, n_bits) -> results, one per seed.
    datasets, rows : names, in the order of the tables.
    label_length_rows : rows whose code length is the number of labels.
    """

    def __init__(self, results: Iterable[Result]) -> None:
        self.cells: dict[Cell, list[Result]] = {}
        self.unseen: dict[Cell, list[Result]] = {}
        self.label_length_rows: set[str] = set()
        for result in sorted(results, key=lambda result: result.experiment.seed):
            experiment = result.experiment
            cells = self.unseen if experiment.unseen else self.cells
            cell = cells.setdefault((experiment.dataset, experiment.row, result.n_bits), [])
            if cell and cell[-1].experiment.seed == experiment.seed:
                raise InputError(
                    f"Two results for {experiment}: {cell[-1].experiment.name} and "
                    f"{experiment.name}. Their settings differ: keep them in different folders."
                )
            cell.append(result)
            if experiment.n_bits == "labels":
                self.label_length_rows.add(experiment.row)
        every = [*self.cells, *self.unseen]
        self.datasets = sorted({dataset for dataset, _, _ in every})
        self.rows = sorted({row for _, row, _ in every}, key=_table_order)

    def code_lengths(self, dataset: str) -> list[int]:
        """Return the code lengths that were run on a dataset, except one bit per label."""
        return sorted(
            {
                n_bits
                for data, row, n_bits in self.cells
                if data == dataset and row not in self.label_length_rows
            }
        )

    def plotted_bits(self, dataset: str) -> int:
        """Return the code length at which curves are drawn: 32 bits or the nearest."""
        lengths = self.code_lengths(dataset) or [b for data, _, b in self.cells if data == dataset]
        return min(lengths, key=lambda n_bits: (abs(n_bits - PLOTTED_BITS), n_bits))

    def plotted_cell(self, dataset: str, row: str) -> Cell:
        """Return the cell of a row that is drawn: at the plotted length or at its only length."""
        if row in self.label_length_rows:
            for cell in self.cells:
                if cell[:2] == (dataset, row):
                    return cell
        return dataset, row, self.plotted_bits(dataset)

    def maps(
        self, dataset: str, row: str, n_bits: int, direction: str, ranked_by: str | None = None
    ) -> list[float]:
        """Return the mAP of each seed; empty if there is no result."""
        row, ranked_by = self._trained_row(row, ranked_by)
        results = self.cells.get((dataset, row, n_bits), [])
        return [result.map(direction, ranked_by) for result in results]

    def average_precisions(
        self,
        dataset: str,
        row: str,
        code_lengths: Iterable[int],
        direction: str,
        ranked_by: str | None = None,
    ) -> dict[int, np.ndarray]:
        """Return seed -> (n_queries,) AP averaged over code lengths, for seeds that have all."""
        row, ranked_by = self._trained_row(row, ranked_by)
        by_length = [
            {
                result.experiment.seed: result.average_precisions(direction, ranked_by)
                for result in self.cells.get((dataset, row, n_bits), [])
            }
            for n_bits in code_lengths
        ]
        seeds = set.intersection(*map(set, by_length)) if by_length else set()
        return {
            seed: np.mean([aps[seed].astype(np.float64) for aps in by_length], axis=0)
            for seed in sorted(seeds)
        }

    def has(self, dataset: str, row: str) -> bool:
        """Return whether a row was run on a dataset."""
        row, _ = self._trained_row(row, None)
        return any((data, name) == (dataset, row) for data, name, _ in self.cells)

    def of_dataset(self, dataset: str) -> list[Result]:
        """Return all results on a dataset except those on unseen labels."""
        return [r for (data, _, _), cell in self.cells.items() if data == dataset for r in cell]

    def fixed_split(self, dataset: str) -> bool:
        """Return whether all seeds share one split because the dataset defines it."""
        results = self.of_dataset(dataset)
        seeds = {result.experiment.seed for result in results}
        return len(seeds) > 1 and len({r.facts["dataset"]["split"] for r in results}) == 1

    def seeds_with_mixed_splits(self, dataset: str) -> list[int]:
        """Return the seeds whose results use different splits and so cannot be compared."""
        splits: dict[int, set[str]] = {}
        for result in self.of_dataset(dataset):
            split = result.facts["dataset"]["split"]
            splits.setdefault(result.experiment.seed, set()).add(split)
        return sorted(seed for seed, used in splits.items() if len(used) > 1)

    def _trained_row(self, row: str, ranked_by: str | None) -> tuple[str, str | None]:
        """CHN-B needs no training: it is CHN ranked by the cosine of its continuous codes."""
        if row == "chn-b" and not any(name == row for _, name, _ in self.cells):
            return "chn", "cosine"
        return row, ranked_by


def title(row: str) -> str:
    """Return the printed name of a row.

    >>> title("chn-q"), title("chn-plus, query refinement"), title("another")
    ('CHN-Q', 'CHN-plus (query refinement)', 'another')
    """
    method, _, settings = row.partition(", ")
    name = NAMES.get(method, method)
    return f"{name} ({settings})" if settings else name


def _table_order(row: str) -> tuple[int, str]:
    """Sort rows by method, in the order of the paper."""
    names, method = list(NAMES), row.partition(",")[0]
    return (names.index(method) if method in names else len(names), row)
