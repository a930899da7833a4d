"""Deep joint-semantics reconstructing hashing: code cosines regressed on feature cosines.

Symbols of the paper: S_I and S_T are the cosines among the features of the images and among those
of the texts in a batch of m pairs, β the share of the images, S~ their mixture, η the share of
second-order similarities, μ the scale of the target S, and λ1, λ2 the weights of the losses within
a modality. B_I and B_T are the unit-length rows of tanh(√(epoch + 1) z) for the outputs z of the
networks, with epochs counted from 0. The objective is

    S~ = β S_I + (1 - β) S_T,    S = μ [(1 - η) S~ + η S~ S~ / m]
    L  = mean (B_I B_Tᵀ - S)² + λ1 mean (B_I B_Iᵀ - S)² + λ2 mean (B_T B_Tᵀ - S)²
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.losses import cosines
from corrhash.methods._linear_algebra import unit_rows
from corrhash.methods._validation import check_number
from corrhash.methods.mmnn import image_vectors, text_vectors, with_pairing
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.networks.config import Networks
from corrhash.similarity import Similarity
from corrhash.training.batches import Batch
from corrhash.training.config import Training

if TYPE_CHECKING:
    from torch import Tensor


class DJSRH(NetworkHasher):
    """Deep joint-semantics reconstructing hashing, deep, without labels (Su et al., ICCV 2019).

    Learns from the pairing alone. The objective is that of the paper. The networks are those of the
    other methods of this package. Hash layers are linear; the loss applies tanh, which becomes
    steeper with every epoch. The best epoch is the one with the highest mAP of validation items for
    their own counterparts.

    Parameters
    ----------
    n_bits : code length.
    image_weight : β, in [0, 1]: share of the image features in the target similarity. Depends on
        the features. Try 0.3, 0.6, 0.9.
    second_order_weight : η, in [0, 1]: share of similarities through third items. Try 0.4.
    scale : μ. Try 1.5.
    within_modality_weight : λ1 = λ2. Try 0.1, 0.3.
    networks : architecture of the two networks.
    training : optimization settings.

    Notes
    -----
    The public code maps the cosines of both modalities, whose features are not negative, from
    [0, 1] to [-1, 1] by 2 cos - 1. Here this is done for a modality without negative features, and
    cosines of other features are taken as they are. The features are the inputs of the networks;
    raw images are compared by simple features, and strings by their terms. The paper compares
    images by AlexNet features instead, and trains on batches of 32 with SGD.

    References
    ----------
    Shupeng Su, Zhisheng Zhong and Chao Zhang. Deep joint-semantics reconstructing hashing for
    large-scale unsupervised cross-modal retrieval. ICCV 2019.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(300).without_labels()
    >>> quick = DJSRH(16, networks=Networks(width=32), training=Training(epochs=2))
    >>> quick.fit(pairs).encode_text(pairs.texts)
    Codes(300 codes of 16 bits)
    """

    needs_labels = False
    needs_alignment = True
    bounded = False

    grid: ClassVar = {
        "image_weight": (0.3, 0.6, 0.9),
        "training.learning_rate": (1e-3, 3e-3),
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        image_weight: float = 0.6,
        second_order_weight: float = 0.4,
        scale: float = 1.5,
        within_modality_weight: float = 0.1,
        networks: Networks = Networks(),  # noqa: B008 - a frozen value
        training: Training = Training(),  # noqa: B008 - a frozen value
    ) -> None:
        self.n_bits = n_bits
        self.image_weight = image_weight
        self.second_order_weight = second_order_weight
        self.scale = scale
        self.within_modality_weight = within_modality_weight
        self.networks = networks
        self.training = training

    def batch_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        steepness = (batch.epoch + 1) ** 0.5
        u, v = ((steepness * z).tanh() for z in (batch.image_codes, batch.text_codes))  # (m, b)
        s = self._target(batch.within_modality["image"], batch.within_modality["text"]).to(u.dtype)
        across = (cosines(u, v) - s).square().mean()
        within = (cosines(u, u) - s).square().mean() + (cosines(v, v) - s).square().mean()
        return across + self.within_modality_weight * within, {}

    def _target(self, s_image: Tensor, s_text: Tensor) -> Tensor:
        """Return S = μ [(1 - η) S~ + η S~ S~ / m]."""
        beta, eta = self.image_weight, self.second_order_weight
        mixed = beta * s_image + (1 - beta) * s_text  # S~, (m, m)
        return self.scale * ((1 - eta) * mixed + eta * mixed @ mixed / len(mixed))

    def within_modality_similarity(
        self, pairs: PairedDataset, across: Similarity
    ) -> dict[str, Any]:
        return {
            "image": FeatureCosines(image_vectors(pairs.images)),
            "text": FeatureCosines(text_vectors(pairs.texts)),
        }

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        for name in ("image_weight", "second_order_weight"):
            check_number(name, getattr(self, name), zero=True)
            if getattr(self, name) > 1:
                raise InputError(f"{name} must be at most 1, got {getattr(self, name)!r}.")
        check_number("scale", self.scale, zero=False)
        check_number("within_modality_weight", self.within_modality_weight, zero=True)
        super()._fit(with_pairing(pairs), None if validation is None else with_pairing(validation))


@dataclass(frozen=True, eq=False)
class FeatureCosines:
    """Cosines between items of one modality, computed for one batch at a time.

    Parameters
    ----------
    features : (n, d), dense or sparse.
    """

    features: Any

    @cached_property
    def stretched(self) -> bool:
        """Whether no feature is negative: 2 cos - 1 then has the range of other cosines."""
        return bool(self.features.min() >= 0)

    def block(self, rows: Any, columns: Any) -> np.ndarray:
        """Return the (rows, columns) similarities in [-1, 1], in float32 as some GPUs need it.

        >>> FeatureCosines(np.array([[1.0, 0.0], [3.0, 3.0]])).block([0], [0, 1]).round(3)
        array([[1.   , 0.414]], dtype=float32)
        """
        origin = np.zeros(self.features.shape[1])
        left, right = (unit_rows(self.features[part], origin) for part in (rows, columns))
        cosines = left @ right.T
        return (2 * cosines - 1 if self.stretched else cosines).astype(np.float32)
