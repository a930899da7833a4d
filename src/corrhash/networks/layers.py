"""Layers of hashing networks: bodies, hash layer, standardization, dropout, batch norm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn.functional import dropout

from corrhash.errors import InputError
from corrhash.networks.inputs import Inputs
from corrhash.networks.preprocessing import kept_units, splitmix64
from corrhash.networks.weights import LoadedWeights, load_weights


class Body(nn.Module):
    """The part of a hashing network before its hash layer: inputs -> (n, n_features) features."""

    n_features: int

    needs_head: ClassVar[bool] = False
    """Whether the features go through a :class:`FeatureMLP` before the hash layer."""

    required_weights: ClassVar[tuple[str, ...]] = ("",)
    """Prefixes of the parameters that a weights file must have; others may start from scratch."""

    ignored_weights: ClassVar[tuple[str, ...]] = ()
    """Prefixes of parameters in weights files that this network does not have."""

    def load_weights(self, source: str | Path) -> LoadedWeights:
        """Load pretrained weights."""
        return load_weights(
            self, source, required=self.required_weights, ignored=self.ignored_weights
        )

    def learn_scale(self, inputs: Inputs, n: int, device: torch.device) -> None:
        """Learn the scale of the inputs from the ``n`` training items, if the body uses it."""


class MLP(Body, nn.Sequential):
    """(n, n_inputs) vectors -> (n, n_features): ``depth`` times linear, ReLU, dropout.

    For term vectors this is the text network of the CHN paper; for image features it takes the
    place of AlexNet. The experiments of the paper use two layers (one hidden layer of 4096 units
    with dropout 0.5 and the hash layer), its figure shows three: that is ``depth=2``.

    Weights start with PyTorch's default initialization, which is smaller than that of He et al.
    (2015): validation mAP on photos was 0.709 against 0.694 at 32 bits.

    Parameters
    ----------
    n_inputs : length of the vectors.
    width : units of each hidden layer.
    depth : number of hidden layers; 0 returns the vectors unchanged.
    dropout : share of hidden units dropped in training.

    Examples
    --------
    >>> MLP(1280).n_features, MLP(1280, depth=0).n_features
    (4096, 1280)
    """

    def __init__(
        self, n_inputs: int, width: int = 4096, depth: int = 1, dropout: float = 0.5
    ) -> None:
        if min(n_inputs, width) < 1 or depth < 0 or not 0 <= dropout < 1:
            raise InputError(
                "Hidden layers need n_inputs and width of at least 1, depth of at least 0 and "
                f"dropout in [0, 1), got n_inputs={n_inputs}, width={width}, depth={depth}, "
                f"dropout={dropout}."
            )
        layers: list[nn.Module] = []
        for n in [n_inputs, *[width] * (depth - 1)][:depth]:
            layers += [nn.Linear(n, width), nn.ReLU(inplace=True), ItemDropout(dropout)]
        super().__init__(*layers)
        self.n_features = width if depth else n_inputs


class HashLayer(nn.Module):
    """(n, n_features) -> (n, n_bits) continuous codes, the paper's layer fch.

    A tanh keeps them in [-1, 1]; with ``bounded = False`` they are linear. The weights start with
    standard deviation 1/√n_features and the biases at zero, so the input of the tanh has the scale
    of the features. With much smaller or larger weights the codes of all items collapse into one.

    >>> import torch
    >>> HashLayer(4096, 16)(torch.zeros(2, 4096)).shape
    torch.Size([2, 16])
    """

    bounded = True

    def __init__(self, n_features: int, n_bits: int) -> None:
        super().__init__()
        self.fch = nn.Linear(n_features, n_bits)
        nn.init.normal_(self.fch.weight, std=n_features**-0.5)
        nn.init.zeros_(self.fch.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Return the continuous codes of features."""
        codes: Tensor = self.fch(features)
        return codes.tanh() if self.bounded else codes


class Standardize(nn.Module):
    """(n, d) features -> features minus the training mean, divided by one common deviation.

    A single deviation for all columns keeps their proportions: a column that hardly varies stays
    small. With ``sqrt``, features that are never negative in training, such as pooled activations,
    are replaced by their square roots first, so that a few large ones do not dominate. Mean and
    deviation are saved with the weights.

    >>> layer = Standardize(2)
    >>> layer.learn(torch.tensor([[0.0, 1.0], [2.0, 1.0]]))
    >>> layer(torch.tensor([[2.0, 1.0]]))
    tensor([[1.4142, 0.0000]])
    """

    mean: Tensor
    deviation: Tensor
    takes_sqrt: Tensor

    def __init__(self, n_features: int, *, sqrt: bool = False) -> None:
        super().__init__()
        self.sqrt = sqrt
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("deviation", torch.ones(()))
        self.register_buffer("takes_sqrt", torch.tensor(False))

    def learn(self, features: Tensor) -> None:
        """Learn mean and deviation from training features, or from their square roots."""
        self.takes_sqrt.fill_(self.sqrt and bool((features >= 0).all()))
        features = self._maybe_sqrt(features)
        self.mean.copy_(features.mean(dim=0))
        deviation = (features - self.mean).square().mean().sqrt()
        self.deviation.copy_(deviation.clamp(min=1e-12))

    def forward(self, features: Tensor) -> Tensor:
        """Return standardized features."""
        return (self._maybe_sqrt(features) - self.mean) / self.deviation

    def _maybe_sqrt(self, features: Tensor) -> Tensor:
        # torch.where instead of a branch, so that tracing exporters keep both cases.
        return torch.where(self.takes_sqrt, features.clamp(min=0).sqrt(), features)


# Dropout and noise depend on the key of an item, not on its batch or its process.


class _ItemKeys:
    """The keys of the items in the current batch; every layer that draws gets new ones."""

    def __init__(self, keys: np.ndarray) -> None:
        self.keys = keys

    def next(self) -> np.ndarray:
        self.keys = splitmix64(self.keys)
        return self.keys


_item_keys: ContextVar[_ItemKeys | None] = ContextVar("item_keys", default=None)


@contextmanager
def seeded_by_item(keys: np.ndarray) -> Iterator[None]:
    """Draw dropout and noise from the (n,) keys of the items in the batch inside the block.

    Outside of it, layers draw from PyTorch's global generator.
    """
    before = _item_keys.set(_ItemKeys(keys))
    try:
        yield
    finally:
        _item_keys.reset(before)


class ItemDropout(nn.Dropout):
    """Dropout drawn for each item by its key."""

    def forward(self, features: Tensor) -> Tensor:
        keys = _item_keys.get()
        if not self.training or self.p == 0:
            return features
        if keys is None:
            return dropout(features, self.p)
        kept = kept_units(keys.next(), features[0].numel() if len(features) else 0, self.p)
        mask = torch.from_numpy(kept).to(features).reshape(features.shape)
        return features * mask.mul_(1 / (1 - self.p))


class ItemNoise(nn.Module):
    """Gaussian noise added to the features of each item in training, drawn by its key."""

    def __init__(self, deviation: float) -> None:
        super().__init__()
        self.deviation = deviation

    def forward(self, features: Tensor) -> Tensor:
        keys = _item_keys.get()
        if not self.training or self.deviation == 0:
            return features
        if keys is None:
            return features + self.deviation * torch.randn_like(features)
        noise = torch.empty(features.shape)
        generator = torch.Generator()
        for row, key in zip(noise, keys.next().tolist(), strict=True):
            row.normal_(std=self.deviation, generator=generator.manual_seed(key))
        return features + noise.to(features)


class SyncBatchNorm2d(nn.BatchNorm2d):
    """Batch normalization with the mean and variance over the batches of all processes.

    With one process it is ``nn.BatchNorm2d``. Unlike ``nn.SyncBatchNorm`` it also works on CPUs.
    """

    def forward(self, maps: Tensor) -> Tensor:
        """Normalize (n, channels, height, width); n may be 0 in some of the processes."""
        if not (self.training and distributed.is_initialized()):
            return super().forward(maps)
        count = maps.new_tensor(maps.numel() // maps.shape[1])
        distributed.all_reduce(count)
        mean = _SumOverProcesses.apply(maps.sum(dim=(0, 2, 3))) / count
        centred = maps - mean[:, None, None]
        variance = _SumOverProcesses.apply(centred.square().sum(dim=(0, 2, 3))) / count
        self._update_running(mean.detach(), variance.detach() * count / (count - 1))
        scale = self.weight / torch.sqrt(variance + self.eps)
        return centred * scale[:, None, None] + self.bias[:, None, None]

    @torch.no_grad()
    def _update_running(self, mean: Tensor, variance: Tensor) -> None:
        """Update the running statistics that encoding uses."""
        for running, now in ((self.running_mean, mean), (self.running_var, variance)):
            assert running is not None
            running.lerp_(now, self.momentum or 0.0)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)


class _SumOverProcesses(torch.autograd.Function):
    """Sum over all processes; the gradient is summed over them too."""

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
