"""A scene, the list of what stands where, and how the picture is drawn from that list alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corrhash.datasets.drawing.camera import photograph
from corrhash.datasets.drawing.colours import COLOURS, DARK, LIGHTS, WHITE, Colour
from corrhash.datasets.drawing.pen import Paper, Pen
from corrhash.datasets.drawing.settings import SETTINGS, draw_sky, draw_weather
from corrhash.datasets.drawing.things import CLUTTER, THINGS, Thing

DRAWN_AT = 2  # times the wanted size, then averaged: smooth edges
CENTRED = ("sky", "air")  # zones whose things are placed by their middle


@dataclass(frozen=True)
class Placed:
    """One thing in one picture; lengths are shares of the picture's height, y counts downwards."""

    name: str
    x: float
    y: float
    size: float
    colour: str  # a key of COLOURS, or "" where the thing chooses its own
    mirrored: bool
    tilt: float
    seed: int  # of the small variations of its form

    @property
    def thing(self) -> Thing:
        """Its line in the table."""
        return THINGS.get(self.name) or CLUTTER[self.name]

    def box(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom."""
        half = self.size * self.thing.width / 2
        bottom = self.y + (self.size / 2 if self.thing.zone in CENTRED else 0.0)
        return self.x - half, bottom - self.size, self.x + half, bottom


@dataclass(frozen=True)
class Scene:
    """All that a picture shows."""

    place: str
    time: str
    horizon: float
    shore: float  # where the near bank begins; 1 without one
    things: tuple[Placed, ...]
    clutter: tuple[Placed, ...]
    seed: int  # of sky, ground and camera

    def kinds(self) -> tuple[str, ...]:
        """The names of the labelled things, each once, in the order of placing."""
        return tuple(dict.fromkeys(placed.name for placed in self.things))


def draw(scene: Scene, size: int = 96) -> np.ndarray:
    """The picture of a scene, the same each time.

    Returns
    -------
    (size, size, 3) uint8
    """
    rng = np.random.default_rng(scene.seed)
    paper = Paper(DRAWN_AT * size, LIGHTS[scene.time])
    draw_sky(paper, scene.time, scene.horizon, rng)
    everything = sorted([*scene.clutter, *scene.things], key=_order)
    behind = [placed for placed in everything if _order(placed) < 0]
    for placed in behind:
        draw_thing(paper, scene, placed)
    SETTINGS[scene.place].draw(paper, scene.horizon, scene.shore, rng)
    _glitter(paper, scene, rng)
    for placed in everything[len(behind) :]:
        draw_thing(paper, scene, placed)
    draw_weather(paper, scene.place, rng)
    return photograph(paper.image, size, rng)


def _glitter(paper: Paper, scene: Scene, rng: np.random.Generator) -> None:
    """The path that sun or moon lays over water."""
    lights = [placed for placed in scene.things if placed.name in ("sun", "moon")]
    if not lights or scene.place not in ("sea", "river"):
        return
    pen, middle = paper.pen(), lights[0].x
    shine = (WHITE if scene.time != "dusk" else COLOURS["yellow"].mix(WHITE, 0.4)).lit().fade(150)
    top, bottom = scene.horizon + 0.06, min(1.0, scene.shore - 0.03)
    for share, aside in rng.random((22, 2)).tolist():
        v, reach = 1 - top - share * (bottom - top), 0.012 + 0.03 * share
        u = middle + (aside - 0.5) * (0.06 + 0.16 * share)
        pen.line([(u - reach, v), (u + reach, v)], shine, 0.007)


def _order(placed: Placed) -> float:
    """Far before near: sun, clouds, mountains, (the land), sky, then down the picture."""
    far = {"sun": -4.0, "moon": -4.0, "cloud": -3.0, "mountain": -2.0}
    if placed.name in far:
        return far[placed.name]
    return {"sky": 0.0, "air": 2.0}.get(placed.thing.zone, placed.y)


def draw_thing(paper: Paper, scene: Scene, placed: Placed) -> None:
    """One thing with its shadow or its mirror image in the water."""
    thing, near = placed.thing, (placed.y - scene.horizon) / (1 - scene.horizon)
    haze = {"ground": 0.3 * (1 - near), "horizon": 0.38, "coast": 0.1, "sky": 0.06}
    pen = Pen(
        paper,
        placed.x,
        placed.y,
        placed.size,
        placed.mirrored,
        placed.tilt,
        max(0.0, haze.get(thing.zone, 0.0)),
    )
    if thing.zone == "ground":
        pen.disc(0.05, 0.0, 0.45 * thing.width, DARK.fade(70), squash=0.16)
    if placed.name in ("boat", "whale", "lighthouse"):
        pen.disc(0.0, -0.05, 0.42 * thing.width, DARK.fade(60), squash=0.22)
    thing.draw(pen, _colour(scene, placed), np.random.default_rng(placed.seed))


def _colour(scene: Scene, placed: Placed) -> Colour:
    """The named colour; clutter takes on the setting's, clouds stay white."""
    if placed.colour:
        return COLOURS[placed.colour]
    return WHITE if placed.name == "cloud" else SETTINGS[scene.place].growth
