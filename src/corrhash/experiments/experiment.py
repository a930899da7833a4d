"""Experiment: one model to train and evaluate, and the data that it uses."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from corrhash.codes import check_n_bits
from corrhash.datasets import (
    DATASETS,
    DEFAULT_ROOT,
    check_options,
    dataset_location,
    load_dataset,
)
from corrhash.datasets.base import RetrievalSplit
from corrhash.datasets.feature_cache import SUFFIXES
from corrhash.datasets.published.base import published_files
from corrhash.errors import InputError, ParameterError
from corrhash.experiments.options import RAW_IMAGES, method_class, named_text_options

Settings = tuple[tuple[str, Any], ...]
"""Names and values, sorted by name: a hashable dictionary."""

Bits = int | Literal["labels"]
"""A code length; ``labels`` is one bit per label, as a classifier without projection has."""


SOURCE, TEXT_FEATURES = "source", "text_features"
"""Options of a plan's dataset: the dataset to load, and a file of text features."""

TEXT_OPTION = "texts."
"""Prefix of the options of :class:`TextOptions` in a plan, such as ``texts.top``."""

CACHED_SPLITS = 2
"""Splits that a process keeps in memory: experiments on the same data run in a row."""

KEY_DIGITS = 12


@dataclass(frozen=True)
class Experiment:
    """One model to train and evaluate. Its name is the name of its result file.

    Parameters
    ----------
    dataset : name; :func:`corrhash.experiments.runner.run` receives the location of its files.
    method : a name in ``METHODS``, or ``package.module:Class``.
    n_bits : code length, or ``labels`` for one bit per label.
    seed : of split, initialization and sampling.
    row : its name in tables; by default the method.
    params : settings that differ from the defaults of the method.
    options : of the dataset, such as ``n``.
    image_features : feature extractor for images; ``raw`` passes images unchanged, None is the
        default of the method.
    supervision : ``labels``, ``pseudo-labels`` or ``pairs``.
    paper_settings : whether to start from the settings of the method's paper.
    unseen : whether to hold a quarter of the labels out of training and evaluate on them alone.

    Examples
    --------
    >>> experiment = Experiment("synthetic", "cvh", 16, seed=0, params=settings({"ridge": 0.5}))
    >>> experiment.name[:19]
    'synthetic-cvh-16-0-'
    """

    dataset: str
    method: str
    n_bits: Bits
    seed: int
    row: str = ""
    params: Settings = ()
    options: Settings = ()
    image_features: str | None = None
    supervision: str = "labels"
    paper_settings: bool = False
    unseen: bool = False

    def __post_init__(self) -> None:
        if self.n_bits != "labels":
            check_n_bits(self.n_bits)
        if type(self.seed) is not int or self.seed < 0:
            raise InputError(f"A seed must be an integer >= 0, got {self.seed!r}.")
        object.__setattr__(self, "row", self.row or self.method)

    @property
    def key(self) -> str:
        """A checksum of every field: changed settings never reuse an old result."""
        content = json.dumps(self.as_dict(), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:KEY_DIGITS]

    @property
    def name(self) -> str:
        """The name of the result files, without suffix."""
        parts = [self.dataset, self.row, str(self.n_bits), str(self.seed)]
        parts += ["unseen"] if self.unseen else []
        return "-".join([*(re.sub(r"[^A-Za-z0-9]+", "_", part) for part in parts), self.key])

    def __str__(self) -> str:
        unseen = ", unseen labels" if self.unseen else ""
        return f"{self.row}, {self.n_bits} bits, seed {self.seed}{unseen} on {self.dataset}"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields in a form that JSON can hold."""
        values = asdict(self)
        return values | {name: dict(values[name]) for name in ("params", "options")}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Experiment:
        """Return the experiment that :meth:`as_dict` described."""
        known = {field.name for field in fields(cls)}
        if set(values) != known:
            raise InputError(
                f"An experiment has the fields {', '.join(sorted(known))}, got "
                f"{', '.join(sorted(values))}."
            )
        nested = {name: settings(values[name]) for name in ("params", "options")}
        return cls(**{**values, **nested})


def settings(values: Mapping[str, Any]) -> Settings:
    """Return names and values, sorted and hashable: lists become tuples.

    >>> settings({"b": [1, 2], "a": None})
    (('a', None), ('b', (1, 2)))
    """
    return tuple((name, _hashable(values[name])) for name in sorted(values))


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


def experiment_grid(
    datasets: Iterable[str],
    methods: Sequence[str],
    n_bits: Sequence[Bits],
    seeds: Sequence[int] = (0,),
    params: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Experiment]:
    """Return the experiments of every method on every dataset, with every code length and seed.

    ``params`` maps methods to their settings. Experiments on the same data are adjacent.

    >>> [e.name[:15] for e in experiment_grid(["synthetic"], ["cvh", "scm"], [16])]
    ['synthetic-cvh-1', 'synthetic-scm-1']
    """
    chosen = params or {}
    return [
        Experiment(dataset, method, length, seed, params=settings(chosen.get(method, {})))
        for dataset in datasets
        for seed in seeds
        for method in methods
        for length in n_bits
    ]


def load_split(experiment: Experiment, locations: Mapping[str, str]) -> RetrievalSplit:
    """Load the dataset of an experiment, split by its seed, with its image features.

    The option ``source`` names the dataset to load if ``experiment.dataset`` is another name for
    it. ``locations`` maps names of datasets to the root folder of a dataset in ``DATASETS``, or
    else to anything that :func:`load_dataset` accepts.
    """
    options = dict(experiment.options)
    name = options.pop(SOURCE, experiment.dataset)
    location = _location(name, locations)
    if name in locations and name in DATASETS:
        options["root"] = location
    if TEXT_FEATURES in options:
        options[TEXT_FEATURES] = _feature_file(options[TEXT_FEATURES], location)
    features = image_features_of(experiment)
    return _load(
        name if name in DATASETS else location,
        experiment.seed,
        None if features == RAW_IMAGES else _feature_file(features, location),
        settings(options),
    )


def check_data(experiments: Iterable[Experiment], locations: Mapping[str, str]) -> None:
    """Raise an error if data of these experiments is missing or has no such options.

    No item is read.
    """
    files, described = set(), set()
    for experiment in experiments:
        options = dict(experiment.options)
        name = options.pop(SOURCE, experiment.dataset)
        for features in (image_features_of(experiment), options.pop(TEXT_FEATURES, None)):
            files.add((name, features))
        described.add((name, settings(options)))
    for name, features in sorted(files, key=str):
        location = locations.get(name)
        option = f"--data {name}=FOLDER"
        if name not in DATASETS:
            if location is None and not Path(name).exists():
                raise InputError(f"The plan's dataset {name!r} has no location. Pass {option}.")
            dataset_location(location or name)
        elif (published := published_files(DATASETS[name])) is not None:
            published.require(location or DEFAULT_ROOT, option)
        if features is not None and features.endswith(SUFFIXES):
            folder = _location(name, locations)
            if not Path(_feature_file(features, folder)).is_file():
                raise InputError(
                    f"The plan reads {features} from the folder of {name}, {folder}, which has no "
                    f"such file. Pass the folder that has it: {option}."
                )
    for name, given in sorted(described, key=str):
        rest = loading_options(given)
        rest.pop("texts", None)
        check_options(name if name in DATASETS else _location(name, locations), rest)


def _location(name: str, locations: Mapping[str, str]) -> str:
    """Return the location of a dataset; by default the root of published ones, or the name."""
    return locations.get(name) or (DEFAULT_ROOT if name in DATASETS else name)


def image_features_of(experiment: Experiment) -> str:
    """Return the feature extractor of an experiment, or the default of its method."""
    return experiment.image_features or method_class(experiment.method).image_features or RAW_IMAGES


@lru_cache(maxsize=CACHED_SPLITS)
def _load(location: str, seed: int, features: str | None, options: Settings) -> RetrievalSplit:
    return load_dataset(location, seed=seed, image_features=features, **loading_options(options))


def loading_options(options: Settings) -> dict[str, Any]:
    """Return the options of a plan's dataset as :func:`load_dataset` takes them.

    >>> loading_options((("n", 900), ("texts.top", 50)))["texts"].top
    50
    """
    texts = {
        name.removeprefix(TEXT_OPTION): v for name, v in options if name.startswith(TEXT_OPTION)
    }
    rest = {name: v for name, v in options if not name.startswith(TEXT_OPTION)}
    return rest | ({"texts": named_text_options(texts)} if texts else {})


def _feature_file(features: str, location: str) -> str:
    """Return the path of a feature file next to the data, or the name of an extractor unchanged."""
    folder = Path(location) if Path(location).is_dir() else Path(location).parent
    path = folder / features
    return str(path) if path.is_file() else features


def parse_locations(assignments: list[str]) -> dict[str, str]:
    """Parse the locations of datasets.

    >>> parse_locations(["photos=/data/photos"])
    {'photos': '/data/photos'}
    """
    locations = {}
    for text in assignments:
        name, equals, location = text.partition("=")
        if not (name and equals and location):
            raise ParameterError("data", f"must be NAME=LOCATION, got {text!r}.")
        locations[name] = location
    return locations
