"""Model: a fitted hasher with its reader and its training run, saved as one folder."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from corrhash._files import make_folder, replace_folder, temporary_name
from corrhash._model_files import Keys, check_keys, read_json, write_json
from corrhash.calibration import Calibration
from corrhash.datasets import Fingerprint, load_dataset
from corrhash.datasets.base import RetrievalSplit
from corrhash.datasets.image_features import ALEXNET, ONNX, SIMPLE, ImageFeatures, split_prefix
from corrhash.datasets.reader import READER_FILE, Reader
from corrhash.errors import InputError
from corrhash.methods.base import Hasher

TRAINING_FILE = "training.json"
TRAINING_FORMAT = "corrhash training 2"
TRAINING_KEYS: Keys = {
    **{"dataset": str, "seed": int, "options": dict, "supervision": str},
    "fingerprint": (dict, type(None)),
}


@dataclass(frozen=True)
class TrainingRun:
    """The data and supervision that a model was trained with.

    Parameters
    ----------
    dataset : name or path of the dataset.
    seed : seed of the split; it decides which items were held out as queries.
    options : options of the dataset, such as the size of a generated one.
    supervision : ``labels``, ``pseudo-labels``, ``pairs``, the name of a file of relevance
        judgments, or ``none``.
    fingerprint : fingerprint of the dataset and its split; None if unknown.
    """

    dataset: str
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    supervision: str = "none"
    fingerprint: Fingerprint | None = None

    def save(self, path: Path) -> None:
        """Write the run to a JSON file."""
        write_json(path.parent, path.name, TRAINING_FORMAT, asdict(self))

    @classmethod
    def load(cls, path: Path) -> TrainingRun | None:
        """Read what :meth:`save` wrote; None if the file does not exist."""
        try:
            content = read_json(path.parent, path.name, TRAINING_FORMAT, TRAINING_KEYS)
        except FileNotFoundError:
            return None
        if (found := content["fingerprint"]) is not None:
            keys = {"data": str, "split": str}
            content["fingerprint"] = Fingerprint(**check_keys(found, keys, str(path)))
        return cls(**content)


@dataclass(frozen=True, eq=False)
class Model:
    """Everything needed to encode new images and texts: what ``corrhash train`` writes.

    Parameters
    ----------
    hasher : the fitted method.
    reader : converts raw images and strings to the hasher's input; the default passes feature
        arrays through unchanged.
    training : the training run; None if unknown.
    calibration : probabilities that matches are relevant; None if the model is not calibrated.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> from corrhash.methods import METHODS
    >>> model = Model(METHODS["cvh"](n_bits=8).fit(make_pairs(100, seed=0)))
    >>> model.n_bits, len(model.fingerprint)
    (8, 32)
    """

    hasher: Hasher
    reader: Reader = field(default_factory=Reader)
    training: TrainingRun | None = None
    calibration: Calibration | None = None

    @property
    def n_bits(self) -> int:
        """Code length."""
        return self.hasher.n_bits

    @property
    def method(self) -> str:
        """Class name of the method, also for a model that was exported to ONNX."""
        return self.hasher.import_path.rpartition(":")[2]

    @property
    def reads_images(self) -> bool:
        """Whether the model can encode images here, rather than feature vectors only."""
        features = self.reader.image_features
        if features is None:
            return self.hasher.reads_images
        library = "onnxruntime" if features.name.startswith(ONNX) else "torch"
        return features.name == SIMPLE or (features.of_network and find_spec(library) is not None)

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits over everything that codes depend on.

        This covers the method, its parameters, the learned arrays and the reader, but neither file
        locations nor training settings nor the calibration: a moved model keeps its fingerprint.
        """
        digest = hashlib.sha256()
        vocabulary, features = self.reader.vocabulary, self.reader.image_features
        encoder = self.reader.text_features
        description = [
            self.hasher.import_path,
            _code_params(self.hasher),
            None if vocabulary is None else asdict(vocabulary),
            None if features is None else _describe_features(features),
        ]
        if encoder is not None:
            description.append([split_prefix(encoder.name)[0], encoder.sha256])
        digest.update(json.dumps(description, sort_keys=True).encode())
        for name, array in sorted(self.hasher.learned().items()):
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:32]

    def save(self, folder: str | Path) -> None:
        """Write the model to ``folder``, replacing a model that is there.

        All files are written to a temporary folder first, so that a folder never mixes the files
        of two models.
        """
        folder = Path(folder)
        check_model_folder(folder)
        new = make_folder(temporary_name(folder))
        try:
            self.hasher.save(new)
            self.reader.save(new)
            if self.training is not None:
                self.training.save(new / TRAINING_FILE)
            if self.calibration is not None:
                self.calibration.save(new)
            replace_folder(new, folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    @classmethod
    def load(
        cls, folder: str | Path, method: type[Hasher] = Hasher, *, allow_download: bool = False
    ) -> Model:
        """Read what :meth:`save` wrote, after verifying the checksum of every file.

        Parameters
        ----------
        folder : the model folder.
        method : class of the hasher, if it is not in ``METHODS``.
        allow_download : whether published weights or a Hugging Face encoder that the model names
            may be downloaded. By default they must be on this machine.
        """
        hasher = method.load(folder, allow_download=allow_download)
        reader = Reader.load(folder, allow_download=allow_download)
        training = TrainingRun.load(Path(folder) / TRAINING_FILE)
        return cls(hasher, reader, training, Calibration.load(Path(folder), hasher.n_bits))

    def load_split(self, dataset: str, root: str | Path | None = None) -> RetrievalSplit:
        """Load a dataset with the training split and this model's reader.

        The data may have moved but not changed; otherwise a training item could become a query.
        """
        if self.training is None:
            raise InputError(
                "The model has no training record, so the split is unknown. Use a model folder "
                "written by corrhash train."
            )
        run, options = self.training, dict(self.training.options)
        if root is not None:
            options["root"] = str(root)
        split = load_dataset(dataset, seed=run.seed, reader=self.reader, **options)
        if run.fingerprint not in (None, split.fingerprint):
            raise InputError(
                f"{dataset} is not the dataset the model was trained on ({run.dataset}): expected "
                f"fingerprint {run.fingerprint}, got {split.fingerprint}. Training items may have "
                "become queries. Restore the original data or train again."
            )
        return split


def load_model(
    folder: str | Path, method: type[Hasher] = Hasher, *, allow_download: bool = False
) -> Model:
    """Load a model folder: the same as :meth:`Model.load`."""
    return Model.load(folder, method, allow_download=allow_download)


def as_model(
    model: Model | str | Path, method: type[Hasher] = Hasher, *, allow_download: bool = False
) -> Model:
    """Return ``model`` itself, or load it if it is the path of a model folder."""
    if isinstance(model, Model):
        return model
    if not isinstance(model, (str, Path)):
        raise InputError(
            f"model must be a Model or the path of a model folder, got {type(model).__name__}. "
            "Wrap a fitted hasher: Model(hasher, reader)."
        )
    return Model.load(model, method, allow_download=allow_download)


def check_model_folder(folder: str | Path) -> None:
    """Raise an error if a model cannot be saved to ``folder``; call it before training."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file. Choose a folder for the model.")
    if folder.exists() and any(folder.iterdir()) and not (folder / READER_FILE).exists():
        raise InputError(
            f"{folder} contains files that are not a model. Choose a new or empty folder."
        )
    make_folder(folder.absolute().parent)


def _code_params(hasher: Hasher) -> dict[str, Any]:
    """The parameters of a method that can influence codes after training."""
    params = hasher.plain_params()
    params.pop("training", None)
    if "networks" in params:  # the path of the initial weights; the learned arrays replace them
        params["networks"].pop("image_weights", None)
    return params


def _describe_features(features: ImageFeatures) -> list[str | None]:
    """Identify image features, by checksum where their name is the path of a file or folder."""
    if features.sha256 is None or features.name in ALEXNET:
        return [features.name, features.sha256]
    return [split_prefix(features.name)[0] or None, features.sha256]
