"""Collections: images and texts encoded by a model, stored in an index and searched."""

from corrhash.collection.base import Added, Match, SearchableCollection, SearchOptions
from corrhash.collection.collection import Collection
from corrhash.collection.judging import Judgment
from corrhash.datasets.records import Record

__all__ = [
    "Added",
    "Collection",
    "Judgment",
    "Match",
    "Record",
    "SearchOptions",
    "SearchableCollection",
]
