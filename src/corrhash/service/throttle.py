"""Throttle: no client too often, and not too many requests at once; others come back later."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from corrhash.service.errors import error_answer
from corrhash.service.limits import Limits

REMEMBERED = 10_000
"""Clients whose requests are counted; of more, those that were quiet longest are forgotten."""

FREE = ("/thumbnail",)
"""Pictures of a page of answers come all at once: they only count among those under way."""


class Buckets:
    """For each client a bucket of ``burst`` requests that fills again at ``rate`` a second.

    >>> buckets = Buckets(rate=1, burst=2, clock=lambda: 0.0)
    >>> [buckets.wait("a") for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(
        self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate = rate
        self.burst = burst
        self.clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """Take one request out; 0, or the seconds after which there will be one."""
        now = self.clock()
        left, since = self._left.pop(client, (float(self.burst), now))
        left = min(self.burst, left + (now - since) * self.rate)
        enough = left >= 1
        self._left[client] = (left - enough, now)
        while len(self._left) > REMEMBERED:
            self._left.popitem(last=False)
        return 0.0 if enough else (1 - left) / self.rate


class Throttle:
    """Answers 429 to whoever asks too often, and to all while too many requests are under way."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.most = limits.concurrent
        self.buckets = Buckets(limits.rate, limits.burst)
        self.under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not scope["path"].startswith("/api/"):
            await self.app(scope, receive, send)
            return
        client = (scope.get("client") or ("",))[0]
        if not scope["path"].endswith(FREE) and (wait := self.buckets.wait(client)):
            await self._later("You ask too often.", wait)(scope, receive, send)
        elif self.under_way >= self.most:
            await self._later("Too many requests are under way.", 1.0)(scope, receive, send)
        else:
            self.under_way += 1
            try:
                await self.app(scope, receive, send)
            finally:
                self.under_way -= 1

    def _later(self, why: str, seconds: float) -> ASGIApp:
        whole = max(1, math.ceil(seconds))
        sentence = f"{why} Try again in {whole} s."
        return error_answer(429, sentence, {"Retry-After": str(whole)})
