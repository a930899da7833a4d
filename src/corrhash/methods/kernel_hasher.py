"""KernelHasher: methods whose functions are kernel logistic regressions, one for each side."""

from __future__ import annotations

from typing import Any

import numpy as np

from corrhash.methods.base import Hasher, feature_rows
from corrhash.methods.kernel_logistic import CentreKernel


class KernelHasher(Hasher):
    """A method that asks yes-or-no questions of images and of texts, by kernels.

    Attributes
    ----------
    image_centres_, text_centres_ : (n_centres, d) points that items are compared with.
    image_width_, text_width_ : () squared distance at which the kernel has fallen to 1/e.
    image_weights_, text_weights_ : (n_centres, n_questions).
    """

    n_centres: int
    unit_rows: bool
    seed: int

    image_centres_: np.ndarray
    image_width_: np.ndarray
    image_weights_: np.ndarray
    text_centres_: np.ndarray
    text_width_: np.ndarray
    text_weights_: np.ndarray

    def _learn_kernel(self, values: Any, side: str) -> tuple[np.ndarray, np.ndarray]:
        """(n, r) features F of one side's items, and the map T from their weights to its own.

        The penalty w' K0 w of weights w = T v is the plain sum of squares of v.
        """
        rows = feature_rows(values, f"{side}s")
        kernel = CentreKernel.learn(rows, self.n_centres, unit_rows=self.unit_rows, seed=self.seed)
        setattr(self, f"{side}_centres_", kernel.centres)
        setattr(self, f"{side}_width_", np.array(kernel.width))
        to_weights = kernel.coordinates()
        return kernel.between(rows) @ to_weights, to_weights

    def _answers(self, values: Any, side: str) -> np.ndarray:
        """(n, n_questions) log-odds of yes."""
        centres, width, weights = (
            getattr(self, f"{side}_{part}_") for part in ("centres", "width", "weights")
        )
        rows = feature_rows(values, f"{side}s", centres.shape[1])
        return CentreKernel(centres, float(width), self.unit_rows).answers(rows, weights)
