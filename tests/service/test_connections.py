"""Connections: deadlines of slow clients, and how many connections a client can have."""

import asyncio
import json
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import urllib3

from corrhash.errors import InputError
from corrhash.service.app import create_app
from corrhash.service.connections import OpenConnections, limited_protocol
from corrhash.service.limits import Limits
from tests.service.conftest import TOKEN
from tests.service.running import running

SECONDS = 30
"""How long a test waits for what must happen soon, also on a busy machine."""

HEAD = b"POST /api/v1/search/text HTTP/1.1\r\nHost: 127.0.0.1\r\n"
SLOW_BODY = HEAD + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
HALF_HEADERS = HEAD + b"X-Slow: "


@contextmanager
def serving(app, limits):
    with running(app, http=limited_protocol(limits), timeout_keep_alive=1) as url:
        yield url


def connect(url, sent=b""):
    host = urlsplit(url)
    line = socket.create_connection((host.hostname, host.port), SECONDS)
    line.sendall(sent)
    return line


def received(line):
    """Return what the service sends until it closes the connection."""
    content = b""
    try:
        while part := line.recv(65536):
            content += part
    except ConnectionResetError:
        pass
    return content


@pytest.fixture(scope="module")
def impatient(collection):
    """A service with short deadlines that the stalled requests of a test cannot fill."""
    limits = Limits(rate=1e6, burst=10**6, timeout=1.0, concurrent=4, client_connections=64)
    with serving(create_app(collection, limits, token=TOKEN), limits) as url:
        urllib3.request("GET", f"{url}/api/v1/info")
        yield url


@pytest.mark.parametrize("sent", [b"", b"G", HALF_HEADERS, b"\r\n"])
def test_slow_headers_are_cut_off(impatient, sent):
    with connect(impatient, sent) as line:
        assert received(line) == b""


def test_trickling_headers_are_cut_off(impatient):
    with connect(impatient, HALF_HEADERS) as line, suppress(ConnectionError):
        for _ in range(10 * SECONDS):
            line.sendall(b"x")
            time.sleep(0.1)
        pytest.fail("the connection is still open")


def test_slow_headers_of_a_second_request_are_cut_off(impatient):
    with connect(impatient, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as line:
        assert line.recv(1000).startswith(b"HTTP/1.1 200")
        line.sendall(HALF_HEADERS)
        received(line)


def test_large_headers_are_cut_off():
    """Headers that never end are not received until the deadline, which is far away."""

    async def app(scope, receive, send):
        pytest.fail("the request is not complete")

    with serving(app, Limits(timeout=10 * SECONDS)) as url, connect(url, HALF_HEADERS) as line:
        with suppress(ConnectionError):
            for _ in range(1000):
                line.sendall(b"x" * 1000 + b"\r\nX-More: ")
        assert received(line) == b""


def test_body_after_an_early_answer_is_dropped(impatient):
    head = b"POST /api/v1/items HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n"
    with connect(impatient, head) as line:
        assert line.recv(65536).startswith(b"HTTP/1.1 401")
        line.sendall(b"x" * 1_000_000 + b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        rest = b""  # of the first answer, which can arrive in two parts
        while b"200 OK" not in rest:
            part = line.recv(65536)
            assert part, rest
            rest += part


def test_slow_bodies_get_408(impatient):
    with connect(impatient, SLOW_BODY) as line:
        assert received(line).startswith(b"HTTP/1.1 408")


def test_stalled_bodies_keep_nobody_out(impatient):
    """More stalled requests than can be in progress, from the address of the others."""
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connect(impatient, SLOW_BODY))
        time.sleep(0.2)
        answer = urllib3.request("POST", f"{impatient}/api/v1/search/text", json={"text": "sea"})
    assert answer.status == 200


@pytest.mark.parametrize("token", [b"", b"Authorization: Bearer wrong\r\n"])
def test_token_is_checked_before_the_body(impatient, token):
    head = b"POST /api/v1/items HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 30000000\r\n"
    began = time.monotonic()
    with connect(impatient, head + token + b"\r\n{") as line:
        assert line.recv(1000).startswith(b"HTTP/1.1 401")
        assert time.monotonic() - began < SECONDS
        received(line)  # the rest of the body is not waited for


def test_clients_that_do_not_read_are_cut_off():
    ended = threading.Event()

    async def endless(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not ended.is_set():
            part = {"type": "http.response.body", "body": bytes(1 << 20), "more_body": True}
            await send(part)
            disconnected = asyncio.ensure_future(receive())
            done, _ = await asyncio.wait([disconnected], timeout=0.01)
            if done and disconnected.result()["type"] == "http.disconnect":
                ended.set()
            disconnected.cancel()

    request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    with serving(endless, Limits(timeout=0.5)) as url, connect(url, request):
        assert ended.wait(SECONDS)


def test_new_connections_replace_stalled_ones(collection):
    limits = Limits(client_connections=5)
    with serving(create_app(collection, limits), limits) as url, ExitStack() as stack:
        stalled = [stack.enter_context(connect(url, HALF_HEADERS)) for _ in range(12)]
        answer = urllib3.request("GET", f"{url}/health")
        assert json.loads(answer.data) == {"status": "ok"}
        for line in stalled[:7]:
            assert received(line) == b""


class Connection(SimpleNamespace):
    """A connection that records whether it was closed."""

    __hash__ = object.__hash__

    def __init__(self, waits=True):
        transport = SimpleNamespace(is_closing=lambda: self.closed, abort=self.close)
        super().__init__(closed=False, transport=transport, is_waiting=lambda: waits)

    def close(self):
        self.closed = True


def test_the_oldest_waiting_connection_is_closed():
    opened = OpenConnections(Limits(client_connections=3, connections=100))
    connections = [Connection(waits) for waits in (False, True, True, True, False)]
    for connection in connections:
        opened.add(connection, "a")
    other = Connection()
    opened.add(other, "b")
    assert [one.closed for one in connections] == [False, True, True, False, False]
    assert not other.closed


def test_busy_connections_are_kept():
    opened = OpenConnections(Limits(client_connections=2))
    connections = [Connection(waits=False) for _ in range(3)]
    for connection in connections:
        opened.add(connection, "a")
    assert [one.closed for one in connections] == [False, False, True]


def test_the_client_with_most_connections_makes_room():
    opened = OpenConnections(Limits(connections=4))
    lines = {name: Connection() for name in ("honest", "a1", "a2", "a3")}
    for name, connection in lines.items():
        opened.add(connection, name[0])
    opened.add(Connection(), "new")
    assert [name for name, one in lines.items() if one.closed] == ["a1"]


def test_proxies_have_many_clients():
    opened = OpenConnections(Limits(client_connections=1), ["10.0.0.0/8", "::1"])
    connections = [Connection() for _ in range(6)]
    for connection, client in zip(
        connections, ["10.1.2.3", "10.1.2.3", "::1", "::1", "", ""], strict=True
    ):
        opened.add(connection, client)
    assert [one.closed for one in connections] == [False] * 4 + [True, False]
    for connection, client in zip(connections[:2], ["10.1.2.3"] * 2, strict=True):
        opened.remove(connection, client)
        opened.remove(connection, client)  # once is enough
    assert "10.1.2.3" not in opened._by_client


@pytest.mark.parametrize("proxy", ["proxy.example", "10.0.0.1/8", "*", ""])
def test_proxies_are_addresses_or_networks(proxy):
    with pytest.raises(InputError, match="address or a network, such as 127.0.0.1"):
        OpenConnections(Limits(), [proxy])
