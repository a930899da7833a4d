"""Connections of clients: how many are open, and how long each can take to send and to read."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from corrhash.errors import InputError
from corrhash.service.limits import Limits


class OpenConnections:
    """The open connections of each client, oldest first.

    A connection over the limit replaces the oldest one of its client that waits for the rest of a
    request. Stalled connections therefore never lock a client out.

    Parameters
    ----------
    limits : how many connections all clients can have, and each of them.
    proxies : addresses or networks whose connections belong to many clients.
    """

    def __init__(self, limits: Limits, proxies: Sequence[str] = ()) -> None:
        self.limits = limits
        self.proxies = [parse_network(proxy) for proxy in proxies]
        self._by_client: dict[str, dict[Any, None]] = {}
        self._n = 0

    def add(self, connection: Any, client: str) -> None:
        """Add a connection, and close another one or this one if there are too many."""
        of_client = self._by_client.setdefault(client, {})
        of_client[connection] = None
        self._n += 1
        if len(of_client) > self.limits.client_connections and not self._is_proxy(client):
            _close_one(of_client)
        elif self._n > self.limits.connections:
            _close_one(max(self._by_client.values(), key=len))

    def remove(self, connection: Any, client: str) -> None:
        """Remove a connection that was closed."""
        of_client = self._by_client.get(client, {})
        if connection in of_client:
            del of_client[connection]
            self._n -= 1
        if not of_client:
            self._by_client.pop(client, None)

    def _is_proxy(self, client: str) -> bool:
        try:
            address = ipaddress.ip_address(client)
        except ValueError:
            return False
        return any(address in network for network in self.proxies)


def _close_one(connections: dict[Any, None]) -> None:
    *_, newest = connections
    waiting = (one for one in connections if one.is_waiting() and not one.transport.is_closing())
    next(waiting, newest).transport.abort()


def parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Return an address or a network, such as 10.0.0.0/8."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise InputError(
            f"A proxy must be an address or a network, such as 127.0.0.1 or 10.0.0.0/8, got "
            f"{text!r}."
        ) from error


def limited_protocol(limits: Limits, proxies: Sequence[str] = ()) -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP protocol with deadlines, and with a limit of open connections.

    The headers of a request must arrive within ``limits.timeout`` seconds, and the client must read
    a response within the same time. The deadline of a body is in the middleware, which can answer.
    """
    opened = OpenConnections(limits, proxies)

    class LimitedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        deadline: asyncio.TimerHandle | None = None
        write_deadline: asyncio.TimerHandle | None = None
        address = ""
        n_bytes = 0

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.address = self.client[0] if self.client else ""
            opened.add(self, self.address)
            self.watch()

        def connection_lost(self, exc: Exception | None) -> None:
            opened.remove(self, self.address)
            super().connection_lost(exc)
            for timer in (self.deadline, self.write_deadline):
                if timer is not None:
                    timer.cancel()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.watch()
            self.n_bytes = 0 if self.is_answering() else self.n_bytes + len(data)
            # After an early answer, the rest of the body is received and dropped.
            rest = self.cycle is not None and self.cycle.more_body
            if self.n_bytes > (limits.write if rest else limits.headers):
                self.transport.abort()

        def watch(self) -> None:
            """Set the deadline of the headers once, and cancel it when they are complete."""
            if not self.is_answering():
                if self.deadline is None:
                    self.deadline = self.loop.call_later(limits.timeout, self.transport.abort)
            elif self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

        def is_answering(self) -> bool:
            """Whether a request is in progress, whose headers are complete."""
            return self.cycle is not None and not self.cycle.response_complete

        def is_waiting(self) -> bool:
            """Whether the client has to send something."""
            return not self.is_answering() or self.cycle.more_body

        def pause_writing(self) -> None:
            super().pause_writing()
            self.write_deadline = self.loop.call_later(limits.timeout, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self.write_deadline is not None:
                self.write_deadline.cancel()

        def timeout_keep_alive_handler(self) -> None:
            if self.transport.get_write_buffer_size():  # closing would wait until it is read
                self.transport.abort()
            super().timeout_keep_alive_handler()

    return LimitedProtocol
