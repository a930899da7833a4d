"""Feature files: one row per item, and errors that name the problem."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash._progress import listening
from corrhash.datasets import ImageFiles
from corrhash.datasets.feature_cache import ROWS, cached_features, fingerprint, read_feature_file


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.uint8])
def test_arrays_of_any_numbers_become_float32(tmp_path, dtype):
    array = np.arange(12).reshape(4, 3).astype(dtype)
    np.save(tmp_path / "f.npy", array)
    np.savez(tmp_path / "f.npz", anything=array)
    for name in ("f.npy", "f.npz"):
        features = read_feature_file(tmp_path / name, 4)
        assert features.dtype == np.float32
        np.testing.assert_array_equal(features, array)


GOOD = np.ones((4, 3))
HOLES = GOOD.copy()
HOLES[2, 1] = np.nan


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (GOOD[:3], "f.npy has 3 rows, but the dataset has 4 items. Row i belongs to item i"),
        (HOLES, "1 of 4 rows of .*f.npy are not finite; the first is row 2"),
        (GOOD * 1e300, "4 of 4 rows of .*f.npy are not finite; the first is row 0"),
        (GOOD[:, 0], r"array of numbers .*got shape \(4,\) of float64"),
        (np.full((4, 3), "a"), "of <U1"),
        (np.full((4, 3), None), "Cannot read features from .*: Object arrays .*numpy.save"),
    ],
)
def test_wrong_arrays_are_rejected(tmp_path, array, message):
    np.save(tmp_path / "f.npy", array)
    with pytest.raises(InputError, match=message):
        read_feature_file(tmp_path / "f.npy", 4)


def test_unreadable_feature_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"Feature file not found: .*nowhere.npy"):
        read_feature_file(tmp_path / "nowhere.npy", 4)
    (tmp_path / "items.csv").write_text("a,b")
    with pytest.raises(InputError, match=r"must end in .npy or .npz, got '.*items.csv'"):
        read_feature_file(tmp_path / "items.csv", 4)
    np.savez(tmp_path / "two.npz", a=GOOD, b=GOOD)
    with pytest.raises(InputError, match=r"two.npz must hold one array, got 2 \(a, b\)"):
        read_feature_file(tmp_path / "two.npz", 4)
    np.save(tmp_path / "cut.npy", GOOD)
    content = (tmp_path / "cut.npy").read_bytes()
    for name, part in (("cut.npy", content[:-5]), ("empty.npy", b""), ("page.npz", b"<html>")):
        (tmp_path / name).write_bytes(part)
        with pytest.raises(InputError, match=f"Cannot read features from .*{name}"):
            read_feature_file(tmp_path / name, 4)


class Means:
    """An extractor that counts: the mean colours of each image."""

    def __init__(self, key="means", breaks_after=None):
        self.key = key
        self.computed = 0
        self.breaks_after = breaks_after

    def compute(self, images, *, done=0, total=None):
        if self.breaks_after is not None and self.computed >= self.breaks_after:
            raise KeyboardInterrupt
        self.computed += len(images)
        rows = [np.asarray(image).mean(axis=(0, 1)) for image in images]
        return np.array(rows, dtype=np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (2 * ROWS + 5, 4, 4, 3), dtype=np.uint8)


def files_in(cache):
    return sorted(cache.rglob("*.safetensors"))


def test_features_are_computed_once_and_logged(images, cache, caplog):
    caplog.set_level("INFO", "corrhash")
    first, second = Means(), Means()
    features = cached_features(first, images)
    np.testing.assert_array_equal(features, Means().compute(images))
    np.testing.assert_array_equal(cached_features(second, images), features)
    assert (first.computed, second.computed) == (517, 0)
    assert "Features of 517 images: 0 from the cache, 517 computed" in caplog.text
    assert f"517 from the cache, 0 computed. Cache: {cache}" in caplog.text
    assert len(files_in(cache)) == 3


def test_an_interrupted_computation_resumes(images):
    with pytest.raises(KeyboardInterrupt):
        cached_features(Means(breaks_after=2 * ROWS), images)
    rest = Means()
    np.testing.assert_array_equal(cached_features(rest, images), Means().compute(images))
    assert rest.computed == 5


def test_a_longer_list_shares_cached_features(images):
    cached_features(Means(), images[:ROWS])
    longer = Means()
    cached_features(longer, images)
    assert longer.computed == ROWS + 5


def test_other_images_and_extractors_are_not_shared(images):
    cached_features(Means(), images)
    changed = images.copy()
    changed[-1, 0, 0, 0] ^= 1
    other, weights = Means(), Means("other weights")
    cached_features(other, changed)
    cached_features(weights, images)
    assert (other.computed, weights.computed) == (5, 517)
    assert fingerprint(images[:4]) != fingerprint(images[:4].reshape(4, 2, 8, 3))


def damage(path, how):
    content = path.read_bytes()
    flipped = bytes([content[-1] ^ 1])
    path.write_bytes({"cut": content[:-7], "empty": b"", "flip": content[:-1] + flipped}[how])


@pytest.mark.parametrize("how", ["cut", "empty", "flip"])
def test_a_damaged_cache_file_is_computed_again(images, cache, caplog, how):
    cached_features(Means(), images)
    (last,) = [path for path in files_in(cache) if path.name.startswith(fingerprint(images[-5:]))]
    damage(last, how)
    again, third = Means(), Means()
    np.testing.assert_array_equal(cached_features(again, images), Means().compute(images))
    assert again.computed == 5
    assert f"{last} is damaged. Computing the features of its 5 images again." in caplog.text
    cached_features(third, images)
    assert third.computed == 0


def save_images(folder, images):
    paths = [folder / f"{number}.png" for number in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    return ImageFiles(paths)


def test_a_changed_image_is_computed_again(images, tmp_path):
    files = save_images(tmp_path, images[:3])
    cached_features(Means(), files)
    same, newer, older = Means(), Means(), Means()
    cached_features(same, files)
    Image.fromarray(images[9]).save(files.paths[1])
    np.testing.assert_array_equal(cached_features(newer, files), Means().compute(images[[0, 9, 2]]))
    os.utime(files.paths[0], (0, 0))
    cached_features(older, files)
    assert (same.computed, newer.computed, older.computed) == (0, 3, 3)


def test_a_missing_image_is_named(tmp_path, images):
    files = save_images(tmp_path, images[:2])
    files.paths[1].unlink()
    with pytest.raises(InputError, match=r"Image not found: .*1.png"):
        cached_features(Means(), files)


def test_progress_is_reported_to_the_end(images):
    for _ in ("computed", "cached"):
        steps = []
        with listening(steps.append):
            cached_features(Means(), images)
        assert [(s.done, s.total) for s in steps] == [(256, 517), (512, 517), (517, 517)]


def test_a_read_only_cache_is_an_error(images, cache):
    cache.write_text("in the way")
    with pytest.raises(InputError, match="Cannot make the folder .*cache/features"):
        cached_features(Means(), images)


KILLED = """
import sys
import numpy as np
import tests.datasets.test_feature_cache as here

class Slow(here.Means):
    def compute(self, images, **progress):
        if self.computed == here.ROWS:
            print("half", flush=True)
            sys.stdin.read()
        return super().compute(images, **progress)

images = np.random.default_rng(0).integers(0, 256, (2 * here.ROWS + 5, 4, 4, 3), dtype=np.uint8)
here.cached_features(Slow(), images)
"""


def test_a_killed_computation_leaves_whole_files(images, cache):
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    root = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", KILLED], cwd=root, **streams)
    assert process.stdout.readline() == b"half\n"
    process.kill()
    process.communicate()
    assert len(files_in(cache)) == 1
    rest = Means()
    cached_features(rest, images)
    assert rest.computed == ROWS + 5
