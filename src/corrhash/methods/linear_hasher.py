"""LinearHasher: methods whose scores are linear projections of the centred items."""

from __future__ import annotations

from typing import Any

import numpy as np

from corrhash.methods.base import Hasher, feature_rows
from corrhash.methods.covariance import project


class LinearHasher(Hasher):
    """A method that learns one projection of images and one of texts.

    Attributes
    ----------
    image_mean_, text_mean_ : (d,) means of the training columns.
    image_projection_, text_projection_ : (d, n_bits), a column for each bit.
    """

    image_mean_: np.ndarray
    text_mean_: np.ndarray
    image_projection_: np.ndarray
    text_projection_: np.ndarray

    def _score_image(self, images: Any) -> np.ndarray:
        images = feature_rows(images, "images", len(self.image_mean_))
        return project(images, self.image_mean_, self.image_projection_)

    def _score_text(self, texts: Any) -> np.ndarray:
        texts = feature_rows(texts, "texts", len(self.text_mean_))
        return project(texts, self.text_mean_, self.text_projection_)
