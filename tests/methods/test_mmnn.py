"""MMNN: the loss of the paper, and learning from pairs and neighbours without labels."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from corrhash import InputError
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods.mmnn import MMNN, MMNNPairs, neighbour_similarity
from corrhash.metrics import evaluate
from corrhash.networks.config import Networks
from corrhash.similarity import Similarity
from corrhash.training.batches import Batch
from corrhash.training.config import Training

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
    return Batch(f, g, across, within_modality={"image": images, "text": texts})


def by_hand(first, second, similarity, margin, *, same):
    """One of the three losses as loops over pairs, without pairs of an item with itself."""
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
def test_loss_is_that_of_the_paper(within):
    batch = random_batch()
    loss, _ = MMNN(8, margin=0.5, within_modality_weight=within).batch_loss(batch)
    m = np.sqrt(2 * 8)  # half of the bits
    f, g = batch.image_codes, batch.text_codes
    across = by_hand(f, g, batch.similarity, m, same=False)
    images = by_hand(f, f, batch.within_modality["image"], m, same=True)
    texts = by_hand(g, g, batch.within_modality["text"], m, same=True)
    assert float(loss) == pytest.approx((across + within * (images + texts)) / 8, rel=1e-6)


def test_only_labels_define_similarity_within_modalities(pairs):
    labels, paired = Similarity.from_labels(pairs.labels), Similarity.paired(len(pairs))
    assert MMNN(8).within_modality_similarity(pairs, labels) == {"image": labels, "text": labels}
    assert MMNN(8).within_modality_similarity(replace(pairs, similarity=paired), paired) == {}


def test_loss_across_modalities_alone():
    batch = replace(random_batch(), within_modality={})
    loss, _ = MMNN(8).batch_loss(batch)
    across = by_hand(batch.image_codes, batch.text_codes, batch.similarity, 4, same=False)
    assert float(loss) == pytest.approx(across / 8, rel=1e-6)


def test_neighbour_similarity_equals_a_full_sort(pairs):
    vectors = pairs.images[:120].astype(np.float64)
    centred = vectors - vectors.mean(axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    cosines = centred @ centred.T
    np.fill_diagonal(cosines, -np.inf)
    named = np.zeros((120, 120), dtype=bool)
    for row in range(120):
        named[row, np.argsort(-cosines[row])[:5]] = True
    expected = np.where(named | named.T, 1, -1)
    np.testing.assert_array_equal(neighbour_similarity(vectors, 5).block(), expected)
    np.testing.assert_array_equal(neighbour_similarity(sp.csr_array(vectors), 5).block(), expected)


@pytest.mark.parametrize(
    ("n_neighbours", "message"), [(0, "integer >= 1, got 0"), (400, "pairs, 360, got 400")]
)
def test_invalid_n_neighbours_is_refused(pairs, n_neighbours, message):
    with pytest.raises(InputError, match=message):
        MMNNPairs(8, n_neighbours=n_neighbours, **QUICK).fit(pairs)


def test_mmnn_pairs_ignores_validation_labels(pairs):
    train, validation = pairs.take(slice(0, 300)), pairs.take(slice(300, None))
    shuffled = replace(validation, labels=validation.labels[::-1])
    first, second = (
        MMNNPairs(16, **QUICK).fit(train, validation=part).encode_image(pairs.images)
        for part in (validation, shuffled)
    )
    np.testing.assert_array_equal(first.packed, second.packed)


def test_mmnn_pairs_keeps_the_epoch_of_best_pairing(pairs):
    train, validation = pairs.take(slice(0, 300)), pairs.take(slice(300, None))
    hasher = MMNNPairs(16, **QUICK).fit(train, validation=validation)
    images, texts = hasher.encode_image(validation.images), hasher.encode_text(validation.texts)
    distances = images.hamming(texts)
    expected = [mean_reciprocal_rank(distances), mean_reciprocal_rank(distances.T)]
    best = max(entry["validation_map"] for entry in hasher.history_)
    assert best == pytest.approx(np.mean(expected), rel=1e-9)


def mean_reciprocal_rank(distances):
    """Of query i for item i, in expectation over ties."""
    values = []
    for i, row in enumerate(distances):
        nearer, tied = np.sum(row < row[i]), np.sum(row == row[i])
        values.append(np.mean(1 / np.arange(nearer + 1, nearer + tied + 1)))
    return np.mean(values)


@pytest.mark.parametrize("method", [MMNN, MMNNPairs])
def test_learns_from_pixels(method):
    """Red and blue images with matching tags."""
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


def test_strings_are_compared_by_their_terms():
    sentences = ["a red boat", "the red boat", "two green trees", "green trees"]
    pairs = PairedDataset(np.eye(4), sentences)
    expected = [[-1, 1, -1, -1], [1, -1, -1, -1], [-1, -1, -1, 1], [-1, -1, 1, -1]]
    within = MMNNPairs(8, n_neighbours=1).within_modality_similarity(pairs, Similarity.paired(4))
    assert within["text"].block().tolist() == expected


def test_margin_above_all_bits_is_refused(pairs):
    with pytest.raises(InputError, match=r"the largest distance between codes, got 9.798"):
        MMNN(16, margin=1.5, **QUICK).fit(pairs)
