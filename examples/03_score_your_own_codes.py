"""Score codes from any program: bits and labels in, every published reading of MAP out."""

import numpy as np

from corrhash import Codes
from corrhash.metrics import READINGS, evaluate

rng = np.random.default_rng(0)
labels = (rng.random((3000, 10)) < 0.15).astype(int)
outputs = labels @ rng.normal(size=(10, 16)) + rng.normal(size=(3000, 16))  # your model's
codes = Codes.from_scores(outputs)

for name, meaning in READINGS.items():
    reading = name if name in ("all", "dcmh") else f"{name}@50"
    scores = evaluate(codes[:500], codes[500:], labels[:500], labels[500:], reading=reading)
    print(f"{reading:12} {scores.map:.3f}  {meaning}")
