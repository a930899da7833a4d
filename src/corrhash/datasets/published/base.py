"""PublishedFiles: where to get a published dataset, its files, and what they hold."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corrhash.errors import InputError

log = logging.getLogger("corrhash")


@dataclass(frozen=True)
class File:
    """One file or folder of a dataset, and the relative paths where it may be unpacked."""

    description: str
    paths: tuple[str, ...]
    optional: bool = False

    def find(self, root: Path) -> Path | None:
        """Return its path below ``root``; None if it does not exist."""
        return next((root / path for path in self.paths if (root / path).exists()), None)


@dataclass(frozen=True)
class PublishedFiles:
    """How to get a published dataset, and what a complete copy holds.

    Parameters
    ----------
    urls : download pages.
    unpack : how to unpack the downloads below the root.
    size : of the downloads.
    licence : terms of use.
    files : files and folders by the names that the loader uses.
    counts : published numbers of images, pairs and so on, to compare with those found.
    """

    urls: tuple[str, ...]
    unpack: str
    size: str
    licence: str
    files: Mapping[str, File] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    def find(self, root: str | Path) -> dict[str, Path | None]:
        """Return the path of each file; None for files that do not exist."""
        return {name: file.find(Path(root)) for name, file in self.files.items()}

    def require(self, root: str | Path, option: str = "--root FOLDER") -> dict[str, Any]:
        """Return the path of each file; raise an error if a required one is missing.

        ``option`` sets the folder in the command that needs it.
        """
        found = self.find(root)
        missing = [
            file for name, file in self.files.items() if found[name] is None and not file.optional
        ]
        if missing:
            listed = "; ".join(f"{file.description} ({file.paths[0]})" for file in missing)
            raise InputError(
                f"Not found in {root}: {listed}. Download the data from {self.urls[0]} and "
                f"unpack it: {self.unpack} Pass its folder: {option}."
            )
        return found

    def compare(self, name: str, counts: Mapping[str, int]) -> None:
        """Log counts, and warn if they differ from the published ones."""
        log.info("%s: %s.", name, ", ".join(f"{n:,} {what}" for what, n in counts.items()))
        for what, n in counts.items():
            expected = self.counts.get(what, n)
            if n != expected:
                log.warning(
                    "%s has %s %s, but the published dataset has %s: results are not comparable.",
                    *(name, f"{n:,}", what, f"{expected:,}"),
                )


def loads(files: PublishedFiles) -> Callable[[Any], Any]:
    """Decorate the loader of a published dataset with its files."""

    def decorate(load: Any) -> Any:
        load.files = files
        return load

    return decorate


def published_files(load: Any) -> PublishedFiles | None:
    """Return the files of a loader; None for generated datasets and user data."""
    return getattr(load, "files", None)
