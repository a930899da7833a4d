"""Files and folders are read by the format that fits them."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import dataset_location, find_loader, load_dataset, load_folder
from corrhash.datasets.formats import find_format, tar
from tests.datasets.formats.test_tar import write_tar
from tests.datasets.layouts import draw


def draw_images(folder, n=12):
    for i in range(n):
        draw(folder / f"red boat {i}.jpg", i)


def test_manifest_comes_before_images_before_arrays(tmp_path):
    draw_images(tmp_path)
    np.save(tmp_path / "features.npy", np.ones((12, 2)))
    assert load_folder(tmp_path).pairs.keys[0] == "red boat 0.jpg"
    lines = "".join(f"red boat {i}.jpg,a tree\n" for i in range(10))
    (tmp_path / "manifest.csv").write_text("image,text\n" + lines)
    assert len(load_folder(tmp_path).pairs) == 10
    arrays = tmp_path / "arrays"
    arrays.mkdir()
    for name in ("images", "texts", "labels"):
        np.save(arrays / f"{name}.npy", np.ones((30, 2)))
    assert load_folder(arrays).pairs.images.shape == (30, 2)


def test_names_of_datasets_come_before_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw_images(tmp_path / "scenes")
    assert dataset_location("scenes") == "scenes"
    assert len(load_folder("scenes").pairs) == 12
    assert dataset_location("./scenes") == str(tmp_path / "scenes")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("notes.docx", {}, "Unknown file format '.docx'"),
        ("nowhere.csv", {}, "nowhere.csv' is neither a dataset nor an existing file"),
        ("images", {"root": "data"}, "root applies to published datasets only"),
        ("images", {"year": 2014}, "no option 'year'. Valid options: captions, labels, n_query"),
    ],
)
def test_mistakes_are_explained(tmp_path, name, options, message):
    (tmp_path / "notes.docx").write_text("")
    draw_images(tmp_path / "images")
    with pytest.raises(InputError, match=message):
        load_dataset(tmp_path / name, **options)


def test_options_of_generated_datasets_are_checked():
    with pytest.raises(InputError, match="synthetic has no option 'm'. Valid options: n."):
        load_dataset("synthetic", m=3)
    with pytest.raises(InputError, match="root applies to published datasets only"):
        load_dataset("synthetic", root="data")
    assert find_loader("synthetic").__name__ == "load"


def test_a_folder_of_shards_is_read_as_its_files(tmp_path):
    write_tar(tmp_path / "a.tar", [("1.txt", b"words")])
    assert find_format(tmp_path) == (tar, tmp_path)
