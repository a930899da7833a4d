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
    "huggingface_hub": ("huggingface_hub", "onnx"),
    "matplotlib": ("Matplotlib", "study"),
    "onnx": ("ONNX", "onnx"),
    "onnxruntime": ("ONNX Runtime", "onnx"),
    "onnxscript": ("ONNX Script", "onnx"),
    "pillow_heif": ("pillow-heif", "heic"),
    "prometheus_client": ("prometheus-client", "serve"),
    "pyarrow": ("PyArrow", "parquet"),
    "pydantic": ("Pydantic", "serve"),
    "pymilvus": ("PyMilvus", "milvus"),
    "sklearn": ("scikit-learn", "train"),
    "tokenizers": ("Tokenizers", "onnx"),
    "snowballstemmer": ("snowballstemmer", "stemming"),
    "starlette": ("Starlette", "serve"),
    "torch": ("PyTorch", "train"),
    "transformers": ("Transformers", "transformers"),
    "uvicorn": ("Uvicorn", "serve"),
}
"""Optional libraries by import name, each with its display name and the extra that installs it."""


class InputError(ValueError):
    """Raised for a mistake in the input; commands print its message without a traceback."""


class NotFoundError(InputError):
    """Raised for the key of an item that does not exist, or that was deleted meanwhile."""


class ParameterError(InputError):
    """Raised for an invalid argument; the message is the name of the parameter and the problem.

    Commands print the option that sets the parameter in place of its name.

    >>> raise ParameterError("n_bits", "must be between 1 and 1024, got 0.")
    Traceback (most recent call last):
    corrhash.errors.ParameterError: n_bits must be between 1 and 1024, got 0.
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)  # both, so that the error can be pickled
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.name} {self.problem}"


class StorageError(RuntimeError):
    """Raised when stored data cannot be read or written; commands print its message, too.

    Attributes
    ----------
    problem : ``busy`` if a later attempt can succeed, ``full`` if space is missing, or ``failed``.
    """

    def __init__(self, message: str, problem: str = "failed") -> None:
        super().__init__(message, problem)  # both, so that the error can be pickled
        self.problem = problem

    def __str__(self) -> str:
        return str(self.args[0])


class MissingPackageError(InputError, ImportError):
    """Raised when an optional package is not installed; the message names the extra."""


@contextmanager
def optional_packages(purpose: str, otherwise: str = "") -> Iterator[None]:
    """Turn a failed import of an optional package into an error that names the extra.

    ``purpose`` is the subject of its message, and ``otherwise`` an instruction for doing without.

    >>> with optional_packages("Drawing curves"):
    ...     raise ModuleNotFoundError(name="matplotlib.figure")
    Traceback (most recent call last):
    corrhash.errors.MissingPackageError: Drawing curves needs Matplotlib. Install it with:
    pip install 'corrhash[study]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRAS:
            raise
        title, extra = EXTRAS[library]
        install = f"{otherwise}, or install {title}" if otherwise else "Install it"
        raise MissingPackageError(
            f"{purpose} needs {title}. {install} with: pip install 'corrhash[{extra}]'"
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
            raise ParameterError(field.name, f"must be {title}, got {value!r}.")


def check_integer(name: str, value: Any, least: int) -> None:
    """Raise an error unless the parameter ``name`` is an integer of at least ``least``."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ParameterError(name, f"must be an integer, got {value!r}.")
    if value < least:
        raise ParameterError(name, f"must be at least {least}, got {value}.")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a suggestion to append to an error about an unknown name, or an empty string.

    >>> did_you_mean("boats", ["boat", "goats", "tree"])
    " Did you mean 'boat' or 'goats'?"
    """
    near = " or ".join(repr(other) for other in get_close_matches(name, list(known)))
    return f" Did you mean {near}?" if near else ""


_PROBLEMS = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "extra_forbidden": "is not a field of this request",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be an integer",
    "int_parsing": "must be an integer",
    "int_parsing_size": "must be an integer with fewer digits",
    "int_type": "must be an integer",
    "json_invalid": "is not valid JSON: {error}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "missing": "is missing",
    "model_attributes_type": "must be an object",
    "string_pattern_mismatch": "contains characters that are not allowed",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_type": "must be a string",
    "too_many_fields": "must have at most {most} fields, got {got}",
    "too_long": "must have at most {max_length} entries, got {actual_length}",
    "too_short": "must have at least {min_length} entries, got {actual_length}",
}
"""What is wrong with a value, by Pydantic's name of the error."""

_SHOWN_CHARACTERS = 40
"""Longer values are not repeated in a message."""


def validation_problem(error: Mapping[str, Any]) -> str:
    """Describe an entry of Pydantic's ``ValidationError.errors()``, after the name of the value.

    >>> validation_problem({"type": "greater_than_equal", "ctx": {"ge": 0}, "input": "-1"})
    'must be at least 0, got -1'
    """
    if error["type"] not in _PROBLEMS:
        return f"is invalid: {error['msg']}"
    problem = _PROBLEMS[error["type"]].format(**error.get("ctx", {}))
    value = error.get("input")
    if isinstance(value, (str, int, float)) and error["type"] != "extra_forbidden":
        got = f", got {value if 'equal' in error['type'] else repr(value)}"
        problem += got if len(got) <= _SHOWN_CHARACTERS else ""
    return problem
