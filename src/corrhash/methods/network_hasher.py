"""NetworkHasher: the base class of methods that train an image network and a text network.

PyTorch trains the networks and runs those that read pixels or strings. Networks on vectors are
computed in NumPy, so that encoding does not import PyTorch.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from corrhash._model_files import check_keys
from corrhash.datasets.base import PairedDataset, n_rows
from corrhash.errors import InputError, optional_packages
from corrhash.methods.base import Hasher
from corrhash.networks.config import Networks
from corrhash.networks.inputs import (
    ENCODE_SIZE,
    Inputs,
    check_kind,
    image_inputs,
    is_embedding,
    text_inputs,
    vector_length,
)
from corrhash.networks.vector_network import VectorNetwork
from corrhash.similarity import Similarity
from corrhash.training.batches import Batch, hold_out
from corrhash.training.config import Training

if TYPE_CHECKING:  # PyTorch is imported to train, and to run networks on pixels and strings
    from torch import Tensor
    from torch.nn import Parameter
    from torch.optim import Optimizer

    from corrhash.methods.onnx_network import ExportedNetworks
    from corrhash.networks.hashing_network import HashingNetwork
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

    arrays_: dict[str, np.ndarray]
    inputs_: dict[str, int | None]
    history_: list[dict[str, Any]]

    _exported: ExportedNetworks | None = None
    _text_embedding = False

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

    def initial_memory(self, pairs: PairedDataset) -> dict[str, Tensor]:
        """Return tensors that training keeps besides the networks; most methods have none.

        :meth:`batch_loss` finds them in ``batch.memory`` and can update them in place. Parameters
        among them are trained by :meth:`memory_optimizer`. Checkpoints contain all of them.
        """
        return {}

    def memory_optimizer(self, parameters: list[Parameter]) -> Optimizer:
        """Return the optimizer of the parameters in the memory, whose learning rate is fixed."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement memory_optimizer, because its initial_memory "
            "returns a parameter."
        )

    def learn_references(self, images: Any, texts: Any) -> None:
        """Learn from items what query codes depend on besides the networks; nothing by default."""

    def _trainer(self, pairs: PairedDataset, validation: PairedDataset) -> Trainer:
        """Return the trainer of the two networks."""
        from corrhash.training.trainer import Trainer

        return Trainer(self, pairs, validation)

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        with optional_packages(f"Training {type(self).__name__}"):
            from corrhash.networks.hashing_network import load_image_weights

        if validation is None:
            pairs, validation = hold_out(pairs, self.training.seed)
        _check_same_supervision(pairs, validation)
        self._text_embedding = is_embedding(pairs.texts)
        self._build({"image": vector_length(pairs.images), "text": vector_length(pairs.texts)})
        self._exported = None
        log.info("Image network: %s.", load_image_weights(self.image_network_, self.networks))
        self._trainer(pairs, validation).run()
        self._copy_arrays()

    def _build(self, inputs: dict[str, int | None]) -> None:
        """Create networks for inputs with this many features; None for raw images and strings."""
        import torch

        self.inputs_ = inputs
        with torch.random.fork_rng():
            torch.manual_seed(self.training.seed)
            self.image_network_ = self._new_network("image", inputs["image"])
            self.text_network_ = self._new_network("text", inputs["text"])

    def _new_network(self, modality: str, n_features: int | None) -> HashingNetwork:
        """Return a new network for vectors of a length; None for raw images and strings."""
        from corrhash.networks.hashing_network import make_image_network, make_text_network

        how = {"local_only": self._local_only}
        if modality == "image":
            network = make_image_network(self.networks, n_features, self.n_bits, **how)
        else:
            how["embedding"] = self._text_embedding
            network = make_text_network(self.networks, n_features, self.n_bits, **how)
        network.hash.bounded = self.bounded
        return network

    def _copy_arrays(self) -> None:
        """Set the learned arrays to the weights of the networks in PyTorch."""
        from corrhash.networks.hashing_network import copy_state

        self.arrays_ = {
            f"{modality}.{name}": value.numpy()
            for modality in ("image", "text")
            for name, value in copy_state(getattr(self, f"{modality}_network_")).items()
        }
        vars(self).pop("_vector_networks", None)  # of earlier arrays

    @cached_property
    def image_network_(self) -> HashingNetwork:
        """The image network in PyTorch; that of a loaded model is built on first use."""
        return self._load_network("image")

    @cached_property
    def text_network_(self) -> HashingNetwork:
        """The text network in PyTorch; that of a loaded model is built on first use."""
        return self._load_network("text")

    def _load_network(self, modality: str) -> HashingNetwork:
        """Return a network in PyTorch with the learned arrays."""
        import torch

        network = self._new_network(modality, self.inputs_[modality])
        arrays = self._arrays_of(modality)
        network.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
        return network

    def _arrays_of(self, modality: str) -> dict[str, np.ndarray]:
        """Return the learned arrays of one network, named as in PyTorch."""
        prefix = f"{modality}."
        return {
            name.removeprefix(prefix): array
            for name, array in self.arrays_.items()
            if name.startswith(prefix)
        }

    @cached_property
    def _vector_networks(self) -> dict[str, VectorNetwork]:
        """The networks on vectors, by modality."""
        return {
            modality: VectorNetwork(self._arrays_of(modality), bounded=self.bounded)
            for modality, n_features in self.inputs_.items()
            if n_features is not None
        }

    def _embed_image(self, images: Any) -> np.ndarray:
        check_kind(images, "image", self.inputs_["image"])
        if self.inputs_["image"] is not None:
            return self._vector_networks["image"].outputs(images)
        if self._exported is not None:
            return self._exported.image_outputs(images, self.n_bits)
        inputs = image_inputs(images, self.image_network_.body)
        return self._embed(self.image_network_, inputs, n_rows(images))

    def _embed_text(self, texts: Any) -> np.ndarray:
        check_kind(texts, "text", self.inputs_["text"])
        if self.inputs_["text"] is not None:
            return self._vector_networks["text"].outputs(texts)
        inputs = text_inputs(texts, self.text_network_.body)
        return self._embed(self.text_network_, inputs, n_rows(texts))

    def _embed(self, network: HashingNetwork, inputs: Inputs, n: int) -> np.ndarray:
        """Return (n, n_bits) continuous codes in PyTorch, in batches of a fixed size."""
        from corrhash.networks.device import default_device
        from corrhash.networks.hashing_network import outputs

        device = default_device()
        network.eval().to(device)
        return outputs(network, inputs, n, self.n_bits, size=ENCODE_SIZE, device=device)

    @property
    def reads_images(self) -> bool:
        runs = self._exported is not None or find_spec("torch") is not None
        return self.inputs_["image"] is None and runs

    def _is_fitted(self) -> bool:
        return hasattr(self, "arrays_")

    def learned(self) -> dict[str, np.ndarray]:
        return dict(self.arrays_) if self._is_fitted() else {}

    def save(self, folder: str | Path) -> None:
        super().save(folder)
        if self._exported is not None:
            self._exported.copy_to(Path(folder))

    def verify(self, folder: Path) -> None:
        if self._exported is not None:
            self._exported.verify()

    def _description(self) -> dict[str, Any]:
        return {"inputs": self.inputs_, "history": self.history_}

    def _restore(self, arrays: dict[str, np.ndarray], description: dict[str, Any]) -> None:
        check_keys(description, {"inputs": dict, "history": list}, "The description")
        widths = {"image": (int, type(None)), "text": (int, type(None))}
        self.inputs_ = check_keys(description["inputs"], widths, "The description of inputs")
        self.history_ = description["history"]
        networks = ("image.", "text.")
        self.arrays_ = {name: a for name, a in arrays.items() if name.startswith(networks)}
        self._text_embedding = "text.body.standardize.mean" in self.arrays_

    def _use_exported(self, folder: Path, description: dict[str, Any]) -> None:
        if self.inputs_["image"] is None:
            from corrhash.methods.onnx_network import find_exported

            self._exported = find_exported(folder, description)

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
