"""The verb ``demo``: everything once, on pictures that the program draws."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from corrhash.cli.collections import print_matches
from corrhash.cli.options import SeedOption
from corrhash.cli.score_tables import add_scores, say_split, score_table
from corrhash.cli.terminal import out, progress_bars, say


def demo(
    folder: Annotated[Path, typer.Option("--out", help="For pictures and model.")] = Path("demo"),
    pictures: Annotated[int, typer.Option(help="How many scenes to draw.", min=600)] = 6000,
    epochs: Annotated[int, typer.Option(help="Passes over the training pictures.", min=1)] = 8,
    seed: SeedOption = 0,
) -> None:
    """Draw pictures, learn codes from their pixels, search both ways: all in a few minutes.

    Scenes are drawn by the program, so nothing is downloaded. CHN learns from pixels and tags;
    CVH, on simple features, and random codes stand beside it. Leaves a trained model, curves, and
    a collection of the pictures with the answers to some searches in the folder.
    """
    from corrhash.demo import run_demo

    with progress_bars():
        result = run_demo(folder, pictures, epochs, seed)
    say_split(result.split)
    table = score_table("MAP over the whole ranking, expected over ties", "method", "bits")
    for (name, n_bits), scores in result.scores.items():
        add_scores(table, scores, name, str(n_bits))
    out.print(table)
    say("More bits do not help CVH: its later directions are mostly noise.")
    words = "lighthouse night"
    matches = result.collection.search_text(words, 5, where="not 'cat' in labels")
    print_matches(f"“{words}”, without cats", matches)
    for what, path in result.files.items():
        say(f"{what}: {path}")
    command, collection = _called_as(), shlex.quote(str(folder / "collection"))
    say(f"Next: {command} evaluate {shlex.quote(str(folder / 'model'))} scenes")
    say(f"Or:   {command} search {collection} boat sea --sheet boats.jpg")
    say(f"Page: {command} serve {collection}")


def _called_as() -> str:
    """What to type to call this program again: its path, where its name alone would not do."""
    program = Path(sys.argv[0])
    known = program.name != "corrhash" or shutil.which("corrhash")
    return "corrhash" if known else shlex.quote(str(program))
