"""Which image and which text network a method trains, as values, and the networks made of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from corrhash.errors import InputError
from corrhash.networks import BACKBONES
from corrhash.networks.hash_layer import HashLayer
from corrhash.networks.item_noise import ItemNoise
from corrhash.networks.mlp import MLP
from corrhash.networks.standardise import Standardise
from corrhash.networks.weights import load_weights

HUB = "hf:"


@dataclass(frozen=True)
class Networks:
    """Which networks to train.

    Parameters
    ----------
    image : the network for pictures: a name in ``BACKBONES``, or ``hf:`` and a folder or hub id.
        Ready feature vectors go through hidden layers of their own instead.
    image_weights : a file of weights, or a name in ``WEIGHTS``; None starts from scratch.
    image_frozen : keep what the image network starts from; only its hash layer, and layers that its
        file of weights lacks, are trained.
    image_size : side in pixels of what the image network sees, in training a random part of a
        picture that is larger by the same ratio as usual; None is the network's own (224 of 256
        for AlexNet). Not for ``hf:`` encoders, which bring theirs.
    text : ``tags`` for word occurrences, or ``hf:`` and a folder or hub id for sentences.
    text_frozen : train nothing of a sentence encoder but its hash layer.
    root : take square roots of ready image features, if none is negative in training.
    noise : deviation of the noise on what hidden layers read of images in training, where 1 is the
        deviation of that itself.
    width, depth, dropout : the hidden layers for ready features, for word occurrences and for
        backbones that end with their convolutions.
    """

    image: str = "small"
    image_weights: str | None = None
    image_frozen: bool = False
    image_size: int | None = None
    text: str = "tags"
    text_frozen: bool = True
    root: bool = True
    noise: float = 0.7
    width: int = 1024
    depth: int = 1
    dropout: float = 0.5


class Hashing(nn.Module):
    """A body that turns inputs into features, and the hash layer that turns these into scores."""

    def __init__(self, body: nn.Module, n_bits: int, *, pretrained: bool, frozen: bool) -> None:
        super().__init__()
        self.body = body
        self.hash = HashLayer(body.n_features, n_bits)  # type: ignore[arg-type]
        self.pretrained = pretrained
        self.from_scratch: tuple[str, ...] = ()  # parameters of a pretrained body that are not
        self.frozen = frozen
        if frozen:
            body.requires_grad_(False)

    def train(self, mode: bool = True) -> Hashing:
        """Training mode; a body that is frozen as a whole never enters it."""
        super().train(mode)
        if self.frozen and not self.from_scratch:
            self.body.eval()
        return self

    def start_new(self, names: tuple[str, ...]) -> None:
        """These parameters of a pretrained body start from scratch, so they are always trained."""
        self.from_scratch = names
        for name in names:
            self.body.get_parameter(name).requires_grad_()

    def forward(self, inputs: Any) -> Tensor:
        """(n, n_bits) scores, in [-1, 1] where the hash layer is bounded."""
        return self.hash(self.body(inputs))


class Vectors(nn.Module):
    """Ready features: standardised, noisy in training, then through hidden layers."""

    def __init__(self, n_inputs: int, networks: Networks) -> None:
        super().__init__()
        self.standardise = Standardise(n_inputs, root=networks.root)
        self.noise = ItemNoise(networks.noise)
        self.layers = MLP(n_inputs, networks.width, networks.depth, networks.dropout)
        self.n_features = self.layers.n_features

    def forward(self, features: Tensor) -> Tensor:
        return self.layers(self.noise(self.standardise(features)))


class OnTrunk(nn.Module):
    """Pictures through a trunk, and what comes out through hidden layers as ready features go."""

    def __init__(self, trunk: Any, networks: Networks) -> None:
        super().__init__()
        self.trunk = trunk
        # No roots: their slope at zero, where most activations are, has no end.
        self.hidden = Vectors(trunk.n_features, replace(networks, root=False))
        self.preprocessing = trunk.preprocessing
        self.n_features = self.hidden.n_features

    def forward(self, pictures: Tensor) -> Tensor:
        return self.hidden(self.trunk(pictures))


def make_image_network(networks: Networks, n_inputs: int | None, n_bits: int) -> Hashing:
    """The image network; ``n_inputs`` is the length of feature vectors, None for pictures."""
    if n_inputs is not None:
        _check_no_pictures(networks)
        return Hashing(Vectors(n_inputs, networks), n_bits, pretrained=False, frozen=False)
    if networks.image.startswith(HUB):
        from corrhash.networks.transformers import HubImageEncoder

        if networks.image_size is not None:
            raise InputError(
                f"{networks.image} brings the size of its pictures with it. Got "
                f"image_size={networks.image_size}. Leave it out."
            )
        body: Any = HubImageEncoder(networks.image, frozen=networks.image_frozen)
        return Hashing(body, n_bits, pretrained=True, frozen=networks.image_frozen)
    body = BACKBONES[networks.image]()
    if getattr(body, "needs_hidden_layers", False):
        body = OnTrunk(body, networks)
    if networks.image_size is not None:
        body.preprocessing = body.preprocessing.at_size(networks.image_size)
    if networks.image_frozen and networks.image_weights is None:
        raise InputError(
            f"image_frozen keeps {networks.image} as it is, but it starts from scratch. "
            "Give image_weights (on a command line --weights), or train it."
        )
    pretrained = networks.image_weights is not None
    return Hashing(body, n_bits, pretrained=pretrained, frozen=networks.image_frozen)


def load_image_weights(network: Hashing, networks: Networks) -> str:
    """Start from pretrained weights where there are some; says what was loaded and what is new."""
    if isinstance(network.body, Vectors):
        return "hidden layers on ready features, from scratch"
    if networks.image.startswith(HUB):
        return f"{networks.image} with its own weights; the hash layer is new"
    if networks.image_weights is None:
        return f"{networks.image}, from scratch"
    if isinstance(network.body, OnTrunk):
        loaded = load_weights(network.body.trunk, networks.image_weights)
        hidden = dict(network.body.hidden.named_parameters(prefix="hidden"))
        network.start_new(tuple(hidden))
        return f"{networks.image}, {loaded}; hidden layers and the hash layer are new"
    loaded = load_weights(network.body, networks.image_weights)
    network.start_new(loaded.from_scratch)
    return f"{networks.image}, {loaded}; the hash layer is new"


def _check_no_pictures(networks: Networks) -> None:
    """Settings that speak of pictures say nothing to feature vectors."""
    plain = Networks()
    for name in ("image", "image_weights", "image_frozen", "image_size"):
        value = getattr(networks, name)
        if value != getattr(plain, name):
            raise InputError(
                f"{name}={value!r} is for a network that reads pictures, and these images are "
                "feature vectors already. Leave it out, or give pictures."
            )


def make_text_network(networks: Networks, n_inputs: int | None, n_bits: int) -> Hashing:
    """The text network; ``n_inputs`` is the number of words, None for sentences."""
    if n_inputs is not None:
        body: nn.Module = MLP(n_inputs, networks.width, networks.depth, networks.dropout)
        return Hashing(body, n_bits, pretrained=False, frozen=False)
    if not networks.text.startswith(HUB):
        raise InputError(
            "Sentences need a text encoder. Got text='tags'. Turn them into word occurrences "
            "first (load_dataset does), or set text='hf:<folder or hub id>'."
        )
    from corrhash.networks.transformers import HubTextEncoder

    body = HubTextEncoder(networks.text, frozen=networks.text_frozen)
    return Hashing(body, n_bits, pretrained=True, frozen=networks.text_frozen)


def parameters_by_origin(
    modules: list[Hashing],
) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The trainable parameters that come from pretrained bodies, and all the others."""
    old: list[nn.Parameter] = []
    new: list[nn.Parameter] = []
    for module in modules:
        named = module.body.named_parameters() if module.pretrained else ()
        of_body = {id(p) for name, p in named if name not in module.from_scratch}
        for parameter in module.parameters():
            if parameter.requires_grad:
                (old if id(parameter) in of_body else new).append(parameter)
    return old, new


def detached_state(module: nn.Module) -> dict[str, Tensor]:
    """A copy of all weights, which later steps do not change."""
    return {name: value.detach().clone().cpu() for name, value in module.state_dict().items()}
