"""Matches of a search: as a table, as JSON and as a contact sheet; an example of a search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from corrhash.cli.output import out, print_line

if TYPE_CHECKING:
    from corrhash.collection import Collection, Match


def as_dict(match: Match, collection: Collection) -> dict[str, Any]:
    """Return a match as JSON values, with the full path of its file."""
    item = match.item
    return {
        "id": match.id,
        "distance": match.distance,
        "score": match.score,
        "probability": match.probability,
        "key": item.key,
        "text": item.text,
        "labels": list(item.labels),
        "metadata": dict(item.metadata),
        "path": str(collection.file_of(item)) if item.path else "",
    }


def print_matches(title: str, matches: list[Match], offset: int = 0, hint: str = "") -> None:
    """Print a table of matches, or the hint if there are none."""
    if not matches:
        print_line(f"No matches. {hint}".rstrip())
        return
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    calibrated = any(match.probability is not None for match in matches)
    for name in ("", "distance", "score", *["probability"] * calibrated):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("key", "text", "labels"):
        table.add_column(name, overflow="fold")
    for rank, match in enumerate(matches, start=offset + 1):
        score = "" if match.score is None else f"{match.score:.3f}"
        cells = [str(rank), str(match.distance), score]
        if calibrated:
            cells.append("" if match.probability is None else f"{match.probability:.2f}")
        cells += [match.key, match.item.text, ", ".join(match.item.labels)]
        table.add_row(*map(Text, cells))  # Text is not markup
    out.print(table, highlight=False)


def write_sheet(path: Path, title: str, image: Path | None, matches: list[Match]) -> None:
    """Write the matches as a grid of images, after the query image if there is one."""
    from corrhash.contact_sheet import contact_sheet, open_thumbnail, save_sheet
    from corrhash.datasets.images import open_image

    images = [open_thumbnail(match.item.thumbnail) for match in matches]
    captions = [f"{match.distance} bits: {match.item.text or match.key}" for match in matches]
    if image is not None:
        images.insert(0, open_image(image))
        captions.insert(0, "query")
    save_sheet(contact_sheet(images, captions, title=title, columns=5, lines=3), path)


def example_query(collection: Collection) -> list[str]:
    """Arguments of a search that finds something: a frequent term, or the key of an item."""
    from corrhash.collection.overview import make_overview

    overview = make_overview(collection)
    keys = [item.key for item in collection.first_items(1)]
    modality = ["--find", "text"] if overview.modalities == ["text"] else []
    return [*(overview.examples[:1] or ["--key", *keys]), *modality]
