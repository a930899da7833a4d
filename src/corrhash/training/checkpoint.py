"""Checkpoints, from which an interrupted training run resumes with the same result."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from corrhash._files import atomic_write
from corrhash.errors import InputError

FILE = "checkpoint.json"


def fingerprint(*parts: Any) -> str:
    """Return a hash of parameters and data, which identifies a training run."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
    """Write tensors and numbers; the previous checkpoint stays valid until this one is written."""
    folder.mkdir(parents=True, exist_ok=True)
    content = save({name: value.contiguous() for name, value in tensors.items()})
    name = f"checkpoint-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    with atomic_write(folder / name) as file:
        file.write(content)
    with atomic_write(folder / FILE) as file:
        file.write(json.dumps({**numbers, "tensors": name}).encode())
    for old in folder.glob("checkpoint-*.safetensors"):
        if old.name != name:
            old.unlink()


def load_checkpoint(folder: Path, expected: str) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Return tensors and numbers of the last checkpoint, or None without one.

    ``expected`` is the fingerprint of the run to resume.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        numbers = json.loads(path.read_bytes())
        if numbers["fingerprint"] != expected:
            raise InputError(
                f"{folder} has a checkpoint of another training run, with other parameters or "
                "data. Remove the folder (corrhash train: --restart) to start over, or choose "
                "another folder."
            )
        return load_file(folder / numbers["tensors"]), numbers
    except (OSError, KeyError, json.JSONDecodeError, safetensors.SafetensorError) as error:
        raise InputError(
            f"The checkpoint in {folder} is damaged ({error}). Remove it to start over."
        ) from error


def optimizer_tensors(optimizer: torch.optim.Optimizer, kind: str) -> dict[str, Tensor]:
    """Return the state of an optimizer (moments, step counts) as tensors named ``kind.*``."""
    state = optimizer.state_dict()["state"]
    return {
        f"{kind}.{number}.{name}": torch.as_tensor(value)
        for number, values in state.items()
        for name, value in values.items()
        if value is not None
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, kind: str, tensors: dict[str, Tensor]
) -> None:
    """Restore the state that :func:`optimizer_tensors` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        found, _, rest = name.partition(".")
        if found == kind:
            number, _, entry = rest.partition(".")
            state.setdefault(int(number), {})[entry] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
