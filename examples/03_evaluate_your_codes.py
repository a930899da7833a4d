"""Evaluate codes from any program under every published definition of mAP."""

import numpy as np

from corrhash import Codes, evaluate
from corrhash.metrics import MAP_DEFINITIONS

rng = np.random.default_rng(0)
labels = (rng.random((3000, 10)) < 0.15).astype(int)
outputs = labels @ rng.normal(size=(10, 16)) + rng.normal(size=(3000, 16))  # from your model
codes = Codes.from_continuous(outputs)

for name, meaning in MAP_DEFINITIONS.items():
    definition = name if name in ("all", "dcmh") else f"{name}@50"
    scores = evaluate(codes[:500], codes[500:], labels[:500], labels[500:], definition=definition)
    print(f"{definition:12} {scores.map:.3f}  {meaning}")
