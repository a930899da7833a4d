"""The user's own data: which loader reads a folder or a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from corrhash.datasets import array_files, folder, manifest, ready_features
from corrhash.datasets.base import RetrievalSplit
from corrhash.errors import InputError


def own_loader(path: Path) -> Callable[..., RetrievalSplit]:
    """A function that loads what is at ``path``; its options are those of the loader.

    A folder with a manifest is read by it; one with arrays and without pictures as ready features;
    any other as pictures.
    """
    if path.is_dir():
        listed = next((path / name for name in manifest.NAMES if (path / name).is_file()), None)
        if listed is not None:
            return partial(manifest.load, listed)
        arrays = any(file.suffix.lower() in array_files.SUFFIXES for file in path.iterdir())
        ready = arrays and not folder.picture_files(path)
        return partial(ready_features.load if ready else folder.load, path)
    if path.suffix.lower() in manifest.SUFFIXES:
        return partial(manifest.load, path)
    if path.suffix.lower() in array_files.SUFFIXES:
        return partial(ready_features.load, path)
    raise InputError(
        f"{path} is no dataset: its name ends in {path.suffix!r}. Give a folder of pictures, a "
        f"manifest ({', '.join(manifest.SUFFIXES)}) or arrays ({', '.join(array_files.SUFFIXES)})."
    )
