"""Hosts: known names pass, with any port and in any case; others are told so."""

import pytest
from starlette.testclient import TestClient

from corrhash.service.app import create_app
from corrhash.service.hosts import host_of
from corrhash.service.run import LOOPBACK


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (b"localhost:8000", "localhost"),
        (b"Search.Example.org", "search.example.org"),
        (b"[::1]:8000", "::1"),
        (b"[::1", None),
        (b"", None),
    ],
)
def test_a_name_is_read_without_its_port(given, name):
    assert host_of({"headers": [(b"host", given)]}) == name


def test_other_names_are_refused_with_a_sentence(collection):
    with TestClient(create_app(collection, hosts=LOOPBACK)) as client:
        for known in ("localhost:8000", "127.0.0.1", "[::1]:80"):
            assert client.get("/health", headers={"host": known}).status_code == 200
        for other in ("evil.example", "localhost.evil.example", "[::1", "127.0.0.1@evil.example"):
            answer = client.get("/health", headers={"host": other})
            assert answer.status_code == 400
            assert "--name" in answer.json()["error"]
