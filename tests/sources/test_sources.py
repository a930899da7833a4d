"""Sources: folders, lists and datasets become records."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.datasets import ImageFeatures, Reader
from corrhash.datasets.simple_features import simple_features
from corrhash.records import Unusable
from corrhash.sources import Share, open_source


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b.png", "sub/a.JPG"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no picture")
    return tmp_path


def test_a_folder_gives_its_pictures_by_their_path_within_it(folder):
    source = open_source(str(folder), Reader())
    assert source.total == 2
    records = list(source.records)
    assert [record.key for record in records] == ["b.png", "sub/a.JPG"]
    assert records[1].path == str(folder / "sub" / "a.JPG")


def test_a_list_gives_an_item_a_line(folder):
    lines = [
        {"image": "sub/a.JPG", "text": "a boat", "labels": ["boat"], "year": 2015, "place": None},
        {"key": "note", "text": "the sea"},
    ]
    (folder / "items.jsonl").write_text("\n\n".join(map(json.dumps, lines)))
    source = open_source(str(folder / "items.jsonl"), Reader())
    first, second = source.records
    assert source.total == 2
    assert (first.key, first.path) == ("sub/a.JPG", str(folder / "sub/a.JPG"))
    assert (first.text, first.labels, first.metadata) == ("a boat", ["boat"], {"year": 2015})
    assert (second.key, second.image) == ("note", None)


BAD_LINES = {
    "It cannot be read as JSON": "{'image': 1}",
    "no object of JSON": "[1]",
    "image is the path of a picture. Got 5": '{"image": 5}',
    "needs a picture or a text": '{"key": "a"}',
    "needs a key": '{"text": "a boat"}',
    "Labels of an item are a list of texts. Got 5": '{"key": "a", "text": "b", "labels": 5}',
    "numbers up to 2\\^53": '{"key": "a", "text": "b", "year": 1%s}' % ("0" * 400),
    "is a text": '{"key": "a", "text": ["b"]}',
}


@pytest.mark.parametrize("reason", BAD_LINES)
def test_a_bad_line_is_told_by_its_number_and_the_others_are_read(tmp_path, reason):
    good = '{"key": "%s", "text": "the sea"}'
    lines = [good % "first", "", BAD_LINES[reason], good % "last"]
    (tmp_path / "items.jsonl").write_text("\n".join(lines))
    np.save(tmp_path / "rows.npy", np.arange(3.0)[:, None])
    name, rows = str(tmp_path / "items.jsonl"), tmp_path / "rows.npy"
    first, bad, last = open_source(name, Reader()).records
    assert (first.key, bad.key, last.key) == ("first", "line 3 of items.jsonl", "last")
    assert re.search(reason, bad.reason)
    assert list(open_source(name, Reader(), features=rows).records)[2].image == [2.0]


def test_a_line_of_an_export_is_read_without_its_codes(folder):
    exported = {
        **{"id": 7, "image_code": "0a", "text_code": "1b", "key": "a", "text": "a boat"},
        **{"labels": ["boat"], "metadata": {"year": 2015, "id": 3}, "path": str(folder / "b.png")},
    }
    by_hand = {"id": 7, "image": "b.png", "metadata": {"year": 2015}, "path": "elsewhere.png"}
    (folder / "all.jsonl").write_text("\n".join(map(json.dumps, [exported, by_hand])))
    again, other = open_source(str(folder / "all.jsonl"), Reader()).records
    assert (again.key, again.text, again.labels) == ("a", "a boat", ["boat"])
    assert (again.path, again.metadata) == (str(folder / "b.png"), {"year": 2015, "id": 3})
    assert (other.path, other.metadata) == (str(folder / "b.png"), {"year": 2015, "id": 7})


def test_rows_of_features_go_with_the_lines(folder):
    (folder / "items.jsonl").write_text('{"image": "b.png"}\n')
    np.save(folder / "rows.npy", np.arange(4.0)[None])
    name = str(folder / "items.jsonl")
    (record,) = open_source(name, Reader(), features=folder / "rows.npy").records
    np.testing.assert_array_equal(record.image, np.arange(4.0))
    assert record.path == str(folder / "b.png")
    np.save(folder / "rows.npy", np.zeros((2, 4)))
    with pytest.raises(InputError, match="2 rows"):
        open_source(name, Reader(), features=folder / "rows.npy")


def test_a_dataset_gives_the_items_of_a_part():
    source = open_source("synthetic", Reader(), part="query")
    record = next(source.records)
    assert source.total == 400
    assert record.is_vector


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """A manifest of twenty pictures, of which number 3 is missing and 5 is none."""
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    lines = ["image,text,split"]
    for row in range(20):
        Image.new("RGB", (8, 8), (row, row, row)).save(tmp_path / f"{row}.png")
        lines.append(f"{row}.png,a boat,{'query' if row % 2 else 'train'}")
    (tmp_path / "3.png").unlink()
    (tmp_path / "5.png").write_text("<html>")
    (tmp_path / "photos.csv").write_text("\n".join(lines))
    return tmp_path / "photos.csv"


@pytest.mark.parametrize("n_shares", [1, 3])
def test_pictures_of_a_dataset_that_cannot_be_read_are_told(damaged, n_shares):
    reader = Reader(image_features=ImageFeatures("simple"))
    shares = [Share(number, n_shares) for number in range(n_shares)]
    sources = [open_source(str(damaged), reader, part="query", share=share) for share in shares]
    found = [record for source in sources for record in source.records]
    assert sum(source.total for source in sources) == len(found) == 10
    reasons = {one.key: one.reason for one in found if isinstance(one, Unusable)}
    assert sorted(reasons) == ["3.png", "5.png"]
    assert "There is no picture" in reasons["3.png"]
    assert "Cannot read the picture" in reasons["5.png"]
    usable = {record.key: record for record in found if not isinstance(record, Unusable)}
    assert sorted(usable) == sorted(f"{row}.png" for row in (1, 7, 9, 11, 13, 15, 17, 19))
    pixels = np.full((1, 8, 8, 3), 7, np.uint8)
    np.testing.assert_array_equal(usable["7.png"].image, simple_features(pixels)[0])


def test_what_is_none_of_these_is_told(tmp_path):
    with pytest.raises(InputError, match="no dataset 'sences'. Did you mean 'scenes'"):
        open_source("sences", Reader())
    with pytest.raises(InputError, match="There are no pictures in"):
        open_source(str(tmp_path), Reader())
