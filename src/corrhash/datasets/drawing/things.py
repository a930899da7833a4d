"""The table of things: how each is drawn, where it stands, how big it is, in which colours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from corrhash.datasets.drawing import air, animals, made, nature
from corrhash.datasets.drawing.colours import Colour
from corrhash.datasets.drawing.pen import Pen

Draw = Callable[[Pen, Colour, np.random.Generator], None]


@dataclass(frozen=True)
class Thing:
    """What the picture's maker has to know about one kind of thing.

    ``zone`` is where it stands: "sky" and "air" things are placed by their middle, all others
    ("ground", "water", "coast", "horizon") by their foot. ``size`` is its height in a picture of
    height one, ``width`` its width in heights. Things with no ``colours`` choose their own and
    no caption names it. ``flock`` is the most that come together.
    """

    draw: Draw
    zone: str
    size: float
    width: float
    colours: tuple[str, ...] = ()
    flock: int = 1


PAINTS = ("red", "orange", "yellow", "green", "blue", "purple", "white")
FURS = ("brown", "black", "white", "grey", "orange")

THINGS = {
    "tree": Thing(nature.tree, "ground", 0.46, 0.75, flock=3),
    "house": Thing(
        made.house, "ground", 0.40, 1.1, ("white", "red", "yellow", "blue", "pink", "brown")
    ),
    "bird": Thing(air.bird, "sky", 0.17, 1.9, ("white", "grey", "black", "brown", "blue"), 3),
    "boat": Thing(made.boat, "water", 0.36, 1.15, PAINTS, 2),
    "person": Thing(
        made.person, "ground", 0.36, 0.55, ("red", "blue", "green", "yellow", "purple", "pink"), 2
    ),
    "car": Thing(made.car, "ground", 0.17, 2.0, (*PAINTS, "black"), 2),
    "sun": Thing(air.sun, "sky", 0.21, 1.2),
    "moon": Thing(air.moon, "sky", 0.19, 1.1),
    "dog": Thing(animals.dog, "ground", 0.29, 1.5, ("brown", "black", "white", "grey")),
    "cat": Thing(animals.cat, "ground", 0.28, 0.8, FURS, 2),
    "flower": Thing(
        nature.flower,
        "ground",
        0.33,
        0.7,
        ("red", "yellow", "pink", "purple", "white", "orange", "blue"),
        3,
    ),
    "fish": Thing(
        animals.fish, "water", 0.15, 1.9, ("orange", "red", "yellow", "blue", "green"), 3
    ),
    "mountain": Thing(nature.mountain, "horizon", 0.36, 2.2),
    "sheep": Thing(animals.sheep, "ground", 0.22, 1.35, ("white", "grey", "brown"), 3),
    "bicycle": Thing(
        made.bicycle, "ground", 0.24, 1.8, ("red", "blue", "green", "yellow", "orange")
    ),
    "balloon": Thing(air.balloon, "sky", 0.32, 0.75, PAINTS[:6], 2),
    "butterfly": Thing(
        air.butterfly, "air", 0.18, 1.1, ("orange", "yellow", "blue", "purple", "white", "red"), 2
    ),
    "lighthouse": Thing(made.lighthouse, "coast", 0.50, 0.65, ("red", "blue", "black", "green")),
    "snowman": Thing(made.snowman, "ground", 0.36, 0.75),
    "cactus": Thing(nature.cactus, "ground", 0.38, 0.7, flock=3),
    "train": Thing(made.train, "ground", 0.17, 3.2, ("red", "green", "blue", "black", "purple")),
    "umbrella": Thing(
        made.umbrella, "ground", 0.33, 1.25, ("red", "blue", "yellow", "green", "purple", "pink")
    ),
    "windmill": Thing(made.windmill, "ground", 0.46, 0.8, ("white", "brown", "red", "grey")),
    "whale": Thing(animals.whale, "water", 0.24, 2.1, ("blue", "grey", "black")),
}

# Drawn as well, but never labelled, tagged or told.
CLUTTER = {
    "cloud": Thing(air.cloud, "sky", 0.16, 2.0),
    "bush": Thing(nature.bush, "ground", 0.11, 1.6),
    "stone": Thing(nature.stone, "ground", 0.08, 1.7),
    "tuft": Thing(nature.tuft, "ground", 0.07, 1.4),
    "lamp post": Thing(made.lamp_post, "ground", 0.42, 0.3),
    "fence": Thing(made.fence, "ground", 0.11, 3.2),
}
