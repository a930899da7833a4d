"""Pretrained weights: download published files, check them against a network, load them."""

from __future__ import annotations

import http.client
import pickle
import urllib.error
import urllib.request
import warnings
from dataclasses import dataclass
from pathlib import Path

import safetensors
import torch
from filelock import FileLock
from safetensors.torch import load_file
from torch import Tensor, nn

from corrhash._files import cache_folder, file_sha256
from corrhash._progress import report
from corrhash.errors import InputError
from corrhash.networks.hub import announce, check_online

CHUNK_BYTES = 1 << 20  # between two progress reports
TIMEOUT = 30.0  # seconds without a byte


class NotDownloadedError(InputError):
    """Raised for an encoder that a saved model names and that is not on this machine."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"{problem} It is not on this machine, and a model downloads nothing by itself. "
            "Pass --allow-download (in Python: allow_download=True) to download it."
        )


def download(url: str, sha256: str, folder: Path) -> Path:
    """Download a file into ``folder`` unless it is there, and check it; return its path.

    An interrupted download is resumed.

    Parameters
    ----------
    url : address of the file.
    sha256 : hexadecimal SHA-256 of the file, or the start of it.
    folder : target folder, created if missing.
    """
    target = folder / url.rsplit("/", 1)[1]
    part = target.with_name(f".{target.name}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.lock")):  # other processes wait
            if not (target.exists() and file_sha256(target).startswith(sha256)):
                _fetch(url, part)
                _check(url, part, sha256)
                part.replace(target)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(
            f"Cannot download {url} into {folder}: {reason}. Try again to resume the download, or "
            "download the file yourself and pass its path."
        ) from error
    return target


def _fetch(url: str, part: Path) -> None:
    """Append the missing bytes to ``part``, or start over if the server cannot resume."""
    have = part.stat().st_size if part.exists() else 0
    check_online(url.rsplit("/", 1)[1])
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        return  # the file is complete; the checksum decides whether it is correct
    with response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        announce(url, int(length or 0))
        with part.open("ab" if have else "wb") as file:
            while chunk := response.read(CHUNK_BYTES):
                have += file.write(chunk)
                _report_megabytes(url, have, total or have)
    if total is not None and have < total:
        raise ConnectionError(f"the connection broke after {have:,} of {total:,} bytes")


def _check(url: str, part: Path, sha256: str) -> None:
    """Raise InputError if the checksum differs, and remove the file."""
    found = file_sha256(part)
    if not found.startswith(sha256):
        part.unlink()
        raise InputError(
            f"The download of {url} is not the published file: its SHA-256 starts with "
            f"{found[: max(8, len(sha256))]}, not with {sha256}. It was removed. Try again, or "
            "download the file yourself and pass its path."
        )


def _report_megabytes(url: str, have: int, total: int) -> None:
    name = url.rsplit("/", 1)[1]
    report(f"Downloading {name} (MB)", round(have / 1e6), round(total / 1e6))


@dataclass(frozen=True)
class PublishedWeights:
    """URL of a weights file, and the start of its SHA-256."""

    url: str
    sha256: str


WEIGHTS = {
    "alexnet-imagenet": PublishedWeights(
        "https://download.pytorch.org/models/alexnet-owt-7be5be79.pth", sha256="7be5be79"
    ),
}
"""Published weights by name; torchvision's file names contain the start of the checksum."""


@dataclass(frozen=True)
class LoadedWeights:
    """Names of the parameters that were loaded from a file, and of those that it lacks."""

    source: str
    loaded: tuple[str, ...]
    from_scratch: tuple[str, ...]

    def __str__(self) -> str:
        scratch = ", ".join(self.from_scratch) or "nothing"
        return f"{len(self.loaded)} parameters from {self.source}; from scratch: {scratch}"


def load_weights(
    network: nn.Module,
    source: str | Path,
    *,
    required: tuple[str, ...] = ("",),
    ignored: tuple[str, ...] = (),
) -> LoadedWeights:
    """Copy weights from a file into a network.

    Parameters
    ----------
    network : the network to load into; unchanged if an error is raised.
    source : a ``.pth``, ``.pt`` or ``.safetensors`` file, or a name in ``WEIGHTS``, which is
        downloaded once into the cache folder.
    required : prefixes of the parameters that the file must have; by default all.
    ignored : prefixes of parameters in the file that the network does not have.
    """
    path = find_weights(source)
    found = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    wanted = network.state_dict()
    found = {name: value for name, value in found.items() if not name.startswith(ignored)}
    _check_fit(path, type(network).__name__, found, wanted, required)
    network.load_state_dict(found, strict=False)
    scratch = tuple(name for name in wanted if name not in found)
    return LoadedWeights(str(source), tuple(name for name in wanted if name in found), scratch)


def find_weights(source: str | Path, *, local_only: bool = False) -> Path:
    """Return the path of a weights file; download it if ``source`` is a name in ``WEIGHTS``.

    With ``local_only``, a download of an earlier command must be in the cache folder.
    """
    if str(source) in WEIGHTS:
        published = WEIGHTS[str(source)]
        path = cache_folder() / published.url.rsplit("/", 1)[1]
        if local_only and not path.is_file():
            raise NotDownloadedError(f"The model needs the weights file {source}.")
        return download(published.url, published.sha256, cache_folder())
    path = Path(source)
    if not path.is_file():
        raise InputError(
            f"Weights {str(source)!r} not found. Pass a file, or one of: {', '.join(WEIGHTS)}."
        )
    if path.suffix not in (".pth", ".pt", ".safetensors"):
        raise InputError(
            f"A weights file must end in .pth, .pt or .safetensors, got {path}. Save the network's "
            "state_dict in one of these formats."
        )
    return path


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise _unreadable(path, str(error)) from error


def _read_torch(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a pickled ``state_dict``, without running code from the file."""
    try:
        with warnings.catch_warnings(action="ignore"):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = "it is damaged, or contains pickled code, which is not run"
        raise _unreadable(path, reason) from error
    except Exception as error:  # a truncated pickle can fail in any way
        raise _unreadable(path, str(error) or type(error).__name__) from error
    if not isinstance(content, dict) or not all(torch.is_tensor(v) for v in content.values()):
        raise InputError(
            f"{path} contains a {type(content).__name__}, not a dictionary of tensors. Save the "
            "network's state_dict() only."
        )
    return content


def _unreadable(path: Path, reason: str) -> InputError:
    return InputError(
        f"Cannot read weights from {path}: {reason.strip().splitlines()[0]}. Download it again, or "
        "save the network's state_dict() only."
    )


def _check_fit(
    path: Path,
    network: str,
    found: dict[str, Tensor],
    wanted: dict[str, Tensor],
    required: tuple[str, ...],
) -> None:
    """Raise InputError for a parameter that is missing, unknown, of another shape or not finite."""
    way_out = f"Pass weights of {network}."
    for name in wanted:
        if name.startswith(required) and name not in found:
            raise InputError(f"{path} lacks {name!r}, which {network} needs. {way_out}")
    for name, value in found.items():
        if name not in wanted:
            raise InputError(f"{path} contains {name!r}, which {network} does not have. {way_out}")
        if value.shape != wanted[name].shape:
            raise InputError(
                f"{name!r} has shape {tuple(value.shape)} in {path}, but "
                f"{tuple(wanted[name].shape)} in {network}. {way_out}"
            )
        if not torch.isfinite(value).all():
            raise InputError(f"{name!r} in {path} is not finite. Download or save the file again.")
