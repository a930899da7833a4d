"""Label classifiers that teach CHN-plus: how likely two items are to share a label.

Two networks predict the labels of images and of texts. A label states whether an item has a
concept; a predicted probability also reflects how reliably such features indicate it, and codes
that are trained on it generalize better. With p and q the probabilities of the labels of two items,
the probability that they share one is 1 - Π_c (1 - p_c q_c), if labels are independent given the
features. The targets of training mix predictions with the labels themselves.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from corrhash.datasets.base import PairedDataset
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.networks.hashing_network import Networks, copy_state
from corrhash.training.batches import Batch, Rows
from corrhash.training.config import Training
from corrhash.training.trainer import TrainableHasher, Trainer

TERM_DROPOUT = 0.5
"""Share of terms that classifiers lose in training: with few terms left, none can be memorized."""

LABEL_WEIGHT = 0.2
"""Weight of the true labels in the targets; the predictions have the rest. It raises mAP@all if the
database includes the training items: by 0.006 for validation images of MS-COCO at 32 bits."""


class LabelNetworks(NetworkHasher):
    """An image network and a text network whose outputs are the logits of the labels."""

    bounded = False
    needs_alignment = True

    def __init__(self, n_bits: int, *, networks: Networks, training: Training) -> None:
        self.n_bits = n_bits
        self.networks = networks
        self.training = training

    def batch_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the cross-entropy of the labels, summed over labels and modalities."""
        assert batch.labels is not None
        image = binary_cross_entropy_with_logits(batch.image_codes, batch.labels)
        text = binary_cross_entropy_with_logits(batch.text_codes, batch.labels)
        return self.n_bits * (image + text), {}

    def _trainer(self, pairs: PairedDataset, validation: PairedDataset) -> Trainer:
        return LabelTrainer(self, pairs, validation)


class LabelTrainer(Trainer):
    """Trains label classifiers and keeps their last epoch: logits are no codes to rank by."""

    title = "Training label classifiers"

    def _validate(self) -> dict[str, Any]:
        self.best = copy_state(self.networks)
        return {}


def predict_labels(
    pairs: PairedDataset, validation: PairedDataset, networks: Networks, training: Training
) -> dict[str, Tensor]:
    """Train label classifiers; return the label probabilities of the pairs, by modality.

    Their checkpoint is kept apart from that of the hashing networks.
    """
    assert pairs.labels is not None
    checkpoint = training.checkpoint and str(Path(training.checkpoint) / "labels")
    training = replace(training, checkpoint=checkpoint, patience=None)
    networks = replace(networks, term_dropout=max(TERM_DROPOUT, networks.term_dropout))
    n_labels = pairs.labels.shape[1]
    teacher = LabelNetworks(n_labels, networks=networks, training=training)
    teacher.fit(pairs, validation=validation)
    logits = {
        "image": teacher.embed_image(pairs.images),
        "text": teacher.embed_text(pairs.texts),
    }
    return {modality: torch.from_numpy(values).sigmoid() for modality, values in logits.items()}


class SoftSimilarityTrainer(Trainer):
    """Trains on expected similarities 2 P(share a label) - 1 instead of +1 and -1.

    The probabilities of labels are mixed with the labels by ``LABEL_WEIGHT``.
    """

    def __init__(
        self,
        hasher: TrainableHasher,
        pairs: PairedDataset,
        validation: PairedDataset,
        probabilities: dict[str, Tensor],
    ) -> None:
        super().__init__(hasher, pairs, validation)
        assert pairs.labels is not None
        labels = torch.from_numpy(pairs.labels.toarray()).float()
        self.probabilities = {
            modality: torch.lerp(values, labels, LABEL_WEIGHT).to(self.device)
            for modality, values in probabilities.items()
        }

    def _similarities(self, rows: Rows) -> tuple[Tensor, dict[str, Tensor]]:
        p = self.probabilities["image"][rows.images]
        q = self.probabilities["text"][rows.texts]
        within = {"image": expected_similarity(p, p), "text": expected_similarity(q, q)}
        within = {modality: within[modality] for modality in self.within_modality}
        return expected_similarity(p, q), within


def expected_similarity(p: Tensor, q: Tensor) -> Tensor:
    """Return (n, m) of 2 P - 1, P the probability that two items share a label.

    >>> p = torch.tensor([[0.5, 1.0]])
    >>> expected_similarity(p, torch.tensor([[0.5, 0.0], [0.0, 1.0]]))
    tensor([[-0.5000,  1.0000]])
    """
    none_shared = torch.ones(len(p), len(q), device=p.device)
    for of_p, of_q in zip(p.T, q.T, strict=True):
        none_shared *= 1 - torch.outer(of_p, of_q)
    return 1 - 2 * none_shared
