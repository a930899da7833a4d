"""The verbs that tell what there is: methods, datasets."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from corrhash.cache_folder import caching_in
from corrhash.cli.options import CacheOption, DataOption, RootOption, SeedOption
from corrhash.cli.terminal import out, progress_bars, say
from corrhash.errors import InputError


def methods(
    name: Annotated[str | None, typer.Argument(help="A method, to read its page.")] = None,
) -> None:
    """List the methods, or print the page of one."""
    from corrhash.docpage import reflow
    from corrhash.experiments.settings import PLAIN_OPTIONS, setting_names
    from corrhash.methods import METHODS

    if name is not None:
        method = METHODS[name]
        out.print(f"[bold]{name}[/]\n", highlight=False)
        out.print(reflow(inspect.getdoc(method) or ""), highlight=False, markup=False)
        if method.grid:
            compared = "; ".join(f"{key} {_listed(tried)}" for key, tried in method.grid.items())
            out.print(f"\nTuning compares: {compared}", highlight=False, markup=False)
        names = setting_names(method())
        out.print(f"\n--set takes: {', '.join(names)}", highlight=False, markup=False)
        for setting, value in method().get_params().items():
            if dataclasses.is_dataclass(value):
                out.print(f"\n[bold]{setting}[/]\n", highlight=False)
                out.print(reflow(inspect.getdoc(value) or ""), highlight=False, markup=False)
                out.print(f"\nDefaults: {_defaults(value)}", highlight=False, markup=False)
        short = [f"{option} for {name}" for name, option in PLAIN_OPTIONS.items() if name in names]
        if short:
            out.print(f"\nIn short: {', '.join(short)}", highlight=False, markup=False)
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("method", style="bold")
    table.add_column("learns from")
    table.add_column("what it is")
    for each in METHODS:
        method = METHODS[each]
        table.add_row(each, _teachers(method), _first_line(method))
    out.print(table)


def datasets(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[check] [DATASET]", help="A dataset, to read about it; after check, to check."
        ),
    ] = None,
    root: RootOption = None,
    data: DataOption = None,
    sheet: Annotated[
        Path | None,
        typer.Option(help="Where check draws samples; by default NAME-samples.png, here."),
    ] = None,
    seed: SeedOption = 0,
    cache: CacheOption = None,
) -> None:
    """List the datasets, tell about one, or check its files.

    **check** opens every picture, compares what it counts with what is published, and draws a sheet
    of samples with their texts and labels.

    Example: corrhash datasets check mirflickr25k --root data
    """
    from corrhash.datasets import DATASETS
    from corrhash.datasets.check import about, check_dataset
    from corrhash.experiments.data_options import data_options
    from corrhash.sheet import contact_sheet

    match words or []:
        case []:
            for name in DATASETS:
                say("\n".join(about(name)))
            say("A folder of pictures, a manifest (.csv, .jsonl, .parquet) or a file of arrays")
            say("(.npz, .mat) is a dataset too: give its path.")
        case ["check", dataset]:
            options = data_options(dataset, root, data or [])
            with progress_bars(), caching_in(cache):
                check = check_dataset(dataset, seed=seed, **options)
            say("\n".join(check.lines()))
            if check.pictures:
                path = sheet or Path(f"{check.name}-samples.png")
                title = f"{check.name}: samples with texts and labels"
                contact_sheet(check.pictures, check.captions, title=title, lines=6).save(path)
                say(f"Samples: {path}")
            if not check.complete:
                raise typer.Exit(1)
        case [name] if name in DATASETS:
            say("\n".join(about(name)))
        case _:
            raise InputError(
                f"Got {' '.join(words or [])!r}. Write: corrhash datasets, corrhash datasets NAME, "
                "or corrhash datasets check DATASET."
            )


def _teachers(method: Any) -> str:
    """What a method learns from, the strongest first."""
    if not method.needs_labels:
        return "pairs"
    known = ["labels"]
    if method.learns_from_partners:
        known.append("pairs")
        known += [] if method.needs_alignment else ["clicks"]
    return ", ".join(known)


def _defaults(settings: Any) -> str:
    """``epochs=60, batch_size=256``, of the settings that are not None."""
    fields = dataclasses.asdict(settings).items()
    return ", ".join(f"{name}={value}" for name, value in fields if value is not None)


def _listed(values: Sequence[Any]) -> str:
    """``0.1, 1 or None``."""
    *first, last = (f"{v:g}" if isinstance(v, float) else str(v) for v in values)
    return f"{', '.join(first)} or {last}" if first else last


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]
