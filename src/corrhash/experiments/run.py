"""run(): load, fit, encode, evaluate, and keep one Result."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import platform
import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.codes import Codes
from corrhash.datasets import ImageFiles, supervise
from corrhash.datasets.base import PARTS, RetrievalSplit
from corrhash.datasets.fingerprint import fingerprint_of
from corrhash.datasets.image_features import SIMPLE
from corrhash.datasets.simple_features import N_FEATURES
from corrhash.errors import InputError
from corrhash.experiments.directions import DIRECTIONS, score_directions, score_sides
from corrhash.experiments.experiment import PICTURES, Experiment
from corrhash.experiments.notes import taking_notes
from corrhash.experiments.results import (
    Result,
    find_result,
    find_trial,
    save_result,
    save_trial,
)
from corrhash.experiments.settings import method_class, new_hasher, with_seed
from corrhash.experiments.sources import image_features_of, load_split
from corrhash.experiments.stopwatch import Stopwatch
from corrhash.experiments.tuning import validation_map
from corrhash.experiments.unseen import hold_out_labels
from corrhash.methods.base import Hasher
from corrhash.metrics import Scores
from corrhash.metrics.distance_counts import distance_counts
from corrhash.relevance import Similarity

SIGN_RULE = "score > 0 gives +1, everything else -1"
PACKAGES = ("corrhash", "numba", "numpy", "scikit-learn", "scipy", "torch")
CURVES = ("pr_recall", "pr_precision", "radius", "precision_at", "recall_at", "ndcg_at")
"""What of the scores stands among the arrays, or is not asked for here."""

SIDES = ("image", "text")


def run(
    experiment: Experiment, folder: str | Path, places: Mapping[str, str] | None = None
) -> Result:
    """The result of an experiment: read if ``folder`` has it, else computed and kept there.

    ``places`` tells where datasets are that are no names in ``DATASETS``.
    """
    folder = Path(folder)
    found = find_result(experiment, folder)
    if found is not None:
        return found
    learn, ask = _splits(experiment, places or {})
    hasher = _new_hasher(experiment, learn)
    params = json.loads(json.dumps(hasher.get_params(), default=_plain))
    checkpoint = _keep_checkpoint(hasher, learn, folder / ".unfinished" / experiment.name)
    taught = supervise(learn, experiment.supervision, needed=hasher.needs_labels)
    watch = Stopwatch()
    with watch.stage("fit"), taking_notes() as notes:
        hasher.fit(taught.train, taught.validation)
    with watch.stage("encode"):
        query, database = (score_sides(hasher, pairs) for pairs in (ask.query, ask.database))
    with watch.stage("evaluate"):
        directions, arrays = measure(hasher, ask, query, database)
    arrays |= training_log(hasher)
    facts = {
        "dataset": _dataset_facts(experiment, learn, ask),
        "method": f"{type(hasher).__module__}:{type(hasher).__qualname__}",
        "params": params,
        "n_bits": hasher.n_bits,
        "seed": experiment.seed,
        "ranked_by": hasher.ranked_by,
        "sign": SIGN_RULE,
        "supervision": taught.name,
        "validation_map": _validation_map(hasher, learn),
        "directions": directions,
        "notes": notes,
        "seconds": watch.seconds,
        "peak_mb": watch.peak_mb,
        "versions": {name: version(name) for name in PACKAGES}
        | {"python": platform.python_version(), "machine": platform.machine()},
    }
    result = save_result(experiment, facts, arrays, folder)
    if checkpoint is not None:
        shutil.rmtree(checkpoint, ignore_errors=True)
        with contextlib.suppress(OSError):  # others are not finished yet
            checkpoint.parent.rmdir()
    return result


def try_settings(
    experiment: Experiment, folder: str | Path, places: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """How well the settings of an experiment serve validation items; queries are not looked at.

    A training that diverges is a finding too, and is kept: these settings are not chosen.
    """
    folder = Path(folder)
    found = find_trial(experiment, folder)
    if found is not None:
        return found
    learn, _ = _splits(experiment, places or {})
    if not len(learn.validation):
        raise InputError(
            f"Settings are chosen on validation items, and {experiment.dataset} has none. Run the "
            "plan with --no-tune, or give it a validation part."
        )
    hasher = _new_hasher(experiment, learn)
    taught = supervise(learn, experiment.supervision, needed=hasher.needs_labels)
    watch = Stopwatch()
    error = None
    with watch.stage("fit"), taking_notes() as notes:
        try:
            hasher.fit(taught.train, taught.validation)
        except InputError as reason:
            error = str(reason)
    reached = None if error else _validation_map(hasher, learn)
    numbers = {
        "validation_map": reached,
        "error": error,
        "notes": notes,
        "seconds": watch.seconds,
    }
    save_trial(experiment, numbers, folder)
    return numbers


def _splits(
    experiment: Experiment, places: Mapping[str, str]
) -> tuple[RetrievalSplit, RetrievalSplit]:
    """The split to learn from and the one to ask: the same, unless labels are held out."""
    split = load_split(experiment, places)
    if split.pairs.labels is None:
        raise InputError(
            f"A study measures by labels, and {experiment.dataset} has none. Train a model with "
            "corrhash train, and measure with corrhash evaluate how well partners are found."
        )
    return hold_out_labels(split, experiment.seed) if experiment.unseen else (split, split)


def _new_hasher(experiment: Experiment, learn: RetrievalSplit) -> Any:
    n_bits = experiment.n_bits
    if n_bits == "labels":
        if learn.pairs.labels is None:
            raise InputError(f"{experiment.dataset} has no labels: give a number of bits.")
        n_bits = int(learn.pairs.labels.shape[1])
    method = method_class(experiment.method)
    hasher = new_hasher(method, n_bits, dict(experiment.params), literal=experiment.literal)
    return with_seed(hasher, experiment.seed)


def _keep_checkpoint(hasher: Any, learn: RetrievalSplit, folder: Path) -> Path | None:
    """Long trainings, those on pictures, go on where they were interrupted."""
    if not (_has_pictures(learn) and hasattr(hasher, "training")):
        return None
    hasher.training = dataclasses.replace(hasher.training, checkpoint=str(folder))
    return folder


def _has_pictures(split: RetrievalSplit) -> bool:
    images = split.pairs.images
    return isinstance(images, ImageFiles) or images.ndim == 4


def measure(
    hasher: Hasher,
    ask: RetrievalSplit,
    query: dict[str, np.ndarray],
    database: dict[str, np.ndarray],
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The numbers of both directions, and the arrays beside them, from real-valued scores.

    By codes, by the cosine of the scores before they are rounded, and by codes with the training
    items taken out of the database, unless nothing would be left.
    """
    codes = {side: hasher.query_codes(query[side]) for side in SIDES}
    answers = {side: Codes.from_scores(database[side]) for side in SIDES}
    new = {side: answers[side][~ask.train_in_database] for side in SIDES}
    kinds = {
        "hamming": score_directions(ask, codes, answers, threads=1),
        "cosine": score_directions(ask, query, database, threads=1),
    }
    if len(new["image"]):
        kinds["without_trained"] = score_directions(ask.without_trained(), codes, new, threads=1)
    directions: dict[str, Any] = {direction: {} for direction in DIRECTIONS}
    arrays: dict[str, np.ndarray] = {}
    for kind, scores in kinds.items():
        for direction in DIRECTIONS:
            directions[direction][kind] = _numbers(scores[direction])
            aps = scores[direction].average_precisions
            arrays[f"{direction}.{kind}.ap"] = aps.astype(np.float32)
    for direction in DIRECTIONS:
        arrays |= _curves(direction, kinds["hamming"][direction])
        asked, answered = direction.split("->")
        labels = ask.query.labels, ask.database.labels
        counts = distance_counts(codes[asked], answers[answered], *labels, threads=1)
        arrays[f"{direction}.similar"], arrays[f"{direction}.dissimilar"] = counts
    for side in SIDES:
        arrays[f"{side}.bit_means"] = answers[side].signs().mean(axis=0)
    return directions, arrays


def _numbers(scores: Scores) -> dict[str, Any]:
    """The scores but for curves and what plays no part; a cut of None is the whole ranking."""
    plain = {name: value for name, value in scores.as_dict().items() if name not in CURVES}
    kept = ("map", "depth")
    return {name: value for name, value in plain.items() if name in kept or value is not None}


def _curves(direction: str, scores: Scores) -> dict[str, np.ndarray]:
    """What is drawn of codes."""
    assert scores.radius is not None
    curves = {
        "recall": scores.pr_recall,
        "precision_at_recall": scores.pr_precision,
        "ranks": np.array(list(scores.precision_at)),
        "precision_at_rank": np.array(list(scores.precision_at.values())),
        "radius_precision": scores.radius.precision,
        "radius_recall": scores.radius.recall,
        "radius_nothing": scores.radius.nothing,
    }
    return {f"{direction}.{name}": values for name, values in curves.items()}


def training_log(hasher: Any) -> dict[str, np.ndarray]:
    """The epochs of a training, an array for each number; NaN where it was not looked at."""
    history = getattr(hasher, "history_", [])
    names = {name for entry in history for name in entry}
    return {
        f"log.{name}": np.array([entry.get(name, np.nan) for entry in history], dtype=np.float64)
        for name in sorted(names)
    }


def _dataset_facts(
    experiment: Experiment, learn: RetrievalSplit, ask: RetrievalSplit
) -> dict[str, Any]:
    """Which data the numbers rest on, and who played which part."""
    fingerprint = fingerprint_of(ask)
    share = None
    if learn.train.labels is not None:
        share = Similarity.from_labels(learn.train.labels).share_similar
    return {
        "name": experiment.dataset,
        "fingerprint": fingerprint.data,
        "split": fingerprint.split,
        "image_features": _what_images_are(experiment, ask),
        "sizes": {part: len(getattr(ask, f"{part}_rows")) for part in PARTS},
        "n_labels": None if ask.pairs.labels is None else int(ask.pairs.labels.shape[1]),
        "share_similar_training_pairs": share,
    }


def _what_images_are(experiment: Experiment, split: RetrievalSplit) -> str:
    """What pictures became; vectors that the dataset brings stay as they are."""
    features, images = image_features_of(experiment), split.pairs.images
    ready = features == PICTURES and not _has_pictures(split)
    passed = features == SIMPLE and images.shape[1] != N_FEATURES
    return "ready vectors" if ready or passed else features


def _plain(value: Any) -> Any:
    """A parameter in a form that JSON can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value.item() if isinstance(value, np.generic) else str(value)


def _validation_map(hasher: Hasher, learn: RetrievalSplit) -> float | None:
    """MAP of validation items; None where there are none, or none has a relevant item."""
    if not len(learn.validation):
        return None
    value = validation_map(hasher, learn.train, learn.validation)
    return None if np.isnan(value) else float(value)
