"""Networks exported to ONNX: they encode images without PyTorch.

``onnx.json`` in a model folder names the file of each exported network and its checksum. ONNX
Runtime runs them: ``pip install 'corrhash[onnx]'``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from corrhash._files import atomic_write
from corrhash._model_files import Keys, check_keys, check_name, read_file, read_json
from corrhash.datasets.base import n_rows
from corrhash.errors import InputError
from corrhash.networks.inputs import ENCODE_SIZE, ImageInputs, Inputs, padded_batches
from corrhash.networks.onnx_encoder import open_session
from corrhash.networks.preprocessing import Preprocessing

ONNX_FILE = "onnx.json"
FORMAT = "corrhash onnx 2"
KEYS: Keys = {"arrays": str, "ranked_by": str, "image": dict, "text": dict}
NETWORK_KEYS: Keys = {
    **{"file": str, "sha256": str},
    **{"columns": (int, type(None)), "preprocessing": (dict, type(None))},
}
PREPROCESSING_KEYS: Keys = {
    **{"resize": int, "crop": int, "keep_aspect": bool, "resample": int},
    **{"mean": list, "std": list},
}

EXTERNAL = b"\x0a\x08location"
"""The key, as ONNX files contain it, of the path of another file with the values of a tensor."""


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

    @property
    def networks(self) -> tuple[ExportedNetwork, ExportedNetwork]:
        """Both networks, images first."""
        return self.image, self.text

    def image_outputs(self, images: Any, n_bits: int) -> np.ndarray:
        """Return (n, n_bits) continuous codes of raw images."""
        settings = self.image.preprocessing or {}
        colours = {name: tuple(settings[name]) for name in ("mean", "std")}  # JSON has no tuples
        inputs = ImageInputs(images, Preprocessing(**{**settings, **colours}))
        return self._image_network.outputs(inputs, n_rows(images), n_bits)

    @cached_property
    def _image_network(self) -> OnnxNetwork:
        return OnnxNetwork(self.folder, self.image)

    def verify(self) -> None:
        """Verify the checksums of the files."""
        for network in self.networks:
            read_file(self.folder, network.file, network.sha256)

    def copy_to(self, folder: Path) -> None:
        """Copy the verified files to another model folder; ``onnx.json`` is written last."""
        if folder.samefile(self.folder):
            return
        contents = {one.file: read_file(self.folder, one.file, one.sha256) for one in self.networks}
        for name, content in {**contents, ONNX_FILE: read_file(self.folder, ONNX_FILE)}.items():
            with atomic_write(folder / check_name(folder, name)) as target:
                target.write(content)


class OnnxNetwork:
    """A network run by ONNX Runtime, after verifying the checksum of its file."""

    def __init__(self, folder: Path, network: ExportedNetwork) -> None:
        content = read_file(folder, network.file, network.sha256)
        if EXTERNAL in content:
            raise InputError(
                f"{folder / network.file} refers to other files, which exported models never do. "
                "Export the model again."
            )
        path = folder / network.file
        self._session = open_session(path, "Encoding with an exported model", content=content)

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
    if not has_runtime() and find_spec("torch") is not None:
        return None  # PyTorch runs the trained networks themselves
    try:
        exported = read_json(folder, ONNX_FILE, FORMAT, KEYS)
    except FileNotFoundError:
        return None
    if exported["arrays"] != model["arrays"]:
        return None
    return ExportedNetworks(
        folder, *(_network(folder, exported, modality) for modality in ("image", "text"))
    )


def _network(folder: Path, exported: dict[str, Any], modality: str) -> ExportedNetwork:
    """Return the checked entry of a network."""
    where = f"The {modality} network in {folder / ONNX_FILE}"
    network = ExportedNetwork(**check_keys(exported[modality], NETWORK_KEYS, where))
    check_name(folder, network.file)
    if len(network.sha256) != 64:
        raise InputError(f"{where} needs a SHA-256 of 64 digits, got {network.sha256[:70]!r}.")
    if network.preprocessing is not None:
        check_keys(network.preprocessing, PREPROCESSING_KEYS, where)
    return network
