"""Inputs of the networks, batch by batch: feature vectors, images or strings.

Batches are NumPy arrays, so that networks run by other libraries than PyTorch read the same
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from corrhash.errors import InputError
from corrhash.networks.preprocessing import Preprocessing, item_keys, kept_units

ENCODE_SIZE = 64
"""Items are encoded in batches of this one size, so that a code does not depend on its batch."""

AHEAD = 2  # batches whose images are decoded while the network computes
DECODE_SIZE = 8  # images per task of a decoding thread: one task per image costs too much overhead


class Inputs(Protocol):
    """One modality of a dataset, as its network reads it."""

    def prefetch(self, rows: np.ndarray) -> None:
        """Start to prepare rows that will be read soon."""

    def batch(self, rows: np.ndarray) -> Any:
        """Return the rows for encoding."""

    def training_batch(self, rows: np.ndarray, *, seed: int, epoch: int) -> Any:
        """Return the rows for training, augmented by seed and epoch."""


class VectorInputs:
    """Feature vectors or term vectors, dense or sparse.

    ``dropped`` is the share of entries that is set to zero in training.
    """

    def __init__(self, values: Any, dropped: float = 0.0) -> None:
        self.values = values.tocsr() if sp.issparse(values) else np.asarray(values, np.float32)
        self.dropped = dropped

    def prefetch(self, rows: np.ndarray) -> None:
        """Do nothing: vectors are in memory."""

    def batch(self, rows: np.ndarray) -> np.ndarray:
        if not sp.issparse(self.values):
            return self.values[rows]
        from corrhash.kernels.sparse_rows import dense_rows  # compiled, and only training needs it

        return dense_rows(self.values, rows)

    def training_batch(self, rows: np.ndarray, *, seed: int, epoch: int) -> np.ndarray:
        batch = self.batch(rows)
        if not self.dropped or not len(rows):
            return batch
        keys = item_keys(rows, seed=seed, epoch=epoch)
        return np.where(kept_units(keys, batch.shape[1], self.dropped), batch, np.float32(0))


class ImageInputs:
    """Images, decoded by threads while the network computes.

    Parameters
    ----------
    images : the images, as :meth:`Preprocessing.read` takes them.
    preprocessing : how the network reads them.
    cache_bytes : memory for decoded images. The first images that fit are kept as uint8, the others
        are decoded each time they are read. The batches do not depend on it.
    """

    def __init__(self, images: Any, preprocessing: Preprocessing, *, cache_bytes: int = 0) -> None:
        self.images = images
        self.preprocessing = preprocessing
        self._threads = ThreadPoolExecutor(2)
        self._pending: dict[int, tuple[Future[np.ndarray], int]] = {}  # row -> decoded, position
        side = preprocessing.resize
        n_cached = min(len(images), cache_bytes // (3 * side * side))
        self._cache = np.empty((n_cached, 3, side, side), dtype=np.uint8)
        self._slots: dict[int, int] = {}  # row -> position in the cache

    @property
    def cache_bytes(self) -> int:
        """Memory of the cache once it is full."""
        return self._cache.nbytes

    def prefetch(self, rows: np.ndarray) -> None:
        wanted = dict.fromkeys(rows.tolist())
        new = [row for row in wanted if row not in self._slots and row not in self._pending]
        for start in range(0, len(new), DECODE_SIZE):
            part = new[start : start + DECODE_SIZE]
            decoded = self._threads.submit(self._decode, part)
            self._pending.update((row, (decoded, number)) for number, row in enumerate(part))

    def batch(self, rows: np.ndarray) -> np.ndarray:
        return self.preprocessing.plain(self._pixels(rows))

    def training_batch(self, rows: np.ndarray, *, seed: int, epoch: int) -> np.ndarray:
        return self.preprocessing.augmented(self._pixels(rows), rows, seed=seed, epoch=epoch)

    def _decode(self, rows: list[int]) -> np.ndarray:
        return self.preprocessing.read([self.images[row] for row in rows])

    def _pixels(self, rows: np.ndarray) -> np.ndarray:
        """Return (len(rows), 3, side, side) uint8."""
        slots = [self._slots.get(row, -1) for row in rows.tolist()]
        if min(slots, default=-1) >= 0:
            return self._cache[slots]
        self.prefetch(rows)
        pixels = np.empty((len(rows), *self._cache.shape[1:]), dtype=np.uint8)
        for number, row in enumerate(rows.tolist()):
            if row in self._slots:
                pixels[number] = self._cache[self._slots[row]]
            else:
                decoded, position = self._pending[row]
                pixels[number] = decoded.result()[position]
                self._keep(row, pixels[number])
        for row in rows.tolist():
            self._pending.pop(row, None)
        return pixels

    def _keep(self, row: int, pixels: np.ndarray) -> None:
        """Copy a decoded image into the cache if it has room."""
        if len(self._slots) < len(self._cache):
            slot = len(self._slots)
            self._cache[slot] = pixels
            self._slots[row] = slot


class SentenceInputs:
    """Strings, tokenized batch by batch."""

    def __init__(self, texts: Sequence[str], tokenize: Callable[[list[str]], Any]) -> None:
        self.texts = texts
        self.tokenize = tokenize

    def prefetch(self, rows: np.ndarray) -> None:
        """Do nothing: strings are in memory."""

    def batch(self, rows: np.ndarray) -> Any:
        return self.tokenize([self.texts[row] for row in rows])

    def training_batch(self, rows: np.ndarray, *, seed: int, epoch: int) -> Any:
        return self.batch(rows)


def image_inputs(images: Any, body: Any, *, cache_bytes: int = 0) -> VectorInputs | ImageInputs:
    """Return images as the body of an image network reads them."""
    if vector_length(images) is not None:
        return VectorInputs(images)
    return ImageInputs(images, body.preprocessing, cache_bytes=cache_bytes)


def text_inputs(texts: Any, body: Any, term_dropout: float = 0.0) -> VectorInputs | SentenceInputs:
    """Return texts as the body of a text network reads them."""
    if vector_length(texts) is not None:
        return VectorInputs(texts, dropped=0.0 if is_embedding(texts) else term_dropout)
    return SentenceInputs(texts, body.tokenize)


def vector_length(values: Any) -> int | None:
    """Return the number of columns of feature or term vectors; None for images and strings."""
    shape = tuple(getattr(values, "shape", ()))
    return int(shape[1]) if len(shape) == 2 else None


def is_embedding(texts: Any) -> bool:
    """Return whether vectors come from a text encoder: term vectors have no negative entries."""
    dense = vector_length(texts) is not None and not sp.issparse(texts)
    return dense and bool((np.asarray(texts) < 0).any())


def check_kind(values: Any, modality: str, trained: int | None) -> None:
    """Raise InputError unless the values are of the kind and width that was trained on."""
    given = vector_length(values)
    if trained == given:
        return
    if trained is not None and given is not None:
        raise InputError(
            f"The model was trained on {trained} columns of {modality}s. Got {given}. "
            "Read the items with the reader of the model."
        )
    raw = "images" if modality == "image" else "strings"
    expected, found = (raw if n is None else "feature vectors" for n in (trained, given))
    raise InputError(f"The {modality} network was trained on {expected}, got {found}.")


def padded_batches(inputs: Inputs, n: int, size: int) -> Iterator[Any]:
    """Yield rows 0 to n - 1 in batches of ``size``, the last one padded with its last row.

    Equal batch sizes make the output for an item independent of the items around it.
    """
    batches = [np.minimum(np.arange(s, s + size), n - 1) for s in range(0, n, size)]
    for number, rows in enumerate(batches, start=1):
        for coming in batches[number : number + AHEAD]:
            inputs.prefetch(coming)
        yield inputs.batch(rows)
