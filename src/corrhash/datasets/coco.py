"""MS-COCO: photographs with five captions each, and 80 categories of things as labels."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.datasets.image_files import ImageFiles
from corrhash.datasets.label_names import label_table
from corrhash.datasets.sources import Piece, Source, from_source
from corrhash.datasets.splits import protocol_of
from corrhash.errors import InputError
from corrhash.progress import report

YEARS = (2017, 2014)
PARTS = ("train", "val")
FOLDERS = ("annotations", ".")


def _places(kind: str, part: str) -> tuple[str, ...]:
    return tuple(
        str(PurePosixPath(folder, f"{kind}_{part}{year}.json"))
        for year in YEARS
        for folder in FOLDERS
    )


SOURCE = Source(
    where=("https://cocodataset.org/#download",),
    unpack="annotations_trainval2017.zip gives annotations/, and train2017.zip and val2017.zip "
    "the pictures in train2017/ and val2017/ (the files of 2014 hold the same pictures).",
    size="19 GB of pictures, 250 MB of annotations",
    licence="annotations CC BY 4.0; each picture with the terms of Flickr",
    pieces={
        f"{kind}_{part}": Piece(f"{what} of {part}", _places(kind, part), optional=part == "train")
        for part in PARTS
        for kind, what in (("captions", "captions"), ("instances", "things"))
    },
    published={"pictures": 123287, "categories": 80, "pairs": 122218},
)


@from_source(SOURCE)
def load(
    root: str | Path,
    seed: int = 0,
    *,
    captions: str = "all",
    n_query: int | None = None,
    n_validation: int | None = None,
    n_train: int | None = None,
) -> RetrievalSplit:
    """MS-COCO: 122,218 photographs with captions, 80 categories; drawn from both published parts.

    ``captions`` is ``all`` for the five of a picture one after another, or ``first``.
    """
    if captions not in ("all", "first"):
        raise InputError(f"captions is all or first. Got {captions!r}. Choose one.")
    found = SOURCE.find(root)
    parts = [p for p in PARTS if found[f"captions_{p}"] and found[f"instances_{p}"]]
    paths: dict[int, Path] = {}
    texts: dict[int, list[tuple[int, str]]] = defaultdict(list)
    things: dict[int, set[int]] = defaultdict(set)
    categories: dict[int, str] = {}
    for done, part in enumerate(parts):
        report("Reading annotations", done, len(parts))
        content = _read(found[f"captions_{part}"])
        paths |= _pictures(found[f"captions_{part}"], content["images"])
        for picture, number, caption in content["annotations"]:
            texts[picture].append((number, " ".join(caption.split())))
        content = _read(found[f"instances_{part}"])
        categories |= dict(content["categories"])
        for picture, category in content["annotations"]:
            things[picture].add(category)
    report("Reading annotations", len(parts), len(parts))
    kept = sorted(picture for picture in paths if things[picture] and texts[picture])
    named = [[categories[number] for number in things[picture]] for picture in kept]
    names, table = label_table(named, [name for _, name in sorted(categories.items())])
    pairs = PairedDataset(
        images=ImageFiles([paths[picture] for picture in kept]),
        texts=[_text(texts[picture], captions) for picture in kept],
        labels=table,
        keys=[f"{picture:012}" for picture in kept],
        label_names=names,
    )
    sizes = {"n_query": n_query, "n_validation": n_validation, "n_train": n_train}
    split = protocol_of("coco", sizes).draw(pairs, "coco", seed)
    counts = {"pictures": len(paths), "categories": len(categories), "pairs": len(pairs)}
    SOURCE.compare("coco", counts)
    return replace(split, counts=counts)


def _text(captions: list[tuple[int, str]], which: str) -> str:
    """The captions of a picture in the order of their numbers, which is the same in every year."""
    ordered = [caption for _, caption in sorted(captions)]
    return ordered[0] if which == "first" else " ".join(ordered)


def _pictures(captions_file: Path, images: list[tuple[int, str]]) -> dict[int, Path]:
    """Where the pictures are: in train2017/ and so on, beside the folder of annotations."""
    part = captions_file.stem.removeprefix("captions_")
    home = captions_file.parent
    home = home.parent if home.name == FOLDERS[0] else home
    places = (home / part, home / "images" / part, home / "images")
    folder = next((place for place in places if place.is_dir()), places[0])
    return {number: folder / name for number, name in images}


def _read(path: Path) -> Any:
    """The content of a file of annotations, of which little is kept while it is read.

    Outlines of things fill nearly half a gigabyte, so entries are cut down one by one.
    """
    try:
        with path.open("rb") as file:
            content = json.load(file, object_hook=_brief)
        for wanted in ("images", "annotations"):
            content[wanted]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}). Unpack it again.") from error
    return content


def _brief(entry: dict[str, Any]) -> Any:
    """What is needed of a caption, a thing, a picture or a category."""
    if "caption" in entry:
        return entry["image_id"], entry["id"], entry["caption"]
    if "category_id" in entry:
        return entry["image_id"], entry["category_id"]
    if "file_name" in entry:
        return entry["id"], entry["file_name"]
    if "supercategory" in entry:
        return entry["id"], entry["name"]
    return entry
