"""Feature files, and a cache of computed image features, named by everything they depend on.

A cache file holds the features of 256 consecutive images and is written atomically, so an
interrupted computation resumes at the first missing file.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from corrhash._files import atomic_write, cache_folder, make_folder
from corrhash._progress import report
from corrhash.datasets.base import n_rows
from corrhash.datasets.images import ImageFiles
from corrhash.errors import InputError

SUFFIXES = (".npy", ".npz")


def read_feature_file(
    path: Path, n_items: int, rows: Sequence[int] | None = None, n_listed: int | None = None
) -> np.ndarray:
    """Read (n_items, d) float32 from a ``.npy`` file, or a ``.npz`` file with one array.

    The file can also hold all ``n_listed`` items of a dataset, of which ``rows`` are used.
    """
    array = _load(path)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise InputError(
            f"{path} must hold an (n, d) array of numbers with a row for each item, got shape "
            f"{array.shape} of {array.dtype}."
        )
    if rows is not None and len(array) == n_listed:
        array = array[np.asarray(rows)]
    if len(array) != n_items:
        raise InputError(
            f"{path} has {len(array):,} rows, but the dataset has {n_items:,} items. Row i belongs "
            "to item i of the dataset as it is loaded."
        )
    with np.errstate(over="ignore"):  # overflow is reported below
        features = array.astype(np.float32)
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        raise InputError(
            f"{int((~finite).sum()):,} of {n_items:,} rows of {path} are not finite; the first is "
            f"row {int(np.argmin(finite))}. Compute them again."
        )
    return features


def _load(path: Path) -> np.ndarray:
    """Return the only array of a file; pickled objects are refused."""
    if path.is_file() and path.suffix.lower() not in (".npy", ".npz"):
        raise InputError(
            f"A file of features must end in .npy or .npz, got {str(path)!r}. Write it with "
            "numpy.save(path, array)."
        )
    try:
        content: Any = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content
        with content:
            names = content.files
            if len(names) == 1:
                return content[names[0]]
    except FileNotFoundError as error:
        raise InputError(f"Feature file not found: {path}. Check the path.") from error
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        raise InputError(
            f"Cannot read features from {path}: {error}. Write them with numpy.save(path, array)."
        ) from error
    raise InputError(
        f"{path} must hold one array, got {len(names)} ({', '.join(names)}). "
        "Write it with numpy.save(path, array)."
    )


ROWS = 256
"""Images per cache file, and the most that an interruption loses."""

log = logging.getLogger("corrhash")


class Extractor(Protocol):
    """A deterministic image feature extractor."""

    @property
    def key(self) -> str:
        """Identifier of everything that the features depend on, except the images."""

    def compute(self, images: Any, *, done: int = 0, total: int | None = None) -> np.ndarray:
        """Return (n, d) float32; ``done`` and ``total`` are for progress reports."""


def cached_features(extractor: Extractor, images: Any) -> np.ndarray:
    """Return (n, d) features from the cache; compute and store those that are missing."""
    folder = cache_folder() / "features" / extractor.key
    n = n_rows(images)
    features, n_found = np.empty((n, 0), np.float32), 0
    for start in range(0, n, ROWS):
        part = images[start : start + ROWS]
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
        "Features of %s images: %s from the cache, %s computed. Cache: %s.",
        *(f"{number:,}" for number in (n, n_found, n - n_found)),
        folder,
    )
    return features


def fingerprint(images: Any) -> str:
    """Return a digest of images: of their pixels in memory, or of their files.

    A file is identified by path, size and modification time, as build tools do: reading every
    byte would take as long as decoding.
    """
    digest = hashlib.sha256()
    if isinstance(images, ImageFiles):
        for path in images.paths:
            digest.update(repr(_state(path)).encode())
    else:
        digest.update(repr(images.shape).encode())
        digest.update(np.ascontiguousarray(images).data)
    return digest.hexdigest()[:32]


def _state(path: Path) -> tuple[str, int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"Image not found: {path}. Check the path or remove the row.") from error
    return str(path.absolute()), status.st_size, status.st_mtime_ns


def _read(path: Path, n: int) -> np.ndarray | None:
    """Return the features in a cache file; None if it does not exist or is damaged."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            rows, metadata = file.get_tensor("features"), file.metadata() or {}
        if len(rows) == n and metadata.get("sha256") == _checksum(rows):
            return rows
    except (SafetensorError, OSError):
        pass
    log.warning("%s is damaged. Computing the features of its %d images again.", path, n)
    return None


def _write(path: Path, rows: np.ndarray) -> None:
    content = save({"features": rows}, metadata={"sha256": _checksum(rows)})
    make_folder(path.parent)
    try:
        with atomic_write(path) as file:
            file.write(content)
    except OSError as error:
        raise InputError(
            f"Cannot write features to {path.parent}: {error.strerror}. Free some space, or choose "
            "another folder: --cache, or the environment variable CORRHASH_CACHE."
        ) from error


def _checksum(rows: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()
