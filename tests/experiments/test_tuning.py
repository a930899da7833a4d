"""Tuning: all combinations of a grid, compared on validation items alone."""

import numpy as np

from corrhash.datasets import make_pairs
from corrhash.experiments.tuning import configurations, validation_map
from corrhash.methods.cvh import CVH
from corrhash.metrics import evaluate


def test_every_value_meets_every_other():
    tried = configurations({"eps": (0.1, 1.0), "other": ("a", "b", "c")})
    assert len(tried) == 6
    assert tried[0] == {"eps": 0.1, "other": "a"}
    assert tried[-1] == {"eps": 1.0, "other": "c"}


def test_settings_are_judged_by_validation_items_that_ask_training_items():
    pairs = make_pairs(500, seed=3)
    train, validation = pairs.take(slice(0, 400)), pairs.take(slice(400, None))
    hasher = CVH(16).fit(train)
    ask = {"image": hasher.encode_image(validation.images)}
    ask["text"] = hasher.encode_text(validation.texts)
    answer = {"text": hasher.encode_text(train.texts), "image": hasher.encode_image(train.images)}
    maps = [
        evaluate(ask[a], answer[b], validation.labels, train.labels).map
        for a, b in (("image", "text"), ("text", "image"))
    ]
    assert validation_map(hasher, train, validation) == np.mean(maps)
