"""Commands for the items of a collection: update, delete and duplicates."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from corrhash.cli.collections import about_of, open_collection
from corrhash.cli.options import (
    TABLES,
    AllowDownloadOption,
    CollectionArgument,
    DeviceOption,
    KeysArgument,
    MethodOption,
    ModelOption,
)
from corrhash.cli.output import out, print_line, print_skipped, progress_bars
from corrhash.errors import InputError


def update(
    collection: CollectionArgument,
    keys: KeysArgument = None,
    text: Annotated[str | None, typer.Option(help="New text.")] = None,
    labels: Annotated[
        str | None, typer.Option(help="New labels, separated by **|**, **;** or **,**.")
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set a metadata field; repeatable.",
        ),
    ] = None,
    removed: Annotated[
        list[str] | None,
        typer.Option(
            "--remove",
            metavar="NAME",
            help="Remove a metadata field, **text** or **labels**; repeatable.",
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="TABLE",
            help=f"Read changes from a table ({TABLES}) with a column named **key**.",
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="New location of the folder that paths of items are relative to."
        ),
    ] = None,
    device: DeviceOption = None,
    model: ModelOption = None,
    method: MethodOption = None,
    allow_download: AllowDownloadOption = False,
) -> None:
    """Change the text, labels or metadata of items, or the root folder of their paths.

    New texts are encoded. Fields that are not given, and empty cells of a table, change nothing.
    Unknown keys and texts without a term from the model's vocabulary are reported, and their items
    stay unchanged. **corrhash index** keeps the changes until the item changes in its source.

    Example: corrhash update photos beach/1.jpg beach/2.jpg --labels "beach|dog" --set year=2015
    """
    given = {"text": text, "labels": labels, "metadata": _fields(fields or [], removed or [])}
    change = {name: value for name, value in given.items() if value not in (None, {})}
    change |= {name: "" for name in ("text", "labels") if name in (removed or [])}
    if bool(keys) != bool(change):
        raise InputError("Pass item keys and at least one of --text, --labels, --set and --remove.")
    if not keys and table is None and root is None:
        raise InputError(
            "Nothing to update. Pass keys with --text, --labels, --set or --remove; or pass --from "
            "TABLE; or pass --root DIR."
        )
    opened = open_collection(collection, model, method, allow_download=allow_download)
    if root is not None:
        opened.set_root(root)
        print_line(f"Root: {opened.root}")
    if not keys and table is None:
        return
    changes: Iterable[dict[str, Any]] = [{"key": key, **change} for key in keys or []]
    unreadable: dict[str, str] = {}
    if table is not None:
        changes = chain(changes, _table_changes(table, unreadable))
    with progress_bars():
        updated = opened.update_many(changes)
    print_line(f"{updated.updated:,} updated, {updated.unchanged:,} unchanged")
    print_skipped({**updated.skipped, **unreadable})


def delete(
    collection: CollectionArgument,
    keys: KeysArgument = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="Delete items that pass a filter: year < 2015"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print how many items would be deleted.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete items by key, by a filter, or by both.

    With keys and a filter, only the given items that pass the filter are deleted. On a terminal,
    the command asks for confirmation.

    Example: corrhash delete photos --where "year < 2015" --dry-run
    """
    from corrhash.collection.deleting import delete_items
    from corrhash.index import open_index

    if not keys and where is None:
        raise InputError("Pass item keys, --where FILTER, or both.")
    index = open_index(collection, about_of(collection)["n_bits"])
    found = index.ids_of(keys or [])
    print_skipped({key: "No item has this key." for key in keys or [] if key not in found})
    n, total = delete_items(index, keys or None, where, dry_run=True), len(index)
    if dry_run:
        print_line(f"{n:,} of {total:,} items would be deleted.")
        return
    if n and not yes and _on_terminal():
        typer.confirm(f"Delete {n:,} of {total:,} items from {collection}?", abort=True)
    n = delete_items(index, keys or None, where)
    print_line(f"{n:,} deleted; {len(index):,} items in {collection}")


def duplicates(
    collection: CollectionArgument,
    max_distance: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Largest Hamming distance of image codes.  [default: 3/8 of the code length; 1/8 "
            "in a collection without a model]",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the groups as JSON.")] = False,
    model: ModelOption = None,
    method: MethodOption = None,
) -> None:
    """List groups of items that show the same image. Nothing is deleted.

    Copies that were resized, re-encoded, mirrored or cropped by up to a tenth are found. Pairs with
    similar codes are verified on the stored images; **similarity** is their correlation, the lowest
    one of each group. In a collection without a model, codes alone are compared.

    Example: corrhash duplicates photos
    """
    opened = open_collection(collection, model, method)
    with progress_bars():
        groups = opened.duplicates(max_distance)
    if as_json:
        plain = [{"keys": group.keys, "similarity": group.similarity} for group in groups]
        sys.stdout.write(json.dumps(plain) + "\n")
        return
    n_items = sum(len(group.items) for group in groups)
    plural = "group" if len(groups) == 1 else "groups"
    print_line(f"{len(groups):,} {plural} of {n_items:,} items that show the same image")
    if not groups:
        return
    table = Table(box=None, pad_edge=False)
    for name, justify in (("", "right"), ("similarity", "right"), ("keys", "left")):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for number, group in enumerate(groups, start=1):
        similarity = "" if group.similarity is None else f"{group.similarity:.3f}"
        table.add_row(*map(Text, (str(number), similarity, "\n".join(group.keys))))
    out.print(table, highlight=False)
    command = ["corrhash", "delete", collection, *groups[0].keys[1:]]
    print_line(f"Nothing was deleted. To keep the first item of group 1: {shlex.join(command)}")


def _on_terminal() -> bool:
    return sys.stdin.isatty()


def _fields(pairs: list[str], removed: list[str]) -> dict[str, Any]:
    """Parse NAME=VALUE: numbers, true and false as such, others as strings; None removes."""
    fields: dict[str, Any] = {name: None for name in removed if name not in ("text", "labels")}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not name or not value:
            raise InputError(f"--set must be NAME=VALUE, got {pair!r}.")
        try:
            fields[name] = json.loads(value, parse_constant=str)
        except (ValueError, RecursionError):
            fields[name] = value
    return fields


def _table_changes(path: Path, unreadable: dict[str, str]) -> Iterable[dict[str, Any]]:
    """Yield the changes that a table lists; note the rows that cannot be read."""
    from corrhash.datasets.formats.table import read_changes
    from corrhash.datasets.records import UnreadableRecord

    for change in read_changes(path):
        if isinstance(change, UnreadableRecord):
            unreadable[change.key] = change.reason
        else:
            yield change
