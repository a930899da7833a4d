"""Tar shards: items of several members, read as a stream, and damage told by name."""

import io
import json
import re
import tarfile

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.collection import Collection
from corrhash.datasets import Reader, make_pairs
from corrhash.methods.cvh import CVH
from corrhash.records import Unusable, open_picture
from corrhash.sources import Share, open_source


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


def read(path, **share):
    return list(open_source(str(path), Reader(), **share).records)


@pytest.mark.parametrize(("name", "mode"), [("part-0.tar", "w"), ("part-0.tar.gz", "w:gz")])
def test_members_that_share_a_name_are_an_item(tmp_path, name, mode):
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
    first, second, third = read(write_tar(tmp_path / name, members, mode))
    assert (first.key, first.text, first.labels) == ("part-0/a/1", "a boat at sea", ["boat"])
    assert first.metadata == {"year": 2015}
    assert open_picture(first.image).getpixel((0, 0)) == (7, 7, 7)
    assert second.key == "part-0/a/2"
    np.testing.assert_array_equal(second.image, np.arange(4.0))
    assert open_picture(second.picture).getpixel((0, 0)) == (9, 9, 9)
    assert (third.key, third.image, third.text) == ("part-0/a/3", None, "words alone")


def test_the_key_of_an_item_may_be_its_own(tmp_path):
    members = [("1.txt", b"words"), ("1.json", b'{"key": "mine"}')]
    assert [record.key for record in read(write_tar(tmp_path / "a.tar", members))] == ["mine"]


def test_files_of_a_folder_are_dealt_out_whole(tmp_path):
    for number in range(3):
        members = [(f"{row}.txt", b"words") for row in range(2)]
        write_tar(tmp_path / f"s{number}.tar", members)
    shares = [[r.key for r in read(tmp_path, share=Share(i, 2))] for i in range(2)]
    assert shares == [["s0/0", "s0/1", "s2/0", "s2/1"], ["s1/0", "s1/1"]]
    alone = [[r.key for r in read(tmp_path / "s0.tar", share=Share(i, 2))] for i in range(2)]
    assert alone == [["s0/0"], ["s0/1"]]


def test_a_folder_of_pictures_stays_one_where_a_tar_file_lies_about(tmp_path):
    (tmp_path / "boat.png").write_bytes(png())
    write_tar(tmp_path / "backup.tar", [("1.txt", b"words")])
    assert [record.key for record in read(tmp_path)] == ["boat.png"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("1.json", b"{", "Its .json cannot be read"),
        ("1.json", b"[1]", "Its .json is no object"),
        ("1.json", b'{"text": "words", "year": {"a": 1}}', "year"),
        ("1.txt", b"\xff\xfe", "Its .txt is not UTF-8"),
        ("1.npy", b"no array", "Its .npy cannot be read"),
        ("1.npy", npy(np.zeros((2, 2))), r"an array of shape \(2, 2\) of float64"),
        ("1.json", b'{"year": 2015}', "needs a picture or a text"),
    ],
)
def test_an_item_that_cannot_be_read_is_told_and_the_others_are_there(
    tmp_path, name, content, reason
):
    members = [("0.txt", b"words"), (name, content), ("2.txt", b"words")]
    before, bad, after = read(write_tar(tmp_path / "a.tar", members))
    assert (before.key, bad.key, after.key) == ("a/0", "a/1", "a/2")
    assert isinstance(bad, Unusable)
    assert re.search(reason, bad.reason)


def test_an_array_with_objects_is_never_unpickled(tmp_path):
    file = io.BytesIO()
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    (bad,) = read(write_tar(tmp_path / "a.tar", [("1.npy", file.getvalue())]))
    assert "Object arrays cannot be loaded" in bad.reason


def test_a_file_that_is_cut_or_no_tar_is_named(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("1.txt", b"words"), ("2.png", bytes(3000))])
    path.write_bytes(path.read_bytes()[:2000])
    records = open_source(str(path), Reader()).records
    with pytest.raises(InputError, match=r"a.tar cannot be read as a tar file \(behind item '1'\)"):
        list(records)
    path.write_bytes(b"no tar at all" * 100)
    with pytest.raises(InputError, match="a.tar cannot be read as a tar file"):
        read(path)
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "none.tar")


def test_a_collection_tells_which_items_were_left_out(tmp_path):
    pairs = make_pairs(50)
    collection = Collection.create("memory:", CVH(8).fit(pairs))
    members = [("0.npy", npy(pairs.images[0])), ("1.png", b"no picture"), ("1.npy", b"no array")]
    added = collection.add(read(write_tar(tmp_path / "a.tar", members)))
    assert (added.new, list(added.skipped)) == (1, ["a/1"])
