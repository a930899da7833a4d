"""CHN and its variants on photos with captions: ``python -m benchmarks.photos FOLDER``.

FOLDER holds ``manifest.jsonl`` (image, text, labels and split of each photo) and a file of
features, row i for line i. Every finished cell is a line of the results file, so that an
interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from corrhash.datasets import PairedDataset, RetrievalSplit, Vocabulary
from corrhash.experiments.directions import DIRECTIONS, encode_pairs, score_directions
from corrhash.methods import METHODS
from corrhash.methods.chn import CHN
from corrhash.methods.training import Training
from corrhash.metrics import evaluate

N_WORDS = 1000


def load_photos(folder: Path, features: str) -> RetrievalSplit:
    """The photos with their features and the occurrences of the most frequent words."""
    lines = [json.loads(line) for line in (folder / "manifest.jsonl").open()]
    parts = np.array([line["split"] for line in lines])
    names = sorted({name for line in lines for name in line["labels"]})
    labels = np.array([[name in line["labels"] for name in names] for line in lines])
    texts = [line["text"] for line in lines]
    counted = [text for text, part in zip(texts, parts, strict=True) if part != "query"]
    pairs = PairedDataset(
        images=np.load(folder / features).astype(np.float32),
        texts=Vocabulary.fit(counted, top=N_WORDS).occurrences(texts),
        labels=labels,
        keys=[line["image"] for line in lines],
        label_names=names,
    )
    train, validation, query = (
        np.flatnonzero(parts == part) for part in ("train", "validation", "query")
    )
    database = np.flatnonzero(parts != "query")
    return RetrievalSplit(pairs, train, validation, query, database, name=folder.name)


def measure(split: RetrievalSplit, name: str, n_bits: int, seed: int) -> dict[str, object]:
    """Train one model and score its codes and, before binarisation, its real-valued scores."""
    if name == "literal":
        hasher = CHN.literal(n_bits, seed=seed)
    else:
        hasher = METHODS[name](n_bits, training=Training(seed=seed))
    started = time.perf_counter()
    hasher.fit(split.train, split.validation)
    seconds = time.perf_counter() - started
    query, database = (encode_pairs(hasher, part) for part in (split.query, split.database))
    scores = score_directions(split, query, database)
    cell: dict[str, object] = {"method": name, "bits": n_bits, "seed": seed}
    cell |= {direction: scores[direction].map for direction in DIRECTIONS}
    cell |= {f"{d} cosine": value for d, value in cosine_maps(hasher, split).items()}
    cell["distinct"] = scores["text->image"].n_distinct_database
    cell["validation"] = max(e.get("validation_map", 0.0) for e in hasher.history_)
    return {**cell, "seconds": round(seconds, 1)}


def cosine_maps(hasher: CHN, split: RetrievalSplit) -> dict[str, float]:
    """CHN-B: the same model, ranked by the cosine of its scores."""
    sides = {"image": hasher.score_image, "text": hasher.score_text}
    values = {}
    for direction in DIRECTIONS:
        asked, answered = direction.split("->")
        values[direction] = evaluate(
            sides[asked](getattr(split.query, f"{asked}s")),
            sides[answered](getattr(split.database, f"{answered}s")),
            split.query.labels,
            split.database.labels,
        ).map
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--features", default="features_efficientnet_lite0.npy")
    parser.add_argument("--methods", nargs="+", default=["chn", "literal"])
    parser.add_argument("--bits", nargs="+", type=int, default=[16, 32, 64, 128])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("photos.jsonl"))
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    split = load_photos(arguments.folder, arguments.features)
    done = set()
    if arguments.out.exists():
        cells = [json.loads(line) for line in arguments.out.open()]
        done = {(cell["method"], cell["bits"], cell["seed"]) for cell in cells}
    for seed in arguments.seeds:
        for name in arguments.methods:
            for n_bits in arguments.bits:
                if (name, n_bits, seed) not in done:
                    cell = measure(split, name, n_bits, seed)
                    with arguments.out.open("a") as file:
                        file.write(json.dumps(cell) + "\n")
                    print(cell, flush=True)


if __name__ == "__main__":
    main()
