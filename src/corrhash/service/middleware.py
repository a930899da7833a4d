"""Middleware between the network and the routes: hosts, headers, body sizes and request rates."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corrhash.service.errors import error_response
from corrhash.service.limits import MEGABYTE, Limits
from corrhash.service.telemetry import Metrics, TelemetryMiddleware, header

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",  # blob: shows the picture that the user selected
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
SECURITY_HEADERS = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]

MAX_CLIENTS = 10_000
"""Clients whose rate is tracked; beyond it, the least recently seen are forgotten."""

UNTHROTTLED = ("/thumbnail", "/preview")
"""A browser loads all images of a page at once, so they count only as concurrent requests."""


def add_middleware(app: ASGIApp, limits: Limits, metrics: Metrics, hosts: Sequence[str]) -> ASGIApp:
    """Wrap an app in its middleware.

    Starlette answers unhandled exceptions outside of the middleware of an app. Wrapping the app
    itself gives those answers the security headers, a request id and a log line, too.
    """
    app = RateLimitMiddleware(BodyLimitMiddleware(app, limits), limits)
    # A foreign web page can resolve its own host name to this server and read the answers.
    # In a Host header an IPv6 address has brackets.
    names = [f"[{host}]" if ":" in host else host.lower() for host in hosts]
    app = TrustedHostMiddleware(app, names, www_redirect=False)
    return TelemetryMiddleware(SecurityHeadersMiddleware(app), metrics)


class SecurityHeadersMiddleware:
    """Adds the security headers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *SECURITY_HEADERS]
            await send(message)

        await self.app(scope, receive, send_with_headers)


class BodyLimitMiddleware:
    """Rejects request bodies that are too large (413) or arrive too slowly (408)."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.limits = limits

    def max_bytes(self, path: str) -> int:
        """Maximum body size of a request to a path."""
        larger = {"/api/v1/search/image": self.limits.upload, "/api/v1/items": self.limits.write}
        return larger.get(path, self.limits.body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        max_bytes, n_bytes, complete = self.max_bytes(scope["path"]), 0, False
        declared = header(scope, b"content-length") or "0"
        if not declared.isdecimal() or int(declared[:20]) > max_bytes:
            await error_response(413, _too_large(max_bytes))(scope, receive, send)
            return
        timeout = self.limits.timeout
        deadline = asyncio.get_running_loop().time() + timeout

        async def receive_limited() -> Message:
            nonlocal n_bytes, complete
            if complete:  # only a disconnect can follow, at any time
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408, f"The request did not arrive within {timeout:g} s. Send it again."
                ) from None
            n_bytes += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if n_bytes > max_bytes:
                raise HTTPException(413, _too_large(max_bytes))
            return message

        await self.app(scope, receive_limited, send)


def _too_large(n_bytes: int) -> str:
    size = f"{n_bytes / MEGABYTE:g} MB" if n_bytes >= MEGABYTE else f"{n_bytes // 1024} KB"
    return f"The request exceeds {size}. Use a smaller image, or send fewer items at once."


class TokenBuckets:
    """A token bucket per client: ``burst`` requests at once, refilled at ``rate`` per second.

    >>> buckets = TokenBuckets(rate=1, burst=2, clock=lambda: 0.0)
    >>> [buckets.take("a") for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(
        self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate = rate
        self.burst = burst
        self.clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Take one token and return 0, or return the seconds until one is available."""
        now = self.clock()
        tokens, since = self._buckets.pop(client, (float(self.burst), now))
        tokens = min(self.burst, tokens + (now - since) * self.rate)
        available = tokens >= 1
        self._buckets[client] = (tokens - available, now)
        while len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if available else (1 - tokens) / self.rate


class RateLimitMiddleware:
    """Answers 429 to clients over their rate, and to all while the service is busy."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.max_concurrent = limits.concurrent
        self.buckets = TokenBuckets(limits.rate, limits.burst)
        self.in_progress = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or not scope["path"].startswith("/api/"):
            await self.app(scope, receive, send)
            return
        client = (scope.get("client") or ("",))[0]
        if not scope["path"].endswith(UNTHROTTLED) and (wait := self.buckets.take(client)):
            await _retry_later("Rate limit exceeded.", wait)(scope, receive, send)
        elif self.in_progress >= self.max_concurrent:
            await _retry_later("The service is busy.", 1.0)(scope, receive, send)
        else:
            self.in_progress += 1
            try:
                await self.app(scope, receive, send)
            finally:
                self.in_progress -= 1


def _retry_later(reason: str, wait: float) -> ASGIApp:
    seconds = max(1, math.ceil(wait))
    message = f"{reason} Try again in {seconds} s."
    return error_response(429, message, {"Retry-After": str(seconds)})
