"""Weights from a local file or a published one, checked against the network before they go in."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path

import safetensors
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from corrhash.cache_folder import cache_folder
from corrhash.errors import InputError
from corrhash.networks.download import download


@dataclass(frozen=True)
class PublishedWeights:
    """A file of weights on the web, and the digits that its SHA-256 begins with."""

    url: str
    sha256: str


WEIGHTS = {
    "alexnet-imagenet": PublishedWeights(
        "https://download.pytorch.org/models/alexnet-owt-7be5be79.pth", sha256="7be5be79"
    ),
}
"""Names of published weights; torchvision writes the beginning of the checksum into file names."""


@dataclass(frozen=True)
class LoadedWeights:
    """Which parameters of a network came out of a file, and which start from scratch."""

    source: str
    loaded: tuple[str, ...]
    from_scratch: tuple[str, ...]

    def __str__(self) -> str:
        scratch = ", ".join(self.from_scratch) or "nothing"
        return f"{len(self.loaded)} parameters from {self.source}; from scratch: {scratch}"


def load_weights(network: nn.Module, source: str | Path) -> LoadedWeights:
    """Copy weights into a network, all that fit or none.

    A network may name its ``trunk``, beginnings of the parameters that a file must have, and what
    is ``left_out`` of it, beginnings of parameters that files have and the network has not.
    Without these, a file must hold every parameter.

    Parameters
    ----------
    network : what to load into; it stays as it is if an error is raised.
    source : a ``.pth``, ``.pt`` or ``.safetensors`` file, or a name in ``WEIGHTS``, which is
        downloaded once into the cache folder.
    """
    path = find_weights(source)
    found = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    wanted = network.state_dict()
    left_out = getattr(network, "left_out", ())
    found = {name: value for name, value in found.items() if not name.startswith(left_out)}
    _check_fit(path, type(network).__name__, found, wanted, getattr(network, "trunk", ("",)))
    network.load_state_dict(found, strict=False)
    scratch = tuple(name for name in wanted if name not in found)
    return LoadedWeights(str(source), tuple(name for name in wanted if name in found), scratch)


def find_weights(source: str | Path) -> Path:
    """The local file of weights, after a download if ``source`` is a name in ``WEIGHTS``."""
    if str(source) in WEIGHTS:
        published = WEIGHTS[str(source)]
        return download(published.url, published.sha256, cache_folder())
    path = Path(source)
    if not path.is_file():
        raise InputError(
            f"There are no weights {str(source)!r}: no such file, and no such name. "
            f"Give a file, or one of: {', '.join(WEIGHTS)}."
        )
    if path.suffix not in (".pth", ".pt", ".safetensors"):
        raise InputError(
            f"Weights are files that end in .pth, .pt or .safetensors. Got {path}. "
            "Save the network's state_dict in one of these formats."
        )
    return path


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise _unreadable(path, str(error)) from error


def _read_torch(path: Path) -> dict[str, Tensor]:
    """The tensors of a pickled ``state_dict``; code in the file is never run."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of odd pickles; they fail, or are fine
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = "it is damaged, or holds pickled code, which is never run"
        raise _unreadable(path, reason) from error
    except Exception as error:  # a truncated pickle can fail in any way
        raise _unreadable(path, str(error) or type(error).__name__) from error
    if not isinstance(content, dict) or not all(torch.is_tensor(v) for v in content.values()):
        raise InputError(
            f"{path} holds a {type(content).__name__} that is not a table of tensors. "
            "Save the network's state_dict() alone."
        )
    return content


def _unreadable(path: Path, reason: str) -> InputError:
    return InputError(
        f"{path} cannot be read as weights: {reason.strip().splitlines()[0]}. "
        "Fetch it again, or save the network's state_dict() alone."
    )


def _check_fit(
    path: Path,
    network: str,
    found: dict[str, Tensor],
    wanted: dict[str, Tensor],
    trunk: tuple[str, ...],
) -> None:
    """Complain about the first parameter that is missing, strange, mis-shaped or not finite."""
    way_out = f"Give weights of {network}."
    for name in wanted:
        if name.startswith(trunk) and name not in found:
            raise InputError(f"{path} lacks {name!r}, which {network} needs. {way_out}")
    for name, value in found.items():
        if name not in wanted:
            raise InputError(f"{path} holds {name!r}, which {network} does not have. {way_out}")
        if value.shape != wanted[name].shape:
            raise InputError(
                f"{name!r} is {tuple(value.shape)} in {path}, but {tuple(wanted[name].shape)} in "
                f"{network}. {way_out}"
            )
        if not torch.isfinite(value).all():
            raise InputError(f"{name!r} in {path} is not finite. Fetch or save the file again.")
