"""HEIC images: decoded with pillow-heif, and named with the extra without it."""

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.datasets import ImageFiles, images
from corrhash.datasets.formats.folder import image_files
from corrhash.datasets.image_check import check_images
from corrhash.datasets.images import decode_image, open_image


@pytest.fixture
def photo(tmp_path):
    """A HEIC file that is red on the left and blue on the right."""
    heif = pytest.importorskip("pillow_heif", reason="the extra 'heic' is not installed")
    pixels = np.zeros((64, 96, 3), np.uint8)
    pixels[:, :48, 0] = pixels[:, 48:, 2] = 255
    path = tmp_path / "IMG_1.HEIC"
    heif.from_pillow(Image.fromarray(pixels)).save(path, quality=90)
    return path


def test_heic_is_decoded_from_files_and_bytes(photo):
    for source in (photo, photo.read_bytes()):
        pixels = np.asarray(open_image(source))
        assert pixels.shape == (64, 96, 3)
        assert pixels[32, 8].argmax() == 0
        assert pixels[32, 88].argmax() == 2
    assert image_files(photo.parent) == [photo]


def test_heic_without_the_package_names_the_extra(photo, monkeypatch):
    monkeypatch.setattr(images, "enable_heif", lambda: False)
    monkeypatch.setattr("corrhash.datasets.image_check.enable_heif", lambda: False)
    with pytest.raises(InputError, match=r"HEIC images need pillow-heif: pip install 'corrh"):
        open_image(photo)
    (reason,) = check_images(ImageFiles([photo])).damaged.values()
    assert "pip install 'corrhash[heic]'" in reason
    monkeypatch.undo()
    assert check_images(ImageFiles([photo])).readable.all()  # the earlier result does not count
    with pytest.raises(FileNotFoundError):
        decode_image(photo.with_name("gone.heic"))
