"""Running the service: a socket, a server, and the end of it when a signal asks for it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

import uvicorn

from corrhash.collection import Collection
from corrhash.errors import InputError
from corrhash.service.app import create_app
from corrhash.service.limits import Limits
from corrhash.service.logs import write_json_lines

LOOPBACK = ("localhost", "127.0.0.1", "::1")
LAST_SECONDS = 30
"""How long requests that are under way may take after a signal to end."""


def serve(
    collection: Collection,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    names: tuple[str, ...] = (),
    token: str | None = None,
    limits: Limits | None = None,
    ready: Callable[[str], object] = lambda address: None,
) -> None:
    """Answer until SIGTERM or SIGINT, then finish what is under way.

    ``names`` are host names by which a proxy or other machines call the service; ``ready`` is told
    its address once it answers.
    """
    bound = bind(host, port)
    hosts = (*LOOPBACK, *names) if is_loopback(host) or names else ("*",)
    address = _address(bound)
    app = create_app(collection, limits, token=token, hosts=hosts, ready=lambda: ready(address))
    write_json_lines()
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=LAST_SECONDS,
    )
    with bound:
        uvicorn.Server(config).run(sockets=[bound])


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"Cannot listen on {host}, port {port}: {error}. Choose another with --port."
        ) from error
    # Connections inherit it. Else the second part of an answer waits 40 ms for a receipt.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def _address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"
