"""Where the partner of each query stands, for pairs that carry no labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corrhash.metrics.tied_groups import Counts, TiedGroups


def partner_found(groups: TiedGroups, ranks: Counts) -> NDArray[np.float64]:
    """(n_queries, n_ranks) the chance that the one relevant item is among the first ``rank``."""
    return groups.hits_within(ranks)


def partner_rank(groups: TiedGroups) -> NDArray[np.float64]:
    """(n_queries,) the expected rank of the one relevant item: the middle of its group."""
    middle = groups.items_before + (groups.items + 1) / 2
    return np.sum(np.where(groups.relevant > 0, middle, 0.0), axis=1)
