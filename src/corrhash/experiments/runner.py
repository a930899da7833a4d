"""Run one experiment: load the data, fit, encode, evaluate, and store the result."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import platform
import shutil
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.codes import Codes
from corrhash.datasets import ImageFiles, supervise
from corrhash.datasets.base import PARTS, RetrievalSplit
from corrhash.datasets.fingerprint import fingerprint_of
from corrhash.datasets.image_features import N_FEATURES, SIMPLE
from corrhash.errors import InputError
from corrhash.experiments.evaluation import (
    DIRECTIONS,
    embed_pairs,
    evaluate_directions,
    hold_out_labels,
    map_variants,
    validation_map,
)
from corrhash.experiments.experiment import Experiment, image_features_of, load_split
from corrhash.experiments.options import RAW_IMAGES, method_class, new_hasher, with_seed
from corrhash.experiments.result_files import find_result, find_trial, save_result, save_trial
from corrhash.experiments.results import Result
from corrhash.methods.base import Hasher
from corrhash.metrics import Scores
from corrhash.metrics.curves import distance_counts
from corrhash.similarity import Similarity

SIGN_RULE = "+1 above 0, otherwise -1"
PACKAGES = ("corrhash", "numba", "numpy", "scikit-learn", "scipy", "torch")
CURVES = ("pr_recall", "pr_precision", "radius", "precision_at", "recall_at", "ndcg_at")
"""Metrics that are stored as arrays or not computed here."""

FIRST_RANKS = (1, 10)
"""Precision at these ranks is stored as a number; curves have rank 1 and steps of 50."""

MODALITIES = ("image", "text")
FEATURE_VECTORS = "feature vectors"
UNFINISHED = ".unfinished"
"""The folder of training checkpoints, inside the folder of results."""


def run(
    experiment: Experiment, folder: str | Path, locations: Mapping[str, str] | None = None
) -> Result:
    """Return the result of an experiment, stored in ``folder`` or else computed and stored there.

    ``locations`` maps names of datasets to their files.
    """
    folder = Path(folder)
    stored = find_result(experiment, folder)
    if stored is not None:
        return stored
    train_split, test_split = _load_splits(experiment, locations or {})
    hasher = _new_hasher(experiment, train_split)
    params = json.loads(json.dumps(hasher.get_params(deep=False), default=_as_json))
    checkpoint = _set_checkpoint(hasher, train_split, folder / UNFINISHED / experiment.name)
    supervised = supervise(
        train_split,
        experiment.supervision,
        needed=hasher.needs_labels,
        pairs_suffice=hasher.learns_from_pairs,
    )
    watch = Stopwatch()
    with watch.stage("fit"), capture_warnings() as notes:
        hasher.fit(supervised.train, validation=supervised.validation)
    with watch.stage("encode"):
        query = embed_pairs(hasher, test_split.query)
        database = embed_pairs(hasher, test_split.database)
    with watch.stage("evaluate"):
        metrics, arrays = measure(hasher, test_split, query, database)
    arrays |= training_log(hasher)
    facts = {
        "dataset": _dataset_facts(experiment, train_split, test_split),
        "method": f"{type(hasher).__module__}:{type(hasher).__qualname__}",
        "params": params,
        "n_bits": hasher.n_bits,
        "seed": experiment.seed,
        "ranked_by": hasher.ranked_by,
        "sign": SIGN_RULE,
        "supervision": supervised.name,
        "validation_map": _validation_map(hasher, train_split),
        "directions": metrics,
        "notes": notes,
        "seconds": watch.seconds,
        "peak_mb": watch.peak_mb,
        "versions": {name: version(name) for name in PACKAGES}
        | {"python": platform.python_version(), "machine": platform.machine()},
    }
    result = save_result(experiment, facts, arrays, folder)
    if checkpoint is not None:
        shutil.rmtree(checkpoint, ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty: other experiments are unfinished
            checkpoint.parent.rmdir()
    return result


def try_settings(
    experiment: Experiment, folder: str | Path, locations: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the validation mAP of the settings of an experiment; queries are not used.

    If training diverges, that is stored too, and these settings are never chosen.
    """
    folder = Path(folder)
    stored = find_trial(experiment, folder)
    if stored is not None:
        return stored
    split, _ = _load_splits(experiment, locations or {})
    if not len(split.validation):
        raise InputError(
            f"Tuning needs validation items, and {experiment.dataset} has none. Run the plan with "
            "--no-tune, or add a validation part to the dataset."
        )
    hasher = _new_hasher(experiment, split)
    supervised = supervise(
        split,
        experiment.supervision,
        needed=hasher.needs_labels,
        pairs_suffice=hasher.learns_from_pairs,
    )
    watch = Stopwatch()
    failure = None
    with watch.stage("fit"), capture_warnings() as notes:
        try:
            hasher.fit(supervised.train, validation=supervised.validation)
        except InputError as error:
            failure = str(error)
    trial = {
        "validation_map": None if failure else _validation_map(hasher, split),
        "error": failure,
        "notes": notes,
        "seconds": watch.seconds,
    }
    save_trial(experiment, trial, folder)
    return trial


def _load_splits(
    experiment: Experiment, locations: Mapping[str, str]
) -> tuple[RetrievalSplit, RetrievalSplit]:
    """Return the split to train on and the one to test on: the same unless labels are held out."""
    split = load_split(experiment, locations)
    if split.pairs.labels is None:
        raise InputError(
            f"A study needs labels for evaluation, and {experiment.dataset} has none. Use corrhash "
            "train and corrhash evaluate, which measures how well paired samples are retrieved."
        )
    return hold_out_labels(split, experiment.seed) if experiment.unseen else (split, split)


def _new_hasher(experiment: Experiment, split: RetrievalSplit) -> Hasher:
    n_bits = experiment.n_bits
    if n_bits == "labels":
        assert split.pairs.labels is not None
        n_bits = int(split.pairs.labels.shape[1])
    method = method_class(experiment.method)
    params, paper_settings = dict(experiment.params), experiment.paper_settings
    hasher = new_hasher(method, n_bits, params, paper_settings=paper_settings)
    return with_seed(hasher, experiment.seed)


def _set_checkpoint(hasher: Any, split: RetrievalSplit, folder: Path) -> Path | None:
    """Let training on images, which takes long, resume after an interruption."""
    if not (_has_raw_images(split) and hasattr(hasher, "training")):
        return None
    hasher.training = dataclasses.replace(hasher.training, checkpoint=str(folder))
    return folder


def _has_raw_images(split: RetrievalSplit) -> bool:
    images = split.pairs.images
    return isinstance(images, ImageFiles) or images.ndim == 4


def measure(
    hasher: Hasher,
    split: RetrievalSplit,
    query: dict[str, np.ndarray],
    database: dict[str, np.ndarray],
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the metrics of both directions, and the arrays, from continuous codes by modality.

    Rankings are by codes, by the cosine of continuous codes, and by codes with the training items
    removed from the database, unless nothing remains. ``variants`` has mAP under other definitions.
    """
    query_codes = {modality: hasher.query_codes(query[modality]) for modality in MODALITIES}
    codes = {modality: Codes.from_continuous(database[modality]) for modality in MODALITIES}
    new_codes = {modality: codes[modality][~split.train_in_database] for modality in MODALITIES}
    pairs = split.query, split.database
    rankings = {
        "hamming": evaluate_directions(*pairs, query_codes, codes, threads=1),
        "cosine": evaluate_directions(*pairs, query, database, threads=1),
    }
    if len(new_codes["image"]):
        new_pairs = split.query, split.without_trained().database
        rankings["without_trained"] = evaluate_directions(
            *new_pairs, query_codes, new_codes, threads=1
        )
    metrics: dict[str, Any] = {direction: {} for direction in DIRECTIONS}
    arrays: dict[str, np.ndarray] = {}
    for ranked_by, scores in rankings.items():
        for direction in DIRECTIONS:
            metrics[direction][ranked_by] = _metrics(scores[direction])
            aps = scores[direction].average_precisions
            arrays[f"{direction}.{ranked_by}.ap"] = aps.astype(np.float32)
    variants = map_variants(*pairs, query_codes, codes)
    for direction in DIRECTIONS:
        metrics[direction]["variants"] = variants[direction]
        arrays |= _curves(direction, rankings["hamming"][direction])
        query_modality, database_modality = direction.split("->")
        similar, dissimilar = distance_counts(
            query_codes[query_modality],
            codes[database_modality],
            split.query.labels,
            split.database.labels,
            threads=1,
        )
        arrays |= {f"{direction}.similar": similar, f"{direction}.dissimilar": dissimilar}
    for modality in MODALITIES:
        arrays[f"{modality}.bit_means"] = codes[modality].signs().mean(axis=0)
    return metrics, arrays


def _metrics(scores: Scores) -> dict[str, Any]:
    """Return the scores without curves and without metrics that do not apply."""
    plain = {name: value for name, value in scores.as_dict().items() if name not in CURVES}
    plain |= {f"precision_at_{rank}": scores.precision_at.get(rank) for rank in FIRST_RANKS}
    # None is a value of these two: no query was evaluated, and the whole ranking.
    kept = ("map", "depth")
    return {name: value for name, value in plain.items() if name in kept or value is not None}


def _curves(direction: str, scores: Scores) -> dict[str, np.ndarray]:
    assert scores.radius is not None
    precision_at = {rank: p for rank, p in scores.precision_at.items() if rank != FIRST_RANKS[-1]}
    curves = {
        "recall": scores.pr_recall,
        "precision_at_recall": scores.pr_precision,
        "ranks": np.array(list(precision_at)),
        "precision_at_rank": np.array(list(precision_at.values())),
        "radius_precision": scores.radius.precision,
        "radius_recall": scores.radius.recall,
        "radius_empty_rate": scores.radius.empty_rate,
    }
    return {f"{direction}.{name}": values for name, values in curves.items()}


def training_log(hasher: Hasher) -> dict[str, np.ndarray]:
    """Return one array per logged quantity, one value per epoch; NaN where it was not computed."""
    history = getattr(hasher, "history_", [])
    names = {name for entry in history for name in entry}
    return {
        f"log.{name}": np.array([entry.get(name, np.nan) for entry in history], dtype=np.float64)
        for name in sorted(names)
    }


def _dataset_facts(
    experiment: Experiment, train_split: RetrievalSplit, test_split: RetrievalSplit
) -> dict[str, Any]:
    """Describe the data: fingerprints, sizes, labels and image features."""
    fingerprint = fingerprint_of(test_split)
    train_labels, labels = train_split.train.labels, test_split.pairs.labels
    assert train_labels is not None
    assert labels is not None
    return {
        "name": experiment.dataset,
        "fingerprint": fingerprint.data,
        "split": fingerprint.split,
        "image_features": _image_features_used(experiment, test_split),
        "sizes": {part: len(getattr(test_split, f"{part}_rows")) for part in PARTS},
        "n_labels": int(labels.shape[1]),
        "share_similar_training_pairs": Similarity.from_labels(train_labels).share_similar,
    }


def _image_features_used(experiment: Experiment, split: RetrievalSplit) -> str:
    """Return the image features; vectors that a dataset contains are used unchanged."""
    features, images = image_features_of(experiment), split.pairs.images
    unchanged = features == RAW_IMAGES and not _has_raw_images(split)
    passed_on = features == SIMPLE and images.shape[1] != N_FEATURES
    return FEATURE_VECTORS if unchanged or passed_on else features


def _as_json(value: Any) -> Any:
    """Return a parameter in a form that JSON can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value.item() if isinstance(value, np.generic) else str(value)


def _validation_map(hasher: Hasher, split: RetrievalSplit) -> float | None:
    """Return the validation mAP; None without validation items that have a relevant item."""
    if not len(split.validation):
        return None
    value = validation_map(hasher, split.validation)
    return None if np.isnan(value) else float(value)


RESET, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
PEAK = "VmHWM:"


class Stopwatch:
    """The seconds and the peak memory of named stages.

    On Linux the peak is that of the stage. Other systems report only the peak of the process.

    >>> watch = Stopwatch()
    >>> with watch.stage("nothing"):
    ...     pass
    >>> list(watch.seconds), watch.peak_mb["nothing"] > 1
    (['nothing'], True)
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.peak_mb: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure the block."""
        _reset_peak()
        started = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - started, 3)
        self.peak_mb[name] = round(_peak_mb(), 1)


def _reset_peak() -> None:
    with contextlib.suppress(OSError):  # not Linux
        RESET.write_text("5")


def _peak_mb() -> float:
    try:
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith(PEAK))
        return int(line.split()[1]) / 1024
    except (OSError, StopIteration):
        import resource  # not available on every system

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 1024 / (1024 if sys.platform == "darwin" else 1)


@contextmanager
def capture_warnings() -> Iterator[list[str]]:
    """Collect warnings of the library's log and of Python inside the block, each once.

    >>> with capture_warnings() as notes:
    ...     logging.getLogger("corrhash").warning("Codes collapse.")
    ...     warnings.warn("It did not converge.", stacklevel=1)
    >>> notes
    ['Codes collapse.', 'It did not converge.']
    """
    log, handler = logging.getLogger("corrhash"), _Collector()
    handlers, propagate = log.handlers, log.propagate
    log.handlers, log.propagate = [handler], False
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield handler.lines
        for warning in caught:
            handler.add(str(warning.message))
    finally:
        log.handlers, log.propagate = handlers, propagate


class _Collector(logging.Handler):
    """Each warning once, in order."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.add(record.getMessage())

    def add(self, line: str) -> None:
        if line not in self.lines:
            self.lines.append(line)
