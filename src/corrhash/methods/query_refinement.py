"""k-nearest-neighbour query refinement: codes of queries from those of similar training items.

Binarization turns a continuous code near 0 into a bit at random. The nearest training items of a
query, by the cosine of continuous codes, have more certain bits: their majority, weighted by
cosine, replaces the bits of the query. Codes of database items stay as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.methods._linear_algebra import neighbour_sums, unit_rows

REFERENCE_CODES = "reference_codes"
"""Name of the reference codes among the arrays of a saved model."""

MAX_REFERENCE_CODES = 20_000
"""Upper limit on the number of reference codes, images and texts together."""

OWN_WEIGHT = 1e-10
"""Weight of the query's own bit, which only breaks ties."""


def select_reference_codes(
    image_continuous: NDArray, text_continuous: NDArray
) -> NDArray[np.float32]:
    """Return (n, b) continuous codes of training items of both modalities, subsampled evenly."""
    both = np.concatenate([image_continuous, text_continuous])
    step = -(-len(both) // MAX_REFERENCE_CODES)
    return both[::step].astype(np.float32)


def refine_queries(continuous: NDArray, reference: NDArray, n_neighbours: int) -> Codes:
    """Return codes whose bits are the weighted majority of the nearest reference codes.

    Parameters
    ----------
    continuous : (n, b) continuous codes of queries.
    reference : (m, b) continuous codes of training items.
    n_neighbours : how many nearest reference codes are used.

    Examples
    --------
    >>> reference = np.array([[0.9, 0.8], [0.8, 0.9], [-0.9, -0.9]])
    >>> refine_queries(np.array([[0.7, -0.1]]), reference, n_neighbours=2).signs()
    array([[1, 1]], dtype=int8)
    """
    origin = np.zeros(continuous.shape[1])
    signs = np.where(reference > 0, 1.0, -1.0)  # (m, b)
    sums = neighbour_sums(
        unit_rows(continuous, origin), unit_rows(reference, origin), signs, n_neighbours
    )
    return Codes.from_continuous(sums + OWN_WEIGHT * np.where(continuous > 0, 1, -1))
