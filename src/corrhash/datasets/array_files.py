"""Arrays out of .npy, .npz and .mat files, by their names; what is pickled is never read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import scipy.sparse as sp

from corrhash.errors import InputError

SUFFIXES = (".npz", ".mat", ".npy")


def read_arrays(path: str | Path) -> dict[str, Any]:
    """Every array of a file, or of all files in a folder; one in a .npy has the file's name."""
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
        return {name: array for file in files for name, array in read_arrays(file).items()}
    try:
        return dict(_arrays(path))
    except FileNotFoundError as error:
        raise InputError(f"There is no file {path}. Check the path.") from error
    except (ValueError, TypeError, OSError, EOFError, BadZipFile) as error:
        raise InputError(f"{path} cannot be read: {error}. Save its arrays again.") from error


def _arrays(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix.lower() == ".mat":
        yield from _matlab(path)
        return
    content: Any = np.load(path, allow_pickle=False)
    if isinstance(content, np.ndarray):
        yield path.stem, content
        return
    with content:
        yield from ((name, content[name]) for name in content.files)


def _matlab(path: Path) -> Iterator[tuple[str, Any]]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(path)
    except NotImplementedError:  # version 7.3, which is HDF5
        yield from _hdf5(path)
        return
    except MatReadError as error:
        raise InputError(f"{path} cannot be read: {error}. Save its arrays again.") from error
    yield from ((name, array) for name, array in content.items() if not name.startswith("__"))


def _hdf5(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        import h5py
    except ImportError as error:
        raise InputError(
            f"{path} is a MATLAB file of version 7.3, which needs a package: "
            "pip install 'corrhash[hdf5]'. Or save it with -v7."
        ) from error
    with h5py.File(path, "r") as file:
        for name, entry in file.items():
            if isinstance(entry, h5py.Dataset) and entry.dtype.kind in "fiub":
                yield name, np.asarray(entry).T  # MATLAB counts down the columns first
            elif isinstance(entry, h5py.Group) and {"data", "ir", "jc"} <= set(entry):
                parts = (entry["data"][()], entry["ir"][()], entry["jc"][()])
                n_columns = len(parts[2]) - 1
                shape = (int(entry.attrs["MATLAB_sparse"]), n_columns)
                yield name, sp.csc_array(parts, shape=shape)
