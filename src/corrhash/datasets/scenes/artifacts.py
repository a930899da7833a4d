"""Drawing functions of people and man-made objects, from the foot up, facing right."""

from __future__ import annotations

import math

import numpy as np

from corrhash.datasets.scenes.drawing import (
    COLOURS,
    CREAM,
    DARK,
    GLASS,
    LAMP,
    SKIN,
    STEEL,
    WHITE,
    WOOD,
    Colour,
    Pen,
    pick,
)

ROOFS = (Colour(168, 72, 54), Colour(92, 84, 92), Colour(120, 74, 50), Colour(70, 96, 120))


def _pane(pen: Pen) -> Colour:
    """Return the colour of windows: bluish by day, lit in the dark."""
    return LAMP if pen.light.dark else GLASS


def boat(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A coloured hull under sails, or with a wheelhouse."""
    hull = [(-0.52, 0.26), (0.6, 0.28), (0.42, 0.0), (-0.4, 0.0)]
    if rng.random() < 0.75:
        sail = pick(rng, (WHITE, CREAM, WHITE, colour.mix(WHITE, 0.55)))
        pen.line([(0, 0.2), (0, 1.02)], WOOD, 0.03)
        pen.blob([(0.04, 0.34), (0.05, 0.98), (0.06, 0.98), (0.26, 0.62), (0.48, 0.34)], sail)
        pen.poly([(-0.04, 0.34), (-0.04, 0.88), (-0.4, 0.34)], sail.shade(0.84))
        pen.poly([(0, 1.02), (0, 0.95), (-0.14, 0.98)], colour)
    else:
        pen.box(-0.28, 0.24, 0.14, 0.56, WHITE)
        pen.box(-0.32, 0.54, 0.2, 0.61, colour.shade(0.75))
        for u in (-0.2, -0.02):
            pen.box(u, 0.36, u + 0.11, 0.48, _pane(pen))
        pen.line([(-0.12, 0.6), (-0.12, 0.92)], DARK, 0.035)
        pen.line([(0.34, 0.26), (-0.12, 0.88)], DARK, 0.016)
    pen.poly(hull, colour)
    pen.poly([(-0.49, 0.21), (0.565, 0.21), (0.54, 0.155), (-0.47, 0.155)], WHITE)
    pen.poly([(-0.43, 0.06), (0.46, 0.06), (0.42, 0), (-0.4, 0)], colour.shade(0.6))
    pen.curve([(-0.66, 0.0), (-0.2, 0.04), (0.25, -0.02), (0.7, 0.03)], WHITE.fade(190), 0.04)


def lighthouse(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A banded tower on a rock, with beams of light in the dark."""
    pen.blob(
        [(-0.42, -0.02), (-0.3, 0.12), (0.0, 0.16), (0.28, 0.13), (0.44, -0.02)], Colour(98, 92, 92)
    )
    if pen.light.dark:
        for side in (-1.0, 1.0):
            pen.poly([(0, 0.86), (side * 1.5, 1.06), (side * 1.5, 0.72)], LAMP.fade(60))
    pen.poly([(-0.17, 0.1), (0.17, 0.1), (0.1, 0.78), (-0.1, 0.78)], WHITE)
    n_bands, lift = int(rng.integers(2, 5)), rng.uniform(0.12, 0.2)
    tall = 0.34 / n_bands
    for low in np.linspace(lift, 0.76 - tall, n_bands).tolist():
        wide, slim = 0.17 - 0.103 * (low - 0.1), 0.17 - 0.103 * (low + tall - 0.1)
        pen.poly([(-wide, low), (wide, low), (slim, low + tall), (-slim, low + tall)], colour)
    pen.poly([(0.06, 0.1), (0.17, 0.1), (0.1, 0.78), (0.04, 0.78)], DARK.fade(46))
    pen.box(-0.14, 0.77, 0.14, 0.81, DARK)
    pen.box(-0.08, 0.81, 0.08, 0.92, LAMP)
    pen.poly([(-0.11, 0.91), (0.11, 0.91), (0, 1.02)], colour.shade(0.8))


def house(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """Painted walls, a gable or hipped roof, chimney, door and windows."""
    roof = pick(rng, tuple(tone for tone in ROOFS if tone.red < 150 or colour.red < 180))
    half, eaves = rng.uniform(0.4, 0.54), rng.uniform(0.5, 0.58)
    chimney = half * (-0.55 if rng.random() < 0.5 else 0.4)
    pen.box(chimney, 0.6, chimney + 0.13, 1.0, roof.shade(0.7))
    pen.box(-half, 0.0, half, eaves, colour)
    pen.box(half * 0.6, 0.0, half, eaves, DARK.fade(26))
    if rng.random() < 0.5:
        pen.poly([(-half, eaves), (half, eaves), (0, 0.94)], colour)
        pen.line([(-half - 0.08, eaves - 0.05), (0, 0.95), (half + 0.08, eaves - 0.05)], roof, 0.1)
        pen.disc(0, eaves + 0.13, 0.07, _pane(pen))
    else:
        pen.poly(
            [(-half - 0.09, eaves), (half + 0.09, eaves), (half - 0.1, 0.9), (-half + 0.1, 0.9)],
            roof,
        )
        pen.poly(
            [
                (-half - 0.09, eaves),
                (half + 0.09, eaves),
                (half + 0.06, eaves + 0.06),
                (-half - 0.06, eaves + 0.06),
            ],
            roof.shade(0.75),
        )
    pen.box(-0.08, 0.0, 0.1, 0.34, WOOD if colour != COLOURS["brown"] else CREAM)
    for u in (-half * 0.85, half * 0.4):
        pen.box(u, 0.2, u + 0.18, 0.4, WHITE)
        pen.box(u + 0.02, 0.22, u + 0.16, 0.38, _pane(pen))
        pen.line([(u + 0.09, 0.22), (u + 0.09, 0.38)], WHITE, 0.02)


def windmill(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A tapering tower with a cap and four sails at any angle."""
    pen.poly([(-0.24, 0), (0.24, 0), (0.14, 0.62), (-0.14, 0.62)], colour)
    pen.poly([(0.08, 0), (0.24, 0), (0.14, 0.62), (0.05, 0.62)], DARK.fade(40))
    pen.blob([(-0.17, 0.6), (-0.1, 0.74), (0.1, 0.74), (0.17, 0.6)], pick(rng, ROOFS))
    pen.box(-0.06, 0, 0.07, 0.17, WOOD)
    pen.box(-0.04, 0.32, 0.05, 0.42, _pane(pen))
    start = rng.uniform(0, math.pi / 2)
    for angle in (start + np.arange(4) * math.pi / 2).tolist():
        cos, sin = math.cos(angle), math.sin(angle)
        blade = [(0.1, 0.0), (0.1, 0.11), (0.46, 0.13), (0.46, 0.0)]
        pen.poly([(a * cos - b * sin, 0.66 + a * sin + b * cos) for a, b in blade], CREAM)
        pen.line([(0, 0.66), (0.48 * cos, 0.66 + 0.48 * sin)], WOOD, 0.03)
    pen.disc(0, 0.66, 0.05, DARK)


def _wheel(pen: Pen, u: float, radius: float) -> None:
    pen.disc(u, radius, radius, DARK)
    pen.disc(u, radius, radius * 0.5, COLOURS["grey"].shade(1.3))


def car(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """In profile: a saloon, a hatchback or a van."""
    front, back = {
        0: ((0.5, 0.3), (-0.5, -0.66)),
        1: ((0.5, 0.24), (-0.82, -0.9)),
        2: ((0.78, 0.6), (-0.92, -0.94)),
    }[int(rng.integers(3))]
    sill, belt, roof = 0.18, 0.58, 1.0
    pen.poly([(back[1], belt), (back[0], roof), (front[1], roof), (front[0], belt)], colour)
    pen.poly(
        [(back[1] + 0.1, belt), (back[0] + 0.06, roof - 0.1), (-0.14, roof - 0.1), (-0.14, belt)],
        _pane(pen),
    )
    pen.poly(
        [(-0.06, belt), (-0.06, roof - 0.1), (front[1] - 0.04, roof - 0.1), (front[0] - 0.1, belt)],
        _pane(pen),
    )
    pen.blob(
        [
            (-1.0, sill),
            (-1.0, belt - 0.02),
            (-0.9, belt + 0.04),
            (0.6, belt + 0.02),
            (0.97, belt - 0.1),
            (1.0, sill),
        ],
        colour,
    )
    pen.box(-0.98, sill, 0.98, sill + 0.09, colour.shade(0.62))
    pen.line([(-0.1, sill + 0.1), (-0.1, belt)], colour.shade(0.7), 0.025)
    pen.disc(0.93, 0.42, 0.07, LAMP)
    pen.box(-1.0, 0.36, -0.93, 0.48, COLOURS["red"])
    for u in (-0.58, 0.6):
        _wheel(pen, u, 0.21)


def train(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A steam engine with smoke and a carriage on rails."""
    pen.line([(-1.9, 0.0), (1.5, 0.0)], STEEL.shade(0.7), 0.06)
    for u, v, radius in ((0.7, 1.12, 0.15), (0.45, 1.26, 0.19), (0.1, 1.36, 0.22)):
        pen.disc(u, v, radius * rng.uniform(0.8, 1.15), WHITE.fade(200))
    other = pick(rng, (colour.shade(0.75), CREAM, COLOURS["brown"]))
    pen.box(-1.72, 0.2, -0.5, 0.76, other)
    pen.box(-1.78, 0.74, -0.44, 0.84, colour.shade(0.6))
    for u in (-1.6, -1.22, -0.84):
        pen.box(u, 0.42, u + 0.24, 0.64, _pane(pen))
    pen.box(-0.5, 0.24, -0.3, 0.32, DARK)
    pen.box(-0.32, 0.2, 0.2, 0.92, colour)
    pen.box(-0.38, 0.9, 0.26, 1.0, DARK)
    pen.box(-0.18, 0.56, 0.08, 0.8, _pane(pen))
    pen.box(0.18, 0.24, 0.98, 0.64, colour)
    pen.box(0.18, 0.24, 1.0, 0.34, colour.shade(0.6))
    pen.disc(0.98, 0.45, 0.19, DARK, squash=1.05)
    pen.poly([(0.68, 0.6), (0.86, 0.6), (0.92, 0.96), (0.62, 0.96)], DARK)
    pen.disc(0.42, 0.64, 0.1, COLOURS["yellow"])
    pen.poly([(1.0, 0.3), (1.26, 0.06), (1.0, 0.06)], COLOURS["red"].shade(0.8))
    for u, radius in ((-1.5, 0.14), (-0.76, 0.14), (-0.1, 0.2), (0.36, 0.16), (0.76, 0.16)):
        _wheel(pen, u, radius)


def bicycle(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """Two wheels, a painted frame, saddle and handlebar."""
    hub, saddle, head = (0.02, 0.32), (-0.16, 0.74), (0.42, 0.78)
    for u in (-0.56, 0.56):
        pen.ring(u, 0.34, 0.34, DARK, 0.07)
        for angle in (rng.uniform(0, math.pi) + np.arange(2) * math.pi / 2).tolist():
            cos, sin = 0.31 * math.cos(angle), 0.31 * math.sin(angle)
            pen.line([(u - cos, 0.34 - sin), (u + cos, 0.34 + sin)], STEEL.fade(150), 0.015)
    pen.line([(-0.56, 0.34), hub, head, saddle, (-0.56, 0.34)], colour, 0.085)
    pen.line([hub, (-0.2, 0.88)], colour, 0.085)
    pen.line([(0.56, 0.34), (0.38, 0.98)], colour, 0.085)
    pen.line([(0.28, 1.0), (0.4, 0.98), (0.54, 1.02)], DARK, 0.07)
    pen.line([(-0.36, 0.92), (-0.08, 0.9)], DARK, 0.1)
    pen.disc(*hub, 0.08, DARK)


def umbrella(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """Open on its pole, with panels in two colours."""
    other = pick(rng, (WHITE, CREAM, colour.shade(0.66), colour.shade(0.66)))
    pen.line([(0, 0), (0, 1.0)], WOOD, 0.04)
    edges = np.linspace(-0.62, 0.62, 6).tolist()
    dome = [(0.62 * math.cos(a), 0.56 + 0.4 * math.sin(a)) for a in np.linspace(0, math.pi, 17)]
    pen.poly(dome, colour)
    for left, right in ((edges[1], edges[2]), (edges[3], edges[4])):
        pen.blob(
            [(0, 0.95), (right * 0.7, 0.8), (right, 0.57), (left, 0.57), (left * 0.7, 0.8)], other
        )
    for left, right, tone in zip(edges, edges[1:], (colour, other) * 3, strict=False):
        pen.disc((left + right) / 2, 0.57, (right - left) / 2, tone, squash=0.5)
    pen.disc(0, 0.98, 0.04, DARK)


def person(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """Standing, walking or waving, in a coloured coat or dress."""
    skin, trousers = pick(rng, SKIN), pick(rng, (DARK, COLOURS["blue"].shade(0.5), WOOD))
    hair = pick(rng, (DARK, WOOD, WOOD.shade(0.6), COLOURS["yellow"].shade(0.8), STEEL))
    stride = rng.uniform(0.02, 0.14)
    for u in (-stride, stride):
        pen.line([(u * 0.4, 0.46), (u, 0.02)], trousers, 0.1)
        pen.line([(u - 0.03, 0.02), (u + 0.08, 0.02)], DARK, 0.05)
    flare = 0.15 if rng.random() < 0.5 else 0.22
    arms = [(0.27, 0.42)] * 2 if rng.random() < 0.6 else [(0.27, 0.42), (0.32, 0.94)]
    for side, (u, v) in zip((-1.0, 1.0), arms, strict=True):
        pen.limb([(side * 0.12, 0.72), (side * u, v)], colour.shade(0.8), 0.08)
        pen.disc(side * u, v, 0.045, skin)
    if flare > 0.2:  # long hair goes with a wide coat
        pen.disc(-0.02, 0.85, 0.14, hair, squash=1.2)
    pen.poly([(-0.13, 0.77), (0.13, 0.77), (flare, 0.33), (-flare, 0.33)], colour)
    pen.box(-0.04, 0.74, 0.04, 0.82, skin)
    pen.disc(0, 0.9, 0.115, hair)
    pen.disc(0.03, 0.868, 0.1, skin)
    for u in (0.01, 0.08):
        pen.disc(u, 0.88, 0.016, DARK)
    if rng.random() < 0.35:
        pen.box(-0.17, 0.93, 0.17, 0.96, trousers)
        pen.box(-0.1, 0.95, 0.1, 1.04, trousers)


def snowman(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """Three snowballs with a hat, a scarf, a carrot nose and stick arms."""
    snow, edge = Colour(246, 249, 255), Colour(186, 200, 222)
    scarf = pick(rng, tuple(COLOURS[name] for name in ("red", "blue", "green", "orange", "purple")))
    for side in (-1.0, 1.0):
        pen.line([(side * 0.18, 0.52), (side * 0.46, 0.5 + rng.uniform(0, 0.2))], WOOD, 0.035)
    for v, radius in ((0.22, 0.27), (0.53, 0.2), (0.77, 0.145)):
        pen.disc(0.02, v - 0.01, radius, edge)
        pen.disc(-0.02, v + 0.01, radius * 0.92, snow)
    for v in (0.46, 0.56):
        pen.disc(0, v, 0.025, DARK)
    for u in (-0.04, 0.06):
        pen.disc(u, 0.81, 0.022, DARK)
    pen.poly([(0.02, 0.79), (0.02, 0.735), (0.22, 0.75)], COLOURS["orange"])
    pen.line([(-0.14, 0.66), (0.14, 0.66)], scarf, 0.075)
    pen.line([(0.1, 0.66), (0.14, 0.46)], scarf.shade(0.85), 0.07)
    hat = pick(rng, (DARK, DARK, scarf))
    pen.box(-0.18, 0.86, 0.18, 0.9, hat)
    pen.box(-0.11, 0.9, 0.11, 1.06, hat)


def lamp_post(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A street lamp, lit in the dark."""
    pen.line([(0, 0), (0, 0.9), (0.12, 0.94)], DARK, 0.03)
    if pen.light.dark:
        pen.disc(0.14, 0.9, 0.16, LAMP.fade(70))
    pen.disc(0.14, 0.9, 0.06, LAMP if pen.light.dark else CREAM)


def fence(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """Posts and two rails."""
    wood = pick(rng, (WOOD.shade(1.3), CREAM.shade(0.85)))
    for v in (0.4, 0.75):
        pen.line([(-1.6, v), (1.6, v)], wood, 0.1)
    for u in (-1.5, -0.75, 0.0, 0.75, 1.5):
        pen.line([(u, 0), (u, 1.0)], wood.shade(0.85), 0.14)
