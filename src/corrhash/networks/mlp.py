"""MLP: hidden ReLU layers with dropout, the body of the networks that read vectors."""

from torch import nn

from corrhash.errors import InputError
from corrhash.networks.item_noise import ItemDropout


class MLP(nn.Sequential):
    """(n, n_inputs) vectors -> (n, n_features): ``depth`` times linear, ReLU, dropout.

    The vectors are tag occurrences, for which this is the paper's text network, or ready features
    of pictures, where it stands in AlexNet's place. The paper speaks of two layers in its
    experiments (one hidden, 4096 units, dropout 0.5, then the hash layer) and of three where it
    draws the network: ``depth=2`` is the other reading.

    Weights start as PyTorch starts them, smaller than He et al. (2015) propose: on photos
    validation MAP was .709 against .694 at 32 bits, perhaps since scores that begin near zero leave
    the hash layer more time before its tanh saturates.

    Parameters
    ----------
    n_inputs : length of the vectors.
    width : units of each hidden layer.
    depth : how many hidden layers; 0 hands the vectors on as they are.
    dropout : share of hidden units that are silenced in training.

    Examples
    --------
    >>> MLP(1280).n_features, MLP(1280, depth=0).n_features
    (4096, 1280)
    """

    def __init__(
        self, n_inputs: int, width: int = 4096, depth: int = 1, dropout: float = 0.5
    ) -> None:
        if min(n_inputs, width) < 1 or depth < 0 or not 0 <= dropout < 1:
            raise InputError(
                "Layers need at least 1 input and 1 unit, a depth of 0 or more and a dropout from "
                f"0 to below 1. Got {n_inputs} inputs, width {width}, depth {depth}, dropout "
                f"{dropout}."
            )
        layers: list[nn.Module] = []
        for n in [n_inputs, *[width] * (depth - 1)][:depth]:
            layers += [nn.Linear(n, width), nn.ReLU(inplace=True), ItemDropout(dropout)]
        super().__init__(*layers)
        self.n_features = width if depth else n_inputs
