"""The command ``serve``: publish a collection over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from corrhash.cli.collections import open_collection
from corrhash.cli.options import (
    AllowDownloadOption,
    CollectionArgument,
    DeviceOption,
    MethodOption,
    ModelOption,
)
from corrhash.cli.output import print_line
from corrhash.errors import InputError, optional_packages


def serve(
    collection: CollectionArgument,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 selects a free one.")
    ] = 8000,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", help="Additional host name to accept in requests; repeatable."),
    ] = None,
    writable: Annotated[
        bool,
        typer.Option(
            "--writable", help="Allow clients with the token to change items and to judge results."
        ),
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the token; or set CORRHASH_TOKEN."),
    ] = None,
    originals: Annotated[
        bool,
        typer.Option("--originals", help="Publish the image files of the items, and their paths."),
    ] = False,
    paths: Annotated[
        bool,
        typer.Option("--paths", help="Publish the image paths, relative to the root folder."),
    ] = False,
    proxies: Annotated[
        list[str] | None,
        typer.Option(
            "--proxy",
            metavar="ADDRESS",
            help="Reverse proxy whose X-Forwarded-For header names the client; repeatable.",
        ),
    ] = None,
    rate: Annotated[
        float,
        typer.Option(min=0.1, max=1e6, help="Maximum sustained requests per second per client."),
    ] = 20.0,
    workers: Annotated[
        int, typer.Option(min=1, metavar="N", help="Processes that answer requests.")
    ] = 1,
    device: DeviceOption = None,
    model: ModelOption = None,
    method: MethodOption = None,
    allow_download: AllowDownloadOption = False,
) -> None:
    """Serve a search page and a JSON API for a collection.

    Listens on this machine only, at http://127.0.0.1:8000, unless **--host** or **--port** is
    given. Logs go to standard error, one line of JSON per request; queries are not logged.

    Example: corrhash serve photos
    """
    with optional_packages("The search service"):
        from corrhash.service import server
        from corrhash.service.auth import read_token
        from corrhash.service.limits import Limits

    for name in names or ():
        if "/" in name or not name.isascii():
            raise InputError(
                f"--name must be a host name, such as search.example.org, got {name!r}."
            )
    token = read_token(token_file, os.environ.get("CORRHASH_TOKEN"))
    if writable and token is None:
        raise InputError(
            "--writable needs a token. Write a long random string to a file and pass the file with "
            "--token-file, or set CORRHASH_TOKEN to the string."
        )
    if not server.is_loopback(host):
        scope = "" if token is None else " The token only protects adding and deleting items."
        print_line(
            f"Warning: everyone who can reach {host} can search this collection.{scope} To "
            "restrict access, put a proxy with authentication in front of it."
        )
    opened = open_collection(_absolute(collection), model, method, allow_download=allow_download)
    print_line(f"Loading {collection}: {len(opened):,} items")
    server.serve(
        opened,
        host,
        port,
        names=tuple(names or ()),
        token=token if writable else None,
        originals=originals,
        paths=paths,
        limits=Limits(rate=rate, burst=max(1, int(3 * rate))),
        workers=workers,
        proxies=tuple(proxies or ()),
        ready=lambda url: print_line(f"Ready: {url}"),
    )


def _absolute(uri: str) -> str:
    """The full path of a folder, which the service can recognize in messages and remove."""
    return str(Path(uri).absolute()) if Path(uri).is_dir() else uri
