"""Hugging Face image and text encoders, from a local folder or by their hub id.

Needs the package ``transformers``: ``pip install 'corrhash[transformers]'``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Self

import torch
from torch import Tensor

from corrhash._files import file_sha256
from corrhash._model_files import check_name
from corrhash.errors import InputError, optional_packages
from corrhash.networks import HUB_PREFIX
from corrhash.networks.hub import announce_model, offline_for
from corrhash.networks.layers import Body
from corrhash.networks.preprocessing import HUB_SETTINGS, Preprocessing, from_hub_settings
from corrhash.networks.weights import NotDownloadedError

Modality = Literal["image", "text"]

# CLIP, SigLIP and similar models have a tower for each modality; only one of them is kept.
_TOWERS: dict[str, tuple[str, ...]] = {
    "image": ("vision_model", "visual_projection"),
    "text": ("text_model", "text_projection"),
}
CONFIGURATIONS = ("config.json", "preprocessor_config.json", "processor_config.json")
TOKENIZER_FILES = (
    *("config.json", "1_Pooling/config.json", "tokenizer.json", "tokenizer_config.json"),
    *("vocab.txt", "vocab.json", "merges.txt", "spiece.model"),
)
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


class HubEncoder(Body):
    """Base class of the encoders: a model and its pooled output.

    Parameters
    ----------
    source : folder or hub id of a model, with or without the prefix ``hf:``.
    frozen : keep the weights; otherwise they are fine-tuned.
    local_only : whether to download nothing.
    """

    modality: Modality

    def __init__(
        self, source: str | Path, *, frozen: bool = True, local_only: bool = False
    ) -> None:
        super().__init__()
        self.source = str(source).removeprefix(HUB_PREFIX)
        self.frozen = frozen
        self.model, self.pooling = _load_model(self.source, self.modality, local_only)
        self.model.requires_grad_(not frozen)
        self.train(not frozen)

    def train(self, mode: bool = True) -> Self:
        """Set the training mode; a frozen encoder stays in evaluation mode, without dropout."""
        return super().train(mode and not self.frozen)

    def _encode(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Return the (n, n_features) pooled output of the model."""
        with torch.no_grad() if self.frozen else nullcontext():
            get_features = getattr(self.model, f"get_{self.modality}_features", None)
            if get_features is None:
                return _pool(self.model(**inputs), inputs.get("attention_mask"), self.pooling)
            features = get_features(**inputs)
            # Recent versions return the whole output, earlier ones only the features.
            return features if torch.is_tensor(features) else features.pooler_output


class HubImageEncoder(HubEncoder):
    """(n, 3, size, size) normalized images -> (n, n_features), by a Hugging Face encoder."""

    modality = "image"

    def __init__(
        self, source: str | Path, *, frozen: bool = True, local_only: bool = False
    ) -> None:
        super().__init__(source, frozen=frozen, local_only=local_only)
        self.preprocessing = hub_preprocessing(self.source, local_only=local_only)
        image = torch.zeros(1, 3, self.preprocessing.crop, self.preprocessing.crop)
        self.n_features = _width(self, image)

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of normalized images."""
        return self._encode({"pixel_values": images})


class HubTextEncoder(HubEncoder):
    """Tokens of :meth:`tokenize` -> (n, n_features), by a Hugging Face encoder."""

    modality = "text"

    def __init__(
        self, source: str | Path, *, frozen: bool = True, local_only: bool = False
    ) -> None:
        super().__init__(source, frozen=frozen, local_only=local_only)
        self.tokenizer = _load(_library().AutoTokenizer, self.source, local_only)
        self.n_features = _width(self, self.tokenize(["a"]))

    def tokenize(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """Return (n, length) tensors for ``forward``, truncated to the model's maximum length."""
        config = getattr(self.model.config, "text_config", self.model.config)
        longest = min(self.tokenizer.model_max_length, config.max_position_embeddings)
        # SigLIP was trained on texts padded to full length, without a mask.
        siglip = config.model_type.startswith("siglip")
        tokens = self.tokenizer(
            list(texts),
            padding="max_length" if siglip else "longest",
            truncation=True,
            max_length=longest,
            return_attention_mask=not siglip,
            return_token_type_ids=False,  # all tokens belong to one text
            return_tensors="pt",
        )
        return dict(tokens)

    def forward(self, tokens: Mapping[str, Tensor]) -> Tensor:
        """Return the features of tokenized texts."""
        return self._encode(tokens)


def hub_preprocessing(source: str, *, local_only: bool = False) -> Preprocessing:
    """Return the preprocessing of an image encoder."""
    return as_preprocessing(_load(_library().AutoImageProcessor, source, local_only))


def hub_sha256(source: str, names: Sequence[str], *, local_only: bool = False) -> str:
    """Return one checksum over an encoder's weights and its files of these names."""
    _check_local(source, local_only)
    digest = hashlib.sha256()
    for name in [*names, *_weight_files(source, local_only)]:
        path = _hub_file(source, name, local_only)
        if path is not None:
            digest.update(f"{name} {file_sha256(path)}\n".encode())
    return digest.hexdigest()


def as_preprocessing(processor: Any) -> Preprocessing:
    """Translate a Hugging Face image processor into a Preprocessing."""
    settings = {name: getattr(processor, name, None) for name in HUB_SETTINGS}
    return from_hub_settings(settings, type(processor).__name__)


def _library() -> ModuleType:
    """The package ``transformers``, or an error that names the extra."""
    with optional_packages("A Hugging Face encoder"):
        import transformers
    return transformers


def _load(kind: Any, source: str, local_only: bool, **options: Any) -> Any:
    """Return ``kind.from_pretrained(source)``, without running code that comes with a model."""
    _check_local(source, local_only)
    if not local_only:
        announce_model(source)
    try:
        with offline_for(source, local_only):
            return kind.from_pretrained(
                source, trust_remote_code=False, local_files_only=local_only, **options
            )
    except Exception as error:  # the library raises many types
        raise _cannot_load(f"{source!r} with {kind.__name__}", error) from error


def _check_local(source: str, local_only: bool) -> None:
    """Raise an error if an encoder would have to be downloaded."""
    if local_only and not Path(source).is_dir() and _hub_file(source, "config.json", True) is None:
        raise NotDownloadedError(f"The model needs the encoder {HUB_PREFIX}{source}.")


def _cannot_load(what: str, error: Exception) -> InputError:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    return InputError(
        f"Cannot load {what}: {reason[0]} Pass a folder that save_pretrained wrote, or the "
        "hub id of a model that can be downloaded."
    )


def _load_model(source: str, modality: Modality, local_only: bool) -> tuple[Any, str]:
    """Return the model without the tower of the other modality, and the kind of pooling."""
    options = {"dtype": torch.float32, "output_loading_info": True}  # files may be float16
    model, report = _load(_library().AutoModel, source, local_only, **options)
    other = _TOWERS["text" if modality == "image" else "image"]
    for name in other:
        if hasattr(model, f"get_{modality}_features") and hasattr(model, name):
            delattr(model, name)
    missing = [key for key in report["missing_keys"] if not key.startswith(other)]
    lost = [key for key in missing if "pooler" not in key]
    if lost:
        raise InputError(f"{source!r} lacks the weights {lost[0]!r}. Download or save it again.")
    # Classifiers and language models are saved without a pooler: it would be random here.
    return model, "mean" if missing else _declared_pooling(source, local_only)


def _hub_file(source: str, name: str, local_only: bool) -> Path | None:
    """Return the path of a model's file, downloaded if needed; None if the model lacks it."""
    if not local_only:
        announce_model(source)
    try:
        with offline_for(source, local_only):
            path = _library().utils.cached_file(
                source,
                name,
                local_files_only=local_only,
                _raise_exceptions_for_missing_entries=False,
                _raise_exceptions_for_connection_errors=False,
            )
    except Exception as error:  # the library raises many types
        raise _cannot_load(repr(source), error) from error
    return None if path is None else Path(path)


def _weight_files(source: str, local_only: bool) -> list[str]:
    """Return the names of a model's weights files, in the format that the library prefers."""
    for name in _WEIGHTS:
        if _hub_file(source, name, local_only) is not None:
            return [name]
        index = _hub_file(source, f"{name}.index.json", local_only)
        if index is not None:
            listed = set(_read_config(index)["weight_map"].values())
            return sorted(check_name(index.parent, name) for name in listed)
    raise InputError(
        f"{source!r} has no weights ({' or '.join(_WEIGHTS)}). Pass a folder that save_pretrained "
        "wrote, or the hub id of a model that can be downloaded."
    )


def _read_config(path: Path) -> Any:
    """Return the content of a JSON file of a model."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _cannot_load(str(path), error) from error


def _declared_pooling(source: str, local_only: bool) -> str:
    """Return the pooling that a sentence encoder declares: mean or first; pooler if it does not.

    sentence-transformers writes the file next to the model.
    """
    path = _hub_file(source, "1_Pooling/config.json", local_only)
    if path is None:
        return "pooler"
    declared = _read_config(path)
    mode = declared.get("pooling_mode")
    if declared.get("pooling_mode_cls_token") or mode == "cls":
        return "first"
    return "mean"


def _pool(output: Any, mask: Tensor | None, pooling: str) -> Tensor:
    """Return the (n, n_features) pooled output of a model."""
    pooled = getattr(output, "pooler_output", None)
    if pooled is not None and pooling == "pooler":
        return pooled.flatten(1)  # convolutional networks keep a height and width of 1
    hidden = output.last_hidden_state  # (n, length, width), or (n, channels, height, width)
    if hidden.ndim == 4:
        return hidden.mean(dim=(2, 3))
    if pooling == "first":
        return hidden[:, 0]
    if mask is None:
        return hidden.mean(dim=1)
    weights = mask.unsqueeze(2).to(hidden.dtype)  # (n, length, 1)
    return (weights * hidden).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def _width(encoder: HubEncoder, inputs: Any) -> int:
    """Return the number of features, found by encoding ``inputs``."""
    training = encoder.training
    with torch.no_grad():
        width = encoder.eval()(inputs).shape[1]
    encoder.train(training)
    return int(width)
