"""Training by one process compared with two: ``python -m benchmarks.processes FOLDER``.

FOLDER has a manifest of photos with captions and labels, and a file of image features. CHN is
trained by one process and by two, with one thread each and the same data, seed and batches. Only
the order in which numbers are summed differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from corrhash.codes import load_codes, save_codes
from corrhash.datasets import RetrievalSplit, load_dataset, supervise
from corrhash.datasets.vocabulary import TextOptions
from corrhash.experiments.evaluation import encode_pairs, evaluate_directions
from corrhash.methods.chn import CHN
from corrhash.networks.device import use_device
from corrhash.networks.inputs import vector_length
from corrhash.training.config import Training
from corrhash.training.distributed import Processes

N_BITS, TOP_WORDS = 64, 1000
STEPS = {"float64": (100, 1e-8), "float32": (20, 1e-5)}
"""Steps compared for each type, and the largest difference of their losses allowed."""

CPU = torch.device("cpu")
MAP_MAY_DIFFER = 0.005


def load(folder: Path, features: str) -> RetrievalSplit:
    """Load the photos with the split of their manifest."""
    return load_dataset(
        folder, image_features=str(folder / features), texts=TextOptions(top=TOP_WORDS)
    )


def first_losses(split: RetrievalSplit, dtype: str) -> list[float]:
    """Return the losses of the first training steps."""
    pairs, n_steps = supervise(split, "labels").train, STEPS[dtype][0]
    hasher = CHN(N_BITS)
    hasher._build(
        {modality: vector_length(getattr(pairs, f"{modality}s")) for modality in ("image", "text")}
    )
    if dtype == "float64":
        for network in (hasher.image_network_, hasher.text_network_):
            network.double().register_forward_pre_hook(lambda _, inputs: (inputs[0].double(),))
    trainer = hasher._trainer(pairs, pairs)
    losses: list[float] = []
    optimize = trainer._optimize

    def watched(loss: Tensor, numbers: dict[str, Any]) -> dict[str, Any]:
        losses.append(loss.item())
        return optimize(loss, numbers)

    trainer._optimize = watched  # type: ignore[method-assign]
    for epoch in range(n_steps):
        if len(losses) < n_steps:
            trainer._epoch(epoch)
    return losses[:n_steps]


def whole_training(split: RetrievalSplit, epochs: int, out: Path) -> dict[str, Any]:
    """Return mAP of both directions, seconds per epoch and CPU seconds of this process.

    The codes are written to a file.
    """
    taught = supervise(split, "labels")
    before = time.process_time()
    hasher = CHN(N_BITS, training=Training(epochs=epochs)).fit(
        taught.train, validation=taught.validation
    )
    cpu = time.process_time() - before
    if not Processes.join(CPU).is_first:
        return {}
    query, database = (encode_pairs(hasher, part) for part in (split.query, split.database))
    save_codes(out, database, split.database.row_keys())
    seconds = [entry["seconds"] for entry in hasher.history_ if "validation_map" not in entry]
    scores = evaluate_directions(split.query, split.database, query, database)
    times = {"seconds": np.median(seconds), "cpu": cpu}
    return {"map": {name: of.map for name, of in scores.items()}, **times}


def work(arguments: argparse.Namespace) -> None:
    """Run the comparison in one of the processes; the first one writes the result."""
    torch.set_num_threads(1)
    split = load(arguments.folder, arguments.features)
    found: dict[str, Any] = {dtype: first_losses(split, dtype) for dtype in STEPS}
    found |= whole_training(split, arguments.epochs, arguments.found.with_suffix(".npz"))
    processes = Processes.join(CPU)
    if processes.is_first:
        arguments.found.write_text(json.dumps({**found, "processes": processes.world_size}))


def run(n: int, found: Path) -> dict[str, Any]:
    """Return the result of ``n`` processes."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n)]
    own = ["-m", "benchmarks.processes", *sys.argv[1:], "--found", str(found)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *launch, *own], env=environment, check=True)
    result = dict(json.loads(found.read_text()))
    assert result["processes"] == n
    return result


def compare(folder: Path) -> bool:
    """Print how one process and two differ; return whether all limits are kept."""
    paths = {n: folder / f"{n}.json" for n in (1, 2)}
    one, two = (run(n, path) for n, path in paths.items())
    kept = []
    for dtype, (n_steps, limit) in STEPS.items():
        most = float(abs(np.subtract(one[dtype], two[dtype])).max())
        kept.append(most <= limit)
        print(f"{dtype}, {n_steps} steps: losses differ by at most {most:.1e} (allowed {limit})")
    for direction, value in one["map"].items():
        other = two["map"][direction]
        kept.append(abs(value - other) <= MAP_MAY_DIFFER)
        print(f"MAP {direction}: {value:.4f} and {other:.4f} (allowed {MAP_MAY_DIFFER} apart)")
    codes = [load_codes(path.with_suffix(".npz"))[0] for path in paths.values()]
    for modality in codes[0]:
        equal = (codes[0][modality].signs() == codes[1][modality].signs()).mean()
        print(f"equal bits of {modality}s in the database: {equal:.4f}")
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    for what, unit in (("seconds", f"by the clock ({load})"), ("cpu", "of work of the first one")):
        ratio = one[what] / two[what]
        print(f"{one[what]:.2f} s and {two[what]:.2f} s {unit}: {ratio:.2f} x as fast")
    return all(kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--features", default="features_efficientnet_lite0.npy")
    parser.add_argument("--epochs", type=int, default=Training().epochs)
    parser.add_argument("--found", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.found is not None:
        with use_device("cpu"):
            work(arguments)
        return 0
    with tempfile.TemporaryDirectory(prefix="corrhash-processes-") as folder:
        return 0 if compare(Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
