"""NUS-WIDE: Flickr photographs with 1,000 tags; labels are the 21 most frequent concepts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np
import scipy.sparse as sp

from corrhash._files import read_lines
from corrhash._progress import report
from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.datasets.images import ImageFiles
from corrhash.datasets.published.base import File, PublishedFiles, loads
from corrhash.datasets.reader import Reader
from corrhash.datasets.splits import protocol_of
from corrhash.datasets.vocabulary import Tokenizer, Vocabulary
from corrhash.errors import InputError

N_CONCEPTS = 21
CHUNK = 1 << 25  # bytes of a table read at a time
TAGS = Tokenizer("tags")
IMAGE_FOLDERS = ("Flickr", "images", "Images", "image", "ImageData")

_HOMES = (".", "NUS-WIDE", "nuswide", "NUS_WIDE")


def _paths(*names: str) -> tuple[str, ...]:
    return tuple(str(PurePosixPath(home, name)) for name in names for home in _HOMES)


FILES = PublishedFiles(
    urls=("https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html",),
    unpack="ImageList.zip, ConceptsList.zip, Groundtruth.zip and NUS_WID_Tags.zip each give a "
    "folder; images go into Flickr/ or images/, under the names in ImageList.",
    size="about 300 MB without images",
    licence="for research; each image under the terms of its owner",
    files={
        "list": File(
            "list of images", _paths("ImageList/Imagelist.txt", "ImageList/ImageList.txt")
        ),
        "concepts": File("names of concepts", _paths("ConceptsList/Concepts81.txt")),
        "labels": File(
            "labels, one file per concept", _paths("Groundtruth/AllLabels", "AllLabels")
        ),
        "tag_list": File("names of tags", _paths("NUS_WID_Tags/TagList1k.txt", "TagList1k.txt")),
        "tag_table": File(
            "table of 1,000 tags",
            _paths("NUS_WID_Tags/AllTags1k.txt", "AllTags1k.txt"),
            optional=True,
        ),
        "tags": File(
            "all tags of each image",
            _paths("NUS_WID_Tags/All_Tags.txt", "All_Tags.txt"),
            optional=True,
        ),
        "images": File("images", _paths(*IMAGE_FOLDERS), optional=True),
    },
    counts={"images": 269648, "concepts": 81, "tags": 1000, "pairs": 195834},
)


@loads(FILES)
def load(
    root: str | Path,
    seed: int = 0,
    *,
    n_query: int | None = None,
    n_validation: int | None = None,
    n_train: int | None = None,
) -> RetrievalSplit:
    """NUS-WIDE as in the CHN paper: 195,834 photographs with 1,000 tags and 21 concepts."""
    found = FILES.require(root)
    names = [line.replace("\\", "/") for line in read_lines(found["list"]) if line]
    concepts = [line for line in read_lines(found["concepts"]) if line]
    frequent, labels = _most_frequent(found["labels"], concepts, len(names))
    kept = np.flatnonzero(np.diff(labels.indptr) > 0)
    vocabulary = [TAGS.tokenize(line)[0] for line in read_lines(found["tag_list"]) if line]
    tags = _tags(found, names, vocabulary)
    home = found["list"].parent.parent
    pairs = PairedDataset(
        images=ImageFiles(
            _find_images(home, found["images"], [names[row] for row in kept]),
            kept.tolist(),
            len(names),
        ),
        texts=[
            " ".join(vocabulary[column] for column in tags.indices[start:end])
            for start, end in zip(tags.indptr[kept], tags.indptr[kept + 1], strict=True)
        ],
        labels=labels[kept],
        keys=[names[row] for row in kept],
        label_names=frequent,
    )
    sizes = {"n_query": n_query, "n_validation": n_validation, "n_train": n_train}
    split = protocol_of("nuswide", sizes).draw(pairs, "nuswide", seed)
    counts = {
        "images": len(names),
        "concepts": len(concepts),
        "tags": len(vocabulary),
        "pairs": len(pairs),
    }
    FILES.compare("nuswide", counts)
    return replace(split, reader=Reader(Vocabulary(tuple(sorted(vocabulary)), TAGS)), counts=counts)


def _most_frequent(folder: Path, concepts: list[str], n: int) -> tuple[list[str], sp.csr_array]:
    """Return the 21 most frequent concepts (ties by name) and (n, 21) labels."""
    members = {}
    for done, concept in enumerate(concepts, 1):
        members[concept] = np.flatnonzero(_read_flags(folder / f"Labels_{concept}.txt", n))
        report("Reading labels", done, len(concepts))
    frequent = sorted(concepts, key=lambda name: (-len(members[name]), name))[:N_CONCEPTS]
    rows = np.concatenate([members[name] for name in frequent])
    columns = np.repeat(np.arange(len(frequent)), [len(members[name]) for name in frequent])
    ones = np.ones(len(rows), dtype=np.uint8)
    return frequent, sp.csr_array((ones, (rows, columns)), shape=(n, len(frequent)))


def _read_flags(path: Path, n: int) -> np.ndarray:
    """Read (n,) flags, 0 or 1 per line."""
    try:
        content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    except OSError as error:
        raise InputError(
            f"Cannot read {path}: {error.strerror}. Unpack Groundtruth.zip again."
        ) from error
    signs = content[content > ord(" ")]
    if len(signs) != n or not np.isin(signs, (ord("0"), ord("1"))).all():
        raise InputError(
            f"{path} is damaged: expected a 0 or 1 for each of {n:,} images, got {len(signs):,} "
            "characters. Unpack Groundtruth.zip again."
        )
    return signs == ord("1")


def _tags(found: Mapping[str, Path], names: list[str], vocabulary: list[str]) -> sp.csr_array:
    """Return (n, n_tags): the tags of each image, from the table or the lists of all tags."""
    if found["tag_table"] is not None:
        return _read_table(found["tag_table"], len(names), len(vocabulary))
    if found["tags"] is None:
        raise InputError(
            f"Neither AllTags1k.txt nor All_Tags.txt found beside {found['tag_list']}. "
            "Unpack NUS_WID_Tags.zip there."
        )
    column_of = {tag: column for column, tag in enumerate(vocabulary)}
    tags_of = {}
    for line in read_lines(found["tags"]):
        number, *tags = TAGS.tokenize(line) or [""]
        tags_of[number] = sorted({column_of[tag] for tag in tags if tag in column_of})
    rows = [tags_of.get(_photo_id(name), []) for name in names]
    ends = np.cumsum([0, *map(len, rows)])
    columns = np.array([column for row in rows for column in row], dtype=np.int64)
    ones = np.ones(len(columns), dtype=np.uint8)
    return sp.csr_array((ones, columns, ends), shape=(len(names), len(vocabulary)))


def _read_table(path: Path, n: int, n_tags: int) -> sp.csr_array:
    """Read a table of 0 and 1, in chunks since it takes half a gigabyte."""
    positions, n_signs = [], 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            content = np.frombuffer(chunk, dtype=np.uint8)
            signs = content[content > ord(" ")]
            positions.append(n_signs + np.flatnonzero(signs == ord("1")))
            n_signs += len(signs)
            report("Reading tags", min(n_signs, n * n_tags), n * n_tags)
    if n_signs != n * n_tags:
        raise InputError(
            f"{path} is damaged: expected {n:,} x {n_tags:,} characters, got {n_signs:,}. "
            "Unpack NUS_WID_Tags.zip again."
        )
    rows, columns = np.divmod(np.concatenate(positions), n_tags)
    ones = np.ones(len(rows), dtype=np.uint8)
    return sp.csr_array((ones, (rows, columns)), shape=(n, n_tags))


def _photo_id(name: str) -> str:
    """Return the Flickr id: ``actor/0001_2124494179.jpg`` -> ``2124494179``."""
    return Path(name).stem.rpartition("_")[2]


def _find_images(root: Path, folder: Path | None, names: list[str]) -> list[Path]:
    """Return the path of each image: as listed, by file name alone, or by Flickr id."""
    folder = folder or root / IMAGE_FOLDERS[0]
    existing = {
        os.path.relpath(Path(at) / name, folder).replace(os.sep, "/")
        for at, _, files in os.walk(folder)
        for name in files
    }
    paths = []
    for name in names:
        ways = (name, name.rpartition("/")[2], f"{_photo_id(name)}.jpg")
        paths.append(folder / next((way for way in ways if way in existing), name))
    return paths
