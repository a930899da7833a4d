"""Check a dataset: find its files, count and decode its items, compare with published counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.datasets import DATASETS, DEFAULT_ROOT, find_loader, load_raw
from corrhash.datasets.base import PARTS, PairedDataset, RetrievalSplit
from corrhash.datasets.fingerprint import fingerprint_of
from corrhash.datasets.image_check import ImageCheck, check_images
from corrhash.datasets.images import ImageFiles
from corrhash.datasets.published.base import PublishedFiles, published_files
from corrhash.datasets.splits import PROTOCOLS, hash_order
from corrhash.errors import InputError, ParameterError

N_SAMPLES = 24
SHOWN = 10


@dataclass(frozen=True, eq=False)
class DatasetCheck:
    """Result of checking a dataset.

    Parameters
    ----------
    name : of the dataset.
    found : paths of its files and folders, None for those that do not exist.
    published : how to get it and what it holds, for published datasets.
    split : its items, if they can be loaded.
    image_check : result of decoding its images, if it has image files.
    problem : why it cannot be loaded, if it cannot.
    images, captions : some samples, with their texts and labels.
    """

    name: str
    found: dict[str, Path | None] = field(default_factory=dict)
    published: PublishedFiles | None = None
    split: RetrievalSplit | None = None
    image_check: ImageCheck | None = None
    problem: str = ""
    images: list[Any] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every image can be decoded and all counts are as published."""
        readable = self.image_check is None or bool(self.image_check.readable.all())
        return not self.problem and readable and all(n == of for _, n, of in self._counts())

    def lines(self) -> Iterator[str]:
        """Yield the result as lines to print, without ``problem``."""
        for name, path in self.found.items():
            file = self.published.files[name] if self.published else None
            optional = " (optional)" if file is not None and file.optional else ""
            description = name if file is None else file.description
            yield f"  {description}: {path}" if path else f"  {description}: not found{optional}"
        if self.split is None:
            return
        for name, n, published in self._counts():
            same = "as published" if n == published else f"published: {published:,}"
            yield f"  {n:,} {name} ({same})"
        yield f"  {len(self.split.pairs):,} pairs; " + ", ".join(
            f"{part} {len(getattr(self.split, f'{part}_rows')):,}" for part in PARTS
        )
        yield f"  {_text_and_label_counts(self.split.pairs)}"
        yield from self._image_lines(self.split)
        check = self.image_check
        used = self.split if check is None else self.split.only(check.readable)
        yield f"  fingerprint: {fingerprint_of(used)}"

    def _image_lines(self, split: RetrievalSplit) -> Iterator[str]:
        check = self.image_check
        if check is None:
            return
        paths = split.pairs.images.paths
        n_missing, n_damaged = len(check.missing), len(check.damaged)
        n_readable = len(paths) - n_missing - n_damaged
        yield f"  {n_readable:,} images found, {n_missing:,} missing, {n_damaged:,} damaged"
        yield from (f"    missing: {paths[row]}" for row in check.missing[:SHOWN])
        for row, reason in [*check.damaged.items()][:SHOWN]:
            yield f"    damaged: {paths[row]}: {reason}"
        if n_damaged > SHOWN:
            yield f"    all damaged images: {check.list_file}"

    def _counts(self) -> Iterator[tuple[str, int, int]]:
        """Yield what is counted, its number, and the published number."""
        if self.split is None or self.published is None:
            return
        for name, n in self.split.counts.items():
            if name in self.published.counts:
                yield name, n, self.published.counts[name]


def check_dataset(
    name: str, *, root: str | Path | None = None, seed: int = 0, **options: Any
) -> DatasetCheck:
    """Find the files of a dataset, count their items, decode every image, and take samples."""
    published = published_files(find_loader(name))
    found = {} if published is None else published.find(DEFAULT_ROOT if root is None else root)
    title = name if name in DATASETS else Path(name).resolve().stem
    try:
        split = load_raw(name, root=root, seed=seed, **options)
    except ParameterError:  # a mistake in the arguments, not in the files
        raise
    except InputError as error:
        return DatasetCheck(title, found, published, problem=str(error))
    images = split.pairs.images
    image_check = check_images(images) if isinstance(images, ImageFiles) else None
    readable = np.ones(len(images), bool) if image_check is None else image_check.readable
    order = hash_order(split.pairs.row_keys(), "samples", seed)
    rows = order[readable[order]][:N_SAMPLES]
    drawable = isinstance(images, ImageFiles) or images.ndim == 4
    return DatasetCheck(
        split.name or title,
        found,
        published,
        split,
        image_check,
        images=[images[int(row)] for row in rows] if drawable else [],
        captions=[_caption(split.pairs, int(row)) for row in rows],
    )


def about(name: str) -> Iterator[str]:
    """Yield what a dataset is, how to get it, and how it is split, as lines to print."""
    load = DATASETS[name]
    yield f"{name}: {(load.__doc__ or '').strip().splitlines()[0]}"
    published = published_files(load)
    if published is None:
        yield "  Generated: nothing to download."
        return
    yield f"  Download: {', '.join(published.urls)} ({published.size})"
    yield f"  Unpack: {published.unpack}"
    yield f"  Licence: {published.licence}"
    counts = (f"{n:,} {name}" for name, n in published.counts.items())
    yield f"  Published: {', '.join(counts)}"
    protocol = PROTOCOLS[name]
    each = " of each class" if protocol.per_class else ""
    yield (
        f"  Split ({protocol.source}): {protocol.n_query:,} queries, {protocol.n_validation:,} for "
        f"validation and {protocol.n_train:,} for training{each}; the database is all but queries"
    )
    yield f"  Check: corrhash datasets check {name} --root DIR"


def _text_and_label_counts(pairs: PairedDataset) -> str:
    n_labels = 0 if pairs.labels is None else pairs.labels.shape[1]
    labels = "no labels"
    if pairs.labels is not None:
        n_without = int((np.diff(pairs.labels.indptr) == 0).sum())
        labels = f"{n_labels:,} labels"
        if n_without:
            labels += f", {n_without:,} pair{'s' * (n_without != 1)} without a label"
    if not isinstance(pairs.texts, list):
        return f"texts of {pairs.texts.shape[1]:,} features, {labels}"
    return f"{sum(not text.strip() for text in pairs.texts):,} empty texts, {labels}"


def _caption(pairs: PairedDataset, row: int) -> str:
    """Return the labels of an item in brackets, then its text."""
    text = pairs.texts[row] if isinstance(pairs.texts, list) else ""
    if pairs.labels is None:
        return text
    columns = pairs.labels[[row]].indices
    names = [pairs.label_names[column] if pairs.label_names else str(column) for column in columns]
    return f"[{', '.join(names)}] {text}"
