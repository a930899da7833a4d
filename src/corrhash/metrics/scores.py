"""Scores: how good one direction of retrieval is, with the choices that the numbers rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from corrhash.metrics.average_precision import Reading

Ties = Literal["expected", "stable", "optimistic", "pessimistic"]


@dataclass(frozen=True, eq=False)
class RadiusCurve:
    """What a look-up of all codes within a Hamming radius returns, for radius 0 to ``n_bits``.

    Attributes
    ----------
    precision : (n_bits + 1,) mean precision; a query that retrieves nothing counts 0.
    recall : (n_bits + 1,) mean recall.
    nothing : (n_bits + 1,) share of queries that retrieve nothing.
    """

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    nothing: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scores:
    """The numbers of one direction, made by :func:`corrhash.metrics.evaluate`.

    Means run over the queries that have a relevant item in the database; ``map`` follows its
    reading. Where queries and database are real-valued, rankings are by cosine and what only codes
    have (``radius``, the numbers of distinct codes) is None.

    Attributes
    ----------
    map : mean average precision.
    average_precisions : (n_queries,) AP of each query, NaN where the query is left out.
    precision_at : rank -> precision among the first ``rank`` items, for ranks that the database
        has.
    pr_recall, pr_precision : the precision-recall curve along the ranking, recall 0, .05, ..., 1.
    radius : precision and recall within each Hamming radius.
    ndcg_at : depth -> NDCG, for the depths asked for.
    recall_at, median_rank : share of partners found among the first 1, 5, 10, and their median
        rank, where pairs carry no labels; else None.
    reading, ties, ranked_by : what "MAP" means here, how ties count, ``hamming`` or ``cosine``.
    n_queries, n_database : sizes; ``n_queries`` counts all that were given.
    n_empty : queries without a relevant item in the database.
    n_empty_top : queries without one within the cut, where the reading has a cut; else None.
    n_untagged : queries left out because they have no known word.
    n_unknown : pairs of query and item that nobody judged; they count as not relevant.
    n_distinct_queries, n_distinct_database : different codes; few of them is a collapse.
    """

    map: float
    average_precisions: NDArray[np.float64]
    precision_at: Mapping[int, float]
    pr_recall: NDArray[np.float64]
    pr_precision: NDArray[np.float64]
    radius: RadiusCurve | None
    ndcg_at: Mapping[int, float]
    recall_at: Mapping[int, float] | None
    median_rank: float | None
    reading: str
    ties: Ties
    ranked_by: Literal["hamming", "cosine"]
    n_queries: int
    n_database: int
    n_empty: int
    n_empty_top: int | None
    n_untagged: int
    n_unknown: int
    n_distinct_queries: int | None
    n_distinct_database: int | None

    def __post_init__(self) -> None:
        for name in ("average_precisions", "pr_recall", "pr_precision"):
            getattr(self, name).flags.writeable = False
        for name in ("precision_at", "ndcg_at", "recall_at"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else MappingProxyType(value))

    @property
    def depth(self) -> int | None:
        """The cut of the reading; None for the whole ranking."""
        return Reading.parse(self.reading).depth

    @property
    def precision_within_2(self) -> float | None:
        """Mean precision within Hamming radius 2 (within radius 1 for codes of one bit)."""
        return None if self.radius is None else float(self.radius.precision[:3][-1])

    def as_dict(self) -> dict[str, Any]:
        """All numbers but the APs of single queries, in a form that JSON can hold."""
        names = [f.name for f in fields(self) if f.name != "average_precisions"]
        names += ["depth", "precision_within_2"]
        return {name: _plain(getattr(self, name)) for name in names}

    def __repr__(self) -> str:
        used = np.count_nonzero(~np.isnan(self.average_precisions))
        return (
            f"Scores(map={self.map:.4f}, reading={self.reading!r}, ties={self.ties!r}, "
            f"{used:,} of {self.n_queries:,} queries against {self.n_database:,})"
        )


def _plain(value: Any) -> Any:
    """Arrays as lists, curves as dictionaries, NaN as None."""
    if isinstance(value, RadiusCurve):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, np.ndarray):
        return [_plain(x) for x in value.tolist()]
    if isinstance(value, Mapping):
        return {key: _plain(x) for key, x in value.items()}
    return None if isinstance(value, float) and np.isnan(value) else value
