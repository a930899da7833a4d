"""Scene composition: which objects appear together, how many, how large and where."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from corrhash.datasets.scenes.objects import CLUTTER, OBJECTS
from corrhash.datasets.scenes.places import KERB, PLACES
from corrhash.datasets.scenes.scene import PlacedObject, Scene

PLACE_WEIGHTS = {
    "sea": 0.19,
    "field": 0.19,
    "town": 0.18,
    "snow": 0.15,
    "river": 0.15,
    "desert": 0.14,
}
TIME_WEIGHTS = {"day": 0.64, "dusk": 0.22, "night": 0.14}
OBJECT_COUNT_WEIGHTS = {1: 0.16, 2: 0.34, 3: 0.31, 4: 0.19}
GROUP_SIZE_WEIGHTS = {1: 0.62, 2: 0.25, 3: 0.13}  # for kinds that can appear in groups
ZIPF = 0.6  # the object of rank r in the list of a place has weight r ** -ZIPF
MAX_OVERLAP = 0.28  # share of the smaller of two bounding boxes
MAX_TRIES = 14
# Standard deviation of the tilt in radians, by zone; 0.03 in all others.
TILTS = {"sky": 0.14, "air": 0.3, "water": 0.07}
LUMINARIES = ("sun", "moon")  # placed above roofs and hills
LANES = {"car": "road", "bicycle": "road", "train": "road", "house": "kerb", "tree": "kerb"}

Key = TypeVar("Key")


@dataclass(frozen=True)
class Layout:
    """What is fixed before the first object is placed."""

    place: str
    time: str
    horizon: float
    shore: float  # y of the near bank; 1 if there is none
    zoom: float  # larger if there are few objects


def compose(rng: np.random.Generator) -> Scene:
    """Compose a plausible scene: fish are in the water, and the sun does not shine at night.

    >>> scene = compose(np.random.default_rng(3))
    >>> len(scene.object_names()) in (1, 2, 3, 4)
    True
    """
    place, time = _choose(rng, PLACE_WEIGHTS), _choose(rng, TIME_WEIGHTS)
    horizon = rng.uniform(*PLACES[place].horizon)
    has_shore = place == "river" or (place == "sea" and rng.random() < 0.55)
    shore = horizon + rng.uniform(0.42, 0.58) * (1 - horizon) if has_shore else 1.0
    names = _choose_names(rng, place, time, has_shore)
    zoom = rng.uniform(0.85, 1.25) * (1.35 - 0.1 * len(names))
    layout = Layout(place, time, horizon, shore, zoom)
    objects: list[PlacedObject] = []
    for name in names:
        objects += _place_group(rng, name, layout, objects)
    clutter = _place_clutter(rng, layout, objects)
    seed = int(rng.integers(2**32))
    return Scene(place, time, horizon, shore, tuple(objects), tuple(clutter), seed)


def _choose(rng: np.random.Generator, weights: Mapping[Key, float]) -> Key:
    """Draw a key with probability proportional to its weight."""
    threshold = rng.random() * sum(weights.values())
    totals = itertools.accumulate(weights.values())
    return next(key for key, total in zip(weights, totals, strict=True) if total > threshold)


def _choose_names(rng: np.random.Generator, place: str, time: str, has_shore: bool) -> list[str]:
    """Draw one to four kinds without replacement, by Zipf's law over the list of the place."""
    absent = {"day": "moon", "night": "sun", "dusk": ""}[time]
    open_sea = place == "sea" and not has_shore
    weights = {
        name: (rank + 1) ** -ZIPF
        for rank, name in enumerate(PLACES[place].objects.split())
        if name != absent and not (open_sea and OBJECTS[name].zone == "ground")
    }
    names: list[str] = []
    for _ in range(_choose(rng, OBJECT_COUNT_WEIGHTS)):
        name = _choose(rng, weights)
        names.append(name)
        for used in LUMINARIES if name in LUMINARIES else (name,):  # never sun and moon
            weights.pop(used, None)
    return names


def _place_group(
    rng: np.random.Generator, name: str, layout: Layout, others: list[PlacedObject]
) -> list[PlacedObject]:
    """Place one to three objects of a kind in one colour, or none if there is no room."""
    kind = OBJECTS[name]
    # Black objects would be invisible at night.
    colours = [name for name in kind.colours if layout.time != "night" or name != "black"]
    colour = colours[int(rng.integers(len(colours)))] if colours else ""
    group: list[PlacedObject] = []
    for _ in range(min(kind.max_count, _choose(rng, GROUP_SIZE_WEIGHTS))):
        for _ in range(MAX_TRIES):
            placed = _place(rng, name, colour, layout)
            if all(overlap(placed, other) < MAX_OVERLAP for other in [*others, *group]):
                group.append(placed)
                break
    return group


def _place(rng: np.random.Generator, name: str, colour: str, layout: Layout) -> PlacedObject:
    """Draw a position and a size; nearer objects are larger."""
    kind = OBJECTS.get(name) or CLUTTER[name]
    y = rng.uniform(*_y_range(name, kind.zone, layout))
    near = (y - layout.horizon) / (1 - layout.horizon)
    scale = 0.62 + 0.55 * near if kind.zone in ("ground", "water") else rng.uniform(0.75, 1.1)
    size = kind.size * layout.zoom * scale * rng.uniform(0.88, 1.12)
    if kind.zone == "sky":
        y = max(y, 0.42 * size)
    else:
        size = min(size, 0.98 * y)  # keeps its top inside the image
    margin = min(0.5, 0.38 * size * kind.width)
    return PlacedObject(
        name,
        x=rng.uniform(margin, 1 - margin),
        y=y,
        size=size,
        colour=colour,
        mirrored=bool(rng.random() < 0.5),
        tilt=rng.normal(0, TILTS.get(kind.zone, 0.03)),
        seed=int(rng.integers(2**32)),
    )


def _y_range(name: str, zone: str, layout: Layout) -> tuple[float, float]:
    """Return the range of y for the foot or centre of an object."""
    horizon, shore = layout.horizon, layout.shore
    bottom = 0.97 if shore == 1 else shore - 0.02
    kerb = horizon + KERB * (1 - horizon)
    lane = LANES.get(name, "") if layout.place == "town" else ""
    ground = (horizon if shore == 1 else shore) + 0.07
    return {
        "sky": (0.1, horizon - 0.06 if name not in LUMINARIES or layout.place == "sea" else 0.2),
        "air": (horizon - 0.12, 0.82),
        "horizon": (horizon, horizon + 0.01),
        "coast": (horizon + 0.01, horizon + 0.07),
        "water": ((horizon + bottom) / 2 if name == "fish" else horizon + 0.08, bottom),
        "ground": {"road": (kerb + 0.06, 0.96), "kerb": (horizon + 0.05, kerb + 0.01)}.get(
            lane, (ground, 0.97)
        ),
    }[zone]


def overlap(one: PlacedObject, other: PlacedObject) -> float:
    """Return the share of the smaller bounding box that lies inside the other."""
    a, b = one.box(), other.box()
    wide = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    tall = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    smaller = min((a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1]))
    return wide * tall / smaller


def _place_clutter(
    rng: np.random.Generator, layout: Layout, objects: list[PlacedObject]
) -> list[PlacedObject]:
    """Place unlabelled objects that hide labelled ones only slightly."""
    kinds = PLACES[layout.place].clutter
    clutter = []
    for _ in range(int(rng.integers(1, 8))):
        name = kinds[int(rng.integers(len(kinds)))]
        open_sea = layout.place == "sea" and layout.shore == 1
        placed = _place(rng, name, "", layout)
        hides = any(overlap(placed, other) > MAX_OVERLAP for other in objects)
        if not hides and not (open_sea and name != "cloud"):
            clutter.append(placed)
    return clutter
