"""Arguments and options shared by several verbs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

TABLES = ".csv, .tsv, .jsonl, .ndjson, .parquet"
FORMATS = (
    f"a folder of images, a table ({TABLES}), tar shards (.tar, .tar.gz, .tgz) or a file of "
    "arrays (.npz, .mat)"
)
ENCODER_BITS = 256
"""Default code length with pretrained encoders: longer codes distinguish more details of photos."""

MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="CLASS",
        help="package.module:Class, if the model's class is your own.",
    ),
]
CacheOption = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="DIR",
        envvar="CORRHASH_CACHE",
        help="Folder for downloads and image features.  [default: ~/.cache/corrhash]",
    ),
]


def _use_device(context: typer.Context, name: str | None) -> str | None:
    """Use the device until the command ends."""
    from corrhash.networks.device import use_device

    context.with_resource(use_device(name))
    return name


def _go_offline(context: typer.Context, offline: bool) -> bool:
    """Refuse downloads until the command ends."""
    if offline:
        context.with_resource(_variables(CORRHASH_OFFLINE="1", HF_HUB_OFFLINE="1"))
    return offline


@contextmanager
def _variables(**values: str) -> Iterator[None]:
    """Set environment variables inside the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})


OfflineOption = Annotated[
    bool,
    typer.Option(
        "--offline",
        callback=_go_offline,
        help="Never download; use only encoders on this machine.",
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        envvar="CORRHASH_DEVICE",
        callback=_use_device,
        help="Device for networks: cpu, cuda, cuda:1 or mps.  [default: the best available]",
    ),
]
DatasetArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATASET",
        help=f"Name of a dataset (**corrhash datasets** lists them), or path to {FORMATS}.",
    ),
]
RootOption = Annotated[
    Path | None,
    typer.Option(
        "--root",
        metavar="DIR",
        help="Folder with the files of a published dataset.  [default: data]",
    ),
]
DataOption = Annotated[
    list[str] | None,
    typer.Option("--data", metavar="NAME=VALUE", help="Set an option of the dataset; repeatable."),
]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model folder written by **corrhash train**.")
]
SeedOption = Annotated[
    int, typer.Option(min=0, metavar="N", help="Random seed for the split and for training.")
]
CollectionArgument = Annotated[
    str,
    typer.Argument(
        metavar="COLLECTION",
        help="URI of the collection: a folder, or milvus://host:port/name.",
    ),
]
KeysArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY]...", help="Keys of items.")
]
ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="DIR",
        help="Model folder. Required only for collections on Milvus.",
    ),
]

PreviewOption = Annotated[
    int | None,
    typer.Option(
        "--preview-size",
        min=256,
        max=2048,
        metavar="PIXELS",
        help="Longest side of the images to store for the search page.  [default: 640]",
    ),
]


AllowDownloadOption = Annotated[
    bool,
    typer.Option(
        "--allow-download",
        help="Download the encoder or weights that the model needs if they are missing.",
    ),
]


def method_named(name: str | None) -> Any:
    """Return the class that loads a model, as given by ``MethodOption``."""
    from corrhash.experiments.options import method_class
    from corrhash.methods import Hasher

    return Hasher if name is None else method_class(name)
