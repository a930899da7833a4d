"""Sources: folders, lists and datasets become records."""

import json

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.datasets import Reader
from corrhash.sources import open_source


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


def test_what_is_none_of_these_is_told(tmp_path):
    with pytest.raises(InputError, match="no dataset 'sences'. Did you mean 'scenes'"):
        open_source("sences", Reader())
    with pytest.raises(InputError, match="There are no pictures in"):
        open_source(str(tmp_path), Reader())
