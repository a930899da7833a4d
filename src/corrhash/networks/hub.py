"""Models on the Hugging Face Hub: find them in its cache, or announce and download their files."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from corrhash._files import is_offline
from corrhash._progress import report
from corrhash.errors import InputError, optional_packages

log = logging.getLogger("corrhash")

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
SETTINGS = re.compile(r"([\w.-]+/)?[\w.-]+\.(json|txt)|1_Pooling/config\.json")
"""Small files that describe a model: configuration, preprocessing, tokenizer."""


def hub_cache() -> Path:
    """Return the cache folder of Hugging Face libraries."""
    if folder := os.environ.get("HF_HUB_CACHE"):
        return Path(folder)
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    return Path(home) / "hub"


def cached_snapshot(hub_id: str) -> Path | None:
    """Return the folder of a model in the cache; None if it is not there."""
    folder = hub_cache() / f"models--{hub_id.replace('/', '--')}"
    try:
        commit = (folder / "refs" / "main").read_text().strip()
    except OSError:
        return None
    snapshot = folder / "snapshots" / commit
    return snapshot if snapshot.is_dir() else None


def fetch_onnx(hub_id: str, wanted: Sequence[Sequence[str]]) -> Path:
    """Return the folder of a model with its ONNX files: of each list, the first that it has.

    Files in the cache are not downloaded again. A download is announced with its size.
    """
    snapshot = cached_snapshot(hub_id)
    if snapshot is not None and any((snapshot / n).is_file() for names in wanted for n in names):
        return snapshot
    check_online(f"onnx:{hub_id}")
    sizes = remote_sizes(hub_id)
    found = [next((name for name in names if name in sizes), None) for names in wanted]
    networks = list(dict.fromkeys(name for name in found if name is not None))
    if not networks:
        raise InputError(
            f"{hub_id} has no ONNX file with an expected name, such as {wanted[0][0]}. Choose a "
            "model that is published in ONNX format, or pass a local file or folder."
        )
    networks += [f"{name}_data" for name in networks if f"{name}_data" in sizes]
    names = [name for name in sizes if SETTINGS.fullmatch(name)] + networks
    announce(hub_id, sum(sizes[name] for name in names))
    for done, name in enumerate(names):
        report(f"Downloading {hub_id} (files)", done, len(names))
        path = _download(hub_id, name)
    return _root(Path(path), name)


def check_online(what: str) -> None:
    """Raise an error if downloads are switched off."""
    if is_offline():
        raise InputError(
            f"{what} is not on this machine, and downloads are disabled: by --offline, by the "
            "environment variable CORRHASH_OFFLINE, or because a saved model requests the "
            "download. Pass --allow-download, or a local folder: corrhash encoders lists them."
        )


@contextmanager
def offline_for(source: str, local_only: bool) -> Iterator[None]:
    """Keep the hub library off the network, which it contacts even to read local files.

    This applies to folders, and with ``local_only`` to every source.
    """
    constants = _library().constants
    with _offline_lock:
        before = constants.HF_HUB_OFFLINE
        constants.HF_HUB_OFFLINE = before or local_only or Path(source).is_dir()
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before


_offline_lock = RLock()


def announce(what: str, n_bytes: int) -> None:
    """Log what is downloaded and how large it is."""
    log.warning("Downloading %s: %s MB.", what, f"{max(1, round(n_bytes / 1e6)):,}")


def announce_model(hub_id: str) -> None:
    """Announce the download of a whole model, if it is neither a folder nor in the cache."""
    if Path(hub_id).exists() or not HUB_ID.fullmatch(hub_id) or cached_snapshot(hub_id):
        return
    check_online(f"hf:{hub_id}")
    try:
        sizes = remote_sizes(hub_id)
    except InputError:
        return  # loading the model reports the reason
    weights = [name for name in sizes if name.endswith(".safetensors")]
    weights = weights or [name for name in sizes if name.endswith(".bin")]
    used = {*weights, *(name for name in sizes if SETTINGS.fullmatch(name))}
    announce(hub_id, sum(sizes[name] for name in used))


def remote_sizes(hub_id: str) -> dict[str, int]:
    """Return the sizes of a model's files on the hub, in bytes."""
    hub = _library()
    try:
        info = hub.HfApi(endpoint=_endpoint()).model_info(hub_id, files_metadata=True, timeout=10)
    except Exception as error:  # the library raises many types
        raise InputError(
            f"Cannot reach {hub_id} on the Hugging Face Hub: {_line(error)}"
        ) from error
    return {file.rfilename: int(file.size or 0) for file in info.siblings or []}


def _download(hub_id: str, name: str) -> str:
    try:
        return str(_library().hf_hub_download(hub_id, name, endpoint=_endpoint()))
    except Exception as error:
        raise InputError(
            f"Cannot download {name} of {hub_id}: {_line(error)} Try again to resume the download."
        ) from error


def _root(path: Path, name: str) -> Path:
    """Return the folder below which a file has this name."""
    for _ in name.split("/"):
        path = path.parent
    return path


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT")


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _library() -> Any:
    with optional_packages("Downloading from the Hugging Face Hub"):
        import huggingface_hub
    return huggingface_hub
