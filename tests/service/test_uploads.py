"""Uploads: complete images of known formats, within limits."""

import numpy as np
import pytest

from corrhash.errors import InputError
from corrhash.service.limits import Limits
from corrhash.service.uploads import FORMATS, MAX_SCANS, decode_image
from tests.service.conftest import bomb_bytes, image_bytes

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)


@pytest.mark.parametrize("form", FORMATS)
def test_known_formats_are_decoded(form):
    assert decode_image(image_bytes(PIXELS, form), Limits()).size == (60, 40)


def test_pixels_are_unchanged():
    assert np.array_equal(np.asarray(decode_image(image_bytes(PIXELS), Limits())), PIXELS)


def test_large_images_are_downscaled():
    large = np.zeros((3000, 2000, 3), np.uint8)
    assert max(decode_image(image_bytes(large, "JPEG"), Limits()).size) <= 1024


@pytest.mark.parametrize("form", ["BMP", "TIFF", "PPM", "ICO"])
def test_other_formats_are_rejected(form):
    with pytest.raises(InputError, match="Cannot decode the image"):
        decode_image(image_bytes(PIXELS, form), Limits())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"<?xml version='1.0'?><svg/>",
        b"%PDF-1.4",
        b"%!PS-Adobe-3.0 EPSF-3.0",
        image_bytes(PIXELS)[:300],
        image_bytes(PIXELS, "JPEG")[:100],
    ],
    ids=["nothing", "svg", "svg with a header", "pdf", "eps", "half a png", "half a jpeg"],
)
def test_incomplete_files_are_rejected(data):
    with pytest.raises(InputError, match="Cannot decode the image"):
        decode_image(data, Limits())


@pytest.mark.parametrize("side", [7000, 12_000, 30_000])
def test_decompression_bombs_are_rejected(side):
    with pytest.raises(InputError, match="more than 40,000,000 pixels"):
        decode_image(bomb_bytes(side), Limits())


def test_jpegs_with_many_scans_are_rejected():
    data = image_bytes(PIXELS, "JPEG", progressive=True)
    start, stop = data.rindex(b"\xff\xda"), data.rindex(b"\xff\xd9")
    with pytest.raises(InputError, match="scans"):
        decode_image(data[:stop] + data[start:stop] * MAX_SCANS + data[stop:], Limits())
