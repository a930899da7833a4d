"""MMNN: its loss is the paper's sum, and without labels it learns from partners and neighbours."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from corrhash import InputError
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods.batches import Batch
from corrhash.methods.mmnn import MMNN, MMNNPairs, neighbours
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


def random_batch(seed=0):
    rng = np.random.default_rng(seed)
    f, g = (torch.from_numpy(rng.uniform(-1, 1, (6, 8))) for _ in range(2))
    across, images, texts = (torch.from_numpy(rng.choice([-1, 1], (6, 6))) for _ in range(3))
    return Batch(f, g, across, within={"image": images, "text": texts})


def by_hand(first, second, similarity, margin, *, same):
    """One of the three losses as loops over pairs; nothing is compared with itself."""
    pulled, pushed = [], []
    for i, x in enumerate(first.numpy()):
        for j, y in enumerate(second.numpy()):
            distance = np.linalg.norm(x - y)
            if same and i == j:
                continue
            if similarity[i, j] > 0:
                pulled.append(distance**2)
            else:
                pushed.append(max(0, margin - distance) ** 2)
    return 0.5 * np.mean(pulled) + 0.5 * np.mean(pushed)


@pytest.mark.parametrize("within", [0.0, 0.3])
def test_the_loss_is_the_sum_of_the_paper(within):
    batch = random_batch()
    loss, _ = MMNN(8, margin=0.5, within=within)._loss(batch)
    m = np.sqrt(2 * 8)  # half of the bits
    f, g = batch.image_scores, batch.text_scores
    across = by_hand(f, g, batch.similarity, m, same=False)
    images = by_hand(f, f, batch.within["image"], m, same=True)
    texts = by_hand(g, g, batch.within["text"], m, same=True)
    assert float(loss) == pytest.approx((across + within * (images + texts)) / 8, rel=1e-6)


def test_labels_say_who_is_similar_within_a_side_and_the_pairing_does_not(pairs):
    labels, partners = Similarity.from_labels(pairs.labels), Similarity.partners(len(pairs))
    assert MMNN(8)._within(pairs, labels) == {"image": labels, "text": labels}
    assert MMNN(8)._within(replace(pairs, similarity=partners), partners) == {}


def test_without_similarities_within_the_sides_the_loss_is_the_one_across():
    batch = replace(random_batch(), within={})
    loss, _ = MMNN(8)._loss(batch)
    across = by_hand(batch.image_scores, batch.text_scores, batch.similarity, 4, same=False)
    assert float(loss) == pytest.approx(across / 8, rel=1e-6)


def test_neighbours_are_those_of_a_full_sort_in_either_direction(pairs):
    vectors = pairs.images[:120].astype(np.float64)
    centred = vectors - vectors.mean(axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    cosines = centred @ centred.T
    np.fill_diagonal(cosines, -np.inf)
    named = np.zeros((120, 120), dtype=bool)
    for row in range(120):
        named[row, np.argsort(-cosines[row])[:5]] = True
    expected = np.where(named | named.T, 1, -1)
    np.testing.assert_array_equal(neighbours(vectors, 5).block(), expected)
    np.testing.assert_array_equal(neighbours(sp.csr_array(vectors), 5).block(), expected)


@pytest.mark.parametrize(
    ("n_neighbours", "said"), [(0, "whole number from 1 on. Got 0"), (400, "pairs, 360. Got 400")]
)
def test_more_neighbours_than_there_are_items_are_refused(pairs, n_neighbours, said):
    with pytest.raises(InputError, match=said):
        MMNNPairs(8, n_neighbours=n_neighbours, **QUICK).fit(pairs)


def test_without_labels_the_labels_of_validation_pairs_play_no_part(pairs):
    train, validation = pairs.take(slice(0, 300)), pairs.take(slice(300, None))
    shuffled = replace(validation, labels=validation.labels[::-1])
    first, second = (
        MMNNPairs(16, **QUICK).fit(train, part).encode_image(pairs.images)
        for part in (validation, shuffled)
    )
    np.testing.assert_array_equal(first.packed, second.packed)


def test_without_labels_the_best_epoch_is_the_one_that_finds_partners_best(pairs):
    train, validation = pairs.take(slice(0, 300)), pairs.take(slice(300, None))
    hasher = MMNNPairs(16, **QUICK).fit(train, validation)
    images, texts = hasher.encode_image(validation.images), hasher.encode_text(validation.texts)
    distances = images.hamming(texts)
    expected = [mean_reciprocal_rank(distances), mean_reciprocal_rank(distances.T)]
    best = max(entry["validation_map"] for entry in hasher.history_)
    assert best == pytest.approx(np.mean(expected), rel=1e-9)


def mean_reciprocal_rank(distances):
    """Of item i asking for item i; over all places that a tie may give it."""
    values = []
    for i, row in enumerate(distances):
        nearer, tied = np.sum(row < row[i]), np.sum(row == row[i])
        values.append(np.mean(1 / np.arange(nearer + 1, nearer + tied + 1)))
    return np.mean(values)


@pytest.mark.parametrize("method", [MMNN, MMNNPairs])
def test_pictures_are_learned_from_their_pixels(method):
    """Red and blue pictures, tagged accordingly."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 2, 120)
    images = rng.integers(0, 60, (120, 40, 40, 3), dtype=np.uint8)
    images[np.arange(120), :, :, classes * 2] += 150
    labels = np.eye(2, dtype=int)[classes]
    pairs = PairedDataset(images, labels.astype(np.float32), labels)
    training = Training(epochs=16, learning_rate=3e-3, validate_every=8)
    hasher = method(8, networks=Networks(width=64), training=training).fit(pairs)
    scores = evaluate(hasher.encode_image(images), hasher.encode_text(pairs.texts), labels, labels)
    assert scores.map > 0.9


def test_sentences_are_neighbours_by_their_words():
    sentences = ["a red boat", "the red boat", "two green trees", "green trees"]
    pairs = PairedDataset(np.eye(4), sentences)
    expected = [[-1, 1, -1, -1], [1, -1, -1, -1], [-1, -1, -1, 1], [-1, -1, 1, -1]]
    within = MMNNPairs(8, n_neighbours=1)._within(pairs, Similarity.partners(4))
    assert within["text"].block().tolist() == expected


def test_a_margin_of_more_than_all_bits_is_refused(pairs):
    with pytest.raises(InputError, match=r"codes are never farther apart. Got 9.798"):
        MMNN(16, margin=1.5, **QUICK).fit(pairs)
