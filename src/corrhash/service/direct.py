"""Direct routes: JSON requests that are parsed, validated and answered without the web framework.

FastAPI resolves dependencies, parses, validates and wraps each request, which takes as long as a
search of a million codes. Only valid requests are answered here. All others go on to the framework,
which has the same routes: it explains what is wrong, and describes them in the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from corrhash.service.errors import Handler
from corrhash.service.middleware import client_of, replay
from corrhash.service.schemas import ValidationError
from corrhash.service.telemetry import header

JSON = "application/json"


@dataclass(frozen=True)
class DirectRoute:
    """A path whose requests are one JSON document, and responses another one.

    Parameters
    ----------
    path : path of the POST request.
    schema : pydantic model of the request.
    respond : returns the response to a valid request of a client, given by its address.
    """

    path: str
    schema: Any
    respond: Callable[[Any, str], Awaitable[bytes]]


class DirectRoutes:
    """Answers direct routes, and passes everything else on to an app.

    Parameters
    ----------
    app : the app with the same routes.
    handlers : the function that answers errors of each class.
    """

    def __init__(
        self,
        app: ASGIApp,
        routes: Sequence[DirectRoute],
        handlers: Mapping[type[Exception], Handler],
    ) -> None:
        self.app = app
        self.routes = {route.path: route for route in routes}
        self.handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        route = self.routes.get(scope.get("path", ""))
        if route is None or scope["method"] != "POST" or not _is_json(scope):
            await self.app(scope, receive, send)
            return
        scope["route"] = route  # the label of its metrics
        try:
            body = await _body(receive)
            try:
                request = route.schema.model_validate_json(body)
            except ValidationError:
                await self.app(scope, replay(body, receive), send)
                return
            content = await route.respond(request, client_of(scope))
        except Exception as error:
            handler = next(
                self.handlers[kind] for kind in type(error).mro() if kind in self.handlers
            )
            response = await handler(Request(scope), error)
            await response(scope, receive, send)
            return
        length = str(len(content)).encode()
        headers = [(b"content-length", length), (b"content-type", JSON.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def _is_json(scope: Scope) -> bool:
    return header(scope, b"content-type").partition(";")[0].strip().lower() == JSON


async def _body(receive: Receive) -> bytes:
    """Return the body of a request; what has arrived if the client disconnects."""
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
    return body
