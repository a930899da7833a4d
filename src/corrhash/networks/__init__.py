"""Networks that map images and texts to features, and hash layers that map features to codes."""

from corrhash._registry import Registry

BACKBONES = Registry(
    "backbone",
    {
        "alexnet": "corrhash.networks.alexnet:AlexNet",
        "alexnet-pool5": "corrhash.networks.alexnet:AlexNetConvolutions",
        "small": "corrhash.networks.small_cnn:SmallCNN",
    },
)
"""Image backbones by name; each class is imported on first use.

``BACKBONES[name]()`` builds one: a :class:`~corrhash.networks.layers.Body` that maps normalized
images to ``n_features`` features. Its ``preprocessing`` describes its input. With ``needs_head`` it
gets the hidden layers that feature vectors get. Hugging Face encoders are not listed here; they are
named ``hf:<folder or hub id>``, see ``corrhash.networks.transformers``.
"""

HUB_PREFIX = "hf:"
"""Start of the name of a Hugging Face encoder."""

__all__ = ["BACKBONES", "HUB_PREFIX"]
