"""Files of ONNX encoders: find the network of a modality and how its inputs are prepared.

A source is an ``.onnx`` file or a folder. Settings come from ``encoder.json`` (or, for a file
``NAME.onnx``, from ``NAME.json``), else from the files that exports have beside them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from corrhash._files import cache_folder
from corrhash.errors import InputError, did_you_mean
from corrhash.networks.hub import HUB_ID, fetch_onnx
from corrhash.networks.preprocessing import Preprocessing, from_hub_settings

Modality = Literal["image", "text"]
MODALITIES: tuple[Modality, Modality] = ("image", "text")

SETTINGS_FILE = "encoder.json"
POOLING = ("first", "mean", "none")
DEFAULT_MAX_LENGTH = 512
MAX_LENGTH = 1 << 20
"""Tokenizers without a limit declare a huge number, such as 10^30."""

_TOWERS = {
    "image": ("vision_model", "visual/model", "model", "vision_model_quantized"),
    "text": ("text_model", "textual/model", "model", "text_model_quantized"),
}
"""Names of ONNX files by modality: Optimum and Transformers.js, Immich, and a single network."""

_QUANTIZED = "model_quantized"

KNOWN_FILES: dict[str, dict[str, Any]] = {
    # The file returns pooled patches; its class token is the row of an inner tensor.
    "dinov2_vits14_patch_8x8.onnx": {
        "output": "/norm/Add_1_output_0",
        "pooling": "first",
        "resample": "bicubic",
    },
    "tiny_vit_5m_224_in22k.onnx": {"resample": "bicubic"},
}
"""Settings of image encoders that are distributed without any, by file name."""


@dataclass(frozen=True)
class Tower:
    """The network of one modality, and how its inputs are prepared.

    Parameters
    ----------
    modality : ``image`` or ``text``.
    file : the ONNX file.
    output : name of the tensor to use, which can be an inner one; None chooses by name.
    pooling : of (n, length, d) outputs: ``first`` token or ``mean`` of all; ``none`` flattens.
        None is ``first`` for images and ``mean`` for texts.
    normalize : whether features are scaled to unit length.
    preprocessing : of images.
    channels_last : whether the network reads (n, height, width, 3).
    tokenizer : the ``tokenizer.json`` of a text encoder.
    max_length : number of tokens that texts are truncated to.
    pad_to_max : whether texts are padded to ``max_length``, as SigLIP requires.
    """

    modality: Modality
    file: Path
    output: str | None = None
    pooling: str | None = None
    normalize: bool = False
    preprocessing: Preprocessing | None = None
    channels_last: bool = False
    tokenizer: Path | None = None
    max_length: int = DEFAULT_MAX_LENGTH
    pad_to_max: bool = False

    def settings(self) -> dict[str, Any]:
        """Return everything that features depend on, except the content of the files."""
        names = ("output", "pooling", "normalize", "channels_last", "max_length", "pad_to_max")
        return {name: getattr(self, name) for name in names} | {
            "preprocessing": repr(self.preprocessing)
        }


def encoders_folder() -> Path:
    """Return the folder whose encoders can be called by name."""
    folder = os.environ.get("CORRHASH_ENCODERS")
    return Path(folder) if folder else cache_folder() / "encoders"


def local_path(source: str | Path) -> Path | None:
    """Return the path of a source: itself, or in the folder of encoders; None if not found."""
    path = Path(source)
    return next((each for each in (path, encoders_folder() / path) if each.exists()), None)


def locate(source: str | Path) -> Path:
    """Return the path of a source: a local one, or else in the cache of Hugging Face.

    A model on the hub is downloaded unless it is in that cache.
    """
    path = local_path(source)
    if path is not None or Path(source).is_absolute():
        return path or Path(source)
    if HUB_ID.fullmatch(str(source)):
        wanted = [
            [f"{place}{name}.onnx" for name in (*names, _QUANTIZED) for place in ("onnx/", "")]
            for names in _TOWERS.values()
        ]
        return fetch_onnx(str(source), wanted)
    return Path(source)


def find_tower(source: str | Path, modality: Modality) -> Tower:
    """Return the network of a modality in an ONNX file or a folder."""
    path = locate(source)
    if not path.exists():
        raise InputError(
            f"Encoder not found: {path}. Pass an .onnx file, a folder with one, or the hub id of a "
            "model. corrhash encoders lists those on this machine."
        )
    if path.is_file() and path.suffix != ".onnx":
        raise InputError(
            f"An ONNX encoder must be a folder or a file that ends in .onnx, got {path}."
        )
    declared = _declared(path)
    if declared is not None and modality not in declared:
        raise InputError(
            f"{path} has no {modality} encoder: its {SETTINGS_FILE} describes "
            f"{' and '.join(declared) or 'nothing'}. Choose an encoder of {modality}s."
        )
    settings = {} if declared is None else dict(declared[modality])
    folder = path if path.is_dir() else path.parent
    if "file" in settings:
        file = folder / str(settings.pop("file"))
    else:
        file = path if path.is_file() else _find_file(path, modality)
    if not file.is_file():
        raise InputError(
            f"{folder / SETTINGS_FILE} names {file}, which does not exist. Correct the name."
        )
    settings = {**KNOWN_FILES.get(file.name, {}), **settings}
    tower = Tower(modality, file, normalize=_is_aligned(folder) or modality == "text")
    if modality == "image":
        return _image_tower(tower, folder, settings)
    return _text_tower(tower, folder, settings)


def modalities_of(source: str | Path) -> list[Modality]:
    """Return the modalities that a source seems to have, without loading its networks."""
    path = Path(source)
    declared = _declared(path) if path.exists() else None
    if declared is not None:
        return [modality for modality in MODALITIES if modality in declared]
    if path.is_file():
        return ["text"] if _beside(path, path.parent, "tokenizer.json") else ["image"]
    if _is_aligned(path):
        return list(MODALITIES)
    if next(_onnx_files(path, "text"), None) is None:
        return []
    return ["text"] if (path / "tokenizer.json").is_file() else ["image"]


def _declared(path: Path) -> dict[str, Any] | None:
    """Return the settings by modality that a file declares; None if it does not exist."""
    file = path / SETTINGS_FILE if path.is_dir() else path.with_suffix(".json")
    content = _read_json(file)
    if content is None:
        return None
    if not all(isinstance(content.get(name, {}), Mapping) for name in MODALITIES):
        raise InputError(f"{file} must contain an object for 'image', for 'text' or for both.")
    if set(content) - set(MODALITIES):
        if path.is_file():
            return None  # a file of another program
        unknown = sorted(set(content) - set(MODALITIES))[0]
        raise InputError(f"Unknown entry {unknown!r} in {file}. Valid: image, text.")
    return content


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise ValueError("it is not a JSON object")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"Cannot read {path}: {error}. Correct or remove it.") from error
    return content


def _onnx_files(folder: Path, modality: Modality) -> Iterator[Path]:
    for name in (*_TOWERS[modality], _QUANTIZED):
        for place in (folder / "onnx", folder):
            file = place / f"{name}.onnx"
            if file.is_file():
                yield file


def _find_file(folder: Path, modality: Modality) -> Path:
    for file in _onnx_files(folder, modality):
        return file
    files = sorted(folder.glob("*.onnx"))
    if len(files) == 1:
        return files[0]
    expected = ", ".join(f"{name}.onnx" for name in _TOWERS[modality][:-1])
    raise InputError(
        f"No {modality} network found in {folder}: expected one of {expected}, there or in its "
        f"subfolder onnx. Set the file name in {SETTINGS_FILE}: "
        f'{{"{modality}": {{"file": "NAME.onnx"}}}}'
    )


def _is_aligned(folder: Path) -> bool:
    """Return whether a folder holds networks of both modalities, as CLIP exports do."""
    declared = _declared(folder) if folder.is_dir() else None
    if declared is not None:
        return len(declared) == len(MODALITIES)
    own = [next(_onnx_files(folder, modality), None) for modality in MODALITIES]
    return None not in own and own[0] != own[1]


def _beside(file: Path, folder: Path, *names: str) -> Path | None:
    """Return the first of some files that lies beside ``file`` or between it and ``folder``."""
    places = [file.parent, file.parent.parent] if file.parent.name == "onnx" else [file.parent]
    for place in dict.fromkeys([*places, folder]):
        for name in names:
            if (place / name).is_file():
                return place / name
    return None


def _image_tower(tower: Tower, folder: Path, settings: dict[str, Any]) -> Tower:
    known = ("resize", "crop", "keep_aspect", "resample", "mean", "std")
    given = {name: settings.pop(name) for name in known if name in settings}
    found = _beside(tower.file, folder, "preprocessor_config.json", "preprocess_cfg.json")
    if found is not None:
        preprocessing = from_hub_settings(_read_json(found) or {}, str(found))
    else:
        preprocessing = Preprocessing(resize=256, crop=224, keep_aspect=True)
    try:
        if "crop" in given and "resize" not in given:
            preprocessing = preprocessing.at_size(int(given.pop("crop")))
        preprocessing = replace(preprocessing, **_checked(given))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"Invalid image preprocessing for {tower.file}: {error}") from error
    names = ("output", "pooling", "normalize", "channels_last")
    return _apply(replace(tower, preprocessing=preprocessing), settings, names, known)


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """Return settings of a JSON file as :class:`Preprocessing` takes them."""
    values = dict(given)
    for name in ("mean", "std"):
        if name in values:
            colours = tuple(float(value) for value in values[name])
            if len(colours) != 3:
                raise ValueError(f"{name} must have 3 numbers, got {len(colours)}.")
            values[name] = colours
    if isinstance(values.get("resample"), str):
        values["resample"] = int(Image.Resampling[values["resample"].upper()])
    return values


def _text_tower(tower: Tower, folder: Path, settings: dict[str, Any]) -> Tower:
    named = settings.pop("tokenizer", None)
    if named is None:
        tokenizer = _beside(tower.file, folder, "tokenizer.json")
    else:
        tokenizer = folder / str(named)
    if tokenizer is None or not tokenizer.is_file():
        raise InputError(
            f"{tower.file} needs a tokenizer.json in its folder to encode texts. Copy the model's "
            "tokenizer.json there."
        )
    config = _json_beside(tower.file, folder, "config.json")
    of_text = {**config, **config.get("text_config", {})}
    siglip = str(of_text.get("model_type", "")).startswith("siglip")
    tower = replace(
        tower,
        tokenizer=tokenizer,
        output="pooler_output" if siglip else None,
        pooling=_declared_pooling(tower.file, folder),
        max_length=_max_length(tower.file, folder, tokenizer, of_text),
        pad_to_max=siglip,
    )
    names = ("output", "pooling", "normalize", "max_length", "pad_to_max")
    return _apply(tower, settings, names, ("tokenizer",))


def _json_beside(file: Path, folder: Path, name: str) -> dict[str, Any]:
    found = _beside(file, folder, name)
    return {} if found is None else _read_json(found) or {}


def _declared_pooling(file: Path, folder: Path) -> str | None:
    """Return the pooling in the file that sentence-transformers writes, if it exists."""
    declared = _json_beside(file, folder, "1_Pooling/config.json")
    first = declared.get("pooling_mode_cls_token") or declared.get("pooling_mode") == "cls"
    return "first" if first else "mean" if declared else None


def _max_length(file: Path, folder: Path, tokenizer: Path, config: dict[str, Any]) -> int:
    """Return the smallest of the limits that the files declare."""
    limits = [
        _json_beside(file, folder, "sentence_bert_config.json").get("max_seq_length"),
        _json_beside(file, folder, "tokenizer_config.json").get("model_max_length"),
        config.get("max_position_embeddings"),
        ((_read_json(tokenizer) or {}).get("truncation") or {}).get("max_length"),
    ]
    valid = [int(limit) for limit in limits if limit is not None and 0 < limit < MAX_LENGTH]
    return min(valid, default=DEFAULT_MAX_LENGTH)


def _apply(
    tower: Tower, settings: dict[str, Any], names: tuple[str, ...], more: tuple[str, ...]
) -> Tower:
    """Return a tower with settings of a JSON file; ``more`` are valid names used elsewhere."""
    for name in settings:
        if name not in names:
            valid = ["file", *names, *more]
            raise InputError(
                f"Unknown setting {name!r} of the {tower.modality} encoder {tower.file}."
                f"{did_you_mean(name, valid)} Valid: {', '.join(valid)}."
            )
    if settings.get("pooling") not in (None, *POOLING):
        raise InputError(f"pooling must be one of {', '.join(POOLING)}, got {settings['pooling']}.")
    return replace(tower, **settings)
