"""Near-duplicates: groups of resized, re-encoded, cropped or mirrored copies of an image.

Candidates are pairs whose codes and perceptual signatures differ in few bits. Mirroring can change
features and codes, so that mirrored candidates are found by signature alone. Each candidate is
verified on the stored images: one of them is aligned with a crop of the other, and their pixels
must correlate. Codes do not suffice, because images of the same subject can have equal codes.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from corrhash._progress import report
from corrhash.codes import Codes
from corrhash.collection.base import DuplicateGroup
from corrhash.datasets.images import n_threads
from corrhash.errors import InputError
from corrhash.index.base import CodeIndex, check_radius
from corrhash.index.items import SHOWN

log = logging.getLogger("corrhash")

Grey = NDArray[np.float32]

SIZE = 96
"""Side of the grey image that pairs are aligned on, whatever the aspect ratio."""

COMPARED = 32
COARSE = 16
"""Sides of the images that are correlated: in alignments, and to reject most candidates."""

FREQUENCIES = 8
MAX_SIGNATURE = 16
"""Most of the 63 bits of a signature that may differ. A crop by 5% changes 7 bits on average and 18
at most; unrelated photos differ in 16 or fewer once in 3,700 pairs."""

MIN_COARSE = 0.7
MIN_CORRELATION = 0.95
"""Least correlation of coarse images, and of aligned ones. Copies of photos have .98 or more,
different photos .90 or less."""

MAX_CROP = 0.1
MIN_CONTRAST = 2.0
"""Standard deviation of grey levels below which an image shows nothing to compare."""

BATCH = 1000
PAIRS_AT_ONCE = 1 << 16

_COSINES = np.cos(
    np.pi * (np.arange(COMPARED) + 0.5) * np.arange(FREQUENCIES)[:, None] / COMPARED
).astype(np.float32)
_BITS = np.uint64(1) << np.arange(FREQUENCIES**2, dtype=np.uint64)
MIRROR = int(sum(_BITS.reshape(FREQUENCIES, FREQUENCIES)[:, 1::2].ravel().tolist()))
"""Bits of a signature that change if the image is mirrored: those of odd horizontal frequency."""


def find_duplicates(
    index: CodeIndex, max_distance: int | None = None, *, by_code: bool = False
) -> list[DuplicateGroup]:
    """Return the groups of items that show the same image, in order of their first id.

    Parameters
    ----------
    index : the items with their image codes.
    max_distance : largest Hamming distance of the codes of candidates; by default 3/8 of the code
        length, or 1/8 with ``by_code``.
    by_code : compare codes alone, for perceptual hashes such as PDQ. Otherwise items without a
        stored image are skipped.
    """
    check_radius(max_distance, "max_distance")
    if max_distance is None:
        max_distance = (1 if by_code else 3) * index.n_bits // 8
    found = _Images.read(index, by_code=by_code)
    if not len(found.ids):
        raise InputError(
            "No item in this collection has an image to compare. Add image files. To a collection "
            "without a model, add perceptual hashes as image codes."
        )
    if found.n_skipped:
        log.warning(
            "%s items were not compared, because they have no stored image or a uniform one.",
            f"{found.n_skipped:,}",
        )
    groups = _Groups(len(found.ids))
    for first, second in found.same_files():
        groups.join(first, second, 1.0)
    pairs = _candidates(found, max_distance, index.threads)
    for done, (first, second) in enumerate(pairs, start=1):
        if not groups.joined(first, second):
            if by_code:
                groups.join(first, second, None)
            else:
                correlation = _correlation(index, *found.ids[[first, second]].tolist())
                if correlation >= MIN_CORRELATION:
                    groups.join(first, second, correlation)
        report("Verifying", done, len(pairs))
    return list(_described(index, found.ids, groups))


@dataclass(frozen=True, eq=False)
class _Images:
    """The images of a collection, in order of id.

    Parameters
    ----------
    ids : (n,) ids.
    codes : n image codes.
    contents : checksums of the image files; empty if unknown.
    signatures : (n,) signatures; 0 to compare codes alone.
    coarse : (n, 16, 16) grey images of zero mean and unit length, as float16.
    n_skipped : items that cannot be compared.
    """

    ids: NDArray[np.int64]
    codes: Codes
    contents: Sequence[str]
    signatures: NDArray[np.uint64]
    coarse: NDArray[np.float16]
    n_skipped: int

    @classmethod
    def read(cls, index: CodeIndex, *, by_code: bool) -> _Images:
        """Read the images of an index, in batches."""
        fields = ("content",) if by_code else ("content", "thumbnail")
        ids, packed = [np.empty(0, np.int64)], [np.empty((0, (index.n_bits + 7) // 8), np.uint8)]
        contents: list[str] = []
        shown: list[tuple[int, Grey]] = []
        done, total = 0, len(index)
        with ThreadPoolExecutor(n_threads()) as pool:
            for entries in index.batches(BATCH, fields):
                done += len(entries)
                if "image" in entries.rows:
                    items = [entries.item(row) for row in entries.rows["image"].tolist()]
                    kept = np.ones(len(items), dtype=bool)
                    if not by_code:
                        of_items = list(pool.map(_signature, (item.thumbnail for item in items)))
                        kept = np.array([one is not None for one in of_items], dtype=bool)
                        shown += [one for one in of_items if one is not None]
                    ids.append(entries.ids[entries.rows["image"]][kept])
                    packed.append(entries.codes["image"].packed[kept])
                    contents += [
                        item.content for item, keep in zip(items, kept, strict=True) if keep
                    ]
                report("Reading images", done, max(total, done))
        return cls(
            np.concatenate(ids),
            Codes(np.concatenate(packed), index.n_bits),
            contents,
            np.array([one[0] for one in shown] or [0] * len(contents), dtype=np.uint64),
            np.array([one[1] for one in shown], dtype=np.float16).reshape(-1, COARSE, COARSE),
            done - len(contents),
        )

    def same_files(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of rows with files of equal content: the first one, and each other one."""
        first: dict[str, int] = {}
        for row, content in enumerate(self.contents):
            if content and first.setdefault(content, row) != row:
                yield first[content], row

    def distinct(self) -> NDArray[np.int64]:
        """Return the rows without those whose file equals that of an earlier one."""
        repeated = {row for _, row in self.same_files()}
        return np.array([row for row in range(len(self.ids)) if row not in repeated], np.int64)


def _grey(thumbnail: bytes) -> Image.Image:
    """Return the grey image that pairs are compared by."""
    with Image.open(io.BytesIO(thumbnail), formats=["JPEG"]) as image:
        image.draft("L", (SIZE, SIZE))
        return image.convert("L").resize((SIZE, SIZE), Image.Resampling.BOX)


def _signature(thumbnail: bytes | None) -> tuple[int, Grey] | None:
    """Return the signature and the coarse image of a thumbnail; None if it shows nothing.

    The signature has the signs of the lowest frequencies of the discrete cosine transform.
    """
    if thumbnail is None:
        return None
    grey = _grey(thumbnail)
    pixels = np.asarray(grey.resize((COMPARED, COMPARED), Image.Resampling.BOX), np.float32)
    if pixels.std() < MIN_CONTRAST:
        return None
    spectrum = _COSINES @ (pixels - pixels.mean()) @ _COSINES.T
    spectrum[0, 0] = 0
    signature = int(_BITS[spectrum.ravel() > 0].sum())
    coarse = _unit(grey.resize((COARSE, COARSE), Image.Resampling.BOX))
    return signature, coarse


def _unit(image: Image.Image) -> Grey:
    """Return pixels with zero mean and unit length."""
    pixels = np.asarray(image, np.float32)
    pixels = pixels - pixels.mean()
    return pixels / max(float(np.linalg.norm(pixels)), 1e-6)


def _candidates(images: _Images, max_distance: int, threads: int | None) -> list[tuple[int, int]]:
    """Return the pairs of rows to verify."""
    from corrhash.kernels.close_pairs import close_pairs  # numba

    rows = images.distinct()
    codes, signatures = images.codes[rows], images.signatures[rows]
    mirror = MIRROR if len(images.coarse) else 0
    limits = mirror, MAX_SIGNATURE, max_distance, threads
    pairs = rows[close_pairs(signatures, codes.planes(), *limits)]
    if not len(images.coarse):
        return [(first, second) for first, second in pairs.tolist()]
    kept = [
        part[_coarse_correlations(*(images.coarse[part[:, side]] for side in (0, 1))) >= MIN_COARSE]
        for part in np.split(pairs, range(PAIRS_AT_ONCE, len(pairs), PAIRS_AT_ONCE))
    ]
    return [(first, second) for part in kept for first, second in part.tolist()]


def _coarse_correlations(
    first: NDArray[np.float16], second: NDArray[np.float16]
) -> NDArray[np.float32]:
    """Return the correlation of each pair of coarse images, mirrored if that is higher."""
    a, b = first.astype(np.float32), second.astype(np.float32)
    return np.maximum(np.einsum("nij,nij->n", a, b), np.einsum("nij,nij->n", a, b[:, :, ::-1]))


def _correlation(index: CodeIndex, first: int, second: int) -> float:
    """Return the correlation of two stored images after alignment; -1 if one was deleted."""
    images = [item and item.thumbnail for item in index.get([first, second], ["thumbnail"])]
    if not all(images):
        return -1.0
    a, b = (_grey_of(image) for image in images)
    mirrored = b.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    unmirrored = _unit(a).ravel() @ _unit(b).ravel()
    b = b if unmirrored >= _unit(a).ravel() @ _unit(mirrored).ravel() else mirrored
    found = _aligned(a, b)
    return found if found >= MIN_CORRELATION else max(found, _aligned(b, a))


_grey_of = lru_cache(4096)(_grey)


def _aligned(whole: Image.Image, part: Image.Image) -> float:
    """Return the highest correlation of ``part`` with a crop of ``whole``.

    The crop is searched on a grid, and then around its best position with smaller steps.
    """
    target = _unit(part.resize((COMPARED, COMPARED), Image.Resampling.BILINEAR)).ravel()

    def correlation(crop: float, left: float, top: float) -> float:
        right, bottom = left + 1 - crop, top + 1 - crop
        box = (SIZE * left, SIZE * top, SIZE * right, SIZE * bottom)
        image = whole.resize((COMPARED, COMPARED), Image.Resampling.BILINEAR, box=box)
        return float(_unit(image).ravel() @ target)

    if (at_once := correlation(0.0, 0.0, 0.0)) >= MIN_CORRELATION:
        return at_once
    grid = {
        (crop, *at) for crop in (0.0, 0.03, 0.06) for at in product((0, crop / 2, crop), repeat=2)
    }
    found = {position: correlation(*position) for position in grid}
    for step in (0.012, 0.006):
        best = max(found, key=lambda position: found[position])
        if found[best] >= MIN_CORRELATION:
            break
        for moves in product((-step, 0, step), repeat=3):
            crop = min(max(best[0] + moves[0], 0.0), MAX_CROP)
            left, top = (min(max(best[at] + moves[at], 0.0), crop) for at in (1, 2))
            found.setdefault((crop, left, top), correlation(crop, left, top))
    return max(found.values())


class _Groups:
    """Rows joined into groups, with the lowest correlation of each group."""

    def __init__(self, n: int) -> None:
        self.parent = list(range(n))
        self.lowest: dict[int, float | None] = {}

    def root(self, row: int) -> int:
        """Return the row that stands for the group of a row."""
        while self.parent[row] != row:
            self.parent[row] = self.parent[self.parent[row]]
            row = self.parent[row]
        return row

    def joined(self, first: int, second: int) -> bool:
        """Return whether two rows are in one group."""
        return self.root(first) == self.root(second)

    def join(self, first: int, second: int, correlation: float | None) -> None:
        """Join the groups of two rows; the lower row stands for both."""
        roots = sorted([self.root(first), self.root(second)])
        known = [self.lowest.pop(root, 1.0) for root in roots] + [correlation]
        self.parent[roots[1]] = roots[0]
        self.lowest[roots[0]] = None if None in known else min(x for x in known if x is not None)


def _described(
    index: CodeIndex, ids: NDArray[np.int64], groups: _Groups
) -> Iterator[DuplicateGroup]:
    """Yield the groups of at least two items that still exist."""
    rows_of: dict[int, list[int]] = {}
    for row in range(len(ids)):
        if groups.root(row) in groups.lowest:
            rows_of.setdefault(groups.root(row), []).append(row)
    for root, rows in rows_of.items():
        numbers = ids[rows].tolist()
        items = zip(numbers, index.get(numbers, SHOWN), strict=True)
        existing = [(number, item) for number, item in items if item is not None]
        if len(existing) > 1:
            lowest = groups.lowest[root]
            yield DuplicateGroup(
                tuple(number for number, _ in existing),
                tuple(item for _, item in existing),
                None if lowest is None else round(lowest, 3),
            )
