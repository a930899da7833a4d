"""Verbs that learn from use: list, export and import relevance judgments."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from corrhash.cli.collections import about_of
from corrhash.cli.options import CollectionArgument
from corrhash.cli.output import out, print_line
from corrhash.errors import InputError

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

    A judgment says whether an item fits a query. The search page, **POST /api/v1/judgments** and
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
        print_line(f"Imported {len(found.judgments):,} judgments from {source}")
        if found.n_unknown:
            print_line(f"Skipped {found.n_unknown:,} about items that are not in {collection}")
        return
    stored = read_judgments(index)
    if export is not None:
        n_written = write_judgments(export, stored, index)
        print_line(f"Exported {n_written:,} judgments: {export}")
        if n_written < len(stored):
            print_line(
                f"Skipped {len(stored) - n_written:,} whose queries are neither keys nor texts of "
                "items; a .jsonl file holds all judgments"
            )
    elif as_json:
        sys.stdout.write(json.dumps([one.record() for one in stored]) + "\n")
    else:
        n_fit = sum(one.verdict > 0 for one in stored)
        print_line(f"{len(stored):,} judgments: {n_fit:,} fit, {len(stored) - n_fit:,} do not")
        table = Table(box=None, pad_edge=False)
        for name in ("time", "query", "item", "verdict"):
            table.add_column(name, overflow="fold")
        for one in reversed(stored[-SHOWN:]):
            query = one.query if one.kind == "text" else f"{one.kind} {one.query}"
            table.add_row(one.time, query, one.item, VERDICTS[one.verdict])
        if stored:
            out.print(table, markup=False, highlight=False)
