"""The server process: bind a socket, run uvicorn, shut down gracefully."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

import uvicorn

from corrhash.collection.collection import Collection
from corrhash.errors import InputError
from corrhash.service.app import create_app
from corrhash.service.limits import Limits
from corrhash.service.telemetry import log_to_stderr

LOOPBACK = ("localhost", "127.0.0.1", "::1")
SHUTDOWN_SECONDS = 30
"""Time for requests in progress to finish after SIGTERM."""


def serve(
    collection: Collection,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    names: tuple[str, ...] = (),
    token: str | None = None,
    limits: Limits | None = None,
    ready: Callable[[str], object] = lambda url: None,
) -> None:
    """Serve a collection until SIGTERM or SIGINT, then finish the requests in progress.

    Parameters
    ----------
    names : additional host names that requests may use, such as that of a proxy.
    token : token that allows adding and deleting; None makes the service read-only.
    ready : called with the URL of the service once it answers.
    """
    bound = bind(host, port)
    hosts = (*LOOPBACK, *names) if is_loopback(host) or names else ("*",)
    url = _url(bound)
    app = create_app(collection, limits, token=token, hosts=hosts, ready=lambda: ready(url))
    log_to_stderr()
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    with bound:
        uvicorn.Server(config).run(sockets=[bound])


def is_loopback(host: str) -> bool:
    """Whether a host is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"Cannot listen on {host}, port {port}: {error}. Choose another port with --port."
        ) from error
    # Connections inherit it; without it the body of a response waits up to 40 ms for an ACK.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"
