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
DatasetArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATASET",
        help="A name (**corrhash datasets** lists them), a folder of pictures, a manifest or a "
        "file of arrays.",
    ),
]
RootOption = Annotated[
    Path | None,
    typer.Option(
        "--root",
        metavar="DIR",
        help="The folder with the files of a published dataset; by default data.",
    ),
]
DataOption = Annotated[
    list[str] | None,
    typer.Option("--data", metavar="NAME=VALUE", help="An option of the dataset; repeatable."),
]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A folder that **corrhash train** wrote.")
]
BitsOption = Annotated[int, typer.Option("--bits", help="Length of the codes, 1 to 1024.")]
SeedOption = Annotated[
    int, typer.Option(min=0, help="The same seed gives the same split and codes.")
]
