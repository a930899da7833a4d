"""A hasher with its reader in a folder, and the fingerprint that tells whose codes are whose."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.atomic_write import atomic_write, make_folder, replace_folder, temporary_name
from corrhash.datasets.image_features import ALEXNET, HUB, ImageFeatures
from corrhash.datasets.reader import Reader
from corrhash.errors import InputError
from corrhash.methods.base import Hasher

TRAINING_FILE = "training.json"
TRAINING_FORMAT = "corrhash training 1"
TOLD = ("dataset", "seed", "options")
"""What is known of every training: which items may have been seen."""


def save_model(
    folder: Path, hasher: Hasher, reader: Reader, training: Mapping[str, Any] | None = None
) -> None:
    """Write both into a folder, in place of what is there, wholly or not at all.

    ``training`` is what is known of the training, plain enough for JSON: its dataset, seed and
    options at least.
    """
    new = make_folder(temporary_name(folder))
    try:
        hasher.save(new)
        reader.save(new)
        if training is not None:
            with atomic_write(new / TRAINING_FILE) as file:
                file.write(json.dumps({"format": TRAINING_FORMAT, **training}).encode())
        replace_folder(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def read_training(folder: str | Path) -> dict[str, Any] | None:
    """What is known of the training of the model in a folder; None if nothing is."""
    path = Path(folder) / TRAINING_FILE
    try:
        training = dict(json.loads(path.read_bytes()))
        if (found := training.pop("format", None)) != TRAINING_FORMAT:
            raise ValueError(f"format {found!r}, not {TRAINING_FORMAT!r}")
        if missing := sorted(set(TOLD) - set(training)):
            raise ValueError(f"{missing[0]} is missing")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"Cannot read {path} ({error}). Train the model again.") from error
    return training


def load_model(folder: str | Path, method: type[Hasher] = Hasher) -> tuple[Hasher, Reader]:
    """Read what :func:`save_model` or ``corrhash train`` wrote."""
    return method.load(folder), Reader.load(folder)


def fingerprint(hasher: Hasher, reader: Reader) -> str:
    """32 hexadecimal digits over all that codes depend on.

    These are the method, its settings, what it learned, and how it reads words and pictures. Where
    files lie and how the training went play no part.
    """
    digest = hashlib.sha256()
    about = [
        hasher.place,
        _settings(hasher),
        None if reader.vocabulary is None else asdict(reader.vocabulary),
        None if reader.image_features is None else _about_features(reader.image_features),
    ]
    digest.update(json.dumps(about, sort_keys=True).encode())
    for name, array in sorted(hasher.learned().items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


def _settings(hasher: Hasher) -> dict[str, Any]:
    """The parameters of a method, of which some are read when items are scored."""
    settings = hasher.plain_params()
    settings.pop("training", None)
    if "networks" in settings:  # what they began with is a file, and gone into what they learned
        settings["networks"].pop("image_weights", None)
    return settings


def _about_features(features: ImageFeatures) -> list[str | None]:
    """Which features they are; a checksum stands for the file or folder that a name may be."""
    if features.sha256 is None or features.name in ALEXNET:
        return [features.name, features.sha256]
    return [HUB if features.name.startswith(HUB) else None, features.sha256]
