"""Models whose networks were exported to ONNX: they encode, without PyTorch.

``onnx.json`` stands beside ``hasher.json`` and names the file of each network and its checksum.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.atomic_write import atomic_write, make_folder
from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset, n_rows
from corrhash.errors import InputError
from corrhash.methods.base import HASHER_FILE, Hasher, read_arrays
from corrhash.networks.inputs import PictureInputs, VectorInputs, check_kind
from corrhash.networks.onnx import OnnxNetwork, has_runtime
from corrhash.networks.pixels import Preprocessing

ONNX_FILE = "onnx.json"
FORMAT = "corrhash onnx 1"


@dataclass(frozen=True)
class ExportedNetwork:
    """What ``onnx.json`` says of one network.

    Parameters
    ----------
    file, sha256 : where it is, and what it must be.
    columns : length of the vectors that it reads; None for pictures.
    preprocessing : how it wants its pictures.
    """

    file: str
    sha256: str
    columns: int | None
    preprocessing: dict[str, Any] | None


class ExportedHasher(Hasher):
    """A trained model that runs on exported networks; it cannot learn.

    ``Hasher.load`` gives it where there is an ``onnx.json``; the class of the method itself loads
    the networks of PyTorch.
    """

    def __init__(self, folder: Path, model: dict[str, Any], exported: dict[str, Any]) -> None:
        self.folder = folder
        self.n_bits = int(model["params"]["n_bits"])
        self.ranked_by = exported["ranked_by"]  # type: ignore[misc]
        self._model = model
        self._about = {side: ExportedNetwork(**exported[side]) for side in ("image", "text")}
        self._networks: dict[str, OnnxNetwork] = {}  # each is opened when it is first asked
        self._voters: np.ndarray | None = None  # as are they

    @property
    def place(self) -> str:
        return str(self._model["method"])

    def get_params(self) -> dict[str, Any]:
        return dict(self._model["params"])

    def learned(self) -> dict[str, np.ndarray]:
        return read_arrays(self.folder / self._model["arrays"])

    def save(self, folder: str | Path) -> None:
        """Copy the model with its exported networks; ``hasher.json`` last, which makes it valid."""
        folder = make_folder(folder)
        if folder.samefile(self.folder):
            return
        networks = [network.file for network in self._about.values()]
        for name in (*networks, self._model["arrays"], ONNX_FILE, HASHER_FILE):
            with (self.folder / name).open("rb") as source, atomic_write(folder / name) as target:
                shutil.copyfileobj(source, target)

    def _is_fitted(self) -> bool:
        return True

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        raise InputError(
            "Exported networks encode, but do not learn. Train a new model, or load this one with "
            f"its own class, {self.place}."
        )

    def _score_image(self, images: Any) -> np.ndarray:
        return self._score("image", images)

    def _score_text(self, texts: Any) -> np.ndarray:
        return self._score("text", texts)

    def query_codes(self, scores: np.ndarray) -> Codes:
        n_votes = self.get_params().get("votes", 0)
        if not n_votes:
            return super().query_codes(scores)
        from corrhash.methods.votes import VOTERS, voted_codes  # loads scikit-learn

        if self._voters is None:
            self._voters = self.learned()[VOTERS]
        return voted_codes(scores, self._voters, n_votes)

    def _score(self, side: str, values: Any) -> np.ndarray:
        about = self._about[side]
        check_kind(values, side, about.columns)
        inputs: Any = VectorInputs(values) if about.preprocessing is None else None
        if about.preprocessing is not None:
            inputs = PictureInputs(values, _preprocessing(about.preprocessing), keep=False)
        if side not in self._networks:
            self._networks[side] = OnnxNetwork(self.folder / about.file, about.sha256)
        return self._networks[side].outputs(inputs, n_rows(values), self.n_bits)


def _preprocessing(settings: dict[str, Any]) -> Preprocessing:
    """From JSON, which knows no tuples."""
    colours = {name: tuple(settings[name]) for name in ("mean", "deviation")}
    return Preprocessing(**{**settings, **colours})


def find_exported(folder: Path, model: dict[str, Any]) -> ExportedHasher | None:
    """The exported networks of a model, if there are some and they can be run.

    Those of an earlier training in the same folder do not count.
    """
    path = folder / ONNX_FILE
    if not path.exists() or not has_runtime():
        return None
    try:
        exported = json.loads(path.read_bytes())
        if exported["format"] != FORMAT:
            raise ValueError(f"format {exported['format']!r}, not {FORMAT!r}")
        if exported["arrays"] != model["arrays"]:
            return None
        return ExportedHasher(folder, model, exported)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}). Export the model again.") from error
