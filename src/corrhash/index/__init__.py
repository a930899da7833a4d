"""Engines that search codes, each named by the address under which it is opened."""

from __future__ import annotations

from corrhash.errors import InputError
from corrhash.index.base import CodeIndex
from corrhash.lazy_table import LazyTable

ENGINES = LazyTable(
    "engine",
    {
        "memory:": "corrhash.index.exact:ExactIndex",
    },
)
"""Beginnings of addresses, each with the class that answers for it."""


def open_index(uri: str, n_bits: int) -> CodeIndex:
    """The index at an address; ``memory:`` is a new one that lives as long as the process.

    >>> len(open_index("memory:", n_bits=64))
    0
    """
    for scheme in ENGINES:
        if uri.startswith(scheme):
            engine: CodeIndex = ENGINES[scheme].open(uri, n_bits)
            return engine
    raise InputError(f"There is no engine for {uri!r}. Addresses begin with: {', '.join(ENGINES)}.")


__all__ = ["ENGINES", "CodeIndex", "open_index"]
