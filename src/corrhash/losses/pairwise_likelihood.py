"""The likelihood loss of DCMH: the inner product of two scores tells how likely they are similar.

In the paper's letters: F image scores, G text scores, S similarity, Θ half their inner products.
"""

from typing import Any

from torch import Tensor
from torch.nn.functional import softplus

from corrhash.losses.pair_weights import Balance, as_similarity, mean_over_pairs


def pairwise_likelihood_loss(
    u: Tensor, v: Tensor, similarity: Any, *, balanced: Balance = False, known: Any = None
) -> Tensor:
    """The mean over known pairs of ln(1 + exp Θ) - S Θ, with S of 0 and 1 and Θ = <u, v> / 2.

    This is the negative logarithm of the chance of what is known, if two items are similar with
    chance 1 / (1 + exp(-Θ)). The paper sums where this takes the mean. Relatives:
    :func:`inner_product_loss`; :func:`cosine_margin_loss`, whose parameters have the same meaning.

    Examples
    --------
    >>> import torch
    >>> pairwise_likelihood_loss(torch.zeros(1, 4), torch.ones(2, 4), [[1, -1]])  # ln 2
    tensor(0.6931)
    """
    s = as_similarity(similarity, u, v)
    theta = u @ v.T / 2
    terms = softplus(theta) - (s > 0) * theta  # softplus is ln(1 + exp Θ) that cannot overflow
    return mean_over_pairs(terms, s, balanced=balanced, known=known)
