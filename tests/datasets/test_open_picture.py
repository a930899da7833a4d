"""Pictures of every kind open as upright RGB, and what is none is refused."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from corrhash.datasets.open_picture import UNREADABLE, open_picture


def saved(tmp_path, picture, name, **options):
    picture.save(tmp_path / name, **options)
    return open_picture(tmp_path / name)


def colour(picture, x=0, y=0):
    return np.asarray(picture)[y, x].tolist()


def test_cmyk_palette_and_grey_become_rgb(tmp_path):
    red = Image.new("RGB", (8, 6), (255, 0, 0))
    for mode, name in (("CMYK", "a.jpg"), ("P", "b.png"), ("CMYK", "c.tif")):
        opened = saved(tmp_path, red.convert(mode), name)
        assert opened.mode == "RGB"
        assert np.abs(np.asarray(opened).astype(int) - [255, 0, 0]).max() < 5
    assert colour(saved(tmp_path, Image.new("1", (8, 6), 1), "d.png")) == [255] * 3


@pytest.mark.parametrize("name", ["deep.png", "deep.tif"])
def test_sixteen_bits_are_brought_to_eight(tmp_path, name):
    values = np.array([[0, 257 * 100, 65535]], dtype=np.uint16)
    opened = np.asarray(saved(tmp_path, Image.fromarray(values), name))
    assert opened[0, :, 0].tolist() == [0, 100, 255]


def test_greys_without_a_scale_are_stretched(tmp_path):
    values = np.array([[-1.0, 0.0, 1.0]], dtype=np.float32)
    opened = np.asarray(saved(tmp_path, Image.fromarray(values), "float.tif"))
    assert opened[0, :, 0].tolist() == [0, 128, 255]
    values = np.array([[3, 200]], dtype=np.int32)
    opened = np.asarray(saved(tmp_path, Image.fromarray(values), "wide.tif"))
    assert opened[0, :, 0].tolist() == [3, 200]


def test_transparency_shows_white(tmp_path):
    clear = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    assert colour(saved(tmp_path, clear, "clear.png")) == [255, 255, 255]


def test_of_an_animation_it_is_the_first_frame(tmp_path):
    frames = [Image.new("RGB", (4, 4), name) for name in ("red", "blue", "lime")]
    options = {"save_all": True, "append_images": frames[1:]}
    assert colour(saved(tmp_path, frames[0], "moving.gif", **options)) == [255, 0, 0]
    assert colour(saved(tmp_path, frames[0], "moving.webp", lossless=True, **options))[0] > 250


def test_a_picture_stands_the_way_up_that_its_camera_noted(tmp_path):
    pixels = np.zeros((6, 10, 3), np.uint8)
    pixels[0, 0] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it clockwise to view
    opened = saved(tmp_path, Image.fromarray(pixels), "turned.png", exif=exif.tobytes())
    assert opened.size == (6, 10)
    assert colour(opened, x=5, y=0) == [255] * 3


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_a_damaged_note_of_the_camera_does_not_spoil_the_picture(tmp_path):
    exif = b"Exif\x00\x00MM\x00\x2a\xff\xff\xff\xff"
    opened = saved(tmp_path, Image.new("RGB", (6, 4)), "a.jpg", exif=exif)
    assert opened.size == (6, 4)


def test_a_large_photograph_keeps_enough_pixels(tmp_path):
    opened = saved(tmp_path, Image.new("RGB", (4800, 2400)), "large.jpg")
    assert opened.size == (2400, 1200)
    assert saved(tmp_path, Image.new("RGB", (2000, 3000)), "usual.jpg").size == (2000, 3000)


def bomb(width, height):
    """A PNG of some hundred bytes that claims to be as large as it says."""

    def chunk(kind, content):
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0"))


def test_a_decompression_bomb_is_refused(tmp_path):
    (tmp_path / "bomb.png").write_bytes(bomb(60000, 60000))
    with pytest.raises(Image.DecompressionBombError):
        open_picture(tmp_path / "bomb.png")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"])
def test_whatever_is_cut_off_or_scrambled_raises_what_is_expected(tmp_path, kind):
    rng = np.random.default_rng(0)
    file = io.BytesIO()
    Image.fromarray(rng.integers(0, 255, (30, 30, 3), dtype=np.uint8)).save(file, format=kind)
    whole = bytearray(file.getvalue())
    path = tmp_path / "damaged"
    refused = 0
    for trial in range(60):
        content = bytearray(whole[: len(whole) * (trial % 10 + 1) // 10])
        for place in rng.integers(0, len(content), 6):
            content[place] = rng.integers(0, 256)
        path.write_bytes(content)
        try:
            assert open_picture(path).mode == "RGB"
        except UNREADABLE:
            refused += 1
    assert refused
