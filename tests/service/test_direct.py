"""Direct routes: valid JSON is answered without the framework, everything else as before."""

import json

import pytest
from starlette.testclient import TestClient

from corrhash.service import direct
from corrhash.service.app import create_app

BODY = {"text": "sea boat", "k": 3}
JSON = {"content-type": "application/json"}


@pytest.fixture
def calls(monkeypatch):
    """The paths of direct answers."""
    paths = []
    plain = direct.DirectRoute

    def watched(path, schema, respond):
        async def respond_and_count(request, client):
            paths.append(path)
            return await respond(request, client)

        return plain(path, schema, respond_and_count)

    monkeypatch.setattr("corrhash.service.app.DirectRoute", watched)
    return paths


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
def test_valid_searches_are_answered_directly(collection, generous, calls, kind):
    (code,) = collection.codes_of([1], "image").values()
    with TestClient(create_app(collection, generous)) as client:
        for path, body in {
            "text": BODY,
            "key": {"key": "scene 4"},
            "codes": {"codes": code.packed.tobytes().hex()},
        }.items():
            content = json.dumps(body)
            response = client.post(
                f"/api/v1/search/{path}", content=content, headers={"content-type": kind}
            )
            assert response.status_code == 200
            assert response.headers["content-type"] == "application/json"
            assert response.json()["matches"]
            assert calls.pop() == f"/api/v1/search/{path}"
        metrics = client.get("/metrics").text
    assert 'corrhash_requests_total{route="/api/v1/search/text",status="200"}' in metrics


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b'{"text": 3}', JSON, 422),
        (b"{", JSON, 422),
        (b"", JSON, 422),
        (json.dumps(BODY).encode(), {"content-type": "text/plain"}, 422),
        (json.dumps(BODY).encode("utf-16"), JSON, 200),  # accepted by the framework
    ],
)
def test_other_requests_go_to_the_framework(collection, generous, calls, content, headers, status):
    with TestClient(create_app(collection, generous)) as client:
        response = client.post("/api/v1/search/text", content=content, headers=headers)
    assert response.status_code == status
    assert not calls
    if status == 422:
        assert response.json()["error"].startswith("Invalid request. ")


def test_both_ways_give_the_same_response(collection, generous):
    plain = json.dumps(BODY).encode()
    with TestClient(create_app(collection, generous)) as client:
        responses = [
            client.post("/api/v1/search/text", content=content, headers=JSON)
            for content in (plain, plain.decode().encode("utf-16"))
        ]
    first, second = ({**response.json(), "milliseconds": 0} for response in responses)
    assert first == second


def test_bodies_in_pieces_are_joined(collection, generous, calls):
    content = json.dumps(BODY).encode()
    with TestClient(create_app(collection, generous)) as client:
        pieces = iter([content[:5], content[5:9], content[9:]])
        response = client.post("/api/v1/search/text", content=pieces, headers=JSON)
    assert len(response.json()["matches"]) == 3
    assert calls


def test_defects_are_answered_without_details(collection, generous, monkeypatch):
    monkeypatch.setattr(collection.index, "get", lambda *given: 1 / 0)
    with TestClient(create_app(collection, generous), raise_server_exceptions=False) as client:
        response = client.post("/api/v1/search/text", json=BODY)
    assert response.status_code == 500
    assert "division" not in response.text
    assert response.json()["request_id"]
