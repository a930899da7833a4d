"""Image and text encoders of Hugging Face, from a local folder or by their name on the hub.

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
from torch import Tensor, nn

from corrhash.checksum import file_sha256
from corrhash.errors import InputError
from corrhash.networks.pixels import Preprocessing

Side = Literal["image", "text"]

PREFIX = "hf:"
# CLIP, SigLIP and their relatives hold a tower for each side; only one of them is wanted.
_TOWERS: dict[str, tuple[str, ...]] = {
    "image": ("vision_model", "visual_projection"),
    "text": ("text_model", "text_projection"),
}
_CONFIGURATIONS = ("config.json", "preprocessor_config.json", "processor_config.json")
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_CONVNEXT_SQUARE = 384  # from this side on, ConvNeXt squeezes pictures instead of cutting them


class HubEncoder(nn.Module):
    """What image and text encoders have in common: a model, frozen or not, and its pooled output.

    Parameters
    ----------
    source : ``hf:`` and a folder or the name of a model on the hub; the prefix may be left out.
    frozen : keep the encoder as it is; otherwise it is trained along.
    """

    side: Side

    def __init__(self, source: str | Path, *, frozen: bool = True) -> None:
        super().__init__()
        self.source = str(source).removeprefix(PREFIX)
        self.frozen = frozen
        self.model, self.pooling = _load_model(self.source, self.side)
        self.model.requires_grad_(not frozen)
        self.train(not frozen)

    def train(self, mode: bool = True) -> Self:
        """Training mode, which a frozen encoder never enters: its dropout stays silent."""
        return super().train(mode and not self.frozen)

    def _encode(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """(n, n_features) pooled output of the model."""
        with torch.no_grad() if self.frozen else nullcontext():
            get_features = getattr(self.model, f"get_{self.side}_features", None)
            if get_features is None:
                return _pool(self.model(**inputs), inputs.get("attention_mask"), self.pooling)
            features = get_features(**inputs)
            # Recent versions hand out the whole output, earlier ones the features alone.
            return features if torch.is_tensor(features) else features.pooler_output


class HubImageEncoder(HubEncoder):
    """(n, 3, side, side) normalised pictures -> (n, n_features), by an encoder of Hugging Face."""

    side = "image"

    def __init__(self, source: str | Path, *, frozen: bool = True) -> None:
        super().__init__(source, frozen=frozen)
        self.preprocessing = hub_preprocessing(self.source)
        picture = torch.zeros(1, 3, self.preprocessing.crop, self.preprocessing.crop)
        self.n_features = _width(self, picture)

    def forward(self, pictures: Tensor) -> Tensor:
        """Features of normalised pictures."""
        return self._encode({"pixel_values": pictures})


class HubTextEncoder(HubEncoder):
    """Sentences -> (n, n_features), by an encoder of Hugging Face; see :meth:`tokenise`."""

    side = "text"

    def __init__(self, source: str | Path, *, frozen: bool = True) -> None:
        super().__init__(source, frozen=frozen)
        self.tokenizer = _load(_library().AutoTokenizer, self.source)
        self.n_features = _width(self, self.tokenise(["a"]))

    def tokenise(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """What ``forward`` reads: (n, length) tensors, cut to what the model can take in."""
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
            return_token_type_ids=False,  # there is one text an item, so they say nothing
            return_tensors="pt",
        )
        return dict(tokens)

    def forward(self, tokens: Mapping[str, Tensor]) -> Tensor:
        """Features of tokenised texts."""
        return self._encode(tokens)


def hub_preprocessing(source: str) -> Preprocessing:
    """How an image encoder wants its pictures."""
    return as_preprocessing(_load(_library().AutoImageProcessor, source))


def hub_sha256(source: str) -> str:
    """One checksum over the files that decide on the features of an image encoder."""
    digest = hashlib.sha256()
    for name in [*_CONFIGURATIONS, *_weight_files(source)]:
        path = _hub_file(source, name)
        if path is not None:
            digest.update(f"{name} {file_sha256(path)}\n".encode())
    return digest.hexdigest()


def as_preprocessing(processor: Any) -> Preprocessing:
    """What an image processor of Hugging Face does to pictures, in our words."""
    shorter = processor.size.get("shortest_edge")
    resize = shorter or _square(processor, processor.size)
    cuts = getattr(processor, "do_center_crop", None)
    crop = _square(processor, processor.crop_size) if cuts else resize
    keep_aspect = shorter is not None
    share = getattr(processor, "crop_pct", None)
    if share is not None:
        keep_aspect = resize < _CONVNEXT_SQUARE
        resize = int(resize / share) if keep_aspect else resize
    if processor.do_normalize:
        mean, deviation = tuple(processor.image_mean), tuple(processor.image_std)
    else:
        mean, deviation = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    return Preprocessing(
        resize=max(resize, crop),
        crop=crop,
        keep_aspect=keep_aspect,
        resample=int(processor.resample),
        mean=mean,
        deviation=deviation,
    )


def _square(processor: Any, size: Any) -> int:
    """The side of the squares that a processor makes of all pictures."""
    height, width = size.get("height"), size.get("width")
    if height is None or height != width:
        raise InputError(
            f"{type(processor).__name__} makes pictures of {height} x {width} pixels. "
            "Choose an encoder that reads squares of one size."
        )
    return int(height)


def _library() -> ModuleType:
    """The package ``transformers``, or an error that names the extra."""
    try:
        import transformers
    except ImportError as error:
        raise InputError(
            "Encoders of Hugging Face need the package transformers. "
            "Install it: pip install 'corrhash[transformers]'"
        ) from error
    return transformers


def _load(kind: Any, source: str, **options: Any) -> Any:
    """``kind.from_pretrained(source)``; code that comes with a model is never run."""
    try:
        return kind.from_pretrained(source, trust_remote_code=False, **options)
    except Exception as error:  # the library raises errors of many kinds
        raise _cannot_load(f"{source!r} with {kind.__name__}", error) from error


def _cannot_load(what: str, error: Exception) -> InputError:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    return InputError(
        f"Cannot load {what}: {reason[0]} Give a folder that save_pretrained wrote, or the name of "
        "a model on the hub that can be reached."
    )


def _load_model(source: str, side: Side) -> tuple[Any, str]:
    """The model without the tower of the other side, and how its output is pooled."""
    options = {"dtype": torch.float32, "output_loading_info": True}  # files may hold half of it
    model, report = _load(_library().AutoModel, source, **options)
    other = _TOWERS["text" if side == "image" else "image"]
    for name in other:
        if hasattr(model, f"get_{side}_features") and hasattr(model, name):
            delattr(model, name)
    missing = [key for key in report["missing_keys"] if not key.startswith(other)]
    lost = [key for key in missing if "pooler" not in key]
    if lost:
        raise InputError(f"{source!r} lacks the weights {lost[0]!r}. Fetch or save it again.")
    # A classifier or a language model was saved without the pooler, which would be random here.
    return model, "mean" if missing else _declared_pooling(source)


def _hub_file(source: str, name: str) -> Path | None:
    """A file of a model, fetched if need be; None if the model has no such file."""
    try:
        path = _library().utils.cached_file(
            source,
            name,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except Exception as error:  # the library raises errors of many kinds
        raise _cannot_load(repr(source), error) from error
    return None if path is None else Path(path)


def _weight_files(source: str) -> list[str]:
    """The files of a model's weights: of several kinds, the one that the library prefers."""
    for name in _WEIGHTS:
        if _hub_file(source, name) is not None:
            return [name]
        index = _hub_file(source, f"{name}.index.json")
        if index is not None:
            return sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    raise InputError(
        f"{source!r} holds no weights ({' or '.join(_WEIGHTS)}). Give a folder that "
        "save_pretrained wrote, or the name of a model on the hub that can be reached."
    )


def _declared_pooling(source: str) -> str:
    """How a sentence encoder says that it is pooled: "mean", "first", or "pooler" if it does not.

    The file is the one that sentence-transformers writes beside the model.
    """
    path = _hub_file(source, "1_Pooling/config.json")
    if path is None:
        return "pooler"
    declared = json.loads(path.read_bytes())
    mode = declared.get("pooling_mode")
    if declared.get("pooling_mode_cls_token") or mode == "cls":
        return "first"
    return "mean"


def _pool(output: Any, mask: Tensor | None, pooling: str) -> Tensor:
    """(n, n_features) of a model's output."""
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
    """How many features come out, by trying."""
    training = encoder.training
    with torch.no_grad():
        width = encoder.eval()(inputs).shape[1]
    encoder.train(training)
    return int(width)
