"""Features of pictures from a network as it is: a layer of AlexNet, an encoder of Hugging Face."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from corrhash.checksum import file_sha256
from corrhash.errors import InputError
from corrhash.networks.alexnet import AlexNet
from corrhash.networks.device import as_device
from corrhash.networks.inference import outputs
from corrhash.networks.inputs import PictureInputs
from corrhash.networks.pixels import Preprocessing
from corrhash.networks.transformers import PREFIX, HubImageEncoder, hub_preprocessing, hub_sha256
from corrhash.networks.weights import find_weights, load_weights
from corrhash.progress import report

BATCH = 16
"""Pictures are computed in batches of this one size; a single one to search with fills it up."""


def open_backbone(name: str, weights: str | None, device: str) -> BackboneFeatures:
    """The features called ``alexnet-<stage>`` or ``hf:<folder or hub id>``."""
    as_device(device)  # complains now, not after the weights are there
    if name.startswith(PREFIX):
        return HubFeatures(device, name.removeprefix(PREFIX))
    return AlexNetFeatures(device, name.removeprefix("alexnet-"), str(weights))


@dataclass(frozen=True)
class BackboneFeatures(ABC):
    """(n, d) features of pictures; the network is loaded when the first picture comes."""

    device: str

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called, in names of folders."""

    @property
    @abstractmethod
    def preprocessing(self) -> Preprocessing:
        """How the network wants its pictures."""

    @property
    @abstractmethod
    def sha256(self) -> str:
        """Of the weights."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """How many features a picture has."""

    @property
    @abstractmethod
    def network(self) -> nn.Module:
        """The network, with its weights."""

    @abstractmethod
    def forward(self, pictures: Tensor) -> Tensor:
        """(n, n_features) of normalised pictures."""

    @cached_property
    def key(self) -> str:
        """The name of all that the features depend on: layer, weights and preprocessing.

        The device is not among them: it changes no more than the last digits.
        """
        parts = (self.name, self.sha256, self.preprocessing)
        return f"{self.name}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"

    def compute(self, pictures: Any, *, done: int = 0, total: int | None = None) -> np.ndarray:
        """(n, n_features) float32 of pictures, which threads decode beside the network."""
        n = len(pictures)
        device = as_device(self.device)
        self.network.eval().to(device)
        inputs = PictureInputs(pictures, self.preprocessing, keep=False)

        def progress(now: int) -> None:
            report("Image features", done + now, total or n)

        # Convolutions of GPUs would else keep ten bits only of each number.
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return outputs(
                self.forward,
                inputs,
                n,
                self.n_features,
                size=BATCH,
                device=device,
                progress=progress,
            )


@dataclass(frozen=True)
class AlexNetFeatures(BackboneFeatures):
    """What AlexNet makes of pictures at one of its stages."""

    stage: str
    weights: str

    preprocessing = AlexNet.preprocessing

    @property
    def name(self) -> str:
        return f"alexnet-{self.stage}"

    @cached_property
    def sha256(self) -> str:
        return file_sha256(find_weights(self.weights))

    @property
    def n_features(self) -> int:
        return AlexNet.stages[self.stage]

    @cached_property
    def network(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):  # a start that the weights replace
            network = AlexNet()
        loaded = load_weights(network, self.weights)
        needed = AlexNet.layers_of_stage[self.stage]
        lacking = [name for name in loaded.from_scratch if name.startswith(needed)]
        if lacking:
            raise InputError(
                f"{self.weights} lacks {lacking[0]!r}, on which {self.name} depends: features of "
                "random layers mean nothing. Use alexnet-pool5, or weights with all layers, such "
                "as alexnet-imagenet."
            )
        return network

    def forward(self, pictures: Tensor) -> Tensor:
        return self.network(pictures, stage=self.stage)


@dataclass(frozen=True)
class HubFeatures(BackboneFeatures):
    """The pooled output of an image encoder of Hugging Face."""

    source: str

    @property
    def name(self) -> str:
        return f"hf-{self.source.rstrip('/').rpartition('/')[2]}"

    @cached_property
    def preprocessing(self) -> Preprocessing:
        return hub_preprocessing(self.source)

    @cached_property
    def sha256(self) -> str:
        return hub_sha256(self.source)

    @property
    def n_features(self) -> int:
        return int(self.network.n_features)  # type: ignore[arg-type]

    @cached_property
    def network(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            return HubImageEncoder(self.source)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.network(pictures)
