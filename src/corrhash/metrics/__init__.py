"""How good a ranking is: every number states the reading, the tie rule and what was left out."""

from corrhash.metrics.average_precision import READINGS
from corrhash.metrics.evaluate import evaluate
from corrhash.metrics.scores import Scores

__all__ = ["READINGS", "Scores", "evaluate"]
