"""Check that every image of a dataset can be decoded, once, before training."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from corrhash._files import atomic_write, cache_folder, make_folder
from corrhash._progress import report
from corrhash.datasets.base import PARTS, RetrievalSplit
from corrhash.datasets.images import (
    HEIF_SUFFIXES,
    UNREADABLE,
    ImageFiles,
    decode_image,
    enable_heif,
    n_threads,
)
from corrhash.errors import InputError

REPORT_EVERY = 100
SHOWN = 3

log = logging.getLogger("corrhash")


@dataclass(frozen=True)
class ImageCheck:
    """Result of decoding every image.

    Parameters
    ----------
    n : number of images.
    missing : rows of files that do not exist.
    damaged : rows of files that cannot be decoded, with the reasons.
    list_file : the file that lists the damaged images.
    """

    n: int
    missing: tuple[int, ...]
    damaged: dict[int, str]
    list_file: Path | None = None

    @property
    def readable(self) -> np.ndarray:
        """(n,) True for images that can be decoded."""
        mask = np.ones(self.n, dtype=bool)
        mask[[*self.missing, *self.damaged]] = False
        return mask


def check_images(files: ImageFiles) -> ImageCheck:
    """Decode every image, in threads; the result is cached until a file changes."""
    states = [_state(path) for path in files.paths]
    heif = any(path.suffix.lower() in HEIF_SUFFIXES for path in files.paths) and enable_heif()
    missing = tuple(row for row, state in enumerate(states) if not state)
    existing = [row for row, state in enumerate(states) if state]
    key = "\n".join([*states, *["with HEIF"] * heif])
    name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    list_file = cache_folder() / "images" / f"{name}.txt"
    damaged = _read_list(list_file)
    if damaged is None:
        reasons = dict(zip(existing, _reasons([files.paths[row] for row in existing]), strict=True))
        damaged = {row: reason for row, reason in reasons.items() if reason}
        _write_list(list_file, damaged, files)
    return ImageCheck(len(files), missing, damaged, list_file if damaged else None)


def drop_unreadable(split: RetrievalSplit) -> RetrievalSplit:
    """Return the split without the items whose images cannot be decoded, and log them."""
    files = split.pairs.images
    check = check_images(files)
    kept = check.readable
    if kept.all():
        return split
    if not kept.any():
        first = files.paths[0]
        raise InputError(
            f"None of the {len(files):,} images of {split.name} can be decoded; the first is "
            f"{first}. Check the folder of the images, or pass features: "
            "--image-features FILE.npy."
        )
    _log(split, check)
    counts = {**split.counts, "readable images": int(kept.sum())}
    smaller = replace(split.only(kept), counts=counts)
    for part in ("train", "query"):
        if not len(getattr(smaller, f"{part}_rows")):
            raise InputError(f"No image of the {part} part of {split.name} can be decoded.")
    return smaller


def _log(split: RetrievalSplit, check: ImageCheck) -> None:
    """Log how many images are skipped in each part, and why."""
    lost = ~check.readable
    parts = (f"{part} {int(lost[getattr(split, f'{part}_rows')].sum()):,}" for part in PARTS)
    log.warning(
        "%s: skipping %s of %s images (%s): %s missing, %s damaged.",
        split.name,
        f"{int(lost.sum()):,}",
        f"{check.n:,}",
        ", ".join(parts),
        f"{len(check.missing):,}",
        f"{len(check.damaged):,}",
    )
    for row, reason in [*check.damaged.items()][:SHOWN]:
        log.warning("  %s: %s", split.pairs.images.paths[row], reason)
    if check.list_file is not None:
        log.warning("  All damaged files: %s", check.list_file)


def _reasons(paths: list[Path]) -> Iterable[str]:
    """Yield why each image cannot be decoded; empty if it can."""
    with ThreadPoolExecutor(n_threads()) as pool:
        for done, reason in enumerate(pool.map(_reason, paths), 1):
            if done % REPORT_EVERY == 0 or done == len(paths):
                report("Checking images", done, len(paths))
            yield reason


def _reason(path: Path) -> str:
    try:
        decode_image(path)
    except UNREADABLE as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""


def _state(path: Path) -> str:
    """Return what identifies a file, as in the feature cache; empty if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{path.absolute()}\t{status.st_size}\t{status.st_mtime_ns}"


def _read_list(path: Path) -> dict[int, str] | None:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        cells = [line.split("\t") for line in lines if not line.startswith("#")]
        return {int(row): reason for row, _, reason in cells}
    except (OSError, ValueError):
        return None


def _write_list(path: Path, damaged: dict[int, str], files: ImageFiles) -> None:
    lines = [f"# {len(damaged):,} of {len(files):,} images cannot be decoded: row, file, reason"]
    for row, reason in damaged.items():
        shown = " ".join(str(files.paths[row]).split())  # a name with a tab would break the line
        lines.append(f"{row}\t{shown}\t{reason}")
    make_folder(path.parent)
    with atomic_write(path) as file:
        file.write("\n".join([*lines, ""]).encode("utf-8", "backslashreplace"))
