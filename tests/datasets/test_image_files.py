"""ImageFiles: pictures on disk, opened on demand."""

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


def test_missing_and_damaged_pictures_are_named(tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"Cannot read the picture .*broken.jpg"):
        ImageFiles([tmp_path / "broken.jpg"])[0]
    with pytest.raises(InputError, match=r"There is no picture .*gone.jpg"):
        ImageFiles([tmp_path / "gone.jpg"])[0]
