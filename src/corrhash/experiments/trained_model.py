"""TrainedModel: a hasher with its reader and what it was trained on, as a folder on disk."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from corrhash.atomic_write import make_folder
from corrhash.datasets import Fingerprint, load_dataset
from corrhash.datasets.base import RetrievalSplit
from corrhash.datasets.reader import Reader
from corrhash.errors import InputError
from corrhash.methods.base import Hasher
from corrhash.saved_model import TRAINING_FILE, load_model, read_training, save_model


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """What ``corrhash train`` leaves behind and every later command reads.

    Parameters
    ----------
    hasher : the method, fitted.
    reader : how raw pictures and strings become what the hasher reads.
    dataset, seed : what it was trained on; the seed decides who was held out as a query.
    options : of the dataset, such as its size where it is generated.
    supervision : what it was taught with: labels, words, pairs, a file of judged pairs, or none.
    fingerprint : of the data and its split at training, if it was loaded by name or place.
    """

    hasher: Hasher
    reader: Reader
    dataset: str
    seed: int
    options: dict[str, Any] = field(default_factory=dict)
    supervision: str = "none"
    fingerprint: Fingerprint | None = None

    def load_split(self, dataset: str, root: str | Path | None = None) -> RetrievalSplit:
        """A dataset, split with the seed of the training and read with the reader of the model.

        Data may have moved, but not changed: what was trained on could have become a query.
        """
        options = dict(self.options)
        if root is not None:
            options["root"] = str(root)
        split = load_dataset(dataset, seed=self.seed, reader=self.reader, **options)
        if self.fingerprint not in (None, split.fingerprint):
            raise InputError(
                f"{dataset} is not what the model was trained on ({self.dataset}): its fingerprint "
                f"was {self.fingerprint}, and is {split.fingerprint}. What was trained on may be a "
                "query now: put back what was there, or train again."
            )
        return split

    @property
    def training(self) -> dict[str, Any]:
        """What is kept beside hasher and reader."""
        return {
            "dataset": self.dataset,
            "seed": self.seed,
            "options": self.options,
            "supervision": self.supervision,
            "fingerprint": None if self.fingerprint is None else asdict(self.fingerprint),
        }

    def save(self, folder: str | Path) -> None:
        """Write the model into ``folder``, in place of what is there.

        All files are written beside it first, so that they always belong to one training.
        """
        check_model_folder(folder)
        save_model(Path(folder), self.hasher, self.reader, self.training)

    @classmethod
    def load(cls, folder: str | Path, method: type[Hasher] = Hasher) -> TrainedModel:
        """Read what :meth:`save` wrote; ``method`` is the class, if it is not in ``METHODS``."""
        hasher, reader = load_model(folder, method)
        path, training = Path(folder) / TRAINING_FILE, read_training(folder)
        if training is None:
            raise InputError(f"There is no {path}. Give a folder that corrhash train wrote.")
        try:
            dataset, seed = str(training["dataset"]), int(training["seed"])
            options, supervision = dict(training["options"]), str(training["supervision"])
            digits = training["fingerprint"]
            fingerprint = None if digits is None else Fingerprint(**digits)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"Cannot read {path} ({error}). Train the model again.") from error
        return cls(hasher, reader, dataset, seed, options, supervision, fingerprint)


def check_model_folder(folder: str | Path) -> None:
    """Whether a model may be written here, asked before the work of training one."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file. Give a folder for the model.")
    others = folder.exists() and any(folder.iterdir()) and not (folder / TRAINING_FILE).exists()
    if others:
        raise InputError(
            f"{folder} holds files that are not a model. Choose a new or empty folder."
        )
    make_folder(folder.absolute().parent)
