"""The mean over known pairs of images and texts, with similar and dissimilar ones in balance."""

from typing import Any, Literal

import torch
from torch import Tensor

from corrhash.errors import InputError

Balance = bool | Literal["item"]
"""No balance of similar and dissimilar pairs, one over all pairs, or one over each item's."""

SHARE_LIMITS = (0.001, 0.999)
"""The share of similar pairs is clipped to these, so that no weight exceeds 500."""


def as_similarity(similarity: Any, u: Tensor, v: Tensor) -> Tensor:
    """(n_images, n_texts) of -1, 0 and +1, beside scores (n_images, b) and (n_texts, b)."""
    if u.ndim != 2 or v.ndim != 2 or u.shape[1] != v.shape[1]:
        raise InputError(
            "Scores are (n_images, n_bits) and (n_texts, n_bits). "
            f"Got {tuple(u.shape)} and {tuple(v.shape)}. Give both networks the same n_bits."
        )
    similarity = torch.as_tensor(similarity, device=u.device)
    if similarity.dtype == torch.bool:
        raise InputError(
            "similarity is -1, 0 (unknown) or +1. Got true and false, which would turn dissimilar "
            "pairs into unknown ones. Write 2 * similarity - 1."
        )
    _check_shape("similarity", similarity, (len(u), len(v)))
    return similarity.to(u.dtype)


def pair_weights(similarity: Tensor, *, balanced: Balance = False, known: Any = None) -> Tensor:
    """(n_images, n_texts) weights: 0 for unknown pairs, 1 or balanced ones for the others.

    With ``balanced``, similar pairs weigh 0.5 / p and dissimilar ones 0.5 / (1 - p), where p is
    the share of similar ones among the known pairs: each kind has half of the say. With ``item``,
    p is taken among the pairs of one item, and a pair has the mean of what its two items give it:
    so an item that resembles few others has as much say as one that resembles many.

    >>> similarity = torch.tensor([[1.0, -1.0, -1.0, -1.0, 0.0]])
    >>> pair_weights(similarity, balanced=True)
    tensor([[2.0000, 0.6667, 0.6667, 0.6667, 0.0000]])
    >>> pair_weights(similarity, balanced="item")  # a column has one pair here, for 0.5
    tensor([[1.2503, 0.5836, 0.5836, 0.5836, 0.0000]])
    """
    if balanced not in (True, False, "item"):
        raise InputError(f"Pair weights are true, false or 'item'. Got {balanced!r}.")
    mask = similarity != 0
    if known is not None:
        known = torch.as_tensor(known, device=similarity.device)
        _check_shape("known", known, similarity.shape)
        mask = mask & known.bool()
    weights = mask.to(similarity.dtype)
    similar = similarity > 0
    if balanced == "item":
        images, texts = (_half_each(weights, similar, dim) for dim in (1, 0))
        return (images + texts) / 2
    return _half_each(weights, similar, (0, 1)) if balanced else weights


def _half_each(weights: Tensor, similar: Tensor, dim: int | tuple[int, int]) -> Tensor:
    """Weights after which similar and dissimilar pairs have the same say along ``dim``."""
    n_known = weights.sum(dim, keepdim=True).clamp(min=1)
    p = (weights * similar).sum(dim, keepdim=True) / n_known
    p = p.clamp(*SHARE_LIMITS)
    return weights * torch.where(similar, 0.5 / p, 0.5 / (1 - p))


def mean_over_pairs(
    terms: Tensor, similarity: Tensor, *, balanced: Balance = False, known: Any = None
) -> Tensor:
    """The weighted sum of (n_images, n_texts) terms over the number of known pairs.

    Without a known pair there is nothing to learn from, and the mean is 0.
    """
    weights = pair_weights(similarity, balanced=balanced, known=known)
    return (weights * terms).sum() / (weights != 0).sum().clamp(min=1)


def _check_shape(name: str, values: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(values.shape) != tuple(shape):
        raise InputError(
            f"{name} has a row for each image and a column for each text, {tuple(shape)}. "
            f"Got {tuple(values.shape)}. Transpose it if texts come first."
        )
