"""Running: the socket, the first and the last word, and what is under way at the end."""

import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from corrhash.client import Client
from corrhash.errors import InputError
from corrhash.service.run import bind, is_loopback, serve
from tests.service.conftest import picture_bytes

UNDER_WAY = 8


def lines_until(words, process):
    """What a process says, up to a line with these words."""
    said = []
    for line in process.stdout:
        said.append(line)
        if words in line:
            return said
    raise AssertionError(f"{words!r} was not said: {''.join(said)}")


@contextmanager
def started(*arguments):
    """``corrhash serve`` as a process of its own, and its address once it is ready."""
    command = [sys.executable, "-m", "corrhash", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        last = lines_until("Ready: ", process)[-1]
        yield process, re.search(r"http://\S+", last).group()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def half_sent(address, body):
    """A connection over which a search by picture has come but for its last byte."""
    host = urlsplit(address)
    line = socket.create_connection((host.hostname, host.port), 30)
    head = f"POST /api/v1/search/image HTTP/1.1\r\nHost: {host.netloc}\r\n"
    line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:-1])
    return line


def wait_until_under_way(client, n):
    while (
        f"corrhash_requests_under_way {n + 1}.0"
        not in client._send("GET", "/metrics").data.decode()
    ):
        time.sleep(0.02)


def test_a_signal_lets_what_is_under_way_finish(collection, scenes):
    body = picture_bytes(scenes.images[0])
    with started(collection.uri) as (process, address):
        lines = [half_sent(address, body) for _ in range(UNDER_WAY)]
        wait_until_under_way(Client(address), UNDER_WAY)
        process.send_signal(signal.SIGTERM)
        lines_until("Shutting down", process)
        with pytest.raises(InputError, match="Cannot reach"):
            Client(address).info()
        for line in lines:
            line.sendall(body[-1:])
        for line in lines:
            with line, line.makefile("rb") as answer:
                assert answer.readline().split()[1] == b"200"
                assert b'"matches"' in answer.read()
        assert process.wait(30) == -signal.SIGTERM  # by the signal, as units of systemd expect


def test_the_service_listens_on_addresses_of_either_kind(collection):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with started(collection.uri, "--host", "::1") as (_, address):
        assert address.startswith("http://[::1]:")
        assert Client(address).search_text("sea", 1)


def test_the_service_itself_does_without_pytorch():
    code = "import sys, corrhash.service.run; print('torch' in sys.modules)"
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_some_addresses_are_reached_from_this_machine_alone(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "search.example.org"])
def test_others_are_reached_from_elsewhere(host):
    assert not is_loopback(host)


def test_a_port_that_is_taken_is_told(collection):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1, port {port}: .* Choose another"):
            serve(collection, port=port)


def test_parts_of_an_answer_are_sent_at_once():
    with bind("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname()):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
