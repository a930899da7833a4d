"""Searching photos through a collection: ``python -m benchmarks.photo_search FOLDER --out DIR``.

FOLDER holds photos as ``benchmarks/coco.toml`` describes them. Trains CHN, leaves the model in DIR,
and prints how many of the first ten answers share a label with their query: by codes alone, ranked
once more by the query's scores against the signs of the database, and by the scores of both.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from corrhash.collection import Collection, Match
from corrhash.datasets import Reader, RetrievalSplit, TextOptions, load_dataset, supervise
from corrhash.experiments.trained_model import TrainedModel
from corrhash.methods import METHODS

K = 10
WORDS = TextOptions(top=1000, min_count=1, stem="english")
HOW = {"codes alone": (False, False), "signs": (False, True), "scores": (True, True)}
"""Whether scores are stored, and whether the first ones are ranked once more."""


def train(split: RetrievalSplit, n_bits: int, folder: Path) -> TrainedModel:
    """CHN with its defaults on the labels of the training photos."""
    hasher = METHODS["chn"](n_bits)
    taught = supervise(split, "labels")
    hasher.fit(taught.train, taught.validation)
    model = TrainedModel(hasher, split.reader or Reader(), split.name, 0, supervision="labels")
    model.save(folder)
    return model


def precision(split: RetrievalSplit, answers: list[list[Match]]) -> float:
    """The mean share of answers that have a label in common with their query."""
    row_of = {key: row for row, key in enumerate(split.pairs.row_keys())}
    labels = sp.csr_array(split.pairs.labels).astype(int).toarray()
    values = []
    for query, matches in zip(split.query_rows, answers, strict=True):
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
    split = load_dataset(str(arguments.folder), image_features=features, texts=WORDS)
    folder = arguments.out / f"model-{arguments.bits}"
    model = TrainedModel.load(folder) if folder.exists() else train(split, arguments.bits, folder)
    print(f"| precision@{K}, {arguments.bits} bits | text->image | image->text |\n|---|---|---|")
    for name, (stored, rerank) in HOW.items():
        collection = Collection.create("memory:", model.hasher, model.reader, store_scores=stored)
        collection.add_pairs(split.database)
        texts = collection.search_words(split.query.texts, K, rerank=rerank)
        images = collection.search_pictures(split.query.images, K, rerank=rerank)
        print(f"| {name} | {precision(split, texts):.3f} | {precision(split, images):.3f} |")


if __name__ == "__main__":
    main()
