"""Multimodal similarity-preserving hashing: coupled siamese networks with contrastive losses.

Symbols of the paper: f and g are the image and the text network, D the distance of two outputs, m
the margin, l_XY the loss across modalities, l_X and l_Y the losses within them with weights a_x and
a_y.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import scipy.sparse as sp

from corrhash.datasets import PairedDataset, Vocabulary
from corrhash.datasets.image_features import simple_features
from corrhash.losses import contrastive_loss
from corrhash.methods._linear_algebra import column_means, neighbour_graph, unit_rows
from corrhash.methods._validation import feature_rows
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.networks.config import Networks
from corrhash.networks.inputs import vector_length
from corrhash.similarity import Similarity
from corrhash.training.batches import Batch
from corrhash.training.config import Training

if TYPE_CHECKING:
    from torch import Tensor


class MMNN(NetworkHasher):
    """Multimodal similarity-preserving hashing, supervised and deep (Masci et al., TPAMI 2014).

    Learns from labels or from the pairing alone. :class:`MMNNPairs` needs no labels.

    Parameters
    ----------
    n_bits : code length.
    margin : share of the bits in which dissimilar codes should differ, in (0, 1];
        m = 2 √(margin b). Try 0.25, 0.5.
    within_modality_weight : a_x = a_y. Try 0.1, 0.5, 1.
    networks : architecture of the two networks.
    training : optimization settings.

    References
    ----------
    Jonathan Masci, Michael M. Bronstein, Alexander M. Bronstein and Jürgen Schmidhuber. Multimodal
    similarity-preserving hashing. IEEE TPAMI 36(4), 2014.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(300)
    >>> quick = MMNN(16, networks=Networks(width=32), training=Training(epochs=2))
    >>> quick.fit(pairs).encode_text(pairs.texts)
    Codes(300 codes of 16 bits)
    """

    needs_alignment = True

    grid: ClassVar = {
        "margin": (0.25, 0.5),
        "within_modality_weight": (0.5, 1.0),
        "training.learning_rate": (1e-3, 3e-3),
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        margin: float = 0.5,
        within_modality_weight: float = 0.5,
        networks: Networks = Networks(),  # noqa: B008 - a frozen value
        training: Training = Training(),  # noqa: B008 - a frozen value
    ) -> None:
        self.n_bits = n_bits
        self.margin = margin
        self.within_modality_weight = within_modality_weight
        self.networks = networks
        self.training = training

    def batch_loss(self, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """Return (l_XY + a_x l_X + a_y l_Y) / b.

        Squared distances grow with b; dividing by it makes one learning rate fit all lengths.
        """
        f, g = batch.image_codes, batch.text_codes  # (n, b), (n, b)
        m = 2 * (self.margin * self.n_bits) ** 0.5
        loss = contrastive_loss(f, g, batch.similarity, m)  # l_XY
        for modality, similarity in batch.within_modality.items():  # + a_x l_X + a_y l_Y
            codes = f if modality == "image" else g
            others = similarity.clone().fill_diagonal_(0)  # excludes pairs of an item with itself
            within = contrastive_loss(codes, codes, others, m)
            loss = loss + self.within_modality_weight * within
        return loss / self.n_bits, {}


class MMNNPairs(MMNN):
    """MMNN without labels: paired items and nearest neighbours within a modality count as similar.

    The best epoch is the one with the highest mAP of validation items for their own counterparts.
    The neighbours take O(n² d) time, once.

    Parameters
    ----------
    n_bits, margin, within_modality_weight, networks, training : see :class:`MMNN`.
    n_neighbours : number of nearest items of the same modality, by the cosine of centred features,
        that count as similar. Raw images are compared by simple features, strings by their terms.
    """

    needs_labels = False

    def __init__(
        self,
        n_bits: int = 64,
        *,
        margin: float = 0.5,
        within_modality_weight: float = 0.5,
        n_neighbours: int = 10,
        networks: Networks = Networks(),  # noqa: B008 - a frozen value
        training: Training = Training(),  # noqa: B008 - a frozen value
    ) -> None:
        super().__init__(
            n_bits,
            margin=margin,
            within_modality_weight=within_modality_weight,
            networks=networks,
            training=training,
        )
        self.n_neighbours = n_neighbours

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        super()._fit(with_pairing(pairs), None if validation is None else with_pairing(validation))

    def within_modality_similarity(
        self, pairs: PairedDataset, across: Similarity
    ) -> dict[str, Similarity]:
        return {
            "image": neighbour_similarity(image_vectors(pairs.images), self.n_neighbours),
            "text": neighbour_similarity(text_vectors(pairs.texts), self.n_neighbours),
        }


def with_pairing(pairs: PairedDataset) -> PairedDataset:
    """Return the pairs with the pairing as their similarity."""
    return replace(pairs, similarity=Similarity.paired(len(pairs)))


def neighbour_similarity(features: Any, n_neighbours: int) -> Similarity:
    """Return the similarity in which two rows are similar if one is a neighbour of the other."""
    graph = neighbour_graph(unit_rows(features, column_means(features)), n_neighbours)
    # Written as labels: row i has label i, and column j the labels of all its neighbours.
    labels = sp.eye_array(graph.shape[0], format="csr")
    return Similarity.from_labels(labels, (graph + graph.T) > 0)


def image_vectors(images: Any) -> Any:
    """Return image features; simple ones if the images are raw."""
    if vector_length(images) is None:
        images = simple_features(images)
    return feature_rows(images, "images")


def text_vectors(texts: Any) -> Any:
    """Return term vectors, of strings too."""
    if vector_length(texts) is None:
        texts = Vocabulary.fit(texts).transform(texts)
    return feature_rows(texts, "texts")
