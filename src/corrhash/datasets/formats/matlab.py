"""Arrays of MATLAB files: dense and sparse matrices of numbers, of versions 4, 5, 7 and 7.3.

SciPy's reader of versions 5 to 7 can crash the process on a damaged file, so their few structures
are read here. Other variables, such as cells, are skipped.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from corrhash._files import open_regular
from corrhash.errors import optional_packages

HEADER = 128
COMPRESSED, MATRIX = 15, 14
SPARSE, NUMBERS = 5, range(6, 16)
"""Classes of arrays: 6 to 15 are numbers, from double to uint64."""

COMPLEX = 0x800

TYPES = {
    **{1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4"},
    **{7: "f4", 9: "f8", 12: "i8", 13: "u8"},
}
"""NumPy's types of the elements of a file."""

LARGEST = 1 << 34
"""Bytes that a compressed variable can have."""


def read_matlab(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the name and the array of each variable; raise ValueError if the file is damaged."""
    with open_regular(path) as file:
        head = file.read(HEADER)
        if len(head) == HEADER and 0 not in head[:4] and b"\x02" in head[124:126]:
            yield from _hdf5(path)
        elif len(head) >= 4 and 0 in head[:4]:
            yield from _version_4(file)
        else:
            order = {b"IM": "<", b"MI": ">"}.get(head[126:128])
            if order is None:
                raise ValueError("it is not a MATLAB file")
            yield from _variables(file.read(), order)


def _version_4(file: BinaryIO) -> Iterator[tuple[str, Any]]:
    """Yield the variables of the oldest version, which SciPy reads in Python."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    file.seek(0)
    try:
        arrays = loadmat(file).items()
    except MatReadError as error:
        raise ValueError(str(error)) from error
    yield from ((name, array) for name, array in arrays if not name.startswith("__"))


def _variables(content: bytes, order: str) -> Iterator[tuple[str, Any]]:
    at = 0
    while len(content) - at >= 8:
        kind, size = struct.unpack_from(f"{order}II", content, at)
        data = content[at + 8 : at + 8 + size]
        if len(data) < size:
            raise ValueError("it is truncated")
        at += 8 + size
        if kind == COMPRESSED:
            kind, data = _decompressed(data, order)
        if kind == MATRIX:
            yield from _variable(data, order)


def _decompressed(data: bytes, order: str) -> tuple[int, bytes]:
    """Return type and content of the element in a compressed one."""
    decompressor = zlib.decompressobj()
    whole = decompressor.decompress(data, LARGEST)
    if len(whole) < 8:
        raise ValueError("a compressed variable is damaged")
    kind, size = struct.unpack_from(f"{order}II", whole)
    if len(whole) - 8 < size:
        raise ValueError("a compressed variable is damaged")
    return int(kind), whole[8 : 8 + size]


def _variable(data: bytes, order: str) -> Iterator[tuple[str, Any]]:
    elements = _elements(data, order)
    flags, n_flags = _next(elements), 2
    if len(flags) != n_flags:
        raise ValueError("a variable has damaged flags")
    kind = int(flags[0]) & 0xFF
    if (kind != SPARSE and kind not in NUMBERS) or int(flags[0]) & COMPLEX:
        return
    shape = tuple(int(size) for size in _next(elements))
    name = _next(elements).tobytes().decode("latin-1")
    if len(shape) < 2 or min(shape) < 0:
        raise ValueError(f"{name!r} has the invalid shape {shape}")
    if kind in NUMBERS:
        yield name, _next(elements).reshape(shape, order="F")
        return
    rows, starts, values = (_next(elements) for _ in range(3))
    n = int(starts[-1]) if len(starts) == shape[1] + 1 else -1
    if not 0 <= n <= min(len(rows), len(values)):
        raise ValueError(f"{name!r} has damaged indices")
    table = sp.csc_array((values[:n], rows[:n].astype(np.int64), starts.astype(np.int64)), shape)
    table.check_format()
    yield name, table


def _next(elements: Iterator[np.ndarray]) -> np.ndarray:
    found = next(elements, None)
    if found is None:
        raise ValueError("a variable is truncated")
    return found


def _elements(data: bytes, order: str) -> Iterator[np.ndarray]:
    """Yield the parts of a variable as arrays; those of unknown types end it."""
    at = 0
    while len(data) - at >= 8:
        kind, size = struct.unpack_from(f"{order}II", data, at)
        start, step = at + 8, 8 + -(-size // 8) * 8
        if kind >> 16:  # up to four bytes are stored in the tag itself
            kind, size, start, step = kind & 0xFFFF, kind >> 16, at + 4, 8
        dtype = np.dtype(order + TYPES.get(kind, "u1"))
        if size % dtype.itemsize or len(data) - start < size or (step == 8 and size > 4):
            raise ValueError("a variable is truncated")
        yield np.frombuffer(data, dtype, size // dtype.itemsize, start)
        at += step


def _hdf5(path: Path) -> Iterator[tuple[str, Any]]:
    with optional_packages(f"Reading {path} (MATLAB 7.3)", "Save the file with -v7"):
        import h5py
    with h5py.File(path, "r") as file:
        for name, entry in file.items():
            if isinstance(name, bytes):  # h5py returns names that are not UTF-8 as bytes
                raise ValueError(f"a variable has the invalid name {name[:100]!r}")
            if isinstance(entry, h5py.Dataset) and entry.dtype.kind in "fiub":
                yield name, np.asarray(entry).T  # MATLAB stores columns first
            elif isinstance(entry, h5py.Group) and {"data", "ir", "jc"} <= set(entry):
                parts = (entry["data"][()], entry["ir"][()], entry["jc"][()])
                n_columns = len(parts[2]) - 1
                shape = (int(entry.attrs["MATLAB_sparse"]), n_columns)
                table = sp.csc_array(parts, shape=shape)
                table.check_format()
                yield name, table
