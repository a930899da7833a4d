"""The training loop: validation, patience, checkpoints, divergence, memory for decoded images."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.datasets.images import ImageFiles
from corrhash.methods.chn import CHN
from corrhash.methods.dcmh import DCMH
from corrhash.metrics import evaluate
from corrhash.networks.config import Networks
from corrhash.similarity import Similarity
from corrhash.training.config import Training
from corrhash.training.trainer import Trainer

QUICK = {
    "networks": Networks(width=64),
    "training": Training(epochs=3, learning_rate=3e-3, validate_every=1),
}


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(400, seed=2)


def unlabelled(pairs):
    return replace(pairs, labels=None, similarity=Similarity.paired(len(pairs)))


def test_pairs_are_validated_by_reciprocal_rank(pairs):
    train, validation = (unlabelled(pairs.take(rows)) for rows in (slice(0, 300), slice(300, 400)))
    hasher = CHN(8, **QUICK).fit(train, validation=validation)
    best = max(entry["validation_map"] for entry in hasher.history_)
    distances = hasher.encode_image(validation.images).hamming(hasher.encode_text(validation.texts))
    expected = []
    for table in (distances, distances.T):
        for item, row in enumerate(table):
            before, tied = np.sum(row < row[item]), np.sum(row == row[item])
            expected.append(np.mean(1 / (before + np.arange(1, tied + 1))))
    assert best == pytest.approx(np.mean(expected))


def test_labels_are_validated_among_validation_items(pairs):
    train, validation = pairs.take(slice(0, 300)), pairs.take(slice(300, 400))
    hasher = CHN(8, **QUICK).fit(train, validation=validation)
    best = max(entry["validation_map"] for entry in hasher.history_)
    codes = hasher.encode_image(validation.images), hasher.encode_text(validation.texts)
    labels = validation.labels, validation.labels
    maps = [evaluate(*order, *labels).map for order in (codes, codes[::-1])]
    assert best == pytest.approx(np.mean(maps))


def fit_with_patience(pairs, **training):
    training = Training(epochs=30, batch_size=64, seed=1, **training)
    return CHN(8, networks=Networks(width=16), training=training).fit(pairs)


@pytest.mark.parametrize(("validate_every", "n_epochs"), [(1, 3), (2, 6)])
def test_patience_counts_validations_without_gain(pairs, validate_every, n_epochs):
    """At this learning rate codes stay the same: the first validation is the best one."""
    training = {"learning_rate": 1e-12, "validate_every": validate_every}
    hasher = fit_with_patience(pairs, patience=2, **training)
    assert len(hasher.history_) == n_epochs
    assert len({e["validation_map"] for e in hasher.history_ if "validation_map" in e}) == 1
    assert len(fit_with_patience(pairs, **training).history_) == 30


def test_interrupted_training_stops_at_the_same_epoch(pairs, tmp_path, monkeypatch):
    training = {"patience": 2, "learning_rate": 1e-2, "validate_every": 1}
    whole = fit_with_patience(pairs, **training)
    maps = [entry["validation_map"] for entry in whole.history_]
    stalled = [n for n in range(3, len(maps) + 1) if max(maps[n - 2 : n]) <= max(maps[: n - 2])]
    assert len(maps) == stalled[0] < 30

    save = Trainer._checkpoint

    def interrupt(trainer, epochs_done):
        save(trainer, epochs_done)
        if epochs_done == stalled[0] - 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "_checkpoint", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit_with_patience(pairs, checkpoint=str(tmp_path), **training)
    monkeypatch.undo()
    for _ in range(2):  # resumed after the interruption, then after the end
        resumed = fit_with_patience(pairs, checkpoint=str(tmp_path), **training)
        assert [entry["validation_map"] for entry in resumed.history_] == maps
        for name, array in whole.learned().items():
            np.testing.assert_array_equal(resumed.learned()[name], array, err_msg=name)


TRAIN = """
import sys
from corrhash.datasets import make_pairs
from corrhash.methods.chn import CHN
from corrhash.training.config import Training
from corrhash.networks.config import Networks
pairs = make_pairs(400, seed=2)
training = Training(epochs=12, learning_rate=3e-3, validate_every=2, checkpoint=sys.argv[1])
hasher = CHN(16, networks=Networks(width=64), training=training).fit(pairs)
hasher.encode_image(pairs.images).save(sys.argv[2])
"""


def test_a_killed_training_resumes_with_the_same_codes(tmp_path):
    def start(checkpoint, codes):
        return subprocess.Popen([sys.executable, "-c", TRAIN, checkpoint, codes])

    whole = start(tmp_path / "a", tmp_path / "a.npz")
    assert whole.wait(120) == 0
    killed = start(tmp_path / "b", tmp_path / "b.npz")
    deadline = time.monotonic() + 60
    log = tmp_path / "b" / "log.jsonl"
    while time.monotonic() < deadline and not (log.exists() and len(log.read_text()) > 200):
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait(60) == -signal.SIGKILL
    assert not (tmp_path / "b.npz").exists()
    assert start(tmp_path / "b", tmp_path / "b.npz").wait(120) == 0
    assert Path(tmp_path / "a.npz").read_bytes() == Path(tmp_path / "b.npz").read_bytes()


def test_checkpoints_of_another_training_are_refused(pairs, tmp_path):
    training = replace(QUICK["training"], checkpoint=str(tmp_path))
    CHN(16, networks=QUICK["networks"], training=training).fit(pairs)
    with pytest.raises(InputError, match="checkpoint of another training"):
        CHN(16, quantization_weight=0.2, networks=QUICK["networks"], training=training).fit(pairs)
    others = replace(pairs, labels=pairs.labels[::-1])
    with pytest.raises(InputError, match="checkpoint of another training"):
        CHN(16, networks=QUICK["networks"], training=training).fit(others)
    others = replace(pairs, texts=pairs.texts[:, ::-1])  # as with another vocabulary
    with pytest.raises(InputError, match="checkpoint of another training"):
        CHN(16, networks=QUICK["networks"], training=training).fit(others)
    others = replace(pairs, images=pairs.images + 1)  # as with another layer of the same length
    with pytest.raises(InputError, match="checkpoint of another training"):
        CHN(16, networks=QUICK["networks"], training=training).fit(others)
    resumed = replace(training, image_cache_gb=1.0)  # does not change the result
    CHN(16, networks=QUICK["networks"], training=resumed).fit(pairs)
    (tmp_path / "checkpoint.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        CHN(16, networks=QUICK["networks"], training=training).fit(pairs)


def test_divergence_suggests_a_smaller_learning_rate(pairs):
    training = Training(epochs=3, optimizer="sgd", learning_rate=1e30)
    with pytest.raises(InputError, match=r"diverged in epoch 1 at learning rate 1e\+30. Lower"):
        CHN(16, networks=QUICK["networks"], training=training).fit(pairs)


def test_collapsed_codes_are_reported(pairs, caplog):
    training = Training(epochs=1, learning_rate=1e-9)
    constant = replace(pairs, images=np.ones((400, 4)), texts=np.ones((400, 3)))
    CHN(16, networks=Networks(width=8), training=training).fit(constant)
    assert "Codes collapse: only 1 distinct codes among 40 validation items" in caplog.text


N = 60
NETWORKS = Networks(width=16, image_size=32)


class CountedFiles(ImageFiles):
    """Image files that count how often each is opened."""

    opened: ClassVar = Counter()

    def __getitem__(self, rows):
        if isinstance(rows, (int, np.integer)):
            self.opened[self.paths[rows]] += 1
            return super().__getitem__(rows)
        return CountedFiles([self.paths[row] for row in rows])


@pytest.fixture(scope="module")
def image_pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    pixels = np.random.default_rng(0).integers(0, 256, (N, 40, 40, 3), dtype=np.uint8)
    paths = [folder / f"{row}.png" for row in range(N)]
    for path, image in zip(paths, pixels, strict=True):
        Image.fromarray(image).save(path)
    labels = np.eye(3, dtype=int)[np.arange(N) % 3]
    return PairedDataset(CountedFiles(paths), labels.astype(np.float32), labels)


@pytest.fixture
def opened():
    CountedFiles.opened.clear()
    return CountedFiles.opened


def train(pairs, method=CHN, **training):
    settings = Training(epochs=3, validate_every=1, batch_size=16, **training)
    return method(16, networks=NETWORKS, training=settings).fit(pairs)


@pytest.mark.parametrize("method", [CHN, DCMH])
def test_cached_images_are_decoded_once_per_training(image_pairs, opened, method):
    train(image_pairs, method)
    assert len(opened) == N
    assert set(opened.values()) == {1}


def test_codes_do_not_depend_on_the_image_cache(image_pairs, opened):
    n_opened, learned = [], []
    for n_cached in (2 * N, 20, 0):
        opened.clear()
        hasher = train(image_pairs, image_cache_gb=n_cached * 3 * 36 * 36 / 1e9)
        n_opened.append(opened.total())
        learned.append(hasher.learned())
    assert n_opened == [N, 3 * (N - 6 - 20) + 3 * 6 + 20, 3 * (N - 6) + 3 * 6]
    for name, array in learned[0].items():
        for other in learned[1:]:
            np.testing.assert_array_equal(other[name], array, err_msg=name)
