"""The verbs on collections: index, search, info, export, copy, engines."""

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

from corrhash.cache_folder import caching_in
from corrhash.cli.options import (
    CacheOption,
    CollectionArgument,
    MethodOption,
    ModelOption,
    method_named,
)
from corrhash.cli.terminal import out, progress_bars, say
from corrhash.errors import InputError

if TYPE_CHECKING:  # heavy parts are imported by the verbs that need them: help comes at once
    from corrhash.collection import Added, Collection, Match
    from corrhash.datasets import Reader

PATIENCE = 600
"""Seconds for which the processes of other shares wait for the first one to make a collection."""


def index(
    collection: CollectionArgument,
    source: Annotated[
        str,
        typer.Argument(
            help="A folder of pictures, a .jsonl file, tar shards or Parquet files (one or a "
            "folder of them), or a dataset's name."
        ),
    ],
    model: ModelOption = None,
    store_scores: Annotated[
        bool,
        typer.Option(
            "--store-scores", help="Keep scores beside codes, 2 bytes a bit, to rank the top by."
        ),
    ] = False,
    features: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A row for each line of the .jsonl file, as the model reads them."
        ),
    ] = None,
    part: Annotated[
        str, typer.Option(help="Of a dataset: train, validation, query or database.")
    ] = "database",
    batch: Annotated[int, typer.Option(min=1, help="Items that are written at a time.")] = 512,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Read the share I of N, from 0/N on; processes of torchrun know theirs.",
        ),
    ] = None,
    method: MethodOption = None,
    cache: CacheOption = None,
) -> None:
    """Encode pictures and texts into a collection, which is made if it is not there.

    What is there unchanged is not encoded again, so that an interrupted run is simply started
    again; what has changed is updated. Pictures are known by their path, size and time of change.

    Lines of a .jsonl file hold **image** (a path, seen from the file), **text**, **labels** and
    **key**, as far as they are known; all other fields become metadata to filter by.

    Several processes, on one machine or many, fill one collection: each reads its **--shard**. One
    that died is started again and goes on; every item is there once.

    Example: corrhash index photos ~/Pictures --model model
    """
    from corrhash.sources import Share, open_source

    share = Share.of_environment() if shard is None else Share.parse(shard)
    if share.number and model is not None:
        _wait_for(collection)
    with progress_bars(), caching_in(cache):
        target = _target(collection, source, model, method, store_scores)
        how: dict[str, Any] = {"part": part, "features": features, "share": share}
        found = open_source(source, target.reader, **how, **target.of_dataset)
        opened = target.open()  # a source that cannot be read leaves no new collection behind
        added = opened.add(found.records, batch=batch, total=found.total)
    _say_added(added, opened)
    if share.number:
        return
    say(
        f"Next: corrhash search {shlex.quote(collection)} 'some words'{_model_words(opened, model)}"
    )


def search(
    collection: CollectionArgument,
    words: Annotated[list[str] | None, typer.Argument(help="What to look for.")] = None,
    image: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A picture to look for, instead of words.")
    ] = None,
    find: Annotated[
        str | None,
        typer.Option(help="image or text; by default images for words and texts for a picture."),
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", help="How many answers.")] = 10,
    where: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="As: year >= 2015 and not 'dog' in labels"),
    ] = None,
    radius: Annotated[int | None, typer.Option(help="How many bits may differ at most.")] = None,
    offset: Annotated[int, typer.Option(help="Leave out the first ones, for a next page.")] = 0,
    rerank: Annotated[
        bool, typer.Option("--rerank/--no-rerank", help="Rank the nearest 100 once more.")
    ] = True,
    sheet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the answers as one picture.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answers as JSON.")] = False,
    model: ModelOption = None,
    method: MethodOption = None,
) -> None:
    """Find pictures or texts in a collection, by words or by a picture.

    Distance is the number of bits in which codes differ. The nearest 100 are ranked once more by
    the cosine of real-valued scores, which is finer: **score**.

    Example: corrhash search photos "two dogs" --where "year >= 2015" --sheet dogs.jpg
    """
    query = " ".join(words or [])
    if (image is None) == (not query):
        raise InputError("Search with words or with --image FILE: one of them, not both.")
    opened = open_collection(collection, model, method)
    how: dict[str, Any] = {"where": where, "radius": radius, "offset": offset, "rerank": rerank}
    how["thumbnails"] = sheet is not None
    if image is None:
        matches = opened.search_text(query, k, find or "image", **how)
    else:
        matches = opened.search_image(image, k, find or "text", **how)
    title = query if image is None else str(image)
    if sheet is not None and matches:
        _write_sheet(sheet, title, image, matches)
    if as_json:
        sys.stdout.write(json.dumps([_as_dict(match) for match in matches]) + "\n")
        return
    print_matches(title, matches, offset)
    if sheet is not None and matches:
        say(f"Sheet: {sheet}")


def info(collection: CollectionArgument) -> None:
    """Say what a collection holds."""
    from corrhash.index import engine_of

    about = _about(collection)
    index = engine_of(collection).open(collection, about["n_bits"])
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("items", f"{len(index):,}")
    table.add_row("bits", str(about["n_bits"]))
    table.add_row("method", str(about.get("method", "")).rpartition(":")[2])
    table.add_row("scores kept", "yes" if about.get("store_scores") else "no")
    table.add_row("fingerprint", str(about.get("fingerprint", "")))
    table.add_row("engine", type(index).__name__)
    out.print(table, highlight=False)


def export(
    collection: CollectionArgument,
    path: Annotated[Path, typer.Option("--out", help="The .jsonl file to write.")],
) -> None:
    """Write all items to a file, one line of JSON each, with their codes as hexadecimal digits.

    Thumbnails stay behind. Any program reads it, and **corrhash index** encodes it again with
    another model, while the pictures are where they were.
    """
    from corrhash.atomic_write import atomic_write
    from corrhash.index import engine_of
    from corrhash.index.contents import as_lines

    about = _about(collection)
    n_lines = 0
    with progress_bars(), atomic_write(path) as file:
        for line in as_lines(engine_of(collection).open(collection, about["n_bits"])):
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            n_lines += 1
    say(f"{n_lines:,} items: {path}")


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The address of a collection.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The address of its copy.")],
    model: ModelOption = None,
    method: MethodOption = None,
) -> None:
    """Copy a collection to another address, and verify the copy by count and checksum.

    A copy that was interrupted is started again. What is written to the collection meanwhile makes
    the two differ, which is told.

    Example: corrhash copy photos milvus://localhost:19530/photos
    """
    opened = open_collection(source, model, method)
    with progress_bars():
        copied = opened.copy_to(target)
    say(f"{len(copied):,} items copied and verified: {target}")


def engines() -> None:
    """List the engines that keep collections, with the beginning of their addresses."""
    from corrhash.index import ENGINES

    table = Table(box=None, pad_edge=False)
    table.add_column("address", style="bold")
    table.add_column("what it is")
    for name in ENGINES:
        try:
            line = (ENGINES[name].__doc__ or "").strip().splitlines()[0]
        except InputError as error:
            line = str(error)
        table.add_row(name, line)
    out.print(table, highlight=False)


@dataclass(frozen=True)
class _Target:
    """What will be filled: how to open or create it, what reads its items.

    ``of_dataset`` tells how the dataset that its model was trained on is split.
    """

    reader: Reader
    of_dataset: dict[str, Any]
    open: Callable[[], Collection]


def _target(
    uri: str, source: str, model: Path | None, method: str | None, store_scores: bool
) -> _Target:
    """The collection, which is created only when it is opened."""
    from corrhash.collection import Collection
    from corrhash.experiments.trained_model import TrainedModel
    from corrhash.index import engine_of

    there = engine_of(uri).look(uri) is not None
    if model is None:
        if not there:
            raise InputError(
                f"There is no collection at {uri} yet. Say which model shall encode it: --model."
            )
        opened = open_collection(uri, None, method)
        return _Target(opened.reader, _of_dataset(source, opened.training), lambda: opened)
    trained = TrainedModel.load(model, method_named(method))
    pair, of_dataset = (trained.hasher, trained.reader), _of_dataset(source, trained.training)
    if there:
        return _Target(trained.reader, of_dataset, partial(Collection.open, uri, pair))
    more: dict[str, Any] = {"store_scores": store_scores, "training": trained.training}
    return _Target(trained.reader, of_dataset, partial(Collection.create, uri, *pair, **more))


def _of_dataset(source: str, training: dict[str, Any] | None) -> dict[str, Any]:
    """How a source is split, if it is a dataset: as for the training of the model.

    Another seed draws other items, also under the keys of those that are there.
    """
    from corrhash.datasets import DATASETS, place_of
    from corrhash.datasets.manifest import SUFFIXES

    named = source in DATASETS and not Path(source).is_dir()
    if training is None:
        if named:
            raise InputError(
                f"It is not known with which seed {source} was split for the training of this "
                "model. Give the folder that corrhash train wrote: --model."
            )
        return {}
    listed = Path(source).suffix in SUFFIXES and Path(source).is_file()
    same = (named or listed) and place_of(source) == training["dataset"]
    return {"seed": training["seed"], "options": training["options"] if same else {}}


def _wait_for(uri: str) -> None:
    """Until the first of several processes has made the collection."""
    from corrhash.index import engine_of

    end = time.monotonic() + PATIENCE
    while engine_of(uri).look(uri) is None:
        if time.monotonic() > end:
            raise InputError(
                f"There is no collection at {uri} after {PATIENCE} seconds. The first share, 0/N, "
                "makes it: start that one too."
            )
        time.sleep(0.5)


def open_collection(uri: str, model: Path | None, method: str | None) -> Collection:
    """The collection at an address, under the model that is named or kept with it."""
    from corrhash.collection import Collection

    return Collection.open(uri, model, method_named(method))


def _about(uri: str) -> dict[str, Any]:
    from corrhash.index import engine_of

    about: dict[str, Any] | None = engine_of(uri).look(uri)
    if about is None:
        raise InputError(f"There is no collection at {uri}. Make one with corrhash index.")
    return about


def _model_words(collection: Collection, model: Path | None) -> str:
    """What a search must add, where the collection does not hold its model."""
    from corrhash.index import ENGINES, FOLDER

    holds = isinstance(collection.index, ENGINES[FOLDER])
    return "" if holds else f" --model {shlex.quote(str(model))}"


def _say_added(added: Added, collection: Collection) -> None:
    counts = {"new": added.new, "updated": added.updated, "unchanged": added.unchanged}
    words = [f"{number:,} {name}" for name, number in counts.items() if number or name == "new"]
    say(f"{', '.join(words)}; {len(collection):,} items in {collection.uri}")
    for key, reason in list(added.skipped.items())[:5]:
        say(f"Skipped {key}: {reason}")
    if len(added.skipped) > 5:
        say(f"Skipped in all: {len(added.skipped):,}")


def _as_dict(match: Match) -> dict[str, Any]:
    item = match.item
    return {
        **{"id": match.id, "distance": match.distance, "score": match.score, "key": item.key},
        **{"text": item.text, "labels": list(item.labels), "metadata": dict(item.metadata)},
        "path": item.path,
    }


def print_matches(title: str, matches: list[Match], offset: int = 0) -> None:
    """A table of answers."""
    if not matches:
        say("No item passes. Widen the filter or the radius.")
        return
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in ("", "distance", "score"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("key", "text", "labels"):
        table.add_column(name, overflow="fold")
    for rank, match in enumerate(matches, start=offset + 1):
        score = "" if match.score is None else f"{match.score:.3f}"
        cells = [str(rank), str(match.distance), score, match.key, match.item.text]
        table.add_row(*map(_plain, [*cells, ", ".join(match.item.labels)]))
    out.print(table, highlight=False)


def _plain(cell: str) -> Any:
    """A cell as it is: texts may look like markup."""
    from rich.text import Text

    return Text(cell)


def _write_sheet(path: Path, title: str, image: Path | None, matches: list[Match]) -> None:
    """The answers in a grid, before them the picture that was searched with."""
    from corrhash.records import open_picture
    from corrhash.sheet import contact_sheet, save_sheet, small_picture

    pictures = [small_picture(match.item.thumbnail) for match in matches]
    texts = [f"{match.distance} bits: {match.item.text or match.key}" for match in matches]
    if image is not None:
        pictures.insert(0, open_picture(image))
        texts.insert(0, "searched with this")
    save_sheet(contact_sheet(pictures, texts, title=title, columns=5, lines=3), path)
