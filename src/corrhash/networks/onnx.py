"""Exported networks, run by ONNX Runtime: without PyTorch, and the same scores to five digits.

Needs the package ``onnxruntime``: ``pip install 'corrhash[onnx]'``.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from corrhash.checksum import file_sha256
from corrhash.errors import InputError
from corrhash.networks.inputs import Inputs
from corrhash.networks.padded_batches import ENCODE_SIZE, padded_batches


def has_runtime() -> bool:
    """Whether ONNX Runtime is installed."""
    return find_spec("onnxruntime") is not None


class OnnxNetwork:
    """A network in a file, once its checksum is found right."""

    def __init__(self, path: Path, sha256: str) -> None:
        if not path.exists():
            raise InputError(f"The model lacks its file {path}. Copy the whole folder.")
        if file_sha256(path) != sha256:
            raise InputError(f"{path} is damaged: its checksum differs. Export the model again.")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors alone: it warns of machines without a GPU
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )

    def outputs(self, inputs: Inputs, n: int, width: int) -> np.ndarray:
        """(n, width) outputs for rows 0..n, computed in batches of one size."""
        parts = [np.empty((0, width), np.float32)]
        for batch in padded_batches(inputs, n, ENCODE_SIZE):
            parts += self._session.run(None, {"inputs": batch})
        return np.concatenate(parts)[:n]
