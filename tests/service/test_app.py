"""The routes of the service."""

import base64
import io
import threading
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from corrhash.collection import Collection
from corrhash.collection.overview import make_overview
from corrhash.errors import InputError, StorageError
from corrhash.service.app import STATIC, create_app
from corrhash.service.limits import MAX_RESPONSE, Limits
from tests.service.conftest import TOKEN, N, fill, image_bytes


def test_overview_of_a_collection(collection):
    overview = make_overview(collection)
    counts = Counter(label for item in collection.first_items(99) for label in item.labels)
    assert counts[overview.labels[0]] == max(counts.values())
    assert set(collection.ids_of(overview.samples)) == set(overview.samples)
    for word in overview.examples:
        assert collection.search(word)


TEXT = "sea boat"


def keys(response):
    return [match["key"] for match in response.json()["matches"]]


@pytest.mark.parametrize("find", ["image", "text"])
def test_text_search_equals_the_collection(service, collection, find):
    response = service.post("/api/v1/search/text", json={"text": TEXT, "k": 5, "find": find})
    expected = collection.search(TEXT, k=5, find=find)
    assert keys(response) == [match.key for match in expected]
    found = response.json()["matches"]
    assert [match["distance"] for match in found] == [match.distance for match in expected]


@pytest.mark.parametrize("find", ["image", "text"])
def test_image_search_equals_the_collection(service, collection, scenes, find):
    response = service.post(
        f"/api/v1/search/image?find={find}&k=5",
        content=image_bytes(scenes.images[3]),
        headers={"content-type": "image/png"},
    )
    expected = collection.search(image=scenes.images[3], k=5, find=find)
    assert keys(response) == [m.key for m in expected]


def test_key_search_excludes_the_item(service, collection):
    response = service.post("/api/v1/search/key", json={"key": "scene 7", "k": 5})
    assert keys(response) == [m.key for m in collection.search(key="scene 7", k=5)]
    assert "scene 7" not in keys(response)


def test_distance_is_the_number_of_differing_bits(service):
    response = service.post("/api/v1/search/text", json={"text": TEXT, "k": 20}).json()
    query = int.from_bytes(bytes.fromhex(response["code"]))
    for match in response["matches"]:
        item = int.from_bytes(bytes.fromhex(match["code"]))
        assert (query ^ item).bit_count() == match["distance"]


def test_pages_cover_all_matches(service):
    whole = keys(service.post("/api/v1/search/text", json={"text": TEXT, "k": 100}))
    assert len(whole) == N
    pages, offset = [], 0
    while offset is not None:
        body = {"text": TEXT, "k": 25, "offset": offset}
        response = service.post("/api/v1/search/text", json=body)
        pages += keys(response)
        offset = response.json()["next_offset"]
    assert pages == whole


def test_filter_and_radius(service):
    body = {"text": TEXT, "k": 100, "where": "row >= 50"}
    assert {
        int(key.split()[1]) for key in keys(service.post("/api/v1/search/text", json=body))
    } == set(range(50, N))
    near = service.post("/api/v1/search/text", json={"text": TEXT, "k": 100, "radius": 8}).json()
    assert near["matches"]
    assert max(match["distance"] for match in near["matches"]) <= 8


def test_items_by_id_and_key_without_their_path(service, collection):
    (number,) = collection.ids_of(["scene 4"]).values()
    by_id = service.get(f"/api/v1/items/{number}").json()
    assert by_id.pop("path") is None
    assert service.get("/api/v1/items", params={"key": "scene 4"}).json() == [by_id]
    assert by_id["metadata"] == {"row": 4}


def test_thumbnail_is_the_stored_one(service, collection):
    (number,) = collection.ids_of(["scene 4"]).values()
    response = service.get(f"/api/v1/items/{number}/thumbnail")
    assert response.headers["content-type"] == "image/jpeg"
    assert response.content == collection.get("scene 4", ["thumbnail"]).thumbnail


def test_preview_is_the_stored_image_and_thumbnail_is_small(filled, generous):
    collection = Collection.create("memory:", filled[0].model, preview_size=500)
    image = np.asarray(Image.effect_noise((900, 600), 60).convert("RGB"))
    collection.add([{"key": "large", "image": image}])
    with TestClient(create_app(collection, generous)) as client:
        item = f"/api/v1/items/{collection.ids_of(['large'])['large']}"
        preview, small = (client.get(f"{item}/{name}") for name in ("preview", "thumbnail"))
    assert preview.content == collection.get("large", ["thumbnail"]).thumbnail
    sizes = [Image.open(io.BytesIO(response.content)).size for response in (preview, small)]
    assert sizes == [(500, 333), (256, 170)]
    assert preview.headers["ETag"] != small.headers["ETag"]


@pytest.mark.parametrize("kind", ["thumbnail", "preview"])
def test_image_is_sent_once_per_version(service, collection, kind):
    (number,) = collection.ids_of(["scene 4"]).values()
    path = f"/api/v1/items/{number}/{kind}"
    tag = service.get(path).headers["ETag"]
    for known in (tag, f'"other", W/{tag}'):
        response = service.get(path, headers={"If-None-Match": known})
        assert (response.status_code, response.content) == (304, b"")
        assert response.headers["ETag"] == tag
    assert service.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
    (other,) = collection.ids_of(["scene 5"]).values()
    assert service.get(f"/api/v1/items/{other}/{kind}").headers["ETag"] != tag
    assert service.get(f"/api/v1/items/{2**60}/{kind}").status_code == 404


def test_example_terms_are_in_the_vocabulary(service):
    info = service.get("/api/v1/info").json()
    assert info["search_by"] == ["image", "text"]
    assert info["items"] == N
    assert info["examples"]
    for word in info["examples"]:
        assert service.post("/api/v1/search/text", json={"text": word}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/static/style.css"])
def test_page_is_revalidated_at_each_visit(service, path):
    response = service.get(path)
    assert response.headers["cache-control"] == "no-cache"
    known = {"If-None-Match": response.headers["etag"]}
    assert service.get(path, headers=known).status_code == 304


def test_scripts_and_styles_are_compressed(service):
    for name in ("app.js", "results.js", "viewer.js", "style.css"):
        response = service.get(f"/static/{name}", headers={"Accept-Encoding": "gzip"})
        assert response.headers["content-encoding"] == "gzip"
        assert response.content == (STATIC / name).read_bytes()


def test_health_and_readiness(service):
    service.get("/api/v1/info")
    assert service.get("/ready").json() == {"status": "ok"}
    assert service.get("/health").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"text": "xyzzy"}, "'xyzzy' is not in this collection's vocabulary"),
        ({"text": TEXT, "where": "row >"}, "Cannot parse the filter"),
        ({"text": TEXT, "where": "rwo > 1"}, "Unknown field 'rwo'. Did you mean 'row'?"),
        ({"text": TEXT, "k": 1000}, "k must be at most 100, got 1000."),
        ({"text": TEXT, "k": "x"}, "k must be an integer, got 'x'."),
        ({"text": TEXT, "find": "sound"}, "find must be 'image' or 'text', got 'sound'."),
        ([1], "the body must be an object"),
        ({"text": "a" * 1001}, "at most 1000 characters"),
        ({"text": TEXT, "kk": 3}, "kk is not a field of this request"),
        ({}, "text is missing"),
    ],
)
def test_invalid_requests_are_explained(service, body, message):
    response = service.post("/api/v1/search/text", json=body)
    assert response.status_code == 422
    assert message in response.json()["error"]
    assert response.json()["request_id"] == response.headers["x-request-id"]


def test_codes_search_equals_the_collection(service, collection):
    code = service.post("/api/v1/search/text", json={"text": TEXT}).json()["code"]
    response = service.post("/api/v1/search/codes", json={"codes": code, "k": 5})
    assert keys(response) == [m.key for m in collection.search(TEXT, k=5, rerank=False)]
    response = service.post("/api/v1/search/codes", json={"codes": code[:-1]})
    assert "hexadecimal digits" in response.json()["error"]


def test_k_is_10_unless_given(service):
    assert len(keys(service.post("/api/v1/search/text", json={"text": TEXT}))) == 10


def test_errors_do_not_reveal_the_path(service, collection, monkeypatch):
    response = service.post("/api/v1/search/key", json={"key": "nobody"})
    assert response.status_code == 404
    assert collection.uri not in response.text

    def fail(*given, **options):
        raise InputError(f"Cannot read {collection.uri}/items. Restore it.")

    monkeypatch.setattr(collection.index, "get", fail)
    response = service.post("/api/v1/search/text", json={"text": TEXT})
    assert response.json()["error"] == "Cannot read the collection/items. Restore it."


@pytest.mark.parametrize(("problem", "status"), [("busy", 503), ("full", 507), ("failed", 500)])
def test_storage_errors_are_errors_of_the_server(service, collection, monkeypatch, problem, status):
    def fail(*given, **options):
        raise StorageError(f"Cannot write to {collection.uri}/items. Wait.", problem)

    monkeypatch.setattr(collection.index, "get", fail)
    response = service.post("/api/v1/search/text", json={"text": TEXT})
    assert response.status_code == status
    assert response.json()["error"] == "Cannot write to the collection/items. Wait."


@pytest.mark.parametrize("uri", [".", "dogs", "no"])
def test_a_folder_name_does_not_change_messages(collection, generous, monkeypatch, uri):
    """The path used to be replaced wherever its characters occurred."""
    monkeypatch.setattr(collection, "uri", uri)
    with TestClient(create_app(collection, generous)) as client:
        text = {"text": "dogz.xyzzy"}
        message = client.post("/api/v1/search/text", json=text).json()["error"]
        assert client.get("/api/v1/info").json()["name"]
    assert message.startswith("'dogz' and 'xyzzy' are not in this collection's vocabulary.")
    assert message.endswith(" Use words from the texts that the model was trained on.")


def test_metrics_count_requests(service):
    service.get("/health")
    text = service.get("/metrics").text
    assert 'corrhash_requests_total{route="/health",status="200"}' in text
    assert f"corrhash_items {float(N)}" in text


def test_read_only_service_rejects_writes(service):
    new = {"items": [{"key": "new", "text": TEXT}]}
    assert service.post("/api/v1/items", json=new).status_code == 403
    changes = {"items": [{"key": "scene 1", "labels": []}]}
    assert service.patch("/api/v1/items", json=changes).status_code == 403
    assert service.delete("/api/v1/items", params={"key": "scene 1"}).status_code == 403


def test_token_allows_adding_and_deleting(tmp_path, generous):
    collection, scenes = fill(tmp_path / "c")
    image = base64.b64encode(image_bytes(scenes.images[0], "JPEG")).decode()
    new = {"items": [{"key": "new", "text": TEXT, "image": image, "metadata": {"year": 2015}}]}
    with TestClient(create_app(collection, generous, token=TOKEN)) as client:
        for wrong in (None, "Bearer wrong", TOKEN, f"Basic {TOKEN}"):
            headers = {"Authorization": wrong} if wrong else {}
            assert client.post("/api/v1/items", json=new, headers=headers).status_code == 401
        assert len(collection) == N
        headers = {"Authorization": f"Bearer {TOKEN}"}
        added = client.post("/api/v1/items", json=new, headers=headers)
        assert added.json() == {
            **{"new": 1, "updated": 0, "moved": 0, "unchanged": 0, "skipped": {}}
        }
        assert collection.get("new").metadata == {"year": 2015}
        gone = client.delete("/api/v1/items", params={"key": ["new", "nobody"]}, headers=headers)
        assert gone.json() == {"deleted": 1}
        broken = {"items": [{"key": "bad", "image": base64.b64encode(b"no picture").decode()}]}
        response = client.post("/api/v1/items", json=broken, headers=headers)
        assert response.status_code == 422
        assert "'bad'" in response.json()["error"]


def test_judgments_need_the_token(service, tmp_path, generous):
    judgment = {"text": TEXT, "item": "scene 2", "fits": True}
    assert service.post("/api/v1/judgments", json=judgment).status_code == 403
    assert service.get("/api/v1/judgments", params={"text": TEXT}).status_code == 403
    collection, scenes = fill(tmp_path / "c")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with TestClient(create_app(collection, generous, token=TOKEN)) as client:
        assert client.post("/api/v1/judgments", json=judgment).status_code == 401
        assert client.get("/api/v1/judgments", params={"text": TEXT}).status_code == 401
        client.headers = headers
        answer = client.post("/api/v1/judgments", json=judgment)
        assert answer.json() == {"item": "scene 2", "fits": True}
        image = base64.b64encode(image_bytes(scenes.images[0])).decode()
        for more in ({"key": "scene 1", "fits": False}, {"image": image}):
            given = {"item": "scene 2", "fits": True, **more}
            assert client.post("/api/v1/judgments", json=given).status_code == 200
        assert [one.kind for one in collection.judgments()] == ["text", "key", "image"]
        found = client.get("/api/v1/judgments", params={"text": TEXT})
        assert found.json() == [{"item": "scene 2", "fits": True}]
        client.post("/api/v1/judgments", json={**judgment, "fits": None})
        assert client.get("/api/v1/judgments", params={"text": TEXT}).json() == []
        assert client.get("/api/v1/judgments", params={"key": "scene 1"}).json() == [
            {"item": "scene 2", "fits": False}
        ]
        for wrong, status in (
            ({**judgment, "item": "nobody"}, 404),
            ({**judgment, "key": "scene 1"}, 422),
            ({"item": "scene 2", "fits": True}, 422),
            ({**judgment, "fits": "yes"}, 422),
            ({**judgment, "image": "?"}, 422),
        ):
            assert client.post("/api/v1/judgments", json=wrong).status_code == status, wrong


def test_token_allows_updating(tmp_path, generous):
    collection, scenes = fill(tmp_path / "c")
    before = collection.get("scene 2")
    changes = [
        {"key": "scene 2", "labels": ["mine"], "metadata": {"row": None, "year": 2015}},
        {"key": "scene 3", "text": scenes.captions[9]},
        {"key": "nobody", "text": "sea"},
    ]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with TestClient(create_app(collection, generous, token=TOKEN)) as client:
        assert client.patch("/api/v1/items", json={"items": changes}).status_code == 401
        updated = client.patch("/api/v1/items", json={"items": changes}, headers=headers)
        assert updated.json() == {
            **{"new": 0, "updated": 2, "moved": 0, "unchanged": 0},
            "skipped": {"nobody": "No item has this key."},
        }
        for wrong in ({"key": "scene 3", "path": "x"}, {"text": "sea"}, {"key": "a", "text": None}):
            response = client.patch("/api/v1/items", json={"items": [wrong]}, headers=headers)
            assert response.status_code == 422
    item = collection.get("scene 2")
    assert (item.text, item.labels, item.metadata) == (before.text, ("mine",), {"year": 2015})
    assert collection.get("scene 3").text == scenes.captions[9]


def test_deletion_by_filter(tmp_path, generous):
    collection, _ = fill(tmp_path / "c")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with TestClient(create_app(collection, generous, token=TOKEN)) as client:

        def delete(**params):
            return client.delete("/api/v1/items", params=params, headers=headers)

        assert delete(where="row >= 50", dry_run=True).json() == {"deleted": 10}
        assert delete(key=["scene 1", "scene 55"], where="row >= 50").json() == {"deleted": 1}
        assert len(collection) == N - 1
        assert delete(where="row >= 50").json() == {"deleted": 9}
        assert delete().status_code == 422
        assert delete(where="row >=").status_code == 422
    assert len(collection) == N - 10


def test_uploaded_file_is_not_served(tmp_path, generous):
    collection, scenes = fill(tmp_path / "c")
    original = image_bytes(np.asarray(scenes.images[0]), "JPEG", comment=b"secret place")
    new = {"items": [{"key": "new", "image": base64.b64encode(original).decode()}]}
    with TestClient(create_app(collection, generous, token=TOKEN)) as client:
        client.post("/api/v1/items", json=new, headers={"Authorization": f"Bearer {TOKEN}"})
        (number,) = collection.ids_of(["new"]).values()
        served = client.get(f"/api/v1/items/{number}/thumbnail").content
    assert b"secret place" in original
    assert b"secret place" not in served


def test_rate_limit(collection):
    with TestClient(create_app(collection, Limits(rate=0.01, burst=3))) as client:
        responses = [client.get("/api/v1/items?key=a") for _ in range(4)]
    assert [response.status_code for response in responses] == [200, 200, 200, 429]
    assert 60 < int(responses[3].headers["retry-after"]) <= 100
    assert responses[3].headers["connection"] == "close"


def searches(service, code, image, where):
    """Send a search of each kind with a filter."""
    for kind, value in {"text": TEXT, "key": "scene 3", "codes": code}.items():
        yield service.post(f"/api/v1/search/{kind}", json={kind: value, "where": where})
    yield service.post("/api/v1/search/image", content=image, params={"where": where})


@pytest.mark.parametrize("where", ["path >= 'a'", "not (row = 1 or path != '')"])
def test_private_fields_cannot_be_filtered(service, collection, scenes, tmp_path, where):
    code, image = "00" * 3, image_bytes(scenes.images[0])
    for response in searches(service, code, image, "row = 1"):
        assert response.status_code == 200
    for response in searches(service, code, image, where):
        assert response.status_code == 422
        assert "The field 'path' is private" in response.json()["error"]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with TestClient(create_app(collection, token=TOKEN)) as client:
        params = {"where": where, "dry_run": True}
        response = client.delete("/api/v1/items", params=params, headers=headers)
    assert response.status_code == 422


@pytest.mark.parametrize(
    "where",
    [
        "not " * 200 + "row = 1",
        "(" * 20 + "row = 1" + ")" * 20,
        "not (" * 20 + "row = 1" + ")" * 20,
        "(row = 1 or " * 20 + "row = 2" + ")" * 20,
        " and ".join(f"row != {number}" for number in range(70)),
    ],
)
def test_long_filters_are_answered(service, where):
    assert service.post("/api/v1/search/text", json={"text": TEXT, "where": where}).is_success


TOO_LARGE = [
    {"metadata": {"note": "x" * 1001}},
    {"metadata": {"x" * 101: 1}},
    {"metadata": {f"field{number}": 1 for number in range(51)}},
    {"labels": ["x" * 201]},
    {"labels": [str(number) for number in range(201)]},
    {"text": "x" * 20_001},
]


MANY = 200_000
AMPLIFIED = {
    "fields": {"key": "a", **{f"f{number}": 0 for number in range(MANY)}},
    "metadata": {"key": "a", "metadata": {f"f{number}": [] for number in range(MANY)}},
    "labels": {"key": "a", "labels": [1] * MANY},
    "items": 1,
}


@pytest.mark.parametrize("what", AMPLIFIED)
def test_many_mistakes_cost_no_more_than_one(collection, generous, what):
    """Each mistake would be described, in memory, while all other requests wait."""
    items = [AMPLIFIED[what]] * (MANY if what == "items" else 1)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with TestClient(create_app(collection, generous, token=TOKEN)) as client:
        client.get("/api/v1/info")
        tracemalloc.start()
        response = client.post("/api/v1/items", json={"items": items}, headers=headers)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert response.status_code == 422
    assert response.json()["error"].count("items.") == 1
    assert peak < 60 << 20


def test_a_search_has_few_fields(service):
    body = {f"f{number}": 0 for number in range(51)}
    response = service.post("/api/v1/search/text", json=body)
    message = "Invalid request. the body must have at most 50 fields, got 51."
    assert (response.status_code, response.json()["error"]) == (422, message)


def test_size_of_items_is_limited(tmp_path, generous):
    collection, _ = fill(tmp_path / "c")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    largest = {
        "text": "sea " * 5000,
        "labels": [f"{number:0200}" for number in range(200)],
        "metadata": {f"{number:x>100}": "x" * 1000 for number in range(50)},
    }
    with TestClient(create_app(collection, generous, token=TOKEN)) as client:
        for send in (client.post, client.patch):
            for fields in TOO_LARGE:
                body = {"items": [{"key": "scene 1", **fields}]}
                response = send("/api/v1/items", json=body, headers=headers)
                assert response.status_code == 422
                assert " at most " in response.json()["error"]
                assert len(response.content) < 1000
        items = [{"key": f"large {number}", **largest} for number in range(60)]
        assert client.post("/api/v1/items", json={"items": items}, headers=headers).is_success
        keys_of_all = [("key", item["key"]) for item in items]
        response = client.get("/api/v1/items", params=keys_of_all)
        assert response.status_code == 422
        assert "exceed 4 MB in total" in response.json()["error"]
        assert len(client.get("/api/v1/items", params=keys_of_all[:20]).json()) == 20
        found, offset = [], 0
        while offset is not None:
            body = {"text": "sea", "find": "text", "k": 100, "offset": offset, "rerank": False}
            response = client.post("/api/v1/search/text", json=body)
            assert len(response.content) <= MAX_RESPONSE
            found += keys(response)
            offset = response.json()["next_offset"]
    assert len(found) == len(set(found)) == len(collection)


def test_item_that_is_deleted_during_the_search(tmp_path, generous):
    """Searches by key, while the item is deleted and added again, give 200 or 404."""
    collection, scenes = fill(tmp_path / "c")
    done, statuses = threading.Event(), []

    def change():
        for _ in range(15):
            collection.delete("scene 3")
            collection.add([{"key": "scene 3", "image": scenes.images[3]}])
        done.set()

    with TestClient(create_app(collection, generous), raise_server_exceptions=False) as client:
        writer = threading.Thread(target=change)
        writer.start()
        while not done.is_set():
            body = {"key": "scene 3", "k": 3}
            statuses.append(client.post("/api/v1/search/key", json=body).status_code)
        writer.join()
    assert set(statuses) <= {200, 404}


def test_responses_name_unknown_words(service):
    def words(text):
        answer = service.post("/api/v1/search/text", json={"text": text}).json()
        return {name: answer[name] for name in ("unknown_words", "suggestions", "message")}

    assert words("boat") == {"unknown_words": [], "suggestions": {}, "message": ""}
    found = words("boaat xyzzy sea")
    assert found["unknown_words"] == ["boaat", "xyzzy"]
    assert found["suggestions"] == {"boaat": "boat"}
    assert found["message"] == (
        "'boaat' and 'xyzzy' are not in this collection's vocabulary. Did you mean 'boat'?"
    )
    by_key = service.post("/api/v1/search/key", json={"key": "scene 7"}).json()
    assert by_key["message"] == ""


def test_duplicates_are_compared_in_the_background(collection, tmp_path, generous, monkeypatch):
    photos = Collection.create("memory:", collection.model)
    picture = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    pictures = [picture, picture[:, ::-1], picture[::-1]]
    photos.add({"key": key, "image": one} for key, one in zip("abc", pictures, strict=True))
    go, calls = threading.Event(), []

    def compare(max_distance=None, compare=photos.duplicates):
        calls.append(max_distance)
        assert go.wait(60)
        return compare(max_distance)

    monkeypatch.setattr(photos, "duplicates", compare)
    monkeypatch.setattr("corrhash.service.duplicates.SECONDS_WAITED", 0.01)
    with TestClient(create_app(photos, generous)) as client:
        empty = {"ready": False, "total": 0, "groups": [], "next_offset": None}
        assert client.get("/api/v1/duplicates").json() == empty
        assert client.get("/api/v1/duplicates").json() == empty
        go.set()
        while not (answer := client.get("/api/v1/duplicates").json())["ready"]:
            pass
        assert calls == [None]
        (group,) = answer["groups"]
        assert [item["key"] for item in group["items"]] == ["a", "b"]
        assert (answer["total"], group["n_items"], answer["next_offset"]) == (1, 2, None)
        photos.delete("b")  # the result is kept, deleted items are not shown
        assert client.get("/api/v1/duplicates").json()["groups"] == []
        assert client.get("/api/v1/duplicates", params={"offset": 5}).json()["groups"] == []


def test_large_collections_are_not_compared(collection, generous, monkeypatch):
    monkeypatch.setattr("corrhash.service.duplicates.MAX_COMPARED", 5)
    with TestClient(create_app(collection, generous)) as client:
        answer = client.get("/api/v1/duplicates")
    assert answer.status_code == 422
    assert "A service compares at most 5 items, and this collection has 60" in answer.text


def test_failed_comparison_is_reported_and_repeated(collection, generous, monkeypatch):
    texts = Collection.create("memory:", collection.model)
    texts.add([{"key": "a", "text": "sea"}])
    monkeypatch.setattr("corrhash.service.duplicates.REST", 0)
    with TestClient(create_app(texts, generous)) as client:
        answer = client.get("/api/v1/duplicates")
        assert answer.status_code == 422
        assert "No item in this collection has an image to compare" in answer.json()["error"]
        picture = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
        texts.add({"key": key, "image": picture} for key in "bc")
        (group,) = client.get("/api/v1/duplicates").json()["groups"]  # compared again
        assert [item["key"] for item in group["items"]] == ["b", "c"]
