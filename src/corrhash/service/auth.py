"""The bearer token that protects adding and deleting."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from corrhash.errors import InputError

MIN_LENGTH = 16
"""Minimum number of characters of a token; shorter ones can be guessed."""

bearer = HTTPBearer(auto_error=False, description="The token of a writable service.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]


def read_token(path: Path | None, default: str | None) -> str | None:
    """Return the token in a file, or the default; None if there is neither."""
    token = default
    if path is not None:
        try:
            token = path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise InputError(
                f"Cannot read the token file {path}: {error.strerror}. Check the path."
            ) from error
        except UnicodeDecodeError as error:
            raise InputError(
                f"Cannot read the token file {path}: it is not UTF-8 text. Save it as UTF-8."
            ) from error
    if token is not None and len(token) < MIN_LENGTH:
        raise InputError(
            f"The token must have at least {MIN_LENGTH} characters, got {len(token)}. Generate a "
            "random one."
        )
    return token


def require_token(token: str | None) -> Callable[[HTTPAuthorizationCredentials | None], None]:
    """Return a FastAPI dependency that rejects requests without the token.

    Tokens are compared in constant time, so that response times reveal nothing about them.
    """

    def check(credentials: Credentials) -> None:
        if token is None:
            raise HTTPException(
                403, "This service is read-only. Start it with --writable to add and delete items."
            )
        given = "" if credentials is None else credentials.credentials
        if not hmac.compare_digest(given.encode(), token.encode()):
            raise HTTPException(
                401,
                "A token is required to add and delete items. Send it in the header "
                "Authorization: Bearer TOKEN.",
                {"WWW-Authenticate": "Bearer"},
            )

    return check
