"""The ``corrhash`` command: one function per verb."""

from __future__ import annotations

import logging
import os
import sys
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from corrhash import __version__
from corrhash.cli import (
    collections,
    demo,
    feedback,
    index,
    items,
    lists,
    models,
    serve,
    storage,
    study,
    train,
)
from corrhash.cli.command import Command, Group
from corrhash.cli.output import err, out
from corrhash.errors import InputError, StorageError, optional_packages

app = typer.Typer(
    cls=Group,
    help="Cross-modal hashing for image-text retrieval: train, evaluate, index and serve compact "
    "binary codes.",
    epilog="Start with: corrhash demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

VERBS = (
    demo.demo,
    train.train,
    models.evaluate,
    models.encode,
    models.score,
    index.index,
    collections.search,
    serve.serve,
    feedback.judgments,
    feedback.improve,
    storage.info,
    storage.export,
    items.update,
    items.delete,
    items.duplicates,
    storage.copy,
    storage.repair,
    study.run,
    study.report,
    models.export_onnx,
    lists.methods,
    lists.datasets,
    lists.encoders,
    lists.engines,
)
"""In the order of the pipeline, as ``--help`` lists them."""

for verb in VERBS:
    app.command(cls=Command)(verb)


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


class _LogHandler(logging.Handler):
    """Prints log messages of the library above the progress bars."""

    def emit(self, record: logging.LogRecord) -> None:
        err.print(record.getMessage(), markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Run the command; print errors about input and storage as one message, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names of files can be invalid in any encoding
            stream.reconfigure(errors="backslashreplace")
    log = logging.getLogger("corrhash")
    log.handlers = [_LogHandler()]
    log.setLevel(logging.INFO)
    try:
        with optional_packages("This command"):
            app()
    except (InputError, StorageError) as error:
        _fail(str(error), 2)
    except OSError as error:
        reason = error.strerror or str(error)
        what = f"Cannot access {str(error.filename)[:200]!r}" if error.filename else "System error"
        _fail(f"{what}: {reason}.", 2)
    except Exception as error:
        if os.environ.get(SHOW_TRACEBACK):
            raise
        reason = str(error).strip().partition("\n")[0][:300]
        _fail(
            f"{type(error).__name__}: {reason.rstrip('.')}. This is a bug in corrhash. Set "
            f"{SHOW_TRACEBACK}=1 to see the traceback, and please report it.",
            70,
        )


SHOW_TRACEBACK = "CORRHASH_TRACEBACK"
"""Environment variable that shows the traceback of a defect."""


def _fail(message: str, code: int) -> NoReturn:
    err.print("Error:", style="bold red", end=" ")
    err.print(message, markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)
