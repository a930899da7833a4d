"""Middleware between the network and the routes: hosts, headers, bodies and request rates."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corrhash.service.auth import ITEMS, TokenMiddleware
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

HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
"""A valid Host header: a name or an address, and a port."""

MAX_CLIENTS = 10_000
"""Clients whose rate is tracked; beyond it, the least recently seen are forgotten."""

UNTHROTTLED = ("/thumbnail", "/preview")
"""A browser loads all images of a page at once, so they count only as concurrent requests."""


def add_middleware(
    app: ASGIApp, limits: Limits, metrics: Metrics, hosts: Sequence[str], token: str | None
) -> ASGIApp:
    """Wrap an app in its middleware.

    A request counts as in progress only once its body is complete, so that slow clients do not
    keep others out.

    Starlette answers unhandled exceptions outside of the middleware of an app. Wrapping the app
    itself gives those answers the security headers, a request id and a log line, too.
    """
    app = BodyMiddleware(ConcurrencyMiddleware(app, limits), limits)
    app = HostMiddleware(RateLimitMiddleware(TokenMiddleware(app, token), limits), hosts)
    return TelemetryMiddleware(SecurityHeadersMiddleware(app), metrics)


class HostMiddleware:
    """Rejects requests for other hosts (400).

    A foreign web page can resolve its own host name to this server and read the answers.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        # In a Host header an IPv6 address has brackets.
        names = [f"[{host}]" if ":" in host else host.lower() for host in hosts]
        self.app = TrustedHostMiddleware(app, names, www_redirect=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        host = header(scope, b"host") if scope["type"] == "http" else ""
        if host and not HOST.fullmatch(host):  # such as user@host
            await error_response(400, "Invalid Host header.")(scope, receive, send)
            return
        await self.app(scope, receive, send)


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


class BodyMiddleware:
    """Receives the body of each request; rejects large (413) and slow (408) ones."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.limits = limits
        self.memory = Shares(limits.buffered, limits.client_buffered)

    def max_bytes(self, path: str) -> int:
        """Maximum body size of a request to a path."""
        larger = {"/api/v1/search/image": self.limits.upload, ITEMS: self.limits.write}
        return larger.get(path, self.limits.body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        is_http = scope["type"] == "http"
        declared = header(scope, b"content-length") if is_http else ""
        if not declared and not (is_http and header(scope, b"transfer-encoding")):  # no body
            await self.app(scope, receive, send)
            return
        max_bytes = self.max_bytes(scope["path"])
        if declared and not (declared.isdecimal() and int(declared[:20]) <= max_bytes):
            await error_response(413, _too_large(max_bytes))(scope, receive, send)
            return
        with self.memory.held_by(client_of(scope)) as hold:
            body = await self._receive(receive, hold, max_bytes)
            if isinstance(body, bytes):
                await self.app(scope, replay(body, receive), send)
            elif body is not None:
                await body(scope, receive, send)

    async def _receive(
        self, receive: Receive, hold: Callable[[int], bool], max_bytes: int
    ) -> bytes | ASGIApp | None:
        """Return the body, or an error; None if the client has gone."""
        body, timeout = bytearray(), self.limits.timeout
        try:
            async with asyncio.timeout(timeout):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    part = message.get("body", b"")
                    if len(body) + len(part) > max_bytes:
                        return error_response(413, _too_large(max_bytes))
                    if not hold(len(part)):
                        return _retry_later("The service is busy.", 1.0)
                    if not message.get("more_body", False):
                        return bytes(body + part) if body else part
                    body += part
        except TimeoutError:
            problem = f"The request did not arrive within {timeout:g} s. Send it again."
            return error_response(408, problem, {"Connection": "close"})


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a function that delivers a body, and then what follows it."""
    message: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def receive_again() -> Message:
        nonlocal message
        if message is None:
            return await receive()
        first, message = message, None
        return first

    return receive_again


class Shares:
    """A quantity that clients share; each of them can hold a part of it.

    >>> shares = Shares(total=5, per_client=3)
    >>> [shares.take(client, 2) for client in "aabb"]
    [True, False, True, False]
    """

    def __init__(self, total: int, per_client: int) -> None:
        self.total = total
        self.per_client = per_client
        self._held: Counter[str] = Counter()
        self._n = 0

    def take(self, client: str, amount: int = 1) -> bool:
        """Take an amount, unless the client or all clients together would hold too much."""
        if self._n + amount > self.total or self._held[client] + amount > self.per_client:
            if not self._held[client]:
                del self._held[client]
            return False
        self._n += amount
        self._held[client] += amount
        return True

    def give_back(self, client: str, amount: int = 1) -> None:
        """Return an amount that was taken."""
        self._n -= amount
        self._held[client] -= amount
        if not self._held[client]:
            del self._held[client]

    @contextmanager
    def held_by(self, client: str) -> Iterator[Callable[[int], bool]]:
        """Yield a function that takes an amount; all of it is given back after the block."""
        taken = 0

        def take(amount: int) -> bool:
            nonlocal taken
            done = self.take(client, amount)
            taken += amount * done
            return done

        try:
            yield take
        finally:
            self.give_back(client, taken)


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
    """Answers 429 to clients over their rate."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.buckets = TokenBuckets(limits.rate, limits.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        throttled = is_api(scope) and not scope["path"].endswith(UNTHROTTLED)
        if throttled and (wait := self.buckets.take(client_of(scope))):
            # Closing the connection drops the requests that the client has sent ahead.
            response = _retry_later("Rate limit exceeded.", wait, {"Connection": "close"})
            await response(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class ConcurrencyMiddleware:
    """Answers 429 to a client with too many requests in progress, and to all if there are more."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.slots = Shares(limits.concurrent, limits.client_concurrent)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if not is_api(scope):
            await self.app(scope, receive, send)
            return
        client = client_of(scope)
        if not self.slots.take(client):
            await _retry_later("The service is busy.", 1.0)(scope, receive, send)
            return
        try:
            await self.app(scope, receive, send)
        finally:
            self.slots.give_back(client)


def is_api(scope: Scope) -> bool:
    """Whether a request is for the API: page and status are always answered."""
    return bool(scope["type"] == "http" and scope["path"].startswith("/api/"))


def client_of(scope: Scope) -> str:
    """Return the address of the client of a request."""
    return str((scope.get("client") or ("",))[0])


def _retry_later(reason: str, wait: float, headers: dict[str, str] | None = None) -> ASGIApp:
    seconds = max(1, math.ceil(wait))
    message = f"{reason} Try again in {seconds} s."
    return error_response(429, message, {"Retry-After": str(seconds), **(headers or {})})
