"""Training: how long, how fast and on what a network is trained; the values, not the loop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from corrhash.errors import InputError
from corrhash.networks.device import check_device

OPTIMIZERS = ("sgd", "adamw")
SCHEDULES = ("cosine", "linear", "step", "constant")


@dataclass(frozen=True)
class Training:
    """How networks are trained.

    Parameters
    ----------
    epochs : passes over the training pairs.
    batch_size : images and texts a step; all pairs among them count. None takes a sixteenth of the
        training pairs, from 64 to 256: more pairs a step while an epoch keeps enough steps.
    learning_rate : at the start; the schedule lowers it.
    optimizer : ``sgd`` or ``adamw``.
    momentum : of ``sgd``; 0 is none.
    weight_decay : on all weights.
    warmup : share of the steps over which the learning rate rises from zero. Networks that start
        at full speed drive their scores into the corners of the cube before they mean anything.
    schedule : after that, ``cosine`` or ``linear`` to zero, ``step`` (a tenth after two thirds), or
        ``constant``.
    new_layers : the learning rate of new layers is multiplied by this, where pretrained ones are
        trained beside them.
    validate_every : epochs between two looks at the validation pairs; the best epoch is kept.
    seed : of initialisation, order, dropout and augmentation.
    device : ``cpu``, ``cuda`` or ``mps``.
    mixed : networks compute in bfloat16 while they are trained, at half the memory; weights, losses
        and codes stay float32. For devices with units for it, as GPUs since 2020 have; others are
        slower with it.
    checkpoint : folder from which an interrupted run goes on; None keeps none.
    """

    epochs: int = 60
    batch_size: int | None = None
    learning_rate: float = 1e-3
    optimizer: str = "adamw"
    momentum: float = 0.9
    weight_decay: float = 0.01
    warmup: float = 0.1
    schedule: str = "cosine"
    new_layers: float = 1.0
    validate_every: int = 5
    seed: int = 0
    device: str = "cpu"
    mixed: bool = False
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "validate_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1. Got {value}.")
        if not 0 <= self.warmup < 1:
            raise InputError(f"warmup is a share from 0 to below 1. Got {self.warmup}.")
        if not self.learning_rate > 0:
            raise InputError(f"learning_rate must be above 0. Got {self.learning_rate}.")
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum lies from 0 to below 1. Got {self.momentum}.")
        for name, choices in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            if getattr(self, name) not in choices:
                raise InputError(
                    f"There is no {name} {getattr(self, name)!r}. Choose {' or '.join(choices)}."
                )
        check_device(self.device)

    def batch_size_for(self, n: int) -> int:
        """How many of ``n`` training pairs a step sees."""
        return self.batch_size or min(max(n // 16, 64), 256)

    def rate_at(self, step: int, n_steps: int) -> float:
        """The learning rate of one step of a whole training of ``n_steps``."""
        rising = self.warmup * n_steps
        if step < rising:
            return self.learning_rate * (step + 1) / (rising + 1)
        done = (step - rising) / (n_steps - rising)
        if self.schedule == "linear":
            return self.learning_rate * (1 - done)
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * done))
        if self.schedule == "step" and step >= 2 * n_steps // 3:
            return self.learning_rate * 0.1
        return self.learning_rate

    def make_optimizer(self, pretrained: list[nn.Parameter], new: list[nn.Parameter]) -> Any:
        """The optimizer, with two groups: pretrained layers at the rate, new ones above it."""
        groups = [
            {"params": pretrained, "times": 1.0},
            {"params": new, "times": self.new_layers if pretrained else 1.0},
        ]
        groups = [group for group in groups if group["params"]]
        if self.optimizer == "adamw":
            return torch.optim.AdamW(groups, lr=self.learning_rate, weight_decay=self.weight_decay)
        return torch.optim.SGD(
            groups, lr=self.learning_rate, momentum=self.momentum, weight_decay=self.weight_decay
        )
