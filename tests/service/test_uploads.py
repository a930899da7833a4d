"""Uploads: only whole pictures of known formats, within limits."""

import numpy as np
import pytest

from corrhash.errors import InputError
from corrhash.service.limits import Limits
from corrhash.service.uploads import FORMATS, SCANS, read_picture
from tests.service.conftest import bomb_bytes, picture_bytes

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)


@pytest.mark.parametrize("form", FORMATS)
def test_known_formats_become_pixels(form):
    assert read_picture(picture_bytes(PIXELS, form), Limits()).size == (60, 40)


def test_pixels_are_those_that_were_sent():
    assert np.array_equal(np.asarray(read_picture(picture_bytes(PIXELS), Limits())), PIXELS)


def test_large_pictures_are_made_small():
    large = np.zeros((3000, 2000, 3), np.uint8)
    assert max(read_picture(picture_bytes(large, "JPEG"), Limits()).size) <= 1024


@pytest.mark.parametrize("form", ["BMP", "TIFF", "PPM", "ICO"])
def test_other_formats_are_refused(form):
    with pytest.raises(InputError, match="no picture that can be read"):
        read_picture(picture_bytes(PIXELS, form), Limits())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"<?xml version='1.0'?><svg/>",
        b"%PDF-1.4",
        b"%!PS-Adobe-3.0 EPSF-3.0",
        picture_bytes(PIXELS)[:300],
        picture_bytes(PIXELS, "JPEG")[:100],
    ],
    ids=["nothing", "svg", "svg with a header", "pdf", "eps", "half a png", "half a jpeg"],
)
def test_what_is_no_whole_picture_is_refused(data):
    with pytest.raises(InputError, match="no picture that can be read"):
        read_picture(data, Limits())


@pytest.mark.parametrize("side", [7000, 12_000, 30_000])
def test_bombs_are_refused_before_they_are_decoded(side):
    with pytest.raises(InputError, match="at most 40,000,000 pixels"):
        read_picture(bomb_bytes(side), Limits())


def test_jpegs_of_very_many_scans_are_refused():
    data = picture_bytes(PIXELS, "JPEG", progressive=True)
    start, stop = data.rindex(b"\xff\xda"), data.rindex(b"\xff\xd9")
    with pytest.raises(InputError, match="scans"):
        read_picture(data[:stop] + data[start:stop] * SCANS + data[stop:], Limits())
