"""The verbs that list what is available: methods, datasets, encoders and engines."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from corrhash._files import caching_in
from corrhash.cli.options import FORMATS, CacheOption, DataOption, RootOption, SeedOption
from corrhash.cli.output import first_line, out, print_line, progress_bars, reflow
from corrhash.errors import InputError, MissingPackageError, did_you_mean


def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="METHOD", help="Method to describe.")
    ] = None,
) -> None:
    """List the hashing methods, or describe one and its parameters.

    Example: corrhash methods chn-plus
    """
    from corrhash.methods import METHODS

    if name is not None:
        _describe_method(name)
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("method", style="bold")
    table.add_column("supervision")
    table.add_column("description")
    for each in METHODS:
        try:
            method = METHODS[each]
        except MissingPackageError as error:
            table.add_row(each, "", escape(str(error)))
        else:
            table.add_row(each, _supervision(method), escape(first_line(method)))
    out.print(table)


def datasets(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[check] [DATASET]",
            help="Name of a dataset to describe; put **check** before a name or path to check its "
            "files.",
        ),
    ] = None,
    root: RootOption = None,
    data: DataOption = None,
    sheet: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File for **check**'s contact sheet of samples.  [default: NAME-samples.png]",
        ),
    ] = None,
    seed: SeedOption = 0,
    cache: CacheOption = None,
) -> None:
    """List the datasets, describe one, or check its files.

    **check** decodes every image, compares the number of items with the published one, and writes
    a contact sheet of samples with their texts and labels.

    Example: corrhash datasets check mirflickr25k --root data
    """
    from corrhash.contact_sheet import check_sheet_name, contact_sheet, save_sheet
    from corrhash.datasets import DATASETS
    from corrhash.datasets.check import about, check_dataset
    from corrhash.experiments.options import data_options

    given = {"--root": root, "--data": data, "--sheet": sheet}
    unused = [name for name, value in given.items() if value is not None]
    if unused and (arguments or [])[:1] != ["check"]:
        raise InputError(f"{unused[0]} applies to corrhash datasets check DATASET only. Remove it.")
    if sheet is not None:
        check_sheet_name(sheet)
    match arguments or []:
        case []:
            for name in DATASETS:
                print_line("\n".join(about(name)))
            print_line(f"You can also pass the path to {FORMATS}.")
        case ["check", dataset]:
            options = data_options(dataset, root, data or [])
            with progress_bars(), caching_in(cache):
                check = check_dataset(dataset, seed=seed, **options)
            for line in check.lines():
                print_line(line)
            if check.problem:
                raise InputError(check.problem)
            if check.images:
                path = sheet or Path(f"{check.name}-samples.png")
                title = f"{check.name}: samples with texts and labels"
                samples = contact_sheet(check.images, check.captions, title=title, lines=6)
                save_sheet(samples, path)
                print_line(f"Samples: {path}")
            if not check.complete:
                raise typer.Exit(1)
        case [name] if name in DATASETS:
            print_line("\n".join(about(name)))
        case [name] if name != "check":
            raise InputError(
                f"Unknown dataset {name!r}.{did_you_mean(name, DATASETS)} Datasets: "
                f"{', '.join(DATASETS)}. To check your own files: corrhash datasets check PATH"
            )
        case ["check"]:
            raise InputError("Pass the dataset to check: corrhash datasets check DATASET")
        case _:
            raise InputError(
                f"Unknown arguments {' '.join(arguments or [])!r}. Usage: corrhash datasets, "
                "corrhash datasets NAME or corrhash datasets check DATASET"
            )


def encoders(
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the speed of each encoder here.")
    ] = False,
    cache: CacheOption = None,
) -> None:
    """List the image and text encoders on this machine, the best first.

    The command looks in the folder $CORRHASH_ENCODERS (by default the folder **encoders** of the
    cache), in installed packages and in the Hugging Face cache. Pass a name to
    **--image-features**, **--text-features** or, if it encodes both modalities, to **corrhash index
    --encoder**.
    """
    from corrhash.networks.encoder_catalog import FETCHED, find_encoders
    from corrhash.networks.encoder_files import encoders_folder

    with caching_in(cache), progress_bars():
        found = find_encoders()
        if not found:
            print_line(
                "No encoders found. Copy a folder with a model.onnx file or a CLIP export to "
                f"{encoders_folder()}. corrhash train downloads {FETCHED} if it can."
            )
            return
        table = Table(box=None, pad_edge=False)
        for column in ("encoder", "encodes", "size", "speed" if measure else "", "from"):
            table.add_column(column, overflow="fold")
        for one in found:
            speed = ""
            if measure and not one.missing:
                per_second = (one.measured().speed or {}).items()
                speed = ", ".join(f"{n:.3g} {modality}s/s" for modality, n in per_second)
            usable = f"; needs pip install 'corrhash[{one.missing}]'" if one.missing else ""
            size = f"{max(1, round(one.n_bytes / 1e6)):,} MB"
            row = (one.name, " and ".join(one.modalities), size, speed, f"{one.origin}{usable}")
            table.add_row(*map(Text, row))
    out.print(table, highlight=False)


def engines() -> None:
    """List the storage engines and the URIs that select them."""
    from corrhash.index import ENGINES

    table = Table(box=None, pad_edge=False)
    table.add_column("URI", style="bold")
    table.add_column("engine")
    for name in ENGINES:
        try:
            line = (ENGINES[name].__doc__ or "").strip().splitlines()[0]
        except InputError as error:
            line = str(error)
        table.add_row(name, line)
    out.print(table, highlight=False)


def _describe_method(name: str) -> None:
    """Print the docstring of a method, its parameters and its defaults."""
    from corrhash.experiments.options import SHORTCUT_OPTIONS, setting_names
    from corrhash.methods import METHODS

    method = METHODS[name]
    out.print(f"[bold]{name}[/]\n", highlight=False)
    out.print(reflow(inspect.getdoc(method) or ""), highlight=False, markup=False)
    if method.grid:
        grid = "; ".join(f"{key} {_join_or(values)}" for key, values in method.grid.items())
        out.print(f"\nTuning grid: {grid}", highlight=False, markup=False)
    names = setting_names(method())
    out.print(f"\nParameters for --set: {', '.join(names)}", highlight=False, markup=False)
    for parameter, value in method().get_params(deep=False).items():
        if dataclasses.is_dataclass(value):
            out.print(f"\n[bold]{parameter}[/]\n", highlight=False)
            out.print(reflow(inspect.getdoc(value) or ""), highlight=False, markup=False)
            out.print(f"\nDefaults: {_defaults(value)}", highlight=False, markup=False)
    options = [
        f"{option} sets {name}" for name, option in SHORTCUT_OPTIONS.items() if name in names
    ]
    if options:
        out.print(f"\nOptions: {', '.join(options)}", highlight=False, markup=False)


def _supervision(method: Any) -> str:
    """Return the kinds of supervision that a method can use, the strongest first."""
    if not method.needs_labels:
        return "pairs"
    kinds = ["labels"]
    if method.learns_from_pairs:
        kinds.append("pairs")
        kinds += [] if method.needs_alignment else ["judgments"]
    return ", ".join(kinds)


def _defaults(settings: Any) -> str:
    """Return the fields that are not None: ``epochs=60, batch_size=256``."""
    fields = dataclasses.asdict(settings).items()
    return ", ".join(f"{name}={value}" for name, value in fields if value is not None)


def _join_or(values: Sequence[Any]) -> str:
    """``0.1, 1 or None``."""
    *first, last = (f"{v:g}" if isinstance(v, float) else str(v) for v in values)
    return f"{', '.join(first)} or {last}" if first else last
