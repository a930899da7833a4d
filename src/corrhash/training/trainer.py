"""Trainer: the training loop that all network methods share."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from corrhash._files import atomic_write
from corrhash._progress import report
from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset
from corrhash.datasets.fingerprint import digest_of
from corrhash.errors import InputError
from corrhash.metrics import evaluate
from corrhash.networks import HUB_PREFIX
from corrhash.networks.config import Networks
from corrhash.networks.device import default_device, training_threads
from corrhash.networks.hashing_network import (
    HashingNetwork,
    copy_state,
    outputs,
    split_pretrained,
    to_device,
)
from corrhash.networks.inputs import ENCODE_SIZE, Inputs, check_kind, image_inputs, text_inputs
from corrhash.networks.layers import seeded_by_item
from corrhash.networks.preprocessing import item_keys
from corrhash.similarity import Similarity
from corrhash.training.batches import Batch, Rows, epoch_batches, training_similarity
from corrhash.training.checkpoint import (
    fingerprint,
    load_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)
from corrhash.training.config import Training
from corrhash.training.distributed import Processes

KEY_OFFSETS = {"image": np.uint64(1), "text": np.uint64(2)}
"""Added to item keys, so that the two networks draw different dropout and noise."""

COLLAPSE_SHARE = 0.05
"""Fewer distinct codes than this share of the validation items count as collapsed."""

Step = Callable[[Rows, int], dict[str, Any]]
"""Trains on one batch of an epoch; returns the loss and other values to log."""

log = logging.getLogger("corrhash")


class TrainableHasher(Protocol):
    """The part of a network method that a :class:`Trainer` uses."""

    n_bits: int
    networks: Networks
    training: Training
    inputs_: dict[str, int | None]
    history_: list[dict[str, Any]]

    @property
    def image_network_(self) -> HashingNetwork:
        """The network to train on images."""

    @property
    def text_network_(self) -> HashingNetwork:
        """The network to train on texts."""

    def batch_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Any]]:
        """Return the loss of a mini-batch and other values to log."""

    def within_modality_similarity(
        self, pairs: PairedDataset, across: Similarity
    ) -> dict[str, Similarity]:
        """Return the similarity among the images and among the texts, where it is known."""

    def initial_memory(self, pairs: PairedDataset) -> dict[str, Tensor]:
        """Return tensors that training updates besides the networks."""

    def memory_optimizer(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimizer of the parameters in the memory."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the method."""


class Trainer:
    """Trains the two networks of a hasher, from the start or from a checkpoint.

    An epoch makes one pass over the batches for each step in ``_passes``. Tensors in ``memory``
    belong to the training besides the networks and are saved in checkpoints; parameters among them
    have an optimizer of their own. ``title`` names the training in progress reports.
    """

    title = "Training"

    def __init__(
        self, hasher: TrainableHasher, pairs: PairedDataset, validation: PairedDataset
    ) -> None:
        self.hasher, self.pairs, self.validation = hasher, pairs, validation
        self.training = hasher.training
        self.similarity = training_similarity(pairs)
        self.within_modality = hasher.within_modality_similarity(pairs, self.similarity)
        n = len(pairs) if pairs.aligned else self.similarity.n_judged
        self.batch_size = self.training.batch_size_for(n)
        self.epochs = self.training.epochs_for(-(-n // self.batch_size))
        self.device = default_device()
        self.processes = Processes.join(self.device)
        _check_item_seeds(self.processes, hasher.networks)
        self.networks = nn.ModuleDict(
            {"image": hasher.image_network_, "text": hasher.text_network_}
        ).to(self.device)
        cache_bytes = int(self.training.image_cache_gb * 1e9)
        self.inputs = self._inputs_of(pairs, cache_bytes)
        cache_bytes -= getattr(self.inputs["image"], "cache_bytes", 0)
        self.validation_inputs = self._inputs_of(validation, cache_bytes)
        hasher.image_network_.body.learn_scale(self.inputs["image"], pairs.n_images, self.device)
        hasher.text_network_.body.learn_scale(self.inputs["text"], pairs.n_texts, self.device)
        self._parallel = {
            modality: self.processes.data_parallel(network)
            for modality, network in self.networks.items()
        }
        parameters = split_pretrained([hasher.image_network_, hasher.text_network_])
        self.optimizer = self.training.make_optimizer(*parameters)
        self.memory = hasher.initial_memory(pairs)
        for value in self.memory.values():
            value.data = value.data.to(self.device)  # parameters stay parameters
        self._optimizers = {"optimizer": self.optimizer}
        learned = [value for value in self.memory.values() if isinstance(value, nn.Parameter)]
        if learned:
            self._optimizers["memory_optimizer"] = hasher.memory_optimizer(learned)
        self.fingerprint = self._fingerprint()
        self.best: dict[str, Tensor] = {}
        self.best_map = -math.inf
        self.history: list[dict[str, Any]] = []

    def _inputs_of(self, pairs: PairedDataset, cache_bytes: int) -> dict[str, Inputs]:
        """Return the images and texts of pairs as the networks read them."""
        check_kind(pairs.images, "image", self.hasher.inputs_["image"])
        check_kind(pairs.texts, "text", self.hasher.inputs_["text"])
        bodies = {modality: network.body for modality, network in self.networks.items()}
        return {
            "image": image_inputs(pairs.images, bodies["image"], cache_bytes=cache_bytes),
            "text": text_inputs(pairs.texts, bodies["text"], self.hasher.networks.term_dropout),
        }

    def run(self) -> None:
        """Train to the last epoch and leave the weights of the best one in the hasher."""
        with training_threads(self.networks):
            self._run_epochs()
        self.networks.load_state_dict(self.processes.broadcast(self.best))
        self.networks.cpu()
        self.hasher.history_ = self.history

    def _run_epochs(self) -> None:
        for epoch in range(self._resume(), self.epochs):
            if self._has_stalled():
                return
            started = time.perf_counter()
            entry = {"epoch": epoch + 1, **self._epoch(epoch)}
            last = epoch + 1 == self.epochs
            if self.processes.is_first:
                if last or (epoch + 1) % self.training.validate_every == 0:
                    entry.update(self._validate())
                entry["seconds"] = round(time.perf_counter() - started, 3)
            entry = self.processes.broadcast(entry)
            self.history.append(entry)
            report(self.title, epoch + 1, self.epochs, **entry)
            if self.processes.is_first:
                self._checkpoint(epoch + 1)

    def _has_stalled(self) -> bool:
        """Return whether the last ``patience`` validations have not improved mAP."""
        maps = [entry["validation_map"] for entry in self.history if "validation_map" in entry]
        patience = self.training.patience
        return patience is not None and len(maps) - int(np.argmax([*maps, -1])) > patience

    def _epoch(self, epoch: int) -> dict[str, float]:
        """Train for one epoch; return the means of the loss and of the other logged values."""
        seed = self.training.seed
        batches = epoch_batches(self.pairs, self.similarity, self.batch_size, seed, epoch)
        passes = self._passes()
        self.networks.train()
        logged: dict[str, list[Any]] = {}
        with torch.random.fork_rng():  # Hugging Face encoders draw from the global generator
            torch.manual_seed(seed * 1_000_003 + epoch)
            for step, (number, rows) in product(passes, enumerate(batches)):
                for coming in batches[number + 1 : number + 3]:
                    self.inputs["image"].prefetch(self.processes.share(coming.images))
                n_steps = self.epochs * len(batches)
                self._set_learning_rate(epoch * len(batches) + number, n_steps)
                for name, value in step(rows, epoch).items():
                    logged.setdefault(name, []).append(value)
        self._after_epoch()
        means = {name: sum(map(float, values)) / len(values) for name, values in logged.items()}
        self._check_finite(means["loss"], epoch)
        return means

    def _passes(self) -> Sequence[Step]:
        """Return the steps of an epoch; each one sees all batches before the next one starts."""
        return [self._step]

    def _step(self, rows: Rows, epoch: int) -> dict[str, Any]:
        across, within_modality = self._similarities(rows)
        batch = Batch(
            self._continuous_codes("image", rows.images, epoch),
            self._continuous_codes("text", rows.texts, epoch),
            across,
            within_modality,
            self._labels(rows),
            rows,
            epoch,
            self.memory,
        )
        loss, logged = self.hasher.batch_loss(batch)
        return self._optimize(loss, logged)

    def _continuous_codes(self, modality: str, rows: np.ndarray, epoch: int) -> Tensor:
        """Return (len(rows), n_bits) continuous codes of training items, with gradients."""
        own = self.processes.share(rows)
        draw = {"seed": self.training.seed, "epoch": epoch}
        values = to_device(self.inputs[modality].training_batch(own, **draw), self.device)
        mixed = self.training.mixed_precision
        precision = torch.autocast(self.device.type, torch.bfloat16, enabled=mixed)
        with seeded_by_item(item_keys(own, **draw) + KEY_OFFSETS[modality]), precision:
            codes = self._parallel[modality](values)
        if mixed:
            codes = codes.float()  # losses depend on small differences of cosines
        return self.processes.gather(codes, len(rows))

    def _similarity_block(self, similarity: Similarity, rows: Any, columns: Any) -> Tensor:
        """Return (rows, columns) of +1, -1 and 0 for unknown."""
        return torch.from_numpy(similarity.block(rows, columns)).to(self.device)

    def _similarities(self, rows: Rows) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the similarity of a batch across modalities and, where known, within each."""
        across = self._similarity_block(self.similarity, rows.images, rows.texts)
        of = {"image": rows.images, "text": rows.texts}
        within = {
            modality: across  # labels define both
            if similarity is self.similarity
            else self._similarity_block(similarity, of[modality], of[modality])
            for modality, similarity in self.within_modality.items()
        }
        return across, within

    def _labels(self, rows: Rows) -> Tensor | None:
        """Return the labels of a batch of aligned items."""
        if self.pairs.labels is None or not self.pairs.aligned:
            return None
        labels = self.pairs.labels[rows.images].toarray()
        return torch.from_numpy(labels).to(self.device, torch.float32)

    def _optimize(self, loss: Tensor, logged: dict[str, Any]) -> dict[str, Any]:
        """Take one optimizer step on all weights that the loss depends on."""
        for optimizer in self._optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for optimizer in self._optimizers.values():
            optimizer.step()
        return {"loss": loss.detach(), **logged}

    def _after_epoch(self) -> None:
        """Update ``memory`` after the last batch of an epoch, if the method has one."""

    def _set_learning_rate(self, step: int, n_steps: int) -> None:
        rate = self.training.learning_rate_at(step, n_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["lr_factor"]

    def _check_finite(self, loss: float, epoch: int) -> None:
        """Raise InputError if the loss or a weight is not finite."""
        weights = all(torch.isfinite(p).all() for p in self.networks.parameters())
        if not (weights and math.isfinite(loss)):
            rate = self.training.learning_rate
            raise InputError(
                f"The training diverged in epoch {epoch + 1} at learning rate {rate:g}. Lower it, "
                f"for instance to {rate / 10:g}."
            )

    def _validate(self) -> dict[str, Any]:
        """Return the validation mAP, the mean of both directions, and keep the best weights."""
        images = self._encode("image", self.validation_inputs, self.validation.n_images)
        texts = self._encode("text", self.validation_inputs, self.validation.n_texts)
        mean = float(np.mean(self._validation_maps(images, texts)))
        n_distinct = min(images.n_distinct(), texts.n_distinct())
        if mean > self.best_map or not self.best:
            self.best_map, self.best = mean, copy_state(self.networks)
        _warn_of_collapse(n_distinct, len(self.validation))
        return {"validation_map": mean, "distinct_codes": n_distinct}

    def _validation_maps(self, images: Codes, texts: Codes) -> list[float]:
        """Return the mAP of both directions, with validation items as queries and as database.

        A database of training items would reward memorizing them.
        """
        similarity = self.validation.similarity
        if similarity is None:
            similarity = Similarity.from_labels(self.validation.labels)
        return [
            evaluate(images, texts, similarity=similarity).map,
            evaluate(texts, images, similarity=similarity.T).map,
        ]

    def _embed(self, modality: str, inputs: dict[str, Inputs], n: int) -> np.ndarray:
        """Return the (n, n_bits) continuous codes of one modality, from cached images."""
        network, n_bits = self.networks[modality].eval(), self.hasher.n_bits
        return outputs(network, inputs[modality], n, n_bits, size=ENCODE_SIZE, device=self.device)

    def _encode(self, modality: str, inputs: dict[str, Inputs], n: int) -> Codes:
        """Return the codes of one modality."""
        return Codes.from_continuous(self._embed(modality, inputs, n))

    def _fingerprint(self) -> str:
        """Return a hash of the settings and the data that determine the result."""
        params = self.hasher.get_params(deep=False)
        params["training"] = asdict(replace(self.training, checkpoint=None, image_cache_gb=0))
        judged = self.similarity.judgments
        known = self.similarity.row_labels if judged is None else judged
        data = [self.pairs.row_keys(), digest_of(known), digest_of(self.pairs.texts)]
        if self.hasher.inputs_["image"] is not None:  # features of other layers can be as long
            data.append(digest_of(np.asarray(self.pairs.images)))
        return fingerprint(type(self.hasher).__name__, params, self.hasher.inputs_, data)

    def _checkpoint(self, epochs_done: int) -> None:
        if self.training.checkpoint is None:
            return
        folder = Path(self.training.checkpoint)
        tensors = {f"now.{k}": v for k, v in copy_state(self.networks).items()}
        tensors |= {f"best.{k}": v for k, v in self.best.items()}
        tensors |= {f"memory.{k}": v.detach() for k, v in self.memory.items()}
        for name, optimizer in self._optimizers.items():
            tensors |= optimizer_tensors(optimizer, name)
        numbers = {
            "fingerprint": self.fingerprint,
            "epochs_done": epochs_done,
            "best_map": self.best_map if self.best else None,
            "history": self.history,
        }
        save_checkpoint(folder, tensors, numbers)
        with atomic_write(folder / "log.jsonl") as file:
            file.writelines(json.dumps(entry).encode() + b"\n" for entry in self.history)

    def _resume(self) -> int:
        """Restore the last checkpoint, if any; return the number of epochs done."""
        if self.training.checkpoint is None:
            return 0
        found = None
        if self.processes.is_first:
            found = load_checkpoint(Path(self.training.checkpoint), self.fingerprint)
        found = self.processes.broadcast(found)
        if found is None:
            return 0
        tensors, numbers = found
        self.networks.load_state_dict(_with_prefix("now.", tensors))
        self.best = _with_prefix("best.", tensors)
        for name, value in _with_prefix("memory.", tensors).items():
            self.memory[name].data.copy_(value)  # in place: an optimizer holds the parameters
        self.best_map = -math.inf if numbers["best_map"] is None else numbers["best_map"]
        self.history = numbers["history"]
        for name, optimizer in self._optimizers.items():
            restore_optimizer(optimizer, name, tensors)
        return int(numbers["epochs_done"])


def _with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}


def _check_item_seeds(processes: Processes, networks: Networks) -> None:
    """Raise InputError if dropout would differ between processes."""
    encoders = {networks.image: networks.image_frozen, networks.text: networks.text_frozen}
    tuned = [name for name, frozen in encoders.items() if not frozen]
    tuned = [name for name in tuned if name.startswith(HUB_PREFIX)]
    if processes.world_size > 1 and tuned:
        raise InputError(
            f"Fine-tuning {tuned[0]} with several processes is not supported because its dropout "
            "is not seeded per sample. Freeze it, or use one process."
        )


def _warn_of_collapse(n_distinct: int, n_items: int) -> None:
    if n_distinct < COLLAPSE_SHARE * n_items:
        log.warning(
            "Codes collapse: only %d distinct codes among %d validation items. Change the learning "
            "rate, or use chn-plus, which weights similar and dissimilar pairs equally.",
            n_distinct,
            n_items,
        )
