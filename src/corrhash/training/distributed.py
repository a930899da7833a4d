"""Data-parallel training by several processes, each with its share of every batch.

``torchrun`` starts the processes. Each computes the continuous codes of its share and gathers those
of all, so that the loss is the one of the whole batch; DistributedDataParallel averages gradients.
"""

from __future__ import annotations

import atexit
import gc
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

# Functions of this module have the process group as a default argument. Imported only after the
# group exists, as DistributedDataParallel would, they keep its threads alive to the end.
import torch.distributed.nn.functional
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from corrhash.errors import InputError

BACKENDS = {"cpu": "gloo", "cuda": "nccl"}
"""The backend of torch.distributed for each kind of device."""


@dataclass(frozen=True)
class Processes:
    """The rank of this process and the number of processes; one by default.

    >>> Processes().share(np.arange(3))
    array([0, 1, 2])
    >>> [Processes(rank, 2).share(np.arange(3)).tolist() for rank in (0, 1)]
    [[0, 1], [2]]
    """

    rank: int = 0
    world_size: int = 1

    @classmethod
    def join(cls, device: torch.device) -> Processes:
        """Join the processes that torchrun started: by nccl on GPUs, by gloo on CPUs.

        ``device`` is that of this process; :func:`corrhash.networks.device.default_device` returns
        one GPU per process.
        """
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        if device.type not in BACKENDS:
            raise InputError(
                f"Training with several processes needs cpu or cuda, got {device.type}. Use "
                "--device cpu, or one process."
            )
        if device.type == "cuda":
            torch.cuda.set_device(device)  # nccl broadcasts objects through the current GPU
        if not distributed.is_initialized():
            distributed.init_process_group(BACKENDS[device.type])
            atexit.register(_leave)
        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def is_first(self) -> bool:
        """Whether this process validates, writes checkpoints and prints."""
        return self.rank == 0

    def share(self, rows: np.ndarray) -> np.ndarray:
        """Return the part of a batch that this process computes."""
        return np.array_split(rows, self.world_size)[self.rank]

    def data_parallel(self, network: nn.Module) -> nn.Module:
        """Wrap a network so that its gradients are averaged over all processes."""
        return network if self.world_size == 1 else DistributedDataParallel(network)

    def gather(self, codes: Tensor, n_rows: int) -> Tensor:
        """Return the (n_rows, n_bits) codes of a batch from the shares of all processes."""
        if self.world_size == 1:
            return codes
        sizes = [len(part) for part in np.array_split(np.arange(n_rows), self.world_size)]
        gathered: Tensor = _Gather.apply(codes, sizes, self.rank)
        return gathered

    def broadcast(self, value: Any) -> Any:
        """Return the first process's value in every process."""
        if self.world_size == 1:
            return value
        box = [value]
        distributed.broadcast_object_list(box, src=0)
        return box[0]


def _leave() -> None:
    """End the threads of the backend, which can abort the interpreter if they outlive it."""
    gc.collect()  # networks that refer to the process group keep its threads alive
    if distributed.is_initialized():
        distributed.destroy_process_group()


class _Gather(torch.autograd.Function):
    """Concatenates the rows of all processes; gradients flow to the process's own rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int], rank: int) -> Tensor:
        ctx.sizes, ctx.rank = sizes, rank
        padded = rows.new_zeros(max(sizes), rows.shape[1])  # all_gather needs equal shapes
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in sizes]
        distributed.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        own = gradients[0].split(ctx.sizes)[ctx.rank]
        # Every process computes the whole loss, so the gradients of the processes are terms of a
        # sum. DistributedDataParallel averages them: multiply by the number of processes.
        return own * len(ctx.sizes), None, None
