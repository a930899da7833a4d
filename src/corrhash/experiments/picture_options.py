"""PictureOptions: what a command line says of pictures, for features and for networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from corrhash.datasets import ImageFeatures
from corrhash.errors import InputError
from corrhash.experiments.settings import PLAIN_OPTIONS, add_options, setting_names


@dataclass(frozen=True)
class PictureOptions:
    """Pictures are turned into features once, or a network for them is trained along.

    Parameters
    ----------
    image_features : what pictures become; by default what the method asks for.
    backbone : the network that is trained on pictures.
    weights : of the network that computes the features, or that is trained.
    frozen : keep the weights as they are; train the hash layer, and layers that the file lacks.
    device : what computes and trains.
    """

    image_features: str | None = None
    backbone: str | None = None
    weights: str | None = None
    frozen: bool = False
    device: str | None = None

    def features(self, method: Any) -> ImageFeatures | None:
        """What pictures become for this method; None if it reads them as they are."""
        name = self.image_features or method.image_features
        return (
            None if name is None else ImageFeatures(name, self.weights, device=self.device or "cpu")
        )

    def settings(self, method: Any, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters of the method, with what these options say of its network."""
        features = self.features(method)
        options: dict[str, Any] = {"training.device": self.device}
        if features is None:
            options["networks.image"] = self.backbone
            options["networks.image_weights"] = self.weights
            options["networks.image_frozen"] = self.frozen or None
        elif self.backbone or self.frozen:
            raise InputError(
                f"{'--backbone' if self.backbone else '--frozen'} is for a network that is trained "
                f"on pictures, and here these become feature vectors first ({features.name}). "
                "Leave it out, or leave --image-features out of a method that trains networks."
            )
        known = setting_names(method())
        if features is not None and features.of_network and "training.device" not in known:
            del options["training.device"]  # only the features are computed there
        for name, value in options.items():
            if value is not None and name not in known:
                raise InputError(
                    f"{method.__name__} has no {name}. Leave {PLAIN_OPTIONS[name]} out."
                )
        return add_options(params, options)
