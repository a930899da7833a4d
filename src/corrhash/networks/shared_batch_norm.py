"""Batch normalisation over the whole batch, however many processes hold parts of it."""

from typing import Any

import torch
from torch import Tensor, distributed, nn


class SharedBatchNorm2d(nn.BatchNorm2d):
    """Normalises channels by their mean and variance over the batches of all processes.

    With one process it is PyTorch's own layer. (SyncBatchNorm of PyTorch needs a GPU.)
    """

    def forward(self, maps: Tensor) -> Tensor:
        """(n, channels, height, width), normalised; n may be 0 in some of the processes."""
        if not (self.training and distributed.is_initialized()):
            return super().forward(maps)
        count = maps.new_tensor(maps.numel() // maps.shape[1])
        distributed.all_reduce(count)
        mean = _Sum.apply(maps.sum(dim=(0, 2, 3))) / count
        centred = maps - mean[:, None, None]
        variance = _Sum.apply(centred.square().sum(dim=(0, 2, 3))) / count
        self._remember(mean.detach(), variance.detach() * count / (count - 1))
        scale = self.weight / torch.sqrt(variance + self.eps)
        return centred * scale[:, None, None] + self.bias[:, None, None]

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Running statistics, which encoding uses."""
        kept = ((self.running_mean, mean), (self.running_var, variance))
        for running, now in kept:
            assert running is not None
            running.lerp_(now, self.momentum or 0.0)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)


class _Sum(torch.autograd.Function):
    """The sum over all processes, to which each of them hands its gradient."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone()
        distributed.all_reduce(total)
        return total
