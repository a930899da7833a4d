"""The verb ``serve``: a collection for browsers and programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from corrhash.cli.collections import open_collection
from corrhash.cli.options import CollectionArgument, MethodOption, ModelOption
from corrhash.cli.terminal import say
from corrhash.errors import InputError


def serve(
    collection: CollectionArgument,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8000,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", help="A host name by which it is called; repeatable."),
    ] = None,
    writable: Annotated[
        bool, typer.Option("--writable", help="Let those who have the token add and delete.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Holds the token; or set CORRHASH_TOKEN."),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0.1, help="Requests a second of one client, in the long run.")
    ] = 20.0,
    model: ModelOption = None,
    method: MethodOption = None,
) -> None:
    """Open a collection to browsers and programs: a page to search on, and an API.

    Answers this machine alone, unless **--host** says otherwise. The log goes to standard error,
    a line of JSON for each request; what people search for is not in it.

    Example: corrhash serve photos, then open http://127.0.0.1:8000
    """
    try:
        from corrhash.service import limits, run, token
    except ModuleNotFoundError as error:
        raise InputError(
            f"The service needs the package {error.name}. Install it: pip install corrhash[serve]."
        ) from error

    secret = token.read_token(token_file, os.environ.get("CORRHASH_TOKEN"))
    if writable and secret is None:
        raise InputError(
            "Adding and deleting needs a token. Put a long random text into a file and name it "
            "with --token-file, or into CORRHASH_TOKEN."
        )
    if not run.is_loopback(host) and secret is None:
        say(
            f"Warning: all who reach {host} can search this collection, and there is no token. "
            "Put a proxy that knows its users before it."
        )
    opened = open_collection(collection, model, method)
    say(f"Loading {collection}: {len(opened):,} items")
    run.serve(
        opened,
        host,
        port,
        names=tuple(names or ()),
        token=secret if writable else None,
        limits=limits.Limits(rate=rate, burst=max(1, int(3 * rate))),
        ready=lambda address: say(f"Ready: {address}"),
    )
