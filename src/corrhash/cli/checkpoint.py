"""The checkpoint of a training command: check it before any work, explain how to resume."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from corrhash._files import atomic_write, make_folder
from corrhash.cli.output import err, print_line
from corrhash.errors import InputError

RUN_FILE = "run.json"
STATE_FILE = "checkpoint.json"
INTERRUPTED = 130
"""Exit code of a command that Ctrl-C stopped, as shells give it."""


def _as_json(settings: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(settings, default=str)))


@dataclass(frozen=True)
class Checkpoint:
    """The folder in which network training saves its state until the model is saved."""

    folder: Path

    @property
    def epochs_done(self) -> int:
        """Number of epochs that the checkpoint contains; 0 without a checkpoint."""
        try:
            return int(json.loads((self.folder / STATE_FILE).read_bytes())["epochs_done"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    @property
    def _has_state(self) -> bool:
        """Whether training has saved anything, of label classifiers or of the networks."""
        return self.epochs_done > 0 or (self.folder / "labels").exists()

    def prepare(self, settings: dict[str, Any], restart: bool) -> None:
        """Compare the settings of an interrupted run with these, before data is read."""
        if restart:
            self.remove()
        elif self.folder.exists():
            self._check(_as_json(settings))

    def start(self, settings: dict[str, Any]) -> None:
        """Note the settings of a run that is about to save checkpoints."""
        make_folder(self.folder)
        with atomic_write(self.folder / RUN_FILE) as file:
            file.write(json.dumps(_as_json(settings), indent=1).encode())

    def _check(self, settings: dict[str, Any]) -> None:
        try:
            before = json.loads((self.folder / RUN_FILE).read_bytes())
        except (OSError, ValueError):
            before = settings  # of an earlier version; the trainer compares parameters and data
        if not self._has_state:
            return
        changes = [
            f"{name} was {before.get(name)!r}, now {settings.get(name)!r}"
            for name in {**before, **settings}
            if before.get(name) != settings.get(name)
        ]
        if changes:
            raise InputError(
                f"{self.folder} contains an interrupted training run with different settings: "
                f"{'; '.join(changes)}. Run the earlier command again to resume it, or add "
                "--restart to discard it."
            )
        done = f" after epoch {self.epochs_done}" if self.epochs_done else ""
        print_line(f"Resuming training, interrupted{done}. To start over, pass --restart.")

    def remove(self) -> None:
        """Delete the checkpoint."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def explaining_interrupts(self) -> Iterator[None]:
        """Print how to resume when Ctrl-C stops the block; leave nothing if it cannot start."""
        try:
            yield
        except InputError:
            if not self._has_state:
                self.remove()
            raise
        except KeyboardInterrupt:
            done = self.epochs_done
            kept = f"epoch {done} is saved" if done else "computed features are cached"
            err.print(
                f"\nInterrupted: {kept}. Run the same command again to resume, or with --restart "
                "to start over.",
                highlight=False,
            )
            raise typer.Exit(INTERRUPTED) from None
