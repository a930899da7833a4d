"""Networks exported to ONNX: they encode images without PyTorch.

``onnx.json`` in a model folder names the file of each exported network and its checksum. ONNX
Runtime runs them: ``pip install 'corrhash[onnx]'``.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from corrhash._files import atomic_write, file_sha256
from corrhash.datasets.base import n_rows
from corrhash.errors import InputError
from corrhash.networks.inputs import ENCODE_SIZE, ImageInputs, Inputs, padded_batches
from corrhash.networks.onnx_encoder import open_session
from corrhash.networks.preprocessing import Preprocessing

ONNX_FILE = "onnx.json"
FORMAT = "corrhash onnx 1"


@dataclass(frozen=True)
class ExportedNetwork:
    """The entry of one network in ``onnx.json``.

    Parameters
    ----------
    file, sha256 : file name and checksum.
    columns : number of features that the network reads; None for images.
    preprocessing : preprocessing of images; None for features.
    """

    file: str
    sha256: str
    columns: int | None
    preprocessing: dict[str, Any] | None


@dataclass(frozen=True)
class ExportedNetworks:
    """The exported networks of a model in a folder."""

    folder: Path
    image: ExportedNetwork
    text: ExportedNetwork

    def image_outputs(self, images: Any, n_bits: int) -> np.ndarray:
        """Return (n, n_bits) continuous codes of raw images."""
        settings = self.image.preprocessing or {}
        colours = {name: tuple(settings[name]) for name in ("mean", "std")}  # JSON has no tuples
        inputs = ImageInputs(images, Preprocessing(**{**settings, **colours}))
        return self._image_network.outputs(inputs, n_rows(images), n_bits)

    @cached_property
    def _image_network(self) -> OnnxNetwork:
        return OnnxNetwork(self.folder / self.image.file, self.image.sha256)

    def copy_to(self, folder: Path) -> None:
        """Copy the files to another model folder; ``onnx.json`` is written last."""
        if folder.samefile(self.folder):
            return
        for name in (self.image.file, self.text.file, ONNX_FILE):
            with (self.folder / name).open("rb") as source, atomic_write(folder / name) as target:
                shutil.copyfileobj(source, target)


class OnnxNetwork:
    """A network run by ONNX Runtime, after verifying the checksum of its file."""

    def __init__(self, path: Path, sha256: str) -> None:
        if not path.exists():
            raise InputError(f"The model file {path} is missing. Copy the whole folder.")
        if file_sha256(path) != sha256:
            raise InputError(f"{path} is damaged: its checksum differs. Export the model again.")
        self._session = open_session(path, "Encoding with an exported model")

    def outputs(self, inputs: Inputs, n: int, width: int) -> np.ndarray:
        """Return (n, width) outputs, computed in batches of a fixed size."""
        parts = [np.empty((0, width), np.float32)]
        for batch in padded_batches(inputs, n, ENCODE_SIZE):
            parts += self._session.run(None, {"inputs": batch})
        return np.concatenate(parts)[:n]


def has_runtime() -> bool:
    """Return whether ONNX Runtime is installed."""
    return find_spec("onnxruntime") is not None


def find_exported(folder: Path, model: dict[str, Any]) -> ExportedNetworks | None:
    """Return the exported networks of a model, or None if they are missing or cannot run.

    Networks exported from an earlier model in the same folder are ignored.
    """
    path = folder / ONNX_FILE
    if not path.exists():
        return None
    if not has_runtime() and find_spec("torch") is not None:
        return None  # PyTorch runs the trained networks themselves
    try:
        exported = json.loads(path.read_bytes())
        if exported["format"] != FORMAT:
            raise ValueError(f"format {exported['format']!r}, not {FORMAT!r}")
        if exported["arrays"] != model["arrays"]:
            return None
        networks = (ExportedNetwork(**exported[modality]) for modality in ("image", "text"))
        return ExportedNetworks(folder, *networks)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}). Export the model again.") from error
