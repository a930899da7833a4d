"""Where pairs come from: the table of datasets, and one way to load any of them."""

from __future__ import annotations

from typing import Any

from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.datasets.image_features import ImageFeatures
from corrhash.datasets.image_files import ImageFiles
from corrhash.datasets.reader import Reader, Vocabulary, fit_reader
from corrhash.datasets.supervision import Supervision, supervise
from corrhash.datasets.synthetic import make_pairs
from corrhash.lazy_table import LazyTable

DATASETS = LazyTable(
    "dataset",
    {
        "scenes": "corrhash.datasets.scenes:load",
        "synthetic": "corrhash.datasets.synthetic:load",
    },
)
"""Names of datasets, each with the function that loads it as a RetrievalSplit of raw items."""


def load_dataset(
    name: str,
    *,
    seed: int = 0,
    image_features: str | ImageFeatures | None = None,
    reader: Reader | None = None,
    **options: Any,
) -> RetrievalSplit:
    """The dataset called ``name``, split and read into what methods learn from.

    Strings become word occurrences over a vocabulary that is counted on all items but the queries.
    Pictures stay pictures, unless ``image_features`` names what to turn them into.

    Parameters
    ----------
    name : a name in ``DATASETS``.
    seed : of the split, and of the items where the dataset is generated.
    image_features : what pictures become, for methods that learn from feature vectors: a name such
        as ``"simple"`` or ``"alexnet-fc7"``, or :class:`ImageFeatures`, which tells the choices.
    reader : the reader of a trained model, in place of a new one.
    options : of the dataset itself, such as ``n``, the number of items, where it is generated.

    Examples
    --------
    >>> load_dataset("synthetic")
    RetrievalSplit(synthetic: train 3,000, validation 400, query 400, database 7,400)
    """
    split = DATASETS[name](seed=seed, **options)
    return (reader or fit_reader(split, image_features)).read_split(split)


__all__ = [
    "DATASETS",
    "ImageFeatures",
    "ImageFiles",
    "PairedDataset",
    "Reader",
    "RetrievalSplit",
    "Supervision",
    "Vocabulary",
    "load_dataset",
    "make_pairs",
    "supervise",
]
