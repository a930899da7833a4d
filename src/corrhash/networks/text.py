"""TagMLP: the paper's text network, from tag occurrences to features."""

from torch import Tensor, nn

from corrhash.networks.hidden_layers import hidden_layers


class TagMLP(nn.Module):
    """(n, n_words) tag occurrences -> (n, width) features through hidden ReLU layers.

    The paper speaks of two layers in its experiments (one hidden, 4096 units, dropout 0.5, then
    the hash layer) and of three where it draws the network: ``depth=2`` is the other reading.

    Parameters
    ----------
    n_words : length of the tag vectors.
    width : units of each hidden layer.
    depth : how many hidden layers; 0 hands the tags on as they are.
    dropout : share of hidden units that are silenced in training.

    Examples
    --------
    >>> network = TagMLP(1000, width=64)
    >>> network.n_features
    64
    """

    def __init__(
        self, n_words: int, width: int = 4096, depth: int = 1, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.n_features = width if depth else n_words
        self.layers = hidden_layers(n_words, width, depth, dropout)

    def forward(self, tags: Tensor) -> Tensor:
        """Features of tag vectors."""
        return self.layers(tags)
