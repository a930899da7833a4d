"""The kinds of objects in scenes: drawing function, position, size and colours of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from corrhash.datasets.scenes import artifacts, nature
from corrhash.datasets.scenes.drawing import Colour, Pen

Draw = Callable[[Pen, Colour, np.random.Generator], None]


@dataclass(frozen=True)
class ObjectKind:
    """A kind of object.

    Parameters
    ----------
    draw : drawing function.
    zone : where it can be. Objects in "sky" and "air" are positioned by their centre, those in
        "ground", "water", "coast" and "horizon" by their foot.
    size : typical height, as a share of the image height.
    width : width, as a multiple of the height.
    colours : colours that it can have, by name. Without any, the drawing function chooses, and
        captions do not name the colour.
    max_count : how many can appear together.
    """

    draw: Draw
    zone: str
    size: float
    width: float
    colours: tuple[str, ...] = ()
    max_count: int = 1


PAINTS = ("red", "orange", "yellow", "green", "blue", "purple", "white")
FURS = ("brown", "black", "white", "grey", "orange")

OBJECTS = {
    "tree": ObjectKind(nature.tree, "ground", 0.46, 0.75, max_count=3),
    "house": ObjectKind(
        artifacts.house, "ground", 0.40, 1.1, ("white", "red", "yellow", "blue", "pink", "brown")
    ),
    "bird": ObjectKind(
        nature.bird, "sky", 0.17, 1.9, ("white", "grey", "black", "brown", "blue"), 3
    ),
    "boat": ObjectKind(artifacts.boat, "water", 0.36, 1.15, PAINTS, 2),
    "person": ObjectKind(
        artifacts.person,
        "ground",
        0.36,
        0.55,
        ("red", "blue", "green", "yellow", "purple", "pink"),
        2,
    ),
    "car": ObjectKind(artifacts.car, "ground", 0.17, 2.0, (*PAINTS, "black"), 2),
    "sun": ObjectKind(nature.sun, "sky", 0.21, 1.2),
    "moon": ObjectKind(nature.moon, "sky", 0.19, 1.1),
    "dog": ObjectKind(nature.dog, "ground", 0.29, 1.5, ("brown", "black", "white", "grey")),
    "cat": ObjectKind(nature.cat, "ground", 0.28, 0.8, FURS, 2),
    "flower": ObjectKind(
        nature.flower,
        "ground",
        0.33,
        0.7,
        ("red", "yellow", "pink", "purple", "white", "orange", "blue"),
        3,
    ),
    "fish": ObjectKind(
        nature.fish, "water", 0.15, 1.9, ("orange", "red", "yellow", "blue", "green"), 3
    ),
    "mountain": ObjectKind(nature.mountain, "horizon", 0.36, 2.2),
    "sheep": ObjectKind(nature.sheep, "ground", 0.22, 1.35, ("white", "grey", "brown"), 3),
    "bicycle": ObjectKind(
        artifacts.bicycle, "ground", 0.24, 1.8, ("red", "blue", "green", "yellow", "orange")
    ),
    "balloon": ObjectKind(nature.balloon, "sky", 0.32, 0.75, PAINTS[:6], 2),
    "butterfly": ObjectKind(
        nature.butterfly,
        "air",
        0.18,
        1.1,
        ("orange", "yellow", "blue", "purple", "white", "red"),
        2,
    ),
    "lighthouse": ObjectKind(
        artifacts.lighthouse, "coast", 0.50, 0.65, ("red", "blue", "black", "green")
    ),
    "snowman": ObjectKind(artifacts.snowman, "ground", 0.36, 0.75),
    "cactus": ObjectKind(nature.cactus, "ground", 0.38, 0.7, max_count=3),
    "train": ObjectKind(
        artifacts.train, "ground", 0.17, 3.2, ("red", "green", "blue", "black", "purple")
    ),
    "umbrella": ObjectKind(
        artifacts.umbrella,
        "ground",
        0.33,
        1.25,
        ("red", "blue", "yellow", "green", "purple", "pink"),
    ),
    "windmill": ObjectKind(
        artifacts.windmill, "ground", 0.46, 0.8, ("white", "brown", "red", "grey")
    ),
    "whale": ObjectKind(nature.whale, "water", 0.24, 2.1, ("blue", "grey", "black")),
}

# Drawn, but neither labelled nor mentioned in texts.
CLUTTER = {
    "cloud": ObjectKind(nature.cloud, "sky", 0.16, 2.0),
    "bush": ObjectKind(nature.bush, "ground", 0.11, 1.6),
    "stone": ObjectKind(nature.stone, "ground", 0.08, 1.7),
    "tuft": ObjectKind(nature.tuft, "ground", 0.07, 1.4),
    "lamp post": ObjectKind(artifacts.lamp_post, "ground", 0.42, 0.3),
    "fence": ObjectKind(artifacts.fence, "ground", 0.11, 3.2),
}
