"""One kind of array for compiled loops, which would be compiled once for each kind."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def read_only(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A view in C order that nobody writes to."""
    view = np.ascontiguousarray(words).view()
    view.flags.writeable = False
    return view
