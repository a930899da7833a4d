"""NetworkHasher: the base class of methods that train an image network and a text network."""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from corrhash.datasets.base import PairedDataset, n_rows
from corrhash.errors import InputError
from corrhash.methods.base import Hasher
from corrhash.networks.device import default_device
from corrhash.networks.hashing_network import (
    HashingNetwork,
    Networks,
    copy_state,
    load_image_weights,
    make_image_network,
    make_text_network,
    outputs,
)
from corrhash.networks.inputs import (
    ENCODE_SIZE,
    Inputs,
    check_kind,
    image_inputs,
    text_inputs,
    vector_length,
)
from corrhash.similarity import Similarity
from corrhash.training.batches import Batch, hold_out
from corrhash.training.config import Training
from corrhash.training.trainer import Trainer

log = logging.getLogger("corrhash")


class NetworkHasher(Hasher):
    """A method that trains an image network and a text network together.

    A method implements :meth:`batch_loss`. Training keeps the epoch with the highest validation
    mAP, the mean of both retrieval directions, and logs every epoch in ``history_``. A method whose
    epochs differ provides its own :class:`Trainer`.

    Attributes
    ----------
    bounded : whether the hash layers end in a tanh; otherwise they are linear.
    """

    image_features = None
    needs_alignment = False
    learns_from_pairs = True
    bounded: ClassVar[bool] = True

    networks: Networks
    training: Training

    image_network_: HashingNetwork
    text_network_: HashingNetwork
    inputs_: dict[str, int | None]
    history_: list[dict[str, Any]]

    @abstractmethod
    def batch_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Any]]:
        """Return the loss of a mini-batch, and values to log beside it.

        Values can be tensors. They are read after the epoch, so that no step waits for a GPU.
        """

    def within_modality_similarity(
        self, pairs: PairedDataset, across: Similarity
    ) -> dict[str, Similarity]:
        """Return the similarity among images (``image``) and among texts (``text``) where known.

        Labels define it. Relevance judgments and the pairing do not, and pseudo-labels, which are
        derived from the texts, would only compare the texts with themselves.
        """
        if pairs.similarity is not None or pairs.pseudo_labels:
            return {}
        return {"image": across, "text": across}

    def _trainer(self, pairs: PairedDataset, validation: PairedDataset) -> Trainer:
        """Return the trainer of the two networks."""
        return Trainer(self, pairs, validation)

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        if validation is None:
            pairs, validation = hold_out(pairs, self.training.seed)
        _check_same_supervision(pairs, validation)
        self._build({"image": vector_length(pairs.images), "text": vector_length(pairs.texts)})
        log.info("Image network: %s.", load_image_weights(self.image_network_, self.networks))
        self._trainer(pairs, validation).run()

    def _build(self, inputs: dict[str, int | None]) -> None:
        """Create networks for inputs with this many features; None for raw images and strings."""
        self.inputs_ = inputs
        with torch.random.fork_rng():
            torch.manual_seed(self.training.seed)
            self.image_network_ = make_image_network(self.networks, inputs["image"], self.n_bits)
            self.text_network_ = make_text_network(self.networks, inputs["text"], self.n_bits)
        for network in (self.image_network_, self.text_network_):
            network.hash.bounded = self.bounded

    def _embed_image(self, images: Any) -> np.ndarray:
        check_kind(images, "image", self.inputs_["image"])
        inputs = image_inputs(images, self.image_network_.body)
        return self._embed(self.image_network_, inputs, n_rows(images))

    def _embed_text(self, texts: Any) -> np.ndarray:
        check_kind(texts, "text", self.inputs_["text"])
        inputs = text_inputs(texts, self.text_network_.body)
        return self._embed(self.text_network_, inputs, n_rows(texts))

    def _embed(self, network: HashingNetwork, inputs: Inputs, n: int) -> np.ndarray:
        """Return (n, n_bits) continuous codes, computed in batches of a fixed size."""
        device = default_device()
        network.eval().to(device)
        return outputs(network, inputs, n, self.n_bits, size=ENCODE_SIZE, device=device)

    def _is_fitted(self) -> bool:
        return hasattr(self, "image_network_")  # cheaper than learned(), which copies all weights

    def learned(self) -> dict[str, np.ndarray]:
        if not self._is_fitted():
            return {}
        return {
            f"{modality}.{name}": value.numpy()
            for modality in ("image", "text")
            for name, value in copy_state(getattr(self, f"{modality}_network_")).items()
        }

    def _description(self) -> dict[str, Any]:
        return {"inputs": self.inputs_, "history": self.history_}

    def _restore(self, arrays: dict[str, np.ndarray], description: dict[str, Any]) -> None:
        self._build(description["inputs"])
        self.history_ = description["history"]
        for modality in ("image", "text"):
            state = {
                name.removeprefix(f"{modality}."): torch.from_numpy(value)
                for name, value in arrays.items()
                if name.startswith(f"{modality}.")
            }
            getattr(self, f"{modality}_network_").load_state_dict(state)

    @classmethod
    def _from_params(cls, params: dict[str, Any]) -> Self:
        nested = {"networks": Networks, "training": Training}
        made = {name: nested[name](**value) for name, value in params.items() if name in nested}
        return cls(**{**params, **made})


def _check_same_supervision(pairs: PairedDataset, validation: PairedDataset) -> None:
    """Raise an error if training and validation pairs have different kinds of supervision."""
    if (pairs.similarity is None) != (validation.similarity is None):
        raise InputError(
            "Either both or neither of the training and the validation pairs must have a "
            "similarity. Omit validation to hold out a tenth of the training pairs."
        )
    if pairs.similarity is None and validation.labels is None:
        raise InputError(
            "The training pairs have labels, but the validation pairs have none. Pass labels, or "
            "omit validation to hold out a tenth of the training pairs."
        )
