"""Errors that a user can fix: what is wrong, the value received, what to do."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

EXTRAS = {
    "fastapi": ("FastAPI", "serve"),
    "h5py": ("h5py", "hdf5"),
    "matplotlib": ("Matplotlib", "study"),
    "onnx": ("ONNX", "onnx"),
    "onnxruntime": ("ONNX Runtime", "onnx"),
    "onnxscript": ("ONNX Script", "onnx"),
    "prometheus_client": ("prometheus-client", "serve"),
    "pyarrow": ("PyArrow", "parquet"),
    "pydantic": ("Pydantic", "serve"),
    "pymilvus": ("PyMilvus", "milvus"),
    "sklearn": ("scikit-learn", "train"),
    "snowballstemmer": ("snowballstemmer", "stemming"),
    "starlette": ("Starlette", "serve"),
    "torch": ("PyTorch", "train"),
    "transformers": ("Transformers", "transformers"),
    "uvicorn": ("Uvicorn", "serve"),
}
"""Optional libraries by import name, each with its display name and the extra that installs it."""


class InputError(ValueError):
    """Raised for a mistake in the input; commands print its message without a traceback."""


class MissingPackageError(InputError, ImportError):
    """Raised when an optional package is not installed; the message names the extra."""


@contextmanager
def optional_packages(purpose: str, otherwise: str = "") -> Iterator[None]:
    """Turn a failed import of an optional package into an error that names the extra.

    ``purpose`` is the subject of its message, and ``otherwise`` a sentence on how to do without.

    >>> with optional_packages("Drawing curves"):
    ...     raise ModuleNotFoundError(name="matplotlib.figure")
    Traceback (most recent call last):
    corrhash.errors.MissingPackageError: Drawing curves needs Matplotlib. Install it with:
    pip install 'corrhash[study]'.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRAS:
            raise
        title, extra = EXTRAS[library]
        raise MissingPackageError(
            f"{purpose} needs {title}. Install it with: pip install 'corrhash[{extra}]'. "
            f"{otherwise}".rstrip()
        ) from error


_TYPES: dict[str, tuple[str, Any]] = {
    "bool": ("true or false", bool),
    "int": ("an integer", Integral),
    "float": ("a number", Real),
    "str": ("a string", (str, os.PathLike)),
}
"""Types of settings by their annotation: what to call them, and the values they accept."""


def check_settings(settings: Any, least: Mapping[str, int]) -> None:
    """Raise an error unless each field of a dataclass has the type of its annotation.

    ``least`` maps names of fields to their least values. Annotations are strings, such as
    ``"int | None"``.
    """
    for field in fields(settings):
        value = getattr(settings, field.name)
        kind, _, optional = str(field.type).partition(" | ")
        if value is None and optional:
            continue
        title, accepted = _TYPES[kind]
        valid = isinstance(value, accepted) and (kind == "bool" or not isinstance(value, bool))
        if field.name in least:
            title += f" >= {least[field.name]}"
            valid = valid and value >= least[field.name]
        if not valid:
            raise InputError(f"{field.name} must be {title}, got {value!r}.")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a suggestion to append to an error about an unknown name, or an empty string.

    >>> did_you_mean("boats", ["boat", "goats", "tree"])
    " Did you mean 'boat' or 'goats'?"
    """
    near = " or ".join(repr(other) for other in get_close_matches(name, list(known)))
    return f" Did you mean {near}?" if near else ""
