"""Images of every mode and format are decoded to upright RGB."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.datasets import ImageFiles
from corrhash.datasets.images import (
    UNREADABLE,
    decode_image,
    open_image,
    preview,
    shrink_for_upload,
    shrink_jpeg,
    thumbnail,
)


def saved(tmp_path, image, name, **options):
    image.save(tmp_path / name, **options)
    return decode_image(tmp_path / name)


def colour(image, x=0, y=0):
    return np.asarray(image)[y, x].tolist()


def test_cmyk_palette_and_grey_become_rgb(tmp_path):
    red = Image.new("RGB", (8, 6), (255, 0, 0))
    for mode, name in (("CMYK", "a.jpg"), ("P", "b.png"), ("CMYK", "c.tif")):
        opened = saved(tmp_path, red.convert(mode), name)
        assert opened.mode == "RGB"
        assert np.abs(np.asarray(opened).astype(int) - [255, 0, 0]).max() < 5
    assert colour(saved(tmp_path, Image.new("1", (8, 6), 1), "d.png")) == [255] * 3


@pytest.mark.parametrize("name", ["deep.png", "deep.tif"])
def test_sixteen_bits_are_scaled_to_eight(tmp_path, name):
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


def test_an_animation_gives_its_first_frame(tmp_path):
    frames = [Image.new("RGB", (4, 4), name) for name in ("red", "blue", "lime")]
    options = {"save_all": True, "append_images": frames[1:]}
    assert colour(saved(tmp_path, frames[0], "moving.gif", **options)) == [255, 0, 0]
    assert colour(saved(tmp_path, frames[0], "moving.webp", lossless=True, **options))[0] > 250


def test_exif_orientation_is_applied(tmp_path):
    pixels = np.zeros((6, 10, 3), np.uint8)
    pixels[0, 0] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it clockwise to view
    opened = saved(tmp_path, Image.fromarray(pixels), "turned.png", exif=exif.tobytes())
    assert opened.size == (6, 10)
    assert colour(opened, x=5, y=0) == [255] * 3


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_damaged_exif_is_ignored(tmp_path):
    exif = b"Exif\x00\x00MM\x00\x2a\xff\xff\xff\xff"
    opened = saved(tmp_path, Image.new("RGB", (6, 4)), "a.jpg", exif=exif)
    assert opened.size == (6, 4)


def test_large_jpeg_files_keep_enough_pixels(tmp_path):
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
        decode_image(tmp_path / "bomb.png")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"])
def test_damaged_files_raise_a_known_exception(tmp_path, kind):
    rng = np.random.default_rng(0)
    file = io.BytesIO()
    Image.fromarray(rng.integers(0, 255, (30, 30, 3), dtype=np.uint8)).save(file, format=kind)
    whole = bytearray(file.getvalue())
    path = tmp_path / "damaged"
    refused = 0
    for trial in range(60):
        content = bytearray(whole[: len(whole) * (trial % 10 + 1) // 10])
        for position in rng.integers(0, len(content), 6):
            content[position] = rng.integers(0, 256)
        path.write_bytes(content)
        try:
            assert decode_image(path).mode == "RGB"
        except UNREADABLE:
            refused += 1
    assert refused


@pytest.fixture
def files(tmp_path):
    for i in range(3):
        Image.new("L" if i == 1 else "RGB", (5, 4), i * 40).save(tmp_path / f"{i}.png")
    return ImageFiles([tmp_path / f"{i}.png" for i in range(3)])


def test_image_files_are_opened_as_rgb(files):
    assert len(files) == 3
    assert [image.mode for image in files] == ["RGB"] * 3
    assert np.asarray(files[1]).shape == (4, 5, 3)


def test_rows_of_files_are_files(files):
    part = files[np.array([2, 0])]
    assert isinstance(part, ImageFiles)
    assert part.paths == [files.paths[2], files.paths[0]]


def damaged(kind):
    """Return the bytes of a truncated image, or of one with a damaged header."""
    pixels = np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format=kind)
    whole = file.getvalue()
    return {"JPEG": whole[: len(whole) // 2], "PNG": whole[:40] + b"XXXX", "PPM": b"P6 2 x"}[kind]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "PPM"])
def test_damaged_images_are_named_with_their_rows(files, tmp_path, kind):
    path = tmp_path / "broken"
    path.write_bytes(damaged(kind))
    some = ImageFiles([*files.paths, path])[np.array([0, 3])]
    sentence = r"Cannot decode the image .*broken \(row 3\): .*Repair it or remove the row"
    with pytest.raises(InputError, match=sentence):
        some[1]
    with pytest.raises(InputError, match=sentence):
        list(some)


def test_missing_images_are_named_with_their_rows(tmp_path):
    with pytest.raises(InputError, match=r"Image not found: .*gone.jpg \(row 0\). Check the path"):
        ImageFiles([tmp_path / "gone.jpg"])[0]


def test_threads_keep_the_order_of_images(tmp_path):
    paths = [tmp_path / f"{i}.png" for i in range(90)]
    for i, path in enumerate(paths):
        Image.new("L", (400 - 4 * i, 3), i).save(path)  # the first take longest
    shades = [np.asarray(image)[0, 0, 0] for image in ImageFiles(paths)]
    assert shades == list(range(90))
    assert np.asarray(next(iter(ImageFiles(paths))))[0, 0, 0] == 0  # one may stop early


def test_a_subset_keeps_its_rows_and_the_full_count(files):
    some = ImageFiles(files.paths, [4, 7, 9], n_listed=12)[1:]
    assert (list(some.rows), some.n_listed) == ([7, 9], 12)


def test_thumbnails_are_upright_and_small(tmp_path):
    image = Image.new("RGB", (800, 400), "red")
    image.paste("blue", (0, 0, 400, 400))
    exif = image.getexif()
    exif[0x0112] = 6  # to be turned by a quarter
    image.save(tmp_path / "turned.jpg", exif=exif)
    opened = open_image(tmp_path / "turned.jpg")
    assert opened.size == (400, 800)
    with Image.open(io.BytesIO(thumbnail(opened))) as small:
        assert small.size == (128, 256)
        assert small.getpixel((64, 20))[2] > 200  # the blue half is on top
    assert open_image(np.zeros((5, 7, 3), np.uint8)).size == (7, 5)
    assert open_image(Image.new("L", (3, 3))).mode == "RGB"


def longest_side(content):
    with Image.open(io.BytesIO(content)) as image:
        return max(image.size)


def test_previews_have_the_size_that_is_asked_for():
    image = Image.new("RGB", (3000, 1500), "red")
    assert [longest_side(preview(image, size)) for size in (256, 640, 1200)] == [256, 640, 1200]
    assert longest_side(preview(Image.new("RGB", (90, 50)), 640)) == 90


def test_previews_stay_within_their_bytes():
    noise = np.random.default_rng(0).integers(0, 256, (1300, 1300, 3), dtype=np.uint8)
    small, large = (preview(Image.fromarray(noise), size) for size in (640, 1280))
    assert len(small) <= 48_000
    assert len(large) <= 4 * 48_000
    assert 256 <= longest_side(small) < 640  # no quality was low enough


def test_shrinking_keeps_what_is_small_enough():
    image = Image.effect_noise((640, 320), 50).convert("RGB")
    content = preview(image)
    assert longest_side(shrink_jpeg(content)) == 256
    assert shrink_jpeg(content, 640) == content


def transparent(path):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 4), dtype=np.uint8)
    Image.fromarray(pixels).save(path, "PNG")


def deep_grey(path):
    Image.fromarray(np.array([[0, 257 * 100, 65535]], dtype=np.uint16)).save(path, "PNG")


def bad_exif(path):
    Image.new("RGB", (6, 4), "red").save(path, "PNG", exif=b"Exif\x00\x00no note of a camera")


def large_photo(path):
    pixels = np.random.default_rng(0).integers(0, 256, (2100, 2200, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, "JPEG")


@pytest.mark.parametrize("write", [transparent, deep_grey, bad_exif, large_photo])
def test_open_image_decodes_files_as_training_does(tmp_path, write):
    path = tmp_path / "image"
    write(path)
    trained = np.asarray(ImageFiles([path])[0])
    for source in (path, str(path), path.read_bytes()):
        np.testing.assert_array_equal(np.asarray(open_image(source)), trained)


@pytest.mark.parametrize("write", [transparent, deep_grey])
def test_pil_images_become_rgb_as_in_training(tmp_path, write):
    path = tmp_path / "image"
    write(path)
    with Image.open(path) as opened:
        seen = np.asarray(open_image(opened))
    np.testing.assert_array_equal(seen, np.asarray(ImageFiles([path])[0]))


def test_sources_that_are_no_images_are_rejected(tmp_path):
    (tmp_path / "cut.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    with pytest.raises(InputError, match=r"Cannot decode the image .*cut.jpg: unknown image"):
        open_image(tmp_path / "cut.jpg")
    with pytest.raises(InputError, match=r"Cannot decode the image [^:]*: Is a directory\.$"):
        open_image(tmp_path)
    with pytest.raises(InputError, match="Image not found"):
        open_image(str(tmp_path / "none.jpg"))
    with pytest.raises(InputError, match="got shape \\(3,\\) of float64"):
        open_image(np.zeros(3))


def test_an_image_is_opened_from_bytes():
    file = io.BytesIO()
    Image.new("RGB", (9, 9), "red").save(file, "PNG")
    assert open_image(file.getvalue()).getpixel((0, 0)) == (255, 0, 0)
    with pytest.raises(InputError, match="Cannot decode the image from 7 bytes"):
        open_image(b"nothing")


def test_images_to_upload_are_small_and_without_metadata():
    image = Image.new("RGB", (3000, 1500))
    image.info["comment"] = "private"
    sent = shrink_for_upload(image)
    assert (sent.size, sent.info) == ((1024, 512), {})
