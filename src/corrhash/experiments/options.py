"""Options: from the arguments of a command or a plan to a configured hasher and dataset."""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corrhash._registry import load_attribute
from corrhash.codes import check_n_bits
from corrhash.datasets import DATASETS, ImageFeatures, TextOptions
from corrhash.datasets.formats import find_format
from corrhash.errors import InputError, ParameterError
from corrhash.methods import METHODS, Hasher

log = logging.getLogger("corrhash")

RESERVED_SETTINGS = {
    "n_bits": "--bits",
    "seed": "--seed",
    "training.seed": "--seed",
    "training.checkpoint": "--out",
}
"""Settings that ``--set`` refuses because they have an option of their own."""

SHORTCUT_OPTIONS = {
    "networks.image": "--backbone",
    "networks.image_weights": "--weights",
    "networks.image_frozen": "--frozen",
}
"""Settings that have an option as well as ``--set``."""


def method_class(name: str) -> type[Hasher]:
    """Return the class of a method: a name in ``METHODS`` or ``package.module:Class``."""
    method = load_attribute(name) if ":" in name else METHODS[name]
    is_method = isinstance(method, type) and issubclass(method, Hasher)
    if not is_method or inspect.isabstract(method):
        raise InputError(
            f"{name} is not a hashing method: it must be a concrete subclass of "
            "corrhash.methods.Hasher."
        )
    return method


def new_hasher(
    method: type[Hasher], bits: int, params: dict[str, Any], *, paper_settings: bool = False
) -> Hasher:
    """Return an unfitted hasher with these parameters.

    ``training.epochs`` sets the field ``epochs`` of the parameter ``training``.
    """
    check_n_bits(bits)
    create: Callable[[int], Hasher] | None = method
    if paper_settings:
        create = getattr(method, "from_paper", None)
    if create is None:
        raise InputError(f"{method.__name__} has no paper settings. Remove --paper-settings.")
    hasher = create(bits)
    known = setting_names(hasher)
    for name in params:
        if name in RESERVED_SETTINGS:
            raise InputError(f"{name} cannot be set here: use {RESERVED_SETTINGS[name]}.")
        if name not in known:
            raise InputError(
                f"{method.__name__} has no parameter {name!r}. Valid names: {', '.join(known)}."
            )
    return hasher.set_params(**{name.replace(".", "__"): v for name, v in params.items()})


def with_seed(hasher: Hasher, seed: int) -> Hasher:
    """Set the seed of a hasher and of its training, where it has them."""
    if hasattr(hasher, "seed"):
        hasher.seed = seed
    if hasattr(hasher, "training"):
        hasher.training = dataclasses.replace(hasher.training, seed=seed)
    return hasher


def add_options(params: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters with those of ``SHORTCUT_OPTIONS`` that are not None."""
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name in params:
            raise InputError(
                f"{SHORTCUT_OPTIONS[name]} and --set {name}={params[name]} set the same parameter. "
                "Remove one of them."
            )
    return params | given


def setting_names(hasher: Hasher) -> list[str]:
    """Return the names that ``--set`` accepts: parameters, and fields of dataclass parameters."""
    names = []
    for name, value in hasher.get_params(deep=False).items():
        if dataclasses.is_dataclass(value):
            names += [f"{name}.{field.name}" for field in dataclasses.fields(value)]
        else:
            names.append(name)
    return [name for name in names if name not in RESERVED_SETTINGS]


def parse_params(texts: list[str], parameter: str = "params") -> dict[str, Any]:
    """Parse ``NAME=VALUE`` assignments; a value is JSON or else a string.

    ``parameter`` is what errors call the assignments.

    >>> parse_params(["ridge=0.1", "optimizer=sgd"])
    {'ridge': 0.1, 'optimizer': 'sgd'}
    """
    params = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise ParameterError(parameter, f"must be NAME=VALUE, got {text!r}.")
        try:
            params[name] = json.loads(value)
        except ValueError:
            params[name] = value
    return params


def data_options(dataset: str, root: str | Path | None, given: list[str]) -> dict[str, Any]:
    """Return the options of a dataset, with the absolute path of its root folder."""
    options = parse_params(given, "data")
    for taken in ("root", "seed"):
        if taken in options:
            raise InputError(f"{taken} cannot be set with --data: use --{taken}.")
    if root is not None and dataset not in DATASETS:
        raise InputError(
            f"--root applies to named datasets only, and {dataset} is a path. Remove --root {root}."
        )
    return options if root is None else {**options, "root": str(Path(root).absolute())}


def text_options(given: list[str]) -> TextOptions | None:
    """Return the text options of ``--texts``; None without any."""
    if not given:
        return None
    return named_text_options(parse_params(given, "texts"))


def named_text_options(values: dict[str, Any]) -> TextOptions:
    """Return the text options with these values, by name."""
    known = [field.name for field in dataclasses.fields(TextOptions)]
    for name in values:
        if name not in known:
            raise InputError(f"Unknown text option {name!r}. Valid names: {', '.join(known)}.")
    return TextOptions(**values)


def photo_encoders(location: str, options: dict[str, Any]) -> dict[str, str] | None:
    """Return the names of the best encoders by modality for the images at a path.

    Returns None if the path does not hold images. Empty if there is no encoder on this machine and
    none can be fetched; the reason is logged.
    """
    if location in DATASETS:
        return None
    format, path = find_format(Path(location))
    known = inspect.signature(format.read).parameters
    how = {name: value for name, value in options.items() if name in known}
    first = next(iter(format.read(path, **how).records), None)
    if not isinstance(getattr(first, "image", None), (str, Path, bytes)):
        return None
    from corrhash.networks.encoder_catalog import default_encoders

    try:
        return default_encoders()
    except InputError as error:
        log.warning("%s", error)
        return {}


RAW_IMAGES = "raw"
"""The image features of a method that reads images."""


@dataclass(frozen=True)
class ImageOptions:
    """How images are read: as feature vectors computed once, or by a network that is trained.

    Parameters
    ----------
    image_features : feature extractor; ``raw`` passes images to the method, None is the default of
        the method.
    backbone : network to train on images.
    weights : of the feature extractor or of the backbone.
    frozen : keep the weights of the backbone; train the hash layer and layers that the weights
        file does not contain.
    """

    image_features: str | None = None
    backbone: str | None = None
    weights: str | None = None
    frozen: bool = False

    @property
    def chosen(self) -> bool:
        """Whether any of the options is given."""
        return any((self.image_features, self.backbone, self.weights, self.frozen))

    def features(self, method: type[Hasher] | Hasher) -> ImageFeatures | None:
        """Return the image features for a method; None if it reads images."""
        name = self.image_features or method.image_features
        return None if name in (None, RAW_IMAGES) else ImageFeatures(name, self.weights)

    def settings(self, method: type[Hasher], params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of a method with those that these options set."""
        features = self.features(method)
        options: dict[str, Any] = {}
        if features is None:
            options["networks.image"] = self.backbone
            options["networks.image_weights"] = self.weights
            options["networks.image_frozen"] = self.frozen or None
        elif self.backbone or self.frozen:
            option = "--backbone" if self.backbone else "--frozen"
            raise InputError(
                f"{option} applies only when a network is trained on images, but "
                f"{method.__name__} is trained on feature vectors ({features.name}). Remove "
                f"{option}, or choose a method that trains neural networks and omit "
                "--image-features."
            )
        known = setting_names(method())
        for name, value in options.items():
            if value is not None and name not in known:
                raise InputError(
                    f"{method.__name__} has no {name}. Remove {SHORTCUT_OPTIONS[name]}."
                )
        return add_options(params, options)
