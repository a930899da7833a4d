"""A simulated user judges results: ``python -m benchmarks.feedback FOLDER --work DIR``.

FOLDER contains photos as described in ``benchmarks/coco.toml``; their labels are hidden. CHN-plus
is trained on pairs once. For each seed, the user searches a collection of the database items by
captions of held-out queries and judges the first ten results: an item that shares a label with the
query fits, and a judgment is right with probability .9. ``improve`` runs after 50, 200 and 1,000
judgments: of one collection, so that later judgments are about results of the improved model, or
with ``--fresh`` of a new collection each. Prints the mAP of text queries that received no judgment,
before and after, and the time of ``improve``.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from corrhash import (
    Codes,
    Collection,
    Model,
    RetrievalSplit,
    Similarity,
    evaluate,
    load_dataset,
    load_model,
    supervise,
)
from corrhash.collection import Judgment
from corrhash.collection.improving import Improved, improve
from corrhash.datasets import Reader
from corrhash.datasets.records import Record
from corrhash.methods import METHODS
from corrhash.model import TrainingRun

SHOWN = 10
RIGHT = 0.9
SIZES = (50, 200, 1000)


def train(split: RetrievalSplit, folder: Path) -> Model:
    """Train CHN-plus on the pairs of the training photos, or load it."""
    if not folder.exists():
        taught = supervise(split, "pairs")
        hasher = METHODS["chn-plus"](64).fit(taught.train, validation=taught.validation)
        run = TrainingRun(split.name, supervision="pairs")
        Model(hasher, split.reader or Reader(), run).save(folder)
    return load_model(folder)


def records(split: RetrievalSplit, texts: list[str]) -> Iterator[Record]:
    """Yield the database items with their feature vectors and captions, without labels."""
    keys = split.pairs.row_keys()
    for row in split.database_rows.tolist():
        yield Record(keys[row], split.pairs.images[row], texts[row])


class User:
    """Judges the results of captions by their labels, in an order that depends on the seed."""

    def __init__(self, split: RetrievalSplit, texts: list[str], seed: int) -> None:
        assert split.pairs.labels is not None
        self.texts = texts
        self.labels = split.pairs.labels.toarray() > 0
        self.row_of = {key: row for row, key in enumerate(split.pairs.row_keys())}
        self.rng = np.random.default_rng(seed)
        self.queries = self.rng.permutation(split.query_rows)
        self.n_judged = 0

    def judge(self, collection: Collection, n_judgments: int) -> None:
        """Judge the first results of further queries."""
        judgments = []
        for query in self.queries[self.n_judged : n_judgments // SHOWN].tolist():
            for match in collection.search(self.texts[query], k=SHOWN):
                fits = bool((self.labels[query] & self.labels[self.row_of[match.key]]).any())
                is_right = self.rng.random() < RIGHT
                verdict = 1 if fits == is_right else -1
                judgments.append(Judgment("text", self.texts[query], match.key, verdict))
        collection.add_judgments(judgments)
        self.n_judged = n_judgments // SHOWN

    def unjudged(self, most: int) -> np.ndarray:
        """Return the queries that are never judged."""
        return np.sort(self.queries[most // SHOWN :])


def text_map(model: Model, split: RetrievalSplit, queries: np.ndarray) -> float:
    """Return the mAP of text queries for images of the database, by Hamming distance."""
    assert split.pairs.labels is not None
    pairs, database = split.pairs, split.database_rows
    codes = model.hasher.query_codes(model.hasher.embed_text(pairs.texts[queries]))
    items = Codes.from_continuous(model.hasher.embed_image(pairs.images[database]))
    relevance = Similarity.from_labels(pairs.labels[queries], pairs.labels[database])
    return float(evaluate(codes, items, similarity=relevance).map)


def run(
    split: RetrievalSplit, texts: list[str], model: Model, seed: int, folder: Path, *, fresh: bool
) -> Iterator[tuple[int, float, float, Improved]]:
    """Yield the number of judgments, mAP before and after, and the outcome of ``improve``."""
    items = list(records(split, texts))
    queries = User(split, texts, seed).unjudged(max(SIZES))
    before = text_map(model, split, queries)
    for size in SIZES:
        if fresh or size == SIZES[0]:
            shutil.rmtree(folder, ignore_errors=True)
            collection, user = Collection.create(folder, model), User(split, texts, seed)
            collection.add(items)
        user.judge(collection, size)
        found = improve(collection, items)
        yield size, before, text_map(collection.model, split, queries), found


def main() -> None:
    """Run all seeds, and print a line for each improvement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder for model and collections")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fresh", action="store_true", help="a new collection for each number")
    given = parser.parse_args()
    manifest = given.folder / "manifest.jsonl"
    texts = [json.loads(line)["text"] for line in manifest.read_text().splitlines()]
    features = str(given.folder / "features_efficientnet_lite0.npy")
    split = load_dataset(str(manifest), image_features=features)
    model = train(split, given.work / "model")
    for seed in range(given.seeds):
        folder = given.work / f"collection-{seed}"
        results = run(split, texts, model, seed, folder, fresh=given.fresh)
        for size, before, after, found in results:
            print(
                f"seed {seed}, {size:,} judgments: mAP {before:.4f} -> {after:.4f}; held-out order "
                f"{found.before:.3f} -> {found.after:.3f}; switched: {found.switched}; "
                f"{found.seconds:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
