"""Calibration: from the distance or cosine of a match to the probability that it is relevant.

A match is relevant if it shares a label with the query. For each direction, such as text->image,
and for each measure that a search ranks by, isotonic regression fits the share of relevant items as
a monotone function of the measure, on validation queries and items that were not trained on: the
codes of training items are memorized and would promise too much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash._model_files import AGAIN, Keys, check_keys, read_json, write_json
from corrhash.codes import Codes, unit_rows
from corrhash.datasets.base import RetrievalSplit, is_empty_text
from corrhash.errors import InputError
from corrhash.methods.base import Hasher
from corrhash.similarity import Similarity

CALIBRATION_FILE = "calibration.json"
FORMAT = "corrhash calibration 1"
KEYS: Keys = {"relevance": str, "directions": dict}
DIRECTION_KEYS: Keys = {
    **{"n_queries": int, "n_relevant": int, "base_rate": float, "error": float, "tables": dict},
}

DIRECTIONS = tuple("->".join(pair) for pair in product(("image", "text"), repeat=2))
DISTANCES = ("query distance", "distance")
"""Hamming distance of a query's code and an item's, and of two items. Some methods refine the codes
of queries, so that the two are distributed differently."""

COSINES = ("query cosine", "cosine")
"""Cosine of a query's continuous code and an item's signs, and of two continuous codes."""

MEASURES = (*DISTANCES, *COSINES)
COSINE_GRID = np.linspace(-1, 1, 201)
"""Cosines that tables have probabilities for; others are interpolated."""

MIN_QUERIES, MIN_RELEVANT = 100, 200
"""Validation queries and relevant pairs that a direction needs."""

MAX_QUERIES, MAX_ITEMS = 1000, 5000
"""Validation queries, and items that they are compared with."""

PRIOR = 10
"""Pairs at the base rate that are added to each row of a table, so that a few pairs do not give
certainty."""

N_RESULTS = 100
"""Nearest items of each query that the expected calibration error is measured on."""

N_BINS = 10
DIGITS = 5


@dataclass(frozen=True, eq=False)
class DirectionCalibration:
    """The probabilities of one direction.

    Parameters
    ----------
    tables : by measure, the probability at each distance from 0 to ``n_bits``, or at each cosine
        of ``COSINE_GRID``.
    n_queries, n_relevant : validation queries, and their relevant pairs.
    base_rate : share of relevant pairs among all pairs.
    error : expected calibration error on the 100 nearest items, by ``query cosine``, of half of
        the queries, with a table fitted to the other half.
    """

    tables: Mapping[str, NDArray[np.float64]]
    n_queries: int
    n_relevant: int
    base_rate: float
    error: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """Probabilities that matches are relevant, by direction; stored in a model folder.

    Parameters
    ----------
    directions : by name, such as ``text->image``; those with too few validation pairs are missing.
    relevance : what a relevant match shares with the query: ``labels`` or ``pseudo-labels``.
    """

    directions: Mapping[str, DirectionCalibration]
    relevance: str = "labels"

    def probabilities(
        self, direction: str, measure: str, values: NDArray[Any]
    ) -> NDArray[np.float64]:
        """Return the probability at each distance or cosine of a calibrated direction."""
        table = self.directions[direction].tables[measure]
        return np.interp(values, COSINE_GRID, table) if measure in COSINES else table[values]

    def save(self, folder: Path) -> None:
        """Write the calibration to a JSON file in a model folder."""
        directions = {}
        for name, one in self.directions.items():
            tables = {measure: table.tolist() for measure, table in one.tables.items()}
            directions[name] = {**asdict(replace(one, tables={})), "tables": tables}
        content = {"relevance": self.relevance, "directions": directions}
        write_json(folder, CALIBRATION_FILE, FORMAT, content)

    @classmethod
    def load(cls, folder: Path, n_bits: int) -> Calibration | None:
        """Read what :meth:`save` wrote; None if the model is not calibrated."""
        try:
            content = read_json(folder, CALIBRATION_FILE, FORMAT, KEYS)
        except FileNotFoundError:
            return None
        where, directions = str(folder / CALIBRATION_FILE), {}
        known = {name: dict for name in content["directions"] if name in DIRECTIONS}
        for name, value in check_keys(content["directions"], known, where).items():
            one = check_keys(value, DIRECTION_KEYS, where)
            tables = check_keys(one["tables"], dict.fromkeys(MEASURES, list), where)
            checked = {
                key: _check_table(table, key, n_bits, where) for key, table in tables.items()
            }
            directions[name] = DirectionCalibration(**{**one, "tables": checked})
        return cls(directions, content["relevance"])


def _table_length(measure: str, n_bits: int) -> int:
    return len(COSINE_GRID) if measure in COSINES else n_bits + 1


def _check_table(values: list[Any], measure: str, n_bits: int, where: str) -> NDArray[np.float64]:
    """Return a table after checking its length, range and order."""
    length = _table_length(measure, n_bits)
    try:
        table = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    rising = table if measure in COSINES else table[::-1]
    # Comparisons with NaN are false.
    in_order = bool(np.all(rising[1:] >= rising[:-1]) and np.all((table >= 0) & (table <= 1)))
    if table.shape != (length,) or not in_order:
        raise InputError(
            f"{where} must have {length} monotone probabilities for {measure!r}. {AGAIN}"
        )
    return table


def calibrate(hasher: Hasher, split: RetrievalSplit, relevance: str = "labels") -> Calibration:
    """Calibrate a fitted hasher on the labelled validation items of a split.

    They are compared with items that are neither queries nor training items, up to 5,000 of them.
    The share of relevant items among these should be that of the collections to search.

    Parameters
    ----------
    hasher : fitted on ``split.train``.
    split : a dataset with labels.
    relevance : the kind of these labels: ``labels`` or ``pseudo-labels``.

    Raises
    ------
    InputError
        If no direction has at least 100 validation queries and 200 relevant pairs.
    """
    if split.pairs.labels is None:
        raise InputError(
            "Matches have no probability of relevance, because the dataset has no labels. With one "
            "relevant item per query, the probability would depend on the size of a collection. "
            "Add labels, or train with --supervision pseudo-labels."
        )
    rows, n_queries = _held_out(split)
    items = split.pairs.take(rows)
    assert items.labels is not None
    relevant = Similarity.from_labels(items.labels[:n_queries], items.labels).block() > 0
    directions = {}
    if n_queries >= MIN_QUERIES:
        continuous = {
            "image": hasher.embed_image(items.images),
            "text": hasher.embed_text(items.texts),
        }
        coded = {"image": np.ones(len(items), dtype=bool), "text": ~is_empty_text(items.texts)}
        for name in DIRECTIONS:
            asked, found = name.split("->")
            queries = np.flatnonzero(coded[asked][:n_queries])
            others = np.flatnonzero(coded[found])
            pairs = _Pairs(relevant[np.ix_(queries, others)], queries[:, None] == others)
            if len(queries) >= MIN_QUERIES and pairs.n_relevant >= MIN_RELEVANT:
                measures = _measures(hasher, continuous[asked][queries], continuous[found][others])
                directions[name] = pairs.calibrate(measures, hasher.n_bits)
    if not directions:
        raise InputError(
            "Matches have no probability of relevance, because calibration needs "
            f"{MIN_QUERIES} labelled validation items and {MIN_RELEVANT} relevant pairs, got "
            f"{n_queries:,} items and {relevant.sum():,} pairs. Add items to the dataset, or pass "
            "--data n_validation=N if the dataset has this option."
        )
    return Calibration(directions, relevance)


def _held_out(split: RetrievalSplit) -> tuple[NDArray[np.int64], int]:
    """Return rows that were not trained on, labelled validation items first, and how many these
    are.
    """
    assert split.pairs.labels is not None
    labelled = np.diff(split.pairs.labels.indptr) > 0
    queries = split.validation_rows[labelled[split.validation_rows]][:MAX_QUERIES]
    others = np.setdiff1d(split.database_rows, np.concatenate([split.train_rows, queries]))
    chosen = np.random.default_rng(0).permutation(others)[: max(0, MAX_ITEMS - len(queries))]
    return np.concatenate([queries, chosen]), len(queries)


def _measures(
    hasher: Hasher, query: NDArray[Any], items: NDArray[Any]
) -> dict[str, NDArray[np.uint16]]:
    """Return, for each measure, the row of its table for each pair: (n_queries, n_items)."""
    codes, unit_query = Codes.from_continuous(items), unit_rows(query)
    steps = (len(COSINE_GRID) - 1) / 2
    signed = unit_query @ (codes.signs().T / codes.n_bits**0.5)
    both = unit_query @ unit_rows(items).T
    return {
        "query distance": hasher.query_codes(query).hamming(codes),
        "distance": Codes.from_continuous(query).hamming(codes),
        "query cosine": np.rint((signed + 1) * steps).astype(np.uint16),
        "cosine": np.rint((both + 1) * steps).astype(np.uint16),
    }


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Which of (n_queries, n_items) pairs are relevant, and which are a query and itself."""

    relevant: NDArray[np.bool_]
    own: NDArray[np.bool_]

    @property
    def n_relevant(self) -> int:
        """Number of relevant pairs."""
        return int((self.relevant & ~self.own).sum())

    def calibrate(
        self, measures: Mapping[str, NDArray[np.uint16]], n_bits: int
    ) -> DirectionCalibration:
        """Fit a table to each measure; then one to half of the queries, to test the other half."""
        tables, every = {}, np.ones(len(self.relevant), dtype=bool)
        for name, rows in measures.items():
            ranked = _Ranked.of(self, rows, nearest_last=name in COSINES)
            tables[name] = ranked.table(every, _table_length(name, n_bits))
            if name == "query cosine":
                half = np.arange(len(every)) % 2 == 0
                error = ranked.error(ranked.table(half, len(COSINE_GRID)), ~half)
        return DirectionCalibration(
            tables,
            n_queries=len(every),
            n_relevant=self.n_relevant,
            base_rate=round(self.n_relevant / int((~self.own).sum()), DIGITS),
            error=round(error, DIGITS),
        )


@dataclass(frozen=True, eq=False)
class _Ranked:
    """The items of each query, nearest first: rows of a table, relevance, and weights.

    A probability is for matches, and few items of a collection are. The nearest items of queries
    with few near ones are relevant less often than other items at the same distance; fitting to all
    pairs alike would ignore this. So the item at rank r weighs 1 / r: ranks 1 to 10 weigh as much
    as ranks 11 to 100 or 101 to 1,000.
    """

    rows: NDArray[np.uint16]
    relevant: NDArray[np.bool_]
    weights: NDArray[np.float64]
    rising: bool

    @classmethod
    def of(cls, pairs: _Pairs, rows: NDArray[np.uint16], *, nearest_last: bool) -> _Ranked:
        """Rank the items of each query; ``nearest_last`` if the nearest have the last rows."""
        order = np.argsort(-rows.astype(np.int16) if nearest_last else rows, axis=1, kind="stable")
        own = np.take_along_axis(pairs.own, order, 1)
        weights = np.where(own, 0, 1 / np.arange(1, rows.shape[1] + 1))
        relevant = np.take_along_axis(pairs.relevant, order, 1)
        return cls(np.take_along_axis(rows, order, 1), relevant, weights, nearest_last)

    def table(self, queries: NDArray[np.bool_], length: int) -> NDArray[np.float64]:
        """Fit the probability at each row of a table by isotonic regression, on some queries."""
        from scipy.optimize import isotonic_regression  # slow to import, and not needed to search

        rows, weights = self.rows[queries].ravel(), self.weights[queries].ravel()
        weight = np.bincount(rows, weights, length)
        of_relevant = np.bincount(rows, weights * self.relevant[queries].ravel(), length)
        count = np.bincount(rows[weights > 0], minlength=length)
        seen = np.flatnonzero(count)
        base_rate, prior = of_relevant.sum() / weight.sum(), PRIOR / count[seen]
        shares = (of_relevant[seen] / weight[seen] + prior * base_rate) / (1 + prior)
        fitted = isotonic_regression(shares, weights=weight[seen], increasing=self.rising).x
        return np.interp(np.arange(length), seen, fitted).clip(0, 1).round(DIGITS)

    def error(self, table: NDArray[np.float64], queries: NDArray[np.bool_]) -> float:
        """Return the expected calibration error on the nearest items of some queries."""
        shown = self.weights[queries, :N_RESULTS] > 0
        return expected_calibration_error(
            table[self.rows[queries, :N_RESULTS][shown]], self.relevant[queries, :N_RESULTS][shown]
        )


def reliability(
    probabilities: NDArray[Any], relevant: NDArray[Any], n_bins: int = N_BINS
) -> NDArray[np.float64]:
    """Group matches by probability into bins of equal width.

    Returns
    -------
    (n_bins, 3) the number of matches, their mean probability and the share that is relevant; zeros
    for an empty bin.

    Examples
    --------
    >>> reliability(np.array([0.1, 0.2, 0.9]), np.array([False, True, True]), n_bins=2).tolist()
    [[2.0, 0.15, 0.5], [1.0, 0.9, 1.0]]
    """
    probabilities, relevant = np.ravel(probabilities), np.ravel(relevant)
    bins = np.minimum((probabilities * n_bins).astype(np.int64), n_bins - 1)
    n = np.bincount(bins, minlength=n_bins)
    sums = [np.bincount(bins, values, n_bins) for values in (probabilities, relevant)]
    return np.stack([n, *(total / np.maximum(n, 1) for total in sums)], axis=1).round(12)


def expected_calibration_error(
    probabilities: NDArray[Any], relevant: NDArray[Any], n_bins: int = N_BINS
) -> float:
    """Return the mean difference of probability and share of relevant matches, over bins.

    Bins have equal width and are weighted by their number of matches.
    """
    n, probability, share = reliability(probabilities, relevant, n_bins).T
    return float(n @ np.abs(probability - share) / n.sum())
