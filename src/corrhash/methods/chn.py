"""Correlation Hashing Network: angles that tell similar from dissimilar, scores that bear rounding.

In the paper's letters: u_i image scores, v_j text scores, s_ij similarity, b bits, δ margins,
λ the weight of the quantization loss; L, Q and O are the cosine loss, the quantization loss and
their sum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset
from corrhash.losses import (
    active_share,
    cosine_margin_loss,
    inner_product_loss,
    quantization_margin_loss,
)
from corrhash.losses.pair_weights import Balance
from corrhash.methods.batches import Batch
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.methods.setting_checks import check_count
from corrhash.methods.training import Training
from corrhash.methods.two_networks import Networks
from corrhash.methods.votes import VOTERS, choose_voters, voted_codes

PUBLISHED_NETWORKS = Networks(width=4096, root=False, noise=0.0)


class CHN(NetworkHasher):
    """Correlation Hashing Network, supervised and deep (Cao et al., BMVC 2017).

    Needs labels, or judged pairs of images and texts, which need not be aligned, or, as a weaker
    teacher, the pairing alone. Relatives: DCMH, with inner products for cosines and codes of its
    own; MMNN, with distances. Its variants CHN-M, CHN-I and CHN-Q take one part away each; CHN-B is
    CHN before its scores are rounded.

    Costs O(pairs in a batch) on top of the two networks.

    Parameters
    ----------
    n_bits : length of the codes.
    delta_cosine : margin of the cosine loss. Try: 0.3, 0.4, 0.5, 0.7, 0.9.
    delta_quantization : margin of the quantization loss; below 0.85 it asks for nothing. Try:
        0.85, 0.9, 0.95.
    lambda_ : weight of the quantization loss. Try: 0.03, 0.1, 0.3.
    within : weight of the cosine loss among images and among texts, beside that between images
        and texts; the paper has none. Only labels tell who is similar there: judged pairs,
        the pairing alone and words that act as labels do not, and with them it plays no part.
        Try: 0, 0.5, 1.
    pair_weights : give similar and dissimilar pairs half of the say each, for every ``item`` or
        (true) in a batch as a whole; without them codes collapse where similar pairs are rare.
    votes : how many training items vote on the code of a query, bit by bit: those whose scores are
        nearest to its own. 0: none, as in the paper; 20 make short codes find more. What is
        searched keeps its code.
    networks : which networks to train.
    training : how to train them.

    References
    ----------
    Yue Cao, Mingsheng Long, Jianmin Wang and Philip S. Yu. Correlation hashing network for
    efficient cross-modal retrieval. BMVC 2017.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(300)
    >>> quick = CHN(16, networks=Networks(width=32), training=Training(epochs=2))
    >>> quick.fit(pairs).encode_text(pairs.texts)
    Codes(300 codes of 16 bits)
    """

    voters_: np.ndarray

    grid: ClassVar = {"lambda_": (0.03, 0.1, 0.3), "training.learning_rate": (1e-3, 3e-3)}

    def __init__(
        self,
        n_bits: int = 64,
        *,
        delta_cosine: float = 0.4,
        delta_quantization: float = 0.9,
        lambda_: float = 0.1,
        within: float = 0.5,
        pair_weights: Balance = "item",
        votes: int = 0,
        networks: Networks = Networks(),  # noqa: B008 - a frozen value
        training: Training = Training(),  # noqa: B008 - a frozen value
    ) -> None:
        self.n_bits = n_bits
        self.delta_cosine = delta_cosine
        self.delta_quantization = delta_quantization
        self.lambda_ = lambda_
        self.within = within
        self.pair_weights = pair_weights
        self.votes = votes
        self.networks = networks
        self.training = training

    @classmethod
    def literal(
        cls,
        n_bits: int = 64,
        delta: float = 0.5,
        lambda_: float = 0.1,
        *,
        networks: Networks = PUBLISHED_NETWORKS,
        **training: Any,
    ) -> Self:
        """As published: one margin, no pair weights, no pairs within a side, 4096 units, SGD."""
        published = Training(
            optimizer="sgd",
            learning_rate=0.1,
            weight_decay=5e-4,
            batch_size=64,
            warmup=0.0,
            new_layers=10.0,
        )
        return cls(
            n_bits,
            delta_cosine=delta,
            delta_quantization=delta,
            lambda_=lambda_,
            within=0.0,
            pair_weights=False,
            networks=networks,
            training=replace(published, **training),
        )

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        check_count("votes", self.votes, least=0)
        super()._fit(pairs, validation)
        if self.votes:
            self.voters_ = choose_voters(
                self.score_image(pairs.images), self.score_text(pairs.texts)
            )

    def query_codes(self, scores: np.ndarray) -> Codes:
        if not self.votes:
            return super().query_codes(scores)
        return voted_codes(scores, self.voters_, self.votes)

    def learned(self) -> dict[str, np.ndarray]:
        learned = super().learned()
        return {**learned, VOTERS: self.voters_} if learned and self.votes else learned

    def _restore(self, arrays: dict[str, np.ndarray], description: dict[str, Any]) -> None:
        super()._restore(arrays, description)
        if self.votes:
            self.voters_ = arrays[VOTERS]

    def _loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        u, v = batch.image_scores, batch.text_scores  # (n_images, b), (n_texts, b)
        _, delta = self._margins()
        quantization = quantization_margin_loss(u, delta) + quantization_margin_loss(v, delta)  # Q
        loss = self._similarity_loss(batch) + self._quantization_weight() * quantization  # L + λ Q
        active = (active_share(u, delta) + active_share(v, delta)) / 2
        return loss, {"quantization_active": active}

    def _similarity_loss(self, batch: Batch) -> Tensor:
        """L between images and texts and, if asked for, within each of them."""
        sides = {"image": batch.image_scores, "text": batch.text_scores}
        loss = self._pair_loss(sides["image"], sides["text"], batch.similarity)
        for side, similarity in batch.within.items() if self.within else ():
            loss = loss + self.within * self._pair_loss(sides[side], sides[side], similarity)
        return loss

    def _pair_loss(self, u: Tensor, v: Tensor, similarity: Tensor) -> Tensor:
        """L: the mean of max(0, δ - s_ij cos(u_i, v_j))² over the pairs of the batch."""
        delta, _ = self._margins()
        return cosine_margin_loss(u, v, similarity, delta, balanced=self.pair_weights)

    def _margins(self) -> tuple[float, float]:
        """δ of the cosine loss and δ of the quantization loss."""
        return self.delta_cosine, self.delta_quantization

    def _quantization_weight(self) -> float:
        """λ."""
        return self.lambda_


class CHNB(CHN):
    """CHN-B: CHN whose answers are ranked by the cosine of its scores, not rounded to codes.

    Needs what CHN needs, and learns the same. Relatives: CHN, of which it shows what rounding
    costs.

    Parameters
    ----------
    As those of CHN.

    References
    ----------
    As for CHN.

    Examples
    --------
    >>> CHNB(16).ranked_by
    'cosine'
    """

    ranked_by = "cosine"


class CHNI(CHN):
    """CHN-I: inner products in place of cosines.

    Needs what CHN needs. Relatives: CHN, of which it shows what the cosine is good for.

    Parameters
    ----------
    As those of CHN; ``delta_cosine`` plays no part.

    References
    ----------
    As for CHN.

    Examples
    --------
    >>> CHNI(16).n_bits
    16
    """

    def _pair_loss(self, u: Tensor, v: Tensor, similarity: Tensor) -> Tensor:
        """The mean of (s_ij - <u_i, v_j> / b)² over the pairs of the batch."""
        return inner_product_loss(u, v, similarity, balanced=self.pair_weights)


class CHNM(CHN):
    """CHN-M: no margins; both are 1, so that every pair and every score always counts.

    Needs what CHN needs. Relatives: CHN, of which it shows what the margins are good for.

    Parameters
    ----------
    As those of CHN; the margins play no part.

    References
    ----------
    As for CHN.

    Examples
    --------
    >>> CHNM(16).n_bits
    16
    """

    def _margins(self) -> tuple[float, float]:
        return 1.0, 1.0


class CHNQ(CHN):
    """CHN-Q: no quantization loss; what is lost at binarisation is left to chance.

    Needs what CHN needs. Relatives: CHN, of which it shows what the quantization loss is good for.

    Parameters
    ----------
    As those of CHN; ``lambda_`` plays no part, it is 0.

    References
    ----------
    As for CHN.

    Examples
    --------
    >>> CHNQ(16).n_bits
    16
    """

    def _quantization_weight(self) -> float:
        return 0.0
