"""Settings of the networks: backbone, text encoder, hidden layers, dropout."""

from __future__ import annotations

from dataclasses import dataclass

from corrhash.errors import InputError, check_settings


@dataclass(frozen=True)
class Networks:
    """Settings of the networks.

    Parameters
    ----------
    image : the network for images: a name in ``BACKBONES``, or ``hf:`` and a folder or hub id.
        Not used for feature vectors, which go through hidden layers of their own.
    image_weights : a weights file, or a name in ``WEIGHTS``; None starts from scratch.
    image_frozen : keep the pretrained weights of the image network; only its hash layer and the
        layers that the weights file lacks are trained.
    image_size : side in pixels of the image network's input; None is the network's own (224 for
        AlexNet). Training crops it at random from an image that is larger by the usual ratio (256
        to 224). Not for ``hf:`` encoders, which have a fixed size.
    text : ``tags`` for term vectors, or ``hf:`` and a folder or hub id for strings.
    text_frozen : train only the hash layer on top of a text encoder.
    term_dropout : share of the terms of each text that is removed in training.
    sqrt : take square roots of image feature vectors, if none is negative in training.
    noise : standard deviation of the noise added to standardized image features in training.
    width, depth, dropout : the hidden layers for image feature vectors, for term vectors and for
        backbones without fully connected layers.
    """

    image: str = "small"
    image_weights: str | None = None
    image_frozen: bool = False
    image_size: int | None = None
    text: str = "tags"
    text_frozen: bool = True
    term_dropout: float = 0.0
    sqrt: bool = True
    noise: float = 0.7
    width: int = 1024
    depth: int = 1
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_settings(self, {"image_size": 1, "noise": 0, "width": 1, "depth": 0})
        for name in ("dropout", "term_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} must be in [0, 1), got {getattr(self, name)}.")
