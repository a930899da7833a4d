"""Images that cannot be read are found before training, and their items are excluded."""

import logging

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.datasets import ImageFiles, PairedDataset, image_check
from corrhash.datasets.image_check import check_images, drop_unreadable
from corrhash.datasets.splits import draw_split
from tests.datasets.layouts import draw


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Ten images, of which number 3 is missing, 5 cut off and 6 no image."""
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    paths = [tmp_path / f"{i}.jpg" for i in range(10)]
    for i, path in enumerate(paths):
        draw(path, i)
    paths[3].unlink()
    paths[5].write_bytes(paths[5].read_bytes()[:400])
    paths[6].write_text("<html>")
    return ImageFiles(paths)


def split_of(files):
    labels = np.ones((len(files), 1), dtype=int)
    keys = [path.name for path in files.paths]
    pairs = PairedDataset(files, ["boat"] * len(files), labels, keys=keys)
    return draw_split(pairs, "photos", 0, n_query=3, n_validation=2, n_train=5)


def test_missing_and_damaged_images_are_separated(files):
    check = check_images(files)
    assert check.missing == (3,)
    assert sorted(check.damaged) == [5, 6]
    assert "cannot identify" in check.damaged[6]
    assert np.flatnonzero(~check.readable).tolist() == [3, 5, 6]
    assert str(files.paths[5]) in check.list_file.read_text()


def test_unchanged_files_are_not_decoded_again(files, monkeypatch):
    first = check_images(files)

    def opened_again(path):
        raise AssertionError(path)

    monkeypatch.setattr(image_check, "decode_image", opened_again)
    assert check_images(files) == first
    draw(files.paths[0], 99)
    with pytest.raises(AssertionError):
        check_images(files)


def test_other_items_keep_their_parts(files, caplog):
    whole = split_of(files)
    with caplog.at_level(logging.WARNING):
        smaller = drop_unreadable(whole)
    gone = {"3.jpg", "5.jpg", "6.jpg"}
    for part in ("train", "validation", "query", "database"):
        before, after = (getattr(each, part).row_keys() for each in (whole, smaller))
        assert after == [key for key in before if key not in gone]
    assert "photos: skipping 3 of 10 images" in caplog.text
    assert "1 missing, 2 damaged" in caplog.text
    assert smaller.counts["readable images"] == 7
    assert [image.mode for image in smaller.pairs.images] == ["RGB"] * 7


def test_nothing_is_logged_if_all_images_are_readable(files, caplog):
    whole = split_of(files[np.array([0, 1, 2, 4, 7, 8, 9, 0, 1, 2])])
    assert drop_unreadable(whole) is whole
    assert not caplog.text


def test_no_readable_image_is_an_error(tmp_path):
    files = ImageFiles([tmp_path / f"{i}.jpg" for i in range(10)])
    with pytest.raises(InputError, match=r"None of the 10 images .*--image-features"):
        drop_unreadable(split_of(files))


def test_file_names_can_contain_tabs_and_newlines(tmp_path, monkeypatch):
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a\tb\nc.jpg"
    path.write_text("")
    Image.new("RGB", (4, 4)).save(tmp_path / "good.png")
    files = ImageFiles([path, tmp_path / "good.png"])
    assert check_images(files) == check_images(files)
    assert list(check_images(files).damaged) == [0]
