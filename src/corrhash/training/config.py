"""Training settings: epochs, batch size, optimizer, learning-rate schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from corrhash.errors import InputError, check_settings

if TYPE_CHECKING:  # settings are part of saved models, which encode without PyTorch
    import torch
    from torch import nn

EPOCHS = 60
MIN_STEPS = 1000
"""By default training takes this many epochs, but no fewer than this many steps."""

OPTIMIZERS = ("sgd", "adamw")
SCHEDULES = ("cosine", "linear", "step", "constant")
LEAST = {"epochs": 1, "patience": 1, "batch_size": 1, "validate_every": 1, "seed": 0} | {
    name: 0 for name in ("weight_decay", "new_layer_lr_factor", "image_cache_gb")
}
"""Least values of settings."""


@dataclass(frozen=True)
class Training:
    """Settings of a training run.

    Parameters
    ----------
    epochs : passes over the training pairs. None takes 60, or as many as 1,000 steps need if that
        is more, so that small datasets are trained long enough.
    patience : stop when this many validations in a row have not improved mAP; None trains for all
        epochs.
    batch_size : images and texts per step; the loss compares all pairs among them. None takes a
        sixteenth of the training pairs, between 64 and 256.
    learning_rate : the highest learning rate; warmup and schedule lower it.
    optimizer : ``sgd`` or ``adamw``.
    momentum : of ``sgd``; 0 turns it off.
    weight_decay : on all weights.
    warmup : share of the steps over which the learning rate rises linearly from zero. Without it
        the hash layer can saturate in the first steps.
    schedule : after the warmup, ``cosine`` or ``linear`` to zero, ``step`` (a tenth after two
        thirds of the steps) or ``constant``.
    new_layer_lr_factor : factor on the learning rate of new layers in a network with pretrained
        ones.
    validate_every : epochs between two validations; the epoch with the best mAP is kept.
    seed : of initialization, order, dropout and augmentation.
    mixed_precision : compute the networks in bfloat16 during training, which halves their memory.
        Weights, losses and codes stay float32. Faster on GPUs since 2020, slower on most CPUs.
    image_cache_gb : memory for decoded training and validation images, in GB per process. Images
        that do not fit are decoded again each time they are read. It does not change the result.
    checkpoint : folder from which an interrupted run is resumed; None writes no checkpoints.
    """

    epochs: int | None = None
    patience: int | None = None
    batch_size: int | None = None
    learning_rate: float = 1e-3
    optimizer: str = "adamw"
    momentum: float = 0.9
    weight_decay: float = 0.01
    warmup: float = 0.1
    schedule: str = "cosine"
    new_layer_lr_factor: float = 1.0
    validate_every: int = 5
    seed: int = 0
    mixed_precision: bool = False
    image_cache_gb: float = 4.0
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        check_settings(self, LEAST)
        for name in ("warmup", "momentum"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} must be in [0, 1), got {getattr(self, name)}.")
        if not self.learning_rate > 0:
            raise InputError(f"learning_rate must be above 0, got {self.learning_rate}.")
        for name, choices in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            if getattr(self, name) not in choices:
                raise InputError(
                    f"Unknown {name} {getattr(self, name)!r}. Choose {' or '.join(choices)}."
                )

    def batch_size_for(self, n: int) -> int:
        """Return the batch size for ``n`` training pairs."""
        return self.batch_size or min(max(n // 16, 64), 256)

    def epochs_for(self, n_batches: int) -> int:
        """Return the number of epochs of ``n_batches`` steps each."""
        return self.epochs or max(EPOCHS, -(-MIN_STEPS // n_batches))

    def learning_rate_at(self, step: int, n_steps: int) -> float:
        """Return the learning rate of one of ``n_steps`` steps."""
        n_warmup = self.warmup * n_steps
        if step < n_warmup:
            return self.learning_rate * (step + 1) / (n_warmup + 1)
        done = (step - n_warmup) / (n_steps - n_warmup)
        if self.schedule == "linear":
            return self.learning_rate * (1 - done)
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * done))
        if self.schedule == "step" and step >= 2 * n_steps // 3:
            return self.learning_rate * 0.1
        return self.learning_rate

    def make_optimizer(
        self, pretrained: list[nn.Parameter], new: list[nn.Parameter]
    ) -> torch.optim.Optimizer:
        """Return the optimizer, with one parameter group for pretrained and one for new layers."""
        import torch

        groups = [
            {"params": pretrained, "lr_factor": 1.0},
            {"params": new, "lr_factor": self.new_layer_lr_factor if pretrained else 1.0},
        ]
        groups = [group for group in groups if group["params"]]
        common: dict[str, Any] = {
            "lr": self.learning_rate,
            "weight_decay": self.weight_decay,
            "fused": True,
        }
        if self.optimizer == "adamw":
            return torch.optim.AdamW(groups, **common)
        return torch.optim.SGD(groups, momentum=self.momentum, **common)
