"""ITQ and LSH: codes of ready embeddings, by a learned or a random rotation.

Embeddings of an aligned encoder such as CLIP lie in one space, so codes need no training on pairs.
Each modality is centred by its own mean, since images and texts occupy different regions of that
space. Embeddings of separate encoders are first projected into a common space by canonical
correlation analysis (CCA), which needs pairs.

Symbols of the ITQ paper: V the n x c data after PCA or CCA, R the c x c rotation, B = sgn(V R).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import scipy
import scipy.sparse as sp

from corrhash.codes import check_n_bits
from corrhash.datasets.base import PairedDataset, is_empty_text
from corrhash.errors import InputError
from corrhash.methods._linear_algebra import (
    LinearHasher,
    Whitened,
    check_varying,
    column_means,
    cross_covariance,
    project,
)
from corrhash.methods._validation import check_choice, check_count, feature_rows

SPACES = ("auto", "shared", "cca")
MIN_AGREEMENT = 0.75
"""Share of other pairs that must be farther away than the own one; chance is 0.5."""

MAX_CHECKED = 1000
MAX_ROTATED = 20_000
"""Rows from which the rotation is learned; more change little."""

CCA_RIDGE = 0.1


class _EmbeddingHasher(LinearHasher):
    """Projects unit-length embeddings of both modalities from one common space to bits."""

    needs_labels = False
    grid: ClassVar = {"space": ("auto", "cca")}

    space: str
    seed: int

    @abstractmethod
    def _projection(self, means: list[np.ndarray], tables: list[Any]) -> np.ndarray:
        """Return the (d, n_bits) projection of centred rows of one space."""

    @abstractmethod
    def _n_directions(self, most: int) -> int:
        """Return how many of the ``most`` canonical directions are used."""

    def fit_unpaired(self, images: Any, texts: Any) -> Self:
        """Learn from embeddings of an aligned encoder; images and texts need not form pairs."""
        check_n_bits(self.n_bits)
        tables = [_unit(feature_rows(v, w)) for v, w in ((images, "images"), (texts, "texts"))]
        self._fit_shared(*tables)
        return self

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        check_choice("space", self.space, SPACES)
        check_count("seed", self.seed, least=0)
        pairs = pairs.take(~is_empty_text(pairs.texts))  # they pair an image with nothing
        images = _unit(feature_rows(pairs.images, "images"))
        texts = _unit(feature_rows(pairs.texts, "texts"))
        if self.space == "shared" or (self.space == "auto" and in_one_space(images, texts)):
            self._fit_shared(images, texts)
        else:
            self._fit_cca(images, texts)

    def _fit_shared(self, images: Any, texts: Any) -> None:
        if images.shape[1] != texts.shape[1]:
            raise InputError(
                f"Embeddings of one space have equal lengths, got {images.shape[1]} for images and "
                f"{texts.shape[1]} for texts. Use an aligned encoder, or space='cca' with pairs."
            )
        self.image_mean_, self.text_mean_ = column_means(images), column_means(texts)
        projection = self._projection([self.image_mean_, self.text_mean_], [images, texts])
        self.image_projection_ = self.text_projection_ = projection

    def _fit_cca(self, images: Any, texts: Any) -> None:
        image, text = Whitened(images, CCA_RIDGE), Whitened(texts, CCA_RIDGE)
        left, rho, right = scipy.linalg.svd(cross_covariance(image, text), full_matrices=False)
        k = self._n_directions(min(len(rho), images.shape[0] - 1))
        signs = _signs(left[:, :k])
        # Directions of low correlation are mostly noise: scale them by the correlation.
        of_image = image.projection(left[:, :k]) * rho[:k] * signs
        of_text = text.projection(right.T[:, :k]) * rho[:k] * signs
        common = [project(images, image.mean, of_image), project(texts, text.mean, of_text)]
        rotation = self._projection([np.zeros(k), np.zeros(k)], common)
        self.image_mean_, self.text_mean_ = image.mean, text.mean
        self.image_projection_, self.text_projection_ = of_image @ rotation, of_text @ rotation

    def _embed_image(self, images: Any) -> np.ndarray:
        return super()._embed_image(_unit(feature_rows(images, "images", len(self.image_mean_))))

    def _embed_text(self, texts: Any) -> np.ndarray:
        return super()._embed_text(_unit(feature_rows(texts, "texts", len(self.text_mean_))))


class ITQ(_EmbeddingHasher):
    """Iterative quantization of embeddings, unsupervised (Gong & Lazebnik, CVPR 2011).

    Principal directions of the embeddings are rotated so that the codes, the signs, are as close to
    them as possible. Time is O(n d² + d³).

    Parameters
    ----------
    n_bits : code length, at most the length of the embeddings.
    space : ``shared`` for embeddings of an aligned encoder such as CLIP; ``cca`` to project those
        of separate encoders into a common space first; ``auto`` is ``shared`` if paired embeddings
        are nearer to each other than to others.
    n_iterations : of the alternating minimization.
    seed : of the initial rotation.

    Attributes
    ----------
    image_mean_, text_mean_ : (d,) means of the embeddings.
    image_projection_, text_projection_ : (d, n_bits); equal in a shared space.

    References
    ----------
    Yunchao Gong and Svetlana Lazebnik. Iterative quantization: a Procrustean approach to learning
    binary codes. CVPR 2011.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> meanings = rng.normal(size=(200, 32))
    >>> images, texts = (meanings + 0.3 * rng.normal(size=(200, 32)) for _ in range(2))
    >>> ITQ(16).fit(images, texts).encode_text(texts)
    Codes(200 codes of 16 bits)
    """

    def __init__(
        self, n_bits: int = 64, *, space: str = "auto", n_iterations: int = 50, seed: int = 0
    ) -> None:
        self.n_bits = n_bits
        self.space = space
        self.n_iterations = n_iterations
        self.seed = seed

    def _n_directions(self, most: int) -> int:
        _check_n_bits(self.n_bits, most)
        return self.n_bits

    def _projection(self, means: list[np.ndarray], tables: list[Any]) -> np.ndarray:
        check_count("n_iterations", self.n_iterations)
        rows = [_some_rows(t, MAX_ROTATED // 2) - m for t, m in zip(tables, means, strict=True)]
        _check_n_bits(self.n_bits, rows[0].shape[1])
        # Both modalities count alike, however many rows they have.
        covariance = sum(each.T @ each / len(each) for each in rows)
        check_varying(covariance)
        _, vectors = scipy.linalg.eigh(covariance)
        principal = vectors[:, ::-1][:, : self.n_bits]
        principal = principal * _signs(principal)
        v = np.concatenate([each @ principal for each in rows])  # V
        rng = np.random.default_rng(self.seed)
        rotation = scipy.linalg.qr(rng.normal(size=(self.n_bits, self.n_bits)))[0]  # R
        for _ in range(self.n_iterations):
            signs = np.where(v @ rotation > 0, 1.0, -1.0)  # B
            left, _, right = scipy.linalg.svd(signs.T @ v)  # B^T V = S Ω S^T
            rotation = (left @ right).T
        return principal @ rotation


class LSH(_EmbeddingHasher):
    """Random projections of embeddings, unsupervised (Charikar, STOC 2002).

    The expected Hamming distance of two codes is proportional to the angle between the embeddings.
    Nothing is learned but the means of the embeddings.

    Parameters
    ----------
    n_bits : code length, of any size.
    space : see :class:`ITQ`.
    seed : of the random projection.

    Attributes
    ----------
    image_mean_, text_mean_ : (d,) means of the embeddings.
    image_projection_, text_projection_ : (d, n_bits); equal in a shared space.

    References
    ----------
    Moses S. Charikar. Similarity estimation techniques from rounding algorithms. STOC 2002.
    """

    def __init__(self, n_bits: int = 64, *, space: str = "auto", seed: int = 0) -> None:
        self.n_bits = n_bits
        self.space = space
        self.seed = seed

    def _n_directions(self, most: int) -> int:
        return min(most, self.n_bits)

    def _projection(self, means: list[np.ndarray], tables: list[Any]) -> np.ndarray:
        d = len(means[0])
        rng = np.random.default_rng(self.seed)
        # Orthogonal within each block of d bits, which estimates angles with less variance.
        blocks = [scipy.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(-(-self.n_bits // d))]
        return np.concatenate(blocks, axis=1)[:, : self.n_bits]


def in_one_space(images: Any, texts: Any) -> bool:
    """Return whether paired embeddings are nearer to each other than to those of other pairs."""
    if images.shape[1] != texts.shape[1]:
        return False
    left, right = (_dense(t[:MAX_CHECKED]) - column_means(t) for t in (images, texts))
    cosines = _unit(left) @ _unit(right).T
    n = len(cosines)
    nearer = (cosines < np.diag(cosines)[:, None]).sum() / max(1, n * (n - 1))
    return bool(nearer > MIN_AGREEMENT)


def _unit(table: Any) -> Any:
    """Scale rows to unit length; rows of zeros stay."""
    if sp.issparse(table):
        lengths = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
        return sp.csr_array(sp.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ table)
    lengths = np.sqrt(np.einsum("ij,ij->i", table, table))
    return table / np.where(lengths > 0, lengths, 1)[:, None]


def _signs(vectors: np.ndarray) -> np.ndarray:
    """Return the sign of the largest entry of each column: rounding errors do not decide it."""
    return np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])


def _some_rows(table: Any, n: int) -> np.ndarray:
    """Return at most ``n`` rows, evenly spaced."""
    return _dense(table[:: max(1, -(-table.shape[0] // n))])


def _dense(table: Any) -> np.ndarray:
    return table.toarray() if sp.issparse(table) else np.asarray(table)


def _check_n_bits(n_bits: int, most: int) -> None:
    if n_bits > most:
        raise InputError(
            f"ITQ finds at most {most} bits in these embeddings, got n_bits={n_bits}. Reduce it, "
            "or use LSH."
        )
