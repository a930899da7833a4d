"""What evaluate() is asked for, checked: every mistake is told before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrhash.codes import Codes, check_same_bits
from corrhash.errors import InputError
from corrhash.metrics.average_precision import Reading
from corrhash.metrics.cosine_groups import check_scores
from corrhash.metrics.scores import Ties
from corrhash.relevance import Labels, Similarity, as_labels


@dataclass(frozen=True)
class Request:
    """What is to be computed, and how."""

    reading: Reading
    ties: Ties
    ranks: NDArray[np.int64]
    ndcg_at: NDArray[np.int64]
    partners: bool
    threads: int | None

    @classmethod
    def of(cls, reading: str, ties: Any, **rest: Any) -> Request:
        """A request whose parts fit together; the tie rule is by default that of the reading."""
        parsed = Reading.parse(reading)
        if ties is None:
            ties = "expected" if parsed.depth is None else "stable"
        if ties not in get_args(Ties):
            raise InputError(f"There is no tie rule {ties!r}. Choose {', '.join(get_args(Ties))}.")
        if parsed.name == "first" and ties == "expected":
            raise InputError(
                f"The reading {parsed} has no closed form over ties. "
                "Use ties='stable', 'optimistic' or 'pessimistic'."
            )
        request = cls(parsed, ties, **rest)
        if len(request.ndcg_at) and ties in ("optimistic", "pessimistic"):
            raise InputError(
                f"NDCG has graded gains, for which ties={ties!r} is not defined. "
                "Use ties='expected' or 'stable', or leave ndcg_at out."
            )
        return request

    @property
    def sums_suffice(self) -> bool:
        """Whether sums over stable rankings tell all that is asked: no gains, no partners."""
        return self.ties == "stable" and not len(self.ndcg_at) and not self.partners


def check_pair(queries: Any, database: Any) -> tuple[Any, Any]:
    """Both Codes or both real-valued, of one length, and neither empty."""
    if isinstance(queries, Codes) != isinstance(database, Codes):
        raise InputError(
            "Queries and database must both be Codes, or both real-valued scores. "
            f"Got {type(queries).__name__} and {type(database).__name__}."
        )
    if isinstance(queries, Codes):
        check_same_bits(queries.n_bits, database.n_bits)
    else:
        queries = check_scores(queries, "queries")
        database = check_scores(database, "database")
        if queries.shape[1] != database.shape[1]:
            raise InputError(
                "Scores of different lengths cannot be compared. "
                f"Got {queries.shape[1]} and {database.shape[1]}. Use one model for both."
            )
    for name, side in (("queries", queries), ("database", database)):
        if len(side) == 0:
            raise InputError(f"There is nothing to evaluate: {name} has 0 rows. Check the split.")
    return queries, database


def relation_of(
    n_queries: int,
    n_database: int,
    query_labels: Labels | None,
    database_labels: Labels | None,
    similarity: Similarity | None,
) -> Similarity:
    """Who is relevant to whom: given, by shared labels, or row i to row i."""
    if (query_labels is None) != (database_labels is None):
        raise InputError("Labels are needed for queries and database alike. Got one of the two.")
    if similarity is None and query_labels is not None:
        similarity = Similarity.from_labels(
            as_labels(query_labels, "query_labels"), as_labels(database_labels, "database_labels")
        )
    elif similarity is None:
        if n_queries != n_database:
            raise InputError(
                "Without labels, row i of the database is the partner of query i. "
                f"Got {n_queries} queries and {n_database} database items. "
                "Give labels or a similarity, or as many items as queries."
            )
        similarity = Similarity.partners(n_queries)
    elif query_labels is not None:
        raise InputError("Got both labels and a similarity. Give one of the two.")
    if similarity.shape != (n_queries, n_database):
        raise InputError(
            f"There are {n_queries} queries and {n_database} database items, but relevance is "
            f"given for {similarity.shape[0]} and {similarity.shape[1]}. "
            "Give one row of labels for each code."
        )
    return similarity


def check_untagged(untagged: ArrayLike | None, n_queries: int) -> NDArray[np.bool_]:
    """(n_queries,) which queries are used."""
    if untagged is None:
        return np.ones(n_queries, dtype=bool)
    mask = np.asarray(untagged, dtype=bool)
    if mask.shape != (n_queries,):
        raise InputError(
            f"untagged must have one entry a query: ({n_queries},). Got shape {mask.shape}."
        )
    if mask.all():
        raise InputError(
            f"None of the {n_queries} text queries has a known word, so there is nothing to "
            "evaluate. Check that queries and training use the same vocabulary."
        )
    return ~mask


def check_ranks(ranks: Sequence[int], name: str, most: int | None = None) -> NDArray[np.int64]:
    """Ranks from 1 up; those that the database does not reach are left out."""
    table = np.asarray(ranks)
    if table.ndim != 1 or np.any(table < 1) or np.any(table != np.trunc(table)):
        raise InputError(f"{name} must be a list of whole numbers from 1 up. Got {ranks!r}.")
    table = table.astype(np.int64)
    return table if most is None else table[table <= most]
