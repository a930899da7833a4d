"""Contact sheets: every picture in its cell, with its words."""

import io

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.sheet import GAP, LINE, contact_sheet, save_sheet, small_picture


def test_every_picture_stands_in_its_cell():
    colours = np.zeros((3, 10, 10, 3), np.uint8)
    colours[0, ..., 0] = colours[1, ..., 1] = colours[2, ..., 2] = 255
    sheet = np.asarray(contact_sheet(colours, columns=2, side=40))
    cells = [(0, 0), (0, 1), (1, 0)]
    for (row, column), colour in zip(cells, colours[:, 0, 0], strict=True):
        y, x = (GAP + place * (40 + GAP) + 20 for place in (row, column))
        np.testing.assert_array_equal(sheet[y, x], colour)


def test_wide_pictures_keep_their_shape():
    sheet = np.asarray(contact_sheet([Image.new("RGB", (80, 20), "red")], columns=1, side=40))
    red = (sheet == [255, 0, 0]).all(axis=2)
    assert red.any(axis=1).sum() == 10
    assert red.any(axis=0).sum() == 40


def test_words_and_title_leave_ink_where_they_belong():
    blank = np.full((1, 40, 40, 3), 255, np.uint8)
    plain = np.asarray(contact_sheet(blank, [""], columns=1, side=40))
    written = np.asarray(contact_sheet(blank, ["boat"], columns=1, side=40))
    assert plain.min() == 255
    assert written[GAP + 40 :].min() < 100
    titled = np.asarray(contact_sheet(blank, columns=1, side=40, title="a boat"))
    assert titled[: 2 * LINE].min() < 100


def test_nothing_and_too_few_words_are_refused():
    with pytest.raises(InputError, match="at least one picture"):
        contact_sheet([])
    with pytest.raises(InputError, match="Got 1 for 2 pictures"):
        contact_sheet(np.zeros((2, 4, 4, 3), np.uint8), ["one"])


def test_thumbnails_are_opened_and_items_without_one_are_grey():
    file = io.BytesIO()
    Image.new("RGB", (9, 5), "red").save(file, "PNG")
    assert small_picture(file.getvalue()).size == (9, 5)
    assert small_picture(None).getpixel((0, 0)) == (238, 238, 238)


def test_a_sheet_is_written_by_the_ending_of_its_name(tmp_path):
    sheet = contact_sheet([np.zeros((8, 8, 3), np.uint8)])
    for name, kind in {"a.jpg": "JPEG", "b.PNG": "PNG"}.items():
        save_sheet(sheet, tmp_path / name)
        with Image.open(tmp_path / name) as written:
            assert written.format == kind
    with pytest.raises(InputError, match="written as .jpg, .jpeg, .png. Got 'a.txt'"):
        save_sheet(sheet, tmp_path / "a.txt")
