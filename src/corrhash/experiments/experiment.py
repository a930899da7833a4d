"""Experiment: what to run, as a value whose name is the name of its result."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from corrhash.codes import check_n_bits
from corrhash.errors import InputError

Settings = tuple[tuple[str, Any], ...]
"""Names and values in order of name: a dictionary that can be hashed."""

Bits = int | Literal["labels"]
"""The length of a code; ``labels`` is one bit a label, the own length of a classifier."""

PICTURES = "pictures"
"""The image features of a method that reads pictures as they are."""

KEY_DIGITS = 12


@dataclass(frozen=True)
class Experiment:
    """One model to train and to measure.

    Parameters
    ----------
    dataset : its name; where its files are is told to :func:`corrhash.experiments.run.run`.
    method : a name in ``METHODS``, or ``package.module:Class``.
    n_bits : length of the codes, or ``labels`` for one bit a label.
    seed : of split, initialisation and sampling.
    row : its name in tables; the method's if empty.
    params : settings that differ from the method's defaults.
    options : of the dataset, such as ``n``.
    image_features : what pictures become; ``pictures`` leaves them as they are, None is what the
        method asks for.
    supervision : what teaches the method: ``labels``, ``words`` or ``pairs``.
    literal : the published settings of a method that has them.
    unseen : hold a quarter of the labels out of training and ask for them alone.

    Examples
    --------
    >>> experiment = Experiment("synthetic", "cvh", 16, seed=0, params=settings({"eps": 0.5}))
    >>> experiment.name
    'synthetic-cvh-16-0-3bbc2a64098b'
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
    literal: bool = False
    unseen: bool = False

    def __post_init__(self) -> None:
        if self.n_bits != "labels":
            check_n_bits(self.n_bits)
        object.__setattr__(self, "row", self.row or self.method)

    @property
    def key(self) -> str:
        """Of every field: another setting never takes the place of an old number."""
        content = json.dumps(self.as_dict(), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:KEY_DIGITS]

    @property
    def name(self) -> str:
        """The name of the result's files."""
        words = [self.dataset, self.row, str(self.n_bits), str(self.seed)]
        words += ["unseen"] if self.unseen else []
        return "-".join([*(re.sub(r"[^A-Za-z0-9]+", "_", word) for word in words), self.key])

    def __str__(self) -> str:
        unseen = ", unseen labels" if self.unseen else ""
        return f"{self.row}, {self.n_bits} bits, seed {self.seed}{unseen} on {self.dataset}"

    def as_dict(self) -> dict[str, Any]:
        """In a form that JSON can hold."""
        plain = asdict(self)
        return plain | {name: dict(plain[name]) for name in ("params", "options")}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Experiment:
        """What :meth:`as_dict` gave."""
        known = {field.name for field in fields(cls)}
        if set(values) != known:
            raise InputError(
                f"An experiment has {', '.join(sorted(known))}. Got {', '.join(sorted(values))}."
            )
        nested = {name: settings(values[name]) for name in ("params", "options")}
        return cls(**{**values, **nested})


def settings(values: Mapping[str, Any]) -> Settings:
    """Names and values, sorted and hashable: lists become tuples.

    >>> settings({"b": [1, 2], "a": None})
    (('a', None), ('b', (1, 2)))
    """
    return tuple((name, _hashable(values[name])) for name in sorted(values))


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


def grid(
    datasets: Iterable[str],
    methods: Sequence[str],
    n_bits: Sequence[Bits],
    seeds: Sequence[int] = (0,),
    params: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Experiment]:
    """Every method on every dataset, at every length, with every seed.

    ``params`` maps methods to their settings. Experiments on the same data stand together.

    >>> [e.name[:15] for e in grid(["synthetic"], ["cvh", "scm"], [16])]
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
