"""The squared inner-product loss of the variant CHN-I, which minds lengths as well as angles.

In the paper's letters: u image scores, v text scores, s similarity, K = b bits.
"""

from typing import Any

from torch import Tensor

from corrhash.losses.pair_weights import Balance, as_similarity, mean_over_pairs


def inner_product_loss(
    u: Tensor, v: Tensor, similarity: Any, *, balanced: Balance = False, known: Any = None
) -> Tensor:
    """The mean over known pairs of (s - <u, v> / b)², which takes the place of L in CHN-I.

    Relatives: :func:`cosine_margin_loss`, whose parameters have the same meaning.

    Examples
    --------
    >>> import torch
    >>> inner_product_loss(torch.ones(1, 4), torch.ones(1, 4) / 2, [[1]])
    tensor(0.2500)
    """
    s = as_similarity(similarity, u, v)
    terms = (s - u @ v.T / u.shape[1]).square()  # (s - <u, v> / b)²
    return mean_over_pairs(terms, s, balanced=balanced, known=known)
