"""The cache of features: computed once, resumed, mended, and never those of other pictures."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.datasets import ImageFiles
from corrhash.datasets.feature_cache import ROWS, cached_features, fingerprint
from corrhash.progress import listening


class Means:
    """An extractor that counts: the mean colours of each picture."""

    def __init__(self, key="means", breaks_after=None):
        self.key = key
        self.computed = 0
        self.breaks_after = breaks_after

    def compute(self, pictures, *, done=0, total=None):
        if self.breaks_after is not None and self.computed >= self.breaks_after:
            raise KeyboardInterrupt
        self.computed += len(pictures)
        rows = [np.asarray(picture).mean(axis=(0, 1)) for picture in pictures]
        return np.array(rows, dtype=np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def pictures():
    return np.random.default_rng(0).integers(0, 256, (2 * ROWS + 5, 4, 4, 3), dtype=np.uint8)


def files_in(cache):
    return sorted(cache.rglob("*.safetensors"))


def test_features_are_computed_once_and_said_to_be_cached(pictures, cache, caplog):
    caplog.set_level("INFO", "corrhash")
    first, second = Means(), Means()
    features = cached_features(first, pictures)
    np.testing.assert_array_equal(features, Means().compute(pictures))
    np.testing.assert_array_equal(cached_features(second, pictures), features)
    assert (first.computed, second.computed) == (517, 0)
    assert "Features of 517 pictures: 0 from the cache, 517 computed" in caplog.text
    assert f"517 from the cache, 0 computed. The cache is {cache}" in caplog.text
    assert len(files_in(cache)) == 3


def test_an_interrupted_computation_goes_on_where_it_stopped(pictures):
    with pytest.raises(KeyboardInterrupt):
        cached_features(Means(breaks_after=2 * ROWS), pictures)
    rest = Means()
    np.testing.assert_array_equal(cached_features(rest, pictures), Means().compute(pictures))
    assert rest.computed == 5


def test_a_longer_list_shares_what_it_begins_with(pictures):
    cached_features(Means(), pictures[:ROWS])
    longer = Means()
    cached_features(longer, pictures)
    assert longer.computed == ROWS + 5


def test_other_pictures_and_other_extractors_are_computed_anew(pictures):
    cached_features(Means(), pictures)
    changed = pictures.copy()
    changed[-1, 0, 0, 0] ^= 1
    other, weights = Means(), Means("other weights")
    cached_features(other, changed)
    cached_features(weights, pictures)
    assert (other.computed, weights.computed) == (5, 517)
    assert fingerprint(pictures[:4]) != fingerprint(pictures[:4].reshape(4, 2, 8, 3))


def damage(path, how):
    content = path.read_bytes()
    flipped = bytes([content[-1] ^ 1])
    path.write_bytes({"cut": content[:-7], "empty": b"", "flip": content[:-1] + flipped}[how])


@pytest.mark.parametrize("how", ["cut", "empty", "flip"])
def test_a_damaged_file_is_computed_again_with_a_word(pictures, cache, caplog, how):
    cached_features(Means(), pictures)
    (last,) = [path for path in files_in(cache) if path.name.startswith(fingerprint(pictures[-5:]))]
    damage(last, how)
    again, third = Means(), Means()
    np.testing.assert_array_equal(cached_features(again, pictures), Means().compute(pictures))
    assert again.computed == 5
    assert f"{last} is damaged. Its 5 pictures are computed again." in caplog.text
    cached_features(third, pictures)
    assert third.computed == 0


def save_pictures(folder, pictures):
    paths = [folder / f"{number}.png" for number in range(len(pictures))]
    for path, picture in zip(paths, pictures, strict=True):
        Image.fromarray(picture).save(path)
    return ImageFiles(paths)


def test_a_file_that_changed_is_computed_again(pictures, tmp_path):
    files = save_pictures(tmp_path, pictures[:3])
    cached_features(Means(), files)
    same, newer, older = Means(), Means(), Means()
    cached_features(same, files)
    Image.fromarray(pictures[9]).save(files.paths[1])
    np.testing.assert_array_equal(
        cached_features(newer, files), Means().compute(pictures[[0, 9, 2]])
    )
    os.utime(files.paths[0], (0, 0))
    cached_features(older, files)
    assert (same.computed, newer.computed, older.computed) == (0, 3, 3)


def test_a_missing_picture_is_named(tmp_path, pictures):
    files = save_pictures(tmp_path, pictures[:2])
    files.paths[1].unlink()
    with pytest.raises(InputError, match=r"no picture .*1.png"):
        cached_features(Means(), files)


def test_progress_is_reported_up_to_the_last_picture(pictures):
    for _ in ("computed", "cached"):
        steps = []
        with listening(steps.append):
            cached_features(Means(), pictures)
        assert [(s.done, s.total) for s in steps] == [(256, 517), (512, 517), (517, 517)]


def test_a_cache_that_cannot_be_written_is_told(pictures, cache):
    cache.write_text("in the way")
    with pytest.raises(InputError, match="Cannot make the folder .*cache/features"):
        cached_features(Means(), pictures)


KILLED = """
import sys
import numpy as np
import tests.datasets.test_feature_cache as here

class Slow(here.Means):
    def compute(self, pictures, **progress):
        if self.computed == here.ROWS:
            print("half", flush=True)
            sys.stdin.read()
        return super().compute(pictures, **progress)

pictures = np.random.default_rng(0).integers(0, 256, (2 * here.ROWS + 5, 4, 4, 3), dtype=np.uint8)
here.cached_features(Slow(), pictures)
"""


def test_a_killed_computation_leaves_only_whole_files(pictures, cache):
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    root = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", KILLED], cwd=root, **streams)
    assert process.stdout.readline() == b"half\n"
    process.kill()
    process.communicate()
    assert len(files_in(cache)) == 1
    rest = Means()
    cached_features(rest, pictures)
    assert rest.computed == ROWS + 5
