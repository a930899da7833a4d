"""Parquet files: rows are items, in portions, and damage is told by name."""

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from corrhash import InputError
from corrhash.datasets import Reader
from corrhash.records import Unusable, open_picture
from corrhash.sources import Share, open_source
from corrhash.sources.parquet import ROWS
from tests.sources.test_tar_shards import png


def write(path, rows):
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def read(path, **share):
    return list(open_source(str(path), Reader(), **share).records)


def test_columns_are_the_fields_of_an_item(tmp_path):
    (tmp_path / "pictures").mkdir()
    rows = [
        {"image": "pictures/1.png", "text": "a boat", "labels": ["boat"], "year": 2015},
        {"image": None, "text": "the sea", "labels": [], "year": None},
    ]
    first, second = read(write(tmp_path / "items.parquet", rows))
    assert (first.key, first.path) == ("pictures/1.png", str(tmp_path / "pictures/1.png"))
    assert (first.text, first.labels, first.metadata) == ("a boat", ["boat"], {"year": 2015})
    assert (second.key, second.image, second.metadata) == ("items/1", None, {})


@pytest.mark.parametrize("cell", [png(5), {"bytes": png(5), "path": "a.png"}])
def test_pictures_may_be_in_the_file_itself(tmp_path, cell):
    (record,) = read(write(tmp_path / "a.parquet", [{"image": cell, "key": "mine"}]))
    assert record.key == "mine"
    assert open_picture(record.image).getpixel((0, 0)) == (5, 5, 5)


def test_feature_vectors_are_a_column(tmp_path):
    rows = [{"image": "a.png", "features": [0.0, 1.5, 2.0]}]
    (record,) = read(write(tmp_path / "a.parquet", rows))
    np.testing.assert_array_equal(record.image, np.array([0, 1.5, 2], np.float32))
    assert (record.key, record.path) == ("a.png", str(tmp_path / "a.png"))


def test_rows_and_files_are_dealt_out(tmp_path):
    n = ROWS + 3
    path = write(tmp_path / "a.parquet", [{"text": f"words {i}"} for i in range(n)])
    parts = [open_source(str(path), Reader(), share=Share(i, 2)) for i in range(2)]
    keys = [[record.key for record in part.records] for part in parts]
    assert sorted(keys[0] + keys[1]) == sorted(f"a/{i}" for i in range(n))
    assert [part.total for part in parts] == [len(own) for own in keys]
    write(tmp_path / "b.parquet", [{"text": "words"}])
    second = open_source(str(tmp_path), Reader(), share=Share(1, 2))
    assert ([record.key for record in second.records], second.total) == (["b/0"], 1)


def test_a_row_that_cannot_be_kept_and_a_damaged_file_are_told(tmp_path):
    rows = [{"text": "words", "more": None}, {"text": "words", "more": {"a": 1}}]
    good, bad = read(write(tmp_path / "a.parquet", rows))
    assert good.key == "a/0"
    assert isinstance(bad, Unusable)
    assert "more" in bad.reason
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(InputError, match="a.parquet cannot be read as Parquet"):
        read(tmp_path / "a.parquet")
