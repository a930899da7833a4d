"""Places: backgrounds of sky, land and water, and the objects found there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from corrhash.datasets.scenes.drawing import LAMP, STEEL, WHITE, Canvas, Colour, Pen, pick

# Gradients from the top of the sky to the horizon; the light is already included.
SKIES = {
    "day": (
        (Colour(74, 140, 214), Colour(186, 220, 240)),
        (Colour(110, 170, 226), Colour(226, 238, 242)),
        (Colour(150, 164, 180), Colour(214, 218, 220)),
        (Colour(60, 116, 190), Colour(140, 196, 226), Colour(244, 232, 208)),
    ),
    "dusk": (
        (Colour(76, 70, 130), Colour(206, 112, 122), Colour(252, 186, 106)),
        (Colour(120, 96, 152), Colour(240, 150, 120), Colour(255, 214, 150)),
        (Colour(60, 84, 140), Colour(216, 142, 140), Colour(250, 160, 90)),
    ),
    "night": (
        (Colour(12, 16, 44), Colour(38, 52, 96)),
        (Colour(8, 10, 28), Colour(28, 36, 66)),
        (Colour(26, 20, 56), Colour(70, 58, 104)),
    ),
}

KERB = 0.4  # where the street of a town begins, from horizon (0) to bottom edge (1)
ACROSS = np.linspace(0, 1, 17).tolist()


def draw_sky(canvas: Canvas, time: str, horizon: float, rng: np.random.Generator) -> None:
    """Draw the sky down to the horizon, with stars at night."""
    skies = SKIES[time]
    colours = [colour.lit() for colour in skies[int(rng.integers(len(skies)))]]
    canvas.gradient(0.0, min(1.0, horizon + 0.02), colours, rng, rough=4.0, grain=(4, 5))
    if time == "night":
        pen = canvas.pen()
        for u, v, bright in rng.random((int(rng.integers(15, 45)), 3)).tolist():
            pen.dot(u, 1 - v * horizon, 0.002 + 0.004 * bright, WHITE.lit().fade(160))


def ridge(
    pen: Pen, height: float, swing: float, colour: Colour, rng: np.random.Generator, waves: float
) -> None:
    """Fill land from a wavy crest down to the bottom edge."""
    first, second = rng.uniform(0, 2 * math.pi, 2)
    crest = [
        (u, height + swing * (math.sin(waves * 6 * u + first) + 0.4 * math.sin(13 * u + second)))
        for u in ACROSS
    ]
    pen.poly([(0, 0), *crest, (1, 0)], colour)


def specks(
    pen: Pen, top: float, colour: Colour, n: int, length: float, rng: np.random.Generator
) -> None:
    """Draw short horizontal strokes, longer if nearer: waves, ripples in sand, grass."""
    for u, t in rng.random((n, 2)).tolist():
        near = 0.25 + 0.75 * t
        v = top * (1 - t) - 0.01
        reach = length * near
        pen.line([(u - reach, v), (u, v + 0.008 * near), (u + reach, v)], colour, 0.009 * near)


def draw_sea(canvas: Canvas, horizon: float, shore: float, rng: np.random.Generator) -> None:
    """Draw water from the horizon to the shore, and sand below it."""
    deep = pick(rng, (Colour(34, 92, 148), Colour(40, 122, 150), Colour(60, 104, 132)))
    far = deep.mix(Colour(190, 214, 224), 0.35)
    canvas.gradient(horizon, 1.0, [far, deep, deep.shade(0.8)], rng, rough=7.0, grain=(9, 3))
    pen = canvas.pen()
    specks(pen, 1 - horizon, WHITE.fade(110), 26, 0.045, rng)
    specks(pen, 1 - horizon, deep.shade(0.6).fade(110), 18, 0.05, rng)
    if shore < 1:
        sand = pick(rng, (Colour(226, 204, 152), Colour(208, 184, 146), Colour(234, 220, 184)))
        ridge(pen, 1 - shore + 0.016, 0.012, WHITE.fade(200), rng, 1.5)
        ridge(pen, 1 - shore, 0.012, sand.shade(0.86), rng, 1.5)
        ridge(pen, 1 - shore - 0.03, 0.01, sand, rng, 1.5)
        specks(pen, 1 - shore - 0.04, sand.shade(0.85), 14, 0.03, rng)


def draw_river(canvas: Canvas, horizon: float, shore: float, rng: np.random.Generator) -> None:
    """Draw water between two green banks, with reeds along the nearer one."""
    grass = pick(rng, (Colour(104, 156, 74), Colour(130, 160, 76), Colour(84, 138, 84)))
    pen, bank = canvas.pen(), 1 - shore
    ridge(pen, 1 - horizon + 0.05, 0.03, grass.mix(Colour(120, 150, 170), 0.35), rng, 0.8)
    ridge(pen, 1 - horizon, 0.012, grass.shade(0.85), rng, 0.7)
    water = pick(rng, (Colour(70, 128, 150), Colour(92, 140, 146), Colour(64, 110, 138)))
    canvas.gradient(
        horizon + 0.05,
        1.0,
        [water.shade(0.85), water.mix(WHITE, 0.15), water],
        rng,
        rough=8.0,
        grain=(9, 4),
    )
    specks(pen, 0.95 - horizon, WHITE.fade(90), 22, 0.04, rng)
    ridge(pen, bank + 0.014, 0.02, Colour(120, 96, 66), rng, 0.6)
    ridge(pen, bank, 0.02, grass, rng, 0.6)
    for u, lean in rng.uniform((0, -0.02), (1, 0.02), (24, 2)).tolist():
        pen.line([(u, bank - 0.02), (u + lean, bank + 0.05)], grass.shade(0.7), 0.008)
    specks(pen, bank - 0.02, grass.shade(0.8), 18, 0.014, rng)


def draw_field(canvas: Canvas, horizon: float, shore: float, rng: np.random.Generator) -> None:
    """Draw hills behind a meadow, sometimes with a path."""
    grass = pick(
        rng, (Colour(112, 166, 70), Colour(142, 172, 74), Colour(88, 146, 78), Colour(176, 170, 84))
    )
    pen = canvas.pen()
    for step in range(int(rng.integers(1, 4)), 0, -1):
        tone = grass.mix(Colour(120, 150, 170), 0.2 * step + 0.1)
        ridge(pen, 1 - horizon + 0.035 * step, 0.03, tone, rng, rng.uniform(0.5, 1.2))
    canvas.gradient(
        horizon,
        1.0,
        [grass.mix(WHITE, 0.15), grass, grass.shade(0.8)],
        rng,
        rough=9.0,
        grain=(7, 4),
    )
    if rng.random() < 0.35:
        foot, top = rng.uniform(0.1, 0.9), rng.uniform(0.3, 0.7)
        bend = (foot + top) / 2 + rng.uniform(-0.15, 0.15)
        mid, ground = (1 - horizon) * 0.5, 1 - horizon
        pen.blob(
            [
                (foot - 0.14, -0.1),
                (bend - 0.04, mid),
                (top, ground),
                (top + 0.01, ground),
                (bend + 0.06, mid),
                (foot + 0.14, -0.1),
            ],
            Colour(206, 184, 140),
        )
    specks(pen, 1 - horizon, grass.shade(0.8), 26, 0.014, rng)
    specks(pen, 1 - horizon, grass.shade(1.2), 20, 0.014, rng)


def draw_town(canvas: Canvas, horizon: float, shore: float, rng: np.random.Generator) -> None:
    """Draw a row of tall buildings, a pavement and a street."""
    pen, base = canvas.pen(), 1 - horizon
    u = rng.uniform(-0.1, 0.0)
    while u < 1:
        wide, tall = rng.uniform(0.09, 0.2), rng.uniform(0.16, 0.56) * horizon
        _building(pen, u, base, wide, tall, rng)
        u += wide + 0.02 * int(rng.integers(3))
    stone = pick(rng, (Colour(176, 172, 168), Colour(190, 178, 160), Colour(160, 164, 172)))
    canvas.gradient(horizon, 1.0, [stone, stone.shade(0.92)], rng, rough=5.0)
    kerb = horizon + KERB * (1 - horizon)
    road = pick(rng, (Colour(98, 98, 104), Colour(84, 88, 98), Colour(120, 112, 108)))
    canvas.gradient(kerb, 1.0, [road.shade(1.1), road], rng, rough=5.0)
    pen.line([(0, 1 - kerb), (1, 1 - kerb)], stone.shade(1.15), 0.012)
    dash = (1 - kerb) * rng.uniform(0.3, 0.55)
    for start in np.arange(rng.uniform(-0.2, 0.0), 1, 0.24).tolist():
        pen.line([(start, dash), (start + 0.12, dash)], WHITE.fade(200), 0.016)


def _building(
    pen: Pen, u: float, base: float, wide: float, tall: float, rng: np.random.Generator
) -> None:
    wall = pick(
        rng,
        (
            Colour(168, 150, 140),
            Colour(150, 160, 172),
            Colour(184, 168, 150),
            Colour(140, 130, 138),
            Colour(172, 132, 116),
        ),
    )
    wall = wall.mix(pen.light.haze, 0.12)
    pen.box(u, base - 0.01, u + wide, base + tall, wall)
    pane = wall.shade(0.72)
    for row in np.arange(base + 0.03, base + tall - 0.03, 0.06).tolist():
        for column in np.arange(u + 0.016, u + wide - 0.025, 0.042).tolist():
            lit = pen.light.dark and rng.random() < 0.4
            pen.box(column, row, column + 0.02, row + 0.03, LAMP.fade(220) if lit else pane)


def draw_snow(canvas: Canvas, horizon: float, shore: float, rng: np.random.Generator) -> None:
    """Draw snowdrifts with blue shadows under white hills."""
    snow, shadow = Colour(228, 234, 246), Colour(178, 196, 224)
    pen = canvas.pen()
    for step in (3, 2, 1):
        tone = shadow.mix(snow, 0.25 * (3 - step))
        ridge(pen, 1 - horizon + 0.035 * step, 0.03, tone, rng, rng.uniform(0.5, 1.2))
    canvas.gradient(
        horizon, 1.0, [snow, snow.shade(0.97), shadow.mix(snow, 0.4)], rng, rough=6.0, grain=(5, 4)
    )
    for share in rng.uniform(0.1, 0.8, 2):
        ridge(
            pen,
            (1 - horizon) * share,
            0.02,
            snow.mix(shadow, rng.uniform(0, 0.5)).fade(150),
            rng,
            0.8,
        )
    specks(pen, 1 - horizon, shadow, 12, 0.03, rng)


def draw_desert(canvas: Canvas, horizon: float, shore: float, rng: np.random.Generator) -> None:
    """Draw rows of dunes with lit crests."""
    sand = pick(rng, (Colour(226, 178, 110), Colour(214, 152, 92), Colour(236, 204, 142)))
    pen = canvas.pen()
    for step in (2, 1):
        tone = sand.mix(Colour(200, 150, 140), 0.22 * step)
        ridge(pen, 1 - horizon + 0.04 * step, 0.035, tone, rng, rng.uniform(0.6, 1.1))
    canvas.gradient(
        horizon, 1.0, [sand.shade(1.06), sand, sand.shade(0.88)], rng, rough=6.0, grain=(6, 3)
    )
    for share in (0.72, 0.4):
        tone = sand.shade(rng.uniform(0.86, 1.06))
        ridge(pen, (1 - horizon) * share, 0.03, tone.fade(170), rng, rng.uniform(0.5, 1.0))
    specks(pen, 1 - horizon, sand.shade(0.82), 22, 0.04, rng)


def draw_weather(canvas: Canvas, place: str, rng: np.random.Generator) -> None:
    """Draw falling snow in front of a snow scene."""
    if place != "snow" or rng.random() < 0.4:
        return
    pen = canvas.pen()
    for u, v, near in rng.random((int(rng.integers(20, 70)), 3)).tolist():
        pen.dot(u, v, 0.004 + 0.006 * near, WHITE.lit().fade(210))


@dataclass(frozen=True)
class Place:
    """A kind of place: its background and its objects."""

    draw: Callable[[Canvas, float, float, np.random.Generator], None]
    horizon: tuple[float, float]  # range of the height of the sky, as a share of the image
    objects: str  # space-separated names, most frequent first
    clutter: tuple[str, ...]
    clutter_colour: Colour  # of bushes, stones and grass


PLACES = {
    "sea": Place(
        draw_sea,
        (0.36, 0.52),
        "boat bird lighthouse fish sun whale moon person umbrella dog mountain balloon",
        ("cloud", "stone"),
        Colour(150, 140, 120),
    ),
    "field": Place(
        draw_field,
        (0.40, 0.58),
        "tree house flower sheep bird windmill butterfly dog sun moon balloon cat bicycle train "
        "person mountain",
        ("cloud", "bush", "tuft", "fence", "stone", "tuft"),
        Colour(84, 136, 64),
    ),
    "town": Place(
        draw_town,
        (0.42, 0.56),
        "car person house bicycle cat tree train umbrella dog moon balloon bird sun",
        ("cloud", "lamp post", "bush", "lamp post"),
        Colour(86, 124, 74),
    ),
    "river": Place(
        draw_river,
        (0.34, 0.48),
        "tree boat house fish flower bird windmill umbrella butterfly bicycle sheep moon dog sun "
        "mountain cat balloon person",
        ("cloud", "bush", "tuft", "stone"),
        Colour(92, 134, 70),
    ),
    "snow": Place(
        draw_snow,
        (0.38, 0.56),
        "snowman tree house mountain person bird train moon dog cat sun",
        ("cloud", "bush", "stone", "fence"),
        Colour(214, 224, 238),
    ),
    "desert": Place(
        draw_desert,
        (0.36, 0.54),
        "cactus sun car mountain balloon butterfly moon person umbrella bicycle bird",
        ("cloud", "stone", "tuft", "bush", "stone"),
        STEEL.mix(Colour(190, 160, 90), 0.8),
    ),
}
