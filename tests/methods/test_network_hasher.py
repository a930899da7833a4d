"""NetworkHasher: what the methods that train networks share."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from corrhash import InputError
from corrhash._progress import listening
from corrhash.datasets import ImageFiles, PairedDataset, make_pairs
from corrhash.methods import Hasher
from corrhash.methods.chn import CHN
from corrhash.methods.chn_plus import CHNPlus
from corrhash.methods.dchmt import DCHMT
from corrhash.methods.djsrh import DJSRH
from corrhash.methods.dsph import DSPH
from corrhash.methods.ucch import UCCH
from corrhash.metrics import evaluate
from corrhash.networks.config import Networks
from corrhash.similarity import Similarity
from corrhash.training.config import Training

QUICK = {
    "networks": Networks(width=64),
    "training": Training(epochs=3, learning_rate=3e-3, validate_every=1),
}
LONGER = {
    "networks": Networks(width=64),
    "training": Training(epochs=4, learning_rate=3e-3, validate_every=2),
}


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(400, seed=2)


def test_codes_depend_on_the_seed_only(pairs):
    first, second = (CHN(16, **QUICK).fit(pairs).encode_image(pairs.images) for _ in range(2))
    np.testing.assert_array_equal(first.packed, second.packed)
    other = replace(QUICK["training"], seed=1)
    third = CHN(16, networks=QUICK["networks"], training=other).fit(pairs)
    assert not np.array_equal(first.packed, third.encode_image(pairs.images).packed)


def test_the_global_random_state_is_unchanged(pairs):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    CHN(8, **QUICK).fit(pairs)
    torch.testing.assert_close(torch.rand(3), expected)


def test_unaligned_relevance_judgments_are_learned(pairs):
    """As in click logs: more texts than images, a third of the pairs judged."""
    rng = np.random.default_rng(0)
    texts = np.concatenate([np.arange(400), rng.integers(0, 400, 100)])
    truth = Similarity.from_labels(pairs.labels, pairs.labels[texts]).block()
    judged = np.argwhere(rng.random(truth.shape) < 0.3)
    triples = [(i, j, truth[i, j]) for i, j in judged]
    clicks = PairedDataset(
        pairs.images,
        pairs.texts[texts],
        similarity=Similarity.from_judgments(triples, shape=truth.shape),
    )
    training = Training(epochs=1, learning_rate=3e-3, batch_size=64)
    hasher = CHN(16, networks=Networks(width=128), training=training).fit(clicks)
    test = make_pairs(700, seed=2).take(slice(400, None))
    scores = evaluate(
        hasher.encode_image(test.images), hasher.encode_text(test.texts), test.labels, test.labels
    )
    chance = Similarity.from_labels(test.labels).share_similar
    assert scores.map > chance + 0.05


def unlabelled(pairs):
    return replace(pairs, labels=None, similarity=Similarity.paired(len(pairs)))


def test_pairs_without_labels_are_learned():
    """Items that share a hidden label are nearer than by chance."""
    many = make_pairs(900, seed=2)
    training = Training(epochs=12, learning_rate=3e-3, validate_every=6)
    train, test = many.take(slice(0, 600)), many.take(slice(600, None))
    hasher = CHNPlus(16, networks=Networks(width=128), training=training).fit(unlabelled(train))
    images, texts = hasher.encode_image(test.images), hasher.encode_text(test.texts)
    chance = Similarity.from_labels(test.labels).share_similar
    assert evaluate(images, texts, test.labels, test.labels).map > chance + 0.03
    assert evaluate(images, texts).recall_at[10] > 1.5 * 10 / 300


def test_validation_needs_the_supervision_of_training(pairs):
    train, validation = pairs.take(slice(0, 300)), pairs.take(slice(300, 400))
    with pytest.raises(
        InputError, match="Either both or neither of the training and the validation"
    ):
        CHN(8, **QUICK).fit(unlabelled(train), validation=validation)
    with pytest.raises(InputError, match="the validation pairs have none. Pass labels"):
        CHN(8, **QUICK).fit(train, validation=validation.without_labels())


@pytest.fixture
def image_pairs(tmp_path):
    """24 image files of two classes."""
    rng = np.random.default_rng(0)
    for i in range(24):
        pixels = rng.integers(0, 255, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{i}.jpg")
    labels = np.eye(2, dtype=int)[np.arange(24) % 2]
    files = ImageFiles([tmp_path / f"{i}.jpg" for i in range(24)])
    return PairedDataset(files, labels.astype(np.float32), labels)


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_an_unreadable_image_is_named(image_pairs, damage):
    path = image_pairs.images.paths[17]
    whole = path.read_bytes()
    path.unlink()
    if damage == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    training = Training(epochs=1, batch_size=8)
    networks = Networks(width=16)
    sentence = r"17.jpg \(row 17\).* remove the row"
    with pytest.raises(InputError, match=sentence):
        CHN(8, networks=networks, training=training).fit(image_pairs)
    whole_rows = image_pairs.take(np.arange(24) != 17)
    hasher = CHN(8, networks=networks, training=training).fit(whole_rows)
    with pytest.raises(InputError, match=sentence):
        hasher.encode_image(image_pairs.images)


def test_encoding_does_not_copy_the_weights(pairs, monkeypatch):
    hasher = CHN(16, **QUICK).fit(pairs)

    def copied(self):
        raise AssertionError

    monkeypatch.setattr(CHN, "learned", copied)
    assert len(hasher.encode_image(pairs.images[:1])) == 1


def test_images_are_learned_from_their_pixels():
    """Red and blue images, tagged accordingly."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 2, 160)
    images = rng.integers(0, 60, (160, 40, 40, 3), dtype=np.uint8)
    images[np.arange(160), :, :, classes * 2] += 150
    labels = np.eye(2, dtype=int)[classes]
    pairs = PairedDataset(images, labels.astype(np.float32), labels)
    training = Training(epochs=12, learning_rate=3e-3, validate_every=4)
    hasher = CHN(8, networks=Networks(width=64), training=training).fit(pairs)
    scores = evaluate(hasher.encode_image(images), hasher.encode_text(pairs.texts), labels, labels)
    assert scores.map > 0.9
    again = hasher.embed_image(images[5:6])
    np.testing.assert_allclose(again, hasher.embed_image(images)[5:6], atol=1e-5)


def test_a_model_trained_on_images_is_saved_and_loaded(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (30, 40, 40, 3), dtype=np.uint8)
    labels = np.eye(2, dtype=int)[np.arange(30) % 2]
    pairs = PairedDataset(images, labels.astype(np.float32), labels)
    hasher = CHN(8, networks=Networks(width=16), training=Training(epochs=1)).fit(pairs)
    hasher.save(tmp_path)
    again = Hasher.load(tmp_path)
    assert again.training == hasher.training
    assert again.history_ == hasher.history_
    np.testing.assert_array_equal(
        again.encode_image(images).packed, hasher.encode_image(images).packed
    )
    with pytest.raises(
        InputError, match="image network was trained on images, got feature vectors"
    ):
        again.encode_image(np.ones((2, 5)))


@pytest.mark.parametrize("method", [DCHMT, DJSRH, DSPH, UCCH])
def test_learns_from_pixels(method, coloured_pairs):
    training = Training(epochs=8, learning_rate=3e-3, validate_every=8)
    networks = Networks(width=64, image_size=32)
    hasher = method(8, networks=networks, training=training).fit(coloured_pairs)
    images = hasher.encode_image(coloured_pairs.images)
    texts = hasher.encode_text(coloured_pairs.texts)
    labels = coloured_pairs.labels
    assert evaluate(images, texts, labels, labels).map > 0.9


@pytest.mark.parametrize("method", [DJSRH, UCCH])
def test_methods_without_labels_ignore_validation_labels(method, pairs):
    train, validation = pairs.take(slice(0, 300)), pairs.take(slice(300, None))
    shuffled = replace(validation, labels=validation.labels[::-1])
    first, second = (
        method(16, **LONGER).fit(train, validation=part).encode_image(pairs.images)
        for part in (validation, shuffled)
    )
    np.testing.assert_array_equal(first.packed, second.packed)


@pytest.mark.parametrize(("method", "params"), [(DSPH, {}), (UCCH, {"n_negatives": 64})])
def test_interrupted_training_restores_the_memory(method, params, pairs, tmp_path):
    whole = method(16, **params, **LONGER).fit(pairs)
    kept = method(16, **params, **LONGER).set_params(training__checkpoint=str(tmp_path))

    def interrupt(step):
        if step.task == "Training" and step.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listening(interrupt):
        kept.fit(pairs)
    again = kept.fit(pairs)
    assert [entry["loss"] for entry in again.history_] == [e["loss"] for e in whole.history_]
    np.testing.assert_array_equal(again.embed_image(pairs.images), whole.embed_image(pairs.images))
