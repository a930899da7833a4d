"""A thousand hostile requests: no defect, no hang, nothing from outside."""

import http.client
import json
import os
import random
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

from corrhash.service.app import STATIC, create_app
from tests.service.conftest import HOSTILE, TOKEN, bomb_bytes, fill, picture_bytes
from tests.service.running import running

N_REQUESTS = 1000
N_EXAMPLES = 20
SECONDS = 30
"""For one answer, on a busy machine; whatever takes longer hangs."""

SECRET = "nobody may read this"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
STRINGS = [
    *("", " ", "\0", "../../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd", HOSTILE),
    *("' or 1=1 --", "a" * 100_000, "\u202e\ufeff", "💥" * 500, "%s%n{0}", "C:\\boot.ini", "nan"),
    *("(" * 500, "not " * 200 + "x = 1", "9" * 900, "1e999", "row = 1; drop table items"),
]
VALUES = [*STRINGS, None, True, -1, 0, 10**30, 1.5, float("inf"), [], {}, [[[]]], {"a": {}}]
FIELDS = ["text", "key", "find", "k", "offset", "where", "radius", "rerank", "extra"]
PATHS = ["search/text", "search/item", "search/image", "items", "info", "items/1/thumbnail"]
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a collection, and beside it a file that is none of its business."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture(scope="module")
def address(place, patient):
    collection, _ = fill(place / "photos")
    with running(create_app(collection, patient, token=TOKEN)) as address:
        yield address


def uploads(rng, whole):
    """Pictures that are cut, damaged or huge, and what is no picture."""
    data = bytearray(rng.choice(whole))
    cut = bytes(data[: rng.randrange(len(data))])
    for _ in range(rng.randrange(1, 20)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    damaged = bytes(data)
    data[8:40] = rng.randbytes(32)
    bomb = bomb_bytes(rng.choice([7000, 30_000, 2**31 - 1]))
    other = rng.choice([b"<svg onload=alert(1)>", b"GIF89a", rng.randbytes(500), b"\xff\xd8"])
    return [cut, damaged, bytes(data), bomb, other]


def a_picture(rng, whole, files):
    params = {rng.choice(FIELDS): str(rng.choice(VALUES))[:3000] for _ in range(2)}
    kind = rng.choice(["image/png", "text/html", "image/svg+xml", "x" * 300])
    path = f"/api/v1/search/image?{urlencode(params)}"
    return "POST", path, rng.choice(uploads(rng, whole)), {"Content-Type": kind}


def a_question(rng, whole, files):
    body = {rng.choice(FIELDS): rng.choice(VALUES) for _ in range(3)}
    body = {**body, rng.choice(["text", "key"]): "sea"}
    return "POST", f"/api/v1/{rng.choice(PATHS[:2])}", json.dumps(body).encode(), JSON


def a_file(rng, whole, files):
    name = quote(rng.choice([*STRINGS, *files])[:2000], safe="/%\\")
    return "GET", rng.choice(["/static/", "/api/v1/items/", "/", "/static/../"]) + name, b"", {}


def an_item(rng, whole, files):
    names = [name for name in STRINGS if name]
    item = {"key": rng.choice(names), "text": rng.choice(["sea ", ""]) + rng.choice(names)}
    item |= {rng.choice(["labels", "metadata", "image", "path"]): rng.choice(VALUES)}
    return "POST", "/api/v1/items", json.dumps({"items": [item]}).encode(), JSON | AUTHORIZED


def a_muddle(rng, whole, files):
    method = rng.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
    headers = {"X-Request-ID": "x" * rng.randrange(1, 200), "Authorization": "Bearer " + "y" * 99}
    body = rng.choice([b"", b"{", b"[" * 50_000, b"null", rng.randbytes(100)])
    return method, f"/api/v1/{rng.choice(PATHS)}", body, headers


KINDS = [a_picture, a_question, a_file, an_item, a_muddle]


def send(address, *request):
    """The answer to a request, its address sent as it is."""
    with closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=SECONDS)) as line:
        line.request(*request)
        answer = line.getresponse()
        return answer, answer.read().decode(errors="replace")


def tell(capsys, what, counts):
    with capsys.disabled():
        by_status = dict(sorted(counts.items()))
        print(f"\n{counts.total():,} {what}, by status: {by_status}")  # noqa: T201


def test_a_thousand_hostile_requests_do_no_harm(address, place, capsys):
    rng = random.Random(0)
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    whole = [picture_bytes(pixels, form) for form in ("PNG", "JPEG", "WEBP", "GIF")]
    secret = place / "secret.txt"
    files = [str(secret), os.path.relpath(secret, STATIC), quote(str(secret), safe="")]
    counts, page = Counter(), (STATIC / "index.html").read_text()
    for number in range(N_REQUESTS):
        method, path, body, headers = KINDS[number % len(KINDS)](rng, whole, files)
        answer, told = send(address, method, path, body, headers)
        counts[answer.status] += 1
        assert answer.status < 500, (method, path, body[:200], told)
        assert SECRET not in told
        assert "root:x:0:0" not in told
        if "html" in answer.headers.get("content-type", ""):
            assert told == page
    tell(capsys, "hostile requests", counts)
    assert counts[200] < N_REQUESTS / 2


def requests_of(operation):
    """Requests that keep to the description of an operation, and such that do not."""
    modes = list(schemathesis.GenerationMode)
    if operation.body or list(operation.iter_parameters()):
        return st.one_of([operation.as_strategy(generation_mode=mode) for mode in modes])
    return operation.as_strategy()


def test_the_description_of_the_api_is_kept(address, capsys):
    api = schemathesis.openapi.from_url(f"{address}/api/v1/openapi.json")
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
            answer = case.call(headers=AUTHORIZED, timeout=SECONDS)
            counts[answer.status_code] += 1
            case.validate_response(answer, checks=checks)

        keeps_to_it()
    tell(capsys, "requests made from the description", counts)
    assert counts[200]
    assert counts[422]
