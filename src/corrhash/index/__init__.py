"""Engines that store and search binary codes, chosen by the URI of an index."""

from __future__ import annotations

from corrhash._registry import Registry
from corrhash.errors import InputError
from corrhash.index.base import CodeIndex
from corrhash.index.items import Item

FOLDER = "a folder"

ENGINES = Registry(
    "engine",
    {
        "memory:": "corrhash.index.memory:MemoryIndex",
        FOLDER: "corrhash.index.sqlite:SQLiteIndex",
        "milvus://": "corrhash.index.milvus:MilvusIndex",
    },
)
"""The engine of each URI scheme; a URI without a scheme is the path of a folder."""


def open_index(uri: str, n_bits: int) -> CodeIndex:
    """Open the index at a URI, or create one if none exists; ``memory:`` is always new.

    >>> len(open_index("memory:", n_bits=64))
    0
    """
    return engine_of(uri).open(str(uri), n_bits)


def engine_of(uri: str) -> type[CodeIndex]:
    """Return the engine class for a URI."""
    uri = str(uri)
    schemes = [scheme for scheme in ENGINES if scheme != FOLDER]
    scheme = next((scheme for scheme in schemes if uri.startswith(scheme)), FOLDER)
    if scheme == FOLDER and ("://" in uri or not uri):
        raise InputError(
            f"No engine for the URI {uri!r}. Use the path of a folder or a URI that starts with: "
            f"{', '.join(schemes)}."
        )
    engine: type[CodeIndex] = ENGINES[scheme]
    return engine


__all__ = ["ENGINES", "FOLDER", "CodeIndex", "Item", "engine_of", "open_index"]
