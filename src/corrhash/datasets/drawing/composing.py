"""Composing a scene: which things go together, how large, how many and where."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from corrhash.datasets.drawing.scene import Placed, Scene
from corrhash.datasets.drawing.settings import KERB, SETTINGS
from corrhash.datasets.drawing.things import CLUTTER, THINGS

PLACES = {"sea": 0.19, "field": 0.19, "town": 0.18, "snow": 0.15, "river": 0.15, "desert": 0.14}
TIMES = {"day": 0.64, "dusk": 0.22, "night": 0.14}
N_KINDS = {1: 0.16, 2: 0.34, 3: 0.31, 4: 0.19}
FLOCKS = {1: 0.62, 2: 0.25, 3: 0.13}  # how many of a kind, where more may come
ZIPF = 0.6  # the kind of rank r among its setting's is chosen with weight r ** -ZIPF
MOST_COVERED = 0.28  # how much of the smaller of two things the other may hide
N_TRIES = 14
# How much a thing leans, in radians: those that fly or float lean more than those that stand.
LEANS = {"sky": 0.14, "air": 0.3, "water": 0.07}
HIGH = ("sun", "moon")  # above roofs and hills, behind which they would vanish
LANES = {"car": "road", "bicycle": "road", "train": "road", "house": "kerb", "tree": "kerb"}

Key = TypeVar("Key")


@dataclass(frozen=True)
class Frame:
    """What is settled before the first thing is placed."""

    place: str
    time: str
    horizon: float
    shore: float  # where the near bank begins; 1 without one
    zoom: float  # large when few things share the picture


def compose(rng: np.random.Generator) -> Scene:
    """A scene that makes sense: fish in the water, the sun in the sky, no sun at night.

    >>> scene = compose(np.random.default_rng(3))
    >>> len(scene.kinds()) in (1, 2, 3, 4)
    True
    """
    place, time = _choose(rng, PLACES), _choose(rng, TIMES)
    horizon = rng.uniform(*SETTINGS[place].horizon)
    banked = place == "river" or (place == "sea" and rng.random() < 0.55)
    shore = horizon + rng.uniform(0.42, 0.58) * (1 - horizon) if banked else 1.0
    names = _choose_kinds(rng, place, time, banked)
    zoom = rng.uniform(0.85, 1.25) * (1.35 - 0.1 * len(names))
    frame = Frame(place, time, horizon, shore, zoom)
    things: list[Placed] = []
    for name in names:
        things += _flock(rng, name, frame, things)
    clutter = _clutter(rng, frame, things)
    seed = int(rng.integers(2**32))
    return Scene(place, time, horizon, shore, tuple(things), tuple(clutter), seed)


def _choose(rng: np.random.Generator, weights: Mapping[Key, float]) -> Key:
    """One of the keys, as likely as its weight says."""
    mark = rng.random() * sum(weights.values())
    reached = itertools.accumulate(weights.values())
    return next(key for key, total in zip(weights, reached, strict=True) if total > mark)


def _choose_kinds(rng: np.random.Generator, place: str, time: str, banked: bool) -> list[str]:
    """One to four kinds of things: Zipf's law over the setting's list, none twice."""
    absent = {"day": "moon", "night": "sun", "dusk": ""}[time]
    afloat = place == "sea" and not banked
    weights = {
        name: (rank + 1) ** -ZIPF
        for rank, name in enumerate(SETTINGS[place].things.split())
        if name != absent and not (afloat and THINGS[name].zone == "ground")
    }
    names: list[str] = []
    for _ in range(_choose(rng, N_KINDS)):
        name = _choose(rng, weights)
        names.append(name)
        for gone in HIGH if name in HIGH else (name,):  # never sun and moon
            weights.pop(gone, None)
    return names


def _flock(rng: np.random.Generator, name: str, frame: Frame, others: list[Placed]) -> list[Placed]:
    """One to three of a kind, in one colour; none at all where the picture is full."""
    thing = THINGS[name]
    # Nothing is black at night, when it could not be seen.
    colours = [name for name in thing.colours if frame.time != "night" or name != "black"]
    colour = colours[int(rng.integers(len(colours)))] if colours else ""
    flock: list[Placed] = []
    for _ in range(min(thing.flock, _choose(rng, FLOCKS))):
        for _ in range(N_TRIES):
            placed = _place(rng, name, colour, frame)
            if all(covered(placed, other) < MOST_COVERED for other in [*others, *flock]):
                flock.append(placed)
                break
    return flock


def _place(rng: np.random.Generator, name: str, colour: str, frame: Frame) -> Placed:
    """A place where the thing could stand, larger the nearer it is."""
    thing = THINGS.get(name) or CLUTTER[name]
    y = rng.uniform(*_reach(name, thing.zone, frame))
    near = (y - frame.horizon) / (1 - frame.horizon)
    scale = 0.62 + 0.55 * near if thing.zone in ("ground", "water") else rng.uniform(0.75, 1.1)
    size = thing.size * frame.zoom * scale * rng.uniform(0.88, 1.12)
    if thing.zone == "sky":
        y = max(y, 0.42 * size)
    else:
        size = min(size, 0.98 * y)  # its top stays in the picture
    margin = min(0.5, 0.38 * size * thing.width)
    return Placed(
        name,
        x=rng.uniform(margin, 1 - margin),
        y=y,
        size=size,
        colour=colour,
        mirrored=bool(rng.random() < 0.5),
        tilt=rng.normal(0, LEANS.get(thing.zone, 0.03)),
        seed=int(rng.integers(2**32)),
    )


def _reach(name: str, zone: str, frame: Frame) -> tuple[float, float]:
    """The highest and the lowest point of the picture where the thing's foot or middle may be."""
    horizon, shore = frame.horizon, frame.shore
    bottom = 0.97 if shore == 1 else shore - 0.02
    kerb = horizon + KERB * (1 - horizon)
    lane = LANES.get(name, "") if frame.place == "town" else ""
    ground = (horizon if shore == 1 else shore) + 0.07
    return {
        "sky": (0.1, horizon - 0.06 if name not in HIGH or frame.place == "sea" else 0.2),
        "air": (horizon - 0.12, 0.82),
        "horizon": (horizon, horizon + 0.01),
        "coast": (horizon + 0.01, horizon + 0.07),
        "water": ((horizon + bottom) / 2 if name == "fish" else horizon + 0.08, bottom),
        "ground": {"road": (kerb + 0.06, 0.96), "kerb": (horizon + 0.05, kerb + 0.01)}.get(
            lane, (ground, 0.97)
        ),
    }[zone]


def covered(one: Placed, other: Placed) -> float:
    """The share of the smaller box that lies within the other."""
    a, b = one.box(), other.box()
    wide = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    tall = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    smaller = min((a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1]))
    return wide * tall / smaller


def _clutter(rng: np.random.Generator, frame: Frame, things: list[Placed]) -> list[Placed]:
    """Unlabelled company, which may hide a corner of a thing but not more."""
    kinds = SETTINGS[frame.place].clutter
    clutter = []
    for _ in range(int(rng.integers(1, 8))):
        name = kinds[int(rng.integers(len(kinds)))]
        afloat = frame.place == "sea" and frame.shore == 1
        placed = _place(rng, name, "", frame)
        hides = any(covered(placed, other) > MOST_COVERED for other in things)
        if not hides and not (afloat and name != "cloud"):
            clutter.append(placed)
    return clutter
