"""NUS-WIDE: photographs of Flickr with 1,000 tags, of which the 21 most frequent concepts count."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np
import scipy.sparse as sp

from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.datasets.image_files import ImageFiles
from corrhash.datasets.reader import Reader, Vocabulary
from corrhash.datasets.sources import Piece, Source, from_source
from corrhash.datasets.splits import protocol_of
from corrhash.datasets.text_files import read_lines
from corrhash.datasets.words import WordForm
from corrhash.errors import InputError
from corrhash.progress import report

N_CONCEPTS = 21
CHUNK = 1 << 25  # bytes of a table that are read at a time
TAGS = WordForm("tags")
PICTURE_FOLDERS = ("Flickr", "images", "Images", "image", "ImageData")

_HOMES = (".", "NUS-WIDE", "nuswide", "NUS_WIDE")


def _places(*names: str) -> tuple[str, ...]:
    return tuple(str(PurePosixPath(home, name)) for name in names for home in _HOMES)


SOURCE = Source(
    where=("https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html",),
    unpack="ImageList.zip, ConceptsList.zip, Groundtruth.zip and NUS_WID_Tags.zip each give a "
    "folder; pictures go into Flickr/ or images/, by the names of ImageList.",
    size="about 300 MB without pictures",
    licence="for research; each picture with the terms of its owner",
    pieces={
        "list": Piece(
            "list of pictures", _places("ImageList/Imagelist.txt", "ImageList/ImageList.txt")
        ),
        "concepts": Piece("names of concepts", _places("ConceptsList/Concepts81.txt")),
        "labels": Piece(
            "labels, one file a concept", _places("Groundtruth/AllLabels", "AllLabels")
        ),
        "tag_list": Piece("names of tags", _places("NUS_WID_Tags/TagList1k.txt", "TagList1k.txt")),
        "tag_table": Piece(
            "table of 1,000 tags",
            _places("NUS_WID_Tags/AllTags1k.txt", "AllTags1k.txt"),
            optional=True,
        ),
        "tags": Piece(
            "all tags of each picture",
            _places("NUS_WID_Tags/All_Tags.txt", "All_Tags.txt"),
            optional=True,
        ),
        "pictures": Piece("pictures", _places(*PICTURE_FOLDERS), optional=True),
    },
    published={"pictures": 269648, "concepts": 81, "tags": 1000, "pairs": 195834},
)


@from_source(SOURCE)
def load(
    root: str | Path,
    seed: int = 0,
    *,
    n_query: int | None = None,
    n_validation: int | None = None,
    n_train: int | None = None,
) -> RetrievalSplit:
    """NUS-WIDE as in the paper of CHN: 195,834 photographs with 1,000 tags, 21 concepts."""
    found = SOURCE.find(root)
    names = [line.replace("\\", "/") for line in read_lines(found["list"]) if line]
    concepts = [line for line in read_lines(found["concepts"]) if line]
    frequent, labels = _most_frequent(found["labels"], concepts, len(names))
    kept = np.flatnonzero(np.diff(labels.indptr) > 0)
    words = [TAGS.words_of(line)[0] for line in read_lines(found["tag_list"]) if line]
    tags = _tags(found, names, words)
    home = found["list"].parent.parent
    pairs = PairedDataset(
        images=ImageFiles(
            _find_pictures(home, found["pictures"], [names[row] for row in kept]),
            kept.tolist(),
            len(names),
        ),
        texts=[
            " ".join(words[column] for column in tags.indices[start:end])
            for start, end in zip(tags.indptr[kept], tags.indptr[kept + 1], strict=True)
        ],
        labels=labels[kept],
        keys=[names[row] for row in kept],
        label_names=frequent,
    )
    sizes = {"n_query": n_query, "n_validation": n_validation, "n_train": n_train}
    split = protocol_of("nuswide", sizes).draw(pairs, "nuswide", seed)
    counts = {
        "pictures": len(names),
        "concepts": len(concepts),
        "tags": len(words),
        "pairs": len(pairs),
    }
    SOURCE.compare("nuswide", counts)
    return replace(split, reader=Reader(Vocabulary(tuple(sorted(words)), TAGS)), counts=counts)


def _most_frequent(folder: Path, concepts: list[str], n: int) -> tuple[list[str], sp.csr_array]:
    """The names of the 21 most frequent concepts (ties by name), and who carries them."""
    carried = {}
    for done, concept in enumerate(concepts, 1):
        carried[concept] = np.flatnonzero(_read_flags(folder / f"Labels_{concept}.txt", n))
        report("Reading labels", done, len(concepts))
    frequent = sorted(concepts, key=lambda name: (-len(carried[name]), name))[:N_CONCEPTS]
    rows = np.concatenate([carried[name] for name in frequent])
    columns = np.repeat(np.arange(len(frequent)), [len(carried[name]) for name in frequent])
    ones = np.ones(len(rows), dtype=np.uint8)
    return frequent, sp.csr_array((ones, (rows, columns)), shape=(n, len(frequent)))


def _read_flags(path: Path, n: int) -> np.ndarray:
    """(n,) of a file with 0 or 1 a line."""
    try:
        content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    except OSError as error:
        raise InputError(
            f"Cannot read {path}: {error.strerror}. Unpack Groundtruth.zip again."
        ) from error
    signs = content[content > ord(" ")]
    if len(signs) != n or not np.isin(signs, (ord("0"), ord("1"))).all():
        raise InputError(
            f"{path} is damaged: it has {len(signs):,} signs in place of a 0 or 1 for each of the "
            f"{n:,} pictures. Unpack Groundtruth.zip again."
        )
    return signs == ord("1")


def _tags(found: Mapping[str, Path], names: list[str], words: list[str]) -> sp.csr_array:
    """(n, n_words): which tags each picture carries, of the table or of the lists of all tags."""
    if found["tag_table"] is not None:
        return _read_table(found["tag_table"], len(names), len(words))
    if found["tags"] is None:
        raise InputError(
            f"There is neither AllTags1k.txt nor All_Tags.txt beside {found['tag_list']}. "
            "Unpack NUS_WID_Tags.zip there."
        )
    column_of = {word: column for column, word in enumerate(words)}
    tags_of = {}
    for line in read_lines(found["tags"]):
        number, *tags = TAGS.words_of(line) or [""]
        tags_of[number] = sorted({column_of[tag] for tag in tags if tag in column_of})
    rows = [tags_of.get(_photo_id(name), []) for name in names]
    ends = np.cumsum([0, *map(len, rows)])
    columns = np.array([column for row in rows for column in row], dtype=np.int64)
    ones = np.ones(len(columns), dtype=np.uint8)
    return sp.csr_array((ones, columns, ends), shape=(len(names), len(words)))


def _read_table(path: Path, n: int, n_words: int) -> sp.csr_array:
    """A table of 0 and 1 with spaces between; it has half a gigabyte, so chunk by chunk."""
    places, n_signs = [], 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            content = np.frombuffer(chunk, dtype=np.uint8)
            signs = content[content > ord(" ")]
            places.append(n_signs + np.flatnonzero(signs == ord("1")))
            n_signs += len(signs)
            report("Reading tags", min(n_signs, n * n_words), n * n_words)
    if n_signs != n * n_words:
        raise InputError(
            f"{path} is damaged: it has {n_signs:,} signs in place of {n:,} x {n_words:,}. "
            "Unpack NUS_WID_Tags.zip again."
        )
    rows, columns = np.divmod(np.concatenate(places), n_words)
    ones = np.ones(len(rows), dtype=np.uint8)
    return sp.csr_array((ones, (rows, columns)), shape=(n, n_words))


def _photo_id(name: str) -> str:
    """``actor/0001_2124494179.jpg`` -> ``2124494179``."""
    return Path(name).stem.rpartition("_")[2]


def _find_pictures(home: Path, folder: Path | None, names: list[str]) -> list[Path]:
    """Where each picture is: by folder and name as listed, by name, or by the number of Flickr."""
    place = folder or home / PICTURE_FOLDERS[0]
    there = {
        os.path.relpath(Path(at) / name, place).replace(os.sep, "/")
        for at, _, files in os.walk(place)
        for name in files
    }
    paths = []
    for name in names:
        ways = (name, name.rpartition("/")[2], f"{_photo_id(name)}.jpg")
        paths.append(place / next((way for way in ways if way in there), name))
    return paths
