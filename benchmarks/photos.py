"""Methods on photos with captions: ``python -m benchmarks.photos FOLDER``.

FOLDER holds ``manifest.jsonl`` (image, text, labels and split of each photo) and a file of
features, row i for line i. Every finished cell is a line of the results file, so that an
interrupted run goes on where it stopped. Whatever the supervision, scores rest on the labels.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from corrhash.datasets import RetrievalSplit, TextOptions, load_dataset, supervise
from corrhash.datasets.supervision import CHOICES, NOT_NEEDED
from corrhash.experiments.directions import DIRECTIONS, encode_pairs, score_directions
from corrhash.experiments.settings import new_hasher, parse_params
from corrhash.methods import METHODS, Hasher
from corrhash.metrics import evaluate

N_WORDS = 1000
NAME = ("method", "bits", "seed", "supervision")
"""What tells one cell from another."""


def load_photos(folder: Path, features: str) -> RetrievalSplit:
    """The photos with their features and the occurrences of the most frequent words."""
    words = TextOptions(top=N_WORDS, min_count=1)
    return load_dataset(folder, image_features=str(folder / features), texts=words)


def make_hasher(name: str, n_bits: int, seed: int, params: dict[str, Any]) -> Any:
    """A method with its defaults or other settings; the seed is of its networks, if it has any."""
    literal = name == "literal"
    hasher: Any = new_hasher(METHODS["chn" if literal else name], n_bits, params, literal=literal)
    if hasattr(hasher, "training"):
        hasher.training = replace(hasher.training, seed=seed)
    return hasher


def supervision_of(hasher: Hasher, wanted: str) -> str:
    """What a cell is named after: a method that needs no supervision has one cell for all."""
    return wanted if hasher.needs_labels else NOT_NEEDED


def measure(split: RetrievalSplit, hasher: Any, supervision: str) -> dict[str, Any]:
    """Train one model and score its codes and, before binarisation, its real-valued scores."""
    taught = supervise(split, supervision, needed=hasher.needs_labels)
    started = time.perf_counter()
    hasher.fit(taught.train, taught.validation)
    seconds = time.perf_counter() - started
    query, database = (encode_pairs(hasher, part) for part in (split.query, split.database))
    scores = score_directions(split, query, database)
    numbers: dict[str, Any] = {direction: scores[direction].map for direction in DIRECTIONS}
    numbers |= {f"{d} cosine": value for d, value in cosine_maps(hasher, split).items()}
    numbers["distinct"] = scores["text->image"].n_distinct_database
    if hasattr(hasher, "history_"):
        numbers["validation"] = max(e.get("validation_map", 0.0) for e in hasher.history_)
    return {**numbers, "seconds": round(seconds, 1)}


def cosine_maps(hasher: Hasher, split: RetrievalSplit) -> dict[str, float]:
    """The same model, ranked by the cosine of its scores: of CHN, what the paper calls CHN-B."""
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
    parser.add_argument("--set", nargs="+", default=[], help="settings, as within=0")
    parser.add_argument("--bits", nargs="+", type=int, default=[16, 32, 64, 128])
    parser.add_argument("--supervision", choices=CHOICES, default="labels")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("photos.jsonl"))
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    split = load_photos(arguments.folder, arguments.features)
    done = {tuple(cell[part] for part in NAME) for cell in read_cells(arguments.out)}
    for seed, name, n_bits in product(arguments.seeds, arguments.methods, arguments.bits):
        hasher = make_hasher(name, n_bits, seed, parse_params(arguments.set))
        supervision = supervision_of(hasher, arguments.supervision)
        cell_name = (" ".join([name, *arguments.set]), n_bits, seed, supervision)
        if cell_name not in done:
            numbers = measure(split, hasher, arguments.supervision)
            cell = {**dict(zip(NAME, cell_name, strict=True)), **numbers}
            with arguments.out.open("a") as file:
                file.write(json.dumps(cell) + "\n")
            print(cell, flush=True)
    print("\n".join(table(read_cells(arguments.out))))


def read_cells(path: Path) -> list[dict[str, Any]]:
    """The finished cells of a results file."""
    return [json.loads(line) for line in path.open()] if path.exists() else []


def table(cells: list[dict[str, Any]]) -> list[str]:
    """Lines of Markdown: mean and deviation over the seeds, of codes and before binarisation."""
    columns = [*DIRECTIONS, *(f"{direction} cosine" for direction in DIRECTIONS)]
    lines = ["| method | supervision | bits | " + " | ".join(columns) + " | seeds |"]
    lines.append("|---" * (len(columns) + 4) + "|")
    rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for cell in cells:
        rows.setdefault((cell["method"], cell["supervision"], cell["bits"]), []).append(cell)
    for name, seeds in rows.items():
        values = [mean_and_deviation([cell[column] for cell in seeds]) for column in columns]
        lines.append("| " + " | ".join([*map(str, name), *values, str(len(seeds))]) + " |")
    return lines


def mean_and_deviation(values: list[float]) -> str:
    """``.612 ± .003``, or the one value there is."""
    mean = f"{np.mean(values):.3f}".lstrip("0")
    if len(values) == 1:
        return mean
    return f"{mean} ± {np.std(values, ddof=1):.3f}".replace("± 0", "± ")


if __name__ == "__main__":
    main()
