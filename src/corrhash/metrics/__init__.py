"""Retrieval metrics of Hamming and cosine rankings, exact under ties."""

from corrhash.metrics.average_precision import MAP_DEFINITIONS
from corrhash.metrics.evaluate import evaluate
from corrhash.metrics.scores import Scores

__all__ = ["MAP_DEFINITIONS", "Scores", "evaluate"]
