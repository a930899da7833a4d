"""Coupled siamese networks: distances across and within the two sides tell who is similar.

In the paper's letters: f and g image and text networks, D the distance of two of their outputs, m
margins, a_x and a_y the weights of the losses l_X and l_Y within the sides, l_XY the one across.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import scipy.sparse as sp
import torch
from torch import Tensor

from corrhash.datasets import PairedDataset, Vocabulary
from corrhash.datasets.simple_features import simple_features
from corrhash.losses import contrastive_loss
from corrhash.methods.base import feature_rows
from corrhash.methods.batches import Batch
from corrhash.methods.covariance import column_means
from corrhash.methods.neighbours import neighbour_names, unit_rows
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.methods.training import Training
from corrhash.methods.two_networks import Networks
from corrhash.networks.inputs import vector_length
from corrhash.relevance import Similarity


class MMNN(NetworkHasher):
    """Multimodal similarity-preserving hashing, supervised and deep (Masci et al., TPAMI 2014).

    Needs labels or, as a weaker teacher, the pairing alone. Relatives: ``mmnn-pairs``, the same
    without labels; CHN, with cosines for distances.

    Costs O(pairs in a batch) on top of the two networks.

    Parameters
    ----------
    n_bits : length of the codes.
    margin : share of the bits in which dissimilar codes shall differ; m = 2 √(margin b). Try:
        0.25, 0.5.
    within : weight of the two losses within the sides, a_x = a_y. Try: 0.1, 0.5, 1.
    networks : which networks to train.
    training : how to train them.

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
        "within": (0.5, 1.0),
        "training.learning_rate": (1e-3, 3e-3),
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        margin: float = 0.5,
        within: float = 0.5,
        networks: Networks = Networks(),  # noqa: B008 - a frozen value
        training: Training = Training(),  # noqa: B008 - a frozen value
    ) -> None:
        self.n_bits = n_bits
        self.margin = margin
        self.within = within
        self.networks = networks
        self.training = training

    def _loss(self, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        f, g = batch.image_scores, batch.text_scores  # (n, b), (n, b)
        m = 2 * (self.margin * self.n_bits) ** 0.5  # the distance of codes with so many bits apart
        loss = contrastive_loss(f, g, batch.similarity, m)  # l_XY
        others = ~torch.eye(len(f), dtype=torch.bool)  # nothing is compared with itself
        for side, similarity in batch.within.items():  # + a_x l_X + a_y l_Y
            scores = f if side == "image" else g
            inside = contrastive_loss(scores, scores, similarity, m, known=others)
            loss = loss + self.within * inside
        # Distances grow with the bits; over b, a learning rate serves every length.
        return loss / self.n_bits, {}


class MMNNPairs(MMNN):
    """MMNN without labels: partners are similar across the sides, near neighbours within them.

    Needs pairs alone. Its best epoch is the one in which validation items find their own partners
    best. Relatives: MMNN, with labels; CVH, which is linear.

    Costs O(n² d) once, for the neighbours, on top of MMNN.

    Parameters
    ----------
    n_bits, margin, within, networks, training : as those of MMNN.
    n_neighbours : how many nearest items of its own side, by the cosine of centred vectors, an item
        is called similar to; pictures and sentences are compared by simple features and by words.

    References
    ----------
    As for MMNN.

    Examples
    --------
    >>> MMNNPairs(16).needs_labels
    False
    """

    needs_labels = False

    def __init__(
        self,
        n_bits: int = 64,
        *,
        margin: float = 0.5,
        within: float = 0.5,
        n_neighbours: int = 10,
        networks: Networks = Networks(),  # noqa: B008 - a frozen value
        training: Training = Training(),  # noqa: B008 - a frozen value
    ) -> None:
        super().__init__(n_bits, margin=margin, within=within, networks=networks, training=training)
        self.n_neighbours = n_neighbours

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        super()._fit(_partners(pairs), None if validation is None else _partners(validation))

    def _within(self, pairs: PairedDataset, across: Similarity) -> dict[str, Similarity]:
        return {
            "image": neighbours(_image_vectors(pairs.images), self.n_neighbours),
            "text": neighbours(_text_vectors(pairs.texts), self.n_neighbours),
        }


def _partners(pairs: PairedDataset) -> PairedDataset:
    """The pairs as all that is known."""
    return replace(pairs, similarity=Similarity.partners(len(pairs)))


def neighbours(vectors: Any, n_neighbours: int) -> Similarity:
    """Row i is similar to row j if one is among the nearest of the other, and never to itself."""
    named = neighbour_names(unit_rows(vectors, column_means(vectors)), n_neighbours)
    # Who names whom, read as labels: a row carries its own name, a column those of its neighbours.
    return Similarity.from_labels(sp.eye_array(named.shape[0], format="csr"), (named + named.T) > 0)


def _image_vectors(images: Any) -> Any:
    """Features of images; pictures are described by simple ones."""
    if vector_length(images) is None:
        images = simple_features(images)
    return feature_rows(images, "images")


def _text_vectors(texts: Any) -> Any:
    """Word occurrences, of sentences too."""
    if vector_length(texts) is None:
        texts = Vocabulary.fit(texts).occurrences(texts)
    return feature_rows(texts, "texts")
