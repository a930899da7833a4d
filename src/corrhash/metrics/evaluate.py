"""evaluate(): compute retrieval metrics from codes and labels, without the full distance matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrhash.codes import Codes, check_same_bits
from corrhash.errors import InputError, ParameterError
from corrhash.kernels.stable_sums import stable_sums
from corrhash.metrics.average_precision import (
    MapDefinition,
    average_precision,
    divide_precision_sums,
)
from corrhash.metrics.curves import (
    RECALL_LEVELS,
    RECALL_STEPS,
    ideal_groups,
    ndcg,
    paired_rank,
    precision_at_recall,
    radius_curves,
)
from corrhash.metrics.scores import RadiusCurve, Scores, Ties
from corrhash.metrics.tied_groups import (
    Gains,
    Masks,
    RankedSlice,
    TiedGroups,
    rank_by_cosine,
    rank_by_distance,
    rank_in_stable_order,
)
from corrhash.similarity import Labels, Similarity, as_labels

PRECISION_RANKS = (1, 10, *range(50, 1001, 50))
RECALL_RANKS = (1, 5, 10)
"""The k of Recall@k for paired samples."""


def evaluate(
    queries: Codes | NDArray[Any],
    database: Codes | NDArray[Any],
    query_labels: Labels | None = None,
    database_labels: Labels | None = None,
    *,
    similarity: Similarity | None = None,
    empty_text: ArrayLike | None = None,
    definition: str = "all",
    ties: Ties | None = None,
    ranks: Sequence[int] = PRECISION_RANKS,
    ndcg_at: Sequence[int] = (),
    threads: int | None = None,
) -> Scores:
    """Rank a database for every query and compute retrieval metrics.

    An item is relevant if it shares a label with the query. Instead of labels, pass relevance
    judgments as ``similarity``. With neither, database row i is the paired sample of query i and
    its only relevant item; Recall@k and the median rank are computed too.

    Parameters
    ----------
    queries, database : Codes, ranked by Hamming distance; or (n, d) arrays of continuous codes,
        ranked by cosine similarity.
    query_labels, database_labels : (n, n_classes) matrices of 0 and 1, dense or sparse.
    similarity : relevance judgments; rows are queries, columns are database items.
    empty_text : (n_queries,) boolean mask of text queries without a known term. They are excluded
        from all means and counted in ``n_empty_text``.
    definition : mAP definition: ``all``, ``dcmh``, ``hashnet@R``, ``first@k``, ``possible@k`` or
        ``trec@k``; see :data:`corrhash.metrics.MAP_DEFINITIONS`.
    ties : ``expected`` averages over all orders of tied items and is the default. ``stable`` ranks
        ties by database row and is the default of definitions with a cut-off. ``optimistic`` and
        ``pessimistic`` are the bounds: relevant items first or last.
    ranks : ranks k of precision@k; those beyond the size of the database are dropped.
    ndcg_at : cut-offs of NDCG, whose gain is the number of shared labels.
    threads : number of threads, all cores if None. The results do not depend on it.

    Examples
    --------
    >>> database = Codes.from_signs([[1, 1], [1, -1], [-1, -1]])
    >>> queries = Codes.from_signs([[1, 1]])
    >>> scores = evaluate(queries, database, [[1, 0]], [[1, 0], [0, 1], [1, 0]])
    >>> round(scores.map, 4)  # relevant, not relevant, relevant: (1/1 + 2/3) / 2
    0.8333
    """
    queries, database = _check_codes(queries, database)
    paired = query_labels is None and similarity is None
    relevance = _relevance(len(queries), len(database), query_labels, database_labels, similarity)
    included = _included_queries(empty_text, len(queries))
    options = _Options.parse(
        definition,
        ties,
        ranks=_check_ranks(ranks, "ranks", len(database)),
        ndcg_at=_check_ranks(ndcg_at, "ndcg_at"),
        paired=paired,
        threads=threads,
    )
    ranked_queries = queries
    if not included.all():
        ranked_queries, relevance = queries[included], relevance.take(rows=included)
    gains = Gains(relevance)
    if isinstance(ranked_queries, Codes) and options.sums_suffice and gains.masks is not None:
        per_query = _PerQuery.from_stable_sums(ranked_queries, database, gains.masks, options)
    else:
        slices = _rank(ranked_queries, database, gains, options)
        per_query = _PerQuery.join(_PerQuery.from_ranking(ranked, options) for ranked in slices)
    return _summarize(per_query, options, queries, database, included, relevance.n_unjudged)


@dataclass(frozen=True)
class _Options:
    """Validated options of :func:`evaluate`."""

    definition: MapDefinition
    ties: Ties
    ranks: NDArray[np.int64]
    ndcg_at: NDArray[np.int64]
    paired: bool
    threads: int | None

    @classmethod
    def parse(cls, definition: str, ties: Any, **rest: Any) -> _Options:
        """Check options against each other and fill in the default tie rule."""
        parsed = MapDefinition.parse(definition)
        if ties is None:
            ties = "expected" if parsed.depth is None else "stable"
        if ties not in get_args(Ties):
            raise InputError(f"Unknown tie rule {ties!r}. Valid: {', '.join(get_args(Ties))}.")
        if parsed.name == "first" and ties == "expected":
            raise ParameterError(
                "ties",
                f"must be stable, optimistic or pessimistic for the mAP definition {parsed}, which "
                f"has no closed form over ties; got {ties!r}.",
            )
        options = cls(parsed, ties, **rest)
        if len(options.ndcg_at) and ties in ("optimistic", "pessimistic"):
            raise InputError(
                f"ties={ties!r} is not defined for the graded gains of NDCG. "
                "Use ties='expected' or 'stable', or omit ndcg_at."
            )
        return options

    @property
    def sums_suffice(self) -> bool:
        """Whether sums over stable rankings are enough to compute all requested metrics."""
        return self.ties == "stable" and not len(self.ndcg_at) and not self.paired


def _check_codes(queries: Any, database: Any) -> tuple[Any, Any]:
    """Check that both are Codes or both arrays, of one code length, and not empty."""
    if isinstance(queries, Codes) != isinstance(database, Codes):
        raise InputError(
            "queries and database must both be Codes or both be arrays of continuous codes, "
            f"got {type(queries).__name__} and {type(database).__name__}."
        )
    if isinstance(queries, Codes):
        check_same_bits(queries.n_bits, database.n_bits)
    else:
        queries = _check_continuous(queries, "queries")
        database = _check_continuous(database, "database")
        if queries.shape[1] != database.shape[1]:
            raise InputError(
                "queries and database must have the same number of columns, "
                f"got {queries.shape[1]} and {database.shape[1]}. Use one model for both."
            )
    for name, codes in (("queries", queries), ("database", database)):
        if len(codes) == 0:
            raise InputError(f"{name} must have at least one row, got 0. Check the split.")
    return queries, database


def _check_continuous(codes: ArrayLike, name: str) -> NDArray[Any]:
    """Convert to a 2-D array and check that it is numeric and finite."""
    array = np.asarray(codes)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise InputError(
            f"{name} must be Codes or an (n, n_bits) array of continuous codes, "
            f"got shape {array.shape} and dtype {array.dtype}."
        )
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise InputError(f"{name} must be finite, but row {row} is not. Has training diverged?")
    return array


def _relevance(
    n_queries: int,
    n_database: int,
    query_labels: Labels | None,
    database_labels: Labels | None,
    similarity: Similarity | None,
) -> Similarity:
    """Return the relevance of database items to queries: given, from labels, or row i to row i."""
    if (query_labels is None) != (database_labels is None):
        raise InputError("Pass both query_labels and database_labels, or neither. Got one.")
    if similarity is None and query_labels is not None:
        similarity = Similarity.from_labels(
            as_labels(query_labels, "query_labels"), as_labels(database_labels, "database_labels")
        )
    elif similarity is None:
        if n_queries != n_database:
            raise InputError(
                "Without labels, queries and database must be paired row by row, "
                f"got {n_queries} queries and {n_database} database items. "
                "Pass labels or a similarity."
            )
        similarity = Similarity.paired(n_queries)
    elif query_labels is not None:
        raise InputError("Pass either labels or a similarity, not both.")
    if similarity.shape != (n_queries, n_database):
        raise InputError(
            f"Labels or similarity must cover {n_queries} queries and {n_database} database items, "
            f"got {similarity.shape[0]} and {similarity.shape[1]}."
        )
    return similarity


def _included_queries(empty_text: ArrayLike | None, n_queries: int) -> NDArray[np.bool_]:
    """(n_queries,) True for queries that have a known term."""
    if empty_text is None:
        return np.ones(n_queries, dtype=bool)
    mask = np.asarray(empty_text, dtype=bool)
    if mask.shape != (n_queries,):
        raise InputError(f"empty_text must have shape ({n_queries},), got {mask.shape}.")
    if mask.all():
        raise InputError(
            f"None of the {n_queries} text queries has a known term. "
            "Check that queries and training data use the same vocabulary."
        )
    return ~mask


def _check_ranks(ranks: Sequence[int], name: str, most: int | None = None) -> NDArray[np.int64]:
    """Check that ranks are positive integers, and drop those above ``most``."""
    array = np.asarray(ranks)
    if array.ndim != 1 or np.any(array < 1) or np.any(array != np.trunc(array)):
        raise InputError(f"{name} must be a list of positive integers, got {ranks!r}.")
    array = array.astype(np.int64)
    return array if most is None else array[array <= most]


def _rank(queries: Any, database: Any, gains: Gains, options: _Options) -> Iterator[RankedSlice]:
    """Rank the database for slices of the queries under the requested tie rule."""
    stable = options.ties == "stable"
    if not isinstance(queries, Codes):
        slices = rank_by_cosine(queries, database, gains, merge_ties=not stable)
    elif stable:
        slices = rank_in_stable_order(queries, database, gains)
    else:
        graded = len(options.ndcg_at) > 0
        slices = rank_by_distance(queries, database, gains, graded, options.threads)
    if options.ties in ("expected", "stable"):
        return slices
    relevant_first = options.ties == "optimistic"
    return (ranked._replace(groups=ranked.groups.split_ties(relevant_first)) for ranked in slices)


@dataclass(frozen=True, eq=False)
class _PerQuery:
    """Metrics per query: every array has one row per query."""

    ap: NDArray[np.float64]
    n_relevant: NDArray[np.int64]
    none_in_top: NDArray[np.bool_]
    precision: NDArray[np.float64]
    pr_curve: NDArray[np.float64]
    radius: NDArray[np.float64]
    ndcg: NDArray[np.float64]
    recall: NDArray[np.float64]
    paired_rank: NDArray[np.float64]

    @classmethod
    def from_ranking(cls, ranked: RankedSlice, options: _Options) -> _PerQuery:
        """Compute every metric for a slice of the queries."""
        groups, n_queries = ranked.groups, len(ranked.groups.items)
        n_items = int(groups.items[0].sum())
        depth = np.array([min(options.definition.depth or n_items, n_items)])
        ndcgs = np.empty((n_queries, 0))
        if len(options.ndcg_at):
            ideal = ideal_groups(ranked.by_gain)
            ndcgs = np.stack([ndcg(groups, ideal, k) for k in options.ndcg_at], axis=1)
        recall = np.empty((n_queries, 0))
        if options.paired:
            recall = groups.hits_within(np.minimum(RECALL_RANKS, n_items))
        return cls(
            ap=average_precision(groups, options.definition),
            n_relevant=groups.n_relevant,
            none_in_top=groups.hits_within(depth)[:, 0] == 0,
            precision=groups.hits_within(options.ranks) / options.ranks,
            pr_curve=precision_at_recall(groups),
            radius=(
                np.empty((n_queries, 0))
                if ranked.by_distance is None
                else radius_curves(ranked.by_distance)
            ),
            ndcg=ndcgs,
            recall=recall,
            paired_rank=paired_rank(groups) if options.paired else np.empty(0),
        )

    @classmethod
    def from_stable_sums(
        cls, queries: Codes, database: Any, masks: Masks, options: _Options
    ) -> _PerQuery:
        """Compute the same metrics for ``ties="stable"`` from sums of one compiled pass."""
        definition, n = options.definition, len(database)
        depth = min(definition.depth or n, n)
        ranks, columns = np.unique([*options.ranks, depth], return_inverse=True)
        cut = (n, definition.depth or n) if definition.name == "first" else (depth, n)
        planes = queries.planes(), database.planes()
        sums = stable_sums(planes, queries.n_bits, masks, ranks, cut, RECALL_STEPS, options.threads)
        *_, hits_in_top = hits = sums.hits[:, columns].T
        by_distance = TiedGroups.from_counts(sums.counts.astype(np.int64))
        n_relevant = by_distance.n_relevant
        return cls(
            ap=divide_precision_sums(sums.precisions, definition, n_relevant, hits_in_top),
            n_relevant=n_relevant,
            none_in_top=hits_in_top == 0,
            precision=hits[:-1].T / options.ranks,
            pr_curve=np.where(n_relevant[:, None] > 0, sums.curves, np.nan),
            radius=radius_curves(by_distance),
            ndcg=np.empty((len(queries), 0)),
            recall=np.empty((len(queries), 0)),
            paired_rank=np.empty(0),
        )

    @classmethod
    def join(cls, slices: Iterable[_PerQuery]) -> _PerQuery:
        """Concatenate slices of the queries."""
        columns = zip(*(vars(part).values() for part in slices), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


def _summarize(
    per_query: _PerQuery,
    options: _Options,
    queries: Any,
    database: Any,
    included: NDArray[np.bool_],
    n_unjudged: int,
) -> Scores:
    """Average over the queries with a relevant item, and count those without."""
    answerable = per_query.n_relevant > 0
    average_precisions = np.full(len(queries), np.nan)
    average_precisions[included] = per_query.ap
    is_codes = isinstance(queries, Codes)
    precision = _means(per_query.precision[answerable])
    ndcgs = _means(per_query.ndcg[answerable])
    recall_at = median_rank = n_none_in_top = None
    if options.paired:
        recall_at = dict(zip(RECALL_RANKS, _means(per_query.recall), strict=True))
        median_rank = float(np.median(per_query.paired_rank))
    if options.definition.depth:
        n_none_in_top = int(np.count_nonzero(per_query.none_in_top))
    return Scores(
        map=_means(per_query.ap[~np.isnan(per_query.ap), None])[0],
        average_precisions=average_precisions,
        precision_at=dict(zip(options.ranks.tolist(), precision, strict=True)),
        pr_recall=RECALL_LEVELS.copy(),
        pr_precision=np.array(_means(per_query.pr_curve[answerable])),
        radius=(RadiusCurve(*np.array(_means(per_query.radius[answerable]))) if is_codes else None),
        ndcg_at=dict(zip(options.ndcg_at.tolist(), ndcgs, strict=True)),
        recall_at=recall_at,
        median_rank=median_rank,
        definition=str(options.definition),
        ties=options.ties,
        ranked_by="hamming" if is_codes else "cosine",
        n_queries=len(queries),
        n_database=len(database),
        n_without_relevant=int(np.count_nonzero(~answerable)),
        n_without_relevant_in_top=n_none_in_top,
        n_empty_text=int(np.count_nonzero(~included)),
        n_unjudged=n_unjudged,
        n_distinct_queries=queries.n_distinct() if is_codes else None,
        n_distinct_database=database.n_distinct() if is_codes else None,
    )


def _means(columns: NDArray[np.float64]) -> Any:
    """Return the mean of each column as a list, NaN if there are no rows."""
    if not len(columns):
        return np.full(columns.shape[1:], np.nan).tolist()
    return columns.mean(axis=0).tolist()
