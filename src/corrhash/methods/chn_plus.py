"""CHN-plus: the correlation hashing network with label classifiers and regularization.

Symbols: u_i and v_j are the continuous codes of image i and text j, P_ij the probability that they
are similar, κ the scale of cosines, δ the margin and λ the weight of the quantization loss. The
objective is the mean over pairs of the cross-entropy between P_ij and the logit κ cos(u_i, v_j),
across modalities and within each, plus λ Q with the quantization loss Q of CHN. Without labels, on
pairs alone, it is a contrastive loss between continuous and binary codes instead, plus ν times the
same loss within each modality, where an item must identify its nearest neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset
from corrhash.losses import (
    Balance,
    active_share,
    cosine_likelihood_loss,
    counterpart_loss,
    quantization_margin_loss,
)
from corrhash.methods._linear_algebra import neighbour_sums, unit_rows
from corrhash.methods._validation import check_count, check_number, feature_rows
from corrhash.methods.chn import check_margin
from corrhash.methods.mmnn import neighbour_similarity, text_vectors
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.networks.config import Networks
from corrhash.networks.inputs import vector_length
from corrhash.similarity import Similarity
from corrhash.training.batches import Batch
from corrhash.training.config import Training

if TYPE_CHECKING:
    from torch import Tensor

    from corrhash.training.trainer import Trainer

PLUS_NETWORKS = Networks(term_dropout=0.2)

REFERENCE_CODES = "reference_codes"
"""Name of the reference codes of query refinement among the arrays of a saved model."""

MAX_REFERENCE_CODES = 20_000
"""Upper limit on the number of reference codes, images and texts together."""

N_NEIGHBOURS = 10
"""How many nearest items of the same modality count as similar on pairs without labels."""

OWN_WEIGHT = 1e-10
"""Weight of a query's own bit in query refinement; it only breaks ties."""


class CHNPlus(NetworkHasher):
    """CHN-plus: CHN with label classifiers, balanced pairs and regularized networks.

    The default method of corrhash. It is not the published method, which is
    :class:`~corrhash.methods.chn.CHN`. Learns from labels, from relevance judgments of images and
    texts, which need not be aligned, or from the pairing alone.

    Parameters
    ----------
    n_bits : code length.
    cosine_scale : κ. A cosine of ±1 stands for a logit of ±κ. Try 3, 4, 6.
    quantization_margin : δ of the quantization loss, in (0, 1]. Below 0.7 the loss is almost always
        zero. Try 0.85, 0.9, 0.95.
    quantization_weight : λ. Try 0.03, 0.1, 0.3.
    within_modality_weight : weight of the pairs among images and among texts. It takes effect only
        with labels: relevance judgments, the pairing alone and pseudo-labels do not define a
        similarity within a modality. Try 0, 0.5, 1.
    pair_weights : class-balanced weights that give similar and dissimilar pairs equal total weight:
        ``"item"`` for every image and every text, True over the batch as a whole, False for none.
        Without them, codes collapse if similar pairs are rare.
    label_teacher : whether label classifiers are trained first, and their predictions replace the
        labels in P_ij. It takes effect only with labels and feature vectors; on raw images it is
        not used.
    refine_neighbours : number of nearest training items whose codes refine the code of a query; 0
        turns query refinement off. It takes effect only with labels: without them a query asks for
        particular items, and its neighbours are others.
    temperature : τ of the contrastive loss. It takes effect only on pairs without labels. Lower
        values find the counterpart of an item better, higher values its topic. Try 0.15, 0.3, 0.5.
    neighbour_weight : ν, the weight of the nearest neighbours of an item within its modality, by
        the cosine of centred features. It takes effect only on pairs without labels; raw images
        have no neighbours. Finding them takes O(n² d) time and O(n d) memory, once. Try 0, 0.2, 1.
    networks : architecture of the two networks.
    training : optimization settings.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(300)
    >>> quick = CHNPlus(16, networks=Networks(width=32), training=Training(epochs=2))
    >>> quick.fit(pairs).encode_text(pairs.texts)
    Codes(300 codes of 16 bits)
    """

    reference_codes_: np.ndarray | None = None

    _contrastive = False

    grid: ClassVar = {
        "quantization_weight": (0.03, 0.1, 0.3),
        "training.learning_rate": (1e-3, 3e-3),
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        cosine_scale: float = 4.0,
        quantization_margin: float = 0.9,
        quantization_weight: float = 0.1,
        within_modality_weight: float = 0.5,
        pair_weights: Balance = "item",
        label_teacher: bool = True,
        refine_neighbours: int = 20,
        temperature: float = 0.15,
        neighbour_weight: float = 0.2,
        networks: Networks = PLUS_NETWORKS,
        training: Training = Training(),  # noqa: B008 - a frozen value
    ) -> None:
        self.n_bits = n_bits
        self.cosine_scale = cosine_scale
        self.quantization_margin = quantization_margin
        self.quantization_weight = quantization_weight
        self.within_modality_weight = within_modality_weight
        self.pair_weights = pair_weights
        self.label_teacher = label_teacher
        self.refine_neighbours = refine_neighbours
        self.temperature = temperature
        self.neighbour_weight = neighbour_weight
        self.networks = networks
        self.training = training

    def batch_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        codes = {
            "image": batch.image_codes,
            "text": batch.text_codes,
        }  # (n_images, b), (n_texts, b)
        if self._contrastive:
            return self._contrastive_loss(codes, batch), {}
        loss = self._pair_loss(codes["image"], codes["text"], batch.similarity)  # L
        for modality, similarity in (
            batch.within_modality.items() if self.within_modality_weight else ()
        ):
            within = self._pair_loss(codes[modality], codes[modality], similarity)
            loss = loss + self.within_modality_weight * within
        u, v, delta = *codes.values(), self.quantization_margin
        quantization = quantization_margin_loss(u, delta) + quantization_margin_loss(v, delta)  # Q
        active = (active_share(u, delta) + active_share(v, delta)) / 2
        return loss + self.quantization_weight * quantization, {"quantization_active": active}

    def _contrastive_loss(self, codes: dict[str, Tensor], batch: Batch) -> Tensor:
        """Return the contrastive loss across modalities, and ν times that of neighbours."""
        tau = self.temperature
        loss = counterpart_loss(codes["image"], codes["text"], batch.similarity, tau)
        for modality, similarity in batch.within_modality.items():
            neighbours = similarity.clone().fill_diagonal_(0)  # an item is not compared with itself
            within = counterpart_loss(codes[modality], codes[modality], neighbours, tau)
            loss = loss + self.neighbour_weight * within
        return loss

    def within_modality_similarity(
        self, pairs: PairedDataset, across: Similarity
    ) -> dict[str, Similarity]:
        if not (self._contrastive and self.neighbour_weight):
            return super().within_modality_similarity(pairs, across)
        features = {"text": text_vectors(pairs.texts)}
        if vector_length(pairs.images) is not None:
            features["image"] = feature_rows(pairs.images, "images")
        return {
            modality: neighbour_similarity(rows, N_NEIGHBOURS)
            for modality, rows in features.items()
            if rows.shape[0] > N_NEIGHBOURS
        }

    def _pair_loss(self, u: Tensor, v: Tensor, similarity: Tensor) -> Tensor:
        """Return the weighted mean cross-entropy between P_ij and the logit κ cos(u_i, v_j)."""
        return cosine_likelihood_loss(
            u, v, similarity, self.cosine_scale, balanced=self.pair_weights
        )

    def _trainer(self, pairs: PairedDataset, validation: PairedDataset) -> Trainer:
        has_features = vector_length(pairs.images) is not None
        if not (self.label_teacher and has_features and _has_labels(pairs)):
            return super()._trainer(pairs, validation)
        from corrhash.methods.label_teacher import SoftSimilarityTrainer, predict_labels

        probabilities = predict_labels(pairs, validation, self.networks, self.training)
        return SoftSimilarityTrainer(self, pairs, validation, probabilities)

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        check_count("refine_neighbours", self.refine_neighbours, least=0)
        for name in ("cosine_scale", "temperature"):
            check_number(name, getattr(self, name), zero=False)
        for name in ("quantization_weight", "within_modality_weight", "neighbour_weight"):
            check_number(name, getattr(self, name), zero=True)
        check_margin("quantization_margin", self.quantization_margin)
        self._contrastive = pairs.similarity is not None and pairs.similarity.judgments is None
        super()._fit(pairs, validation)
        self.reference_codes_ = None
        if self.refine_neighbours and _has_labels(pairs):
            self.reference_codes_ = select_reference_codes(
                self.embed_image(pairs.images), self.embed_text(pairs.texts)
            )

    def learn_references(self, images: Any, texts: Any) -> None:
        if self.reference_codes_ is not None:
            codes = self.embed_image(images), self.embed_text(texts)
            self.reference_codes_ = select_reference_codes(*codes)

    def query_codes(self, continuous: np.ndarray) -> Codes:
        if self.reference_codes_ is None:
            return super().query_codes(continuous)
        return refine_queries(continuous, self.reference_codes_, self.refine_neighbours)

    def learned(self) -> dict[str, np.ndarray]:
        learned = super().learned()
        if learned and self.reference_codes_ is not None:
            learned[REFERENCE_CODES] = self.reference_codes_
        return learned

    def _restore(self, arrays: dict[str, np.ndarray], description: dict[str, Any]) -> None:
        super()._restore(arrays, description)
        self.reference_codes_ = arrays.get(REFERENCE_CODES)


def _has_labels(pairs: PairedDataset) -> bool:
    """Return whether these pairs have labels that define which of them are similar."""
    return pairs.labels is not None and pairs.similarity is None and not pairs.pseudo_labels


def select_reference_codes(
    image_continuous: NDArray, text_continuous: NDArray
) -> NDArray[np.float32]:
    """Return (n, b) continuous codes of training items of both modalities, subsampled evenly."""
    both = np.concatenate([image_continuous, text_continuous])
    step = -(-len(both) // MAX_REFERENCE_CODES)
    return both[::step].astype(np.float32)


def refine_queries(continuous: NDArray, reference: NDArray, n_neighbours: int) -> Codes:
    """Return codes whose bits are the weighted majority of the nearest reference codes.

    Binarization turns a continuous code near 0 into a bit at random. The nearest training items, by
    the cosine of continuous codes, have more certain bits: their majority, weighted by cosine,
    replaces the bits of the query. Codes of database items are not refined.

    Parameters
    ----------
    continuous : (n, b) continuous codes of queries.
    reference : (m, b) continuous codes of training items.
    n_neighbours : how many nearest reference codes are used.

    Examples
    --------
    >>> reference = np.array([[0.9, 0.8], [0.8, 0.9], [-0.9, -0.9]])
    >>> refine_queries(np.array([[0.7, -0.1]]), reference, n_neighbours=2).signs()
    array([[1, 1]], dtype=int8)
    """
    origin = np.zeros(continuous.shape[1])
    signs = np.where(reference > 0, 1.0, -1.0)  # (m, b)
    sums = neighbour_sums(
        unit_rows(continuous, origin), unit_rows(reference, origin), signs, n_neighbours
    )
    return Codes.from_continuous(sums + OWN_WEIGHT * np.where(continuous > 0, 1, -1))
