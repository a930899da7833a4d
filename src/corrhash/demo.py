"""The demo: from drawn pictures to codes, numbers, curves and answers, in a few minutes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corrhash.atomic_write import make_folder
from corrhash.collection import Collection
from corrhash.datasets import ImageFeatures, Reader, load_raw
from corrhash.datasets.base import RetrievalSplit
from corrhash.datasets.fingerprint import fingerprint_of
from corrhash.datasets.reader import fit_reader
from corrhash.experiments.directions import random_codes, ranked_pairs, score_directions
from corrhash.experiments.plots import plot_curves
from corrhash.experiments.trained_model import TrainedModel
from corrhash.index.lancedb import LanceIndex
from corrhash.methods import METHODS
from corrhash.metrics import Scores
from corrhash.sheet import contact_sheet, save_sheet, small_picture

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
    collection: Collection
    files: dict[str, Path]


def run_demo(folder: Path, pictures: int, epochs: int, seed: int) -> DemoResult:
    """Draw, learn and measure; leave a model, curves and a collection in ``folder``."""
    make_folder(folder)
    raw = load_raw("scenes", seed=seed, n=pictures)
    raw = replace(raw, fingerprint=fingerprint_of(raw, pictures=True))
    split = fit_reader(raw).read_split(raw)
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
        "Collection": folder / "collection",
    }
    at_shown = {name: of for (name, n_bits), of in scores.items() if n_bits == SHOWN}
    plot_curves(at_shown, files["Precision-recall curves"], f"scenes, {SHOWN} bits")
    reader = split.reader or Reader()
    options = {"n": pictures}
    model = TrainedModel(shown, reader, "scenes", seed, options, "labels", split.fingerprint)
    model.save(files["Trained model"])
    collection = fill_collection(files["Collection"], model, split, raw)
    _draw_answers(collection, files["Answers to words"])
    return DemoResult(split, scores, collection, files)


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
    query, database = ranked_pairs(hasher, split.query, split.database)
    return score_directions(split, query, database)


def fill_collection(
    folder: Path, model: TrainedModel, split: RetrievalSplit, raw: RetrievalSplit
) -> Collection:
    """A new collection of the pictures that are searched, in place of that of an earlier demo."""
    if LanceIndex.look(str(folder)) is not None:
        shutil.rmtree(folder)
    pair, training = (model.hasher, model.reader), model.training
    collection = Collection.create(folder, *pair, training=training)
    collection.add_pairs(split.database, raw.database)
    return collection


def _draw_answers(collection: Collection, path: Path) -> None:
    """A row for each search: its words, and the pictures whose codes are nearest."""
    pictures, texts = [], []
    for words in SEARCHES:
        for place, match in enumerate(collection.search_text(words, ANSWERS, thumbnails=True)):
            pictures.append(small_picture(match.item.thumbnail))
            away = f"{match.distance} bits"
            texts.append(f"“{words}”: {away}" if place == 0 else away)
    title = "Words and their pictures, with the number of bits that differ"
    save_sheet(contact_sheet(pictures, texts, columns=ANSWERS, side=112, title=title), path)
