"""The demo: from drawn pictures to codes, numbers, curves and answers, in a few minutes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.atomic_write import atomic_write, make_folder
from corrhash.datasets import ImageFeatures, Reader, load_dataset
from corrhash.datasets.base import RetrievalSplit
from corrhash.experiments.directions import encode_pairs, random_codes, score_directions
from corrhash.experiments.plots import plot_curves
from corrhash.experiments.trained_model import TrainedModel
from corrhash.index import open_index
from corrhash.methods import METHODS
from corrhash.metrics import Scores
from corrhash.sheet import contact_sheet

BITS = (16, 32, 64)
SHOWN = 32
"""The length whose curves, answers and model are kept."""

SEARCHES = ("boat sea", "cat", "snowman", "balloon", "lighthouse night", "bicycle")
ANSWERS = 8


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What the demo found and where it left it."""

    split: RetrievalSplit
    scores: dict[tuple[str, int], dict[str, Scores]]
    files: dict[str, Path]


def run_demo(folder: Path, pictures: int, epochs: int, seed: int) -> DemoResult:
    """Draw, learn and measure; leave a model, curves and answers in ``folder``."""
    make_folder(folder)
    split = load_dataset("scenes", seed=seed, n=pictures)
    described = Reader(image_features=ImageFeatures("simple")).read_split(split)
    scores: dict[tuple[str, int], dict[str, Scores]] = {}
    for n_bits in BITS:
        chn = train_chn(split, n_bits, epochs, seed)
        scores["chn", n_bits] = _measure(chn, split)
        cvh = METHODS["cvh"](n_bits).fit(described.train)
        scores["cvh", n_bits] = _measure(cvh, described)
        guesses = [random_codes(p, n_bits, seed) for p in (split.query, split.database)]
        scores["random", n_bits] = score_directions(split, *guesses)
        if n_bits == SHOWN:
            shown = chn
    files = {
        "Precision-recall curves": folder / "curves.png",
        "Answers to words": folder / "answers.png",
        "Trained model": folder / "model",
    }
    at_shown = {name: of for (name, n_bits), of in scores.items() if n_bits == SHOWN}
    plot_curves(at_shown, files["Precision-recall curves"], f"scenes, {SHOWN} bits")
    _draw_answers(shown, split, files["Answers to words"])
    reader = split.reader or Reader()
    options = {"n": pictures}
    model = TrainedModel(shown, reader, "scenes", seed, options, "labels", split.fingerprint)
    model.save(files["Trained model"])
    return DemoResult(split, scores, files)


def train_chn(split: RetrievalSplit, n_bits: int, epochs: int, seed: int) -> Any:
    """CHN from raw pixels, with settings that suit small pictures and little time."""
    from corrhash.methods.training import Training
    from corrhash.methods.two_networks import Networks

    training = Training(
        epochs=epochs,
        batch_size=64,
        learning_rate=3e-3,
        warmup=0.2,
        validate_every=epochs,
        seed=seed,
    )
    hasher = METHODS["chn"](n_bits, networks=Networks(width=1024), training=training)
    return hasher.fit(split.train, split.validation)


def _measure(hasher: Any, split: RetrievalSplit) -> dict[str, Scores]:
    query, database = (encode_pairs(hasher, part) for part in (split.query, split.database))
    return score_directions(split, query, database)


def _draw_answers(hasher: Any, split: RetrievalSplit, path: Path) -> None:
    """A row for each search: its words, and the pictures whose codes are nearest."""
    pictures = hasher.encode_image(split.database.images)
    index = open_index("memory:", hasher.n_bits)
    index.add(np.arange(len(pictures)), pictures)
    assert split.reader is not None
    words = hasher.encode_text(split.reader.read_texts(list(SEARCHES)))
    nearest = index.search(words, ANSWERS)
    shown, texts = [], []
    for search, rows, distances in zip(SEARCHES, nearest.rows, nearest.distances, strict=True):
        shown += [split.database.images[row] for row in rows]
        texts += [f"“{search}” {distance} bits away" for distance in distances]
    sheet = contact_sheet(shown, texts, columns=ANSWERS, side=112, title="Words and their pictures")
    with atomic_write(path) as file:
        sheet.save(file, format="png")
