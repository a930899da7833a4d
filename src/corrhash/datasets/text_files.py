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
