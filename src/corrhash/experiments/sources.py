"""Where the data of experiments comes from: names of datasets, and places on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from corrhash.datasets import DATASETS, TextOptions, load_dataset
from corrhash.datasets.base import RetrievalSplit
from corrhash.errors import InputError
from corrhash.experiments.experiment import PICTURES, Experiment, Settings
from corrhash.experiments.settings import method_class

TEXTS = "texts."
"""How options of :class:`TextOptions` begin in a plan: ``texts.top`` is how many words count."""

KEPT = 2
"""Splits that a process keeps: experiments on the same data stand together."""


def parse_places(texts: list[str]) -> dict[str, str]:
    """``["coco16k=DIR"]`` -> ``{"coco16k": "DIR"}``.

    >>> parse_places(["photos=/data/photos"])
    {'photos': '/data/photos'}
    """
    places = {}
    for text in texts:
        name, equals, place = text.partition("=")
        if not (name and equals and place):
            raise InputError(f"Write where a dataset is as NAME=PLACE. Got {text!r}.")
        places[name] = place
    return places


def load_split(experiment: Experiment, places: Mapping[str, str]) -> RetrievalSplit:
    """The dataset of an experiment, split by its seed, with what its pictures become.

    A place is the root of a dataset in ``DATASETS``, and else the dataset itself.
    """
    name, place = experiment.dataset, places.get(experiment.dataset)
    options = experiment.options
    if place is not None and name in DATASETS:
        options = (*options, ("root", place))
    features = image_features_of(experiment)
    return _load(
        name if place is None or name in DATASETS else place,
        experiment.seed,
        None if features == PICTURES else _found(features, place or "."),
        options,
    )


def image_features_of(experiment: Experiment) -> str:
    """What pictures become for this experiment."""
    return experiment.image_features or method_class(experiment.method).image_features or PICTURES


@lru_cache(maxsize=KEPT)
def _load(name: str, seed: int, features: str | None, options: Settings) -> RetrievalSplit:
    words = {option.removeprefix(TEXTS): v for option, v in options if option.startswith(TEXTS)}
    named: dict[str, Any] = {o: v for o, v in options if not o.startswith(TEXTS)}
    if words:
        named["texts"] = TextOptions(**words)
    return load_dataset(name, seed=seed, image_features=features, **named)


def _found(features: str, place: str) -> str:
    """A file of features by its path, if it lies beside the data; other names as they are."""
    folder = Path(place) if Path(place).is_dir() else Path(place).parent
    beside = folder / features
    return str(beside) if beside.is_file() else features
