"""Telemetry: request ids, a JSON log line per request, and Prometheus metrics.

Neither queries nor request bodies are logged.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("corrhash.service")
current_request: ContextVar[str] = ContextVar("current_request", default="")
"""The id of the request in progress."""

REQUEST_ID = "x-request-id"
VALID_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Request ids accepted from a proxy; others are replaced because they end up in the log."""

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Variable of prometheus_client that names the folder of metrics shared by processes."""

LOG_FIELDS = ("method", "path", "status", "milliseconds", "client")
LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{moment}.{int(record.msecs):03}Z", "level": record.levelname.lower()}
        line["message"] = record.getMessage()
        if request := current_request.get():
            line["request_id"] = request
        line |= {name: getattr(record, name) for name in LOG_FIELDS if hasattr(record, name)}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to_stderr() -> None:
    """Write the logs of the service and of uvicorn to standard error, as JSON lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    for name in ("corrhash.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)


@contextmanager
def shared_metrics() -> Iterator[None]:
    """Let the processes that are forked inside the block share their metrics.

    Each process writes to files of its own in a temporary folder, and /metrics adds them up.
    """
    with tempfile.TemporaryDirectory(prefix="corrhash-metrics-") as folder:
        os.environ[SHARED_FOLDER] = folder
        _choose_values()
        try:
            yield
        finally:
            del os.environ[SHARED_FOLDER]
            _choose_values()


def _choose_values() -> None:
    """Choose how new metrics are stored, as prometheus_client does on import."""
    values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]


class Metrics:
    """The Prometheus metrics of one app."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "corrhash_requests",
            "Answered requests.",
            ("route", "status"),
            registry=self.registry,
        )
        self.latency = Histogram(
            "corrhash_request_seconds",
            "Time from request to response.",
            ("route",),
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self.batch_size = Histogram(
            "corrhash_batch_size",
            "Queries answered by one batch.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=self.registry,
        )
        self.in_progress = Gauge(
            "corrhash_requests_in_progress",
            "Requests in progress.",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.items = Gauge(
            "corrhash_items",
            "Items of the collection.",
            registry=self.registry,
            multiprocess_mode="mostrecent",
        )

    def text(self) -> bytes:
        """All metrics in the Prometheus text format, those of all workers together."""
        registry = self.registry
        if SHARED_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def header(scope: Scope, name: bytes) -> str:
    """Return the value of a request header, given in lowercase; empty if there is none."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value).decode("latin-1")
    return ""


class TelemetryMiddleware:
    """Assigns each request an id, and logs, counts and times it."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = header(scope, REQUEST_ID.encode())
        request_id = given if VALID_ID.fullmatch(given) else secrets.token_hex(8)
        current_request.set(request_id)
        started, status = time.perf_counter(), 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                header = (REQUEST_ID.encode(), request_id.encode())
                message["headers"] = [*message["headers"], header]
            await send(message)

        try:
            with self.metrics.in_progress.track_inprogress():
                await self.app(scope, receive, send_with_id)
        finally:
            self._record(scope, status, time.perf_counter() - started)

    @cache  # noqa: B019 - the middleware lives as long as its app, and routes are few
    def _metrics_of(self, route: str, status: int) -> tuple[Counter, Histogram]:
        return self.metrics.requests.labels(route, status), self.metrics.latency.labels(route)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        # Label by route pattern, since the number of distinct paths is unbounded.
        route = getattr(scope.get("route"), "path", "other")
        requests, latency = self._metrics_of(route, status)
        requests.inc()
        latency.observe(seconds)
        fields = {"method": scope["method"], "path": scope["path"][:200], "status": status}
        fields["milliseconds"] = round(1000 * seconds, 2)
        fields["client"] = (scope.get("client") or ("",))[0]
        if log.isEnabledFor(logging.INFO):  # Logger.info would look up its caller first
            record = logging.LogRecord(log.name, logging.INFO, __file__, 0, "request", None, None)
            record.__dict__.update(fields)
            log.handle(record)
