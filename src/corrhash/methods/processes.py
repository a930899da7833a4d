"""Processes: several processes that train as one, each with its share of every batch.

``torchrun`` starts them and tells each its number. All compute the loss of the whole batch from
the scores of all, so that it is the loss of one process; DistributedDataParallel brings together
what each finds for the weights.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from corrhash.errors import InputError


@dataclass(frozen=True)
class Processes:
    """Which of how many processes this one is; alone by default.

    >>> Processes().share(np.arange(3))
    array([0, 1, 2])
    >>> [Processes(rank, 2).share(np.arange(3)).tolist() for rank in (0, 1)]
    [[0, 1], [2]]
    """

    rank: int = 0
    n: int = 1

    @classmethod
    def joined(cls, device: str) -> Processes:
        """Those that torchrun started, once they have found each other."""
        n = int(os.environ.get("WORLD_SIZE", "1"))
        if n == 1:
            return cls()
        if device != "cpu":
            raise InputError(
                f"Several processes train on cpu together. Got device {device!r}. Use cpu, or one "
                "process."
            )
        if not distributed.is_initialized():
            distributed.init_process_group("gloo")
        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def first(self) -> bool:
        """Whether this process validates, keeps checkpoints and speaks."""
        return self.rank == 0

    def share(self, rows: np.ndarray) -> np.ndarray:
        """The part of a batch that this process computes."""
        return np.array_split(rows, self.n)[self.rank]

    def together(self, network: nn.Module) -> nn.Module:
        """The network, whose gradients are those of the batches of all processes."""
        if self.n == 1:
            return network
        return DistributedDataParallel(network)

    def gather(self, scores: Tensor, n_rows: int) -> Tensor:
        """(n_rows, n_bits) scores of a batch from the shares of all, in its order."""
        if self.n == 1:
            return scores
        sizes = [len(part) for part in np.array_split(np.arange(n_rows), self.n)]
        gathered: Tensor = _Gathered.apply(scores, sizes, self.rank)
        return gathered

    def agree(self, value: Any) -> Any:
        """What the first process has; the others wait for it."""
        if self.n == 1:
            return value
        box = [value]
        distributed.broadcast_object_list(box, src=0)
        return box[0]


class _Gathered(torch.autograd.Function):
    """Rows of all processes, one after the other."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int], rank: int) -> Tensor:
        ctx.sizes, ctx.rank = sizes, rank
        padded = rows.new_zeros(max(sizes), rows.shape[1])  # all must send as much
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in sizes]
        distributed.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        own = gradients[0].split(ctx.sizes)[ctx.rank]
        # Each process knows the whole loss. DistributedDataParallel takes the mean over processes
        # of gradients that are parts of a sum, hence as many times its own part.
        return own * len(ctx.sizes), None, None
