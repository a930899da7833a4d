"""The guard: headers on every answer, limits of bytes and time, ids and log lines."""

import asyncio
import json
import logging

import pytest
from starlette.testclient import TestClient

from corrhash.service.app import create_app
from corrhash.service.bodies import BodyLimit
from corrhash.service.headers import CONTENT_SECURITY_POLICY
from corrhash.service.limits import Limits
from corrhash.service.logs import JsonLines, log
from corrhash.service.throttle import Throttle


@pytest.mark.parametrize("path", ["/", "/health", "/nothing", "/api/v1/items/999"])
def test_every_answer_forbids_scripts_from_elsewhere(service, path):
    headers = service.get(path).headers
    assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("way", ["%2e%2e/app.py", "..%2fapp.py", "....//app.py", "%00", "x" * 5000])
def test_nothing_beside_the_page_is_served(service, way):
    assert service.get(f"/static/{way}").status_code == 404


def test_large_bodies_are_refused(service):
    limits = Limits()
    words = service.post("/api/v1/search/text", content=b" " * (limits.body + 1))
    picture = service.post("/api/v1/search/image", content=b" " * (limits.upload + 1))
    assert (words.status_code, picture.status_code) == (413, 413)
    assert "10 MB" in picture.json()["error"]


def test_bodies_of_unknown_length_are_counted(service):
    parts = (b" " * 40_000 for _ in range(3))
    assert service.post("/api/v1/search/text", content=parts).status_code == 413


def test_a_body_that_does_not_come_is_not_waited_for(collection):
    async def ask():
        app, sent = create_app(collection, Limits(seconds=0.05)), []

        async def receive():
            await asyncio.sleep(30)

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/api/v1/search/text", "headers": []}
        scope |= {"query_string": b"", "raw_path": b"", "root_path": "", "scheme": "http"}
        scope |= {"headers": [(b"host", b"x"), (b"content-type", b"application/json")]}
        await app(scope, receive, send)
        return sent[0]["status"]

    assert asyncio.run(asyncio.wait_for(ask(), 10)) == 408


def test_no_more_requests_than_allowed_are_under_way():
    async def ask():
        go, statuses = asyncio.Event(), []

        async def slow(scope, receive, send):
            await go.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        async def send(message):
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        app = Throttle(slow, Limits(concurrent=2))
        scope = {"type": "http", "path": "/api/v1/info", "headers": [], "client": ("a", 1)}
        asked = [asyncio.create_task(app(scope, None, send)) for _ in range(4)]
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*asked)
        return statuses

    assert sorted(asyncio.run(ask())) == [200, 200, 429, 429]


def test_larger_bodies_are_for_pictures_alone():
    limit = BodyLimit(None, Limits())
    assert limit.most("/api/v1/search/text") < limit.most("/api/v1/search/image")


def test_a_given_request_id_is_kept_if_it_is_harmless(service):
    assert (
        service.get("/health", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    )
    odd = service.get("/health", headers={"x-request-id": "a b\t{}"}).headers["x-request-id"]
    assert len(odd) == 16


def test_a_request_leaves_a_line_of_json_without_its_words(service):
    lines = []

    class Keep(logging.Handler):
        def emit(self, record):
            lines.append(self.format(record))

    handler = Keep()
    handler.setFormatter(JsonLines())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        answer = service.post("/api/v1/search/text", json={"text": "sea secretword"})
    finally:
        log.removeHandler(handler)
    line = next(json.loads(one) for one in lines if answer.headers["x-request-id"] in one)
    assert (line["status"], line["path"]) == (200, "/api/v1/search/text")
    assert "secretword" not in "".join(lines)


def test_a_defect_is_told_with_headers_and_without_details(collection, monkeypatch):
    with TestClient(create_app(collection), raise_server_exceptions=False) as client:
        client.get("/api/v1/info")
        monkeypatch.setattr(type(collection), "items_of", lambda *given: 1 / 0)
        answer = client.get("/api/v1/items/1")
    assert answer.status_code == 500
    assert "division" not in answer.text
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
