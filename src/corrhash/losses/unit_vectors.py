"""Rows scaled to length one, where a row of zeros stays one and sends no gradient back."""

import torch
from torch import Tensor

from corrhash.errors import InputError

SHORTEST = 1e-8
"""Rows of less than this length have no direction worth the name."""


def unit_vectors(rows: Tensor) -> Tensor:
    """(n, b) rows of length one.

    Dividing a row of zeros by a small number would multiply its gradient by a hundred million, so
    such a row counts as a constant instead.

    >>> unit_vectors(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    if rows.ndim != 2:
        raise InputError(f"Scores are (n, n_bits). Got {tuple(rows.shape)}. One item is a row too.")
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)  # (n, 1)
    long_enough = lengths > SHORTEST
    return torch.where(long_enough, rows, 0.0) / torch.where(long_enough, lengths, 1.0)
