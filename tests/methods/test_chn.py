"""CHN: its loss is the paper's, its variants are what they say, its training repeats itself."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from corrhash import InputError
from corrhash.datasets import ImageFiles, PairedDataset, make_pairs
from corrhash.methods import Hasher
from corrhash.methods.batches import Batch
from corrhash.methods.chn import CHN, CHNI, CHNM, CHNQ
from corrhash.methods.training import Training
from corrhash.methods.two_networks import Networks
from corrhash.metrics import evaluate
from corrhash.relevance import Similarity

QUICK = {
    "networks": Networks(width=64),
    "training": Training(epochs=3, learning_rate=3e-3, validate_every=1),
}


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(400, seed=2)


def random_batch(n_images=5, n_texts=4):
    generator = torch.Generator().manual_seed(0)
    u, v = (torch.rand((n, 8), generator=generator) * 2 - 1 for n in (n_images, n_texts))
    similarity = torch.randint(0, 2, (n_images, n_texts), generator=generator) * 2 - 1
    same = n_images == n_texts
    return Batch(u, v, similarity, within={"image": similarity, "text": similarity} if same else {})


def by_hand(batch, delta_cosine, delta_quantization, lambda_, *, balanced):
    """O = L + lambda Q, written as loops over pairs and items."""
    u, v, s = (
        t.double().numpy() for t in (batch.image_scores, batch.text_scores, batch.similarity)
    )
    p = np.mean(s > 0)
    total = 0.0
    for i in range(len(u)):
        for j in range(len(v)):
            cosine = u[i] @ v[j] / np.linalg.norm(u[i]) / np.linalg.norm(v[j])
            weight = (0.5 / p if s[i, j] > 0 else 0.5 / (1 - p)) if balanced else 1.0
            total += weight * max(0, delta_cosine - s[i, j] * cosine) ** 2 / s.size
    for side in (u, v):
        for row in side:
            corner = np.abs(row).sum() / np.linalg.norm(row) / np.sqrt(len(row))
            total += lambda_ * max(0, delta_quantization - corner) / len(side)
    return total


@pytest.mark.parametrize("balanced", [True, False])
def test_the_loss_is_the_sum_of_the_paper(balanced):
    hasher = CHN(8, delta_cosine=0.6, delta_quantization=0.95, lambda_=0.3, pair_weights=balanced)
    batch = random_batch()
    loss, _ = hasher._loss(batch)
    assert float(loss) == pytest.approx(by_hand(batch, 0.6, 0.95, 0.3, balanced=balanced), rel=1e-5)


def test_labelled_batches_are_compared_within_images_and_within_texts_too():
    batch = random_batch(5, 5)
    u, v = batch.image_scores, batch.text_scores
    between, images, texts = (
        CHN(8, within=0, lambda_=0)._loss(replace(batch, image_scores=a, text_scores=b))[0]
        for a, b in ((u, v), (u, u), (v, v))
    )
    loss, _ = CHN(8, within=0.3, lambda_=0)._loss(batch)
    assert float(loss) == pytest.approx(float(between + 0.3 * (images + texts)), rel=1e-6)


def test_judged_pairs_say_nothing_of_pairs_within_a_side():
    batch = random_batch()
    losses = [float(CHN(8, within=within)._loss(batch)[0]) for within in (0, 1)]
    assert losses[0] == losses[1]


def test_words_that_act_as_labels_say_nothing_of_pairs_within_a_side(pairs):
    read_off = replace(pairs, labels_are_words=True)
    codes = [
        CHN(8, within=within, **QUICK).fit(data).encode_text(pairs.texts).packed
        for within, data in ((0.0, pairs), (0.5, read_off), (0.5, pairs))
    ]
    np.testing.assert_array_equal(codes[0], codes[1])
    assert (codes[0] != codes[2]).any()


def test_the_literal_mode_has_the_published_settings():
    hasher = CHN.literal(16, delta=0.7, lambda_=0.2, epochs=5)
    assert hasher.delta_cosine == hasher.delta_quantization == 0.7
    assert hasher.pair_weights is False
    assert (hasher.within, hasher.networks.root, hasher.networks.noise) == (0.0, False, 0.0)
    training = hasher.training
    assert (training.optimizer, training.batch_size, training.weight_decay) == ("sgd", 64, 5e-4)
    assert (training.epochs, training.new_layers) == (5, 10.0)


def test_without_a_weight_of_the_quantization_loss_chn_is_chn_q_bit_for_bit(pairs):
    zero = CHN(16, lambda_=0.0, **QUICK).fit(pairs)
    variant = CHNQ(16, **QUICK).fit(pairs)
    for side in ("image", "text"):
        values = getattr(pairs, f"{side}s")
        first, second = (getattr(h, f"encode_{side}")(values) for h in (zero, variant))
        np.testing.assert_array_equal(first.packed, second.packed)


def test_chn_m_is_the_squared_distance_of_cosines_from_similarities():
    batch = random_batch()
    loss, _ = CHNM(8, lambda_=0.0, pair_weights=False)._loss(batch)
    unit = [torch.nn.functional.normalize(t) for t in (batch.image_scores, batch.text_scores)]
    assert float(loss) == pytest.approx(
        float((batch.similarity - unit[0] @ unit[1].T).square().mean()), rel=1e-5
    )


def test_chn_i_compares_inner_products_with_similarities():
    batch = random_batch()
    loss, _ = CHNI(8, lambda_=0.0, pair_weights=False)._loss(batch)
    products = batch.image_scores @ batch.text_scores.T / 8
    assert float(loss) == pytest.approx(
        float((batch.similarity - products).square().mean()), rel=1e-5
    )


def test_two_trainings_with_one_seed_give_the_same_codes_and_another_seed_others(pairs):
    first, second = (CHN(16, **QUICK).fit(pairs).encode_image(pairs.images) for _ in range(2))
    np.testing.assert_array_equal(first.packed, second.packed)
    other = replace(QUICK["training"], seed=1)
    third = CHN(16, networks=QUICK["networks"], training=other).fit(pairs)
    assert not np.array_equal(first.packed, third.encode_image(pairs.images).packed)


def test_training_leaves_the_random_numbers_of_the_caller_alone(pairs):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    CHN(8, **QUICK).fit(pairs)
    torch.testing.assert_close(torch.rand(3), expected)


def test_judged_pairs_of_unaligned_images_and_texts_are_learned(pairs):
    """The click-through case: more texts than images, a third of the pairs judged."""
    rng = np.random.default_rng(0)
    texts = np.concatenate([np.arange(400), rng.integers(0, 400, 100)])
    truth = Similarity.from_labels(pairs.labels, pairs.labels[texts]).block()
    judged = np.argwhere(rng.random(truth.shape) < 0.3)
    triples = [(i, j, truth[i, j]) for i, j in judged]
    clicks = PairedDataset(
        pairs.images,
        pairs.texts[texts],
        similarity=Similarity.from_pairs(triples, shape=truth.shape),
    )
    training = Training(epochs=1, learning_rate=3e-3, batch_size=64)
    hasher = CHN(16, networks=Networks(width=128), training=training).fit(clicks)
    test = make_pairs(700, seed=2).take(slice(400, None))
    scores = evaluate(
        hasher.encode_image(test.images), hasher.encode_text(test.texts), test.labels, test.labels
    )
    chance = Similarity.from_labels(test.labels).share_similar
    assert scores.map > chance + 0.05


def partnered(pairs):
    return replace(pairs, labels=None, similarity=Similarity.partners(len(pairs)))


def test_the_pairing_alone_is_learned():
    """Without any label, items that share one still come nearer than chance."""
    many = make_pairs(900, seed=2)
    training = Training(epochs=12, learning_rate=3e-3, validate_every=6)
    train, test = many.take(slice(0, 600)), many.take(slice(600, None))
    hasher = CHN(16, networks=Networks(width=128), training=training).fit(partnered(train))
    images, texts = hasher.encode_image(test.images), hasher.encode_text(test.texts)
    chance = Similarity.from_labels(test.labels).share_similar
    assert evaluate(images, texts, test.labels, test.labels).map > chance + 0.03
    assert evaluate(images, texts).recall_at[10] > 1.5 * 10 / 300


def test_partners_are_validated_by_the_reciprocal_rank_of_the_partner(pairs):
    train, validation = (partnered(pairs.take(rows)) for rows in (slice(0, 300), slice(300, 400)))
    hasher = CHN(8, **QUICK).fit(train, validation)
    best = max(entry["validation_map"] for entry in hasher.history_)
    distances = hasher.encode_image(validation.images).hamming(hasher.encode_text(validation.texts))
    expected = []
    for table in (distances, distances.T):
        for item, row in enumerate(table):
            before, tied = np.sum(row < row[item]), np.sum(row == row[item])
            expected.append(np.mean(1 / (before + np.arange(1, tied + 1))))
    assert best == pytest.approx(np.mean(expected))


def test_validation_must_be_taught_like_the_training(pairs):
    train, validation = pairs.take(slice(0, 300)), pairs.take(slice(300, 400))
    with pytest.raises(InputError, match="one has a similarity and the other has none"):
        CHN(8, **QUICK).fit(partnered(train), validation)
    with pytest.raises(InputError, match="the validation pairs have none. Give them labels"):
        CHN(8, **QUICK).fit(train, validation.without_labels())


@pytest.mark.parametrize("kind", [1, -1])
def test_judged_pairs_of_one_kind_cannot_be_told_apart(pairs, kind):
    triples = [(i, i, kind) for i in range(100)]
    judged = replace(pairs, similarity=Similarity.from_pairs(triples, shape=(400, 400)))
    with pytest.raises(InputError, match=r"known pairs are \w+, so .* both of 1 and of -1"):
        CHN(8, **QUICK).fit(judged)


@pytest.fixture
def picture_pairs(tmp_path):
    """24 pictures as files, of two classes."""
    rng = np.random.default_rng(0)
    for i in range(24):
        pixels = rng.integers(0, 255, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{i}.jpg")
    labels = np.eye(2, dtype=int)[np.arange(24) % 2]
    files = ImageFiles([tmp_path / f"{i}.jpg" for i in range(24)])
    return PairedDataset(files, labels.astype(np.float32), labels)


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_a_picture_that_cannot_be_read_ends_training_with_a_sentence(picture_pairs, damage):
    path = picture_pairs.images.paths[17]
    whole = path.read_bytes()
    path.unlink()
    if damage == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    training = Training(epochs=1, batch_size=8)
    networks = Networks(width=16)
    sentence = r"picture .*17.jpg \(row 17\).* leave the row out"
    with pytest.raises(InputError, match=sentence):
        CHN(8, networks=networks, training=training).fit(picture_pairs)
    whole_rows = picture_pairs.take(np.arange(24) != 17)
    hasher = CHN(8, networks=networks, training=training).fit(whole_rows)
    with pytest.raises(InputError, match=sentence):
        hasher.encode_image(picture_pairs.images)


def test_encoding_does_not_copy_the_weights(pairs, monkeypatch):
    hasher = CHN(16, **QUICK).fit(pairs)

    def copied(self):
        raise AssertionError

    monkeypatch.setattr(CHN, "learned", copied)
    assert len(hasher.encode_image(pairs.images[:1])) == 1


def test_pictures_are_learned_from_their_pixels():
    """Red and blue pictures, tagged accordingly."""
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
    again = hasher.score_image(images[5:6])
    np.testing.assert_allclose(again, hasher.score_image(images)[5:6], atol=1e-5)


def test_a_model_of_pictures_survives_its_folder(tmp_path):
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
    with pytest.raises(InputError, match=r"trained on pictures as images. Got feature vectors"):
        again.encode_image(np.ones((2, 5)))


TRAIN = """
import sys
from corrhash.datasets import make_pairs
from corrhash.methods.chn import CHN
from corrhash.methods.training import Training
from corrhash.methods.two_networks import Networks
pairs = make_pairs(400, seed=2)
training = Training(epochs=12, learning_rate=3e-3, validate_every=2, checkpoint=sys.argv[1])
hasher = CHN(16, networks=Networks(width=64), training=training).fit(pairs)
hasher.encode_image(pairs.images).save(sys.argv[2])
"""


def test_a_killed_training_goes_on_and_ends_with_the_same_codes(tmp_path):
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


def test_a_checkpoint_of_another_training_is_not_taken_over(pairs, tmp_path):
    training = replace(QUICK["training"], checkpoint=str(tmp_path))
    CHN(16, networks=QUICK["networks"], training=training).fit(pairs)
    with pytest.raises(InputError, match="checkpoint of another training"):
        CHN(16, lambda_=0.2, networks=QUICK["networks"], training=training).fit(pairs)
    others = replace(pairs, labels=pairs.labels[::-1])
    with pytest.raises(InputError, match="checkpoint of another training"):
        CHN(16, networks=QUICK["networks"], training=training).fit(others)
    others = replace(pairs, texts=pairs.texts[:, ::-1])  # as of another choice of words
    with pytest.raises(InputError, match="checkpoint of another training"):
        CHN(16, networks=QUICK["networks"], training=training).fit(others)
    others = replace(pairs, images=pairs.images + 1)  # as of another layer of the same length
    with pytest.raises(InputError, match="checkpoint of another training"):
        CHN(16, networks=QUICK["networks"], training=training).fit(others)
    (tmp_path / "checkpoint.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        CHN(16, networks=QUICK["networks"], training=training).fit(pairs)


def test_a_learning_rate_that_diverges_is_told_with_a_smaller_one(pairs):
    training = Training(epochs=3, optimizer="sgd", learning_rate=1e30)
    with pytest.raises(InputError, match=r"diverged in epoch 1 at learning rate 1e\+30. Lower"):
        CHN(16, networks=QUICK["networks"], training=training).fit(pairs)


def test_one_class_alone_cannot_be_told_apart(pairs):
    one = replace(pairs, labels=np.ones((400, 1), dtype=int))
    with pytest.raises(InputError, match="known pairs are similar, so there is nothing to tell"):
        CHN(16, **QUICK).fit(one)


def test_collapsing_codes_are_told(pairs, caplog):
    training = Training(epochs=1, learning_rate=1e-9)
    constant = replace(pairs, images=np.ones((400, 4)), texts=np.ones((400, 3)))
    CHN(16, networks=Networks(width=8), training=training).fit(constant)
    assert "Codes collapse: only 1 different codes among 40 validation items" in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(epochs=0), "epochs must be at least 1. Got 0"),
        (dict(learning_rate=0), "learning_rate must be above 0. Got 0"),
        (dict(optimizer="lion"), "no optimizer 'lion'. Choose sgd or adamw"),
        (dict(schedule="wild"), "no schedule 'wild'"),
        (dict(device="tpu"), "no device 'tpu'. Choose cpu, cuda or mps"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        Training(**change)


def test_frozen_networks_need_weights():
    images = np.zeros((30, 40, 40, 3), np.uint8)
    labels = np.eye(2, dtype=int)[np.arange(30) % 2]
    pairs = PairedDataset(images, labels.astype(np.float32), labels)
    with pytest.raises(InputError, match="image_frozen keeps small as it is"):
        CHN(8, networks=Networks(image_frozen=True)).fit(pairs)


@pytest.fixture(scope="module")
def unseen():
    """Pairs to learn from, and the MAP of a model in both directions on others."""
    pairs = make_pairs(1900, seed=4)
    query, database = pairs.take(slice(1200, 1500)), pairs.take(slice(1500, None))
    labels = query.labels, database.labels

    def maps(hasher, *, cosine=False):
        image = hasher.score_image if cosine else hasher.encode_image
        text = hasher.score_text if cosine else hasher.encode_text
        return np.array(
            [
                evaluate(image(query.images), text(database.texts), *labels).map,
                evaluate(text(query.texts), image(database.images), *labels).map,
            ]
        )

    return pairs.take(slice(0, 1200)), maps, Similarity.from_labels(*labels).share_similar


LONGER = {
    "networks": Networks(width=256),
    "training": Training(epochs=12, learning_rate=3e-3, validate_every=12),
}


def test_longer_codes_find_more_margins_help_and_rounding_costs(unseen):
    train, maps, _ = unseen
    hasher = CHN(64, **LONGER).fit(train)
    assert np.all(maps(hasher) > maps(CHN(16, **LONGER).fit(train)))
    assert np.all(maps(hasher) > maps(CHNM(64, **LONGER).fit(train)))
    assert np.all(maps(hasher) < maps(hasher, cosine=True))


def test_shuffled_labels_teach_next_to_nothing(unseen):
    train, maps, chance = unseen
    order = np.random.default_rng(0).permutation(len(train))
    shuffled = CHN(16, **LONGER).fit(replace(train, labels=train.labels[order]))
    assert np.all(maps(shuffled) < chance + 0.05)
