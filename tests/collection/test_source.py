"""Sources: every format and dataset becomes records to index."""

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.collection.source import open_source
from corrhash.datasets import ImageFeatures, Reader
from corrhash.datasets.formats import Shard
from corrhash.datasets.records import UnreadableRecord
from tests.datasets.layouts import SMALL, mirflickr


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b.png", "sub/a.JPG"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def test_a_folder_gives_its_images_by_relative_path(folder):
    source = open_source(str(folder), Reader())
    assert source.total == 2
    records = list(source.records)
    assert [record.key for record in records] == ["b.png", "sub/a.JPG"]
    assert records[1].path == str(folder / "sub" / "a.JPG")


def test_every_item_of_arrays_is_read(tmp_path):
    arrays = {
        f"{kind}_{part}": np.eye(4)[: 3 if part == "tr" else 2]
        for kind in "ITL"
        for part in ("tr", "te")
    }
    np.savez(tmp_path / "data.npz", **arrays)
    source = open_source(str(tmp_path / "data.npz"), Reader())
    records = list(source.records)
    assert source.total == 5
    assert [record.key for record in records] == [f"data/{row}" for row in range(5)]
    np.testing.assert_array_equal(records[3].image, np.eye(4)[0])
    np.testing.assert_array_equal(np.ravel(records[3].term_vector), np.eye(4)[0])
    np.savez(tmp_path / "one.npz", x=np.ones((1, 2)), y=np.ones((1, 3)))
    one = open_source(str(tmp_path / "one.npz"), Reader(), options={"whole": "x y", "n_query": 9})
    assert [record.key for record in one.records] == ["one/0"]


def test_a_dataset_gives_the_items_of_a_part():
    source = open_source("synthetic", Reader(), part="query")
    record = next(source.records)
    assert source.total == 400
    assert record.is_vector


@pytest.mark.parametrize("n_shards", [1, 3])
def test_unreadable_images_of_a_dataset_are_reported(tmp_path, monkeypatch, n_shards):
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    root = mirflickr(tmp_path / "data")
    reader = Reader(image_features=ImageFeatures("simple"))
    how = {"part": "query", "options": {"root": root, **SMALL}}
    keys = [record.key for record in open_source("mirflickr25k", reader, **how).records]
    (root / "mirflickr" / f"{keys[0]}.jpg").unlink()
    (root / "mirflickr" / f"{keys[1]}.jpg").write_text("<html>")
    shards = [Shard(index, n_shards) for index in range(n_shards)]
    sources = [open_source("mirflickr25k", reader, **how, shard=shard) for shard in shards]
    found = [record for source in sources for record in source.records]
    assert sum(source.total for source in sources) == len(found) == 6
    reasons = {one.key: one.reason for one in found if isinstance(one, UnreadableRecord)}
    assert sorted(reasons) == sorted(keys[:2])
    assert "Image not found" in reasons[keys[0]]
    assert "Cannot decode the image" in reasons[keys[1]]
    assert sorted(r.key for r in found if not isinstance(r, UnreadableRecord)) == sorted(keys[2:])


def test_mistakes_are_explained(tmp_path, folder):
    with pytest.raises(InputError, match="'sences' is neither a dataset.*Did you mean 'scenes'"):
        open_source("sences", Reader())
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="No images found in"):
        open_source(str(tmp_path / "empty"), Reader())
    with pytest.raises(InputError, match="part applies to named datasets only, got 'query'"):
        open_source(str(folder), Reader(), part="query")
    for source in (str(folder), "synthetic"):
        with pytest.raises(InputError, match="features applies to tables only, "):
            open_source(source, Reader(), features=tmp_path / "rows.npy")
