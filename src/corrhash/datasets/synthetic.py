"""Synthetic data: image features with tags and labels, generated in an instant."""

from __future__ import annotations

import numpy as np
import scipy
import scipy.sparse as sp

from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.datasets.splits import draw_split
from corrhash.errors import check_integer

N_LATENT = 32
N_NUISANCE = 48
N_FEATURES = 256
N_TAGS = 400
TAGS_DRAWN = 9.2
LABEL_COUNTS = (0.46, 0.38, 0.16)  # shares of items with one, two and three labels


def make_pairs(
    n: int = 1000,
    *,
    n_concepts: int = 12,
    zipf: float = 0.8,
    instance_noise: float = 0.5,
    nuisance: float = 1.5,
    tag_noise: float = 0.35,
    seed: int = 0,
) -> PairedDataset:
    """Generate pairs of image features and tags from a shared latent vector.

    Each item has one to three concepts. The sum of their vectors, with noise that both modalities
    share, is its latent vector. Image features mix it with nuisance factors through a random
    two-layer network (256 features, about half of them zero). The text has about 8 of 400 tags,
    drawn by their fit to the latent vector, and some from a background of common tags.

    Parameters
    ----------
    n : number of pairs.
    n_concepts, zipf : number of labels, and exponent of their frequencies. With the defaults two
        items share a label with probability 0.33; with 20 concepts and 0.6, with 0.19.
    instance_noise : standard deviation of the noise of each item.
    nuisance : standard deviation of the factors that only image features have.
    tag_noise : share of tags drawn from the background.
    seed : the same seed and ``n`` give the same pairs; another ``n`` gives other items from the
        same concepts, tags and maps.

    Examples
    --------
    >>> make_pairs(500)
    PairedDataset(500 pairs: images 256 features, texts 400 features, 12 labels)
    """
    check_integer("n", n, 1)
    check_integer("seed", seed, 0)
    check_integer("n_concepts", n_concepts, 3)
    world, items = (np.random.default_rng([seed, part]) for part in (0, 1))
    labels = _draw_labels(items, n, n_concepts, zipf)
    concepts = world.standard_normal((n_concepts, N_LATENT))
    latent = labels @ concepts / np.sqrt(labels.sum(axis=1, keepdims=True))
    latent += instance_noise * items.standard_normal(latent.shape)
    return PairedDataset(
        images=_image_features(world, items, latent, nuisance),
        texts=_tags(world, items, latent, tag_noise),
        labels=labels,
        keys=[f"pair {i}" for i in range(n)],
        label_names=[f"concept {i}" for i in range(n_concepts)],
    )


def _draw_labels(rng: np.random.Generator, n: int, n_concepts: int, zipf: float) -> np.ndarray:
    """Return (n, n_concepts) of 0 and 1: one to three concepts each."""
    frequency = np.arange(1, n_concepts + 1) ** -zipf
    # The largest of log-frequency plus Gumbel noise: a draw without replacement.
    keys = np.log(frequency) + rng.gumbel(size=(n, n_concepts))
    ranks = np.argsort(np.argsort(-keys, axis=1), axis=1)
    n_labels = 1 + rng.choice(len(LABEL_COUNTS), size=n, p=LABEL_COUNTS)
    return (ranks < n_labels[:, None]).astype(np.uint8)


def _image_features(
    world: np.random.Generator, items: np.random.Generator, latent: np.ndarray, nuisance: float
) -> np.ndarray:
    """Return (n, 256) float32: a random two-layer map of latent and nuisance factors, rectified."""
    hidden_map = world.standard_normal((N_LATENT + N_NUISANCE, N_FEATURES))
    output_map = world.standard_normal((N_FEATURES, N_FEATURES)) / np.sqrt(N_FEATURES)
    factors = nuisance * items.standard_normal((len(latent), N_NUISANCE))
    hidden = np.maximum(np.hstack([latent, factors]) @ hidden_map, 0)
    output = (hidden - hidden.mean()) @ output_map
    noise = 0.1 * output.std() * items.standard_normal(output.shape)
    return np.maximum(output + noise, 0).astype(np.float32)


def _tags(
    world: np.random.Generator, items: np.random.Generator, latent: np.ndarray, tag_noise: float
) -> sp.csr_array:
    """Return (n, 400) of 0 and 1: tags drawn by fit to the latent vector or from the background."""
    tag_vectors = world.standard_normal((N_LATENT, N_TAGS))
    background = scipy.special.softmax(world.standard_normal(N_TAGS))
    fitting = scipy.special.softmax(latent @ tag_vectors / np.sqrt(N_LATENT) * 1.4, axis=1)
    chances = (1 - tag_noise) * fitting + tag_noise * background
    drawn = items.poisson(TAGS_DRAWN * chances)
    return sp.csr_array((drawn > 0).astype(np.float32))


def load(seed: int = 0, n: int = 7800) -> RetrievalSplit:
    """Synthetic features and tags: generated in an instant, for trials and tests."""
    check_integer("n", n, 20)  # fewer would give no queries
    pairs = make_pairs(n, seed=seed)
    part = n * 400 // 7800
    return draw_split(
        pairs,
        "synthetic",
        seed,
        n_query=part,
        n_validation=part,
        n_train=n * 3000 // 7800,
    )
