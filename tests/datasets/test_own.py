"""Places on disk are read by the loader that they call for."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import find_loader, load_dataset, load_folder, place_of
from tests.datasets.layouts import draw


def pictures(folder, n=12):
    for i in range(n):
        draw(folder / f"red boat {i}.jpg", i)


def test_a_folder_is_read_by_its_manifest_else_as_pictures_else_as_arrays(tmp_path):
    pictures(tmp_path)
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


def test_names_of_the_table_come_before_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path / "scenes")
    assert place_of("scenes") == "scenes"
    assert len(load_folder("scenes").pairs) == 12
    assert place_of("./scenes") == str(tmp_path / "scenes")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("notes.docx", {}, "is no dataset: its name ends in '.docx'"),
        ("nowhere.csv", {}, "There is no dataset '.*nowhere.csv', and no such file"),
        ("pictures", {"root": "data"}, "has no files below a root"),
        ("pictures", {"year": 2014}, "no option 'year'. It has: captions, labels, n_query"),
    ],
)
def test_mistakes_are_told(tmp_path, name, options, message):
    (tmp_path / "notes.docx").write_text("")
    pictures(tmp_path / "pictures")
    with pytest.raises(InputError, match=message):
        load_dataset(tmp_path / name, **options)


def test_options_of_generated_datasets_are_checked_too():
    with pytest.raises(InputError, match="synthetic has no option 'm'. It has: n."):
        load_dataset("synthetic", m=3)
    with pytest.raises(InputError, match="has no files below a root"):
        load_dataset("synthetic", root="data")
    assert find_loader("synthetic").__name__ == "load"
