"""Fetching a public file once into a cache folder, resumed after a break and checked by SHA-256."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from pathlib import Path

from filelock import FileLock

from corrhash.checksum import file_sha256
from corrhash.errors import InputError
from corrhash.progress import report

PIECE = 1 << 20  # bytes between two reports
PATIENCE = 30.0  # seconds without a byte until the host counts as unreachable


def download(url: str, sha256: str, folder: Path) -> Path:
    """The file at ``url``, in ``folder``: fetched unless it is there and whole.

    Parameters
    ----------
    url : where the file is.
    sha256 : the hexadecimal digits that its SHA-256 begins with, all of them or some.
    folder : where it is kept; made if missing.
    """
    target = folder / url.rsplit("/", 1)[1]
    part = target.with_name(f".{target.name}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.lock")):  # one process fetches, others wait
            if not (target.exists() and file_sha256(target).startswith(sha256)):
                _fetch(url, part)
                _check(url, part, sha256)
                part.replace(target)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(
            f"Cannot download {url} into {folder}: {reason}. Try again, which goes on where it "
            "stopped, or fetch the file by other means and give its path."
        ) from error
    return target


def _fetch(url: str, part: Path) -> None:
    """Append to ``part`` what is missing of the file, or start anew if the host cannot resume."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        return  # everything is there already; the checksum decides whether it is right
    with answer:
        if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
            have = 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length else None
        with part.open("ab" if have else "wb") as file:
            while piece := answer.read(PIECE):
                have += file.write(piece)
                _report_megabytes(url, have, total or have)
    if total is not None and have < total:
        raise ConnectionError(f"the connection broke after {have:,} of {total:,} bytes")


def _check(url: str, part: Path, sha256: str) -> None:
    """Remove a file with another checksum and say so."""
    found = file_sha256(part)
    if not found.startswith(sha256):
        part.unlink()
        raise InputError(
            f"What came from {url} is not the published file: its SHA-256 begins with "
            f"{found[: max(8, len(sha256))]}, not with {sha256}. It was removed. Try again, or "
            "fetch the file by other means and give its path."
        )


def _report_megabytes(url: str, have: int, total: int) -> None:
    name = url.rsplit("/", 1)[1]
    report(f"Downloading {name} (MB)", round(have / 1e6), round(total / 1e6))
