"""The verb search, and how verbs open a collection."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrhash.cli.matches import as_dict, print_matches, write_sheet
from corrhash.cli.options import (
    AllowDownloadOption,
    CollectionArgument,
    DeviceOption,
    MethodOption,
    ModelOption,
    method_named,
)
from corrhash.cli.output import print_line
from corrhash.errors import InputError

if TYPE_CHECKING:  # heavy modules are imported by the commands that need them, to keep --help fast
    from corrhash.collection import Collection


def search(
    collection: CollectionArgument,
    text: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Query text.")] = None,
    image: Annotated[Path | None, typer.Option(metavar="FILE", help="Query image.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Search for items similar to the item with this key.")
    ] = None,
    code: Annotated[
        str | None, typer.Option(metavar="HEX", help="Query code in hexadecimal digits.")
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
    min_probability: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Exclude matches that are less likely to be relevant, from 0 to 1; needs a "
            "calibrated model.",
        ),
    ] = None,
    sheet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the matches as one image.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the matches as JSON.")] = False,
    device: DeviceOption = None,
    model: ModelOption = None,
    method: MethodOption = None,
    allow_download: AllowDownloadOption = False,
) -> None:
    """Search a collection by text, by image or by one of its items.

    **distance** is the Hamming distance between the codes of the query and the item. The nearest
    100 items are re-ranked by **score**, the cosine similarity between the query's continuous code
    and the item's binary code, or its continuous code if the collection stores it. With **--key**,
    the query's code is the one stored for that item. If the model is calibrated, **probability** is
    the probability that the item shares a label with the query.

    Example: corrhash search photos "two dogs" --where "year >= 2015" --sheet dogs.jpg
    """
    from corrhash.codes import Codes
    from corrhash.contact_sheet import check_sheet_name

    words = " ".join(text or []) or None
    queries = {"TEXT": words, "--image": image, "--key": key, "--code": code}
    given = [name for name, query in queries.items() if query is not None]
    if len(given) != 1:
        got = " and ".join(given) or "none of them"
        raise InputError(
            f"Pass exactly one of TEXT, --image FILE, --key KEY and --code HEX, got {got}."
        )
    if sheet is not None:
        check_sheet_name(sheet)
    opened = open_collection(collection, model, method, allow_download=allow_download)
    codes = None if code is None else Codes.from_hex([code.lower()], opened.n_bits)
    matches: list[Any] = opened.search(
        words,
        image=image,
        key=key,
        codes=codes,
        find=find,
        k=k,
        where=where,
        radius=radius,
        offset=offset,
        rerank=rerank,
        min_probability=min_probability,
        thumbnails=sheet is not None,
    )
    if codes is not None:
        (matches,) = matches
    title = words or key or code or str(image)
    if sheet is not None and matches:
        write_sheet(sheet, title, image, matches)
    if as_json:
        sys.stdout.write(json.dumps([as_dict(match, opened) for match in matches]) + "\n")
        return
    wider = {
        "broader --where": where,
        "larger --radius": radius,
        "smaller --min-probability": min_probability,
        "smaller --offset": offset or None,
    }
    options = " or ".join(f"a {name}" for name, value in wider.items() if value is not None)
    print_matches(title, matches, offset, hint=options and f"Use {options}.")
    if sheet is not None and matches:
        print_line(f"Contact sheet: {sheet}")


def open_collection(
    uri: str, model: Path | None, method: str | None, *, allow_download: bool = False
) -> Collection:
    """Open a collection with the given model or with the one that it contains."""
    from corrhash.collection import Collection

    check_durable(uri)
    return Collection.open(uri, model, method_named(method), allow_download=allow_download)


def check_durable(uri: str) -> None:
    """Refuse ``memory:``, which ends with the command."""
    if uri.startswith("memory:"):
        raise InputError(
            f"A collection at {uri!r} would be lost when the command ends. Pass the path of a "
            "folder, or milvus://host:port/name."
        )


def about_of(uri: str) -> dict[str, Any]:
    """Return the description of a collection."""
    from corrhash.index import engine_of

    check_durable(uri)
    about: dict[str, Any] | None = engine_of(uri).look(uri)
    if about is None:
        raise InputError(f"No collection at {uri}. Create one with corrhash index.")
    return about
