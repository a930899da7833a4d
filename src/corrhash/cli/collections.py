"""Commands for collections: index, search, info, export and copy."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from corrhash._files import caching_in, check_suffix
from corrhash.cli.matches import as_dict, example_query, print_matches, write_sheet
from corrhash.cli.options import (
    FORMATS,
    CacheOption,
    CollectionArgument,
    DeviceOption,
    MethodOption,
    ModelOption,
    PreviewOption,
    method_named,
)
from corrhash.cli.output import out, print_line, print_skipped, progress_bars
from corrhash.errors import InputError

if TYPE_CHECKING:  # heavy modules are imported by the commands that need them, to keep --help fast
    from corrhash.collection import Added, Collection, Match
    from corrhash.model import Model, TrainingRun

WAIT_SECONDS = 600
"""How long the processes of other shards wait for the first one to create the collection."""


def index(
    collection: CollectionArgument,
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help=f"Name of a dataset, or path to {FORMATS}."),
    ],
    model: ModelOption = None,
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
            "--prune", help="Afterwards delete items whose files were in the folder and are gone."
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
    device: DeviceOption = None,
    method: MethodOption = None,
    cache: CacheOption = None,
) -> None:
    """Encode images and texts and add them to a collection.

    Creates the collection if it does not exist. Unchanged items are not encoded again, so an
    interrupted command can be repeated; changed items are updated. Moved and renamed image files
    are recognized by their content and are not encoded again.

    Each row of a table can have the fields **image** (a path relative to the table), **text**,
    **labels**, **key** and **features** (the feature vector of the image). **path** is skipped,
    except that it replaces a missing **image**. Other fields become metadata for filters. Rows with
    the same key are merged into one item. Every item of a file or folder is indexed.

    Several processes, on one or more machines, can fill the same collection: give each its own
    **--shard**.

    Example: corrhash index photos ~/Pictures --model model
    """
    from corrhash.collection.source import open_source
    from corrhash.datasets.formats import Shard

    own = Shard.from_environment() if shard is None else Shard.parse(shard)
    if prune and (own.count > 1 or not Path(source).is_dir()):
        got = source if own.count == 1 else f"shard {own.index}/{own.count}"
        raise InputError(f"--prune needs a folder that one process indexes, got {got}.")
    if own.index and model is not None:
        _wait_for(collection)
    with progress_bars(), caching_in(cache):
        target = _target(collection, source, model, method, store_continuous)
        how: dict[str, Any] = {"part": part, "features": features, "shard": own}
        found = open_source(source, target.model.reader, **how, **target.dataset_options)
        opened = target.open()  # only now: an unreadable source creates no collection
        if preview_size is not None:
            opened.set_preview_size(preview_size)  # of a collection that exists
        added = opened.add(found.records, batch=batch, total=found.total)
        n_pruned = opened.prune(source) if prune else None
    _print_added(added, opened, n_pruned)
    if not own.index:
        command = ["corrhash", "search", collection, *example_query(opened)]
        print_line(f"Next: {shlex.join([*command, *_model_option(opened, model)])}")


def search(
    collection: CollectionArgument,
    text: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Query text.")] = None,
    image: Annotated[Path | None, typer.Option(metavar="FILE", help="Query image.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Search for items similar to the item with this key.")
    ] = None,
    find: Annotated[str, typer.Option(help="Codes of items to search: image or text.")] = "image",
    k: Annotated[int, typer.Option("--k", "-k", help="Maximum number of matches.")] = 10,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="FILTER", help="A filter, such as: year >= 2015 and not 'dog' in labels"
        ),
    ] = None,
    radius: Annotated[int | None, typer.Option(help="Maximum Hamming distance.")] = None,
    offset: Annotated[int, typer.Option(help="Number of leading matches to skip.")] = 0,
    rerank: Annotated[
        bool,
        typer.Option(
            "--rerank/--no-rerank", help="Re-rank the nearest 100 items by cosine similarity."
        ),
    ] = True,
    sheet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the matches as one image.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the matches as JSON.")] = False,
    device: DeviceOption = None,
    model: ModelOption = None,
    method: MethodOption = None,
) -> None:
    """Search a collection by text, by image or by one of its items.

    **distance** is the Hamming distance between the codes of the query and the item. The nearest
    100 items are re-ranked by **score**, the cosine similarity of the query's continuous code and
    the item's code (its continuous code if stored).

    Example: corrhash search photos "two dogs" --where "year >= 2015" --sheet dogs.jpg
    """
    from corrhash.contact_sheet import check_sheet_name

    words = " ".join(text or []) or None
    queries = {"TEXT": words, "--image": image, "--key": key}
    given = [name for name, query in queries.items() if query is not None]
    if len(given) != 1:
        got = " and ".join(given) or "none of them"
        raise InputError(f"Pass exactly one of TEXT, --image FILE and --key KEY, got {got}.")
    if sheet is not None:
        check_sheet_name(sheet)
    opened = open_collection(collection, model, method)
    matches: list[Match] = opened.search(
        words,
        image=image,
        key=key,
        find=find,
        k=k,
        where=where,
        radius=radius,
        offset=offset,
        rerank=rerank,
        thumbnails=sheet is not None,
    )
    title = words or key or str(image)
    if sheet is not None and matches:
        write_sheet(sheet, title, image, matches)
    if as_json:
        sys.stdout.write(json.dumps([as_dict(match, opened) for match in matches]) + "\n")
        return
    wider = {
        "broader --where": where,
        "larger --radius": radius,
        "smaller --offset": offset or None,
    }
    options = " or ".join(f"a {name}" for name, value in wider.items() if value is not None)
    print_matches(title, matches, offset, hint=options and f"Use {options}.")
    if sheet is not None and matches:
        print_line(f"Contact sheet: {sheet}")


def info(
    collection: CollectionArgument,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the stored data for corruption.")
    ] = False,
) -> None:
    """Show collection statistics."""
    from corrhash.index import open_index

    about = about_of(collection)
    index = open_index(collection, about["n_bits"])
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")  # a path is never truncated
    table.add_row("items", f"{len(index):,}")
    table.add_row("bits", str(about["n_bits"]))
    table.add_row("method", str(about.get("method", "")).rpartition(":")[2])
    table.add_row("continuous codes", "stored" if about.get("store_continuous") else "not stored")
    table.add_row("fingerprint", str(about.get("fingerprint", "")))
    table.add_row("root of paths", str(about.get("root", "")))
    table.add_row("engine", type(index).__name__)
    if verify:
        index.verify()
        table.add_row("integrity", "verified")
    out.print(table, highlight=False)


def export(
    collection: CollectionArgument,
    path: Annotated[Path, typer.Option("--out", metavar="FILE", help="The .jsonl file to write.")],
) -> None:
    """Write all items to a .jsonl file, with their codes in hexadecimal.

    Thumbnails are not included. **corrhash index** can read the file to encode the items with
    another model, as long as the image files are still in place.
    """
    from corrhash._files import atomic_write
    from corrhash.index import open_index
    from corrhash.index.base import as_lines

    check_suffix(path, [".jsonl"], "an export")
    about = about_of(collection)
    n_items = 0
    with progress_bars(), atomic_write(path) as file:
        for line in as_lines(open_index(collection, about["n_bits"])):
            if line["path"]:
                line["path"] = str(Path(about["root"], line["path"]))
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            n_items += 1
    print_line(f"Exported {n_items:,} items: {path}")


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="URI of the collection.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="URI of the copy.")],
    model: ModelOption = None,
    method: MethodOption = None,
) -> None:
    """Copy a collection and verify the copy by count and checksum.

    An interrupted copy can be repeated. If the collection changes during the copy, the command
    reports that the two differ.

    Example: corrhash copy photos milvus://localhost:19530/photos
    """
    _check_durable(target)
    opened = open_collection(source, model, method)
    with progress_bars():
        copied = opened.copy_to(target)
    print_line(f"Copied and verified {len(copied):,} items: {target}")


def open_collection(uri: str, model: Path | None, method: str | None) -> Collection:
    """Open a collection with the given model or with the one that it contains."""
    from corrhash.collection import Collection

    _check_durable(uri)
    return Collection.open(uri, model, method_named(method))


def _check_durable(uri: str) -> None:
    """Refuse ``memory:``, which ends with the command."""
    if uri.startswith("memory:"):
        raise InputError(
            f"A collection in {uri} would be lost when the command ends. Pass the path of a "
            "folder, or milvus://host:port/name."
        )


@dataclass(frozen=True)
class _Target:
    """The collection to fill: its model, how to split a dataset, and how to open or create it."""

    model: Model
    dataset_options: dict[str, Any]
    open: Callable[[], Collection]


def _target(
    uri: str, source: str, model_folder: Path | None, method: str | None, store_continuous: bool
) -> _Target:
    from corrhash.collection import Collection
    from corrhash.index import engine_of
    from corrhash.model import load_model

    _check_durable(uri)
    exists = engine_of(uri).look(uri) is not None
    if model_folder is None:
        if not exists:
            raise InputError(f"No collection at {uri}. Pass --model to create one.")
        opened = open_collection(uri, None, method)
        options = _dataset_options(source, opened.model.training)
        return _Target(opened.model, options, lambda: opened)
    model = load_model(model_folder, method_named(method))
    options = _dataset_options(source, model.training)
    if exists:
        return _Target(model, options, partial(Collection.open, uri, model))
    how: dict[str, Any] = {"store_continuous": store_continuous, "root": _root(source)}
    create = partial(Collection.create, uri, model, **how)
    return _Target(model, options, create)


def _root(source: str) -> Path:
    """The folder that paths of items are relative to: of the source, or the current one."""
    path = Path(source)
    return path if path.is_dir() else path.parent if path.is_file() else Path()


def _dataset_options(source: str, training: TrainingRun | None) -> dict[str, Any]:
    """Options to split a dataset as in the training of the model, if ``source`` is a dataset.

    Another seed would select other items, some of them under the same keys.
    """
    from corrhash.datasets import DATASETS, dataset_location

    location = dataset_location(source)
    if training is None:
        if location in DATASETS:
            raise InputError(
                f"The model has no training record, so the seed that split {source} is unknown. "
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


def about_of(uri: str) -> dict[str, Any]:
    """Return the description of a collection."""
    from corrhash.index import engine_of

    _check_durable(uri)
    about: dict[str, Any] | None = engine_of(uri).look(uri)
    if about is None:
        raise InputError(f"No collection at {uri}. Create one with corrhash index.")
    return about


def _model_option(collection: Collection, model: Path | None) -> list[str]:
    """The option that later commands need if the collection does not contain its model."""
    from corrhash.index import ENGINES, FOLDER

    return [] if isinstance(collection.index, ENGINES[FOLDER]) else ["--model", str(model)]


def _print_added(added: Added, collection: Collection, n_pruned: int | None) -> None:
    counts = {name: getattr(added, name) for name in ("new", "updated", "moved", "unchanged")}
    parts = [f"{number:,} {name}" for name, number in counts.items() if number or name == "new"]
    parts += [] if n_pruned is None else [f"{n_pruned:,} pruned"]
    print_line(f"{', '.join(parts)}; {len(collection):,} items in {collection.uri}")
    print_skipped(added.skipped)
