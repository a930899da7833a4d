"""Export of a trained model: both networks as ONNX files in the model folder.

``torch.onnx.export`` writes the graphs; ``pip install 'corrhash[onnx]'`` installs what it needs.
"""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from corrhash._files import atomic_write
from corrhash._model_files import write_json
from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset, n_rows
from corrhash.errors import InputError, optional_packages
from corrhash.methods.base import Hasher, read_description
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.methods.onnx_network import (
    FORMAT,
    ONNX_FILE,
    ExportedNetwork,
    OnnxNetwork,
    find_exported,
    has_runtime,
)
from corrhash.networks import HUB_PREFIX
from corrhash.networks.hashing_network import HashingNetwork
from corrhash.networks.inputs import image_inputs, text_inputs

OPSET = 18
"""Operators of 2022, which all current runtimes support."""

IR_VERSION = 8
"""File format of the same year."""

INPUT, OUTPUT = "inputs", "codes"

TOLERANCE = 1e-5
"""Largest difference of continuous codes; bits can differ only where a code is this close to 0."""


def export_onnx(folder: str | Path, method: type[Hasher] = Hasher) -> list[Path]:
    """Export the networks of the model in ``folder``, and return their files, images first.

    ``onnx.json`` is written last, so that it never names a missing file. ``method`` is the class of
    the model if it is not in ``METHODS``.
    """
    folder = Path(folder)
    description = read_description(folder)
    hasher = method._method_of(folder, description["method"]).load(folder)
    if not isinstance(hasher, NetworkHasher):
        raise InputError(
            f"{type(hasher).__name__} has no networks to export. It encodes without PyTorch."
        )
    _check_exportable(hasher)
    exported = {
        "image": _export(folder, "image", hasher.image_network_, hasher.inputs_["image"]),
        "text": _export(folder, "text", hasher.text_network_, hasher.inputs_["text"]),
    }
    content = {
        "arrays": description["arrays"],
        "ranked_by": hasher.ranked_by,
        **{modality: asdict(network) for modality, network in exported.items()},
    }
    write_json(folder, ONNX_FILE, FORMAT, content)
    files = [folder / network.file for network in exported.values()]
    for old in folder.glob("*.onnx"):
        if old not in files:
            old.unlink()
    return files


def _check_exportable(hasher: NetworkHasher) -> None:
    """Raise an error for Hugging Face encoders, whose preprocessing is not exported."""
    encoders = {"image": hasher.networks.image, "text": hasher.networks.text}
    for modality, encoder in encoders.items():
        if encoder.startswith(HUB_PREFIX) and hasher.inputs_[modality] is None:
            raise InputError(
                f"The {modality} encoder {encoder} cannot be exported. Networks on features, on "
                "term vectors and on images (alexnet, small) can. Use the tools of Hugging Face "
                "for its encoders."
            )


def _export(
    folder: Path, modality: str, network: HashingNetwork, n_features: int | None
) -> ExportedNetwork:
    """Write the file of one network, whose name contains its checksum."""
    preprocessing: dict[str, Any] | None = None
    shape: tuple[int, ...] = (n_features or 0,)
    if n_features is None:
        settings: Any = network.body.preprocessing
        preprocessing, shape = asdict(settings), (3, settings.crop, settings.crop)
    content = onnx_file(network, shape)
    sha256 = hashlib.sha256(content).hexdigest()
    name = f"{modality}-{sha256[:16]}.onnx"
    with atomic_write(folder / name) as file:
        file.write(content)
    return ExportedNetwork(name, sha256, n_features, preprocessing)


def onnx_file(network: nn.Module, shape: tuple[int, ...]) -> bytes:
    """Return the ONNX file of a network; ``shape`` is that of one input, without the batch."""
    with optional_packages("Exporting networks"):
        import onnx
        import onnxscript  # noqa: F401 - torch.onnx needs it
    with _quiet():
        program = torch.onnx.export(
            network.cpu().eval(),
            (torch.zeros(2, *shape),),
            dynamo=True,
            opset_version=OPSET,
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_shapes=({0: torch.export.Dim("n")},),
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    # Stack traces with the paths of this machine, which would also change the checksum.
    for part in (model, model.graph, *model.graph.node, *model.graph.value_info):
        del part.metadata_props[:]
    for part in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        del part.metadata_props[:]
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the warnings of torch.onnx about packages and operators that are not used here."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


@dataclass(frozen=True)
class Difference:
    """The difference between two sets of continuous codes of the same items.

    Parameters
    ----------
    modality : ``image`` or ``text``.
    n_items, n_bits : number of items and of bits that were compared.
    largest : largest difference between two continuous codes.
    n_differing : number of bits that differ.
    n_unexplained : number of these whose continuous code is farther from 0 than the tolerance.
    """

    modality: str
    n_items: int
    n_bits: int
    largest: float
    n_differing: int
    n_unexplained: int

    @property
    def small(self) -> bool:
        """Whether the networks are equivalent up to rounding errors."""
        return self.largest <= TOLERANCE and self.n_unexplained == 0

    def __str__(self) -> str:
        return (
            f"{self.n_items:,} {self.modality}s: continuous codes differ by at most "
            f"{self.largest:.1e}; {self.n_differing:,} of {self.n_bits:,} bits differ"
        )


def compare(folder: Path, trained: NetworkHasher, pairs: PairedDataset) -> list[Difference]:
    """Compare the exported networks in a folder with those of the hasher in PyTorch.

    Images come first.
    """
    if not has_runtime():
        raise InputError(
            "Comparing exported networks needs ONNX Runtime. Install it with: "
            "pip install 'corrhash[onnx]'."
        )
    exported = find_exported(folder, read_description(folder))
    if exported is None:
        raise InputError(f"{folder} has no networks exported from this model. Export it again.")
    found = []
    for modality in ("image", "text"):
        entry: ExportedNetwork = getattr(exported, modality)
        network: HashingNetwork = getattr(trained, f"{modality}_network_")
        values = getattr(pairs, f"{modality}s")
        inputs = (image_inputs if modality == "image" else text_inputs)(values, network.body)
        expected = trained._embed(network, inputs, n_rows(values))
        run = OnnxNetwork(folder, entry)
        found.append(
            difference(modality, expected, run.outputs(inputs, n_rows(values), trained.n_bits))
        )
    return found


def difference(modality: str, expected: np.ndarray, found: np.ndarray) -> Difference:
    """Compare two (n, n_bits) arrays of continuous codes.

    >>> print(difference("image", np.array([[0.5, 1e-7]]), np.array([[0.5, -1e-7]])))
    1 images: continuous codes differ by at most 2.0e-07; 1 of 2 bits differ
    """
    differing = Codes.from_continuous(expected).signs() != Codes.from_continuous(found).signs()
    return Difference(
        modality,
        n_items=len(expected),
        n_bits=expected.size,
        largest=float(abs(expected - found).max(initial=0)),
        n_differing=int(differing.sum()),
        n_unexplained=int((differing & (abs(expected) > TOLERANCE)).sum()),
    )
