"""Contact sheets: every image in its cell, with its text."""

import io

import numpy as np
import pytest
from PIL import Image

import corrhash.contact_sheet as contact_sheet_module
from corrhash import InputError
from corrhash.contact_sheet import LINE_HEIGHT, MARGIN, contact_sheet, open_thumbnail, save_sheet


def test_every_image_fills_its_cell():
    colours = np.zeros((3, 10, 10, 3), np.uint8)
    colours[0, ..., 0] = colours[1, ..., 1] = colours[2, ..., 2] = 255
    sheet = np.asarray(contact_sheet(colours, columns=2, size=40))
    cells = [(0, 0), (0, 1), (1, 0)]
    for (row, column), colour in zip(cells, colours[:, 0, 0], strict=True):
        y, x = (MARGIN + place * (40 + MARGIN) + 20 for place in (row, column))
        np.testing.assert_array_equal(sheet[y, x], colour)


def test_wide_images_keep_their_aspect_ratio():
    sheet = np.asarray(contact_sheet([Image.new("RGB", (80, 20), "red")], columns=1, size=40))
    red = (sheet == [255, 0, 0]).all(axis=2)
    assert red.any(axis=1).sum() == 10
    assert red.any(axis=0).sum() == 40


def test_text_and_title_are_drawn_in_their_places():
    blank = np.full((1, 40, 40, 3), 255, np.uint8)
    plain = np.asarray(contact_sheet(blank, [""], columns=1, size=40))
    written = np.asarray(contact_sheet(blank, ["boat"], columns=1, size=40))
    assert plain.min() == 255
    assert written[MARGIN + 40 :].min() < 100
    titled = np.asarray(contact_sheet(blank, columns=1, size=40, title="a boat"))
    assert titled[: 2 * LINE_HEIGHT].min() < 100


def test_accented_and_cyrillic_letters_have_glyphs():
    """Letters that the font lacks would all be drawn as the same box."""
    blank, letters = np.full((1, 40, 40, 3), 255, np.uint8), "éüñłßŽЖя"
    drawn = {contact_sheet(blank, [letter], columns=1, size=40).tobytes() for letter in letters}
    assert len(drawn) == len(letters)


def test_text_is_drawn_without_matplotlib_and_system_fonts(monkeypatch):
    monkeypatch.setattr("corrhash.contact_sheet.find_spec", lambda name: None)
    monkeypatch.setattr("corrhash.contact_sheet.SYSTEM_FONTS", ())
    contact_sheet_module._font.cache_clear()
    blank = np.full((1, 40, 40, 3), 255, np.uint8)
    assert np.asarray(contact_sheet(blank, ["boat"], columns=1, size=40)).min() < 100
    contact_sheet_module._font.cache_clear()


def test_long_texts_stay_within_their_cell():
    blank = np.full((1, 60, 60, 3), 255, np.uint8)
    sheet = contact_sheet(blank, ["WWWW MMMM " * 9], columns=1, size=60)
    assert np.asarray(sheet)[:, MARGIN + 60 :].min() == 255


def test_no_images_or_too_few_texts_raise():
    with pytest.raises(InputError, match="at least one image"):
        contact_sheet([])
    with pytest.raises(InputError, match="got 1 texts for 2 images"):
        contact_sheet(np.zeros((2, 4, 4, 3), np.uint8), ["one"])


def test_items_without_a_thumbnail_are_grey():
    file = io.BytesIO()
    Image.new("RGB", (9, 5), "red").save(file, "PNG")
    assert open_thumbnail(file.getvalue()).size == (9, 5)
    assert open_thumbnail(None).getpixel((0, 0)) == (238, 238, 238)


def test_the_file_name_decides_the_format(tmp_path):
    sheet = contact_sheet([np.zeros((8, 8, 3), np.uint8)])
    for name, kind in {"a.jpg": "JPEG", "b.PNG": "PNG"}.items():
        save_sheet(sheet, tmp_path / name)
        with Image.open(tmp_path / name) as written:
            assert written.format == kind
    with pytest.raises(InputError, match="end in .jpg, .jpeg or .png, got 'a.txt'"):
        save_sheet(sheet, tmp_path / "a.txt")
