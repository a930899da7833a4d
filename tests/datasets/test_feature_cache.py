"""Feature files, and the cache: what is computed once, and what again."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash._progress import listening
from corrhash.datasets import ImageFiles, feature_cache
from corrhash.datasets.feature_cache import (
    ROWS,
    FeatureCache,
    cached_features,
    image_checksums,
    read_feature_file,
)


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
        (GOOD[:3], "f.npy has 3 rows, but the dataset has 4 items. Row i must belong to item i"),
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
    with pytest.raises(InputError, match=r"two.npz must contain one array, got 2 \(a, b\)"):
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
    assert (other.computed, weights.computed) == (1, 517)
    wide = images[:4].reshape(4, 2, 8, 3)
    assert not {*image_checksums(images[:4])} & {*image_checksums(wide)}


def test_images_are_found_in_any_order_and_number(images):
    cached_features(Means(), images)
    order = np.random.default_rng(1).permutation(len(images))
    for rows in (order, order[:300], np.array([7]), np.array([7, 3, 7, 7, 516])):
        again = Means()
        features = cached_features(again, images[rows])
        np.testing.assert_array_equal(features, Means().compute(images[rows]))
        assert again.computed == 0


def test_equal_images_are_computed_once(images):
    rows = [0, 1, 0, 2, 1]
    extractor = Means()
    for _ in range(2):
        features = cached_features(extractor, images[rows])
        np.testing.assert_array_equal(features, Means().compute(images[rows]))
    assert extractor.computed == 3


def damage(path, how):
    content = path.read_bytes()
    flipped = bytes([content[-1] ^ 1])
    path.write_bytes({"cut": content[:-7], "empty": b"", "flip": content[:-1] + flipped}[how])


@pytest.mark.parametrize("how", ["cut", "empty", "flip"])
def test_a_damaged_cache_file_is_computed_again(images, cache, caplog, how):
    cached_features(Means(), images)
    last = min(files_in(cache), key=lambda path: path.stat().st_size)  # of five images
    damage(last, how)
    again, third = Means(), Means()
    np.testing.assert_array_equal(cached_features(again, images), Means().compute(images))
    assert again.computed == 5
    assert f"{last} is damaged. Computing the features of its images again." in caplog.text
    cached_features(third, images)
    assert third.computed == 0
    assert len(files_in(cache)) == 3


def test_only_requested_rows_of_a_file_are_verified(images, cache):
    cached_features(Means(), images[:5])
    (path,) = files_in(cache)
    content = bytearray(path.read_bytes())
    rows = Means().compute(images[:5])
    content[content.index(rows[2].tobytes())] ^= 1
    path.write_bytes(content)
    good, bad = Means(), Means()
    np.testing.assert_array_equal(cached_features(good, images[[0, 4]]), rows[[0, 4]])
    np.testing.assert_array_equal(cached_features(bad, images[:5]), rows)
    assert (good.computed, bad.computed) == (0, 5)


def test_deleted_and_added_files_are_noticed(images, cache):
    cache = FeatureCache(cache / "features" / "x")
    features, checksums = np.eye(4, dtype=np.float32), image_checksums(images[:4])

    def found():
        return {
            c: row.tolist()
            for some, rows in cache.read(checksums)
            for c, row in zip(some, rows, strict=True)
        }

    assert found() == {}
    cache.write(checksums[:2], features[:2])
    assert found() == dict(zip(checksums[:2], features[:2].tolist(), strict=True))
    FeatureCache(cache.folder).write(checksums[1:], features[1:])  # as another process does
    assert found() == dict(zip(checksums, features.tolist(), strict=True))
    for path in cache.folder.iterdir():
        path.unlink()
    assert found() == {}


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
    assert (same.computed, newer.computed, older.computed) == (0, 1, 0)


def test_moved_and_reordered_files_are_found(images, tmp_path):
    (tmp_path / "old").mkdir()
    files = save_images(tmp_path / "old", images[:5])
    cached_features(Means(), files)
    (tmp_path / "old").rename(tmp_path / "new")
    moved = ImageFiles([tmp_path / "new" / f"{number}.png" for number in (3, 0, 4)])
    again = Means()
    np.testing.assert_array_equal(cached_features(again, moved), Means().compute(images[[3, 0, 4]]))
    assert again.computed == 0


def test_unchanged_files_are_not_read_again(images, tmp_path, cache, monkeypatch):
    files = save_images(tmp_path, images[:3])
    checksums = image_checksums(files)
    assert checksums == [hashlib.sha256(p.read_bytes()).hexdigest()[:32] for p in files.paths]
    read = []
    plain = feature_cache.content_checksum
    monkeypatch.setattr(feature_cache, "content_checksum", lambda p: read.append(p) or plain(p))
    assert image_checksums(files) == checksums
    assert not read
    (saved,) = (cache / "checksums").iterdir()
    saved.write_text(saved.read_text()[:-1])  # damaged
    assert image_checksums(files) == checksums
    assert len(read) == 3


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
