"""Datasets: the registry of named ones, and one function that loads these and user files."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from corrhash._registry import Registry
from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.datasets.feature_cache import SUFFIXES
from corrhash.datasets.fingerprint import Fingerprint, fingerprint_of
from corrhash.datasets.formats import find_format
from corrhash.datasets.image_check import drop_unreadable
from corrhash.datasets.image_features import (
    ImageFeatures,
    as_image_features,
    read_listed_features,
)
from corrhash.datasets.images import ImageFiles
from corrhash.datasets.reader import Reader, fit_reader
from corrhash.datasets.supervision import Supervision, supervise
from corrhash.datasets.synthetic import make_pairs
from corrhash.datasets.text_features import TextFeatures
from corrhash.datasets.vocabulary import TextOptions, Vocabulary
from corrhash.errors import InputError, ParameterError, did_you_mean

DATASETS = Registry(
    "dataset",
    {
        "coco": "corrhash.datasets.published.coco:load",
        "mirflickr25k": "corrhash.datasets.published.mirflickr25k:load",
        "mirflickr25k-24": "corrhash.datasets.published.mirflickr25k:load_24",
        "nuswide": "corrhash.datasets.published.nuswide:load",
        "scenes": "corrhash.datasets.scenes.dataset:load",
        "synthetic": "corrhash.datasets.synthetic:load",
    },
)
"""Names of datasets, each with the function that loads it as a raw RetrievalSplit."""

DEFAULT_ROOT = "data"


def load_dataset(
    name: str | Path,
    *,
    root: str | Path | None = None,
    seed: int = 0,
    image_features: str | ImageFeatures | None = None,
    texts: TextOptions | None = None,
    text_features: str | TextFeatures | None = None,
    reader: Reader | None = None,
    **options: Any,
) -> RetrievalSplit:
    """Load a dataset, split it, and turn it into the arrays that methods learn from.

    Strings become term vectors over a vocabulary that is counted on all items but the queries.
    Images stay images unless ``image_features`` is given. Items whose images cannot be decoded are
    skipped with a warning; the others keep their parts.

    Parameters
    ----------
    name : a name in ``DATASETS``; or a folder of images, a table, tar shards or arrays.
    root : folder of the files of a published dataset. Defaults to ``data``.
    seed : of the split, and of the items of a generated dataset.
    image_features : for methods that learn from feature vectors: a name such as ``"simple"`` or
        ``"alexnet-fc7"``, or :class:`ImageFeatures`, which lists the choices.
    texts : how strings become vectors. Defaults to what the dataset is published with.
    text_features : a sentence encoder for strings, such as ``"onnx:folder"``, in place of term
        vectors; see :class:`TextFeatures`. Or a ``.npy`` or ``.npz`` file with a row for each item
        of the dataset, for studies: a model that is trained on it cannot read strings.
    reader : the reader of a trained model, instead of a new one.
    options : of the dataset itself, such as ``n``, the number of items of a generated one.

    Examples
    --------
    >>> load_dataset("synthetic")
    RetrievalSplit(synthetic: train 3,000, validation 400, query 400, database 7,400)
    """
    split = load_raw(name, root=root, seed=seed, **options)
    if isinstance(text_features, str) and text_features.endswith(SUFFIXES):
        vectors = read_listed_features(Path(text_features), split.pairs.images)
        split = replace(split, pairs=replace(split.pairs, texts=vectors), reader=None)
        text_features = None
    features = reader.image_features if reader else as_image_features(image_features)
    from_file = features is not None and features.of_file
    if isinstance(split.pairs.images, ImageFiles) and not from_file:
        split = drop_unreadable(split)
    split = replace(split, fingerprint=fingerprint_of(split, images=not from_file))
    return (reader or fit_reader(split, features, texts, text_features)).read_split(split)


def load_folder(folder: str | Path, **options: Any) -> RetrievalSplit:
    """Load a folder of images or of other files; the options are those of :func:`load_dataset`."""
    return load_dataset(Path(folder).absolute(), **options)


def load_raw(
    name: str | Path, *, root: str | Path | None = None, seed: int = 0, **options: Any
) -> RetrievalSplit:
    """Load the raw items of a dataset, including those whose image files do not exist."""
    load = find_loader(name)
    if "root" in inspect.signature(load).parameters:
        options["root"] = DEFAULT_ROOT if root is None else root
    elif root is not None:
        raise ParameterError(
            "root", f"applies to published datasets only, got {str(root)!r} for {name}. Remove it."
        )
    check_options(name, options)
    split: RetrievalSplit = load(seed=seed, **options)
    return split


def check_options(name: str | Path, options: Iterable[str]) -> None:
    """Raise an error if a dataset has no option of one of these names."""
    known = inspect.signature(find_loader(name)).parameters
    for option in options:
        if option not in known:
            names = [each for each in known if each not in ("root", "seed", "path")]
            raise InputError(
                f"{name} has no option {option!r}. Valid options: {', '.join(names) or 'none'}."
            )


def find_loader(name: str | Path) -> Callable[..., Any]:
    """Return the function that loads a named dataset, or the file or folder at a path."""
    location = dataset_location(name)
    if location in DATASETS:
        load: Callable[..., Any] = DATASETS[location]
        return load
    format, path = find_format(Path(location))
    return partial(format.load, path)


def dataset_location(name: str | Path) -> str:
    """Return the name of a dataset as it is, and any other path as an absolute one.

    Names of datasets come before files and folders: write ``./scenes`` for a folder ``scenes``.
    """
    if str(name) in DATASETS:
        return str(name)
    if not str(name) or not Path(name).exists():
        raise InputError(
            f"{str(name)!r} is neither a dataset nor an existing file or folder."
            f"{did_you_mean(str(name), DATASETS)} Datasets: {', '.join(DATASETS)}. You can "
            "also pass the path of a folder of images, a table, tar shards or arrays."
        )
    return str(Path(name).absolute())


__all__ = [
    "DATASETS",
    "Fingerprint",
    "ImageFeatures",
    "ImageFiles",
    "PairedDataset",
    "Reader",
    "RetrievalSplit",
    "Supervision",
    "TextFeatures",
    "TextOptions",
    "Vocabulary",
    "load_dataset",
    "load_folder",
    "load_raw",
    "make_pairs",
    "supervise",
]
