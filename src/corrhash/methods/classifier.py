"""Classifier code: what a plain classifier says of an item, as bits.

A classifier for each side predicts the labels. Its logits are a code of one bit a label already;
projected onto random directions, they are a code of any length. Where queries carry the labels of
the training pairs, hashing methods have to beat this.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods.kernel_hasher import KernelHasher
from corrhash.methods.kernel_logistic import check_regression, logistic_weights

RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3)
"""What the ridge is chosen from."""

HELD_OUT = 5
"""One in so many training pairs serves to choose the ridge."""


class ClassifierCode(KernelHasher):
    """The logits of a classifier, binarised: supervised, with kernels (Sablayrolles et al., 2017).

    Needs labels and aligned pairs of feature vectors and tag occurrences. Relatives: SePH asks the
    same regression for learned bits in place of labels. It can tell apart what the labels tell
    apart and nothing else, so judge it on labels that were not trained on, too.

    Costs O(n n_centres (d + n_classes)) time and O(n (d + n_centres)) memory.

    Parameters
    ----------
    n_bits : length of the codes; the number of labels where ``own_length`` is set.
    own_length : let bit k say whether the item carries label k (logit above 0), instead of
        projecting the logits, centred on their training means, onto ``n_bits`` random directions
        (Gaussian, the same for both sides).
    ridge : weight of the penalty of the regression. None takes, for each side, the one that
        predicts a held-out fifth of the training pairs best: 0.003, 0.01, 0.03, 0.1 or 0.3.
    n_centres : centres of the kernel regression, found by k-means.
    unit_rows : scale features and tags to length 1 before they are compared.
    seed : of k-means, of the pairs held out and of the directions.

    Attributes
    ----------
    ridges_ : (2,) penalties used, for images and for texts.
    image_centres_, text_centres_ : (n_centres, d).
    image_width_, text_width_ : () squared distance at which the kernel has fallen to 1/e.
    image_weights_, text_weights_ : (n_centres, n_classes).
    image_mean_, text_mean_ : (n_classes,) what is taken from the logits before they are projected.
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
    >>> own = ClassifierCode(n_bits=12, own_length=True, n_centres=50).fit(pairs)
    >>> own.encode_text(pairs.texts)
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
        own_length: bool = False,
        ridge: float | None = None,
        n_centres: int = 1000,
        unit_rows: bool = True,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.own_length = own_length
        self.ridge = ridge
        self.n_centres = n_centres
        self.unit_rows = unit_rows
        self.seed = seed

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        assert pairs.labels is not None
        signs = np.where(pairs.labels.toarray() > 0, 1.0, -1.0)  # (n, n_classes)
        self._check_settings(signs.shape[1])
        of_image = self._classifier(pairs.images, signs, "image")
        of_text = self._classifier(pairs.texts, signs, "text")
        self.image_weights_, self.image_mean_, image_ridge = of_image
        self.text_weights_, self.text_mean_, text_ridge = of_text
        self.ridges_ = np.array([image_ridge, text_ridge])
        self.directions_ = self._directions(signs.shape[1])

    def _check_settings(self, n_classes: int) -> None:
        check_regression(self.n_centres, RIDGES[0] if self.ridge is None else self.ridge)
        if self.own_length and self.n_bits != n_classes:
            raise InputError(
                f"The classifier's own length is one bit a label: {n_classes} here. Got "
                f"n_bits={self.n_bits}. Use n_bits={n_classes}, or leave own_length out."
            )

    def _classifier(
        self, values: Any, signs: np.ndarray, side: str
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Weights, what to centre logits on, and ridge of one side's classifier."""
        features, to_weights = self._learn_kernel(values, side)
        ridge = self.ridge
        if ridge is None:
            ridge = best_ridge(features, signs, self.seed)
        v = logistic_weights(features, signs, ridge, f"Learning labels of {side}s")
        mean = np.zeros(signs.shape[1]) if self.own_length else (features @ v).mean(axis=0)
        return to_weights @ v, mean, ridge

    def _directions(self, n_classes: int) -> np.ndarray:
        """(n_classes, n_bits) random directions, or each label's own."""
        if self.own_length:
            return np.eye(n_classes)
        return np.random.default_rng(self.seed).standard_normal((n_classes, self.n_bits))

    def _score_image(self, images: Any) -> np.ndarray:
        return (self._answers(images, "image") - self.image_mean_) @ self.directions_

    def _score_text(self, texts: Any) -> np.ndarray:
        return (self._answers(texts, "text") - self.text_mean_) @ self.directions_


def best_ridge(features: np.ndarray, signs: np.ndarray, seed: int) -> float:
    """The ridge of ``RIDGES`` that predicts held-out rows best, by their log-loss."""
    order = np.random.default_rng(seed).permutation(len(features))
    held, rest = order[::HELD_OUT], np.delete(order, np.s_[::HELD_OUT])
    if len(rest) == 0:
        return RIDGES[len(RIDGES) // 2]
    # The penalty stands beside a sum over rows: fewer rows take less of it.
    share = len(rest) / len(features)

    def held_out_loss(ridge: float) -> float:
        v = logistic_weights(features[rest], signs[rest], ridge * share, "Choosing a ridge")
        return float(np.logaddexp(0, -signs[held] * (features[held] @ v)).mean())

    return min(RIDGES, key=held_out_loss)
