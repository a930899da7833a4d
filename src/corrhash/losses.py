"""Loss functions of the network methods, over the pairs of a mini-batch.

Symbols: u_i and v_j are the continuous codes of image i and text j, s_ij their similarity: +1 for
similar, -1 for dissimilar and 0 for unknown pairs, which do not count. b is the number of bits.
Losses are means over pairs or items, so that they do not depend on the batch size, unless they take
``reduction="sum"``, as the CHN paper prints them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from corrhash.errors import InputError

if TYPE_CHECKING:  # methods import this module, and they encode vectors without PyTorch
    from torch import Tensor

Balance = bool | Literal["item"]
"""Class-balanced pair weights: none, over all pairs, or over the pairs of each item."""

Reduction = Literal["mean", "sum"]
"""How the terms of a loss are combined."""

SHARE_LIMITS = (0.001, 0.999)
"""The share of similar pairs is clipped to these limits, so that no weight exceeds 500."""

SMALLEST_NORM = 1e-8
"""Rows with a smaller norm count as zero."""

SMALLEST_SQUARE = 1e-9
"""Added to squared distances, because the square root has no bounded gradient at 0."""


def cosine_margin_loss(
    u: Tensor,
    v: Tensor,
    similarity: Any,
    margin: float,
    *,
    balanced: Balance = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Cosine max-margin loss of CHN: L = mean or sum of max(0, δ - s_ij cos(u_i, v_j))².

    Similar pairs must reach a cosine of δ, dissimilar pairs -δ. With δ = 1 it is the squared loss
    (s - cos)² of the variant CHN-M.

    Parameters
    ----------
    u : (n_images, b) continuous codes of images.
    v : (n_texts, b) continuous codes of texts.
    similarity : (n_images, n_texts) of +1, -1 and 0 (unknown).
    margin : δ, in (0, 1].
    balanced : whether similar and dissimilar pairs get the same total weight; see
        :func:`pair_weights`.
    reduction : ``mean`` or ``sum`` over the known pairs.

    Examples
    --------
    >>> import torch
    >>> u, v = torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0, 2.0], [1.0, -1.0]])
    >>> cosine_margin_loss(u, v, [[1, -1]], margin=0.5)  # cosines 1 and 0
    tensor(0.1250)
    """
    s = as_similarity(similarity, u, v)
    terms = hinge(margin, s * cosines(u, v)).square()  # max(0, δ - s cos)²
    return over_pairs(terms, s, balanced=balanced, reduction=reduction)


def quantization_margin_loss(u: Tensor, margin: float, *, reduction: Reduction = "mean") -> Tensor:
    """Quantization max-margin loss of CHN, one modality: mean or sum of max(0, δ - cos(|u_i|, 1)).

    The Q of the paper adds the losses of both modalities. cos(|u|, 1) is the cosine between a
    continuous code u and its binary code sign(u). It is 0.8 on average for normally distributed
    codes, and rarely below 0.7, where the loss has no effect: see :func:`active_share`.

    Parameters
    ----------
    u : (n, b) continuous codes of one modality.
    margin : δ, in (0, 1].
    reduction : ``mean`` or ``sum`` over the items.

    Examples
    --------
    >>> import torch
    >>> quantization_margin_loss(torch.tensor([[1.0, -1.0], [1.0, 0.0]]), margin=0.9)
    tensor(0.0964)
    """
    terms = hinge(margin, sign_cosines(u))
    return terms.sum() if reduction == "sum" else terms.mean()


def active_share(u: Tensor, margin: float) -> Tensor:
    """Return the share of codes with a nonzero quantization loss; at 0 the loss has no effect."""
    return (hinge(margin, sign_cosines(u.detach())) > 0).to(u.dtype).mean()


def inner_product_loss(
    u: Tensor,
    v: Tensor,
    similarity: Any,
    *,
    balanced: Balance = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Squared inner-product loss of the variant CHN-I: mean or sum of (s_ij - <u_i, v_j> / b)².

    It depends on the norms of codes as well as on their angles. Parameters are those of
    :func:`cosine_margin_loss`.

    Examples
    --------
    >>> import torch
    >>> inner_product_loss(torch.ones(1, 4), torch.ones(1, 4) / 2, [[1]])
    tensor(0.2500)
    """
    s = as_similarity(similarity, u, v)
    terms = (s - u @ v.T / u.shape[1]).square()  # (s - <u, v> / b)²
    return over_pairs(terms, s, balanced=balanced, reduction=reduction)


def pairwise_likelihood_loss(
    u: Tensor, v: Tensor, similarity: Any, *, balanced: Balance = False
) -> Tensor:
    """Negative log-likelihood of DCMH: mean of ln(1 + exp Θ_ij) - S_ij Θ_ij.

    Θ_ij = <u_i, v_j> / 2 is the logit of the probability that i and j are similar, and S_ij = 1 for
    similar and 0 for dissimilar pairs. Parameters are those of :func:`cosine_margin_loss`.

    Examples
    --------
    >>> import torch
    >>> pairwise_likelihood_loss(torch.zeros(1, 4), torch.ones(2, 4), [[1, -1]])  # ln 2
    tensor(0.6931)
    """
    from torch.nn.functional import softplus

    s = as_similarity(similarity, u, v)
    theta = u @ v.T / 2  # Θ
    terms = softplus(theta) - (s > 0) * theta  # softplus: ln(1 + exp Θ) without overflow
    return over_pairs(terms, s, balanced=balanced)


def cosine_likelihood_loss(
    u: Tensor, v: Tensor, similarity: Any, scale: float, *, balanced: Balance = False
) -> Tensor:
    """Negative log-likelihood of CHN-plus, where κ cos(u_i, v_j) is the logit of being similar.

    Parameters
    ----------
    u : (n, b) continuous codes.
    v : (m, b) continuous codes of the other modality or of the same one.
    similarity : (n, m) in [-1, 1], 2 P(similar) - 1; 0 is unknown.
    scale : κ, above 0.
    balanced : whether similar and dissimilar pairs get the same total weight; see
        :func:`pair_weights`. A pair counts as similar by its probability.

    Examples
    --------
    >>> import torch
    >>> u, v = torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0, 2.0], [1.0, -1.0]])
    >>> cosine_likelihood_loss(u, v, [[1, -1]], scale=4.0)  # logits 4 and 0: (0.018 + 0.693) / 2
    tensor(0.3556)
    """
    from torch.nn.functional import softplus

    s = as_similarity(similarity, u, v)
    logits = scale * cosines(u, v)
    similar, dissimilar = class_weights(s, balanced=balanced)
    terms = similar * softplus(-logits) + dissimilar * softplus(logits)
    return terms.sum() / (s != 0).sum().clamp(min=1)


def counterpart_loss(u: Tensor, v: Tensor, similarity: Any, temperature: float) -> Tensor:
    """Contrastive loss of CHN-plus for pairs: how well an item identifies its counterpart.

    A softmax of cos(u_i, sign v_j) / τ over the texts j of the batch is the probability that text j
    is the counterpart of image i, and the reverse for texts. The loss is the mean cross-entropy of
    both directions.

    ``similarity`` is that of :func:`cosine_margin_loss`. The counterparts of an item are those
    similar to it. If it has several, each is right; without any, it does not count.

    Examples
    --------
    >>> import torch
    >>> u, v = torch.tensor([[1.0, 1.0], [1.0, -1.0]]), torch.tensor([[2.0, 2.0], [1.0, -1.0]])
    >>> counterpart_loss(u, v, [[1, -1], [-1, 1]], temperature=0.5)  # ln(1 + exp(-1 / τ))
    tensor(0.1269)
    """
    s, loss = as_similarity(similarity, u, v), u.new_zeros(())
    for logits, judged in ((cosines(u, with_sign(v)), s), (cosines(v, with_sign(u)), s.T)):
        known = (logits / temperature).masked_fill(judged == 0, -1e9)
        similar = known.masked_fill(judged <= 0, -1e9)
        has_similar = (judged > 0).any(dim=1)
        entropies = known.logsumexp(dim=1) - similar.logsumexp(dim=1)  # -ln of the probability
        loss = loss + (entropies * has_similar).sum() / has_similar.sum().clamp(min=1)
    return loss / 2


def contrastive_loss(u: Tensor, v: Tensor, similarity: Any, margin: float) -> Tensor:
    """Contrastive loss of MMNN: l = ½ mean D_ij² (similar) + ½ mean max(0, m - D_ij)² (dissimilar).

    D_ij is the Euclidean distance between u_i and v_j. Each kind of pair is averaged separately, so
    that both have the same weight; a kind that does not occur contributes 0.

    Parameters
    ----------
    u : (n, b) continuous codes.
    v : (m, b) continuous codes of the other modality or of the same one.
    similarity : (n, m) of +1, -1 and 0 (unknown).
    margin : m, in (0, 2 √b]. Codes of ±1 that differ in d bits have distance 2 √d.

    Examples
    --------
    >>> import torch
    >>> u, v = torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 0.0], [1.0, -1.0]])
    >>> contrastive_loss(u, v, [[1, -1]], margin=2.5)  # distances 1 and 2
    tensor(0.6250)
    """
    s = as_similarity(similarity, u, v)
    largest = 2 * u.shape[1] ** 0.5
    if not 0 < margin <= largest * (1 + 1e-9):
        raise InputError(
            f"margin must be > 0 and at most 2 √b = {largest:.4g}, the largest distance between "
            f"codes, got {margin:.4g}. Start with √(2 b), half of the bits."
        )
    squares = squared_distances(u, v)  # D²
    gaps = (margin - (squares + SMALLEST_SQUARE).sqrt()).clamp(min=0)  # max(0, m - D)
    return (mean_where(squares, s > 0) + mean_where(gaps.square(), s < 0)) / 2


def hinge(margin: float, values: Tensor) -> Tensor:
    """Return max(0, margin - values), for a margin in (0, 1].

    >>> import torch
    >>> hinge(0.5, torch.tensor([-1.0, 0.25, 0.75]))
    tensor([1.5000, 0.2500, 0.0000])
    """
    if not 0 < margin <= 1:
        raise InputError(
            f"A cosine margin must be > 0 and at most 1, got {margin}. "
            "Start with 0.5 for the cosine loss and 0.9 for the quantization loss."
        )
    return (margin - values).clamp(min=0)


def cosines(u: Tensor, v: Tensor) -> Tensor:
    """Return (n_images, n_texts) cosines between (n_images, b) and (n_texts, b) codes.

    For binary codes of b bits at Hamming distance d, the cosine is 1 - 2 d / b. A row of zeros has
    cosine 0 with every code.
    """
    return unit_vectors(u) @ unit_vectors(v).T


def sign_cosines(u: Tensor) -> Tensor:
    """Return (n,) cosines between (n, b) continuous codes and their signs, in [1/√b, 1]."""
    return unit_vectors(u).abs().sum(dim=1) / u.shape[1] ** 0.5  # <|u|, 1> / (‖u‖ ‖1‖)


def unit_vectors(rows: Tensor) -> Tensor:
    """Scale the rows of an (n, b) tensor to length 1.

    A row of zeros stays zero and gets no gradient; dividing it by a small number instead would
    multiply its gradient by 1e8.

    >>> import torch
    >>> unit_vectors(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    if rows.ndim != 2:
        raise InputError(
            f"Continuous codes must have shape (n, n_bits), got {tuple(rows.shape)}. "
            "Pass one item as a row: x[None]."
        )
    import torch

    norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)  # (n, 1)
    nonzero = norms > SMALLEST_NORM
    return torch.where(nonzero, rows, 0.0) / torch.where(nonzero, norms, 1.0)


def with_sign(u: Tensor) -> Tensor:
    """Return the signs of continuous codes, with gradients as if they were the codes."""
    return u + ((u > 0) * 2.0 - 1.0 - u).detach()


def squared_distances(u: Tensor, v: Tensor) -> Tensor:
    """Return (n, m) squared Euclidean distances between (n, b) and (m, b) codes."""
    squares = u.square().sum(dim=1)[:, None] + v.square().sum(dim=1) - 2 * u @ v.T
    return squares.clamp(min=0)  # rounding errors can make them negative


def over_pairs(
    terms: Tensor,
    similarity: Tensor,
    *,
    balanced: Balance = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the weighted mean or sum of (n_images, n_texts) terms over known pairs."""
    weights = pair_weights(similarity, balanced=balanced)
    total = (weights * terms).sum()
    return total if reduction == "sum" else total / (weights != 0).sum().clamp(min=1)


def pair_weights(similarity: Tensor, *, balanced: Balance = False) -> Tensor:
    """Return (n_images, n_texts) weights: 0 for unknown pairs, 1 or class-balanced for the others.

    If ``balanced`` is True, similar pairs get weight 0.5 / p and dissimilar pairs 0.5 / (1 - p),
    where p is the share of similar pairs among the known ones: both kinds have the same total
    weight. If it is ``"item"``, p is the share among the pairs of one item, and a pair gets the
    mean of the weights from its image and its text: an item with few similar others counts as much
    as an item with many.

    >>> import torch
    >>> similarity = torch.tensor([[1.0, -1.0, -1.0, -1.0, 0.0]])
    >>> pair_weights(similarity, balanced=True)
    tensor([[2.0000, 0.6667, 0.6667, 0.6667, 0.0000]])
    >>> pair_weights(similarity, balanced="item")  # each column has a single pair
    tensor([[1.2503, 0.5836, 0.5836, 0.5836, 0.0000]])
    """
    if balanced is False:
        return (similarity != 0).to(similarity.dtype)
    similar, dissimilar = class_weights(similarity.sign(), balanced=balanced)
    return similar + dissimilar


def class_weights(similarity: Tensor, *, balanced: Balance = False) -> tuple[Tensor, Tensor]:
    """Return the weights of pairs as similar and as dissimilar, each (n_images, n_texts).

    A similarity between -1 and +1 is 2 P(similar) - 1, and a pair has a share in both weights.
    """
    if balanced not in (True, False, "item"):
        raise InputError(f"pair_weights must be True, False or 'item', got {balanced!r}.")
    weights = (similarity != 0).to(similarity.dtype)
    similar = weights * (1 + similarity) / 2
    if not balanced:
        return similar, weights - similar
    dims: list[int | tuple[int, int]] = [1, 0] if balanced == "item" else [(0, 1)]
    shares = [_similar_share(similar, weights, dim) for dim in dims]
    of_similar = sum(0.5 / p for p in shares) / len(dims)
    of_dissimilar = sum(0.5 / (1 - p) for p in shares) / len(dims)
    return similar * of_similar, (weights - similar) * of_dissimilar


def _similar_share(similar: Tensor, weights: Tensor, dim: int | tuple[int, int]) -> Tensor:
    """Return the share p of similar among known pairs along ``dim``."""
    n_known = weights.sum(dim, keepdim=True).clamp(min=1)
    return (similar.sum(dim, keepdim=True) / n_known).clamp(*SHARE_LIMITS)


def mean_where(terms: Tensor, counted: Tensor) -> Tensor:
    """Return the mean of the terms where ``counted`` is True, or 0 if it is nowhere."""
    return (counted * terms).sum() / counted.sum().clamp(min=1)


def as_similarity(similarity: Any, u: Tensor, v: Tensor) -> Tensor:
    """Return ``similarity`` as an (n_images, n_texts) tensor like the codes u and v."""
    if u.ndim != 2 or v.ndim != 2 or u.shape[1] != v.shape[1]:
        raise InputError(
            "Continuous codes must have shapes (n_images, n_bits) and (n_texts, n_bits), got "
            f"{tuple(u.shape)} and {tuple(v.shape)}. Give both networks the same n_bits."
        )
    import torch

    similarity = torch.as_tensor(similarity, device=u.device)
    if similarity.dtype == torch.bool:
        raise InputError(
            "similarity must be -1, 0 (unknown) or +1, got booleans, whose False would count as "
            "unknown. Pass 2 * similarity - 1."
        )
    shape = (len(u), len(v))
    if similarity.shape != shape:
        raise InputError(
            f"similarity must have one row per image and one column per text, {shape}, got "
            f"{tuple(similarity.shape)}. Transpose it if texts come first."
        )
    return similarity.to(u.dtype)
