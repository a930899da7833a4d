"""Simple features of pictures, without a network: where which colours and edges lie."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from corrhash.progress import report

SIDE = 64
"""Pictures are looked at in this size."""

_COLOUR_CELLS = 8
_EDGE_CELLS = 8
_DIRECTIONS = 8
N_FEATURES = 3 * _COLOUR_CELLS**2 + _DIRECTIONS * _EDGE_CELLS**2
REPORT_EVERY = 50


def simple_features(images: Any) -> np.ndarray:
    """(n, 704) colours in an 8 x 8 grid, and strengths of 8 edge directions in another.

    ``images`` are ImageFiles or an (n, height, width, 3) array of uint8.

    >>> simple_features(np.zeros((2, 96, 96, 3), np.uint8)).shape
    (2, 704)
    """
    features = np.empty((len(images), N_FEATURES), dtype=np.float32)
    for row, picture in enumerate(images):
        features[row] = _describe(picture)
        if row % REPORT_EVERY == 0 or row + 1 == len(images):
            report("Describing pictures", row + 1, len(images))
    return features


def _describe(picture: Any) -> np.ndarray:
    """One picture -> (704,) float32."""
    picture = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    pixels = np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BOX), dtype=np.float32) / 255
    colours = _cell_means(pixels, _COLOUR_CELLS)  # (cells, cells, 3)
    return np.concatenate([colours.ravel(), _edges(pixels.mean(axis=2)).ravel()])


def _edges(grey: np.ndarray) -> np.ndarray:
    """(cells, cells, directions) how strong the edges of each direction are in each cell."""
    down, right = np.gradient(grey)
    strength = np.hypot(down, right)
    angle = np.arctan2(down, right) % np.pi  # an edge and its negative are alike
    direction = np.minimum(angle / np.pi * _DIRECTIONS, _DIRECTIONS - 1).astype(np.int64)
    split = strength[..., None] * (direction[..., None] == np.arange(_DIRECTIONS))
    return np.sqrt(_cell_means(split.astype(np.float32), _EDGE_CELLS))


def _cell_means(values: np.ndarray, cells: int) -> np.ndarray:
    """(side, side, c) -> (cells, cells, c)."""
    side = len(values) // cells
    return values.reshape(cells, side, cells, side, -1).mean(axis=(1, 3))
