"""ImageFeatures: names, what a model keeps of them, and what must not change behind its back."""

from pathlib import Path

import numpy as np
import pytest

from corrhash import InputError
from corrhash.checksum import file_sha256
from corrhash.datasets import ImageFeatures, image_features
from corrhash.datasets.simple_features import simple_features


class Means:
    """In place of a network: the mean colours of pictures, times a number in a file."""

    opened = 0

    def __init__(self, path):
        Means.opened += 1
        self.factor = float(path.read_text())
        self.sha256 = file_sha256(path)
        self.key = f"means-{self.sha256[:8]}"

    def compute(self, pictures, *, done=0, total=None):
        means = np.asarray(pictures).mean(axis=(1, 2))
        return (self.factor * means).astype(np.float32)


def open_means(name, weights, device):
    return Means(Path(weights))


@pytest.fixture
def weights(tmp_path, monkeypatch):
    monkeypatch.setattr(image_features, "OPEN_BACKBONE", f"{__name__}:open_means")
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "weights.txt"
    path.write_text("2")
    return path


@pytest.fixture
def pictures():
    return np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)


def test_names_that_are_none_are_refused_with_those_that_are():
    with pytest.raises(InputError, match=r"no image features 'sift'. Choose one of: simple, alex"):
        ImageFeatures("sift")
    with pytest.raises(InputError, match=r"'alexnet-fc8'.*alexnet-fc7, hf:<folder.*.npy or .npz"):
        ImageFeatures("alexnet-fc8")
    for name in ("simple", "hf:model", "file.npy"):
        with pytest.raises(InputError, match=r"take no weights. Got 'a.pth'. Leave them out"):
            ImageFeatures(name, "a.pth")


def test_alexnet_has_the_published_weights_unless_told_otherwise():
    assert ImageFeatures("alexnet-fc6").weights == "alexnet-imagenet"
    assert ImageFeatures("alexnet-fc6", "a.pth").weights == "a.pth"


def test_simple_features_are_those_of_their_function(pictures):
    features = ImageFeatures("simple").tied()
    assert features == ImageFeatures("simple")
    for values in (features.of_items(pictures), features.of_pictures(pictures)):
        np.testing.assert_array_equal(values, simple_features(pictures))


def test_items_are_cached_and_new_pictures_are_not(weights, pictures, tmp_path):
    features = ImageFeatures("alexnet-fc7", str(weights)).tied()
    expected = 2 * pictures.mean(axis=(1, 2))
    np.testing.assert_allclose(features.of_pictures(pictures), expected, rtol=1e-6)
    assert not (tmp_path / "cache").exists()
    np.testing.assert_allclose(features.of_items(pictures), expected, rtol=1e-6)
    assert len(list((tmp_path / "cache" / "features").iterdir())) == 1


def test_the_network_stays_open_for_the_next_picture(weights, pictures):
    features = ImageFeatures("alexnet-fc7", str(weights))
    before = Means.opened
    for _ in range(3):
        features.of_pictures(pictures[:1])
    assert Means.opened == before + 1


def test_a_model_keeps_the_full_path_and_the_checksum_of_its_weights(weights, monkeypatch):
    monkeypatch.chdir(weights.parent)
    tied = ImageFeatures("alexnet-fc7", weights.name, device="cuda").tied()
    assert (tied.weights, tied.sha256) == (str(weights), file_sha256(weights))
    assert tied.device == "cuda"
    assert ImageFeatures(**tied.description()) == tied
    assert "device" not in tied.description()


def test_other_weights_in_the_same_place_are_noticed(weights, pictures):
    features = ImageFeatures("alexnet-fc7", str(weights)).tied()
    digits = file_sha256(weights)[:12]
    weights.write_text("3")
    message = f"weights.txt is not what the model was trained with.*not with {digits}.*train the"
    for read in (features.of_items, features.of_pictures):
        with pytest.raises(InputError, match=message):
            read(pictures)
    weights.unlink()
    with pytest.raises(InputError, match=r"The model reads pictures with .*weights.txt, which is"):
        features.of_pictures(pictures)


def test_a_file_of_features_belongs_to_its_items_alone(pictures, tmp_path):
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    np.save(tmp_path / "f.npy", rows)
    features = ImageFeatures(str(tmp_path / "f.npy")).tied()
    np.testing.assert_array_equal(features.of_items(pictures), rows)
    with pytest.raises(InputError, match="5 rows, and the dataset 4 items"):
        features.of_items(pictures[:4])
    message = r"reads its features from .*f.npy, where new pictures have none. Compute.*alexnet-fc7"
    with pytest.raises(InputError, match=message):
        features.of_pictures(pictures)
    np.save(tmp_path / "f.npy", rows + 1)
    with pytest.raises(InputError, match=r"f.npy is not what the model was trained with"):
        features.of_items(pictures)


def test_a_place_that_is_none_is_told(tmp_path):
    for name in (f"hf:{tmp_path}/model", f"{tmp_path}/f.npy"):
        with pytest.raises(InputError, match="There is no .*which image features need. Check"):
            ImageFeatures(name).tied()
    with pytest.raises(InputError, match=r"There is no f.npy"):
        ImageFeatures("f.npy").tied()


def test_a_folder_may_end_like_a_file_of_features():
    assert not ImageFeatures("hf:model.npy").of_file
