"""Search quality of a photo collection: ``python -m benchmarks.photo_search FOLDER --out DIR``.

FOLDER contains photos as described in ``benchmarks/coco.toml``. Trains CHN-plus, saves the model to
DIR, and prints the precision@10 of three rankings: by Hamming distance, re-ranked by the query's
continuous codes against code signs, and re-ranked by continuous codes of both.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from corrhash import Collection, Match, Model, RetrievalSplit, load_dataset, load_model, supervise
from corrhash.datasets import Reader, TextOptions
from corrhash.methods import METHODS
from corrhash.model import TrainingRun

K = 10
TERMS = TextOptions(top=1000, min_count=1, stem="english")
RANKINGS = {
    "Hamming distance": (False, False),
    "code signs": (False, True),
    "continuous codes": (True, True),
}
"""Whether continuous codes are stored, and whether results are re-ranked."""


def train(split: RetrievalSplit, n_bits: int, folder: Path) -> Model:
    """Train CHN-plus with its defaults on the labels of the training photos."""
    hasher = METHODS["chn-plus"](n_bits)
    taught = supervise(split, "labels")
    hasher.fit(taught.train, validation=taught.validation)
    run = TrainingRun(split.name, supervision="labels")
    model = Model(hasher, split.reader or Reader(), run)
    model.save(folder)
    return model


def precision(split: RetrievalSplit, results: list[list[Match]]) -> float:
    """The mean fraction of matches that share a label with their query."""
    row_of = {key: row for row, key in enumerate(split.pairs.row_keys())}
    labels = sp.csr_array(split.pairs.labels).astype(int).toarray()
    values = []
    for query, matches in zip(split.query_rows, results, strict=True):
        found = labels[[row_of[match.key] for match in matches]]
        values.append(np.mean(found @ labels[query] > 0))
    return float(np.mean(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--features", default="features_efficientnet_lite0.npy")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("photo_search"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    features = str(arguments.folder / arguments.features)
    split = load_dataset(str(arguments.folder), image_features=features, texts=TERMS)
    folder = arguments.out / f"model-{arguments.bits}"
    model = load_model(folder) if folder.exists() else train(split, arguments.bits, folder)
    print(f"| precision@{K}, {arguments.bits} bits | text->image | image->text |\n|---|---|---|")
    for name, (stored, rerank) in RANKINGS.items():
        collection = Collection.create("memory:", model, store_continuous=stored)
        collection.add_pairs(split.database)
        by_text = collection.search(split.query.texts, k=K, rerank=rerank)
        by_image = collection.search(image=split.query.images, find="text", k=K, rerank=rerank)
        print(f"| {name} | {precision(split, by_text):.3f} | {precision(split, by_image):.3f} |")


if __name__ == "__main__":
    main()
