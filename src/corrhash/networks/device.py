"""Choice of the device that networks compute on: a choice of each run, never part of a model."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from corrhash.errors import InputError

if TYPE_CHECKING:  # the command line selects a device before PyTorch is needed
    import torch
    from torch import nn

VARIABLE = "CORRHASH_DEVICE"

SMALL = 5_000_000
"""Networks with fewer weights are trained on one thread."""


@contextmanager
def use_device(name: str | None) -> Iterator[None]:
    """Compute on this device inside the block; None leaves the choice as it is.

    The name is stored in ``CORRHASH_DEVICE``, so worker processes and threads use it too.

    Parameters
    ----------
    name : ``cpu``, ``cuda``, ``cuda:1`` or ``mps``.

    Examples
    --------
    >>> with use_device("cpu"):
    ...     default_device()
    device(type='cpu')
    """
    if name is None:
        yield
        return
    check_device(name)
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def default_device() -> torch.device:
    """Return the device of :func:`use_device` or ``CORRHASH_DEVICE``, else the best available.

    The best is cuda, then mps, then cpu. Of several processes that ``torchrun`` starts, each gets
    the GPU with the number of its local rank.
    """
    import torch

    name = os.environ.get(VARIABLE)
    if not name:
        has_mps = torch.backends.mps.is_available()
        name = "cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu"
    check_device(name)
    _check_available(name)
    return torch.device(_own_gpu() if name == "cuda" else name)


def check_device(name: str) -> None:
    """Raise InputError unless ``name`` has the form of a device name."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?|mps", name):
        raise InputError(f"Unknown device {name!r}. Choose cpu, cuda, cuda:<number> or mps.")


def _check_available(name: str) -> None:
    import torch

    kind, _, number = name.partition(":")
    n_devices = {
        "cpu": 1,
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
    }
    if int(number or 0) >= n_devices[kind]:
        raise InputError(
            f"Device {name!r} is not available on this machine. Use --device cpu or set "
            f"{VARIABLE}=cpu."
        )


def _own_gpu() -> str:
    """Return ``cuda``, or under torchrun the GPU of this process."""
    import torch

    rank = os.environ.get("LOCAL_RANK")
    if rank is None:
        return "cuda"
    n_gpus = torch.cuda.device_count()
    if int(rank) >= n_gpus:
        raise InputError(
            f"This machine has {n_gpus} GPUs, too few for the process with local rank {rank}. "
            "Start one process per GPU, or use --device cpu."
        )
    return f"cuda:{rank}"


@contextmanager
def training_threads(networks: nn.Module) -> Iterator[None]:
    """Train small networks on one thread.

    Several threads would wait for one another longer than they compute, and the rounding errors of
    sums, and so the codes, would depend on their number.
    """
    import torch

    before = torch.get_num_threads()
    if sum(weights.numel() for weights in networks.parameters()) < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
