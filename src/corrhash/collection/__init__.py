"""Collections: images and texts encoded by a model, stored in an index and searched."""

from corrhash.collection.base import Added, Match, SearchableCollection, SearchOptions
from corrhash.collection.collection import Collection
from corrhash.datasets.records import Record

__all__ = ["Added", "Collection", "Match", "Record", "SearchOptions", "SearchableCollection"]
