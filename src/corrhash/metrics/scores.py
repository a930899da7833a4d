"""Scores: the metrics of one retrieval direction and the protocol they follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from corrhash.metrics.average_precision import MapDefinition

Ties = Literal["expected", "stable", "optimistic", "pessimistic"]


@dataclass(frozen=True, eq=False)
class RadiusCurve:
    """Metrics of hash lookup: all codes within Hamming radius 0, 1, ..., ``n_bits``.

    Attributes
    ----------
    precision : (n_bits + 1,) mean precision; a query with an empty result counts 0.
    recall : (n_bits + 1,) mean recall.
    empty_rate : (n_bits + 1,) share of queries with an empty result.
    """

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    empty_rate: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scores:
    """Metrics of one retrieval direction, as :func:`corrhash.metrics.evaluate` returns them.

    Means are over the queries with a relevant item in the database; ``map`` follows its definition.
    Rankings by cosine have no ``radius`` and no numbers of distinct codes: these are None.

    Attributes
    ----------
    map : mean average precision.
    average_precisions : (n_queries,) AP of each query, NaN for excluded queries.
    precision_at : k -> precision@k, for ranks up to the size of the database.
    pr_recall, pr_precision : precision-recall curve of the ranking at recall 0, .05, ..., 1.
    radius : precision and recall of hash lookup within each Hamming radius.
    ndcg_at : k -> NDCG@k, for the requested cut-offs.
    recall_at, median_rank : Recall@1, 5, 10 and median rank of the paired sample; None if relevance
        is given by labels or judgments.
    definition, ties, ranked_by : mAP definition; tie rule; ``hamming`` or ``cosine``.
    n_queries, n_database : number of queries, excluded ones included, and of database items.
    n_without_relevant : queries without a relevant item in the database.
    n_without_relevant_in_top : queries without a relevant item above the cut-off; None if the
        definition has none.
    n_empty_text : queries excluded because they have no known term.
    n_unjudged : pairs of query and item without a relevance judgment, counted as not relevant.
    n_distinct_queries, n_distinct_database : number of distinct codes; low if codes collapsed.
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
    definition: str
    ties: Ties
    ranked_by: Literal["hamming", "cosine"]
    n_queries: int
    n_database: int
    n_without_relevant: int
    n_without_relevant_in_top: int | None
    n_empty_text: int
    n_unjudged: int
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
        """The cut-off of the mAP definition; None if it covers the whole ranking."""
        return MapDefinition.parse(self.definition).depth

    @property
    def precision_within_2(self) -> float | None:
        """Mean precision within Hamming radius 2 (radius 1 for codes of one bit)."""
        return None if self.radius is None else float(self.radius.precision[:3][-1])

    def as_dict(self) -> dict[str, Any]:
        """Return everything but ``average_precisions`` as JSON-serializable values."""
        names = [f.name for f in fields(self) if f.name != "average_precisions"]
        names += ["depth", "precision_within_2"]
        return {name: _plain(getattr(self, name)) for name in names}

    def __repr__(self) -> str:
        included = np.count_nonzero(~np.isnan(self.average_precisions))
        return (
            f"Scores(map={self.map:.4f}, definition={self.definition!r}, ties={self.ties!r}, "
            f"{included:,} of {self.n_queries:,} queries against {self.n_database:,})"
        )


def _plain(value: Any) -> Any:
    """Convert arrays to lists, curves to dictionaries and NaN to None."""
    if isinstance(value, RadiusCurve):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, np.ndarray):
        return [_plain(x) for x in value.tolist()]
    if isinstance(value, Mapping):
        return {key: _plain(x) for key, x in value.items()}
    return None if isinstance(value, float) and np.isnan(value) else value
