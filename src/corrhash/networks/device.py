"""Devices: the one that computes, if this machine has it, and inputs brought to it."""

from __future__ import annotations

from typing import Any

import torch

from corrhash.errors import InputError

DEVICES = ("cpu", "cuda", "mps")


def check_device(name: str) -> None:
    """Whether there is a device of this kind on any machine; ``cuda:1`` is of the kind cuda."""
    if name.split(":")[0] not in DEVICES:
        raise InputError(f"There is no device {name!r}. Choose cpu, cuda or mps.")


def as_device(name: str) -> torch.device:
    """The device, if this machine has it."""
    check_device(name)
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(name.split(":")[0], True):
        raise InputError(f"This machine has no device {name!r}. Use cpu.")
    return torch.device(name)


def to_device(inputs: Any, device: torch.device) -> Any:
    """An array or a tensor, or a table of these, as tensors on a device."""
    if isinstance(inputs, dict):
        return {name: torch.as_tensor(value, device=device) for name, value in inputs.items()}
    return torch.as_tensor(inputs, device=device)
