"""Options that verbs of several files take, and what they stand for."""

from pathlib import Path
from typing import Annotated, Any

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
CollectionArgument = Annotated[
    str,
    typer.Argument(metavar="COLLECTION", help="Its address: a folder, or milvus://host:port/name."),
]
ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model", metavar="DIR", help="A folder that **corrhash train** wrote; a folder keeps it."
    ),
]


def method_named(name: str | None) -> Any:
    """What ``MethodOption`` names: the class that loads a model."""
    from corrhash.experiments.settings import method_class
    from corrhash.methods import Hasher

    return Hasher if name is None else method_class(name)
