"""A small retrieval task with many ties, for all tests of metrics."""

import numpy as np
import pytest

from corrhash import Codes


@pytest.fixture
def retrieval():
    """Random codes of 6 bits (so that most items tie) with 9 labels, some items without any."""
    rng = np.random.default_rng(3)
    return {
        "queries": Codes.from_continuous(rng.standard_normal((25, 6))),
        "database": Codes.from_continuous(rng.standard_normal((60, 6))),
        "query_labels": (rng.random((25, 9)) < 0.12).astype(int),
        "database_labels": (rng.random((60, 9)) < 0.12).astype(int),
    }
