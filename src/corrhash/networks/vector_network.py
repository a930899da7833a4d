"""VectorNetwork: a trained network on vectors, computed in NumPy from its learned arrays.

Products are computed in float64 and rounded to float32, so that a code depends neither on its batch
nor on the kernel for the CPU: in float32, these change the last digits. Continuous codes differ
from those of PyTorch by rounding errors, so a bit can differ only where a continuous code is that
close to 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from corrhash.networks.inputs import ENCODE_SIZE

Floats = NDArray[np.float32]


class VectorNetwork:
    """The hidden layers and the hash layer of a network on feature vectors or term vectors.

    Parameters
    ----------
    arrays : the arrays of a :class:`~corrhash.networks.hashing_network.HashingNetwork` whose body
        is an :class:`~corrhash.networks.layers.MLP` or a
        :class:`~corrhash.networks.hashing_network.FeatureMLP`, by name.
    bounded : whether the hash layer ends in a tanh.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], *, bounded: bool) -> None:
        prefix = "body.standardize."
        self._standardize = {
            name.removeprefix(prefix): array
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        names = [name.removesuffix(".weight") for name in arrays if name.endswith(".weight")]
        hidden = sorted((n for n in names if n.startswith("body.")), key=_position)
        # (n_inputs, n_outputs) in C order, the fastest layout for sparse rows
        self._layers = [
            (np.ascontiguousarray(arrays[f"{name}.weight"].T, np.float64), arrays[f"{name}.bias"])
            for name in (*hidden, "hash.fch")
        ]
        self._bounded = bounded

    def outputs(self, values: Any) -> Floats:
        """Return (n, n_bits) continuous codes of (n, n_inputs) vectors, dense or sparse."""
        n = values.shape[0]
        codes = np.empty((n, len(self._layers[-1][1])), np.float32)
        rows = values.tocsr() if sp.issparse(values) else np.asarray(values)
        for start in range(0, n, ENCODE_SIZE):
            batch = rows[start : start + ENCODE_SIZE] if n > ENCODE_SIZE else rows
            batch = batch.astype(np.float32, copy=False)
            codes[start : start + ENCODE_SIZE] = self._batch_outputs(batch)
        return np.tanh(codes, out=codes) if self._bounded else codes

    def _batch_outputs(self, batch: Any) -> Floats:
        """Return the output of the last layer for at most ``ENCODE_SIZE`` rows."""
        features = batch
        if self._standardize:
            features = self._standardized(batch.toarray() if sp.issparse(batch) else batch)
        for number, (weight, bias) in enumerate(self._layers):
            if number:
                features = np.maximum(features, 0, out=features)
            features = (features.astype(np.float64) @ weight).astype(np.float32) + bias
        return features

    def _standardized(self, features: Floats) -> Floats:
        """Return what :class:`~corrhash.networks.layers.Standardize` returns."""
        learned = self._standardize
        if learned["takes_sqrt"]:
            features = np.sqrt(np.maximum(features, 0))
        return (features - learned["mean"]) / learned["deviation"]


def _position(name: str) -> int:
    """The position of a layer, which ends its name: 3 for ``body.layers.3``."""
    return int(name.rpartition(".")[2])
