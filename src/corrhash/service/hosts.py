"""Hosts: the names by which the service may be called.

A page from elsewhere can let its own name point here, and would then be allowed to read answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from corrhash.service.errors import error_answer

ANY = "*"


class KnownHosts:
    """Refuses requests that name another host with 400; ``*`` among the names lets all pass."""

    def __init__(self, app: ASGIApp, names: Sequence[str]) -> None:
        self.app = app
        self.names = {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or ANY in self.names or host_of(scope) in self.names:
            await self.app(scope, receive, send)
            return
        sentence = (
            "The service does not go by this name. Its --name says by which it may be called."
        )
        await error_answer(400, sentence)(scope, receive, send)


def host_of(scope: Scope) -> str | None:
    """The name that a request calls, without its port; None where it names none."""
    given = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
    try:
        return urlsplit(f"//{given}").hostname
    except ValueError:  # half an address of IPv6
        return None
