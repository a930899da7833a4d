"""A hasher with its reader in a folder, and the fingerprint that tells whose codes are whose."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from pathlib import Path

import numpy as np

from corrhash.atomic_write import make_folder
from corrhash.datasets.reader import Reader
from corrhash.methods.base import Hasher


def save_model(folder: Path, hasher: Hasher, reader: Reader) -> None:
    """Write both into a new folder, wholly or not at all."""
    new = make_folder(folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp"))
    try:
        hasher.save(new)
        reader.save(new)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def load_model(folder: str | Path, method: type[Hasher] = Hasher) -> tuple[Hasher, Reader]:
    """Read what :func:`save_model` or ``corrhash train`` wrote."""
    return method.load(folder), Reader.load(folder)


def fingerprint(hasher: Hasher, reader: Reader) -> str:
    """32 hexadecimal digits over all that codes depend on: the method, what it learned, the words.

    Where files lie and how the training went play no part.
    """
    digest = hashlib.sha256()
    features = reader.image_features
    about = [
        hasher.place,
        hasher.n_bits,
        None if reader.vocabulary is None else reader.vocabulary.words,
        None if features is None else features.sha256 or features.name,
    ]
    digest.update(json.dumps(about).encode())
    for name, array in sorted(hasher.learned().items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]
