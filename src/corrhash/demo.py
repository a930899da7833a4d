"""The demo: train, evaluate and search on synthetic images, in a few minutes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corrhash._files import make_folder
from corrhash.collection.collection import Collection
from corrhash.contact_sheet import contact_sheet, open_thumbnail, save_sheet
from corrhash.datasets import ImageFeatures, Reader, load_raw
from corrhash.datasets.base import RetrievalSplit
from corrhash.datasets.fingerprint import fingerprint_of
from corrhash.datasets.reader import fit_reader
from corrhash.experiments.evaluation import evaluate_directions, evaluate_hasher, random_codes
from corrhash.experiments.report.figures import plot_curves
from corrhash.index.sqlite import SQLiteIndex
from corrhash.methods import METHODS
from corrhash.metrics import Scores
from corrhash.model import Model, TrainingRun

BITS = (16, 32, 64)
SAVED_BITS = 32
"""Code length of the saved model, its curves and the collection."""

QUERIES = ("boat sea", "cat", "snowman", "balloon", "lighthouse night", "bicycle")
N_RESULTS = 8


@dataclass(frozen=True, eq=False)
class DemoResult:
    """Scores by method and code length, the collection, and the files written by title."""

    split: RetrievalSplit
    scores: dict[tuple[str, int], dict[str, Scores]]
    collection: Collection
    files: dict[str, Path]


def run_demo(folder: Path, n_images: int, epochs: int, seed: int) -> DemoResult:
    """Train and evaluate; write a model, curves, sample results and a collection to ``folder``."""
    make_folder(folder)
    raw = load_raw("scenes", seed=seed, n=n_images)
    raw = replace(raw, fingerprint=fingerprint_of(raw))
    split = fit_reader(raw).read_split(raw)
    with_features = Reader(image_features=ImageFeatures("simple")).read_split(split)
    scores: dict[tuple[str, int], dict[str, Scores]] = {}
    for n_bits in BITS:
        chn = train_chn(split, n_bits, epochs, seed)
        scores["chn-plus", n_bits] = evaluate_hasher(chn, split)
        cvh = METHODS["cvh"](n_bits).fit(with_features.train)
        scores["cvh", n_bits] = evaluate_hasher(cvh, with_features)
        codes = [random_codes(p, n_bits, seed) for p in (split.query, split.database)]
        scores["random", n_bits] = evaluate_directions(split.query, split.database, *codes)
        if n_bits == SAVED_BITS:
            saved = chn
    files = {
        "Precision-recall curves": folder / "curves.png",
        "Sample results": folder / "results.png",
        "Trained model": folder / "model",
        "Collection": folder / "collection",
    }
    curves = {name: of for (name, n_bits), of in scores.items() if n_bits == SAVED_BITS}
    plot_curves(curves, files["Precision-recall curves"], f"scenes, {SAVED_BITS} bits")
    reader = split.reader or Reader()
    options = {"n": n_images}
    training = TrainingRun("scenes", seed, options, "labels", split.fingerprint)
    model = Model(saved, reader, training)
    model.save(files["Trained model"])
    collection = fill_collection(files["Collection"], model, split, raw)
    _draw_results(collection, files["Sample results"])
    return DemoResult(split, scores, collection, files)


def train_chn(split: RetrievalSplit, n_bits: int, epochs: int, seed: int) -> Any:
    """Train CHN-plus on pixels, with settings for small images and little time."""
    from corrhash.networks.config import Networks
    from corrhash.training.config import Training

    training = Training(
        epochs=epochs,
        batch_size=64,
        learning_rate=3e-3,
        warmup=0.2,
        validate_every=epochs,
        seed=seed,
    )
    hasher = METHODS["chn-plus"](n_bits, networks=Networks(width=1024), training=training)
    return hasher.fit(split.train, validation=split.validation)


def fill_collection(
    folder: Path, model: Model, split: RetrievalSplit, raw: RetrievalSplit
) -> Collection:
    """Create a collection of the database items, replacing that of an earlier demo."""
    if SQLiteIndex.look(str(folder)) is not None:
        shutil.rmtree(folder)
    collection = Collection.create(folder, model)
    collection.add_pairs(split.database, raw.database)
    return collection


def _draw_results(collection: Collection, path: Path) -> None:
    """Write a contact sheet with one row of results per text query."""
    images, texts = [], []
    for query in QUERIES:
        for rank, match in enumerate(collection.search(query, k=N_RESULTS, thumbnails=True)):
            images.append(open_thumbnail(match.item.thumbnail))
            distance = f"{match.distance} bits"
            texts.append(distance if rank else f"“{query}”: {distance}")
    title = "Text queries and the nearest images, with Hamming distances"
    save_sheet(contact_sheet(images, texts, columns=N_RESULTS, size=112, title=title), path)
