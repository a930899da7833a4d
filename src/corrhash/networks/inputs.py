"""What networks read of images and texts, batch by batch: vectors, pictures or sentences.

Batches are arrays, so that networks run by other libraries than PyTorch read the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from corrhash.errors import InputError
from corrhash.kernels.sparse_rows import dense_rows
from corrhash.networks.pixels import Preprocessing

TOGETHER = 8  # pictures that a thread decodes at a time: handing over each alone takes its time


class Inputs(Protocol):
    """One side of a dataset, as its network reads it."""

    def fetch(self, rows: np.ndarray) -> None:
        """Start to make rows ready that will be asked for soon."""

    def batch(self, rows: np.ndarray) -> Any:
        """The rows for encoding."""

    def training_batch(self, rows: np.ndarray, *, seed: int, epoch: int) -> Any:
        """The rows for training, augmented where that makes sense."""


class VectorInputs:
    """Feature vectors or word occurrences, dense or sparse."""

    def __init__(self, values: Any) -> None:
        self.values = values.tocsr() if sp.issparse(values) else np.asarray(values, np.float32)

    def fetch(self, rows: np.ndarray) -> None:
        """Vectors are always ready."""

    def batch(self, rows: np.ndarray) -> np.ndarray:
        sparse = sp.issparse(self.values)
        return dense_rows(self.values, rows) if sparse else self.values[rows]

    def training_batch(self, rows: np.ndarray, *, seed: int, epoch: int) -> np.ndarray:
        return self.batch(rows)


class PictureInputs:
    """Pictures, decoded by threads beside the network.

    With ``keep`` each is decoded once and its resized bytes are kept for later epochs.
    """

    def __init__(self, images: Any, preprocessing: Preprocessing, *, keep: bool) -> None:
        self.images = images
        self.preprocessing = preprocessing
        self.keep = keep
        self._pool = ThreadPoolExecutor(2)
        self._ready: dict[int, tuple[Future[np.ndarray], int]] = {}  # its part and its place there

    def fetch(self, rows: np.ndarray) -> None:
        new = [row for row in dict.fromkeys(rows.tolist()) if row not in self._ready]
        for start in range(0, len(new), TOGETHER):
            part = new[start : start + TOGETHER]
            pixels = self._pool.submit(self._decode, part)
            self._ready.update((row, (pixels, place)) for place, row in enumerate(part))

    def batch(self, rows: np.ndarray) -> np.ndarray:
        return self.preprocessing.plain(self._pixels(rows))

    def training_batch(self, rows: np.ndarray, *, seed: int, epoch: int) -> np.ndarray:
        return self.preprocessing.augmented(self._pixels(rows), rows, seed=seed, epoch=epoch)

    def _decode(self, rows: list[int]) -> np.ndarray:
        return self.preprocessing.read([self.images[row] for row in rows])

    def _pixels(self, rows: np.ndarray) -> np.ndarray:
        self.fetch(rows)
        ready = [self._ready[row] for row in rows.tolist()]
        pixels = np.stack([part.result()[place] for part, place in ready])
        if not self.keep:
            for row in set(rows.tolist()):
                del self._ready[row]
        return pixels


class SentenceInputs:
    """Strings, tokenised batch by batch."""

    def __init__(self, texts: Sequence[str], tokenise: Any) -> None:
        self.texts = texts
        self.tokenise = tokenise

    def fetch(self, rows: np.ndarray) -> None:
        """Strings are always ready."""

    def batch(self, rows: np.ndarray) -> Any:
        return self.tokenise([self.texts[row] for row in rows])

    def training_batch(self, rows: np.ndarray, *, seed: int, epoch: int) -> Any:
        return self.batch(rows)


def vector_length(values: Any) -> int | None:
    """The length of feature vectors or word occurrences; None for pictures and strings."""
    shape = tuple(getattr(values, "shape", ()))
    return int(shape[1]) if len(shape) == 2 else None


def check_kind(values: Any, side: str, trained: int | None) -> None:
    """What is encoded must be of the kind, and of the length, that was trained on."""
    given = vector_length(values)
    if trained == given:
        return
    if trained is not None and given is not None:
        raise InputError(
            f"The model was trained on {trained} columns of {side}s. Got {given}. "
            "Read the items with the reader of the model."
        )
    raw = "pictures" if side == "image" else "strings"
    kinds = [raw if length is None else "feature vectors" for length in (trained, given)]
    raise InputError(f"The model was trained on {kinds[0]} as {side}s. Got {kinds[1]}.")


def image_inputs(images: Any, body: Any, *, keep: bool) -> Inputs:
    """Images as the body of an image network reads them."""
    if vector_length(images) is not None:
        return VectorInputs(images)
    return PictureInputs(images, body.preprocessing, keep=keep)


def text_inputs(texts: Any, body: Any) -> Inputs:
    """Texts as the body of a text network reads them."""
    if vector_length(texts) is not None:
        return VectorInputs(texts)
    return SentenceInputs(texts, body.tokenise)
