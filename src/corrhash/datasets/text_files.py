"""Text files that users write, or a sentence about why one cannot be read."""

from __future__ import annotations

from pathlib import Path

from corrhash.errors import InputError


def read_text(path: str | Path) -> str:
    """The text of a file in UTF-8, with or without a byte order mark."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 ({error}). Save it in UTF-8.") from error


def read_lines(path: str | Path) -> list[str]:
    """The lines of a file of another's making: UTF-8 or, where it is not, Latin-1; any line end.

    Empty lines stay, since line i often belongs to item i; one at the end does not.
    """
    try:
        content = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the path.") from error
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    lines = [line.strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return lines[:-1] if lines and not lines[-1] else lines
