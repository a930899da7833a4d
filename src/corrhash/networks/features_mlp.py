"""FeaturesMLP: an image network for pictures that are feature vectors already."""

from torch import Tensor, nn

from corrhash.networks.hidden_layers import hidden_layers


class FeaturesMLP(nn.Module):
    """(n, n_inputs) ready features -> (n, width) features that can be trained.

    It stands where AlexNet stands when features are computed once and kept: with the hash layer
    behind it, CHN on frozen features. Relatives: TagMLP, the same for tags.

    Parameters
    ----------
    n_inputs : length of the feature vectors.
    width : units of each hidden layer.
    depth : how many hidden layers; 0 hands the features on as they are.
    dropout : share of hidden units that are silenced in training.

    Examples
    --------
    >>> FeaturesMLP(1280).n_features, FeaturesMLP(1280, depth=0).n_features
    (4096, 1280)
    """

    def __init__(
        self, n_inputs: int, width: int = 4096, depth: int = 1, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.n_features = width if depth else n_inputs
        self.layers = hidden_layers(n_inputs, width, depth, dropout)

    def forward(self, features: Tensor) -> Tensor:
        """Trained features of ready ones."""
        return self.layers(features)
