"""evaluate(): codes and labels in, Scores out, without ever holding the whole distance matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrhash.codes import Codes
from corrhash.kernels.stable_sums import stable_sums
from corrhash.metrics.average_precision import average_precision, divided
from corrhash.metrics.cosine_groups import rank_by_cosine
from corrhash.metrics.gains import Gains, Masks
from corrhash.metrics.hamming_groups import rank_by_distance, rank_in_stable_order
from corrhash.metrics.ndcg import ideal_groups, ndcg
from corrhash.metrics.partner_recall import partner_found, partner_rank
from corrhash.metrics.precision_recall import (
    RECALL_GRID,
    RECALL_STEPS,
    precision_at_recall,
    within_radius,
)
from corrhash.metrics.request import (
    Request,
    check_pair,
    check_ranks,
    check_untagged,
    relation_of,
)
from corrhash.metrics.scores import RadiusCurve, Scores, Ties
from corrhash.metrics.tied_groups import RankedSlice, TiedGroups
from corrhash.relevance import Labels, Similarity

PRECISION_RANKS = (1, *range(50, 1001, 50))
PARTNER_RANKS = (1, 5, 10)


def evaluate(
    queries: Codes | NDArray[Any],
    database: Codes | NDArray[Any],
    query_labels: Labels | None = None,
    database_labels: Labels | None = None,
    *,
    similarity: Similarity | None = None,
    untagged: ArrayLike | None = None,
    reading: str = "all",
    ties: Ties | None = None,
    ranks: Sequence[int] = PRECISION_RANKS,
    ndcg_at: Sequence[int] = (),
    threads: int | None = None,
) -> Scores:
    """Score the rankings of a database for all queries.

    An item is relevant if it shares a label with the query. Instead of labels, ``similarity`` may
    give judged pairs (rows are queries, columns database items); with neither, row i of the
    database is taken as the one partner of query i, and Recall@K is reported too.

    Parameters
    ----------
    queries, database : Codes, ranked by Hamming distance; or (n, d) arrays of real-valued scores,
        ranked by cosine.
    query_labels, database_labels : (n, n_classes) matrices of 0 and 1, dense or sparse.
    similarity : judged pairs in place of labels.
    untagged : (n_queries,) True for text queries without any known word: left out and counted.
    reading : what "MAP" means: ``all``, ``dcmh``, ``hashnet@R``, ``first@k``, ``possible@k`` or
        ``trec@k``.
    ties : ``expected`` over all orders of tied items (the default), ``stable`` by database row
        (the default of readings with a cut), or the bounds ``optimistic`` and ``pessimistic``.
    ranks : where to read off precision.
    ndcg_at : depths of NDCG; the gain is the number of shared labels.
    threads : how many to use; all cores if None. The numbers do not depend on it.

    Examples
    --------
    >>> database = Codes.from_signs([[1, 1], [1, -1], [-1, -1]])
    >>> queries = Codes.from_signs([[1, 1]])
    >>> scores = evaluate(queries, database, [[1, 0]], [[1, 0], [0, 1], [1, 0]])
    >>> round(scores.map, 4)  # relevant, not relevant, relevant: (1/1 + 2/3) / 2
    0.8333
    """
    queries, database = check_pair(queries, database)
    relation = relation_of(len(queries), len(database), query_labels, database_labels, similarity)
    used = check_untagged(untagged, len(queries))
    request = Request.of(
        reading,
        ties,
        ranks=check_ranks(ranks, "ranks", len(database)),
        ndcg_at=check_ranks(ndcg_at, "ndcg_at"),
        partners=query_labels is None and similarity is None,
        threads=threads,
    )
    kept, asked = queries, relation
    if not used.all():
        kept, asked = queries[used], relation.take(rows=used)
    gains = Gains(asked)
    if isinstance(kept, Codes) and request.sums_suffice and gains.masks is not None:
        numbers = _QueryNumbers.in_stable_order(kept, database, gains.masks, request)
    else:
        slices = _rankings(kept, database, gains, request)
        numbers = _QueryNumbers.join(_QueryNumbers.of(ranked, request) for ranked in slices)
    return _summarise(numbers, request, queries, database, used, asked)


def _rankings(queries: Any, database: Any, gains: Gains, request: Request) -> Iterator[RankedSlice]:
    """Rank the database for slices of the queries, with ties as requested."""
    stable = request.ties == "stable"
    if not isinstance(queries, Codes):
        slices = rank_by_cosine(queries, database, gains, merge_ties=not stable)
    elif stable:
        slices = rank_in_stable_order(queries, database, gains)
    else:
        graded = len(request.ndcg_at) > 0
        slices = rank_by_distance(queries, database, gains, graded, request.threads)
    if request.ties in ("expected", "stable"):
        return slices
    best = request.ties == "optimistic"
    return (ranked._replace(groups=ranked.groups.purified(best)) for ranked in slices)


@dataclass(frozen=True, eq=False)
class _QueryNumbers:
    """The numbers of single queries: every array has one row a query."""

    ap: NDArray[np.float64]
    n_relevant: NDArray[np.int64]
    empty_top: NDArray[np.bool_]
    precision: NDArray[np.float64]
    curve: NDArray[np.float64]
    radius: NDArray[np.float64]
    ndcg: NDArray[np.float64]
    partner: NDArray[np.float64]

    @classmethod
    def of(cls, ranked: RankedSlice, request: Request) -> _QueryNumbers:
        """Compute every metric for one slice of the queries."""
        groups, n = ranked.groups, len(ranked.groups.items)
        n_items = int(groups.items[0].sum())
        cut = np.array([min(request.reading.depth or n_items, n_items)])
        nothing = np.empty((n, 0))
        ndcgs, partner = [nothing], [nothing]
        if len(request.ndcg_at):
            ideal = ideal_groups(ranked.by_gain)
            ndcgs = [ndcg(groups, ideal, depth)[:, None] for depth in request.ndcg_at]
        if request.partners:
            among = np.minimum(PARTNER_RANKS, n_items)
            partner = [partner_found(groups, among), partner_rank(groups)[:, None]]
        return cls(
            ap=average_precision(groups, request.reading),
            n_relevant=groups.n_relevant,
            empty_top=groups.hits_within(cut)[:, 0] == 0,
            precision=groups.hits_within(request.ranks) / request.ranks,
            curve=precision_at_recall(groups),
            radius=nothing if ranked.by_distance is None else within_radius(ranked.by_distance),
            ndcg=np.concatenate(ndcgs, axis=1),
            partner=np.concatenate(partner, axis=1),
        )

    @classmethod
    def in_stable_order(
        cls, queries: Codes, database: Any, masks: Masks, request: Request
    ) -> _QueryNumbers:
        """The same numbers for ties in order of row, from sums that one compiled pass makes."""
        reading, n = request.reading, len(database)
        depth = min(reading.depth or n, n)
        ranks, places = np.unique([*request.ranks, depth], return_inverse=True)
        cut = (n, reading.depth or n) if reading.name == "first" else (depth, n)
        planes = queries.planes(), database.planes()
        sums = stable_sums(planes, queries.n_bits, masks, ranks, cut, RECALL_STEPS, request.threads)
        *_, within = hits = sums.hits[:, places].T
        by_distance = TiedGroups.of_counts(sums.counts.astype(np.int64))
        n_relevant = by_distance.n_relevant
        nothing = np.empty((len(queries), 0))
        return cls(
            ap=divided(sums.precisions, reading, n_relevant, within),
            n_relevant=n_relevant,
            empty_top=within == 0,
            precision=hits[:-1].T / request.ranks,
            curve=np.where(n_relevant[:, None] > 0, sums.curves, np.nan),
            radius=within_radius(by_distance),
            ndcg=nothing,
            partner=nothing,
        )

    @classmethod
    def join(cls, slices: Iterable[_QueryNumbers]) -> _QueryNumbers:
        """All slices, one below the other."""
        columns = zip(*(vars(part).values() for part in slices), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


def _summarise(
    numbers: _QueryNumbers,
    request: Request,
    queries: Any,
    database: Any,
    used: NDArray[np.bool_],
    asked: Similarity,
) -> Scores:
    """The means over the queries that have a relevant item, and the counts of those left out."""
    some = numbers.n_relevant > 0
    average_precisions = np.full(len(queries), np.nan)
    average_precisions[used] = numbers.ap
    codes = isinstance(queries, Codes)
    *recalls, _ = _means(numbers.partner) if request.partners else [0.0]
    return Scores(
        map=_means(numbers.ap[~np.isnan(numbers.ap), None])[0],
        average_precisions=average_precisions,
        precision_at=dict(
            zip(request.ranks.tolist(), _means(numbers.precision[some]), strict=True)
        ),
        pr_recall=RECALL_GRID.copy(),
        pr_precision=np.array(_means(numbers.curve[some])),
        radius=RadiusCurve(*np.array(_means(numbers.radius[some]))) if codes else None,
        ndcg_at=dict(zip(request.ndcg_at.tolist(), _means(numbers.ndcg[some]), strict=True)),
        recall_at=dict(zip(PARTNER_RANKS, recalls, strict=True)) if request.partners else None,
        median_rank=float(np.median(numbers.partner[:, -1])) if request.partners else None,
        reading=str(request.reading),
        ties=request.ties,
        ranked_by="hamming" if codes else "cosine",
        n_queries=len(queries),
        n_database=len(database),
        n_empty=int(np.count_nonzero(~some)),
        n_empty_top=int(np.count_nonzero(numbers.empty_top)) if request.reading.depth else None,
        n_untagged=int(np.count_nonzero(~used)),
        n_unknown=asked.n_unknown,
        n_distinct_queries=queries.n_distinct() if codes else None,
        n_distinct_database=database.n_distinct() if codes else None,
    )


def _means(columns: NDArray[np.float64]) -> Any:
    """The mean of each column, as a list; NaN if there is no row."""
    if not len(columns):
        return np.full(columns.shape[1:], np.nan).tolist()
    return columns.mean(axis=0).tolist()
