"""Bodies: what a request brings is read up to a limit of bytes, and within a limit of time."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corrhash.service.errors import error_answer
from corrhash.service.limits import MEGABYTE, Limits


class BodyLimit:
    """Refuses bodies that are too large with 413, and those that do not come with 408."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.limits = limits

    def most(self, path: str) -> int:
        """How many bytes a request to a path may bring."""
        large = {"/api/v1/search/image": self.limits.upload, "/api/v1/items": self.limits.write}
        return large.get(path, self.limits.body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        most, seen = self.most(scope["path"]), 0
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if not told.isdigit() or int(told[:20]) > most:
            await error_answer(413, _too_large(most))(scope, receive, send)
            return
        deadline, whole = asyncio.get_running_loop().time() + self.limits.seconds, False

        async def receive_some() -> Message:
            nonlocal seen, whole
            if whole:  # nothing but the end of the connection can come now, whenever that is
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408, f"The request did not arrive in {self.limits.seconds:g} s. Send it again."
                ) from None
            seen += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if seen > most:
                raise HTTPException(413, _too_large(most))
            return message

        await self.app(scope, receive_some, send)


def _too_large(most: int) -> str:
    size = f"{most / MEGABYTE:g} MB" if most >= MEGABYTE else f"{most // 1024} KB"
    return f"The request is larger than {size}. Make the picture smaller, or send less at once."
