"""Judged pairs dealt out to the parts of a split: as a loop over them would."""

import numpy as np

from corrhash.datasets import make_pairs
from corrhash.datasets.judged_split import deal_out
from corrhash.datasets.splits import draw_split


def test_pairs_go_where_both_items_are_and_queries_are_never_learned():
    split = draw_split(make_pairs(30), "example", 0, n_query=6, n_validation=8, n_train=10)
    rng = np.random.default_rng(0)
    cells = rng.permutation(900)[:400]
    triples = np.column_stack([cells // 30, cells % 30, rng.choice([-1, 1], 400)])
    judged = deal_out(triples, split)
    train, validation = np.zeros((10, 10), int), np.zeros((8, 8), int)
    n_of_queries = n_across = 0
    parts = [rows.tolist() for rows in (split.train_rows, split.validation_rows, split.query_rows)]
    for image, text, value in triples.tolist():
        if image in parts[0] and text in parts[0]:
            train[parts[0].index(image), parts[0].index(text)] = value
        elif image in parts[1] and text in parts[1]:
            validation[parts[1].index(image), parts[1].index(text)] = value
        elif image in parts[2] or text in parts[2]:
            n_of_queries += 1
        else:
            n_across += 1
    np.testing.assert_array_equal(judged.train.block(), train)
    np.testing.assert_array_equal(judged.validation.block(), validation)
    assert (judged.n_of_queries, judged.n_across) == (n_of_queries, n_across)
    assert min(n_of_queries, n_across) > 50
