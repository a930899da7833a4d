"""Classifier code: the logits of a classifier as a hash code, a baseline for supervised hashing.

One classifier per modality predicts the labels. The signs of its logits are a code of one bit per
label; random projections of the logits are a code of any length. On queries with the labels of the
training set, a hashing method has to beat this baseline.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods._kernel_regression import KernelHasher, check_regression, logistic_weights

RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3)
"""Candidates for the ridge."""

HOLD_OUT = 5
"""One in this many training pairs is held out to choose the ridge."""


class ClassifierCode(KernelHasher):
    """Binarized logits of a classifier, supervised with kernels (Sablayrolles et al., 2017).

    It distinguishes items by their labels only, so evaluate it on unseen labels, too. Time is
    O(n n_centres (d + n_classes)) and memory O(n (d + n_centres)).

    Parameters
    ----------
    n_bits : code length; the number of labels if ``one_bit_per_label`` is set.
    one_bit_per_label : whether bit k is the sign of the logit of label k. Otherwise the logits,
        centred on their training means, are projected onto ``n_bits`` random Gaussian directions
        that both modalities share.
    ridge : weight of the regression penalty. None chooses for each modality the candidate with the
        lowest log-loss on a held-out fifth of the training pairs: 0.003, 0.01, 0.03, 0.1 or 0.3.
    n_centres : number of k-means centres of the kernel regression.
    normalize_rows : whether features are scaled to length 1 before they are compared.
    seed : of k-means, of the held-out pairs and of the random directions.

    Attributes
    ----------
    ridges_ : (2,) ridges used for images and for texts.
    image_centres_, text_centres_ : (n_centres, d).
    image_width_, text_width_ : () squared distance at which the kernel has fallen to 1/e.
    image_weights_, text_weights_ : (n_centres, n_classes).
    image_mean_, text_mean_ : (n_classes,) subtracted from the logits before the projection.
    directions_ : (n_classes, n_bits).

    References
    ----------
    Alexandre Sablayrolles, Matthijs Douze, Nicolas Usunier and Hervé Jégou. How should we evaluate
    supervised hashing? ICASSP 2017.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(300)
    >>> ClassifierCode(n_bits=16, n_centres=50).fit(pairs).encode_text(pairs.texts)
    Codes(300 codes of 16 bits)
    >>> per_label = ClassifierCode(n_bits=12, one_bit_per_label=True, n_centres=50).fit(pairs)
    >>> per_label.encode_text(pairs.texts)
    Codes(300 codes of 12 bits)
    """

    grid: ClassVar = {"n_centres": (500, 1000, 2000)}

    ridges_: np.ndarray
    image_mean_: np.ndarray
    text_mean_: np.ndarray
    directions_: np.ndarray

    def __init__(
        self,
        n_bits: int = 64,
        *,
        one_bit_per_label: bool = False,
        ridge: float | None = None,
        n_centres: int = 1000,
        normalize_rows: bool = True,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.one_bit_per_label = one_bit_per_label
        self.ridge = ridge
        self.n_centres = n_centres
        self.normalize_rows = normalize_rows
        self.seed = seed

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        assert pairs.labels is not None
        signs = np.where(pairs.labels.toarray() > 0, 1.0, -1.0)  # (n, n_classes)
        self._check_params(signs.shape[1])
        image_classifier = self._fit_classifier(pairs.images, signs, "image")
        text_classifier = self._fit_classifier(pairs.texts, signs, "text")
        self.image_weights_, self.image_mean_, image_ridge = image_classifier
        self.text_weights_, self.text_mean_, text_ridge = text_classifier
        self.ridges_ = np.array([image_ridge, text_ridge])
        self.directions_ = self._directions(signs.shape[1])

    def _check_params(self, n_classes: int) -> None:
        check_regression(self.n_centres, RIDGES[0] if self.ridge is None else self.ridge)
        if self.one_bit_per_label and self.n_bits != n_classes:
            raise InputError(
                f"With one_bit_per_label, n_bits must be the number of labels, {n_classes}, "
                f"got {self.n_bits}."
            )

    def _fit_classifier(
        self, values: Any, signs: np.ndarray, modality: str
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the weights, the mean logits to subtract, and the ridge of one modality."""
        features, to_weights = self._fit_kernel(values, modality)
        ridge = self.ridge
        if ridge is None:
            ridge = best_ridge(features, signs, self.seed)
        v = logistic_weights(features, signs, ridge, f"Fitting the classifier of {modality}s")
        mean = np.zeros(signs.shape[1]) if self.one_bit_per_label else (features @ v).mean(axis=0)
        return to_weights @ v, mean, ridge

    def _directions(self, n_classes: int) -> np.ndarray:
        """Return (n_classes, n_bits) directions: random, or the identity."""
        if self.one_bit_per_label:
            return np.eye(n_classes)
        return np.random.default_rng(self.seed).standard_normal((n_classes, self.n_bits))

    def _embed_image(self, images: Any) -> np.ndarray:
        return (self._logits(images, "image") - self.image_mean_) @ self.directions_

    def _embed_text(self, texts: Any) -> np.ndarray:
        return (self._logits(texts, "text") - self.text_mean_) @ self.directions_


def best_ridge(features: np.ndarray, signs: np.ndarray, seed: int) -> float:
    """Return the ridge in ``RIDGES`` with the lowest log-loss on held-out rows."""
    order = np.random.default_rng(seed).permutation(len(features))
    held, rest = order[::HOLD_OUT], np.delete(order, np.s_[::HOLD_OUT])
    if len(rest) == 0:
        return RIDGES[len(RIDGES) // 2]
    # The loss is a sum over rows, so the penalty shrinks with the number of rows.
    share = len(rest) / len(features)

    def held_out_loss(ridge: float) -> float:
        v = logistic_weights(features[rest], signs[rest], ridge * share, "Choosing a ridge")
        return float(np.logaddexp(0, -signs[held] * (features[held] @ v)).mean())

    return min(RIDGES, key=held_out_loss)
