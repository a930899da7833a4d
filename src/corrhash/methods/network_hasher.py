"""NetworkHasher: two networks and the one training loop that every network method shares."""

from __future__ import annotations

import json
import logging
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from corrhash.atomic_write import atomic_write
from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset, n_rows
from corrhash.datasets.fingerprint import digest_of
from corrhash.datasets.splits import hash_order
from corrhash.errors import InputError
from corrhash.methods.base import Hasher
from corrhash.methods.batches import Batch, Rows, epoch_batches, supervision
from corrhash.methods.checkpoint import (
    fingerprint,
    load_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)
from corrhash.methods.processes import Processes
from corrhash.methods.training import Training
from corrhash.methods.two_networks import (
    HUB,
    Hashing,
    Networks,
    detached_state,
    load_image_weights,
    make_image_network,
    make_text_network,
    parameters_by_origin,
)
from corrhash.metrics import evaluate
from corrhash.networks.device import as_device, to_device
from corrhash.networks.inference import outputs
from corrhash.networks.inputs import (
    Inputs,
    check_kind,
    image_inputs,
    text_inputs,
    vector_length,
)
from corrhash.networks.item_keys import item_keys
from corrhash.networks.item_noise import drawing_by
from corrhash.networks.padded_batches import ENCODE_SIZE
from corrhash.progress import report
from corrhash.relevance import Similarity

HELD_OUT = 10
"""Without validation pairs, one in so many training pairs is held out."""

SIDES = {"image": np.uint64(1), "text": np.uint64(2)}
"""Added to the keys of items, so that image and text networks do not draw alike."""

FEW_CODES = 0.05
"""Fewer distinct codes than this share of the validation items is called a collapse."""

Step = Callable[[Rows, int], dict[str, Any]]
"""What is done with a batch in an epoch; it tells the loss and what is watched beside it."""

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
            pairs, validation = _hold_out(pairs, self.training.seed)
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


class Trainer:
    """One training of a hasher's two networks, from its start or from a checkpoint.

    An epoch goes over the batches once for each of ``_passes``. What a training remembers beside
    its networks stands in ``memory``, which checkpoints keep.
    """

    def __init__(
        self, hasher: NetworkHasher, pairs: PairedDataset, validation: PairedDataset
    ) -> None:
        self.hasher, self.pairs, self.validation = hasher, pairs, validation
        self.training = hasher.training
        self.relation = supervision(pairs)
        self.within = hasher._within(pairs, self.relation)
        self.processes = Processes.joined(self.training.device)
        _check_draws(self.processes, hasher.networks)
        self.device = as_device(self.training.device)
        self.networks = nn.ModuleDict(
            {"image": hasher.image_network_, "text": hasher.text_network_}
        ).to(self.device)
        self._learn_scale()
        self.images = image_inputs(pairs.images, hasher.image_network_.body, keep=True)
        self.texts = text_inputs(pairs.texts, hasher.text_network_.body)
        self._together = {
            side: self.processes.together(network) for side, network in self.networks.items()
        }
        old, new = parameters_by_origin([hasher.image_network_, hasher.text_network_])
        self.optimizer = self.training.make_optimizer(old, new)
        self.name = self._fingerprint()
        self.best: dict[str, Tensor] = {}
        self.best_map = -math.inf
        self.history: list[dict[str, Any]] = []
        self.memory: dict[str, Tensor] = {}

    def run(self) -> None:
        """Train to the last epoch and leave the best one in the hasher."""
        for epoch in range(self._resume(), self.training.epochs):
            started = time.perf_counter()
            entry = {"epoch": epoch + 1, **self._epoch(epoch)}
            last = epoch + 1 == self.training.epochs
            if self.processes.first:
                if last or (epoch + 1) % self.training.validate_every == 0:
                    entry.update(self._validate())
                entry["seconds"] = round(time.perf_counter() - started, 3)
            entry = self.processes.agree(entry)
            self.history.append(entry)
            report("Training", epoch + 1, self.training.epochs, **entry)
            if self.processes.first:
                self._checkpoint(epoch + 1)
        self.networks.load_state_dict(self.processes.agree(self.best))
        self.networks.cpu()
        self.hasher.history_ = self.history

    def _learn_scale(self) -> None:
        """Mean and deviation of ready features, taken from the training pairs."""
        standardise = getattr(self.hasher.image_network_.body, "standardise", None)
        if standardise is not None:
            values = torch.from_numpy(np.asarray(self.pairs.images, dtype=np.float32))
            standardise.learn(values.to(self.device))

    def _epoch(self, epoch: int) -> dict[str, float]:
        """All passes over the pairs; the means of the loss and of what is watched."""
        n = len(self.pairs) if self.pairs.aligned else self.relation.n_known
        size = self.training.batch_size_for(n)
        batches = epoch_batches(self.pairs, self.relation, size, self.training.seed, epoch)
        passes = self._passes()
        self.networks.train()
        watched: dict[str, list[Any]] = {}
        with torch.random.fork_rng():  # for encoders of others, which draw dropout of their own
            torch.manual_seed(self.training.seed * 1_000_003 + epoch)
            for step, (number, rows) in product(passes, enumerate(batches)):
                for coming in batches[number + 1 : number + 3]:
                    self.images.fetch(self.processes.share(coming.images))
                n_steps = self.training.epochs * len(batches)
                self._set_rate(epoch * len(batches) + number, n_steps)
                for name, value in step(rows, epoch).items():
                    watched.setdefault(name, []).append(value)
        self._after_epoch()
        means = {name: sum(map(float, values)) / len(values) for name, values in watched.items()}
        self._check_finite(means["loss"], epoch)
        return means

    def _passes(self) -> Sequence[Step]:
        """What is done with each batch; a second step begins when all have seen the first."""
        return [self._step]

    def _after_epoch(self) -> None:
        """What is left to do when all batches were seen."""

    def _check_finite(self, loss: float, epoch: int) -> None:
        """A training that diverges ends here, not in scores that are no numbers."""
        weights = all(torch.isfinite(p).all() for p in self.networks.parameters())
        if not (weights and math.isfinite(loss)):
            rate = self.training.learning_rate
            raise InputError(
                f"The training diverged in epoch {epoch + 1} at learning rate {rate:g}. Lower it, "
                f"for instance to {rate / 10:g}."
            )

    def _set_rate(self, step: int, n_steps: int) -> None:
        rate = self.training.rate_at(step, n_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["times"]

    def _step(self, rows: Rows, epoch: int) -> dict[str, Any]:
        similarity = self._block(self.relation, rows.images, rows.texts)
        batch = Batch(
            self._scores("image", rows.images, epoch),
            self._scores("text", rows.texts, epoch),
            similarity,
            within=self._blocks_within(rows, similarity),
        )
        loss, watched = self.hasher._loss(batch)
        return self._descend(loss, watched)

    def _scores(self, side: str, rows: np.ndarray, epoch: int) -> Tensor:
        """(len(rows), n_bits) scores of training items, through which gradients flow."""
        inputs = self.images if side == "image" else self.texts
        own = self.processes.share(rows)
        keyed = {"seed": self.training.seed, "epoch": epoch}
        values = to_device(inputs.training_batch(own, **keyed), self.device)
        with drawing_by(item_keys(own, **keyed) + SIDES[side]), self._precision():
            scores = self._together[side](values)
        if self.training.mixed:
            scores = scores.float()  # losses are about small differences of cosines
        return self.processes.gather(scores, len(rows))

    def _precision(self) -> Any:
        """In what networks compute while they are trained."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.training.mixed)

    def _block(self, relation: Similarity, rows: Any, columns: Any) -> Tensor:
        """(rows, columns) of +1, -1 and 0 for unknown."""
        return torch.from_numpy(relation.block(rows, columns)).to(self.device)

    def _blocks_within(self, rows: Rows, across: Tensor) -> dict[str, Tensor]:
        """Who is similar within the sides of a batch; labels say the same across and within."""
        of = {"image": rows.images, "text": rows.texts}
        return {
            side: across if relation is self.relation else self._block(relation, of[side], of[side])
            for side, relation in self.within.items()
        }

    def _descend(self, loss: Tensor, watched: dict[str, Any]) -> dict[str, Any]:
        """One step down the loss, of all weights that it depends on."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return {"loss": loss.detach(), **watched}

    def _validate(self) -> dict[str, Any]:
        """Validation MAP of both directions, and how many codes are left apart."""
        hasher, validation = self.hasher, self.validation
        asked = hasher.encode_image(validation.images), hasher.encode_text(validation.texts)
        mean = float(np.mean(self._maps(*asked)))
        n_distinct = min(codes.n_distinct() for codes in asked)
        if mean > self.best_map or not self.best:
            self.best_map, self.best = mean, detached_state(self.networks)
        _warn_of_collapse(n_distinct, len(self.validation))
        return {"validation_map": mean, "distinct_codes": n_distinct}

    def _maps(self, images: Codes, texts: Codes) -> list[float]:
        """MAP of both directions: validation items ask for those they are known to resemble.

        Labels tie them to the training items. Judged pairs and partners tie them to one another
        alone; of a single partner, average precision is the reciprocal rank.
        """
        relation = self.validation.similarity
        if relation is None:
            relation = back = Similarity.from_labels(self.validation.labels, self.pairs.labels)
            texts_that_answer = self.hasher.encode_text(self.pairs.texts)
            images_that_answer = self.hasher.encode_image(self.pairs.images)
        else:
            back, texts_that_answer, images_that_answer = relation.T, texts, images
        return [
            evaluate(images, texts_that_answer, similarity=relation).map,
            evaluate(texts, images_that_answer, similarity=back).map,
        ]

    def _fingerprint(self) -> str:
        """Of the settings, the items and who of them is similar: not of where it is kept."""
        params = {**self.hasher.get_params()}
        params["training"] = {**asdict(self.training), "checkpoint": None}
        relation = self.relation.judged
        relation = self.relation.row_labels if relation is None else relation
        data = [self.pairs.row_keys(), digest_of(relation), digest_of(self.pairs.texts)]
        if self.hasher.inputs_["image"] is not None:  # features of other layers can be as long
            data.append(digest_of(np.asarray(self.pairs.images)))
        return fingerprint(type(self.hasher).__name__, params, self.hasher.inputs_, data)

    def _checkpoint(self, epochs_done: int) -> None:
        if self.training.checkpoint is None:
            return
        folder = Path(self.training.checkpoint)
        tensors = {f"now.{k}": v for k, v in detached_state(self.networks).items()}
        tensors |= {f"best.{k}": v for k, v in self.best.items()}
        tensors |= {f"memory.{k}": v for k, v in self.memory.items()}
        tensors |= optimizer_tensors(self.optimizer)
        numbers = {
            "fingerprint": self.name,
            "epochs_done": epochs_done,
            "best_map": self.best_map if self.best else None,
            "history": self.history,
        }
        save_checkpoint(folder, tensors, numbers)
        with atomic_write(folder / "log.jsonl") as file:
            file.writelines(json.dumps(entry).encode() + b"\n" for entry in self.history)

    def _resume(self) -> int:
        """The epoch to begin with: 0, or where an interrupted training stopped."""
        if self.training.checkpoint is None:
            return 0
        found = None
        if self.processes.first:
            found = load_checkpoint(Path(self.training.checkpoint), self.name)
        found = self.processes.agree(found)
        if found is None:
            return 0
        tensors, numbers = found
        self.networks.load_state_dict(_under("now.", tensors))
        self.best = _under("best.", tensors)
        self.memory = to_device(_under("memory.", tensors), self.device)
        if numbers["best_map"] is not None:
            self.best_map = numbers["best_map"]
        self.history = numbers["history"]
        restore_optimizer(self.optimizer, tensors)
        return int(numbers["epochs_done"])


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}


def _check_draws(processes: Processes, networks: Networks) -> None:
    """Dropout of encoders of others is not drawn by item, and would differ between processes."""
    encoders = {networks.image: networks.image_frozen, networks.text: networks.text_frozen}
    trained = [name for name, frozen in encoders.items() if name.startswith(HUB) and not frozen]
    if processes.n > 1 and trained:
        raise InputError(
            f"Several processes do not train {trained[0]} along, whose dropout each would draw by "
            "itself. Freeze it, or use one process."
        )


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


def _hold_out(pairs: PairedDataset, seed: int) -> tuple[PairedDataset, PairedDataset]:
    """A tenth for validation, chosen by hash: of the pairs, or of the judgements if not aligned."""
    if pairs.similarity is not None and not pairs.aligned:
        held, rest = _split_judgements(pairs.similarity, seed)
        return replace(pairs, similarity=rest), replace(pairs, similarity=held)
    order = hash_order(pairs.row_keys(), "held out", seed)
    n = max(1, len(pairs) // HELD_OUT)
    return pairs.take(order[n:]), pairs.take(order[:n])


def _split_judgements(similarity: Similarity, seed: int) -> tuple[Similarity, Similarity]:
    """A tenth of the similar and of the dissimilar judgements each, and the rest."""
    assert similarity.judged is not None
    known = similarity.judged.tocoo()
    triples = np.stack([known.row, known.col, known.data], axis=1)
    triples = triples[hash_order([f"{i},{j}" for i, j, _ in triples], "held out", seed)]
    kinds = [triples[triples[:, 2] == kind] for kind in (1, -1)]
    parts = [np.split(of_kind, [-(-len(of_kind) // HELD_OUT)]) for of_kind in kinds]
    held, rest = (
        Similarity.from_pairs(np.concatenate(part), similarity.shape)
        for part in zip(*parts, strict=True)
    )
    return held, rest


def _warn_of_collapse(n_distinct: int, n_items: int) -> None:
    if n_distinct < FEW_CODES * n_items:
        log.warning(
            "Codes collapse: only %d different codes among %d validation items. Lower the learning "
            "rate; for CHN, turn pair weights on or raise lambda_.",
            n_distinct,
            n_items,
        )
