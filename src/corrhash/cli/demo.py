"""The verb demo: the whole pipeline on synthetic images."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from corrhash.cli.matches import print_matches
from corrhash.cli.options import DeviceOption, SeedOption
from corrhash.cli.output import (
    add_map_row,
    out,
    print_line,
    print_split,
    progress_bars,
    score_table,
)

QUERY = "lighthouse night"


def demo(
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the model and the collection.")
    ] = Path("demo"),
    images: Annotated[int, typer.Option(metavar="N", help="Number of images.", min=600)] = 6000,
    epochs: Annotated[int, typer.Option(metavar="N", help="Number of training epochs.", min=1)] = 8,
    device: DeviceOption = None,
    seed: SeedOption = 0,
) -> None:
    """Generate images, train CHN-plus on them, evaluate it and search, in a few minutes.

    Nothing is downloaded. CHN-plus, a deep method, learns from pixels and tags. It is compared with
    two baselines: CVH, a linear method, on simple image features, and random codes. Writes a
    trained model, precision-recall curves, sample search results and a searchable collection.
    """
    from corrhash.demo import run_demo

    with progress_bars():
        result = run_demo(folder, images, epochs, seed)
    print_split(result.split)
    table = score_table("mAP over the whole ranking, ties: expected", "method", "bits")
    for (name, n_bits), scores in result.scores.items():
        add_map_row(table, scores, name, str(n_bits))
    out.print(table)
    matches = result.collection.search(QUERY, k=5, where="not 'cat' in labels")
    print_matches(f"“{QUERY}”, without cats", matches)
    for title, path in result.files.items():
        print_line(f"{title}: {path}")
    command, collection = _command(), shlex.quote(str(folder / "collection"))
    print_line(f"Evaluate: {command} evaluate {shlex.quote(str(folder / 'model'))} scenes")
    print_line(f"Search:   {command} search {collection} boat sea --sheet boats.jpg")
    print_line(f"Serve:    {command} serve {collection}")


def _command() -> str:
    """Return how to call this program again: by name, or by path if it is not on the PATH."""
    program = Path(sys.argv[0])
    on_path = program.name != "corrhash" or shutil.which("corrhash")
    return "corrhash" if on_path else shlex.quote(str(program))
