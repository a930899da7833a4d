"""Logs: a line of JSON for each request, with an id that the answer carries too.

What people search for is not written down.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from contextvars import ContextVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("corrhash.service")
current_request: ContextVar[str] = ContextVar("current_request", default="")
"""The id of the request that is being answered."""

HEADER = b"x-request-id"
GIVEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""Ids that a proxy may hand down; others are replaced, as they would end up in the log."""

FIELDS = ("method", "path", "status", "milliseconds", "client")


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{moment}.{int(record.msecs):03}Z", "level": record.levelname.lower()}
        line["message"] = record.getMessage()
        if request := current_request.get():
            line["request_id"] = request
        line |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def write_json_lines() -> None:
    """Let the service, and the server beneath it, log to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name in ("corrhash.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)


class RequestLog:
    """Gives each request an id, and logs what became of it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(HEADER, b"")
        name = given if GIVEN.fullmatch(given) else secrets.token_hex(8).encode()
        current_request.set(name.decode())
        started, status = time.perf_counter(), 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (HEADER, name)]
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        finally:
            about = {"method": scope["method"], "path": scope["path"][:200], "status": status}
            about["milliseconds"] = round(1000 * (time.perf_counter() - started), 2)
            about["client"] = (scope.get("client") or ("",))[0]
            log.info("request", extra=about)
