"""The bearer token that protects writes: items and judgments."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from corrhash._files import open_regular
from corrhash.errors import InputError
from corrhash.service.errors import error_response
from corrhash.service.telemetry import header

LARGEST_FILE = 1 << 16
"""Bytes that are read of a token file."""

MIN_LENGTH = 16
"""Minimum number of characters of a token; shorter ones can be guessed."""

ITEMS, JUDGMENTS = "/api/v1/items", "/api/v1/judgments"
WRITES = ("POST", "PATCH", "DELETE")
"""The requests that need the token. Those to read judgments need it too: they reveal queries."""

bearer = HTTPBearer(auto_error=False, description="The token of a writable service.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]


def read_token(path: Path | None, default: str | None) -> str | None:
    """Return the token in a file, or the default; None if there is neither."""
    token = default
    if path is not None:
        try:
            with open_regular(path) as file:
                token = file.read(LARGEST_FILE).decode().strip()
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
    """Return a FastAPI dependency that rejects requests without the token."""

    def check(credentials: Credentials) -> None:
        check_token(token, "" if credentials is None else credentials.credentials)

    return check


def check_token(token: str | None, given: str) -> None:
    """Raise an HTTPException unless the given token is right.

    Tokens are compared in constant time, so that response times reveal nothing about them.
    """
    if token is None:
        raise HTTPException(
            403,
            "This service is read-only. Start it with --writable to change items and to judge "
            "results.",
        )
    if not hmac.compare_digest(given.encode(), token.encode()):
        raise HTTPException(
            401,
            "A token is required to change items and to judge results. Send it in the header "
            "Authorization: Bearer TOKEN.",
            {"WWW-Authenticate": "Bearer"},
        )


def _needs_token(scope: Scope) -> bool:
    is_write = scope["path"] == ITEMS and scope["method"] in WRITES
    return is_write or bool(scope["path"] == JUDGMENTS)


class TokenMiddleware:
    """Rejects writes without the token before their bodies are received."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app = app
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http" and _needs_token(scope):
            scheme, _, given = header(scope, b"authorization").partition(" ")
            try:
                check_token(self.token, given.strip() if scheme.lower() == "bearer" else "")
            except HTTPException as error:
                headers = dict(error.headers) if error.headers else None
                response = error_response(error.status_code, error.detail, headers)
                await response(scope, receive, send)
                return
        await self.app(scope, receive, send)
