"""Simple features: colours and edges by place, alike for arrays and files."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash._files import content_checksum, file_sha256
from corrhash.datasets import ImageFeatures, ImageFiles, image_features
from corrhash.datasets.image_features import simple_features


def test_files_and_arrays_give_the_same_features(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 40, 40, 3), dtype=np.uint8)
    for i in range(2):
        Image.fromarray(pixels[i]).save(tmp_path / f"{i}.png")
    files = ImageFiles([tmp_path / "0.png", tmp_path / "1.png"])
    np.testing.assert_array_equal(simple_features(files), simple_features(pixels))


def test_colours_are_in_their_cells():
    image = np.zeros((1, 64, 64, 3), np.uint8)
    image[0, :8, :8, 0] = 255  # red in the upper left corner
    colours = simple_features(image)[0, :192].reshape(8, 8, 3)
    np.testing.assert_allclose(colours[0, 0], [1, 0, 0])
    assert colours[1:].sum() == 0


def test_stripes_give_edges_of_their_direction():
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[:, ::8] = 255
    turned = stripes.transpose(1, 0, 2)
    upright, level = simple_features(np.stack([stripes, turned]))[:, 192:].reshape(2, 64, 8)
    assert upright.sum(axis=0).argmax() == 0
    assert level.sum(axis=0).argmax() == 4


class Means:
    """In place of a network: the mean colours of images, times a number in a file."""

    opened = 0

    def __init__(self, path):
        Means.opened += 1
        self.factor = float(path.read_text())
        self.sha256 = file_sha256(path)
        self.key = f"means-{self.sha256[:8]}"

    def compute(self, images, *, done=0, total=None):
        means = np.asarray(images).mean(axis=(1, 2))
        return (self.factor * means).astype(np.float32)


def open_means(name, weights, *, local_only):
    return Means(Path(weights))


@pytest.fixture
def weights(tmp_path, monkeypatch):
    monkeypatch.setattr(image_features, "OPEN_BACKBONE", f"{__name__}:open_means")
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "weights.txt"
    path.write_text("2")
    return path


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)


def test_unknown_names_are_rejected():
    with pytest.raises(InputError, match=r"Unknown image features 'sift'. Valid: simple, alex"):
        ImageFeatures("sift")
    with pytest.raises(InputError, match=r"'alexnet-fc8'.*alexnet-fc7, hf:<folder.*.npy or .npz"):
        ImageFeatures("alexnet-fc8")
    for name in ("simple", "hf:model", "file.npy"):
        with pytest.raises(InputError, match=r"take no weights, got 'a.pth'. Weights apply to"):
            ImageFeatures(name, "a.pth")


def test_alexnet_defaults_to_published_weights():
    assert ImageFeatures("alexnet-fc6").weights == "alexnet-imagenet"
    assert ImageFeatures("alexnet-fc6", "a.pth").weights == "a.pth"


def test_simple_features_match_their_function(images):
    features = ImageFeatures("simple").pinned()
    assert features == ImageFeatures("simple")
    for values in (features.of_dataset(images), features.of_images(images)):
        np.testing.assert_array_equal(values, simple_features(images))


def test_only_features_of_datasets_are_cached(weights, images, tmp_path):
    features = ImageFeatures("alexnet-fc7", str(weights)).pinned()
    expected = 2 * images.mean(axis=(1, 2))
    np.testing.assert_allclose(features.of_images(images), expected, rtol=1e-6)
    assert not (tmp_path / "cache").exists()
    np.testing.assert_allclose(features.of_dataset(images), expected, rtol=1e-6)
    assert len(list((tmp_path / "cache" / "features").iterdir())) == 1


def test_cached_features_are_found_by_content(weights, images, tmp_path):
    paths = [tmp_path / f"{row}.png" for row in range(5)]
    for path, pixels in zip(paths, images, strict=True):
        Image.fromarray(pixels).save(path)
    features = ImageFeatures("alexnet-fc7", str(weights)).pinned()
    computed = features.of_dataset(ImageFiles(paths[:4]))
    asked = [content_checksum(path) for path in paths]
    found = features.cached([asked[4], asked[2], "", asked[0], asked[2]])
    assert sorted(found) == [1, 3, 4]
    for at, row in ((1, 2), (3, 0), (4, 2)):
        np.testing.assert_array_equal(found[at], computed[row])
    assert features.cached(["", ""]) == {}
    assert ImageFeatures("simple").cached(asked) == {}
    weights.write_text("3")
    assert ImageFeatures("alexnet-fc7", str(weights)).cached(asked) == {}


def test_the_network_is_opened_once(weights, images):
    features = ImageFeatures("alexnet-fc7", str(weights))
    before = Means.opened
    for _ in range(3):
        features.of_images(images[:1])
    assert Means.opened == before + 1


def test_pinned_features_have_path_and_checksum(weights, monkeypatch):
    monkeypatch.chdir(weights.parent)
    tied = ImageFeatures("alexnet-fc7", weights.name).pinned()
    assert (tied.weights, tied.sha256) == (str(weights), file_sha256(weights))
    assert ImageFeatures(**tied.description()) == tied


def test_changed_weights_are_detected(weights, images):
    features = ImageFeatures("alexnet-fc7", str(weights)).pinned()
    digits = file_sha256(weights)[:12]
    weights.write_text("3")
    message = f"weights.txt has changed since the model was trained.*expected {digits}.*train the"
    for read in (features.of_dataset, features.of_images):
        with pytest.raises(InputError, match=message):
            read(images)
    weights.unlink()
    with pytest.raises(InputError, match=r"The model needs .*weights.txt for its image features"):
        features.of_images(images)


def test_a_feature_file_serves_its_own_items_only(images, tmp_path):
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    np.save(tmp_path / "f.npy", rows)
    features = ImageFeatures(str(tmp_path / "f.npy")).pinned()
    np.testing.assert_array_equal(features.of_dataset(images), rows)
    with pytest.raises(InputError, match="5 rows, but the dataset has 4 items"):
        features.of_dataset(images[:4])
    message = r"trained on image features from .*f.npy, which has no features of new.*alexnet-fc7"
    with pytest.raises(InputError, match=message):
        features.of_images(images)
    np.save(tmp_path / "f.npy", rows + 1)
    with pytest.raises(InputError, match=r"f.npy has changed since the model was trained"):
        features.of_dataset(images)


def test_missing_files_are_named(tmp_path):
    for name in (f"hf:{tmp_path}/model", f"{tmp_path}/f.npy"):
        with pytest.raises(InputError, match="Image features not found: .* Check"):
            ImageFeatures(name).pinned()
    with pytest.raises(InputError, match="Image features not found: f.npy"):
        ImageFeatures("f.npy").pinned()


def test_a_hub_folder_can_end_in_npy():
    assert not ImageFeatures("hf:model.npy").of_file
