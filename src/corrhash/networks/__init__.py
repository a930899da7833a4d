"""Networks from inputs to real-valued features, and the hash layer that turns these into scores."""

from corrhash.lazy_table import LazyTable

BACKBONES = LazyTable(
    "backbone",
    {
        "alexnet": "corrhash.networks.alexnet:AlexNet",
        "alexnet-pool5": "corrhash.networks.alexnet:AlexNetTrunk",
        "small": "corrhash.networks.small:SmallCNN",
    },
)
"""Names of image networks, each with its class, which is imported when it is asked for.

``BACKBONES[name]()`` builds one: a module from normalised pictures to ``n_features`` features,
whose ``preprocessing`` says how it wants its pictures. One that ``needs_hidden_layers`` gets those
that ready features get. Encoders of Hugging Face are no names but places,
``hf:<folder or hub id>``: see ``corrhash.networks.transformers``.
"""

__all__ = ["BACKBONES"]
