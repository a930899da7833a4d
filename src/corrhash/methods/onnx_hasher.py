"""Hashers whose networks were exported to ONNX: they encode without PyTorch.

``onnx.json`` in a model folder names the file of each exported network and its checksum. ONNX
Runtime runs them: ``pip install 'corrhash[onnx]'``.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from corrhash._files import atomic_write, file_sha256, make_folder
from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset, n_rows
from corrhash.errors import InputError, optional_packages
from corrhash.methods.base import HASHER_FILE, Hasher, nested_params, read_arrays
from corrhash.networks.inputs import (
    ENCODE_SIZE,
    ImageInputs,
    Inputs,
    VectorInputs,
    check_kind,
    padded_batches,
)
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


class ExportedHasher(Hasher):
    """A trained model that runs on exported networks and cannot be fitted.

    ``Hasher.load`` returns it if the model folder contains ``onnx.json``. The class of the method
    itself, such as ``CHN.load``, loads the PyTorch networks.
    """

    def __init__(self, folder: Path, model: dict[str, Any], exported: dict[str, Any]) -> None:
        self.folder = folder
        self.n_bits = int(model["params"]["n_bits"])
        self.ranked_by = exported["ranked_by"]  # type: ignore[misc]
        self._model = model
        self._entries = {
            modality: ExportedNetwork(**exported[modality]) for modality in ("image", "text")
        }
        self._sessions: dict[str, OnnxNetwork] = {}  # opened on first use
        self._reference_codes: np.ndarray | None = None  # read on first use

    @property
    def import_path(self) -> str:
        return str(self._model["method"])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the model that was exported."""
        params = dict(self._model["params"])
        return params | nested_params(params) if deep else params

    def learned(self) -> dict[str, np.ndarray]:
        return read_arrays(self.folder / self._model["arrays"])

    def save(self, folder: str | Path) -> None:
        """Copy the model and its exported networks; ``hasher.json`` is written last."""
        folder = make_folder(folder)
        if folder.samefile(self.folder):
            return
        networks = [network.file for network in self._entries.values()]
        for name in (*networks, self._model["arrays"], ONNX_FILE, HASHER_FILE):
            with (self.folder / name).open("rb") as source, atomic_write(folder / name) as target:
                shutil.copyfileobj(source, target)

    def _is_fitted(self) -> bool:
        return True

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        raise InputError(
            "Exported networks cannot be fitted. Train a new model, or load this one with its own "
            f"class, {self.import_path}."
        )

    def _embed_image(self, images: Any) -> np.ndarray:
        return self._embed("image", images)

    def _embed_text(self, texts: Any) -> np.ndarray:
        return self._embed("text", texts)

    def _embed(self, modality: str, values: Any) -> np.ndarray:
        entry = self._entries[modality]
        check_kind(values, modality, entry.columns)
        inputs: Inputs
        if entry.preprocessing is None:
            inputs = VectorInputs(values)
        else:
            inputs = ImageInputs(values, _preprocessing(entry.preprocessing))
        if modality not in self._sessions:
            self._sessions[modality] = OnnxNetwork(self.folder / entry.file, entry.sha256)
        return self._sessions[modality].outputs(inputs, n_rows(values), self.n_bits)

    def query_codes(self, continuous: np.ndarray) -> Codes:
        n_neighbours = self.get_params().get("refine_neighbours", 0)
        if not n_neighbours:
            return super().query_codes(continuous)
        # Imported here because it loads scikit-learn.
        from corrhash.methods.query_refinement import REFERENCE_CODES, refine_queries

        if self._reference_codes is None:
            self._reference_codes = self.learned()[REFERENCE_CODES]
        return refine_queries(continuous, self._reference_codes, n_neighbours)


class OnnxNetwork:
    """A network run by ONNX Runtime, after verifying the checksum of its file."""

    def __init__(self, path: Path, sha256: str) -> None:
        if not path.exists():
            raise InputError(f"The model file {path} is missing. Copy the whole folder.")
        if file_sha256(path) != sha256:
            raise InputError(f"{path} is damaged: its checksum differs. Export the model again.")
        with optional_packages("Encoding with an exported model"):
            import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors only: it warns about machines without a GPU
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )

    def outputs(self, inputs: Inputs, n: int, width: int) -> np.ndarray:
        """Return (n, width) outputs, computed in batches of a fixed size."""
        parts = [np.empty((0, width), np.float32)]
        for batch in padded_batches(inputs, n, ENCODE_SIZE):
            parts += self._session.run(None, {"inputs": batch})
        return np.concatenate(parts)[:n]


def has_runtime() -> bool:
    """Return whether ONNX Runtime is installed."""
    return find_spec("onnxruntime") is not None


def find_exported(folder: Path, model: dict[str, Any]) -> ExportedHasher | None:
    """Return the exported networks of a model, or None if they are missing or cannot run.

    Networks exported from an earlier model in the same folder are ignored.
    """
    path = folder / ONNX_FILE
    if not path.exists():
        return None
    if not has_runtime():
        if find_spec("torch") is not None:
            return None  # PyTorch runs the trained networks themselves
        with optional_packages(f"The exported model in {folder}"):
            import onnxruntime  # noqa: F401
    try:
        exported = json.loads(path.read_bytes())
        if exported["format"] != FORMAT:
            raise ValueError(f"format {exported['format']!r}, not {FORMAT!r}")
        if exported["arrays"] != model["arrays"]:
            return None
        return ExportedHasher(folder, model, exported)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}). Export the model again.") from error


def _preprocessing(settings: dict[str, Any]) -> Preprocessing:
    """Restore settings from JSON, which has no tuples."""
    colours = {name: tuple(settings[name]) for name in ("mean", "std")}
    return Preprocessing(**{**settings, **colours})
