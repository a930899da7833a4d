"""The cosine max-margin loss of CHN, which asks for angles rather than for lengths.

In the paper's letters: u image scores, v text scores, s similarity, δ margin, L the loss.
"""

from typing import Any

from torch import Tensor

from corrhash.losses.margin import shortfall
from corrhash.losses.pair_weights import Balance, as_similarity, mean_over_pairs
from corrhash.losses.unit_vectors import unit_vectors


def cosines(u: Tensor, v: Tensor) -> Tensor:
    """(n_images, n_texts) cosines of (n_images, b) and (n_texts, b) scores.

    Between codes of b bits the cosine is the Hamming distance d in other clothes, 1 - 2 d / b.
    A row of zeros has cosine 0 with everything.
    """
    return unit_vectors(u) @ unit_vectors(v).T


def cosine_margin_loss(
    u: Tensor,
    v: Tensor,
    similarity: Any,
    margin: float,
    *,
    balanced: Balance = False,
    known: Any = None,
) -> Tensor:
    """L of CHN: similar pairs shall reach cosine δ, dissimilar ones -δ; what misses is squared.

    The paper sums over the pairs of a batch, this is their mean. With a margin of 1 it is the
    squared loss (s - cos)² of the variant CHN-M. Relatives: :func:`inner_product_loss`, which
    minds lengths too.

    Parameters
    ----------
    u : (n_images, b) scores of images.
    v : (n_texts, b) scores of texts.
    similarity : (n_images, n_texts) of +1 and -1, and 0 where it is unknown.
    margin : δ, above 0 and at most 1.
    balanced : give similar and dissimilar pairs half of the say each, however rare one kind is;
        ``item`` does so for every image and every text.
    known : (n_images, n_texts) of true and false, if not every pair of ±1 shall count.

    Examples
    --------
    >>> import torch
    >>> u, v = torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0, 2.0], [1.0, -1.0]])
    >>> cosine_margin_loss(u, v, [[1, -1]], margin=0.5)  # cosines 1 and 0
    tensor(0.1250)
    """
    s = as_similarity(similarity, u, v)
    terms = shortfall(margin, s * cosines(u, v)).square()  # max(0, δ - s cos)², the terms of L
    return mean_over_pairs(terms, s, balanced=balanced, known=known)
