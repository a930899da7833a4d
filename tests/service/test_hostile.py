"""A thousand hostile requests: no server error, no hang, no foreign file."""

import asyncio
import http.client
import json
import os
import random
import sys
from collections import Counter
from contextlib import closing
from urllib.parse import quote, urlencode, urlsplit

import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    response_schema_conformance,
    status_code_conformance,
)
from tools import hostile

from corrhash.service.app import STATIC, create_app
from corrhash.service.connections import limited_protocol
from corrhash.service.limits import Limits
from tests.service.conftest import HOSTILE, TOKEN, bomb_bytes, fill, image_bytes
from tests.service.running import running

N_REQUESTS = 1000
N_EXAMPLES = 20
SECONDS = 30
"""Time limit of a response on a busy machine."""

SECRET = "nobody may read this"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
STRINGS = [
    *("", " ", "\0", "../../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd", HOSTILE),
    *("' or 1=1 --", "a" * 100_000, "\u202e\ufeff", "💥" * 500, "%s%n{0}", "C:\\boot.ini", "nan"),
    *("(" * 500, "not " * 200 + "x = 1", "9" * 900, "1e999", "row = 1; drop table items"),
]
VALUES = [*STRINGS, None, True, -1, 0, 10**30, 1.5, float("inf"), [], {}, [[[]]], {"a": {}}]
FIELDS = ["text", "key", "find", "k", "offset", "where", "radius", "rerank", "extra"]
PATHS = [
    "search/text",
    "search/key",
    "search/codes",
    "search/image",
    "items",
    "info",
    "items/1/thumbnail",
]
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a collection, and a file beside it that must not be served."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture(scope="module")
def url(folder, generous):
    collection, _ = fill(folder / "photos")
    with running(create_app(collection, generous, token=TOKEN)) as url:
        yield url


def uploads(rng, whole):
    """Truncated, damaged and huge images, and files that are not images."""
    data = bytearray(rng.choice(whole))
    cut = bytes(data[: rng.randrange(len(data))])
    for _ in range(rng.randrange(1, 20)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    damaged = bytes(data)
    data[8:40] = rng.randbytes(32)
    bomb = bomb_bytes(rng.choice([7000, 30_000, 2**31 - 1]))
    other = rng.choice([b"<svg onload=alert(1)>", b"GIF89a", rng.randbytes(500), b"\xff\xd8"])
    return [cut, damaged, bytes(data), bomb, other]


def random_upload(rng, whole, files):
    params = {rng.choice(FIELDS): str(rng.choice(VALUES))[:3000] for _ in range(2)}
    kind = rng.choice(["image/png", "text/html", "image/svg+xml", "x" * 300])
    path = f"/api/v1/search/image?{urlencode(params)}"
    return "POST", path, rng.choice(uploads(rng, whole)), {"Content-Type": kind}


def random_search(rng, whole, files):
    body = {rng.choice(FIELDS): rng.choice(VALUES) for _ in range(3)}
    body = {**body, rng.choice(["text", "key"]): "sea"}
    return "POST", f"/api/v1/{rng.choice(PATHS[:3])}", json.dumps(body).encode(), JSON


def random_path(rng, whole, files):
    name = quote(rng.choice([*STRINGS, *files])[:2000], safe="/%\\")
    return "GET", rng.choice(["/static/", "/api/v1/items/", "/", "/static/../"]) + name, b"", {}


def random_item(rng, whole, files):
    names = [name for name in STRINGS if name]
    item = {"key": rng.choice(names), "text": rng.choice(["sea ", ""]) + rng.choice(names)}
    item |= {rng.choice(["labels", "metadata", "image", "path"]): rng.choice(VALUES)}
    return "POST", "/api/v1/items", json.dumps({"items": [item]}).encode(), JSON | AUTHORIZED


def random_request(rng, whole, files):
    method = rng.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
    headers = {"X-Request-ID": "x" * rng.randrange(1, 200), "Authorization": "Bearer " + "y" * 99}
    body = rng.choice([b"", b"{", b"[" * 50_000, b"null", rng.randbytes(100)])
    return method, f"/api/v1/{rng.choice(PATHS)}", body, headers


KINDS = [random_upload, random_search, random_path, random_item, random_request]


def send(url, *request):
    """Send a request with its path unchanged."""
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=SECONDS)) as line:
        line.request(*request)
        response = line.getresponse()
        return response, response.read().decode(errors="replace")


def print_counts(capsys, what, counts):
    with capsys.disabled():
        by_status = dict(sorted(counts.items(), key=str))
        print(f"\n{counts.total():,} {what}, by status: {by_status}")  # noqa: T201


def test_hostile_requests_do_no_harm(url, folder, capsys):
    rng = random.Random(0)
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    whole = [image_bytes(pixels, form) for form in ("PNG", "JPEG", "WEBP", "GIF")]
    secret = folder / "secret.txt"
    files = [str(secret), os.path.relpath(secret, STATIC), quote(str(secret), safe="")]
    counts, page = Counter(), (STATIC / "index.html").read_text()
    for number in range(N_REQUESTS):
        method, path, body, headers = KINDS[number % len(KINDS)](rng, whole, files)
        response, text = send(url, method, path, body, headers)
        counts[response.status] += 1
        assert response.status < 500, (method, path, body[:200], text)
        assert SECRET not in text
        assert "root:x:0:0" not in text
        if "html" in response.headers.get("content-type", ""):
            assert text == page
    print_counts(capsys, "hostile requests", counts)
    assert counts[200] < N_REQUESTS / 2


def requests_of(operation):
    """Generate valid and invalid requests of an operation."""
    modes = list(schemathesis.GenerationMode)
    if operation.body or list(operation.iter_parameters()):
        return st.one_of([operation.as_strategy(generation_mode=mode) for mode in modes])
    return operation.as_strategy()


def test_responses_match_the_openapi_document(url, capsys):
    api = schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")
    checks = [not_a_server_error, status_code_conformance, response_schema_conformance]
    counts = Counter()
    for found in api.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=N_EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=requests_of(operation))
        def keeps_to_it(case):
            response = case.call(headers=AUTHORIZED, timeout=SECONDS)
            counts[response.status_code] += 1
            case.validate_response(response, checks=checks)

        keeps_to_it()
    print_counts(capsys, "requests generated from the OpenAPI document", counts)
    assert counts[200]
    assert counts[422]


@pytest.fixture(scope="module")
def limited(folder):
    """A service with its default limits, as the command starts it."""
    collection, _ = fill(folder / "limited")
    limits = Limits()
    app = create_app(collection, limits, token=hostile.TOKEN)
    with running(app, http=limited_protocol(limits)) as url:
        send(url, "POST", "/api/v1/search/text", b'{"text": "sea"}', JSON)  # loads the model
        yield url


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs many loopback addresses")
def test_requests_made_from_the_openapi_document_do_no_harm(limited, capsys):
    report = asyncio.run(hostile.attack(limited, 300))
    print_counts(capsys, "requests that break rules", report.statuses)
    on_a_busy_machine = [one for one in report.failures if not one[0].endswith(" s")]
    assert on_a_busy_machine == []
    assert max(report.seconds) < SECONDS
    assert report.statuses.total() == 300
    assert {200, 400, 401, 404, 405, 413, 422} <= set(report.statuses)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs many loopback addresses")
def test_slow_clients_do_not_hold_up_others(limited):
    search = "/api/v1/search/text", {"text": "sea"}
    times = asyncio.run(hostile.besiege(limited, *search, seconds=3))
    assert len(times) > 4
    assert {status for status, _ in times} == {200}
    assert max(seconds for _, seconds in times) < SECONDS


def test_answers_are_recognized():
    full = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
    for end in range(len(full)):
        assert not hostile.is_answer(full[:end], b"GET /")
    assert hostile.is_answer(full, b"GET /")
    assert hostile.is_answer(full[:-3], b"HEAD /")
    assert not hostile.is_answer(b"HTTP/1.1 100 Continue\r\n\r\n" + full[:-1], b"POST /")


def test_report_counts_errors_hangs_and_missing_answers():
    report = hostile.Report()
    report.add(b"fine", True, b"HTTP/1.1 200 OK\r\n\r\n", 0.1)
    report.add(b"incomplete", False, b"", 0.1)
    assert report.failures == []
    report.add(b"unanswered", True, b"", 0.1)
    report.add(b"error", True, b"HTTP/1.1 500 Oh\r\n\r\n", 0.1)
    report.add(b"slow", True, b"HTTP/1.1 200 OK\r\n\r\n", 9.0)
    assert [raw for _, raw in report.failures] == [b"unanswered", b"error", b"slow"]
    assert report.statuses == {200: 2, "closed": 2, 500: 1}
