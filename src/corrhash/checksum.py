"""The SHA-256 of files, by which weights and features are told apart."""

import hashlib
from pathlib import Path


def file_sha256(path: Path) -> str:
    """The 64 hexadecimal digits of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
