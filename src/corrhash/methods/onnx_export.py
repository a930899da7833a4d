"""Export of a trained model: both networks as ONNX files beside it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from corrhash.atomic_write import atomic_write
from corrhash.errors import InputError
from corrhash.methods.base import Hasher, read_description
from corrhash.methods.exported import FORMAT, ONNX_FILE, ExportedNetwork
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.methods.two_networks import Hashing, OnTrunk, Vectors


def export_onnx(folder: str | Path, method: type[Hasher] = Hasher) -> list[Path]:
    """Write the networks of the model in ``folder`` beside it; the files, images first.

    ``onnx.json`` is written last, so that it never names what is not there. ``method`` is the class
    of the model, if it is not in ``METHODS``.
    """
    folder = Path(folder)
    description = read_description(folder)
    hasher = method._method_of(folder, description["method"]).load(folder)
    if not isinstance(hasher, NetworkHasher):
        raise InputError(
            f"{type(hasher).__name__} has no networks: there is nothing to export, and it encodes "
            "without PyTorch as it is."
        )
    networks = {"image": hasher.image_network_, "text": hasher.text_network_}
    exported = {
        side: _write(folder, side, network, hasher.inputs_[side])
        for side, network in networks.items()
    }
    about = {
        "format": FORMAT,
        "arrays": description["arrays"],
        "ranked_by": hasher.ranked_by,
        **{side: asdict(network) for side, network in exported.items()},
    }
    with atomic_write(folder / ONNX_FILE) as file:
        file.write(json.dumps(about, indent=1).encode())
    files = [folder / network.file for network in exported.values()]
    for old in folder.glob("*.onnx"):
        if old not in files:
            old.unlink()
    return files


def _write(folder: Path, side: str, network: Hashing, columns: int | None) -> ExportedNetwork:
    """One network as a file, whose name carries its checksum."""
    body: Any = network.body
    preprocessing: dict[str, Any] | None = None
    shape: tuple[int, ...] = (columns or 0,)
    if side == "image" and columns is None:
        preprocessing = asdict(body.preprocessing)
        shape = (3, body.preprocessing.crop, body.preprocessing.crop)
    content = _onnx_file(_parts(network), shape)
    sha256 = hashlib.sha256(content).hexdigest()
    name = f"{side}-{sha256[:16]}.onnx"
    with atomic_write(folder / name) as file:
        file.write(content)
    return ExportedNetwork(name, sha256, columns, preprocessing)


def _parts(network: Hashing) -> list[nn.Module]:
    """What inputs go through, one after the other, when they are encoded."""
    return [*_layers(network.body), network.hash]


def _layers(body: nn.Module) -> list[nn.Module]:
    if isinstance(body, Vectors):
        return [body.standardise, body.layers]
    return [body.trunk, *_layers(body.hidden)] if isinstance(body, OnTrunk) else [body]


def _onnx_file(layers: list[nn.Module], shape: tuple[int, ...]) -> bytes:
    try:
        from corrhash.networks.onnx_graph import onnx_file
    except ImportError as error:
        raise InputError(
            "The export needs the package onnx. Install it: pip install 'corrhash[onnx]'"
        ) from error
    return onnx_file(layers, shape)
