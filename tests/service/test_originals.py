"""Original files: items below the root of a collection, and nothing else."""

import io
import os
import shutil
import socket
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from corrhash.collection import Collection
from corrhash.errors import InputError
from corrhash.service.app import create_app
from corrhash.service.originals import NotServedError, check_originals, open_below, open_original
from corrhash.service.uploads import FORMATS
from tests.service.conftest import N, bomb_bytes, image_bytes

SECRET = b"nobody may read this"
FILES = ["holiday/a b.jpg", "red.png", "scan.tif"]


def save(path, color=(200, 30, 30), size=(300, 200), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path, **options)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@pytest.fixture
def root(folder):
    """The folder of the images, and private files beside it, as new for each test."""
    shutil.rmtree(folder, ignore_errors=True)
    return write_files(folder)


def write_files(folder):
    save(folder / "outside" / "private.png")
    (folder / "outside" / "secret.txt").write_bytes(SECRET)
    exif = Image.Exif()
    exif[270] = "taken at home"
    save(folder / "photos" / "holiday" / "a b.jpg", exif=exif)
    save(folder / "photos" / "red.png")
    save(folder / "photos" / "scan.tif")
    return folder / "photos"


@pytest.fixture(scope="module")
def collection(filled, folder):
    root = write_files(folder)
    collection = Collection.create("memory:", filled[0].model, root=root)
    collection.add({"key": name, "image": root / name, "text": "sea"} for name in FILES)
    return collection


@pytest.fixture(scope="module")
def running(collection, generous):
    app = create_app(collection, generous, originals=True, paths=True)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def service(running, collection, root):
    yield running
    point_to(collection, "red.png", "red.png")


def url_of(collection, key):
    return f"/api/v1/items/{collection.ids_of([key])[key]}/original"


def point_to(collection, key, path):
    """Let an item have another path, as a damaged or manipulated collection might."""
    number = collection.ids_of([key])[key]
    (item,) = collection.items_of([number], ["key", "text", "labels", "metadata", "path"])
    codes = {"image": collection.index.codes_of([number], "image")}
    collection.index.upsert([number], codes, [replace(item, path=str(path))])


def test_file_is_sent_as_it_is(service, collection, root):
    response = service.get(url_of(collection, "holiday/a b.jpg"))
    assert response.content == (root / "holiday/a b.jpg").read_bytes()
    assert response.headers["content-type"] == "image/jpeg"
    assert response.headers["content-disposition"] == "inline; filename*=UTF-8''a%20b.jpg"
    assert response.headers["x-content-type-options"] == "nosniff"


def test_resized_file_has_no_metadata(service, collection):
    response = service.get(url_of(collection, "holiday/a b.jpg"), params={"size": 150})
    with Image.open(io.BytesIO(response.content)) as image:
        assert image.format == "JPEG"
        assert image.size == (150, 100)
        assert dict(image.getexif()) == {}


def test_small_images_are_not_enlarged(service, collection):
    response = service.get(url_of(collection, "red.png"), params={"size": 2000})
    with Image.open(io.BytesIO(response.content)) as image:
        assert image.size == (300, 200)


def test_formats_that_no_browser_shows_become_jpeg(service, collection):
    response = service.get(url_of(collection, "scan.tif"))
    assert response.headers["content-type"] == "image/jpeg"
    with Image.open(io.BytesIO(response.content)) as image:
        assert image.format == "JPEG"


def test_heic_becomes_jpeg(service, collection, root):
    pytest.importorskip("pillow_heif").register_heif_opener()
    Image.new("RGB", (300, 200), "red").save(root / "red.png", "HEIF")
    response = service.get(url_of(collection, "red.png"))
    assert response.headers["content-type"] == "image/jpeg"
    with Image.open(io.BytesIO(response.content)) as image:
        assert (image.format, image.size) == ("JPEG", (300, 200))


@pytest.mark.parametrize("params", [{}, {"size": 150}])
def test_known_file_is_not_sent_again(service, collection, root, params):
    url = url_of(collection, "red.png")
    response = service.get(url, params=params)
    assert "max-age" in response.headers["cache-control"]
    headers = {"If-None-Match": response.headers["etag"]}
    assert service.get(url, params=params, headers=headers).status_code == 304
    assert service.get(url, params={"size": 151}, headers=headers).status_code == 200
    save(root / "red.png", (0, 0, 250), size=(301, 200))
    assert service.get(url, params=params, headers=headers).status_code == 200


@pytest.mark.parametrize("size", ["0", "-1", "63", "4097", "1e9", "x", "", "99999999999999999999"])
def test_sizes_have_limits(service, collection, size):
    assert service.get(url_of(collection, "red.png"), params={"size": size}).status_code == 422


@pytest.mark.parametrize("value", ["bytes=0-9", "bytes=-5", "bytes=9-1", "bytes=0-0,5-9", "x"])
def test_ranges_are_ignored(service, collection, root, value):
    response = service.get(url_of(collection, "red.png"), headers={"Range": value})
    assert response.status_code == 200
    assert response.content == (root / "red.png").read_bytes()


def test_nothing_is_sent_unless_originals_are_public(collection, generous):
    with TestClient(create_app(collection, generous)) as client:
        response = client.get(url_of(collection, "red.png"))
        assert response.status_code == 404
        assert "--originals" in response.json()["error"]
        number = collection.ids_of(["red.png"])["red.png"]
        assert client.get(f"/api/v1/items/{number}").json()["path"] is None


def test_paths_are_relative_to_the_root(service, collection, root):
    number = collection.ids_of(["holiday/a b.jpg"])["holiday/a b.jpg"]
    assert service.get(f"/api/v1/items/{number}").json()["path"] == "holiday/a b.jpg"
    point_to(collection, "red.png", root.parent / "outside" / "private.png")
    number = collection.ids_of(["red.png"])["red.png"]
    assert service.get(f"/api/v1/items/{number}").json()["path"] is None


@pytest.mark.parametrize("number", ["99", "-1", "4611686018427387904", "x", "..", "%2e%2e", "0%00"])
def test_only_items_have_originals(service, number):
    assert service.get(f"/api/v1/items/{number}/original").status_code in (404, 422)


def test_keys_and_paths_in_urls_open_nothing(service, collection, root):
    for name in ("red.png", "holiday/a b.jpg", str(root / "red.png"), "../photos/red.png"):
        for url in (f"/api/v1/items/{name}/original", f"/api/v1/items/0/original/{name}"):
            assert service.get(url).status_code in (404, 422)
    url = url_of(collection, "red.png")
    expected = (root / "red.png").read_bytes()
    assert service.get(url, params={"path": "scan.tif", "key": "scan.tif"}).content == expected


def test_item_of_another_collection_is_not_sent(service, filled, collection, root):
    other = Collection.create("memory:", filled[0].model, root=root)
    save(root / "other" / "x.png", (1, 2, 3))
    other.add({"key": f"other/{row}", "image": root / "other" / "x.png"} for row in range(N))
    known = set(collection.ids_of(["red.png", "scan.tif", "holiday/a b.jpg"]).values())
    for number in other.ids_of([f"other/{row}" for row in range(N)]).values():
        if number not in known:
            assert service.get(f"/api/v1/items/{number}/original").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        *("../outside/private.png", "holiday/../../outside/private.png", "/etc/passwd"),
        *(
            "..",
            ".",
            "holiday",
            "missing.png",
            "red.png/x",
            "a" * 5000,
            "/dev/zero",
            "//etc/passwd",
        ),
    ],
)
def test_stored_paths_do_not_leave_the_root(service, collection, path):
    point_to(collection, "red.png", path)
    for params in ({}, {"size": 150}):
        response = service.get(url_of(collection, "red.png"), params=params)
        assert response.status_code == 404
        assert "outside" not in response.text


def test_absolute_path_outside_is_not_sent(service, collection, root):
    point_to(collection, "red.png", root.parent / "outside" / "private.png")
    assert service.get(url_of(collection, "red.png")).status_code == 404


@pytest.mark.parametrize("target", ["private.png", "secret.txt", "/etc/passwd", "/dev/zero"])
def test_file_replaced_by_a_link_is_not_sent(service, collection, root, target):
    (root / "red.png").unlink()
    (root / "red.png").symlink_to(root.parent / "outside" / target)
    response = service.get(url_of(collection, "red.png"))
    assert response.status_code == 404
    assert SECRET not in response.content


def test_folder_replaced_by_a_link_is_not_followed(service, collection, root):
    save(root.parent / "outside" / "a b.jpg")
    (root / "holiday").rename(root.parent / "old")
    (root / "holiday").symlink_to(root.parent / "outside")
    assert service.get(url_of(collection, "holiday/a b.jpg")).status_code == 404


def test_links_inside_the_root_are_followed(service, collection, root):
    (root / "red.png").rename(root / "holiday" / "moved.png")
    (root / "red.png").symlink_to("holiday/moved.png")
    assert service.get(url_of(collection, "red.png")).status_code == 200


def test_root_can_be_a_link(filled, root, generous):
    (root.parent / "link").symlink_to(root)
    collection = Collection.create("memory:", filled[0].model, root=root.parent / "link")
    collection.add([{"key": "red.png", "image": root.parent / "link" / "red.png"}])
    with TestClient(create_app(collection, generous, originals=True)) as client:
        assert client.get(url_of(collection, "red.png")).status_code == 200


def test_link_that_appears_while_opening_is_not_followed(root, monkeypatch):
    real = os.path.realpath

    def swap(path, **options):
        found = real(path, **options)
        if str(path).endswith("red.png"):
            (root / "red.png").unlink()
            (root / "red.png").symlink_to(root.parent / "outside" / "secret.txt")
        return found

    monkeypatch.setattr(os.path, "realpath", swap)
    with pytest.raises((OSError, ValueError)):
        open_below(root, "red.png")


def test_links_swapped_all_the_time_never_leak(root):
    file, done, seen = root / "swapped.png", threading.Event(), set()
    good = (root / "red.png").read_bytes()

    def swap():
        number = 0
        while not done.is_set():
            number += 1
            new = root / f".new{number % 2}"
            new.unlink(missing_ok=True)
            if number % 2:
                new.symlink_to(root.parent / "outside" / "secret.txt")
            else:
                new.write_bytes(good)
            new.replace(file)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(200):
            try:
                with open_below(root, "swapped.png") as opened:
                    seen.add(opened.read())
            except (OSError, ValueError):
                pass
    finally:
        done.set()
        thread.join()
    assert seen <= {good}


def test_fifos_and_sockets_are_not_opened(service, collection, root):
    (root / "red.png").unlink()
    os.mkfifo(root / "red.png")
    assert service.get(url_of(collection, "red.png")).status_code == 404
    (root / "red.png").unlink()
    with socket.socket(socket.AF_UNIX) as bound:
        path = root / "red.png"
        if len(os.fsencode(path)) < 100:
            bound.bind(str(path))
            assert service.get(url_of(collection, "red.png")).status_code == 404


@pytest.mark.parametrize(
    "content",
    [
        *(SECRET, b"", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"),
        *(b"<html><script>alert(1)</script>", b"%PDF-1.4", b"%!PS-Adobe-3.0 EPSF-3.0\n"),
    ],
)
def test_files_that_are_not_images_are_not_sent(service, collection, root, content):
    (root / "red.png").write_bytes(content)
    for params in ({}, {"size": 150}):
        assert service.get(url_of(collection, "red.png"), params=params).status_code == 404


def test_media_type_is_that_of_the_content(service, collection, root):
    Image.new("RGB", (9, 9)).save(root / "red.png", "WEBP")
    response = service.get(url_of(collection, "red.png"))
    assert response.headers["content-type"] == FORMATS["WEBP"]


@pytest.mark.parametrize("side", [7000, 30_000, 2**31 - 1])
def test_huge_images_are_not_decoded(service, collection, root, side):
    (root / "red.png").write_bytes(bomb_bytes(side))
    response = service.get(url_of(collection, "red.png"), params={"size": 150})
    assert response.status_code in (404, 422)


def test_large_jpegs_are_decoded_at_a_reduced_size(service, collection, root):
    save(root / "holiday" / "a b.jpg", size=(9000, 6000))  # 54 million pixels
    response = service.get(url_of(collection, "holiday/a b.jpg"), params={"size": 150})
    with Image.open(io.BytesIO(response.content)) as image:
        assert image.size == (150, 100)


def test_large_files_are_not_resized(collection, root, generous):
    small = replace(generous, original=1000)
    (root / "red.png").write_bytes(image_bytes(np.zeros((9, 9, 3), np.uint8)) + bytes(2000))
    with TestClient(create_app(collection, small, originals=True)) as client:
        response = client.get(url_of(collection, "red.png"), params={"size": 150})
        assert response.status_code == 422
        assert "1,000 bytes" in response.json()["error"]


def test_damaged_images_give_an_error_message(service, collection, root):
    data = (root / "holiday/a b.jpg").read_bytes()
    (root / "red.png").write_bytes(data[: len(data) // 2])
    response = service.get(url_of(collection, "red.png"), params={"size": 150})
    assert response.status_code == 422
    assert "cannot be decoded" in response.json()["error"]


def test_files_without_permission_are_not_sent(root, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(NotServedError):
        open_original(root, "red.png")


def test_no_file_stays_open(service, collection, root):
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        pytest.skip("only Linux lists the files that a process has open")
    before = len(list(descriptors.iterdir()))
    for key in ("red.png", "scan.tif", "holiday/a b.jpg"):
        for params in ({}, {"size": 150}):
            etag = service.get(url_of(collection, key), params=params).headers["etag"]
            service.get(url_of(collection, key), params=params, headers={"If-None-Match": etag})
    (root / "red.png").write_bytes(SECRET)
    service.get(url_of(collection, "red.png"))
    assert len(list(descriptors.iterdir())) <= before + 2  # some are of the event loop


def test_missing_root_is_an_error(tmp_path):
    check_originals(str(tmp_path))
    for root in ("", str(tmp_path / "missing")):
        with pytest.raises(InputError, match="--root"):
            check_originals(root)
