"""Features of pictures, computed once and kept in files that are named by what they depend on.

A file holds the features of some hundred consecutive pictures. It is written whole or not at all,
so an interrupted computation goes on with the first file that is missing.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from corrhash.atomic_write import atomic_write, make_folder
from corrhash.cache_folder import cache_folder
from corrhash.datasets.base import n_rows
from corrhash.datasets.image_files import ImageFiles
from corrhash.errors import InputError
from corrhash.progress import report

ROWS = 256
"""Pictures a file: as many are computed again after an interruption."""

log = logging.getLogger("corrhash")


class Extractor(Protocol):
    """Something that turns pictures into feature vectors, always in the same way."""

    @property
    def key(self) -> str:
        """The name of everything that its features depend on, the pictures aside."""

    def compute(self, pictures: Any, *, done: int = 0, total: int | None = None) -> np.ndarray:
        """(n, d) float32; ``done`` and ``total`` are for reports, where these are some of many."""


def cached_features(extractor: Extractor, pictures: Any) -> np.ndarray:
    """(n, d) features: out of the cache where it has them, else computed and put there."""
    folder = cache_folder() / "features" / extractor.key
    n = n_rows(pictures)
    features, n_found = np.empty((n, 0), np.float32), 0
    for start in range(0, n, ROWS):
        part = pictures[start : start + ROWS]
        path = folder / f"{fingerprint(part)}.safetensors"
        rows = _read(path, len(part))
        if rows is None:
            rows = extractor.compute(part, done=start, total=n)
            _write(path, rows)
        else:
            n_found += len(part)
        if start == 0:
            features = np.empty((n, rows.shape[1]), np.float32)
        features[start : start + len(part)] = rows
        report("Image features", start + len(part), n)
    log.info(
        "Features of %s pictures: %s from the cache, %s computed. The cache is %s.",
        *(f"{number:,}" for number in (n, n_found, n - n_found)),
        folder,
    )
    return features


def fingerprint(pictures: Any) -> str:
    """A name for some pictures: by their bytes if they are in memory, else by their files.

    A file is known by its path, its size and the time of its last change, as build tools know it:
    reading every byte would take as long as decoding does.
    """
    digest = hashlib.sha256()
    if isinstance(pictures, ImageFiles):
        for path in pictures.paths:
            digest.update(repr(_state(path)).encode())
    else:
        digest.update(repr(pictures.shape).encode())
        digest.update(np.ascontiguousarray(pictures).data)
    return digest.hexdigest()[:32]


def _state(path: Path) -> tuple[str, int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"There is no picture {path}. Check the path or leave it out.") from error
    return str(path.absolute()), status.st_size, status.st_mtime_ns


def _read(path: Path, n: int) -> np.ndarray | None:
    """The features in a file of the cache; None if there is none, or none that is whole."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            rows, metadata = file.get_tensor("features"), file.metadata() or {}
        if len(rows) == n and metadata.get("sha256") == _checksum(rows):
            return rows
    except (SafetensorError, OSError):
        pass
    log.warning("%s is damaged. Its %d pictures are computed again.", path, n)
    return None


def _write(path: Path, rows: np.ndarray) -> None:
    content = save({"features": rows}, metadata={"sha256": _checksum(rows)})
    make_folder(path.parent)
    try:
        with atomic_write(path) as file:
            file.write(content)
    except OSError as error:
        raise InputError(
            f"Cannot keep features in {path.parent}: {error.strerror}. Make room, or choose "
            "another place: --cache, or the environment variable CORRHASH_CACHE."
        ) from error


def _checksum(rows: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()
