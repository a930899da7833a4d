"""Checks of datasets: what is found, missing or damaged, against what is published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.datasets import DATASETS, DEFAULT_ROOT, find_loader, load_raw
from corrhash.datasets.base import PARTS, PairedDataset, RetrievalSplit
from corrhash.datasets.fingerprint import fingerprint_of
from corrhash.datasets.image_files import ImageFiles
from corrhash.datasets.picture_check import PictureCheck, check_pictures
from corrhash.datasets.sources import Source, source_of
from corrhash.datasets.splits import PROTOCOLS, hash_order
from corrhash.errors import InputError

N_SAMPLES = 24
SHOWN = 10


@dataclass(frozen=True, eq=False)
class DatasetCheck:
    """What came of looking at a dataset.

    Parameters
    ----------
    name : of the dataset.
    found : its files and folders, None for what is not there.
    source : what is published of it, if it is a published one.
    split : its items, if enough of it is there to load them.
    files : what came of opening its pictures, if it has any.
    problem : why it cannot be loaded, if it cannot.
    pictures, captions : some samples, with their texts and labels.
    """

    name: str
    found: dict[str, Path | None] = field(default_factory=dict)
    source: Source | None = None
    split: RetrievalSplit | None = None
    files: PictureCheck | None = None
    problem: str = ""
    pictures: list[Any] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether all is there, readable, and as much as is published."""
        readable = self.files is None or bool(self.files.readable.all())
        return not self.problem and readable and all(n == of for _, n, of in self._counted())

    def lines(self) -> Iterator[str]:
        """The whole as lines to print."""
        for name, path in self.found.items():
            piece = self.source.pieces[name] if self.source else None
            needed = "" if piece is None or not piece.optional else ", which may be left out"
            what = name if piece is None else piece.what
            yield f"  {what}: {path}" if path else f"  {what}: not found{needed}"
        if self.problem:
            yield self.problem
        if self.split is None:
            return
        for what, n, published in self._counted():
            same = "as published" if n == published else f"published: {published:,}"
            yield f"  {n:,} {what} ({same})"
        yield f"  {len(self.split.pairs):,} pairs; " + ", ".join(
            f"{part} {len(getattr(self.split, f'{part}_rows')):,}" for part in PARTS
        )
        yield f"  {_words(self.split.pairs)}"
        yield from self._of_files(self.split)
        used = self.split if self.files is None else self.split.only(self.files.readable)
        yield f"  fingerprint: {fingerprint_of(used)}"

    def _of_files(self, split: RetrievalSplit) -> Iterator[str]:
        if self.files is None:
            return
        paths = split.pairs.images.paths
        n_missing, n_damaged = len(self.files.missing), len(self.files.damaged)
        n_readable = len(paths) - n_missing - n_damaged
        yield f"  {n_readable:,} pictures found, {n_missing:,} missing, {n_damaged:,} damaged"
        yield from (f"    missing: {paths[row]}" for row in self.files.missing[:SHOWN])
        for row, reason in [*self.files.damaged.items()][:SHOWN]:
            yield f"    damaged: {paths[row]}: {reason}"
        if n_damaged > SHOWN:
            yield f"    all damaged ones: {self.files.list_file}"

    def _counted(self) -> Iterator[tuple[str, int, int]]:
        """What was counted, how much of it, and how much is published."""
        if self.split is None or self.source is None:
            return
        for what, n in self.split.counts.items():
            if what in self.source.published:
                yield what, n, self.source.published[what]


def check_dataset(
    name: str, *, root: str | Path | None = None, seed: int = 0, **options: Any
) -> DatasetCheck:
    """Look for the files of a dataset, count what they hold, open every picture, take samples."""
    source = source_of(find_loader(name))
    place = DEFAULT_ROOT if root is None else root
    found = {} if source is None else source.look(place)
    title = name if name in DATASETS else Path(name).resolve().stem
    try:
        split = load_raw(name, root=root, seed=seed, **options)
    except InputError as error:
        return DatasetCheck(title, found, source, problem=str(error))
    images = split.pairs.images
    files = check_pictures(images) if isinstance(images, ImageFiles) else None
    readable = np.ones(len(images), bool) if files is None else files.readable
    order = hash_order(split.pairs.row_keys(), "samples", seed)
    rows = order[readable[order]][:N_SAMPLES]
    drawable = isinstance(images, ImageFiles) or images.ndim == 4
    return DatasetCheck(
        split.name or title,
        found,
        source,
        split,
        files,
        pictures=[images[int(row)] for row in rows] if drawable else [],
        captions=[_caption(split.pairs, int(row)) for row in rows],
    )


def about(name: str) -> Iterator[str]:
    """What a dataset is, where to get it, and how it is split, as lines to print."""
    load = DATASETS[name]
    yield f"{name}: {(load.__doc__ or '').strip().splitlines()[0]}"
    source = source_of(load)
    if source is None:
        yield "  Made by the program: there is nothing to download."
        return
    yield f"  Get it: {', '.join(source.where)} ({source.size})"
    yield f"  Unpack: {source.unpack}"
    yield f"  Licence: {source.licence}"
    published = (f"{n:,} {what}" for what, n in source.published.items())
    yield f"  Published: {', '.join(published)}"
    protocol = PROTOCOLS[name]
    each = " of each class" if protocol.per_class else ""
    yield (
        f"  Split ({protocol.source}): {protocol.n_query:,} queries, {protocol.n_validation:,} for "
        f"validation and {protocol.n_train:,} to train on{each}; all but the queries are searched"
    )
    yield f"  Check: corrhash datasets check {name} --root DIR"


def _words(pairs: PairedDataset) -> str:
    """How many texts and labels there are."""
    n_labels = 0 if pairs.labels is None else pairs.labels.shape[1]
    labels = "no labels"
    if pairs.labels is not None:
        n_without = int((np.diff(pairs.labels.indptr) == 0).sum())
        labels = f"{n_labels:,} labels ({n_without:,} pairs carry none)"
    if not isinstance(pairs.texts, list):
        return f"texts of {pairs.texts.shape[1]:,} features, {labels}"
    return f"{sum(not text.strip() for text in pairs.texts):,} empty texts, {labels}"


def _caption(pairs: PairedDataset, row: int) -> str:
    """The labels of an item in brackets, then its text."""
    text = pairs.texts[row] if isinstance(pairs.texts, list) else ""
    if pairs.labels is None:
        return text
    columns = pairs.labels[[row]].indices
    names = [pairs.label_names[column] if pairs.label_names else str(column) for column in columns]
    return f"[{', '.join(names)}] {text}"
