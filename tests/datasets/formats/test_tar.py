"""Tar shards: items of several members, read as a stream."""

import io
import json
import re
import tarfile

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.collection.collection import Collection
from corrhash.datasets import load_dataset, make_pairs
from corrhash.datasets.formats import find_format, folder
from corrhash.datasets.formats.base import EVERYTHING, Shard
from corrhash.datasets.formats.tar import read
from corrhash.datasets.images import open_image
from corrhash.datasets.records import UnreadableRecord
from corrhash.methods.cvh import CVH
from corrhash.model import Model


def png(value=0):
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (value, value, value)).save(file, "PNG")
    return file.getvalue()


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def write_tar(path, members, mode="w"):
    with tarfile.open(path, mode) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def records(path, shard=EVERYTHING):
    return list(read(path, shard).records)


@pytest.mark.parametrize(("name", "mode"), [("part-0.tar", "w"), ("part-0.tar.gz", "w:gz")])
def test_members_that_share_a_name_are_one_item(tmp_path, name, mode):
    fields = {"labels": ["boat"], "year": 2015, "empty": None}
    members = [
        ("a/1.png", png(7)),
        ("a/1.txt", b"a boat at sea\n"),
        ("a/1.json", json.dumps(fields).encode()),
        ("a/1.cls", b"3"),
        ("a/2.npy", npy(np.arange(4.0))),
        ("a/2.PNG", png(9)),
        ("a/._2.txt", b"\xff"),
        ("a/3.txt", b"words alone"),
    ]
    first, second, third = records(write_tar(tmp_path / name, members, mode))
    assert (first.key, first.text, first.labels) == ("part-0/a/1", "a boat at sea", ["boat"])
    assert first.metadata == {"year": 2015}
    assert open_image(first.image).getpixel((0, 0)) == (7, 7, 7)
    assert second.key == "part-0/a/2"
    np.testing.assert_array_equal(second.image, np.arange(4.0))
    assert open_image(second.preview).getpixel((0, 0)) == (9, 9, 9)
    assert (third.key, third.image, third.text) == ("part-0/a/3", None, "words alone")


def test_the_json_member_can_hold_the_key(tmp_path):
    members = [("1.txt", b"words"), ("1.json", b'{"key": "mine"}')]
    assert [record.key for record in records(write_tar(tmp_path / "a.tar", members))] == ["mine"]


def test_shards_select_whole_files_of_a_folder(tmp_path):
    for number in range(3):
        members = [(f"{row}.txt", b"words") for row in range(2)]
        write_tar(tmp_path / f"s{number}.tar", members)
    shares = [[r.key for r in records(tmp_path, Shard(i, 2))] for i in range(2)]
    assert shares == [["s0/0", "s0/1", "s2/0", "s2/1"], ["s1/0", "s1/1"]]
    alone = [[r.key for r in records(tmp_path / "s0.tar", Shard(i, 2))] for i in range(2)]
    assert alone == [["s0/0"], ["s0/1"]]


def test_a_folder_with_images_is_not_read_as_tar_files(tmp_path):
    (tmp_path / "boat.png").write_bytes(png())
    write_tar(tmp_path / "backup.tar", [("1.txt", b"words")])
    assert find_format(tmp_path) == (folder, tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("1.json", b"{", "Invalid .json member"),
        ("1.json", b"[1]", "Expected a JSON object such as .* in the .json member, got"),
        ("1.json", b'{"text": "words", "year": {"a": 1}}', "year"),
        ("1.txt", b"\xff\xfe", ".txt member is not UTF-8"),
        ("1.npy", b"no array", "Invalid .npy member"),
        ("1.npy", npy(np.zeros((2, 2))), r"got shape \(2, 2\) and dtype float64"),
        ("1.json", b'{"year": 2015}', "needs an image or a text"),
    ],
)
def test_a_bad_item_is_reported_and_the_others_are_read(tmp_path, name, content, reason):
    members = [("0.txt", b"words"), (name, content), ("2.txt", b"words")]
    before, bad, after = records(write_tar(tmp_path / "a.tar", members))
    assert (before.key, bad.key, after.key) == ("a/0", "a/1", "a/2")
    assert isinstance(bad, UnreadableRecord)
    assert re.search(reason, bad.reason)


def test_pickled_arrays_are_refused(tmp_path):
    file = io.BytesIO()
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    (bad,) = records(write_tar(tmp_path / "a.tar", [("1.npy", file.getvalue())]))
    assert "Object arrays cannot be loaded" in bad.reason


def test_damaged_tar_files_are_named(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("1.txt", b"words"), ("2.png", bytes(3000))])
    path.write_bytes(path.read_bytes()[:2000])
    stream = read(path).records
    with pytest.raises(InputError, match="a.tar as a tar file after item '1'"):
        list(stream)
    path.write_bytes(b"no tar at all" * 100)
    with pytest.raises(InputError, match="a.tar as a tar file"):
        records(path)
    path.write_bytes(bytes.fromhex("1f8b085c09b8fc6a025c"))  # a truncated gzip header
    with pytest.raises(InputError, match="a.tar as a tar file: "):
        records(path)
    with pytest.raises(InputError, match="No such file"):
        records(tmp_path / "none.tar")


def test_items_before_the_damage_are_stored(tmp_path):
    pairs = make_pairs(50)
    collection = Collection.create("memory:", Model(CVH(8).fit(pairs)))
    path = write_tar(
        tmp_path / "a.tar", [(f"{i}.npy", npy(image)) for i, image in enumerate(pairs.images)]
    )
    whole = path.read_bytes()
    with tarfile.open(path) as tar:
        middle_of_item_5 = tar.getmember("5.npy").offset_data + 10
    path.write_bytes(whole[:middle_of_item_5])
    with pytest.raises(InputError, match="after item '4'"):
        collection.add(read(path).records, batch=3)
    assert set(collection.ids_of([f"a/{i}" for i in range(50)])) == {f"a/{i}" for i in range(5)}
    path.write_bytes(whole)
    added = collection.add(read(path).records, batch=3)
    assert (added.new, added.unchanged) == (45, 5)


def test_a_collection_reports_skipped_items(tmp_path):
    pairs = make_pairs(50)
    collection = Collection.create("memory:", Model(CVH(8).fit(pairs)))
    members = [("0.npy", npy(pairs.images[0])), ("1.png", b"no image"), ("1.npy", b"no array")]
    added = collection.add(records(write_tar(tmp_path / "a.tar", members)))
    assert (added.new, list(added.skipped)) == (1, ["a/1"])


def test_images_and_vectors_in_shards_are_trained_on(tmp_path, monkeypatch):
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "photos").mkdir()
    texts = [(f"{i}.txt", b"a boat") for i in range(10)]
    images = [(f"{i}.png", png(i)) for i in range(10)]
    members = [member for item in zip(images, texts, strict=True) for member in item]
    write_tar(tmp_path / "photos" / "a.tar", members)
    split = load_dataset(tmp_path / "photos")
    assert (split.name, len(split.pairs)) == ("photos", 10)
    assert split.pairs.images[3].getpixel((0, 0)) == (3, 3, 3)
    vectors = [(f"{i}.npy", npy(np.full(2, i))) for i in range(10)]
    members = [member for item in zip(vectors, texts, strict=True) for member in item]
    split = load_dataset(write_tar(tmp_path / "vectors.tar", members))
    assert split.pairs.images[3].tolist() == [3, 3]
