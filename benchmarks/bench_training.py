"""Overhead of the training loop and of encoding over bare PyTorch networks, on the same batches.

The bare version has every batch in memory and runs only forward, backward and the optimizer step,
or only forward for encoding. Both take turns on one thread, and the CPU time of that thread is
compared. Other threads decode and prepare images; with a free second core they cost no time. The
note gives the wall-clock ratio and the load of the machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from benchmarks.measure import Row, best_times
from corrhash.datasets import PairedDataset, load_dataset
from corrhash.losses import quantization_margin_loss
from corrhash.methods.chn import CHN
from corrhash.networks.config import Networks
from corrhash.networks.inputs import (
    ENCODE_SIZE,
    Inputs,
    image_inputs,
    padded_batches,
    text_inputs,
    vector_length,
)
from corrhash.training.batches import Batch, Rows, epoch_batches
from corrhash.training.config import Training
from corrhash.training.trainer import Trainer

N_BITS, BATCH = 64, 64
N_PAIRS, N_FEATURES, N_WORDS, N_LABELS = 4000, 1280, 1000, 24
N_SCENES = 1536
ROUNDS = 9
TARGET = 0.952
"""Bare networks need this share of the loop's time: the loop takes at most 5 % longer."""

Step = tuple[Tensor, Tensor, Tensor]  # images, texts, similarities


def vector_pairs(n: int) -> PairedDataset:
    """Return random image features and sparse tags of the sizes of a usual experiment."""
    rng = np.random.default_rng(0)
    texts = sp.random_array((n, N_WORDS), density=8 / N_WORDS, format="csr", rng=rng)
    texts.data[:] = 1
    labels = rng.random((n, N_LABELS)) < 0.05
    labels[np.arange(n), rng.integers(N_LABELS, size=n)] = True
    return PairedDataset(rng.standard_normal((n, N_FEATURES), np.float32), texts, labels)


@dataclass(frozen=True, eq=False)
class Task:
    """A dataset on which the loop and the bare networks are compared."""

    what: str
    pairs: PairedDataset

    def trainer(self, **networks: float) -> Trainer:
        training = Training(epochs=100, batch_size=BATCH)
        hasher = CHN(N_BITS, networks=Networks(width=1024, **networks), training=training)
        inputs = {
            modality: vector_length(getattr(self.pairs, f"{modality}s"))
            for modality in ("image", "text")
        }
        hasher._build(inputs)
        return Trainer(hasher, self.pairs, self.pairs)

    def training(self) -> Row:
        """Compare an epoch of the loop with its bare steps."""
        loop, bare = self.trainer(), self.trainer()
        batches = epoch_batches(self.pairs, bare.similarity, BATCH, 0, 1)
        steps = [prepared_step(bare, rows) for rows in batches]
        self.check_same_step(batches[0], steps[0])
        contenders = {"loop": lambda: loop._epoch(1), "bare": lambda: bare_epoch(bare, steps)}
        return compared(f"training, {self.what}", contenders)

    def check_same_step(self, rows: Rows, step: Step) -> None:
        """Check that both compute the same loss from the same weights.

        Without dropout and noise, which the loop draws by item.
        """
        loop, bare = (self.trainer(noise=0.0, dropout=0.0) for _ in range(2))
        loop.networks.train()
        losses = [float(loop._step(rows, 1)["loss"]), float(bare_epoch(bare, [step])[0])]
        if not np.isclose(*losses, rtol=1e-5):
            raise SystemExit(
                f"The losses differ: {losses[0]} in the loop, {losses[1]} in bare steps."
            )

    def encoding(self, modality: str) -> Row:
        """Compare encoding one modality with its bare network."""
        hasher = self.trainer().hasher
        hasher._copy_arrays()
        network = getattr(hasher, f"{modality}_network_").eval()
        values, encode = getattr(self.pairs, f"{modality}s"), getattr(hasher, f"encode_{modality}")
        if modality == "image":
            inputs = image_inputs(values, network.body)
        else:
            inputs = text_inputs(values, network.body)
        batches = prepared_batches(inputs, len(self.pairs))
        contenders = {"loop": lambda: encode(values), "bare": lambda: forward(network, batches)}
        return compared(f"encoding {modality}s, {self.what}", contenders)


def prepared_step(trainer: Trainer, rows: Rows) -> Step:
    """Return images, texts and similarities of one step of the second epoch."""
    keyed = {"seed": trainer.training.seed, "epoch": 1}
    return (
        torch.from_numpy(trainer.inputs["image"].training_batch(rows.images, **keyed)),
        torch.from_numpy(trainer.inputs["text"].training_batch(rows.texts, **keyed)),
        torch.from_numpy(trainer.similarity.block(rows.images, rows.texts)),
    )


def bare_epoch(trainer: Trainer, steps: list[Step]) -> list[Tensor]:
    """Run forward, backward and the optimizer step, and nothing else."""
    hasher, optimizer, losses = trainer.hasher, trainer.optimizer, []
    trainer.networks.train()
    for images, texts, similarity in steps:
        u, v = trainer.networks["image"](images), trainer.networks["text"](texts)
        loss = hasher._similarity_loss(Batch(u, v, similarity))
        for codes in (u, v):
            quantization = quantization_margin_loss(codes, hasher.margin, reduction="sum")
            loss = loss + hasher.quantization_weight * quantization
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def prepared_batches(inputs: Inputs, n: int) -> list[Tensor]:
    return [torch.from_numpy(batch) for batch in padded_batches(inputs, n, ENCODE_SIZE)]


@torch.inference_mode()
def forward(network: Any, batches: list[Tensor]) -> list[Tensor]:
    return [network(batch) for batch in batches]


def compared(what: str, contenders: dict[str, Callable[[], object]]) -> Row:
    for run in contenders.values():
        run()
    cpu = best_times(contenders, ROUNDS, time.thread_time)
    wall = best_times(contenders, ROUNDS, time.perf_counter)
    note = f"wall clock {wall['bare'] / wall['loop']:.2f} at load {os.getloadavg()[0]:.1f}"
    return Row(what, cpu["bare"] / cpu["loop"], "of the speed of bare networks", TARGET, note)


def rows(quick: bool = False, targets_only: bool = False) -> list[Row]:
    """Return all measurements, each with a target; on a quarter of the pairs if ``quick``."""
    part = 4 if quick else 1
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        vectors = Task("1,280 features and 1,000 tags", vector_pairs(N_PAIRS // part))
        images = Task("images, small network", load_dataset("scenes", n=N_SCENES // part).pairs)
        measured = [task.training() for task in (vectors, images)]
        measured += [
            vectors.encoding("image"),
            vectors.encoding("text"),
            images.encoding("image"),
        ]
    finally:
        torch.set_num_threads(before)
    return [replace(row, target=None) for row in measured] if quick else measured
