"""The verb index: encode images and texts and add them to a collection."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrhash._files import caching_in
from corrhash.cli.collections import check_durable, open_collection
from corrhash.cli.matches import example_query
from corrhash.cli.options import (
    ENCODER_BITS,
    FORMATS,
    AllowDownloadOption,
    CacheOption,
    CollectionArgument,
    DeviceOption,
    OfflineOption,
    PreviewOption,
    method_named,
)
from corrhash.cli.output import print_line, print_skipped, progress_bars
from corrhash.errors import InputError

if TYPE_CHECKING:  # heavy modules are imported by the commands that need them, to keep --help fast
    from corrhash.codes import Codes
    from corrhash.collection import Added, Collection
    from corrhash.datasets.records import Record
    from corrhash.model import Model, TrainingRun

WAIT_SECONDS = 600
"""How long the processes of other shards wait for the first one to create the collection."""


def index(
    collection: CollectionArgument,
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help=f"Name of a dataset, or path to {FORMATS}."),
    ],
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Model folder. Required to create a collection, unless **--encoder** is used, and "
            "to open one on Milvus.",
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Create the collection with a pretrained encoder of images and texts, such as "
            "CLIP, instead of a trained model: onnx:FOLDER, onnx:HUB-ID, hf:FOLDER or hf:HUB-ID "
            "(**corrhash encoders** lists those on this machine).",
        ),
    ] = None,
    bits: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"Code length with --encoder.  [default: {ENCODER_BITS}]"),
    ] = None,
    store_continuous: Annotated[
        bool,
        typer.Option(
            "--store-continuous",
            help="Also store continuous codes, 2 bytes per bit, for more accurate re-ranking.",
        ),
    ] = False,
    preview_size: PreviewOption = None,
    features: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Image features for the model, one row per item of a table (.npy or .npz).",
        ),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(
            help="Part of a named dataset: train, validation, query or database.  "
            "[default: database]"
        ),
    ] = None,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="After indexing, delete items whose files no longer exist in the folder.",
        ),
    ] = False,
    batch: Annotated[int, typer.Option(min=1, help="Number of items per write.")] = 512,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Read shard I of N, counted from 0. Set automatically under torchrun.",
        ),
    ] = None,
    codes: Annotated[
        bool,
        typer.Option(
            "--codes",
            help="Store the codes that another program computed. A new collection has no model.",
        ),
    ] = False,
    device: DeviceOption = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|CLASS",
            help="With --encoder, itq or lsh; otherwise package.module:Class, if the model's class "
            "is your own.  [default: itq with --encoder]",
        ),
    ] = None,
    allow_download: AllowDownloadOption = False,
    offline: OfflineOption = False,
    cache: CacheOption = None,
) -> None:
    """Encode images and texts and add them to a collection.

    Creates the collection if it does not exist. Unchanged items are not encoded again, so an
    interrupted command can be repeated; changed items are updated. Moved and renamed image files
    are recognized by their content and are not encoded again.

    Each row of a table can have the fields **image** (a path relative to the table), **text**,
    **labels**, **key** and **features** (the feature vector of the image). **path** is read
    only if **image** is missing. Other fields become metadata for filters. Rows with the same key
    are merged into one item. All items of a file or folder are indexed; **--part** applies only to
    named datasets.

    Several processes, on one or more machines, can fill the same collection: give each its own
    **--shard**.

    With **--codes**, codes are stored as they are: those of the columns **image_code** and
    **text_code** of a table, in hexadecimal digits, or of the arrays **image**, **text** and
    **keys** of a .npz file. Without a model, a collection is searched by key or code.

    With **--encoder**, you can search images by text without captions and without training.

    Example: corrhash index photos ~/Pictures --model model
    """
    from corrhash.collection.source import open_source
    from corrhash.datasets.formats import Shard
    from corrhash.methods.ready_codes import ReadyCodes

    _check_encoder_options(encoder, bits, model)

    own = Shard.from_environment() if shard is None else Shard.parse(shard)
    if prune and own.count > 1:
        raise InputError(
            f"--prune cannot be combined with shards, got shard {own.index}/{own.count}. Index the "
            "folder in a single process."
        )
    if prune and not Path(source).is_dir():
        raise InputError(f"--prune needs a folder, got {source}.")
    if own.index and model is not None:
        _wait_for(collection)
    with progress_bars(), caching_in(cache):
        if codes and model is None and not _exists(collection):
            target = _codes_target(collection, source, store_continuous)
        elif encoder is not None:
            target = _encoder_target(collection, source, encoder, bits, method, store_continuous)
        else:
            opening: dict[str, Any] = {"method": method, "allow_download": allow_download}
            target = _target(collection, source, model, store_continuous, **opening)
        codes = codes or isinstance(target.model.hasher, ReadyCodes)
        how: dict[str, Any] = {"part": part, "features": features, "shard": own, "codes": codes}
        found = open_source(source, target.model.reader, **how, **target.dataset_options)
        if not own.index:
            _print_content(source)
        opened = target.open()  # only now: an unreadable source creates no collection
        if preview_size is not None:
            opened.set_preview_size(preview_size)  # of a collection that exists
        added = opened.add(found.records, batch=batch, total=found.total)
        n_pruned = opened.prune(source) if prune else None
    _print_added(added, opened, n_pruned)
    if not own.index:
        command = ["corrhash", "search", collection, *example_query(opened)]
        print_line(f"Next: {shlex.join([*command, *_model_option(opened, model)])}")


@dataclass(frozen=True)
class _Target:
    """The collection to fill: its model, how to split a dataset, and how to open or create it."""

    model: Model
    dataset_options: dict[str, Any]
    open: Callable[[], Collection]


def _target(
    uri: str,
    source: str,
    model_folder: Path | None,
    store_continuous: bool,
    *,
    method: str | None,
    allow_download: bool,
) -> _Target:
    from corrhash.collection import Collection
    from corrhash.index import engine_of
    from corrhash.model import load_model

    check_durable(uri)
    exists = engine_of(uri).look(uri) is not None
    if model_folder is None:
        if not exists:
            raise InputError(
                f"No collection at {uri}. To create one, pass --model DIR with the output folder "
                "of corrhash train, or --encoder NAME with an encoder for images and texts "
                "(corrhash encoders lists them)."
            )
        opened = open_collection(uri, None, method, allow_download=allow_download)
        options = dataset_options(source, opened.model.training)
        return _Target(opened.model, options, lambda: opened)
    model = load_model(model_folder, method_named(method), allow_download=allow_download)
    options = dataset_options(source, model.training)
    if exists:
        return _Target(model, options, partial(Collection.open, uri, model))
    how: dict[str, Any] = {"store_continuous": store_continuous, "root": _root(source)}
    create = partial(Collection.create, uri, model, **how)
    return _Target(model, options, create)


def _check_encoder_options(encoder: str | None, bits: int | None, model: Path | None) -> None:
    if encoder is not None and model is not None:
        raise InputError("--encoder and --model cannot be combined. Remove one of them.")
    if encoder is None and bits is not None:
        raise InputError(
            "--bits applies only with --encoder, because a trained model has a fixed code length. "
            "Remove --bits."
        )


def _encoder_target(
    uri: str, source: str, encoder: str, bits: int | None, method: str | None, continuous: bool
) -> _Target:
    """Return the collection of an encoder, with a model made of a sample of the source."""
    from corrhash.collection import Collection
    from corrhash.collection.encoder_model import encoder_model
    from corrhash.collection.source import open_source
    from corrhash.datasets import DATASETS, Reader, dataset_location

    if _exists(uri):  # the same command again, after an interruption or with more images
        opened = open_collection(uri, None, None)
        _check_same_encoder(uri, opened.model, encoder, bits, method)
        return _Target(opened.model, dataset_options(source, None), lambda: opened)
    if dataset_location(source) in DATASETS:
        raise InputError(
            f"--encoder needs a folder of images or a file, but {source} is a named dataset. Train "
            "a model on it with corrhash train, and pass --model."
        )
    options = dataset_options(source, None)
    records = open_source(source, Reader(), **options).records
    n_bits = ENCODER_BITS if bits is None else bits
    model = encoder_model(encoder, records, n_bits, method or "itq")
    how: dict[str, Any] = {"store_continuous": continuous, "root": _root(source)}
    return _Target(model, options, partial(Collection.create, uri, model, **how))


def _check_same_encoder(
    uri: str, model: Model, encoder: str, bits: int | None, method: str | None
) -> None:
    """Raise InputError if a collection was created with other options than these."""
    from corrhash.datasets.image_features import ImageFeatures
    from corrhash.methods import METHODS

    features, hasher = model.reader.image_features, model.hasher
    expected = f"Pass the option it was created with, or choose another name than {uri}."
    if features != ImageFeatures(encoder).pinned():
        used = "raw images" if features is None else features.name
        raise InputError(f"{uri} was not created with {encoder}; its model uses {used}. {expected}")
    if bits is not None and bits != hasher.n_bits:
        raise InputError(f"{uri} has codes of {hasher.n_bits} bits, got --bits {bits}. {expected}")
    if method is not None and METHODS.get(method) is not type(hasher):
        used = type(hasher).__name__
        raise InputError(f"{uri} was created with the method {used}, got {method}. {expected}")


def _exists(uri: str) -> bool:
    from corrhash.index import engine_of

    check_durable(uri)
    return engine_of(uri).look(uri) is not None


def _codes_target(uri: str, source: str, store_continuous: bool) -> _Target:
    """Return a collection without a model, for codes as long as the first one of the source."""
    from corrhash.collection import Collection
    from corrhash.collection.source import open_source
    from corrhash.datasets import Reader
    from corrhash.datasets.records import UnreadableRecord
    from corrhash.methods.ready_codes import ReadyCodes
    from corrhash.model import Model

    reason = "it is empty"
    for record in open_source(source, Reader(), codes=True).records:
        if isinstance(record, UnreadableRecord):
            reason = f"{record.key} cannot be read: {record.reason.removesuffix('.')}"
        elif (code := _ready_code(record)) is not None:
            how: dict[str, Any] = {"store_continuous": store_continuous, "root": _root(source)}
            create = partial(Collection.create, uri, n_bits=code.n_bits, **how)
            return _Target(Model(ReadyCodes(code.n_bits)), {}, create)
        else:
            reason = f"{record.key!r} has none"
    raise InputError(
        f"No codes found in {source}: {reason}. Save the codes in the columns image_code or "
        "text_code of a table, or in an .npz file as the array image or text."
    )


def _ready_code(record: Record) -> Codes | None:
    code: Codes | None = record.text_code if record.image_code is None else record.image_code
    return code


def _root(source: str) -> Path:
    """The folder that paths of items are relative to: of the source, or the current one."""
    path = Path(source)
    return path if path.is_dir() else path.parent if path.is_file() else Path()


def dataset_options(source: str, training: TrainingRun | None) -> dict[str, Any]:
    """Options to split a dataset as in the training of the model, if ``source`` is a dataset.

    Another seed would select other items, some of them under the same keys.
    """
    from corrhash.datasets import DATASETS, dataset_location

    location = dataset_location(source)
    if training is None:
        if location in DATASETS:
            raise InputError(
                f"The model has no training record, so the seed used to split {source} is unknown. "
                "Use --model to pass the folder that corrhash train wrote."
            )
        return {}
    same = location == training.dataset
    return {"seed": training.seed, "options": training.options if same else {}}


def _wait_for(uri: str) -> None:
    """Wait until the first of several processes has created the collection."""
    from corrhash.index import engine_of

    end = time.monotonic() + WAIT_SECONDS
    while engine_of(uri).look(uri) is None:
        if time.monotonic() > end:
            raise InputError(
                f"No collection at {uri} after {WAIT_SECONDS} seconds. The process with "
                "--shard 0/N creates it; start that process too."
            )
        time.sleep(0.5)


def _model_option(collection: Collection, model: Path | None) -> list[str]:
    """The option that later commands need if the collection does not contain its model."""
    from corrhash.index import ENGINES, FOLDER

    return [] if isinstance(collection.index, ENGINES[FOLDER]) else ["--model", str(model)]


def _print_content(source: str) -> None:
    """Print what becomes of every file, if the source is a folder of images."""
    from corrhash.datasets import DATASETS
    from corrhash.datasets.formats import find_format, folder

    if source not in DATASETS and find_format(Path(source))[0] is folder:
        for line in folder.folder_content(Path(source)).lines():
            print_line(line)


def _print_added(added: Added, collection: Collection, n_pruned: int | None) -> None:
    counts = {name: getattr(added, name) for name in ("new", "updated", "moved", "unchanged")}
    parts = [f"{number:,} {name}" for name, number in counts.items() if number or name == "new"]
    parts += [] if n_pruned is None else [f"{n_pruned:,} pruned"]
    print_line(f"{', '.join(parts)}; {len(collection):,} items in {collection.uri}")
    print_skipped(added.skipped)
