"""Gathered: results by dataset, row and length, in the order in which tables show them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from corrhash.errors import InputError
from corrhash.experiments.results import Result

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
    "chn": "CHN",
    "chn-m": "CHN-M",
    "chn-i": "CHN-I",
    "chn-q": "CHN-Q",
    "chn-b": "CHN-B",
    "classifier": "classifier code",
}
"""What papers call the methods, in the order of the paper's tables."""

SHALLOW = ("cvh", "imh", "cmssh", "rahh", "scm", "scm-orth", "seph")
COMPARED = (*SHALLOW, "mmnn", "mmnn-pairs", "dcmh", "chn")
"""The hashing methods among which the paper ranks CHN."""

VARIANTS = ("chn-m", "chn-i", "chn-q", "chn", "chn-b")

Cell = tuple[str, str, int]
"""Dataset, row and length."""


class Gathered:
    """The results of a study; those on unseen labels are kept apart.

    Attributes
    ----------
    cells, unseen : (dataset, row, bits) -> results, one a seed.
    datasets, rows : names, in the order of the tables.
    own_length : rows whose length is the number of labels.
    """

    def __init__(self, results: Iterable[Result]) -> None:
        self.cells: dict[Cell, list[Result]] = {}
        self.unseen: dict[Cell, list[Result]] = {}
        self.own_length: set[str] = set()
        for result in sorted(results, key=lambda result: result.experiment.seed):
            experiment = result.experiment
            of = self.unseen if experiment.unseen else self.cells
            cell = of.setdefault((experiment.dataset, experiment.row, result.n_bits), [])
            if cell and cell[-1].experiment.seed == experiment.seed:
                raise InputError(
                    f"Two results are of {experiment}: {cell[-1].path.name} and "
                    f"{result.path.name}. Their settings differ: keep them in different folders."
                )
            cell.append(result)
            if experiment.n_bits == "labels":
                self.own_length.add(experiment.row)
        every = [*self.cells, *self.unseen]
        self.datasets = sorted({dataset for dataset, _, _ in every})
        self.rows = sorted({row for _, row, _ in every}, key=_place)

    def lengths(self, dataset: str) -> list[int]:
        """The lengths of codes that were run on a dataset, but for own lengths."""
        return sorted(
            {b for data, row, b in self.cells if data == dataset and row not in self.own_length}
        )

    def shown_length(self, dataset: str) -> int:
        """The length of which curves are drawn: 32 bits, or what is nearest."""
        lengths = self.lengths(dataset) or [b for data, _, b in self.cells if data == dataset]
        return min(lengths, key=lambda n_bits: (abs(n_bits - 32), n_bits))

    def maps(
        self, dataset: str, row: str, n_bits: int, direction: str, ranked_by: str | None = None
    ) -> list[float]:
        """MAP of each seed; empty if there is no result."""
        row, ranked_by = _source(row, ranked_by, self)
        found = self.cells.get((dataset, row, n_bits), [])
        return [result.map(direction, ranked_by) for result in found]

    def average_precisions(
        self,
        dataset: str,
        row: str,
        lengths: Iterable[int],
        direction: str,
        ranked_by: str | None = None,
    ) -> dict[int, np.ndarray]:
        """Seed -> (n_queries,) AP, the mean over lengths, of seeds that have them all."""
        row, ranked_by = _source(row, ranked_by, self)
        by_length = [
            {
                result.experiment.seed: result.average_precisions(direction, ranked_by)
                for result in self.cells.get((dataset, row, n_bits), [])
            }
            for n_bits in lengths
        ]
        seeds = set.intersection(*map(set, by_length)) if by_length else set()
        return {
            seed: np.mean([aps[seed].astype(np.float64) for aps in by_length], axis=0)
            for seed in sorted(seeds)
        }

    def has(self, dataset: str, row: str) -> bool:
        """Whether a row was run on a dataset; CHN-B is CHN before its scores are rounded."""
        row, _ = _source(row, None, self)
        return any((data, name) == (dataset, row) for data, name, _ in self.cells)

    def results(self, dataset: str) -> list[Result]:
        """All results on a dataset but for those on unseen labels."""
        return [r for (data, _, _), found in self.cells.items() if data == dataset for r in found]

    def fixed_split(self, dataset: str) -> bool:
        """Whether all seeds share one split: the dataset fixes it."""
        found = self.results(dataset)
        seeds = {result.experiment.seed for result in found}
        return len(seeds) > 1 and len({r.facts["dataset"]["split"] for r in found}) == 1

    def mixed_data(self, dataset: str) -> list[int]:
        """Seeds whose results rest on different splits, so that they must not be compared."""
        splits: dict[int, set[str]] = {}
        for result in self.results(dataset):
            facts = result.facts["dataset"]
            splits.setdefault(result.experiment.seed, set()).add(facts["split"])
        return sorted(seed for seed, found in splits.items() if len(found) > 1)


def title(row: str) -> str:
    """What a row is called in print.

    >>> title("chn-q"), title("chn, as published"), title("another")
    ('CHN-Q', 'CHN, as published', 'another')
    """
    method, comma, rest = row.partition(",")
    return f"{NAMES.get(method, method)}{comma}{rest}"


def _place(row: str) -> tuple[int, str]:
    """Rows of a method stand together, in the order of the paper."""
    names, method = list(NAMES), row.partition(",")[0]
    return (names.index(method) if method in names else len(names), row)


def _source(row: str, ranked_by: str | None, gathered: Gathered) -> tuple[str, str | None]:
    """CHN-B needs no training of its own: it is CHN ranked by the cosine of its scores."""
    if row == "chn-b" and not any(name == row for _, name, _ in gathered.cells):
        return "chn", "cosine"
    return row, ranked_by
