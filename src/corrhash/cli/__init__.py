"""The command ``corrhash``: one short function per verb, in the order of the pipeline."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from corrhash import __version__
from corrhash.cli import collections, demo, lists, models, serve, study
from corrhash.cli.terminal import err, out
from corrhash.errors import InputError

app = typer.Typer(
    help="Find pictures with words, and words with pictures, through short binary codes.",
    epilog="Start with: corrhash demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

VERBS = (
    demo.demo,
    models.train,
    models.evaluate,
    models.encode,
    collections.index,
    collections.search,
    serve.serve,
    collections.info,
    collections.export,
    collections.copy,
    study.run,
    study.report,
    models.export_onnx,
    lists.methods,
    lists.datasets,
    collections.engines,
)
"""In the order of the pipeline, as ``--help`` lists them."""

for verb in VERBS:
    app.command()(verb)


def _version(wanted: bool) -> None:
    if wanted:
        out.print(f"corrhash {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


class _Words(logging.Handler):
    """What the library says, above the bars of progress."""

    def emit(self, record: logging.LogRecord) -> None:
        err.print(record.getMessage(), markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Run the command; a user's mistake ends in its sentence, not in a traceback."""
    log = logging.getLogger("corrhash")
    log.handlers = [_Words()]
    log.setLevel(logging.INFO)
    try:
        app()
    except InputError as error:
        err.print("Error:", style="bold red", end=" ")
        err.print(str(error), markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
