"""MIRFLICKR-25K: Flickr photographs with tags and 24 or 38 concepts, in two variants."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
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
from corrhash.datasets.vocabulary import TextOptions, Tokenizer, Vocabulary
from corrhash.errors import InputError

CONCEPTS = (
    *("animals", "baby", "bird", "car", "clouds", "dog", "female", "flower", "food", "indoor"),
    *("lake", "male", "night", "people", "plant_life", "portrait", "river", "sea", "sky"),
    *("structures", "sunset", "transport", "tree", "water"),
)
STRICT = (
    *("baby_r1", "bird_r1", "car_r1", "clouds_r1", "dog_r1", "female_r1", "flower_r1", "male_r1"),
    *("night_r1", "people_r1", "portrait_r1", "river_r1", "sea_r1", "tree_r1"),
)
"""Concepts annotated a second time, for images in which they are prominent."""

MIN_IMAGES = 20
"""Tags of fewer images are ignored."""

TAGS = Tokenizer("tags")
REPORT_EVERY = 500
_HOMES = ("mirflickr", "mirflickr25k", ".")
_ANNOTATIONS = ("mirflickr25k_annotations_v080", "annotations", ".")


def _paths(*parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return all combinations of path components, the common ones first."""
    return tuple(str(PurePosixPath(*way)) for way in product(*parts))


PIECES = {
    "tags": File("tags, one file per image", _paths(_HOMES, ("meta/tags",))),
    "annotations": File(
        "annotations, one file per concept",
        _paths((".", *_HOMES[:2]), _ANNOTATIONS, ("animals.txt",)),
    ),
    "common_tags": File("frequent tags", _paths(_HOMES, ("doc/common_tags.txt",)), optional=True),
}


def _files(counts: dict[str, int]) -> PublishedFiles:
    return PublishedFiles(
        urls=("https://press.liacs.nl/mirflickr/mirdownload.html",),
        unpack="mirflickr25k.zip gives mirflickr/ (im1.jpg ..., meta/tags/), and "
        "mirflickr25k_annotations_v080.zip goes into mirflickr25k_annotations_v080/.",
        size="2.9 GB",
        licence="Creative Commons, with terms for each image (meta/license)",
        files=PIECES,
        counts=counts,
    )


@loads(_files({"images": 25000, "concepts": 38, "pairs": 25000}))
def load(
    root: str | Path,
    seed: int = 0,
    *,
    n_query: int | None = None,
    n_validation: int | None = None,
    n_train: int | None = None,
) -> RetrievalSplit:
    """MIRFLICKR-25K as in the CHN paper: 25,000 photographs with tags and 38 concepts."""
    files = _read(load.files.require(root), [*CONCEPTS, *STRICT])
    sizes = {"n_query": n_query, "n_validation": n_validation, "n_train": n_train}
    pairs = files.pairs(np.arange(len(files.numbers)))
    split = protocol_of("mirflickr25k", sizes).draw(pairs, "mirflickr25k", seed)
    counted = [pairs.texts[row] for row in split.database_rows]
    vocabulary = TextOptions("tags", min_count=_min_count(len(pairs))).vocabulary(counted)
    counts = {**files.counts, "pairs": len(pairs)}
    load.files.compare("mirflickr25k", counts)
    return replace(split, reader=Reader(vocabulary), counts=counts)


@loads(_files({"images": 25000, "concepts": 24, "frequent tags": 1386, "pairs": 20015}))
def load_24(
    root: str | Path,
    seed: int = 0,
    *,
    n_query: int | None = None,
    n_validation: int | None = None,
    n_train: int | None = None,
) -> RetrievalSplit:
    """MIRFLICKR-25K as in most later papers: 20,015 pairs, 1,386 tags and 24 concepts."""
    files = _read(load_24.files.require(root), [*CONCEPTS])
    frequent = files.frequent_tags()
    # Without Unicode normalization, as published: "españa" in another spelling is another tag.
    tagged = np.array([not frequent.isdisjoint(text.lower().split()) for text in files.texts])
    kept = np.flatnonzero(tagged & (np.diff(files.labels.indptr) > 0))
    sizes = {"n_query": n_query, "n_validation": n_validation, "n_train": n_train}
    pairs = files.pairs(kept)
    split = protocol_of("mirflickr25k-24", sizes).draw(pairs, "mirflickr25k-24", seed)
    counts = {**files.counts, "frequent tags": len(frequent), "pairs": len(pairs)}
    load_24.files.compare("mirflickr25k-24", counts)
    reader = Reader(Vocabulary(tuple(sorted(frequent)), TAGS))
    return replace(split, reader=reader, counts=counts)


@dataclass(frozen=True, eq=False)
class _Content:
    """What the files hold; row i of texts and labels belongs to image ``numbers[i]``."""

    home: Path
    common_tags: Path | None
    numbers: list[int]
    texts: list[str]
    labels: sp.csr_array
    concepts: list[str]

    @property
    def counts(self) -> dict[str, int]:
        return {"images": len(self.numbers), "concepts": len(self.concepts)}

    def pairs(self, rows: np.ndarray) -> PairedDataset:
        """Return some images with their tags and concepts."""
        numbers = [self.numbers[row] for row in rows]
        paths = [self.home / f"im{number}.jpg" for number in numbers]
        return PairedDataset(
            images=ImageFiles(paths, rows.tolist(), len(self.numbers)),
            texts=[self.texts[row] for row in rows],
            labels=self.labels[rows],
            keys=[f"im{number}" for number in numbers],
            label_names=self.concepts,
        )

    def frequent_tags(self) -> set[str]:
        """Return the tags that the authors list as frequent, or else those of 20 images."""
        if self.common_tags is not None:
            lines = filter(None, read_lines(self.common_tags))
            return {TAGS.tokenize(line)[0] for line in lines}
        counts = Counter(tag for text in self.texts for tag in set(TAGS.tokenize(text)))
        return {tag for tag, n in counts.items() if n >= MIN_IMAGES}


def _read(found: Mapping[str, Path], concepts: list[str]) -> _Content:
    tags, annotations = found["tags"], found["annotations"].parent
    numbers = sorted(_numbers(path.name for path in tags.iterdir()))
    if not numbers:
        raise InputError(f"No files tags1.txt, tags2.txt, ... found in {tags}. Unpack it again.")
    return _Content(
        tags.parent.parent,
        found["common_tags"],  # None if it does not exist
        numbers,
        _read_tags(tags, numbers),
        _read_concepts(annotations, concepts, numbers),
        concepts,
    )


def _numbers(names: Iterable[str]) -> list[int]:
    matches = (re.fullmatch(r"tags(\d+)\.txt", name) for name in names)
    return [int(match[1]) for match in matches if match]


def _read_tags(folder: Path, numbers: list[int]) -> list[str]:
    """Return the tags of each image, separated by spaces; its file has one per line."""
    texts = []
    for done, number in enumerate(numbers, 1):
        texts.append(" ".join(filter(None, read_lines(folder / f"tags{number}.txt"))))
        if done % REPORT_EVERY == 0 or done == len(numbers):
            report("Reading tags", done, len(numbers))
    return texts


def _read_concepts(folder: Path, concepts: list[str], numbers: list[int]) -> sp.csr_array:
    """Return (n, n_concepts) of 0 and 1; each file lists the numbers of its images."""
    row_of = {number: row for row, number in enumerate(numbers)}
    lacking = [concept for concept in concepts if not (folder / f"{concept}.txt").is_file()]
    if lacking:
        raise InputError(
            f"{len(lacking)} of {len(concepts)} files not found in {folder}, such as "
            f"{lacking[0]}.txt. Unpack mirflickr25k_annotations_v080.zip there again."
        )
    rows, columns = [], []
    for column, concept in enumerate(concepts):
        path = folder / f"{concept}.txt"
        try:
            listed = {int(line) for line in read_lines(path) if line}
        except ValueError as error:
            raise InputError(
                f"{path} must list image numbers: {error}. Unpack it again."
            ) from error
        listed_rows = sorted(row_of[number] for number in listed if number in row_of)
        rows += listed_rows
        columns += [column] * len(listed_rows)
    ones = np.ones(len(rows), dtype=np.uint8)
    return sp.csr_array((ones, (rows, columns)), shape=(len(numbers), len(concepts)))


def _min_count(n: int) -> int:
    """Return how many images a tag needs; proportionally fewer in a part of the collection."""
    return max(1, MIN_IMAGES * n // 25000)
