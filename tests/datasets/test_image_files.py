"""ImageFiles: pictures on disk, opened on demand."""

import io

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.datasets import ImageFiles


@pytest.fixture
def files(tmp_path):
    for i in range(3):
        Image.new("L" if i == 1 else "RGB", (5, 4), i * 40).save(tmp_path / f"{i}.png")
    return ImageFiles([tmp_path / f"{i}.png" for i in range(3)])


def test_pictures_are_opened_as_rgb_one_by_one(files):
    assert len(files) == 3
    assert [picture.mode for picture in files] == ["RGB"] * 3
    assert np.asarray(files[1]).shape == (4, 5, 3)


def test_rows_of_files_are_files(files):
    part = files[np.array([2, 0])]
    assert isinstance(part, ImageFiles)
    assert part.paths == [files.paths[2], files.paths[0]]


def damaged(kind):
    """The bytes of a picture that was cut off, or whose header was."""
    pixels = np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format=kind)
    whole = file.getvalue()
    return {"JPEG": whole[: len(whole) // 2], "PNG": whole[:40] + b"XXXX", "PPM": b"P6 2 x"}[kind]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "PPM"])
def test_damaged_pictures_are_named_with_their_rows(files, tmp_path, kind):
    path = tmp_path / "broken"
    path.write_bytes(damaged(kind))
    some = ImageFiles([*files.paths, path])[np.array([0, 3])]
    sentence = r"Cannot read the picture .*broken \(row 3\): .*Repair it, or leave the row out"
    with pytest.raises(InputError, match=sentence):
        some[1]
    with pytest.raises(InputError, match=sentence):
        list(some)


def test_missing_pictures_are_named_with_their_rows(tmp_path):
    with pytest.raises(InputError, match=r"no picture .*gone.jpg \(row 0\). Check the path"):
        ImageFiles([tmp_path / "gone.jpg"])[0]


def test_pictures_come_in_their_order_however_many_threads_decode_them(tmp_path):
    paths = [tmp_path / f"{i}.png" for i in range(90)]
    for i, path in enumerate(paths):
        Image.new("L", (400 - 4 * i, 3), i).save(path)  # the first take longest
    shades = [np.asarray(picture)[0, 0, 0] for picture in ImageFiles(paths)]
    assert shades == list(range(90))
    assert np.asarray(next(iter(ImageFiles(paths))))[0, 0, 0] == 0  # one may stop early


def test_some_pictures_know_the_list_that_they_are_of(files):
    some = ImageFiles(files.paths, [4, 7, 9], n_listed=12)[1:]
    assert (list(some.rows), some.n_listed) == ([7, 9], 12)
