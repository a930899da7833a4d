"""MS-COCO: photographs with five captions each, and 80 object categories as labels."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from corrhash._progress import report
from corrhash.datasets.base import PairedDataset, RetrievalSplit, label_table
from corrhash.datasets.images import ImageFiles
from corrhash.datasets.published.base import File, PublishedFiles, loads
from corrhash.datasets.splits import protocol_of
from corrhash.errors import InputError

YEARS = (2017, 2014)
PARTS = ("train", "val")
FOLDERS = ("annotations", ".")


def _paths(kind: str, part: str) -> tuple[str, ...]:
    return tuple(
        str(PurePosixPath(folder, f"{kind}_{part}{year}.json"))
        for year in YEARS
        for folder in FOLDERS
    )


FILES = PublishedFiles(
    urls=("https://cocodataset.org/#download",),
    unpack="annotations_trainval2017.zip gives annotations/, and train2017.zip and val2017.zip "
    "the images in train2017/ and val2017/ (the 2014 files hold the same images).",
    size="19 GB of images, 250 MB of annotations",
    licence="annotations CC BY 4.0; images under the terms of Flickr",
    files={
        f"{kind}_{part}": File(f"{what} of {part}", _paths(kind, part), optional=part == "train")
        for part in PARTS
        for kind, what in (("captions", "captions"), ("instances", "objects"))
    },
    counts={"images": 123287, "categories": 80, "pairs": 122218},
)


@loads(FILES)
def load(
    root: str | Path,
    seed: int = 0,
    *,
    captions: str = "all",
    n_query: int | None = None,
    n_validation: int | None = None,
    n_train: int | None = None,
) -> RetrievalSplit:
    """MS-COCO: 122,218 photographs with captions and 80 categories, from both published parts.

    ``captions`` is ``all`` (the five captions of an image, joined) or ``first``.
    """
    if captions not in ("all", "first"):
        raise InputError(f"captions must be 'all' or 'first', got {captions!r}.")
    found = FILES.require(root)
    parts = [p for p in PARTS if found[f"captions_{p}"] and found[f"instances_{p}"]]
    paths: dict[int, Path] = {}
    texts: dict[int, list[tuple[int, str]]] = defaultdict(list)
    objects: dict[int, set[int]] = defaultdict(set)
    categories: dict[int, str] = {}
    for done, part in enumerate(parts):
        report("Reading annotations", done, len(parts))
        content = _read(found[f"captions_{part}"])
        paths |= _image_paths(found[f"captions_{part}"], content["images"])
        for image, number, caption in content["annotations"]:
            texts[image].append((number, " ".join(caption.split())))
        content = _read(found[f"instances_{part}"])
        categories |= dict(content["categories"])
        for image, category in content["annotations"]:
            objects[image].add(category)
    report("Reading annotations", len(parts), len(parts))
    kept = sorted(image for image in paths if objects[image] and texts[image])
    named = [[categories[number] for number in objects[image]] for image in kept]
    names, table = label_table(named, [name for _, name in sorted(categories.items())])
    pairs = PairedDataset(
        images=ImageFiles([paths[image] for image in kept]),
        texts=[_text(texts[image], captions) for image in kept],
        labels=table,
        keys=[f"{image:012}" for image in kept],
        label_names=names,
    )
    sizes = {"n_query": n_query, "n_validation": n_validation, "n_train": n_train}
    split = protocol_of("coco", sizes).draw(pairs, "coco", seed)
    counts = {"images": len(paths), "categories": len(categories), "pairs": len(pairs)}
    FILES.compare("coco", counts)
    return replace(split, counts=counts)


def _text(captions: list[tuple[int, str]], which: str) -> str:
    """Return the captions of an image in the order of their ids, equal in both years."""
    ordered = [caption for _, caption in sorted(captions)]
    return ordered[0] if which == "first" else " ".join(ordered)


def _image_paths(captions_file: Path, images: list[tuple[int, str]]) -> dict[int, Path]:
    """Return the paths of images, in train2017/ and so on beside the folder of annotations."""
    part = captions_file.stem.removeprefix("captions_")
    root = captions_file.parent
    root = root.parent if root.name == FOLDERS[0] else root
    folders = (root / part, root / "images" / part, root / "images")
    folder = next((folder for folder in folders if folder.is_dir()), folders[0])
    return {number: folder / name for number, name in images}


def _read(path: Path) -> Any:
    """Read a file of annotations, keeping only what is needed of each entry.

    The outlines of objects take nearly half a gigabyte.
    """
    try:
        with path.open("rb") as file:
            content = json.load(file, object_hook=_brief)
        for name in ("images", "annotations"):
            content[name]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"Cannot read {path} ({error}). Unpack it again.") from error
    return content


def _brief(entry: dict[str, Any]) -> Any:
    """Return what is needed of a caption, an object, an image or a category."""
    if "caption" in entry:
        return entry["image_id"], entry["id"], entry["caption"]
    if "category_id" in entry:
        return entry["image_id"], entry["category_id"]
    if "file_name" in entry:
        return entry["id"], entry["file_name"]
    if "supercategory" in entry:
        return entry["id"], entry["name"]
    return entry
