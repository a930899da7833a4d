"""What a command line says of the data: where it is, its options, and what its texts become."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from corrhash.datasets import DATASETS, TextOptions
from corrhash.errors import InputError
from corrhash.experiments.settings import parse_params


def data_options(dataset: str, root: str | Path | None, given: list[str]) -> dict[str, Any]:
    """The options of a dataset; a model keeps them with the full path of the root."""
    options = parse_params(given)
    for taken in ("root", "seed"):
        if taken in options:
            raise InputError(f"{taken} has an option of its own: use --{taken}.")
    if root is not None and dataset not in DATASETS:
        raise InputError(f"{dataset} is a place of its own. Got --root {root}. Leave --root out.")
    return options if root is None else {**options, "root": str(Path(root).absolute())}


def text_options(given: list[str]) -> TextOptions | None:
    """What strings become; None if nothing was said of it."""
    if not given:
        return None
    options = parse_params(given)
    known = [field.name for field in dataclasses.fields(TextOptions)]
    for name in options:
        if name not in known:
            raise InputError(f"--texts has no {name!r}. It has: {', '.join(known)}.")
    return TextOptions(**options)
