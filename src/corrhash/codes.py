"""Codes: packed binary codes, the only place that knows how bits are laid out in bytes."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrhash.atomic_write import atomic_write
from corrhash.errors import InputError

MAX_BITS = 1024
"""The longest code."""


@dataclass(frozen=True, eq=False)
class Codes:
    """``len(codes)`` binary codes of ``n_bits`` bits each.

    Bit ``k`` of a code stands in byte ``k // 8`` at the value ``1 << (k % 8)``; what the last byte
    holds beyond ``n_bits`` is zero, so that distances are exact for any length.

    Parameters
    ----------
    packed : (n, ceil(n_bits / 8)) array of uint8.
    n_bits : length of a code, from 1 to 1,024.

    Examples
    --------
    >>> codes = Codes.from_scores([[0.3, -1.2, 0.0], [2.0, 0.1, 0.4]])
    >>> codes
    Codes(2 codes of 3 bits)
    >>> codes.signs()
    array([[ 1, -1, -1],
           [ 1,  1,  1]], dtype=int8)
    >>> codes.hamming(codes)
    array([[0, 2],
           [2, 0]], dtype=uint16)
    """

    packed: NDArray[np.uint8]
    n_bits: int

    def __post_init__(self) -> None:
        n_bits = check_n_bits(self.n_bits)
        packed = np.ascontiguousarray(self.packed)
        width = (n_bits + 7) // 8
        if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != width:
            raise InputError(
                f"Codes of {n_bits} bits are packed into an (n, {width}) array of uint8. "
                f"Got shape {packed.shape} of {packed.dtype}. "
                "Use Codes.from_scores or Codes.from_signs to pack."
            )
        spare = width * 8 - n_bits
        if spare and np.any(packed[:, -1] >> (8 - spare)):
            raise InputError(
                f"Bits beyond the {n_bits} of the code must be zero. "
                "Use Codes.from_scores or Codes.from_signs to pack."
            )
        object.__setattr__(self, "packed", _unchangeable(packed))
        object.__setattr__(self, "n_bits", n_bits)

    @classmethod
    def from_scores(cls, scores: ArrayLike) -> Codes:
        """Binarise real numbers by the rule of the paper: ``score > 0`` sets the bit.

        A score of exactly zero gives -1, for queries and database alike: with a sign function that
        returns 0 the inner product of two codes would no longer be a Hamming distance.
        """
        scores = _as_table(scores, "scores")
        finite = np.isfinite(scores)
        if not finite.all():
            row, bit = np.argwhere(~finite)[0]
            raise InputError(
                f"Scores must be finite. Got {scores[row, bit]} at row {row}, bit {bit} "
                f"({np.count_nonzero(~finite)} such values in all). Look for a diverged model."
            )
        return cls._from_bits(scores > 0)

    @classmethod
    def from_signs(cls, signs: ArrayLike) -> Codes:
        """Pack an (n, n_bits) array of -1 and +1."""
        signs = _as_table(signs, "signs")
        wrong = (signs != 1) & (signs != -1)
        if wrong.any():
            row, bit = np.argwhere(wrong)[0]
            raise InputError(
                f"Signs must be -1 or +1. Got {signs[row, bit]} at row {row}, bit {bit}. "
                "Use Codes.from_scores for real numbers."
            )
        return cls._from_bits(signs > 0)

    @classmethod
    def _from_bits(cls, bits: NDArray[np.bool_]) -> Codes:
        check_n_bits(bits.shape[1])
        packed = np.packbits(bits, axis=1, bitorder="little")
        packed.flags.writeable = False  # nobody else holds it, so that it need not be copied
        return cls(packed, bits.shape[1])

    def signs(self) -> NDArray[np.int8]:
        """The codes as an (n, n_bits) array of -1 and +1."""
        bits = np.unpackbits(self.packed, axis=1, count=self.n_bits, bitorder="little")
        return bits.astype(np.int8) * 2 - 1

    def planes(self) -> NDArray[np.uint64]:
        """The codes as 64-bit words, (ceil(n_bits / 64), n): plane ``w`` holds word ``w`` of each.

        This is the form that the kernels read. Codes of 64 bits are not copied.
        """
        n, width = self.packed.shape
        n_words = (self.n_bits + 63) // 64
        whole = self.packed
        if width != n_words * 8:
            whole = np.zeros((n, n_words * 8), dtype=np.uint8)
            whole[:, :width] = self.packed
        words = whole.view("<u8").astype(np.uint64, copy=False)  # (n, n_words)
        return np.ascontiguousarray(words.T)

    @classmethod
    def from_planes(cls, planes: NDArray[np.uint64], n_bits: int) -> Codes:
        """What :meth:`planes` gave, as codes again."""
        words = np.ascontiguousarray(planes.T).astype("<u8", copy=False)  # (n, n_words)
        width = (check_n_bits(n_bits) + 7) // 8
        return cls(words.view(np.uint8).reshape(len(words), 8 * len(planes))[:, :width], n_bits)

    def hamming(self, other: Codes) -> NDArray[np.uint16]:
        """All distances, (len(self), len(other)): for small sets, and as the obvious version."""
        check_same_bits(self.n_bits, other.n_bits)
        distances = np.zeros((len(self), len(other)), dtype=np.uint16)
        for mine, theirs in zip(self.planes(), other.planes(), strict=True):
            distances += np.bitwise_count(mine[:, None] ^ theirs[None, :])
        return distances

    def n_distinct(self) -> int:
        """How many different codes there are; few of them is the sign of a collapsed model."""
        planes = self.planes()
        # Sorting numbers is several times faster than sorting by several keys.
        ordered = np.sort(planes) if len(planes) == 1 else planes[:, np.lexsort(planes)]
        return min(len(self), 1) + int(np.any(ordered[:, 1:] != ordered[:, :-1], axis=0).sum())

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, rows: Any) -> Codes:
        """The codes at ``rows`` (a slice, a mask, a list): Codes again, also for a single row."""
        if isinstance(rows, tuple):
            raise IndexError("Codes are picked by rows alone. Their bits are in signs().")
        if isinstance(rows, (int, np.integer)):
            rows = [rows]
        try:
            packed = self.packed[rows]
        except IndexError as error:
            raise IndexError(f"There are {len(self)} codes: {error}") from error
        packed.flags.writeable = False
        return Codes(packed, self.n_bits)

    def __repr__(self) -> str:
        return f"Codes({len(self):,} codes of {self.n_bits} bits)"

    def save(self, path: str | Path) -> None:
        """Write the codes to ``path`` (.npz), wholly or not at all."""
        save_codes(path, {"codes": self})

    @classmethod
    def load(cls, path: str | Path) -> Codes:
        """Read what :meth:`save` wrote."""
        codes, _ = load_codes(path)
        if set(codes) != {"codes"}:
            raise InputError(
                f"{path} holds several sets of codes: {', '.join(codes)}. "
                "Read it with corrhash.codes.load_codes."
            )
        return codes["codes"]


def save_codes(path: str | Path, codes: dict[str, Codes], keys: ArrayLike = ()) -> None:
    """Write named sets of codes of one length, and the keys of their items, to one .npz file."""
    lengths = {c.n_bits for c in codes.values()}
    if len(lengths) != 1:
        raise InputError(
            f"One file holds codes of one length. Got {sorted(lengths)} bits. Write several files."
        )
    arrays = {f"packed_{name}": c.packed for name, c in codes.items()}
    with atomic_write(path) as file:
        np.savez(
            file,
            n_bits=np.int64(lengths.pop()),
            keys=np.asarray(keys, dtype=np.str_),
            **arrays,  # type: ignore[arg-type]
        )


def load_codes(path: str | Path) -> tuple[dict[str, Codes], NDArray[np.str_]]:
    """Read what :func:`save_codes` wrote: the sets of codes by name, and the keys."""
    if not Path(path).exists():
        raise InputError(f"There is no file {path}. Check the path.")
    try:
        return _read_archive(path)
    except Exception as error:  # a damaged archive can fail in any way
        raise InputError(
            f"{path} is not a whole file of codes ({error or type(error).__name__}). "
            "It was cut short or written by another program; encode again."
        ) from error


def _read_archive(path: str | Path) -> tuple[dict[str, Codes], NDArray[np.str_]]:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is no .npz archive")
    with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
        n_bits = check_n_bits(archive["n_bits"][()])
        keys = archive["keys"]
        codes = {
            name.removeprefix("packed_"): Codes(archive[name], n_bits)
            for name in archive.files
            if name.startswith("packed_")
        }
    if not codes:
        raise ValueError("it holds no codes")
    if len(keys) and {len(c) for c in codes.values()} != {len(keys)}:
        raise ValueError(f"it holds {len(keys)} keys for other numbers of codes")
    return codes, keys


def check_n_bits(n_bits: Any) -> int:
    """``n_bits`` as an int, if it is a length that codes can have."""
    if not isinstance(n_bits, (int, np.integer)) or isinstance(n_bits, bool):
        raise InputError(f"n_bits must be a whole number from 1 to {MAX_BITS}. Got {n_bits!r}.")
    if not 1 <= n_bits <= MAX_BITS:
        raise InputError(
            f"n_bits must be from 1 to {MAX_BITS}. Got {n_bits}. Common lengths: 16, 32, 64, 128."
        )
    return int(n_bits)


def check_codes(value: Any) -> Codes:
    """``value`` itself, if it is Codes."""
    if not isinstance(value, Codes):
        raise InputError(
            f"Codes are wanted. Got {type(value).__name__}. "
            "Make them with Codes.from_scores(scores) or hasher.encode_text(texts)."
        )
    return value


def check_same_bits(queries: int, database: int) -> None:
    """Codes can only be compared with codes of the same length."""
    if queries != database:
        raise InputError(
            f"Codes of different lengths cannot be compared. Got {queries} and "
            f"{database} bits. Encode both with the same model."
        )


def _unchangeable(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The array itself if nobody can change it, else a copy."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def _as_table(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        table = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name} must be rows of equal length. Got {error}.") from error
    if table.ndim != 2 or table.dtype.kind not in "fiub":
        raise InputError(
            f"{name} must be an (n, n_bits) array of numbers. "
            f"Got shape {table.shape} of {table.dtype}. One item is still a row: use x[None, :]."
        )
    return table
