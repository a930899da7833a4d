"""Which pictures of a dataset cannot be read, found out once, before anything is learned."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from corrhash.atomic_write import atomic_write, make_folder
from corrhash.cache_folder import cache_folder
from corrhash.datasets.base import PARTS, RetrievalSplit
from corrhash.datasets.image_files import ImageFiles, n_threads
from corrhash.datasets.open_picture import UNREADABLE, open_picture
from corrhash.errors import InputError
from corrhash.progress import report

REPORT_EVERY = 100
SHOWN = 3

log = logging.getLogger("corrhash")


@dataclass(frozen=True)
class PictureCheck:
    """What came of opening every picture.

    Parameters
    ----------
    n : how many there were to open.
    missing : the places of files that are not there.
    damaged : the places of files that cannot be read, each with the reason.
    list_file : the list of damaged files.
    """

    n: int
    missing: tuple[int, ...]
    damaged: dict[int, str]
    list_file: Path | None = None

    @property
    def readable(self) -> np.ndarray:
        """(n,) True for pictures that can be read."""
        mask = np.ones(self.n, dtype=bool)
        mask[[*self.missing, *self.damaged]] = False
        return mask


def check_pictures(files: ImageFiles) -> PictureCheck:
    """Open every picture, in threads; files that did not change since are not opened again."""
    states = [_state(path) for path in files.paths]
    missing = tuple(row for row, state in enumerate(states) if not state)
    there = [row for row, state in enumerate(states) if state]
    name = hashlib.sha256("\n".join(states).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    list_file = cache_folder() / "pictures" / f"{name}.txt"
    damaged = _read_list(list_file)
    if damaged is None:
        reasons = dict(zip(there, _reasons([files.paths[row] for row in there]), strict=True))
        damaged = {row: reason for row, reason in reasons.items() if reason}
        _write_list(list_file, damaged, files)
    return PictureCheck(len(files), missing, damaged, list_file if damaged else None)


def leave_out_unreadable(split: RetrievalSplit) -> RetrievalSplit:
    """The split without the items whose pictures cannot be read; it is said which."""
    files = split.pairs.images
    check = check_pictures(files)
    kept = check.readable
    if kept.all():
        return split
    if not kept.any():
        first = files.paths[0]
        raise InputError(
            f"None of the {len(files):,} pictures of {split.name} can be read; the first is "
            f"{first}. Check the place of the pictures, or give ready features: "
            "--image-features FILE.npy."
        )
    _say(split, check)
    counts = {**split.counts, "pictures that can be read": int(kept.sum())}
    smaller = replace(split.only(kept), counts=counts)
    for part in ("train", "query"):
        if not len(getattr(smaller, f"{part}_rows")):
            raise InputError(f"No picture of the part {part} of {split.name} can be read.")
    return smaller


def _say(split: RetrievalSplit, check: PictureCheck) -> None:
    """How many pictures are left out of which part, and why."""
    lost = ~check.readable
    parts = (f"{part} {int(lost[getattr(split, f'{part}_rows')].sum()):,}" for part in PARTS)
    log.warning(
        "%s: %s of %s pictures are left out (%s): %s missing, %s damaged.",
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
    """Why each picture cannot be read; nothing for those that can."""
    with ThreadPoolExecutor(n_threads()) as pool:
        for done, reason in enumerate(pool.map(_reason, paths), 1):
            if done % REPORT_EVERY == 0 or done == len(paths):
                report("Checking pictures", done, len(paths))
            yield reason


def _reason(path: Path) -> str:
    try:
        open_picture(path)
    except UNREADABLE as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""


def _state(path: Path) -> str:
    """What a file is known by, as for the cache of features; nothing if it is not there."""
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
    lines = [f"# {len(damaged):,} of {len(files):,} pictures cannot be read: row, file, reason"]
    for row, reason in damaged.items():
        shown = " ".join(str(files.paths[row]).split())  # a name with a tab would break the line
        lines.append(f"{row}\t{shown}\t{reason}")
    make_folder(path.parent)
    with atomic_write(path) as file:
        file.write("\n".join([*lines, ""]).encode("utf-8", "backslashreplace"))
