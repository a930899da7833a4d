"""Options that verbs of several files take."""

from pathlib import Path
from typing import Annotated

import typer

MethodOption = Annotated[
    str | None,
    typer.Option("--method", help="package.module:Class, if the model is of a class of your own."),
]
CacheOption = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="DIR",
        envvar="CORRHASH_CACHE",
        help="Where downloads and image features are kept; by default ~/.cache/corrhash.",
    ),
]
