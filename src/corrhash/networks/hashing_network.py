"""The image and the text network of a method, built from their settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from corrhash.errors import InputError, ParameterError
from corrhash.networks import BACKBONES, HUB_PREFIX
from corrhash.networks.config import Networks
from corrhash.networks.inputs import ENCODE_SIZE, Inputs, padded_batches
from corrhash.networks.layers import MLP, Body, HashLayer, ItemNoise, Standardize
from corrhash.networks.weights import LoadedWeights

SCALE_SAMPLE = 1000
"""Training images from which the scale of backbone features is learned, evenly spaced."""


class HashingNetwork(nn.Module):
    """A body that maps inputs to features, and a hash layer that maps features to codes."""

    def __init__(self, body: Body, n_bits: int, *, pretrained: bool, frozen: bool) -> None:
        super().__init__()
        self.body = body
        self.hash = HashLayer(body.n_features, n_bits)
        self.pretrained = pretrained
        self.from_scratch: tuple[str, ...] = ()  # parameters that a pretrained body lacks
        self.frozen = frozen
        if frozen:
            body.requires_grad_(False)

    def train(self, mode: bool = True) -> HashingNetwork:
        """Set the training mode; a body that is frozen as a whole stays in evaluation mode."""
        super().train(mode)
        if self.frozen and not self.from_scratch:
            self.body.eval()
        return self

    def load_weights(self, source: str | Path) -> LoadedWeights:
        """Load pretrained weights into the body; parameters that the file lacks are trained."""
        loaded = self.body.load_weights(source)
        self.from_scratch = loaded.from_scratch
        for name in loaded.from_scratch:
            self.body.get_parameter(name).requires_grad_()
        return loaded

    def forward(self, inputs: Any) -> Tensor:
        """Return (n, n_bits) continuous codes, in [-1, 1] if the hash layer is bounded."""
        return self.hash(self.body(inputs))


class FeatureMLP(Body):
    """Hidden layers on features of encoders, which are standardized first, noisy in training."""

    def __init__(self, n_inputs: int, networks: Networks) -> None:
        super().__init__()
        self.standardize = Standardize(n_inputs, sqrt=networks.sqrt)
        self.noise = ItemNoise(networks.noise)
        self.layers = MLP(n_inputs, networks.width, networks.depth, networks.dropout)
        self.n_features = self.layers.n_features

    def forward(self, features: Tensor) -> Tensor:
        return self.layers(self.noise(self.standardize(features)))

    def learn_scale(self, inputs: Inputs, n: int, device: torch.device) -> None:
        self.standardize.learn(to_device(inputs.batch(np.arange(n)), device))


class BackboneWithHead(Body):
    """An image backbone, and a :class:`FeatureMLP` on the features that it returns."""

    def __init__(self, backbone: Any, networks: Networks) -> None:
        super().__init__()
        self.backbone = backbone
        # No square roots: their gradient is infinite at zero, where most activations are.
        self.head = FeatureMLP(backbone.n_features, replace(networks, sqrt=False))
        self.preprocessing = backbone.preprocessing
        self.n_features = self.head.n_features

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.backbone(images))

    def load_weights(self, source: str | Path) -> LoadedWeights:
        loaded = self.backbone.load_weights(source)
        of_backbone = [f"backbone.{name}" for name in loaded.from_scratch]
        of_head = [name for name, _ in self.head.named_parameters(prefix="head")]
        return replace(loaded, from_scratch=(*of_backbone, *of_head))

    @torch.no_grad()
    def learn_scale(self, inputs: Inputs, n: int, device: torch.device) -> None:
        rows = np.unique(np.linspace(0, n - 1, SCALE_SAMPLE).astype(np.int64))
        parts = np.array_split(rows, -(-len(rows) // ENCODE_SIZE))
        features = [self.backbone(to_device(inputs.batch(part), device)) for part in parts]
        self.head.standardize.learn(torch.cat(features))


def make_image_network(
    networks: Networks, n_inputs: int | None, n_bits: int, *, local_only: bool = False
) -> HashingNetwork:
    """Build the image network; ``n_inputs`` is the length of feature vectors, None for images.

    With ``local_only``, an encoder that is not on this machine is not downloaded.
    """
    if n_inputs is not None:
        _check_feature_settings(networks)
        body: Body = FeatureMLP(n_inputs, networks)
        return HashingNetwork(body, n_bits, pretrained=False, frozen=False)
    if networks.image.startswith(HUB_PREFIX):
        from corrhash.networks.transformers import HubImageEncoder

        if networks.image_size is not None:
            raise InputError(
                f"{networks.image} has a fixed image size, got image_size={networks.image_size}. "
                "Remove it."
            )
        body = HubImageEncoder(networks.image, frozen=networks.image_frozen, local_only=local_only)
        return HashingNetwork(body, n_bits, pretrained=True, frozen=networks.image_frozen)
    backbone = BACKBONES[networks.image]()
    if backbone.needs_head:
        backbone = BackboneWithHead(backbone, networks)
    if networks.image_size is not None:
        backbone.preprocessing = backbone.preprocessing.at_size(networks.image_size)
    if networks.image_frozen and networks.image_weights is None:
        raise ParameterError(
            "networks.image_frozen",
            f"needs pretrained weights, but the backbone {networks.image} starts from scratch. "
            "Set networks.image_weights (--weights on the command line), or do not freeze it.",
        )
    pretrained = networks.image_weights is not None
    return HashingNetwork(backbone, n_bits, pretrained=pretrained, frozen=networks.image_frozen)


def make_text_network(
    networks: Networks,
    n_inputs: int | None,
    n_bits: int,
    *,
    embedding: bool = False,
    local_only: bool = False,
) -> HashingNetwork:
    """Build the text network; ``n_inputs`` is the length of vectors, None for strings.

    ``embedding`` vectors come from a text encoder, the others count terms. With ``local_only``, an
    encoder that is not on this machine is not downloaded.
    """
    if n_inputs is not None and embedding:
        return HashingNetwork(
            FeatureMLP(n_inputs, networks), n_bits, pretrained=False, frozen=False
        )
    if n_inputs is not None:
        body: Body = MLP(n_inputs, networks.width, networks.depth, networks.dropout)
        return HashingNetwork(body, n_bits, pretrained=False, frozen=False)
    if not networks.text.startswith(HUB_PREFIX):
        raise InputError(
            "Strings need a text encoder, got text='tags'. Set text='hf:<folder or hub id>', or "
            "turn the strings into term vectors first, as load_dataset does."
        )
    from corrhash.networks.transformers import HubTextEncoder

    body = HubTextEncoder(networks.text, frozen=networks.text_frozen, local_only=local_only)
    return HashingNetwork(body, n_bits, pretrained=True, frozen=networks.text_frozen)


def _check_feature_settings(networks: Networks) -> None:
    """Raise InputError for settings of image backbones, which feature vectors do not use."""
    defaults = Networks()
    for name in ("image", "image_weights", "image_frozen", "image_size"):
        value = getattr(networks, name)
        if value != getattr(defaults, name):
            raise ParameterError(
                f"networks.{name}",
                f"applies to images, got {value!r} for feature vectors. Remove it, or pass images.",
            )


def load_image_weights(network: HashingNetwork, networks: Networks) -> str:
    """Load the pretrained weights that ``networks`` names; return a description for the log."""
    if networks.image_weights is not None:
        loaded = network.load_weights(networks.image_weights)
        return f"{networks.image}, {loaded}; the hash layer is new"
    if network.pretrained:
        return f"{networks.image} with its own weights; the hash layer is new"
    return f"{type(network.body).__name__}, from scratch"


def split_pretrained(
    networks: list[HashingNetwork],
) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the trainable parameters that are pretrained, and those that are new."""
    pretrained: list[nn.Parameter] = []
    new: list[nn.Parameter] = []
    for network in networks:
        named = network.body.named_parameters() if network.pretrained else ()
        loaded = {id(p) for name, p in named if name not in network.from_scratch}
        for parameter in network.parameters():
            if parameter.requires_grad:
                (pretrained if id(parameter) in loaded else new).append(parameter)
    return pretrained, new


def copy_state(module: nn.Module) -> dict[str, Tensor]:
    """Return a copy of all weights on the CPU, which later steps do not change."""
    return {name: value.detach().clone().cpu() for name, value in module.state_dict().items()}


def to_device(inputs: Any, device: torch.device) -> Any:
    """Return an array or tensor, or a dictionary of them, as tensors on the device."""
    if isinstance(inputs, dict):
        return {name: torch.as_tensor(value, device=device) for name, value in inputs.items()}
    return torch.as_tensor(inputs, device=device)


def outputs(
    network: Callable[..., Tensor],
    inputs: Inputs,
    n: int,
    width: int,
    *,
    size: int,
    device: torch.device,
    progress: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Compute the (n, width) outputs for rows 0 to n - 1 in batches of ``size``.

    ``progress`` is called after each batch with the number of rows done.
    """
    parts = [torch.empty(0, width, device=device)]
    with torch.inference_mode():
        for number, batch in enumerate(padded_batches(inputs, n, size), start=1):
            parts.append(network(to_device(batch, device)))
            progress(min(n, number * size))
        return torch.cat(parts)[:n].cpu().numpy()
