"""From words on a command line to a method with its settings."""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Any

from corrhash.codes import check_n_bits
from corrhash.errors import InputError
from corrhash.lazy_table import load_attribute
from corrhash.methods import METHODS, Hasher

OWN_OPTIONS = {
    "n_bits": "--bits",
    "seed": "--seed",
    "training.seed": "--seed",
    "training.checkpoint": "--out",
}
"""Settings that ``--set`` does not take, since another option decides them."""

PLAIN_OPTIONS = {
    "networks.image": "--backbone",
    "networks.image_weights": "--weights",
    "networks.image_frozen": "--frozen",
    "training.device": "--device",
}
"""Settings that an option decides too, for those who need no other setting."""


def method_class(name: str) -> Any:
    """A class from the table, or one of the user's own."""
    method = load_attribute(name) if ":" in name else METHODS[name]
    is_method = isinstance(method, type) and issubclass(method, Hasher)
    if not is_method or inspect.isabstract(method):
        raise InputError(f"{name} is not a method: it is no subclass of corrhash.methods.Hasher.")
    return method


def new_hasher(method: Any, bits: int, params: dict[str, Any], *, literal: bool = False) -> Hasher:
    """A hasher with these parameters, if the method has them.

    ``training.epochs`` is the field ``epochs`` of the parameter ``training``.
    """
    check_n_bits(bits)
    if literal and not hasattr(method, "literal"):
        raise InputError(f"{method.__name__} has one mode only. Leave --literal out.")
    hasher: Hasher = method.literal(bits) if literal else method(bits)
    known = setting_names(hasher)
    for name, value in params.items():
        if name in OWN_OPTIONS:
            raise InputError(f"{name} has an option of its own: use {OWN_OPTIONS[name]}.")
        if name not in known:
            raise InputError(
                f"{method.__name__} has no parameter {name!r}. It has: {', '.join(known)}."
            )
        outer, _, inner = name.partition(".")
        if inner:
            value = dataclasses.replace(getattr(hasher, outer), **{inner: value})
        setattr(hasher, outer, value)
    return hasher


def with_seed(hasher: Any, seed: int) -> Any:
    """The hasher with this seed, its own or that of its training, if it has one."""
    if hasattr(hasher, "seed"):
        hasher.seed = seed
    if hasattr(hasher, "training"):
        hasher.training = dataclasses.replace(hasher.training, seed=seed)
    return hasher


def add_options(params: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """The parameters, and those of ``PLAIN_OPTIONS`` that were given (None: not given)."""
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name in params:
            raise InputError(
                f"{PLAIN_OPTIONS[name]} and --set {name}={params[name]} decide the same. "
                "Leave one of them out."
            )
    return params | given


def setting_names(hasher: Any) -> list[str]:
    """The names that ``--set`` takes: parameters, and fields of those that have fields."""
    names = []
    for name, value in hasher.get_params().items():
        if dataclasses.is_dataclass(value):
            names += [f"{name}.{field.name}" for field in dataclasses.fields(value)]
        else:
            names.append(name)
    return [name for name in names if name not in OWN_OPTIONS]


def parse_params(texts: list[str]) -> dict[str, Any]:
    """``["eps=0.1"]`` -> ``{"eps": 0.1}``; values are read as JSON, else as plain strings."""
    params = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"Write a parameter as NAME=VALUE. Got {text!r}.")
        try:
            params[name] = json.loads(value)
        except ValueError:
            params[name] = value
    return params
