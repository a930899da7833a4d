"""TrainedModel: a hasher with its reader and what it was trained on, as a folder on disk."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from corrhash.atomic_write import atomic_write
from corrhash.datasets import load_dataset
from corrhash.datasets.base import RetrievalSplit
from corrhash.datasets.reader import Reader
from corrhash.errors import InputError
from corrhash.methods.base import Hasher

TRAINING_FILE = "training.json"


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """What ``corrhash train`` leaves behind and every later command reads.

    Parameters
    ----------
    hasher : the method, fitted.
    reader : how raw pictures and strings become what the hasher reads.
    dataset, seed : what it was trained on; the seed decides who was held out as a query.
    """

    hasher: Hasher
    reader: Reader
    dataset: str
    seed: int

    def load_split(self, dataset: str) -> RetrievalSplit:
        """A dataset, split with the seed of the training and read with the reader of the model."""
        return load_dataset(dataset, seed=self.seed, reader=self.reader)

    def save(self, folder: str | Path) -> None:
        """Write the model into ``folder``."""
        self.hasher.save(folder)
        self.reader.save(folder)
        with atomic_write(Path(folder) / TRAINING_FILE) as file:
            file.write(json.dumps({"dataset": self.dataset, "seed": self.seed}).encode())

    @classmethod
    def load(cls, folder: str | Path, method: type[Hasher] = Hasher) -> TrainedModel:
        """Read what :meth:`save` wrote; ``method`` is the class, if it is not in ``METHODS``."""
        hasher = method.load(folder)
        path = Path(folder) / TRAINING_FILE
        try:
            training = json.loads(path.read_bytes())
            dataset, seed = str(training["dataset"]), int(training["seed"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"Cannot read {path} ({error}). Train the model again.") from error
        return cls(hasher, Reader.load(folder), dataset, seed)
