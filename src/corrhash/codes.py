"""Codes: packed binary codes, their bit layout, distances and files."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrhash._files import atomic_write
from corrhash.errors import InputError, ParameterError

MAX_BITS = 1024
"""The longest code length."""


@dataclass(frozen=True, eq=False)
class Codes:
    """``len(codes)`` binary codes of ``n_bits`` bits each.

    Bit ``k`` of a code is bit ``k % 8`` of byte ``k // 8``, least significant first. Unused bits of
    the last byte are zero, so that distances are exact for any code length.

    Parameters
    ----------
    packed : (n, ceil(n_bits / 8)) array of uint8.
    n_bits : code length, 1 to 1,024.

    Examples
    --------
    >>> codes = Codes.from_continuous([[0.3, -1.2, 0.0], [2.0, 0.1, 0.4]])
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
                f"Packed codes of {n_bits} bits must be an (n, {width}) array of uint8, "
                f"got shape {packed.shape} and dtype {packed.dtype}. "
                "Use Codes.from_continuous or Codes.from_signs to pack."
            )
        spare = width * 8 - n_bits
        if spare and np.any(packed[:, -1] >> (8 - spare)):
            raise InputError(
                f"Unused bits after bit {n_bits} must be zero. "
                "Use Codes.from_continuous or Codes.from_signs to pack."
            )
        object.__setattr__(self, "packed", _read_only(packed))
        object.__setattr__(self, "n_bits", n_bits)

    @classmethod
    def from_continuous(cls, continuous: ArrayLike) -> Codes:
        """Binarize (n, n_bits) continuous codes: a bit is set where the value is above 0.

        A value of exactly 0 gives -1, for queries and database alike. With a sign function that
        returns 0, the inner product of two codes would not determine their Hamming distance.
        """
        continuous = as_matrix(continuous, "Continuous codes")
        finite = np.isfinite(continuous)
        if not finite.all():
            row, bit = np.argwhere(~finite)[0]
            raise InputError(
                f"Continuous codes must be finite, got {continuous[row, bit]} at row {row}, bit "
                f"{bit} ({np.count_nonzero(~finite)} such values in all). Has training diverged?"
            )
        return cls._from_bits(continuous > 0)

    @classmethod
    def from_signs(cls, signs: ArrayLike) -> Codes:
        """Pack an (n, n_bits) array of -1 and +1."""
        signs = as_matrix(signs, "Signs")
        wrong = (signs != 1) & (signs != -1)
        if wrong.any():
            row, bit = np.argwhere(wrong)[0]
            raise InputError(
                f"Signs must be -1 or +1, got {signs[row, bit]} at row {row}, bit {bit}. "
                "Use Codes.from_continuous for real numbers."
            )
        return cls._from_bits(signs > 0)

    @classmethod
    def _from_bits(cls, bits: NDArray[np.bool_]) -> Codes:
        check_n_bits(bits.shape[1])
        packed = np.packbits(bits, axis=1, bitorder="little")
        packed.flags.writeable = False  # saves a copy: no one else has a reference
        return cls(packed, bits.shape[1])

    @classmethod
    def from_hex(cls, digits: Sequence[str], n_bits: int) -> Codes:
        """Read codes in hexadecimal digits, two per byte.

        >>> Codes.from_hex(["01f3", "ff00"], 16).hex()
        ['01f3', 'ff00']
        """
        width = (check_n_bits(n_bits) + 7) // 8
        packed = np.empty((len(digits), width), dtype=np.uint8)
        for row, code in enumerate(digits):
            if len(code) != 2 * width:
                raise InputError(
                    f"A code of {n_bits} bits must have {2 * width} hexadecimal digits, got "
                    f"{len(code)}."
                )
            try:
                packed[row] = np.frombuffer(bytes.fromhex(code), dtype=np.uint8)
            except ValueError as error:
                raise InputError(
                    f"A code must have hexadecimal digits only, got {code[:80]!r}."
                ) from error
        return cls(packed, n_bits)

    def hex(self) -> list[str]:
        """Return each code in hexadecimal digits, two per byte."""
        digits, n_digits = self.packed.tobytes().hex(), 2 * self.packed.shape[1]
        return [digits[start : start + n_digits] for start in range(0, len(digits), n_digits)]

    def signs(self) -> NDArray[np.int8]:
        """Return the codes as an (n, n_bits) array of -1 and +1."""
        return self.bits().astype(np.int8) * 2 - 1

    def bits(self) -> NDArray[np.uint8]:
        """Return the codes as an (n, n_bits) array of 0 and 1."""
        return np.unpackbits(self.packed, axis=1, count=self.n_bits, bitorder="little")

    def planes(self) -> NDArray[np.uint64]:
        """Return the codes as 64-bit words, (ceil(n_bits / 64), n), the input of the kernels.

        Plane ``w`` holds word ``w`` of every code. Codes of 64 bits are not copied.
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
        """Convert the result of :meth:`planes` back to codes."""
        words = np.ascontiguousarray(planes.T).astype("<u8", copy=False)  # (n, n_words)
        width = (check_n_bits(n_bits) + 7) // 8
        return cls(words.view(np.uint8).reshape(len(words), 8 * len(planes))[:, :width], n_bits)

    def hamming(self, other: Codes) -> NDArray[np.uint16]:
        """Return all Hamming distances, (len(self), len(other)); meant for small sets."""
        check_same_bits(self.n_bits, other.n_bits)
        distances = np.zeros((len(self), len(other)), dtype=np.uint16)
        for mine, theirs in zip(self.planes(), other.planes(), strict=True):
            distances += np.bitwise_count(mine[:, None] ^ theirs[None, :])
        return distances

    def n_distinct(self) -> int:
        """Count the distinct codes; a low number means that the model has collapsed."""
        planes = self.planes()
        # Sorting numbers is several times faster than sorting by several keys.
        ordered = np.sort(planes) if len(planes) == 1 else planes[:, np.lexsort(planes)]
        return min(len(self), 1) + int(np.any(ordered[:, 1:] != ordered[:, :-1], axis=0).sum())

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, rows: Any) -> Codes:
        """Select rows by slice, mask, list or index; a single index returns Codes of one row."""
        if isinstance(rows, tuple):
            raise IndexError("Codes are indexed by row only. Use signs() to select bits.")
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
        """Write the codes to ``path`` (.npz) atomically."""
        save_codes(path, {"codes": self})

    @classmethod
    def load(cls, path: str | Path) -> Codes:
        """Read a file that :meth:`save` wrote."""
        codes, _ = load_codes(path)
        if set(codes) != {"codes"}:
            raise InputError(
                f"{path} contains several sets of codes: {', '.join(codes)}. "
                "Read it with corrhash.load_codes."
            )
        return codes["codes"]


def save_codes(path: str | Path, codes: dict[str, Codes], keys: ArrayLike = ()) -> None:
    """Write named sets of codes of equal length, and the keys of their items, to an .npz file."""
    lengths = {c.n_bits for c in codes.values()}
    if len(lengths) != 1:
        raise InputError(
            f"Codes in one file must have equal length, got {sorted(lengths)} bits. "
            "Write one file per code length."
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
    """Read a file that :func:`save_codes` wrote: codes by name, and the keys."""
    if not Path(path).exists():
        raise InputError(f"File not found: {path}. Check the path.")
    try:
        return _read_archive(path)
    except Exception as error:  # a damaged archive can fail in any way
        raise InputError(
            f"{path} is not a valid file of codes: {error or type(error).__name__}. "
            "It is truncated or was written by another program. Encode again."
        ) from error


def _read_archive(path: str | Path) -> tuple[dict[str, Codes], NDArray[np.str_]]:
    if not zipfile.is_zipfile(path):
        raise ValueError("not an .npz archive")
    with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
        n_bits = check_n_bits(archive["n_bits"][()])
        keys = archive["keys"]
        codes = {
            name.removeprefix("packed_"): Codes(archive[name], n_bits)
            for name in archive.files
            if name.startswith("packed_")
        }
    if not codes:
        raise ValueError("no codes in it")
    if len(keys) and {len(c) for c in codes.values()} != {len(keys)}:
        raise ValueError(f"{len(keys)} keys do not match the number of codes")
    return codes, keys


def check_n_bits(n_bits: Any) -> int:
    """Return ``n_bits`` as an int, or raise if codes cannot have that length."""
    if not isinstance(n_bits, (int, np.integer)) or isinstance(n_bits, bool):
        raise ParameterError(
            "n_bits", f"must be an integer between 1 and {MAX_BITS}, got {n_bits!r}."
        )
    if not 1 <= n_bits <= MAX_BITS:
        raise ParameterError(
            "n_bits",
            f"must be between 1 and {MAX_BITS}, got {n_bits}. Common values: 16, 32, 64, 128.",
        )
    return int(n_bits)


def check_codes(value: Any) -> Codes:
    """Return ``value``, or raise if it is not Codes."""
    if not isinstance(value, Codes):
        raise InputError(
            f"Expected Codes, got {type(value).__name__}. "
            "Create them with hasher.encode_text(texts) or Codes.from_continuous(array)."
        )
    return value


def check_continuous(continuous: NDArray[Any], n_bits: int, method: str) -> NDArray[Any]:
    """Return the continuous codes of a method, or raise if they have another shape."""
    shape = np.shape(continuous)
    if len(shape) != 2 or shape[1] != n_bits:
        raise TypeError(
            f"{method} returned continuous codes of shape {shape}. _embed_image and _embed_text "
            f"must return (n, n_bits) arrays, and n_bits is {n_bits}."
        )
    return continuous


def check_same_bits(queries: int, database: int) -> None:
    """Raise if queries and database have different code lengths."""
    if queries != database:
        raise InputError(
            f"Queries and database must have the same code length, got {queries} and {database} "
            "bits. Encode both with the same model."
        )


def unit_rows(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Scale rows to unit length; zero rows stay zero."""
    rows = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1, lengths)


def _read_only(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the array if it is read-only, else a read-only copy."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def as_matrix(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return (n, n_bits) numbers as an array; raise if they are anything else."""
    try:
        matrix = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name} must have rows of equal length: {error}.") from error
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise InputError(
            f"{name} must be an (n, n_bits) array of numbers, got shape {matrix.shape} and dtype "
            f"{matrix.dtype}. Pass a single item as x[None, :]."
        )
    return matrix
