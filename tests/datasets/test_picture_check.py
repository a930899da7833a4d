"""Pictures that cannot be read are found before training, and their items left out."""

import logging

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.datasets import ImageFiles, PairedDataset, picture_check
from corrhash.datasets.picture_check import check_pictures, leave_out_unreadable
from corrhash.datasets.splits import draw_split
from tests.datasets.layouts import draw


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Ten pictures, of which number 3 is missing, 5 cut off and 6 no picture."""
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


def test_missing_and_damaged_pictures_are_told_apart(files):
    check = check_pictures(files)
    assert check.missing == (3,)
    assert sorted(check.damaged) == [5, 6]
    assert "cannot identify" in check.damaged[6]
    assert np.flatnonzero(~check.readable).tolist() == [3, 5, 6]
    assert str(files.paths[5]) in check.list_file.read_text()


def test_files_that_did_not_change_are_not_opened_again(files, monkeypatch):
    first = check_pictures(files)

    def opened_again(path):
        raise AssertionError(path)

    monkeypatch.setattr(picture_check, "open_picture", opened_again)
    assert check_pictures(files) == first
    draw(files.paths[0], 99)
    with pytest.raises(AssertionError):
        check_pictures(files)


def test_items_are_left_out_and_the_others_keep_their_parts(files, caplog):
    whole = split_of(files)
    with caplog.at_level(logging.WARNING):
        smaller = leave_out_unreadable(whole)
    gone = {"3.jpg", "5.jpg", "6.jpg"}
    for part in ("train", "validation", "query", "database"):
        before, after = (getattr(each, part).row_keys() for each in (whole, smaller))
        assert after == [key for key in before if key not in gone]
    assert "photos: 3 of 10 pictures are left out" in caplog.text
    assert "1 missing, 2 damaged" in caplog.text
    assert smaller.counts["pictures that can be read"] == 7
    assert [picture.mode for picture in smaller.pairs.images] == ["RGB"] * 7


def test_nothing_is_said_where_all_is_well(files, caplog):
    whole = split_of(files[np.array([0, 1, 2, 4, 7, 8, 9, 0, 1, 2])])
    assert leave_out_unreadable(whole) is whole
    assert not caplog.text


def test_where_no_picture_is_there_it_is_said_what_to_do(tmp_path):
    files = ImageFiles([tmp_path / f"{i}.jpg" for i in range(10)])
    with pytest.raises(InputError, match=r"None of the 10 pictures .*--image-features"):
        leave_out_unreadable(split_of(files))


def test_a_name_with_tabs_and_line_ends_does_not_spoil_the_list(tmp_path, monkeypatch):
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a\tb\nc.jpg"
    path.write_text("")
    Image.new("RGB", (4, 4)).save(tmp_path / "good.png")
    files = ImageFiles([path, tmp_path / "good.png"])
    assert check_pictures(files) == check_pictures(files)
    assert list(check_pictures(files).damaged) == [0]
