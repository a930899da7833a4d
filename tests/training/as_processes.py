"""Short trainings that write their results to a file, run by several processes of ``torchrun``.

Arguments: the name of a task below, a file for the result, and a folder for checkpoints.
"""

import atexit
import faulthandler
import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

from corrhash._progress import listening
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods import METHODS
from corrhash.networks.config import Networks
from corrhash.networks.device import use_device
from corrhash.networks.inputs import vector_length
from corrhash.similarity import Similarity
from corrhash.training.config import Training
from corrhash.training.distributed import Processes

BATCH, N_PAIRS = 33, 200  # shares of unequal size, and a last batch of two
N_STEPS = {
    ("chn", "float64"): 100,
    ("chn", "float32"): 20,
    ("mmnn", "float64"): 30,
    ("dcmh", "float64"): 30,
    ("dsph", "float64"): 15,
    ("dchmt", "float64"): 15,
    ("ucch", "float64"): 15,
    ("djsrh", "float64"): 15,
    ("images", "float64"): 12,
    ("judged", "float64"): 30,
}


def pairs_for(name):
    rng = np.random.default_rng(0)
    if name == "images":
        labels = rng.integers(0, 2, (70, 3))
        images = rng.integers(0, 256, (70, 40, 40, 3), dtype=np.uint8)
        return PairedDataset(images, labels.astype(np.float32), labels)
    pairs = make_pairs(N_PAIRS, seed=2)
    if name == "judged":
        known = np.argwhere(rng.random((N_PAIRS, N_PAIRS)) < 0.01)
        judged = np.column_stack([known, rng.choice([-1, 1], len(known))])
        relation = Similarity.from_judgments(judged, (N_PAIRS, N_PAIRS))
        return PairedDataset(pairs.images, pairs.texts, similarity=relation)
    return pairs


def hasher_for(name, **training):
    method = METHODS[name if name in METHODS else "chn"]
    networks = Networks(width=32, image_size=32 if name == "images" else None)
    return method(16, networks=networks, training=Training(batch_size=BATCH, **training))


def losses_of(name, dtype, n_steps):
    """Return the losses of the first steps of a training."""
    pairs, hasher = pairs_for(name), hasher_for(name)
    hasher._build(
        {modality: vector_length(getattr(pairs, f"{modality}s")) for modality in ("image", "text")}
    )
    if dtype == "float64":
        for network in (hasher.image_network_, hasher.text_network_):
            network.double().register_forward_pre_hook(lambda _, inputs: (inputs[0].double(),))
    trainer = hasher._trainer(pairs, pairs)
    losses, optimize = [], trainer._optimize

    def watched(loss, numbers):
        losses.append(loss.item())
        return optimize(loss, numbers)

    trainer._optimize = watched
    epoch = 0
    while len(losses) < n_steps:
        trainer._epoch(epoch)
        epoch += 1
    return losses[:n_steps]


def all_losses(checkpoint):
    return {f"{n} {dtype}": losses_of(n, dtype, steps) for (n, dtype), steps in N_STEPS.items()}


def interrupted(checkpoint):
    """Interrupt a training after some epochs; return its checkpoint."""

    def stop(step):
        if step.task == "Training" and step.done == 4:
            raise KeyboardInterrupt

    try:
        with listening(stop):
            finished(checkpoint)
    except KeyboardInterrupt:
        return {"checkpoint": json.loads((Path(checkpoint) / "checkpoint.json").read_text())}


def finished(checkpoint):
    """Train to the end, from a checkpoint if there is one."""
    pairs = pairs_for("chn")
    hasher = hasher_for("chn", epochs=6, validate_every=2, checkpoint=checkpoint).fit(pairs)
    return {"scores": hasher.embed_image(pairs.images).tolist(), "history": hasher.history_}


TASKS = {"losses": all_losses, "interrupted": interrupted, "finished": finished}


def main(task, found, checkpoint=None):
    torch.set_num_threads(1)
    with use_device("cpu"):
        result = TASKS[task](checkpoint)
    processes = Processes.join(torch.device("cpu"))
    path = Path(found)
    path.with_name(f"{path.name}.{processes.rank}").write_text(
        json.dumps({**result, "processes": processes.world_size})
    )


def fail_if_threads_remain():
    """Exit with an error if threads of gloo are running, which can abort a process at its end."""
    for _ in range(50):  # a thread that was joined is listed for a moment
        names = []
        for path in Path("/proc/self/task").glob("*/comm"):
            with suppress(OSError):
                names.append(path.read_text().strip())
        if not any("gloo" in name for name in names):
            return
        time.sleep(0.1)
    sys.stderr.write(f"Threads at the end of the process: {', '.join(names)}\n")
    sys.stderr.flush()
    os._exit(1)  # an exception would not change the exit code here


if __name__ == "__main__":
    atexit.register(fail_if_threads_remain)  # first in, last out: after the group is destroyed
    faulthandler.dump_traceback_later(240, exit=True)
    main(*sys.argv[1:])
