"""From names of labels, a list for each item, to the table that methods learn from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp


def label_table(
    named: Sequence[Sequence[str]], names: list[str] | None = None
) -> tuple[list[str], sp.csr_array]:
    """The different names, by default in alphabetical order, and (n, n_names) of 0 and 1.

    >>> names, table = label_table([["sea", "boat"], [], ["sea"]])
    >>> names
    ['boat', 'sea']
    >>> table.toarray().tolist()
    [[1, 1], [0, 0], [0, 1]]
    """
    if names is None:
        names = sorted({name for of_item in named for name in of_item})
    column_of = {name: column for column, name in enumerate(names)}
    columns = [sorted({column_of[name] for name in of_item}) for of_item in named]
    ends = np.cumsum([0, *map(len, columns)])
    indices = np.array([column for row in columns for column in row], dtype=np.int64)
    ones = np.ones(len(indices), dtype=np.uint8)
    return names, sp.csr_array((ones, indices, ends), shape=(len(named), len(names)))
