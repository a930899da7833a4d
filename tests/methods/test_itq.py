"""ITQ and LSH: one space, a rotation that lowers the error, and codes that keep angles."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.methods import ITQ, LSH
from corrhash.methods.itq import in_one_space


def aligned(n=400, d=48, seed=0, gap=3.0):
    """Embeddings of paired images and texts in one space, with a gap between the modalities."""
    rng = np.random.default_rng(seed)
    meanings = rng.normal(size=(n, d)) * np.linspace(2, 0.2, d)
    images, texts = (meanings + 0.3 * rng.normal(size=(n, d)) for _ in range(2))
    return images + gap * rng.normal(size=d), texts + gap * rng.normal(size=d)


def recall_at_1(hasher, images, texts):
    distances = hasher.encode_text(texts).hamming(hasher.encode_image(images))
    own = np.diag(distances)
    return float((own == distances.min(axis=1)).mean())


@pytest.mark.parametrize("method", [ITQ, LSH])
def test_unseen_pairs_of_one_space_are_found(method):
    images, texts = aligned()
    hasher = method(32).fit(images[:300], texts[:300])
    assert recall_at_1(hasher, images[300:], texts[300:]) > 0.5
    np.testing.assert_array_equal(hasher.image_projection_, hasher.text_projection_)


@pytest.mark.parametrize("method", [ITQ, LSH])
def test_images_need_no_texts_of_their_own(method):
    images, texts = aligned()
    hasher = method(32).fit_unpaired(images[:300], texts[310:340])
    assert recall_at_1(hasher, images[300:], texts[300:]) > 0.4


@pytest.mark.parametrize("method", [ITQ, LSH])
def test_separate_spaces_are_aligned_by_pairs(method):
    images, texts = aligned(n=800)
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(48, 48)))[0]
    texts = texts @ rotation
    assert not in_one_space(images, texts)
    hasher = method(32).fit(images[:700], texts[:700])
    assert recall_at_1(hasher, images[700:], texts[700:]) > 0.4
    wrong = method(32, space="shared").fit(images[:700], texts[:700])
    assert recall_at_1(wrong, images[700:], texts[700:]) < 0.2


def test_rotation_lowers_the_quantization_error():
    images, texts = aligned()
    errors = []
    for n in (1, 50):
        hasher = ITQ(24, n_iterations=n).fit(images, texts)
        v = hasher.embed_image(images)
        signs = np.where(v > 0, 1, -1) * np.abs(v).mean()
        errors.append(((signs - v) ** 2).mean())
    assert errors[1] < errors[0]
    projection = hasher.image_projection_
    np.testing.assert_allclose(projection.T @ projection, np.eye(24), atol=1e-8)


def test_hamming_distance_of_lsh_is_the_angle():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 64))
    hasher = LSH(1024, space="shared").fit(np.concatenate([rows, -rows]), np.ones((80, 64)))
    cosines = (rows @ rows.T) / np.outer(*[np.linalg.norm(rows, axis=1)] * 2)
    angles = np.arccos(cosines.clip(-1, 1)) / np.pi
    codes = hasher.encode_image(rows)
    np.testing.assert_allclose(codes.hamming(codes) / 1024, angles, atol=0.07)


@pytest.mark.parametrize("space", ["shared", "cca"])
def test_pairs_without_text_are_not_learned_from(space):
    images, texts = aligned()
    partly = np.where(np.arange(400)[:, None] % 2 == 0, texts, 0)
    codes = [
        ITQ(16, space=space).fit(*pairs).encode_image(images).packed
        for pairs in ((images, partly), (images[::2], texts[::2]))
    ]
    np.testing.assert_array_equal(*codes)


def test_length_of_embeddings_is_ignored():
    images, texts = aligned(gap=0)
    hasher = ITQ(16).fit(images, texts)
    np.testing.assert_array_equal(
        hasher.encode_image(7 * images).packed, hasher.encode_image(images).packed
    )


def test_invalid_embeddings_are_refused():
    images, texts = aligned()
    with pytest.raises(InputError, match="ITQ finds at most 48 bits.*n_bits=64. Reduce it, or use"):
        ITQ(64).fit(images, texts)
    with pytest.raises(InputError, match="equal lengths, got 48 for images and 40 for texts"):
        ITQ(16).fit_unpaired(images, texts[:, :40])
    with pytest.raises(InputError, match="space must be 'auto' or 'shared' or 'cca', got 'one'"):
        ITQ(16, space="one").fit(images, texts)
