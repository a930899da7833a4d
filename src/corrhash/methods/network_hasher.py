"""NetworkHasher: two networks, and all that the methods that train them share."""

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
from corrhash.methods.batches import Batch
from corrhash.methods.hold_out import hold_out
from corrhash.methods.trainer import Trainer
from corrhash.methods.training import Training
from corrhash.methods.two_networks import (
    Hashing,
    Networks,
    detached_state,
    load_image_weights,
    make_image_network,
    make_text_network,
)
from corrhash.networks.device import as_device
from corrhash.networks.inference import outputs
from corrhash.networks.inputs import (
    Inputs,
    check_kind,
    image_inputs,
    text_inputs,
    vector_length,
)
from corrhash.networks.padded_batches import ENCODE_SIZE
from corrhash.relevance import Similarity

log = logging.getLogger("corrhash")


class NetworkHasher(Hasher):
    """A method that trains an image network and a text network together.

    A method fills in ``_loss``. The best epoch by validation MAP, the mean of both directions, is
    kept; ``history_`` tells each epoch. A method with an epoch of its own brings its own
    :class:`Trainer`.

    Attributes
    ----------
    bounded : whether the hash layers end in a tanh; if not, scores are linear.
    """

    image_features = None
    needs_alignment = False
    learns_from_partners = True
    bounded: ClassVar[bool] = True

    networks: Networks
    training: Training

    image_network_: Hashing
    text_network_: Hashing
    inputs_: dict[str, int | None]
    history_: list[dict[str, Any]]

    @abstractmethod
    def _loss(self, batch: Batch) -> tuple[Tensor, dict[str, Any]]:
        """The loss of a mini-batch, and numbers worth watching beside it.

        Numbers may be tensors, which are read after the epoch, so that no step waits for a GPU.
        """

    def _within(self, pairs: PairedDataset, across: Similarity) -> dict[str, Similarity]:
        """Who is similar within the sides ``image`` and ``text``, for a loss that asks of it.

        Labels tell it as they do across. Judged pairs and partners tell nothing, and words that act
        as labels would compare the texts by themselves.
        """
        if pairs.similarity is not None or pairs.labels_are_words:
            return {}
        return {"image": across, "text": across}

    def _trainer(self, pairs: PairedDataset, validation: PairedDataset) -> Trainer:
        """What trains the networks."""
        return Trainer(self, pairs, validation)

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        if validation is None:
            pairs, validation = hold_out(pairs, self.training.seed)
        _check_alike(pairs, validation)
        self._build({"image": vector_length(pairs.images), "text": vector_length(pairs.texts)})
        log.info("Image network: %s.", load_image_weights(self.image_network_, self.networks))
        self._trainer(pairs, validation).run()

    def _build(self, inputs: dict[str, int | None]) -> None:
        """New networks for inputs of these lengths (None: pictures, sentences)."""
        self.inputs_ = inputs
        with torch.random.fork_rng():
            torch.manual_seed(self.training.seed)
            self.image_network_ = make_image_network(self.networks, inputs["image"], self.n_bits)
            self.text_network_ = make_text_network(self.networks, inputs["text"], self.n_bits)
        for network in (self.image_network_, self.text_network_):
            network.hash.bounded = self.bounded

    def _score_image(self, images: Any) -> np.ndarray:
        check_kind(images, "image", self.inputs_["image"])
        inputs = image_inputs(images, self.image_network_.body, keep=False)
        return self._score(self.image_network_, inputs, n_rows(images))

    def _score_text(self, texts: Any) -> np.ndarray:
        check_kind(texts, "text", self.inputs_["text"])
        inputs = text_inputs(texts, self.text_network_.body)
        return self._score(self.text_network_, inputs, n_rows(texts))

    def _score(self, network: Hashing, inputs: Inputs, n: int) -> np.ndarray:
        """(n, n_bits) scores, computed in batches of one size."""
        device = as_device(self.training.device)
        network.eval().to(device)
        return outputs(network, inputs, n, self.n_bits, size=ENCODE_SIZE, device=device)

    def _is_fitted(self) -> bool:
        return hasattr(self, "image_network_")  # learned() copies all weights

    def learned(self) -> dict[str, np.ndarray]:
        if not self._is_fitted():
            return {}
        return {
            f"{side}.{name}": value.numpy()
            for side in ("image", "text")
            for name, value in detached_state(getattr(self, f"{side}_network_")).items()
        }

    def _description(self) -> dict[str, Any]:
        return {"inputs": self.inputs_, "history": self.history_}

    def _restore(self, arrays: dict[str, np.ndarray], description: dict[str, Any]) -> None:
        self._build(description["inputs"])
        self.history_ = description["history"]
        for side in ("image", "text"):
            state = {
                name.removeprefix(f"{side}."): torch.from_numpy(value)
                for name, value in arrays.items()
                if name.startswith(f"{side}.")
            }
            getattr(self, f"{side}_network_").load_state_dict(state)

    @classmethod
    def _from_params(cls, params: dict[str, Any]) -> Self:
        nested = {"networks": Networks, "training": Training}
        made = {name: nested[name](**value) for name, value in params.items() if name in nested}
        return cls(**{**params, **made})


def _check_alike(pairs: PairedDataset, validation: PairedDataset) -> None:
    """What validation asks for must be what training teaches."""
    if (pairs.similarity is None) != (validation.similarity is None):
        raise InputError(
            "Of the training pairs and the validation pairs, one has a similarity and the other "
            "has none. Give both one, or leave validation out: a tenth is held out then."
        )
    if pairs.similarity is None and validation.labels is None:
        raise InputError(
            "The training pairs have labels, and the validation pairs have none. Give them "
            "labels, or leave validation out: a tenth is held out then."
        )
