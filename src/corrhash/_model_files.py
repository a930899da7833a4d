"""Files of a model folder: plain names, no links, and JSON with known keys and a checksum.

A model can come from anyone. Nothing that its files contain makes corrhash open a file outside
the folder, and a file that was damaged or edited is not used.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from corrhash._files import atomic_write, open_regular
from corrhash.errors import InputError

PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
"""File names without separators, leading dots and characters that shells interpret."""

LARGEST_JSON = 1 << 28
"""Bytes of the largest JSON file that is read; a vocabulary of a million terms has 20 million."""

CHECKSUM = "sha256"
"""Key of the checksum over all other keys of a JSON file."""

AGAIN = "Copy the model again, or train it again."

Kinds = type | tuple[type, ...]
Keys = Mapping[str, Kinds]
"""Keys of a JSON object, each with the types of its value."""


def check_name(folder: Path, name: Any) -> str:
    """Return the name of a file of a model; raise an error if it could leave the folder."""
    if not isinstance(name, str) or PLAIN_NAME.fullmatch(name) is None:
        shown = repr(name)[:100]
        raise InputError(
            f"The model in {folder} refers to the file {shown}. A model folder refers to plain "
            f"file names only: letters, digits, '.', '-' and '_'. {AGAIN}"
        )
    return name


def read_file(folder: Path, name: str, sha256: str | None = None) -> bytes:
    """Return the content of a file after verifying the start of its SHA-256.

    Links are not followed, so that a folder cannot hold files of the machine it is copied to.
    """
    path = folder / check_name(folder, name)
    try:
        with open_regular(path, links=False) as file:
            content = file.read()
    except FileNotFoundError as error:
        raise InputError(f"The model file {path} is missing. Copy the whole folder.") from error
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. {AGAIN}") from error
    if sha256 is not None and not hashlib.sha256(content).hexdigest().startswith(sha256):
        raise InputError(f"{path} is damaged: its checksum differs. {AGAIN}")
    return content


def write_json(folder: Path, name: str, format: str, content: Mapping[str, Any]) -> None:
    """Write a JSON file with its format and a checksum."""
    whole = {"format": format, **json.loads(json.dumps(content))}
    whole[CHECKSUM] = json_checksum(whole)
    with atomic_write(folder / name) as file:
        file.write(json.dumps(whole, ensure_ascii=False, indent=1).encode())


def read_json(folder: Path, name: str, format: str, keys: Keys) -> dict[str, Any]:
    """Return the content of what :func:`write_json` wrote.

    Raises FileNotFoundError if the file does not exist, and InputError if it is damaged or if its
    keys are not exactly ``keys``, with values of these types.
    """
    path = folder / name
    try:
        with open_regular(path, links=False) as file:
            text = file.read(LARGEST_JSON + 1)
        if len(text) > LARGEST_JSON:
            raise InputError(f"{path} is larger than {LARGEST_JSON >> 20} MB. {AGAIN}")
        whole = json.loads(text)
    except (FileNotFoundError, InputError):
        raise
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. {AGAIN}") from error
    except RecursionError as error:
        raise InputError(f"{path} is nested too deeply. {AGAIN}") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged ({str(error)[:100]}). {AGAIN}") from error
    found = whole.get("format") if isinstance(whole, dict) else None
    if found != format:
        raise InputError(
            f"{path} has format {str(found)[:60]!r}, but this version reads {format!r}. {AGAIN}"
        )
    content = {key: value for key, value in whole.items() if key not in ("format", CHECKSUM)}
    if whole.get(CHECKSUM) != json_checksum(whole):
        raise InputError(f"{path} is damaged or was edited: its checksum differs. {AGAIN}")
    return check_keys(content, keys, str(path))


def json_checksum(whole: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the content of a JSON file, without the key of the checksum."""
    rest = {key: value for key, value in whole.items() if key != CHECKSUM}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def check_keys(content: Any, keys: Keys, where: str) -> dict[str, Any]:
    """Return a JSON object after checking that it has these keys, with values of these types.

    >>> check_keys({"seed": "0"}, {"seed": int}, "training.json")
    Traceback (most recent call last):
    corrhash.errors.InputError: training.json has the wrong type of 'seed': expected int, got str.
    Copy the model again, or train it again.
    """
    if not isinstance(content, dict):
        raise InputError(f"{where} must be an object, got {type(content).__name__}. {AGAIN}")
    for key in content.keys() ^ keys.keys():
        problem = "lacks" if key in keys else "has the unknown key"
        raise InputError(f"{where} {problem} {key[:60]!r}. {AGAIN}")
    for key, kinds in keys.items():
        value, accepted = content[key], kinds if isinstance(kinds, tuple) else (kinds,)
        # bool is a subclass of int
        if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted):
            names = " or ".join(kind.__name__.replace("NoneType", "null") for kind in accepted)
            raise InputError(
                f"{where} has the wrong type of {key!r}: expected {names}, got "
                f"{type(value).__name__}. {AGAIN}"
            )
    return content


@contextmanager
def loading(folder: str | Path) -> Iterator[None]:
    """Report a model whose files contradict each other, which can fail in any way, as one error."""
    try:
        yield
    except (InputError, ImportError, MemoryError):
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0][:200] or type(error).__name__
        raise InputError(
            f"The files of the model in {folder} disagree: {reason}. {AGAIN}"
        ) from error
