"""The folder in which downloads and computed features are kept between runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_chosen: ContextVar[Path | None] = ContextVar("chosen", default=None)


def cache_folder() -> Path:
    """The folder of :func:`caching_in`, else ``$CORRHASH_CACHE``, else ``~/.cache/corrhash``."""
    chosen = _chosen.get() or os.environ.get("CORRHASH_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "corrhash"


@contextmanager
def caching_in(folder: str | Path | None) -> Iterator[None]:
    """Keep everything in ``folder`` inside the block; None leaves the folder as it is.

    >>> with caching_in("elsewhere"):
    ...     cache_folder().name
    'elsewhere'
    """
    token = _chosen.set(_chosen.get() if folder is None else Path(folder))
    try:
        yield
    finally:
        _chosen.reset(token)
