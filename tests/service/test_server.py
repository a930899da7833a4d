"""The server process: socket, start and graceful shutdown."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import urllib3

from corrhash import Collection
from corrhash.client import Client
from corrhash.errors import InputError
from corrhash.index import open_index
from corrhash.service.server import bind, is_loopback, serve
from tests.service.conftest import fill, image_bytes

IN_PROGRESS = 8


def lines_until(words, process):
    """Return the output of a process up to a line that contains ``words``."""
    printed = []
    for line in process.stdout:
        printed.append(line)
        if words in line:
            return printed
    raise AssertionError(f"{words!r} was not printed: {''.join(printed)}")


@contextmanager
def started(*arguments):
    """Run ``corrhash serve`` as a process and yield its URL once it is ready."""
    command = [sys.executable, "-m", "corrhash", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        last = lines_until("Ready: ", process)[-1]
        yield process, re.search(r"http://\S+", last).group()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def half_sent(url, body):
    """Open a connection and send a search by image except for its last byte."""
    host = urlsplit(url)
    line = socket.create_connection((host.hostname, host.port), 30)
    head = f"POST /api/v1/search/image HTTP/1.1\r\nHost: {host.netloc}\r\n"
    line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:-1])
    return line


def wait_until_in_progress(url, n):
    line = f"corrhash_requests_in_progress {n + 1}.0"
    while line not in urllib3.request("GET", f"{url}/metrics").data.decode():
        time.sleep(0.02)


def test_sigterm_lets_requests_finish(collection, scenes):
    body = image_bytes(scenes.images[0])
    with started(collection.uri) as (process, url):
        lines = [half_sent(url, body) for _ in range(IN_PROGRESS)]
        wait_until_in_progress(url, IN_PROGRESS)
        process.send_signal(signal.SIGTERM)
        lines_until("Shutting down", process)
        with pytest.raises(InputError, match="Cannot connect"):
            Client(url).info()
        for line in lines:
            line.sendall(body[-1:])
        for line in lines:
            with line, line.makefile("rb") as response:
                assert response.readline().split()[1] == b"200"
                assert b'"matches"' in response.read()
        assert process.wait(30) == -signal.SIGTERM  # ended by the signal, as systemd expects


ENDLESS = """
import sys, time
from corrhash.cli import main
from corrhash.service.search import SearchService
search = SearchService._search
SearchService._search = lambda self, requests, view=None: (
    time.sleep(600) if requests[0].options.where else search(self, requests, view)
)
sys.argv[1:] = ["serve", sys.argv[1], "--port", "0"]
main()
"""


def test_sigterm_ends_the_process_whatever_runs(collection):
    """A search that never ends, a stalled body, half of the headers and an idle connection."""
    command = [sys.executable, "-c", ENDLESS, collection.uri]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, **pipes) as process, ExitStack() as stack:
        stack.callback(process.kill)
        url = re.search(r"http://\S+", lines_until("Ready: ", process)[-1]).group()
        host = urlsplit(url)
        head = f"POST /api/v1/search/text HTTP/1.1\r\nHost: {host.netloc}\r\n"
        body = '{"text": "sea", "where": "row > 0"}'
        search = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        for sent in (search + body, search + body[:-1], head, ""):
            line = socket.create_connection((host.hostname, host.port), 30)
            stack.enter_context(line).sendall(sent.encode())
        wait_until_in_progress(url, 2)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("proxy", [False, True])
def test_forwarded_address_counts_only_from_a_proxy(collection, proxy):
    arguments = ("--rate", 0.1, *(("--proxy", "127.0.0.1") if proxy else ()))
    with started(collection.uri, *arguments) as (_, url):
        statuses = []
        for address in ("192.0.2.1", "192.0.2.2", "192.0.2.2"):
            headers, path = {"X-Forwarded-For": address}, f"{url}/api/v1/items?key=a"
            answer = urllib3.request("GET", path, headers=headers, retries=False)
            statuses.append(answer.status)
    assert statuses == ([200, 200, 429] if proxy else [200, 429, 429])


def test_ipv6_address(collection):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with started(collection.uri, "--host", "::1") as (_, url):
        assert url.startswith("http://[::1]:")
        assert Client(url).search("sea", k=1)


def test_the_service_does_not_import_pytorch():
    code = "import sys, corrhash.service.server; print('torch' in sys.modules)"
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "False"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_addresses(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "search.example.org"])
def test_other_addresses_are_not_loopback(host):
    assert not is_loopback(host)


def test_a_used_port_is_reported(collection):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1, port {port}: .* Choose another"):
            serve(collection, port=port)


def test_sockets_send_without_delay():
    with bind("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname()):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def children_of(process):
    """Return the ids of the processes that a process has started."""
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(number) for number in text.split()]


def wait_until_ended(pids):
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def filled_folder(tmp_path_factory):
    collection, _ = fill(tmp_path_factory.mktemp("workers") / "photos")
    return collection.uri


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def from_new_connections(url, path, n=20):
    """Return the JSON of several requests, each over a connection of its own."""
    with urllib3.PoolManager() as pool:
        headers = {"Connection": "close"}
        return [pool.request("GET", url + path, headers=headers).json() for _ in range(n)]


@linux
def test_workers_answer_alike_and_see_each_others_writes(filled_folder, tmp_path):
    token = tmp_path / "token"
    token.write_text("a long random token")
    arguments = ("--workers", 2, "--writable", "--token-file", token, "--rate", 1000)
    with started(filled_folder, *arguments) as (process, url):
        workers = children_of(process)
        assert len(workers) == 2
        client = Client(url, token="a long random token")
        before = {info["items"] for info in from_new_connections(url, "/api/v1/info")}
        assert len(before) == 1
        assert client.add([{"key": "new", "text": "sea boat"}]).new == 1
        after = {info["items"] for info in from_new_connections(url, "/api/v1/info")}
        assert after == {before.pop() + 1}
        for _ in range(10):
            assert "new" in {match.key for match in Client(url).search("sea boat", find="text")}
        text = urllib3.request("GET", f"{url}/metrics").data.decode()
        counted = re.search(r'requests_total{route="[^"]*info",status="200"} (\d+)', text)
        assert int(counted.group(1)) == 40  # of both workers together
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == -signal.SIGTERM
        wait_until_ended(workers)


@linux
@pytest.mark.parametrize("killed", ["parent", "worker"])
def test_workers_and_their_parent_end_together(filled_folder, killed):
    with started(filled_folder, "--workers", 2) as (process, _):
        workers = children_of(process)
        os.kill(process.pid if killed == "parent" else workers[0], signal.SIGKILL)
        assert process.wait(30) == (-signal.SIGKILL if killed == "parent" else 1)
        wait_until_ended(workers)


def test_workers_need_a_folder():
    index = open_index("memory:", 8)
    collection = Collection("memory:", index, None)
    with pytest.raises(InputError, match="Multiple workers require a collection in a folder"):
        serve(collection, workers=2)
