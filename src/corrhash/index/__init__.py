"""Engines that keep and search codes, each named by the address under which it is opened."""

from __future__ import annotations

from typing import Any

from corrhash.errors import InputError
from corrhash.index.base import CodeIndex
from corrhash.index.item import Item
from corrhash.lazy_table import LazyTable

FOLDER = "a folder"

ENGINES = LazyTable(
    "engine",
    {
        "memory:": "corrhash.index.exact:ExactIndex",
        FOLDER: "corrhash.index.lancedb:LanceIndex",
        "milvus://": "corrhash.index.milvus:MilvusIndex",
    },
)
"""Beginnings of addresses, each with the class that answers for it; any path is a folder."""


def open_index(uri: str, n_bits: int) -> CodeIndex:
    """The index at an address; a new one if there is none. ``memory:`` is always new.

    >>> len(open_index("memory:", n_bits=64))
    0
    """
    index: CodeIndex = engine_of(uri).open(str(uri), n_bits)
    return index


def engine_of(uri: str) -> Any:
    """The class of the engine that answers for an address."""
    uri = str(uri)
    for scheme in ENGINES:
        if scheme != FOLDER and uri.startswith(scheme):
            return ENGINES[scheme]
    if "://" in uri or not uri:
        raise InputError(
            f"There is no engine for {uri!r}. An address is {FOLDER} or begins with: "
            f"{', '.join(scheme for scheme in ENGINES if scheme != FOLDER)}."
        )
    return ENGINES[FOLDER]


__all__ = ["ENGINES", "CodeIndex", "Item", "engine_of", "open_index"]
