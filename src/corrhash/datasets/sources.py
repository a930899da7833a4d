"""Source: where a published dataset comes from, what its files are, and how much is in them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corrhash.errors import InputError

log = logging.getLogger("corrhash")


@dataclass(frozen=True)
class Piece:
    """One file or folder of a dataset, and the places where people unpack it."""

    what: str
    places: tuple[str, ...]
    optional: bool = False

    def look(self, root: Path) -> Path | None:
        """Where it is below ``root``, if it is there."""
        return next((root / place for place in self.places if (root / place).exists()), None)


@dataclass(frozen=True)
class Source:
    """What people must know to get a dataset, and what a complete one holds.

    Parameters
    ----------
    where : addresses.
    unpack : what to unpack where below the root.
    size : of the downloads.
    licence : what its authors allow.
    pieces : its files and folders, by the names that the loader knows them by.
    published : how much there is of what, to compare with what is found.
    """

    where: tuple[str, ...]
    unpack: str
    size: str
    licence: str
    pieces: Mapping[str, Piece] = field(default_factory=dict)
    published: Mapping[str, int] = field(default_factory=dict)

    def look(self, root: str | Path) -> dict[str, Path | None]:
        """Where each piece is; None for what is not there."""
        return {name: piece.look(Path(root)) for name, piece in self.pieces.items()}

    def missing(self, found: Mapping[str, Path | None]) -> list[Piece]:
        """What is needed and not there."""
        return [
            piece
            for name, piece in self.pieces.items()
            if found[name] is None and not piece.optional
        ]

    def find(self, root: str | Path) -> dict[str, Any]:
        """Where each piece is, or an error that lists what is missing and where to get it."""
        found = self.look(root)
        missing = self.missing(found)
        if missing:
            what = "; ".join(f"{piece.what} ({piece.places[0]})" for piece in missing)
            raise InputError(
                f"Not found below {root}: {what}. Get the data at {self.where[0]} and unpack it: "
                f"{self.unpack} Give its folder with --root."
            )
        return found

    def compare(self, name: str, counts: Mapping[str, int]) -> None:
        """Say what was counted, and warn where it is not what is published."""
        log.info("%s: %s.", name, ", ".join(f"{n:,} {what}" for what, n in counts.items()))
        for what, n in counts.items():
            wanted = self.published.get(what, n)
            if n != wanted:
                log.warning(
                    "%s has %s %s here, and %s as published: results are not comparable.",
                    *(name, f"{n:,}", what, f"{wanted:,}"),
                )


def from_source(source: Source) -> Callable[[Any], Any]:
    """Mark the function that loads a dataset with where its files come from."""

    def mark(load: Any) -> Any:
        load.source = source
        return load

    return mark


def source_of(load: Any) -> Source | None:
    """Where the dataset of a loader comes from; None where it is made, or the user's own."""
    return getattr(load, "source", None)
