"""Verbs that learn from use: relevance judgments, and the model that is improved with them."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from corrhash._files import caching_in
from corrhash.cli.collections import about_of, check_durable, open_collection
from corrhash.cli.options import (
    AllowDownloadOption,
    CacheOption,
    CollectionArgument,
    DeviceOption,
    MethodOption,
)
from corrhash.cli.output import out, print_line, progress_bars
from corrhash.errors import InputError

if TYPE_CHECKING:
    from corrhash.collection import Collection
    from corrhash.collection.improving import Records

SHOWN = 20
"""Latest judgments that the list shows."""

VERDICTS = {1: "fits", -1: "does not fit"}


def judgments(
    collection: CollectionArgument,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write all judgments to a .jsonl file, or to a .csv or .tsv table for "
            "**corrhash train --supervision**.",
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--import",
            metavar="FILE",
            help="Add the judgments of such a file, or of a click log with impressions.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all judgments as JSON.")] = False,
) -> None:
    """List, export or import the relevance judgments of a collection.

    A judgment records whether an item fits a query. The search page, **POST /api/v1/judgments** and
    **collection.judge** store them, and **corrhash improve** trains on them.

    A click log is a table with the columns **query**, **item** and **clicked** (0 or 1), and
    optionally **session** and **time**, in the order in which items were shown. A clicked item
    fits; an item above the last click that was not clicked does not fit.

    Example: corrhash judgments photos --import clicks.csv
    """
    from corrhash.collection.judging import read_judgments, store_judgments
    from corrhash.collection.judgment_files import read_judgment_file, write_judgments
    from corrhash.index import open_index

    if export is not None and source is not None:
        raise InputError("--export and --import cannot be combined. Run one after the other.")
    index = open_index(collection, about_of(collection)["n_bits"])
    if source is not None:
        found = read_judgment_file(source, index)
        store_judgments(index, found.judgments)
        print_line(f"Imported {_judgments(len(found.judgments))} from {source}")
        if found.n_unknown:
            print_line(f"Skipped {found.n_unknown:,} about items that are not in {collection}")
        return
    stored = read_judgments(index)
    if export is not None:
        n_written = write_judgments(export, stored, index)
        print_line(f"Exported {_judgments(n_written)}: {export}")
        if n_written < len(stored):
            print_line(
                f"Skipped {len(stored) - n_written:,} whose queries are neither keys nor texts of "
                "items; a .jsonl file holds all judgments"
            )
    elif as_json:
        sys.stdout.write(json.dumps([one.record() for one in stored]) + "\n")
    else:
        n_fit = sum(one.verdict > 0 for one in stored)
        print_line(f"{_judgments(len(stored))}: {n_fit:,} fit, {len(stored) - n_fit:,} do not")
        table = Table(box=None, pad_edge=False)
        for name in ("time", "query", "item", "verdict"):
            table.add_column(name, overflow="fold")
        for one in reversed(stored[-SHOWN:]):
            query = one.query if one.kind == "text" else f"{one.kind} {one.query}"
            table.add_row(one.time, query, one.item, VERDICTS[one.verdict])
        if stored:
            out.print(table, markup=False, highlight=False)


def improve(
    collection: CollectionArgument,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[SOURCE]",
            help="What the collection was indexed from. Needed only if the model reads feature "
            "vectors of a file.",
        ),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Image features of SOURCE, one row per item (.npy or .npz)."
        ),
    ] = None,
    restore: Annotated[
        bool,
        typer.Option("--restore", help="Return to the previous model and its codes instead."),
    ] = False,
    device: DeviceOption = None,
    method: MethodOption = None,
    allow_download: AllowDownloadOption = False,
    cache: CacheOption = None,
) -> None:
    """Fine-tune the model of a collection on its judgments.

    Training starts from the original model, with all judgments and with the images and texts of the
    collection. The new model is compared with the current one on judgments that were held out: how
    often does an item that fits have a higher score than one that does not? If the new model is
    better, all items are encoded again and the collection switches to it, in one step.

    Searches and writes continue meanwhile, and a running **corrhash serve** switches too. To resume
    an interrupted command, run it again. **--restore** undoes the last switch.

    Example: corrhash improve photos
    """
    from corrhash.collection import improving

    check_durable(collection)
    opened = open_collection(collection, None, method, allow_download=allow_download)
    with progress_bars(), caching_in(cache):
        records = _records(opened, source, features)
        if restore:
            generation = improving.restore(opened, records)
            print_line(f"Restored the previous model; generation {generation} of {collection}")
            return
        found = improving.improve(opened, records)
    print_line(f"Trained on {_judgments(found.n_judgments)} of {found.n_queries:,} queries")
    print_line(
        f"Held-out judgments in the right order: {found.before:.1%} before, {found.after:.1%} after"
    )
    if found.switched:
        print_line(f"Switched to generation {found.generation} of {collection}")
        print_line(f"To undo: corrhash improve {shlex.quote(collection)} --restore")
    else:
        print_line(f"{collection} keeps its model, because the new one is not better")


def _judgments(n: int) -> str:
    return f"{n:,} judgment" if n == 1 else f"{n:,} judgments"


def _records(opened: Collection, source: str | None, features: Path | None) -> Records:
    """Return the records of the source of a collection; none without a source."""
    from corrhash.cli.index import dataset_options
    from corrhash.collection.source import open_source

    if source is None:
        if features is not None:
            raise InputError("--features needs SOURCE, the table that the features belong to.")
        return ()
    options = dataset_options(source, opened.model.training)
    return open_source(source, opened.model.reader, features=features, **options).records
