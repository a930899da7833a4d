"""Trainer: the one training loop that every network method shares."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from corrhash.atomic_write import atomic_write
from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset
from corrhash.datasets.fingerprint import digest_of
from corrhash.errors import InputError
from corrhash.methods.batches import Batch, Rows, epoch_batches, supervision
from corrhash.methods.checkpoint import (
    fingerprint,
    load_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)
from corrhash.methods.processes import Processes
from corrhash.methods.two_networks import (
    HUB,
    Networks,
    OnTrunk,
    Vectors,
    detached_state,
    parameters_by_origin,
)
from corrhash.metrics import evaluate
from corrhash.networks.device import as_device, to_device
from corrhash.networks.inputs import image_inputs, text_inputs
from corrhash.networks.item_keys import item_keys
from corrhash.networks.item_noise import drawing_by
from corrhash.networks.padded_batches import ENCODE_SIZE
from corrhash.progress import report
from corrhash.relevance import Similarity

if TYPE_CHECKING:
    from corrhash.methods.network_hasher import NetworkHasher

SIDES = {"image": np.uint64(1), "text": np.uint64(2)}
"""Added to the keys of items, so that image and text networks do not draw alike."""

SCALE_PICTURES = 1000
"""From which the scale of what a trunk gives is taken, spread over all of them."""

FEW_CODES = 0.05
"""Fewer distinct codes than this share of the validation items is called a collapse."""

Step = Callable[[Rows, int], dict[str, Any]]
"""What is done with a batch in an epoch; it tells the loss and what is watched beside it."""

log = logging.getLogger("corrhash")


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
        self.images = image_inputs(pairs.images, hasher.image_network_.body, keep=True)
        self._learn_scale()
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
        """Mean and deviation of what hidden layers read of images, taken from training items."""
        body = self.hasher.image_network_.body
        if isinstance(body, Vectors):
            values = torch.from_numpy(np.asarray(self.pairs.images, dtype=np.float32))
            body.standardise.learn(values.to(self.device))
        elif isinstance(body, OnTrunk):
            body.hidden.standardise.learn(self._trunk_outputs(body))

    @torch.no_grad()
    def _trunk_outputs(self, body: OnTrunk) -> Tensor:
        """(n, n_features) that a trunk makes of training pictures before anything is trained."""
        n = len(self.pairs.images)
        rows = np.unique(np.linspace(0, n - 1, SCALE_PICTURES).astype(np.int64))
        parts = np.array_split(rows, -(-len(rows) // ENCODE_SIZE))
        return torch.cat(
            [body.trunk(to_device(self.images.batch(part), self.device)) for part in parts]
        )

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


def _warn_of_collapse(n_distinct: int, n_items: int) -> None:
    if n_distinct < FEW_CODES * n_items:
        log.warning(
            "Codes collapse: only %d different codes among %d validation items. Lower the learning "
            "rate; for CHN, turn pair weights on or raise lambda_.",
            n_distinct,
            n_items,
        )
