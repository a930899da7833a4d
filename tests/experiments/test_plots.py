"""Plots: a picture of the right size, whole or not there."""

import numpy as np
from PIL import Image

from corrhash import Codes
from corrhash.experiments.plots import plot_curves
from corrhash.metrics import evaluate


def test_curves_of_several_methods_are_drawn(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.eye(3, dtype=int)[rng.integers(0, 3, 300)]
    codes = Codes.from_scores(labels @ rng.normal(size=(3, 16)) + rng.normal(size=(300, 16)))
    scores = evaluate(codes[:50], codes[50:], labels[:50], labels[50:])
    both = {"image->text": scores, "text->image": scores}
    plot_curves({"cvh": both, "random": both}, tmp_path / "curves.png", "a title")
    with Image.open(tmp_path / "curves.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert pixels.shape[0] > 600
    colours = {tuple(colour) for colour in np.unique(pixels.reshape(-1, 3), axis=0)}
    assert (0x0B, 0x6E, 0x99) in colours  # the first method's line
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]
