"""The token that write calls need."""

from __future__ import annotations

import hmac
from pathlib import Path

from starlette.exceptions import HTTPException

from corrhash.errors import InputError

SHORTEST = 16
"""Characters; shorter ones could be guessed."""


def read_token(path: Path | None, given: str | None) -> str | None:
    """The token in a file, or the one that was given; None if there is neither."""
    if path is not None:
        try:
            given = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"Cannot read the token in {path}: {error}. Check it.") from error
    if given is None:
        return None
    if len(given) < SHORTEST:
        raise InputError(
            f"A token has at least {SHORTEST} characters. Got {len(given)}. Take a random one."
        )
    return given


def check_token(header: str | None, token: str | None) -> None:
    """Refuse a call whose Authorization header does not carry the token.

    Comparing takes as long wherever two tokens differ, so that time tells nothing about it.
    """
    if token is None:
        raise HTTPException(
            403, "This service only answers searches. Start it with --writable to add and delete."
        )
    kind, _, given = (header or "").partition(" ")
    same = hmac.compare_digest(given.strip().encode(), token.encode())
    if kind.lower() != "bearer" or not same:
        raise HTTPException(
            401,
            "Adding and deleting needs the token. Send the header Authorization: Bearer TOKEN.",
            {"WWW-Authenticate": "Bearer"},
        )
