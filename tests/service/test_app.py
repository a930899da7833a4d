"""The routes: every direction of search, items, errors that help, and who may write."""

import base64

import numpy as np
import pytest
from starlette.testclient import TestClient

from corrhash.service.app import create_app
from corrhash.service.limits import Limits
from tests.service.conftest import TOKEN, N, fill, picture_bytes

WORDS = "sea boat"


def keys(answer):
    return [match["key"] for match in answer.json()["matches"]]


@pytest.mark.parametrize("find", ["image", "text"])
def test_words_find_what_the_collection_finds(service, collection, find):
    answer = service.post("/api/v1/search/text", json={"text": WORDS, "k": 5, "find": find})
    expected = collection.search_text(WORDS, 5, find)
    assert keys(answer) == [match.key for match in expected]
    found = answer.json()["matches"]
    assert [match["distance"] for match in found] == [match.distance for match in expected]


@pytest.mark.parametrize("find", ["image", "text"])
def test_an_uploaded_picture_finds_what_the_collection_finds(service, collection, scenes, find):
    answer = service.post(
        f"/api/v1/search/image?find={find}&k=5",
        content=picture_bytes(scenes.images[3]),
        headers={"content-type": "image/png"},
    )
    assert keys(answer) == [m.key for m in collection.search_image(scenes.images[3], 5, find)]


def test_an_item_finds_others_but_not_itself(service, collection):
    answer = service.post("/api/v1/search/item", json={"key": "scene 7", "k": 5})
    assert keys(answer) == [m.key for m in collection.search_item("scene 7", 5)]
    assert "scene 7" not in keys(answer)


def test_codes_differ_in_as_many_bits_as_the_distance_says(service):
    answer = service.post("/api/v1/search/text", json={"text": WORDS, "k": 20}).json()
    query = int.from_bytes(bytes.fromhex(answer["code"]))
    for match in answer["matches"]:
        item = int.from_bytes(bytes.fromhex(match["code"]))
        assert (query ^ item).bit_count() == match["distance"]


def test_pages_together_are_the_whole(service):
    whole = keys(service.post("/api/v1/search/text", json={"text": WORDS, "k": 100}))
    assert len(whole) == N
    pages, offset = [], 0
    while offset is not None:
        question = {"text": WORDS, "k": 25, "offset": offset}
        answer = service.post("/api/v1/search/text", json=question)
        pages += keys(answer)
        offset = answer.json()["next_offset"]
    assert pages == whole


def test_filters_and_a_radius_narrow_the_answers(service):
    question = {"text": WORDS, "k": 100, "where": "row >= 50"}
    assert {
        int(key.split()[1]) for key in keys(service.post("/api/v1/search/text", json=question))
    } == set(range(50, N))
    near = service.post("/api/v1/search/text", json={"text": WORDS, "k": 100, "radius": 8}).json()
    assert near["matches"]
    assert max(match["distance"] for match in near["matches"]) <= 8


def test_items_come_by_id_and_by_key_without_the_path_of_their_files(service, collection):
    (number,) = collection.ids_of(["scene 4"]).values()
    by_id = service.get(f"/api/v1/items/{number}").json()
    assert service.get("/api/v1/items", params={"key": "scene 4"}).json() == [by_id]
    assert by_id["metadata"] == {"row": 4}
    assert "path" not in by_id


def test_the_thumbnail_is_the_one_that_is_kept(service, collection):
    (number,) = collection.ids_of(["scene 4"]).values()
    answer = service.get(f"/api/v1/items/{number}/thumbnail")
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.content == collection.get("scene 4", ["thumbnail"]).thumbnail


def test_info_names_words_that_are_understood(service):
    info = service.get("/api/v1/info").json()
    assert info["search_by"] == ["image", "text"]
    assert info["items"] == N
    assert info["examples"]
    for word in info["examples"]:
        assert service.post("/api/v1/search/text", json={"text": word}).status_code == 200


def test_the_service_says_when_it_is_ready(service):
    service.get("/api/v1/info")
    assert service.get("/ready").json() == {"status": "ok"}
    assert service.get("/health").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({"text": "xyzzy"}, "knows no word"),
        ({"text": WORDS, "where": "row >"}, "Cannot read the filter"),
        ({"text": WORDS, "k": 1000}, "k: Input should be less than or equal to 100"),
        ({"text": "a" * 1001}, "at most 1000 characters"),
        ({"text": WORDS, "kk": 3}, "kk: Extra inputs are not permitted"),
        ({}, "text: Field required"),
    ],
)
def test_mistakes_are_told_in_a_sentence(service, question, sentence):
    answer = service.post("/api/v1/search/text", json=question)
    assert answer.status_code == 422
    assert sentence in answer.json()["error"]
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


def test_errors_do_not_tell_where_the_collection_lies(service, collection):
    answer = service.post("/api/v1/search/item", json={"key": "nobody"})
    assert answer.status_code == 422
    assert collection.uri not in answer.text


def test_requests_are_counted_for_prometheus(service):
    service.get("/health")
    text = service.get("/metrics").text
    assert 'corrhash_requests_total{route="/health",status="200"}' in text
    assert f"corrhash_items {float(N)}" in text


def test_nobody_writes_where_it_was_not_allowed(service):
    new = {"items": [{"key": "new", "text": WORDS}]}
    assert service.post("/api/v1/items", json=new).status_code == 403
    assert service.delete("/api/v1/items", params={"key": "scene 1"}).status_code == 403


def test_those_who_have_the_token_add_and_delete(tmp_path, patient):
    collection, scenes = fill(tmp_path / "c")
    image = base64.b64encode(picture_bytes(scenes.images[0], "JPEG")).decode()
    new = {"items": [{"key": "new", "text": WORDS, "image": image, "metadata": {"year": 2015}}]}
    with TestClient(create_app(collection, patient, token=TOKEN)) as client:
        for wrong in (None, "Bearer wrong", TOKEN, f"Basic {TOKEN}"):
            headers = {"Authorization": wrong} if wrong else {}
            assert client.post("/api/v1/items", json=new, headers=headers).status_code == 401
        assert len(collection) == N
        headers = {"Authorization": f"Bearer {TOKEN}"}
        added = client.post("/api/v1/items", json=new, headers=headers)
        assert added.json() == {"new": 1, "updated": 0, "unchanged": 0, "skipped": {}}
        assert collection.get("new").metadata == {"year": 2015}
        gone = client.delete("/api/v1/items", params={"key": ["new", "nobody"]}, headers=headers)
        assert gone.json() == {"deleted": 1}
        broken = {"items": [{"key": "bad", "image": base64.b64encode(b"no picture").decode()}]}
        answer = client.post("/api/v1/items", json=broken, headers=headers)
        assert answer.status_code == 422
        assert "'bad'" in answer.json()["error"]


def test_an_original_that_was_added_is_not_served(tmp_path, patient):
    collection, scenes = fill(tmp_path / "c")
    original = picture_bytes(np.asarray(scenes.images[0]), "JPEG", comment=b"secret place")
    new = {"items": [{"key": "new", "image": base64.b64encode(original).decode()}]}
    with TestClient(create_app(collection, patient, token=TOKEN)) as client:
        client.post("/api/v1/items", json=new, headers={"Authorization": f"Bearer {TOKEN}"})
        (number,) = collection.ids_of(["new"]).values()
        served = client.get(f"/api/v1/items/{number}/thumbnail").content
    assert b"secret place" in original
    assert b"secret place" not in served


def test_who_asks_too_often_is_told_to_wait(collection):
    with TestClient(create_app(collection, Limits(rate=0.5, burst=3))) as client:
        answers = [client.get("/api/v1/items?key=a") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[3].headers["retry-after"] == "2"
