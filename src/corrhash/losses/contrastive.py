"""The contrastive loss of MMNN: similar scores come together, others keep their distance.

In the paper's letters: D the Euclidean distance of two scores, m the margin, l the loss.
"""

from typing import Any

from torch import Tensor

from corrhash.errors import InputError
from corrhash.losses.pair_weights import as_similarity, pair_weights

SMALLEST_SQUARE = 1e-9
"""Added to squared distances under the root, whose slope at 0 would have no bound."""


def contrastive_loss(
    u: Tensor, v: Tensor, similarity: Any, margin: float, *, known: Any = None
) -> Tensor:
    """l of MMNN: half the mean D² of similar pairs and half that of max(0, m - D)² of the others.

    Each kind is averaged by itself, so that the frequent one has no more say than the rare one; a
    kind that does not occur adds nothing. Relatives: :func:`cosine_margin_loss`, which asks for
    angles.

    Parameters
    ----------
    u : (n, b) scores.
    v : (m, b) scores, of the other side or of the same one.
    similarity : (n, m) of +1 and -1, and 0 where it is unknown.
    margin : m, above 0. Codes of ±1 that differ in d bits lie 2 √d apart, so that 2 √b is the
        largest that can be reached.
    known : (n, m) of true and false, if not every pair of ±1 shall count.

    Examples
    --------
    >>> import torch
    >>> u, v = torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 0.0], [1.0, -1.0]])
    >>> contrastive_loss(u, v, [[1, -1]], margin=2.5)  # distances 1 and 2
    tensor(0.6250)
    """
    s = as_similarity(similarity, u, v)
    if not 0 < margin <= 2 * u.shape[1] ** 0.5 * (1 + 1e-9):
        raise InputError(
            f"A margin lies above 0 and at most at 2 √b, here {2 * u.shape[1] ** 0.5:.4g}: codes "
            f"are never farther apart. Got {margin:.4g}. Choose √(2 b), half of the bits."
        )
    squares = squared_distances(u, v)  # D²
    gaps = (margin - (squares + SMALLEST_SQUARE).sqrt()).clamp(min=0)  # max(0, m - D)
    weights = pair_weights(s, known=known)
    similar, dissimilar = weights * (s > 0), weights * (s < 0)
    return (_mean(squares, similar) + _mean(gaps.square(), dissimilar)) / 2


def squared_distances(u: Tensor, v: Tensor) -> Tensor:
    """(n, m) squared Euclidean distances of (n, b) and (m, b) scores."""
    squares = u.square().sum(dim=1)[:, None] + v.square().sum(dim=1) - 2 * u @ v.T
    return squares.clamp(min=0)  # rounding may leave them a little below


def _mean(terms: Tensor, weights: Tensor) -> Tensor:
    """The weighted mean; 0 where nothing weighs anything."""
    return (weights * terms).sum() / weights.sum().clamp(min=1)
