"""Where pairs come from: the table of datasets, and one way to load any of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.datasets.fingerprint import Fingerprint, fingerprint_of
from corrhash.datasets.image_features import ImageFeatures, as_image_features
from corrhash.datasets.image_files import ImageFiles
from corrhash.datasets.own import own_loader
from corrhash.datasets.picture_check import leave_out_unreadable
from corrhash.datasets.reader import Reader, TextOptions, Vocabulary, fit_reader
from corrhash.datasets.supervision import Supervision, supervise
from corrhash.datasets.synthetic import make_pairs
from corrhash.errors import InputError, did_you_mean
from corrhash.lazy_table import LazyTable

DATASETS = LazyTable(
    "dataset",
    {
        "coco": "corrhash.datasets.coco:load",
        "mirflickr25k": "corrhash.datasets.mirflickr25k:load",
        "mirflickr25k-24": "corrhash.datasets.mirflickr25k:load_24",
        "nuswide": "corrhash.datasets.nuswide:load",
        "scenes": "corrhash.datasets.scenes:load",
        "synthetic": "corrhash.datasets.synthetic:load",
    },
)
"""Names of datasets, each with the function that loads it as a RetrievalSplit of raw items."""

DEFAULT_ROOT = "data"


def load_dataset(
    name: str | Path,
    *,
    root: str | Path | None = None,
    seed: int = 0,
    image_features: str | ImageFeatures | None = None,
    texts: TextOptions | None = None,
    reader: Reader | None = None,
    **options: Any,
) -> RetrievalSplit:
    """A dataset, split and read into what methods learn from.

    Strings become word occurrences over a vocabulary that is counted on all items but the queries.
    Pictures stay pictures, unless ``image_features`` names what to turn them into. Items whose
    pictures cannot be read are left out, and it is said which; the others keep their parts.

    Parameters
    ----------
    name : a name in ``DATASETS``; or a folder of pictures, a manifest or a file of arrays.
    root : the folder that holds the files of a published dataset; by default ``data``.
    seed : of the split, and of the items where the dataset is generated.
    image_features : what pictures become, for methods that learn from feature vectors: a name such
        as ``"simple"`` or ``"alexnet-fc7"``, or :class:`ImageFeatures`, which tells the choices.
    texts : what strings become, where it is not what the dataset is published with.
    reader : the reader of a trained model, in place of a new one.
    options : of the dataset itself, such as ``n``, the number of items, where it is generated.

    Examples
    --------
    >>> load_dataset("synthetic")
    RetrievalSplit(synthetic: train 3,000, validation 400, query 400, database 7,400)
    """
    split = load_raw(name, root=root, seed=seed, **options)
    features = reader.image_features if reader else as_image_features(image_features)
    ready = features is not None and features.of_file
    if isinstance(split.pairs.images, ImageFiles) and not ready:
        split = leave_out_unreadable(split)
    split = replace(split, fingerprint=fingerprint_of(split, pictures=not ready))
    return (reader or fit_reader(split, features, texts)).read_split(split)


def load_folder(folder: str | Path, **options: Any) -> RetrievalSplit:
    """Pictures with captions beside them, in them or in their names; as :func:`load_dataset`."""
    return load_dataset(Path(folder).absolute(), **options)


def load_raw(
    name: str | Path, *, root: str | Path | None = None, seed: int = 0, **options: Any
) -> RetrievalSplit:
    """The items of a dataset as they are, with all pictures that it lists, there or not."""
    load = find_loader(name)
    known = inspect.signature(load).parameters
    if "root" in known:
        options["root"] = DEFAULT_ROOT if root is None else root
    elif root is not None:
        raise InputError(f"{name} has no files below a root. Got {str(root)!r}. Leave --root out.")
    for option in options:
        if option not in known:
            own = [each for each in known if each not in ("root", "seed", "path")]
            raise InputError(
                f"{name} has no option {option!r}. It has: {', '.join(own) or 'none'}."
            )
    split: RetrievalSplit = load(seed=seed, **options)
    return split


def find_loader(name: str | Path) -> Callable[..., Any]:
    """What loads a dataset of the table, or what is at a path."""
    if str(name) in DATASETS:
        load: Callable[..., Any] = DATASETS[str(name)]
        return load
    if not Path(name).exists():
        raise InputError(
            f"There is no dataset {str(name)!r}, and no such file or folder."
            f"{did_you_mean(str(name), DATASETS)} Choose one of: {', '.join(DATASETS)}; or give "
            "the path of a folder of pictures, a manifest or a file of arrays."
        )
    return own_loader(Path(name))


def place_of(name: str) -> str:
    """A name of the table as it is; a folder or file by its full path, which a model keeps."""
    find_loader(name)
    return name if name in DATASETS else str(Path(name).absolute())


__all__ = [
    "DATASETS",
    "Fingerprint",
    "ImageFeatures",
    "ImageFiles",
    "PairedDataset",
    "Reader",
    "RetrievalSplit",
    "Supervision",
    "TextOptions",
    "Vocabulary",
    "load_dataset",
    "load_folder",
    "load_raw",
    "make_pairs",
    "supervise",
]
