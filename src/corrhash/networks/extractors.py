"""Features of pretrained networks: a layer of AlexNet, or Hugging Face encoders."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from corrhash._files import file_sha256
from corrhash._progress import report
from corrhash.errors import InputError
from corrhash.networks import HUB_PREFIX
from corrhash.networks.alexnet import AlexNet
from corrhash.networks.device import default_device
from corrhash.networks.hashing_network import outputs, to_device
from corrhash.networks.inputs import ImageInputs
from corrhash.networks.preprocessing import Preprocessing
from corrhash.networks.transformers import (
    CONFIGURATIONS,
    TOKENIZER_FILES,
    HubImageEncoder,
    HubTextEncoder,
    hub_preprocessing,
    hub_sha256,
)
from corrhash.networks.weights import find_weights

BATCH_SIZE = 16
"""One size for all batches, so that the features of an image do not depend on its batch."""


def open_backbone(name: str, weights: str | None, *, local_only: bool = False) -> BackboneFeatures:
    """Return the features called ``alexnet-<stage>`` or ``hf:<folder or hub id>``.

    With ``local_only``, nothing is downloaded.
    """
    default_device()  # fails now rather than after downloading the weights
    if name.startswith(HUB_PREFIX):
        return HubFeatures(name.removeprefix(HUB_PREFIX), local_only)
    return AlexNetFeatures(name.removeprefix("alexnet-"), str(weights), local_only)


def open_text_backbone(source: str, *, local_only: bool = False) -> HubTextFeatures:
    """Return the features of a Hugging Face text encoder."""
    default_device()
    return HubTextFeatures(source, local_only)


@dataclass(frozen=True)
class HubTextFeatures:
    """(n, n_features) features of texts, scaled to unit length, by a Hugging Face encoder."""

    source: str
    local_only: bool = False

    @property
    def name(self) -> str:
        """Name of the features, used in folder names."""
        return f"hf-{self.source.rstrip('/').rpartition('/')[2]}-text"

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the weights and the tokenizer."""
        return hub_sha256(self.source, TOKENIZER_FILES, local_only=self.local_only)

    @cached_property
    def key(self) -> str:
        """Cache key of everything that the features depend on."""
        return f"{self.name}-{self.sha256[:16]}"

    @cached_property
    def network(self) -> HubTextEncoder:
        """The encoder with its weights."""
        with torch.random.fork_rng(devices=[]):
            return HubTextEncoder(self.source, local_only=self.local_only)

    @property
    def n_features(self) -> int:
        """Number of features of a text."""
        return int(self.network.n_features)

    def compute(
        self, texts: Sequence[str], *, done: int = 0, total: int | None = None
    ) -> np.ndarray:
        """Return the (n, n_features) float32 features of texts, each encoded by itself.

        In a batch, features would depend on the padding, and with it on the other texts.
        """
        device, n = default_device(), len(texts)
        network = self.network.eval().to(device)
        features = np.empty((n, self.n_features), np.float32)
        with torch.inference_mode():
            for row, text in enumerate(texts):
                tokens = to_device(network.tokenize([text]), device)
                features[row] = normalize(network(tokens)).cpu().numpy()[0]
                if row % BATCH_SIZE == 0 or row + 1 == n:
                    report("Text features", done + row + 1, total or n)
        return features


@dataclass(frozen=True)
class BackboneFeatures(ABC):
    """(n, n_features) features of images; the network is loaded on first use."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the features, used in folder names."""

    @property
    @abstractmethod
    def preprocessing(self) -> Preprocessing:
        """Preprocessing of the network."""

    @property
    @abstractmethod
    def sha256(self) -> str:
        """SHA-256 of the weights."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of features of an image."""

    @property
    @abstractmethod
    def network(self) -> nn.Module:
        """The network with its weights."""

    @abstractmethod
    def forward(self, images: Tensor) -> Tensor:
        """Return the (n, n_features) features of normalized images."""

    @cached_property
    def key(self) -> str:
        """Cache key of everything the features depend on: layer, weights and preprocessing.

        The device is not part of it: it changes no more than the last digits.
        """
        parts = (self.name, self.sha256, self.preprocessing)
        return f"{self.name}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"

    def compute(self, images: Any, *, done: int = 0, total: int | None = None) -> np.ndarray:
        """Return the (n, n_features) float32 features of images.

        ``done`` of ``total`` images were computed before, for progress reports.
        """
        n = len(images)
        device = default_device()
        self.network.eval().to(device)
        inputs = ImageInputs(images, self.preprocessing)

        def progress(now: int) -> None:
            report("Image features", done + now, total or n)

        # TF32 convolutions on GPUs would keep only ten bits of each mantissa.
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return outputs(
                self.forward,
                inputs,
                n,
                self.n_features,
                size=BATCH_SIZE,
                device=device,
                progress=progress,
            )


@dataclass(frozen=True)
class AlexNetFeatures(BackboneFeatures):
    """The output of one of AlexNet's stages."""

    stage: str
    weights: str
    local_only: bool = False

    preprocessing = AlexNet.preprocessing

    @property
    def name(self) -> str:
        return f"alexnet-{self.stage}"

    @cached_property
    def sha256(self) -> str:
        return file_sha256(self._path)

    @property
    def _path(self) -> Path:
        return find_weights(self.weights, local_only=self.local_only)

    @property
    def n_features(self) -> int:
        return AlexNet.stages[self.stage]

    @cached_property
    def network(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):  # keep the caller's random state
            network = AlexNet()
        loaded = network.load_weights(self._path)
        needed = AlexNet.weights_of_stage[self.stage]
        lacking = [name for name in loaded.from_scratch if name.startswith(needed)]
        if lacking:
            raise InputError(
                f"{self.weights} lacks {lacking[0]!r}, which {self.name} needs. Use alexnet-pool5, "
                "or weights with all layers, such as alexnet-imagenet."
            )
        return network

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images, stage=self.stage)


@dataclass(frozen=True)
class HubFeatures(BackboneFeatures):
    """The pooled output of a Hugging Face image encoder."""

    source: str
    local_only: bool = False

    @property
    def name(self) -> str:
        return f"hf-{self.source.rstrip('/').rpartition('/')[2]}"

    @cached_property
    def preprocessing(self) -> Preprocessing:
        return hub_preprocessing(self.source, local_only=self.local_only)

    @cached_property
    def sha256(self) -> str:
        return hub_sha256(self.source, CONFIGURATIONS, local_only=self.local_only)

    @property
    def n_features(self) -> int:
        return int(self.network.n_features)  # type: ignore[arg-type]

    @cached_property
    def network(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            return HubImageEncoder(self.source, local_only=self.local_only)

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images)
