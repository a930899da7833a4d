"""Middleware: hosts, security headers, body and rate limits, request ids and logs."""

import asyncio
import json
import logging

import pytest
from starlette.testclient import TestClient

from corrhash.service.app import create_app
from corrhash.service.limits import Limits
from corrhash.service.middleware import (
    CONTENT_SECURITY_POLICY,
    BodyMiddleware,
    ConcurrencyMiddleware,
    Shares,
)
from corrhash.service.server import LOOPBACK
from corrhash.service.telemetry import JsonFormatter, log


def test_unknown_hosts_are_rejected(collection):
    with TestClient(create_app(collection, hosts=LOOPBACK)) as client:
        for known in ("localhost:8000", "LocalHost", "127.0.0.1", "[::1]:80", "[::1]"):
            assert client.get("/health", headers={"host": known}).status_code == 200
        for other in (
            "evil.example",
            "localhost.evil.example",
            "[::1",
            "127.0.0.1@evil.example",
            "evil.example@127.0.0.1",
            "evil.example@localhost:8000",
            "localhost/evil.example",
            "localhost evil.example",
            "localhost:80:80",
            "",
        ):
            response = client.get("/health", headers={"host": other})
            assert response.status_code == 400


@pytest.mark.parametrize("path", ["/", "/health", "/nothing", "/api/v1/items/999"])
def test_every_response_has_security_headers(service, path):
    headers = service.get(path).headers
    assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("way", ["%2e%2e/app.py", "..%2fapp.py", "....//app.py", "%00", "x" * 5000])
def test_only_static_files_are_served(service, way):
    assert service.get(f"/static/{way}").status_code == 404


def test_large_bodies_are_rejected(service):
    limits = Limits()
    words = service.post("/api/v1/search/text", content=b" " * (limits.body + 1))
    picture = service.post("/api/v1/search/image", content=b" " * (limits.upload + 1))
    assert (words.status_code, picture.status_code) == (413, 413)
    assert "10 MB" in picture.json()["error"]


def test_chunked_bodies_are_limited(service):
    parts = (b" " * 40_000 for _ in range(3))
    assert service.post("/api/v1/search/text", content=parts).status_code == 413


def test_slow_bodies_time_out(collection):
    async def ask():
        app, sent = create_app(collection, Limits(timeout=0.05)), []

        async def receive():
            await asyncio.sleep(30)

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/api/v1/search/text", "headers": []}
        scope |= {"query_string": b"", "raw_path": b"", "root_path": "", "scheme": "http"}
        scope |= {"headers": [(b"host", b"x"), (b"content-length", b"9")]}
        await app(scope, receive, send)
        return sent[0]["status"]

    assert asyncio.run(asyncio.wait_for(ask(), 10)) == 408


def test_concurrent_requests_are_limited():
    async def ask():
        go, statuses = asyncio.Event(), []

        async def slow(scope, receive, send):
            await go.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        async def send(message):
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        app = ConcurrencyMiddleware(slow, Limits(concurrent=2))
        scope = {"type": "http", "path": "/api/v1/info", "headers": [], "client": ("a", 1)}
        asked = [asyncio.create_task(app(scope, None, send)) for _ in range(4)]
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*asked)
        return statuses

    assert sorted(asyncio.run(ask())) == [200, 200, 429, 429]


def test_any_host_must_be_valid(collection):
    with TestClient(create_app(collection)) as client:
        assert client.get("/health", headers={"host": "search.example:80"}).status_code == 200
        response = client.get("/health", headers={"host": "evil.example@127.0.0.1"})
    assert (response.status_code, response.json()["error"]) == (400, "Invalid Host header.")


def test_shares_are_given_back():
    shares = Shares(total=4, per_client=3)
    with shares.held_by("a") as take:
        assert [take(2), take(2), take(1)] == [True, False, True]
        assert shares.take("b")
        assert not shares.take("b")
    assert shares.take("a", 3)
    shares.give_back("a", 3)
    shares.give_back("b")
    assert not shares._held  # clients that hold nothing are forgotten


def test_one_client_cannot_take_all_slots():
    async def ask():
        go, statuses = asyncio.Event(), {"a": [], "b": []}

        async def slow(scope, receive, send):
            await go.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        def request(client):
            async def send(message):
                if message["type"] == "http.response.start":
                    statuses[client].append(message["status"])

            scope = {"type": "http", "path": "/api/v1/info", "headers": [], "client": (client, 1)}
            return asyncio.create_task(app(scope, None, send))

        app = ConcurrencyMiddleware(slow, Limits(concurrent=4, client_concurrent=2))
        asked = [request(client) for client in "aaaaab"]
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*asked)
        return statuses

    statuses = asyncio.run(ask())
    assert sorted(statuses["a"]) == [200, 200, 429, 429, 429]
    assert statuses["b"] == [200]


def test_bodies_in_memory_are_limited():
    async def echo(scope, receive, send):
        length = len((await receive())["body"])
        await send({"type": "http.response.start", "status": length, "headers": []})

    async def ask(parts):
        statuses, rest = [], list(parts)

        async def receive():
            part = rest.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(rest)}

        async def send(message):
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        scope = {"type": "http", "path": "/", "headers": [(b"transfer-encoding", b"chunked")]}
        await app(scope, receive, send)
        return statuses[0]

    app = BodyMiddleware(echo, Limits(client_buffered=300))
    assert asyncio.run(ask([b"x" * 100] * 2)) == 200
    assert asyncio.run(ask([b"x" * 100] * 4)) == 429
    assert asyncio.run(ask([b"x" * 100] * 3)) == 300  # the memory was given back


def test_only_images_may_be_large():
    limit = BodyMiddleware(None, Limits())
    assert limit.max_bytes("/api/v1/search/text") < limit.max_bytes("/api/v1/search/image")


def test_valid_request_ids_are_kept(service):
    assert (
        service.get("/health", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    )
    odd = service.get("/health", headers={"x-request-id": "a b\t{}"}).headers["x-request-id"]
    assert len(odd) == 16


def test_requests_are_logged_without_queries(service):
    lines = []

    class Keep(logging.Handler):
        def emit(self, record):
            lines.append(self.format(record))

    handler = Keep()
    handler.setFormatter(JsonFormatter())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        response = service.post("/api/v1/search/text", json={"text": "sea secretword"})
    finally:
        log.removeHandler(handler)
    line = next(json.loads(one) for one in lines if response.headers["x-request-id"] in one)
    assert (line["status"], line["path"]) == (200, "/api/v1/search/text")
    assert "secretword" not in "".join(lines)


def test_internal_errors_reveal_no_details(collection, monkeypatch):
    with TestClient(create_app(collection), raise_server_exceptions=False) as client:
        client.get("/api/v1/info")
        monkeypatch.setattr(type(collection), "items_of", lambda *given: 1 / 0)
        response = client.get("/api/v1/items/1")
    assert response.status_code == 500
    assert "division" not in response.text
    assert response.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
