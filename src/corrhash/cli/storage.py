"""Commands for whole collections: info, repair, export and copy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from corrhash._files import check_suffix
from corrhash.cli.collections import about_of, check_durable, open_collection
from corrhash.cli.options import CollectionArgument, MethodOption, ModelOption, method_named
from corrhash.cli.output import out, print_line, progress_bars
from corrhash.errors import StorageError

SHOWN_PROBLEMS = 50
"""Problems that a repair prints; the rest is counted."""


def info(
    collection: CollectionArgument,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Check every row, and the model in a folder, for damage."),
    ] = False,
    method: MethodOption = None,
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
        _verify_model(collection, about, method)
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
    check_durable(target)
    opened = open_collection(source, model, method)
    with progress_bars():
        copied = opened.copy_to(target)
    print_line(f"Copied and verified {len(copied):,} items: {target}")


def repair(
    collection: Annotated[
        Path, typer.Argument(metavar="COLLECTION", help="Folder of the damaged collection.")
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="URI of a new collection.")],
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", metavar="DIR", help="Model folder, if the collection's own is damaged."
        ),
    ] = None,
    method: MethodOption = None,
) -> None:
    """Copy the undamaged items of a collection to a new one, and list the damage.

    The damaged collection is not changed. The exit code is 1 if anything was lost.

    Example: corrhash repair photos photos-repaired
    """
    from corrhash.collection.repairing import repair as salvage

    check_durable(target)
    with progress_bars():
        repaired = salvage(collection, target, model, method_named(method))
    for problem in repaired.problems[:SHOWN_PROBLEMS]:
        print_line(problem)
    if len(repaired.problems) > SHOWN_PROBLEMS:
        print_line(f"Problems in total: {len(repaired.problems):,}")
    print_line(f"Salvaged {repaired.n_items:,} items: {target}")
    if repaired.problems:
        raise typer.Exit(1)


def _verify_model(uri: str, about: dict[str, Any], method: str | None) -> None:
    """Verify the checksums of the model in the folder of a collection, and its fingerprint."""
    from corrhash.collection.generations import model_folder
    from corrhash.index import ENGINES, FOLDER, engine_of
    from corrhash.model import load_model

    folder = model_folder(uri, about)
    if engine_of(uri) is not ENGINES[FOLDER] or not folder.exists():
        return
    model = load_model(folder, method_named(method))
    model.hasher.verify(folder)
    if model.fingerprint != about.get("fingerprint", model.fingerprint):
        raise StorageError(
            f"The model in {folder} is not the one that encoded the collection: its fingerprint "
            f"is {model.fingerprint}, expected {about['fingerprint']}. Restore the original."
        )
