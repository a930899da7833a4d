"""Checkpoints: all that an interrupted training needs to go on as if nothing had happened."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from corrhash.atomic_write import atomic_write
from corrhash.errors import InputError

FILE = "checkpoint.json"


def fingerprint(*parts: Any) -> str:
    """A short name for parameters and data; another training does not go on from this one."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
    """Write tensors and numbers; the old checkpoint is valid until the new one is whole."""
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


def load_checkpoint(folder: Path, wanted: str) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The last checkpoint, if there is one and it is of the training named ``wanted``."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        numbers = json.loads(path.read_bytes())
        if numbers["fingerprint"] != wanted:
            raise InputError(
                f"{folder} holds a checkpoint of another training (other parameters or other "
                "data). Remove the folder to start anew, or choose another one."
            )
        return load_file(folder / numbers["tensors"]), numbers
    except (OSError, KeyError, json.JSONDecodeError, safetensors.SafetensorError) as error:
        raise InputError(
            f"The checkpoint in {folder} is damaged ({error}). Remove it to start anew."
        ) from error


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimizer (momenta, step counts) as named tensors."""
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{number}.{name}": torch.as_tensor(value)
        for number, values in state.items()
        for name, value in values.items()
        if value is not None
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what :func:`optimizer_tensors` took."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "optimizer":
            number, _, entry = rest.partition(".")
            state.setdefault(int(number), {})[entry] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
