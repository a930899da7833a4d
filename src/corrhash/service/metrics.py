"""Metrics of the service, in the words of Prometheus."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Metrics:
    """Counts of one app."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "corrhash_requests",
            "Requests that were answered.",
            ("route", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "corrhash_request_seconds",
            "How long answers took.",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.batch = Histogram(
            "corrhash_batch_size",
            "Questions that were answered together.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=self.registry,
        )
        self.under_way = Gauge(
            "corrhash_requests_under_way",
            "Requests that are being answered.",
            registry=self.registry,
        )
        self.items = Gauge("corrhash_items", "Items of the collection.", registry=self.registry)

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self.registry)


class Measured:
    """Counts and times the requests of an app."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def send_and_see(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with self.metrics.under_way.track_inprogress():
                await self.app(scope, receive, send_and_see)
        finally:
            # The pattern of the route: addresses themselves could be any number.
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(route, status).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - started)
