"""Composing a scene: which things go together, how large, how many and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from corrhash.datasets.drawing.scene import Placed, Scene
from corrhash.datasets.drawing.settings import SETTINGS
from corrhash.datasets.drawing.things import CLUTTER, THINGS, Thing

PLACES = {"sea": 0.20, "field": 0.20, "town": 0.18, "snow": 0.15, "river": 0.14, "desert": 0.13}
TIMES = {"day": 0.63, "dusk": 0.21, "night": 0.16}
N_KINDS = {1: 0.24, 2: 0.38, 3: 0.26, 4: 0.12}
FLOCKS = {1: 0.62, 2: 0.25, 3: 0.13}  # how many of a kind, where more may come
ZIPF = 0.6  # the kind of rank r among its setting's is chosen with weight r ** -ZIPF
MOST_COVERED = 0.28  # how much of the smaller of two things the other may hide
N_TRIES = 14

Key = TypeVar("Key")


def compose(rng: np.random.Generator) -> Scene:
    """A scene that makes sense: fish in the water, the sun in the sky, no sun at night.

    >>> scene = compose(np.random.default_rng(3))
    >>> len(scene.kinds()) in (1, 2, 3, 4)
    True
    """
    place, time = _choose(rng, PLACES), _choose(rng, TIMES)
    horizon = rng.uniform(*SETTINGS[place].horizon)
    beach = place == "river" or (place == "sea" and rng.random() < 0.55)
    shore = horizon + rng.uniform(0.42, 0.58) * (1 - horizon) if beach else 1.0
    names = _choose_kinds(rng, place, time, beach)
    zoom = rng.uniform(0.85, 1.25) * (1.35 - 0.1 * len(names))
    things: list[Placed] = []
    for name in names:
        colour = _choose_colour(rng, THINGS[name], time)
        things += _flock(rng, name, colour, things, horizon, shore, zoom)
    return Scene(
        place,
        time,
        horizon,
        shore,
        tuple(things),
        tuple(_clutter(rng, place, things, horizon, shore)),
        int(rng.integers(2**32)),
    )


def _choose(rng: np.random.Generator, weights: Mapping[Key, float]) -> Key:
    """One of the keys, as likely as its weight says."""
    keys = list(weights)
    total = np.cumsum(list(weights.values()))
    return keys[int(np.searchsorted(total, rng.random() * total[-1], side="right"))]


def _choose_kinds(rng: np.random.Generator, place: str, time: str, beach: bool) -> list[str]:
    """One to four kinds of things: Zipf's law over the setting's list, none twice."""
    absent = {"day": "moon", "night": "sun", "dusk": ""}[time]
    weights = {
        name: (rank + 1) ** -ZIPF
        for rank, name in enumerate(SETTINGS[place].things)
        if name != absent and (beach or place != "sea" or THINGS[name].zone != "ground")
    }
    names: list[str] = []
    for _ in range(_choose(rng, N_KINDS)):
        name = _choose(rng, weights)
        names.append(name)
        del weights[name]
        if name in ("sun", "moon"):  # never both
            weights.pop("moon", None)
            weights.pop("sun", None)
    return names


def _choose_colour(rng: np.random.Generator, thing: Thing, time: str) -> str:
    """One of the thing's colours, but nothing black at night, when it could not be seen."""
    colours = [name for name in thing.colours if time != "night" or name != "black"]
    return colours[int(rng.integers(len(colours)))] if colours else ""


def _flock(
    rng: np.random.Generator,
    name: str,
    colour: str,
    others: list[Placed],
    horizon: float,
    shore: float,
    zoom: float,
) -> list[Placed]:
    """One to three of a kind, in one colour; none at all where the picture is full."""
    thing = THINGS[name]
    flock: list[Placed] = []
    for _ in range(min(thing.flock, _choose(rng, FLOCKS))):
        for _ in range(N_TRIES):
            placed = _place(rng, name, thing, colour, horizon, shore, zoom)
            if all(_covered(placed, other) < MOST_COVERED for other in [*others, *flock]):
                flock.append(placed)
                break
    return flock


def _place(
    rng: np.random.Generator,
    name: str,
    thing: Thing,
    colour: str,
    horizon: float,
    shore: float,
    zoom: float,
) -> Placed:
    """A place where the thing could stand, larger the nearer it is."""
    low, high = _reach(thing, name, horizon, shore)
    y = rng.uniform(low, high)
    near = (y - horizon) / (1 - horizon)
    scale = 0.62 + 0.55 * near if thing.zone in ("ground", "water") else rng.uniform(0.75, 1.1)
    size = thing.size * zoom * scale * rng.uniform(0.88, 1.12)
    if thing.zone == "sky":
        y = max(y, 0.42 * size)
    margin = min(0.5, 0.38 * size * thing.width)
    return Placed(
        name,
        x=rng.uniform(margin, 1 - margin),
        y=y,
        size=size,
        colour=colour,
        mirrored=bool(rng.random() < 0.5),
        tilt=rng.normal(0, 0.16 if thing.zone in ("sky", "air", "water") else 0.04),
        seed=int(rng.integers(2**32)),
    )


def _reach(thing: Thing, name: str, horizon: float, shore: float) -> tuple[float, float]:
    """The highest and the lowest point of the picture where the thing's foot or middle may be."""
    if thing.zone == "sky":
        return 0.1, horizon - 0.06
    if thing.zone == "air":
        return horizon - 0.12, 0.82
    if thing.zone == "horizon":
        return horizon, horizon + 0.01
    if thing.zone == "coast":
        return horizon + 0.01, horizon + 0.07
    if thing.zone == "water":
        bottom = 0.97 if shore == 1 else shore - 0.02
        return (horizon + bottom) / 2 if name == "fish" else horizon + 0.08, bottom
    return (horizon if shore == 1 else shore) + 0.07, 0.97


def _covered(one: Placed, other: Placed) -> float:
    """The share of the smaller box that lies within the other."""
    a, b = one.box(), other.box()
    wide = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    tall = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    smaller = min((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return wide * tall / smaller


def _clutter(
    rng: np.random.Generator, place: str, things: list[Placed], horizon: float, shore: float
) -> list[Placed]:
    """Unlabelled company, which may hide a corner of a thing but not more."""
    kinds = SETTINGS[place].clutter
    clutter = []
    for _ in range(int(rng.integers(1, 8))):
        name = kinds[int(rng.integers(len(kinds)))]
        if name != "cloud" and place == "sea" and shore == 1:
            continue
        placed = _place(rng, name, CLUTTER[name], "", horizon, shore, rng.uniform(0.7, 1.3))
        if all(_covered(placed, other) < MOST_COVERED or name == "cloud" for other in things):
            clutter.append(placed)
    return clutter
