"""Things that grow or lie about, drawn from the foot up: mountain, tree, flower, stones."""

from __future__ import annotations

import math

import numpy as np

from corrhash.datasets.drawing.colours import COLOURS, WHITE, WOOD, Colour, pick
from corrhash.datasets.drawing.pen import Pen

LEAVES = (
    Colour(58, 128, 54),
    Colour(84, 150, 60),
    Colour(40, 104, 66),
    Colour(120, 150, 50),
    Colour(208, 128, 44),
    Colour(186, 78, 44),
)


def mountain(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A peak with a shoulder, one side in shadow, snow on top."""
    rock = pick(rng, (Colour(116, 118, 134), Colour(132, 112, 102), Colour(92, 112, 118)))
    peak, shoulder = rng.uniform(-0.15, 0.15), rng.uniform(0.5, 0.72)
    side = peak + rng.uniform(0.5, 0.7)
    pen.poly([(side - 0.9, 0), (side, shoulder), (1.3, 0)], rock.shade(0.86))
    left = [(-1.15, 0), (peak - 0.55, 0.42), (peak - 0.42, 0.5), (peak, 1)]
    pen.poly([*left, (peak + 0.3, 0.58), (peak + 0.45, 0.5), (1.0, 0)], rock)
    pen.poly(
        [(peak, 1), (peak + 0.3, 0.58), (1.0, 0), (peak + 0.1, 0), (peak - 0.06, 0.5)],
        rock.shade(0.72),
    )
    snow = rng.uniform(0.62, 0.74)
    reach = (1 - snow) * 0.8
    right = [(peak, 1), (peak + reach * 0.9, snow), (peak + reach * 0.45, snow + 0.07)]
    drip = (peak + 0.02, snow - 0.07)
    pen.poly([*right, drip, (peak - reach * 0.45, snow + 0.05), (peak - reach, snow)], WHITE)


def tree(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A round crown, a fir or a poplar on a trunk."""
    form = rng.random()
    leaf = pick(rng, LEAVES)
    if form < 0.35:
        _fir(pen, pick(rng, LEAVES[:3]).shade(0.85), rng)
    elif form < 0.5:
        pen.box(-0.035, 0, 0.035, 0.3, WOOD)
        pen.disc(0, 0.57, 0.17, leaf, squash=2.5)
        pen.disc(0.05, 0.55, 0.11, leaf.shade(0.85), squash=2.9)
    else:
        _crown(pen, leaf, rng)


def _fir(pen: Pen, leaf: Colour, rng: np.random.Generator) -> None:
    snowy = rng.random() < 0.3
    pen.box(-0.04, 0, 0.04, 0.16, WOOD)
    for base, top, half in ((0.12, 0.5, 0.32), (0.36, 0.74, 0.25), (0.6, 1.0, 0.17)):
        pen.poly([(-half, base), (half, base), (0, top)], leaf)
        pen.poly([(0.02, base), (half, base), (0, top)], leaf.shade(0.78))
        if snowy:
            pen.poly(
                [(-half * 0.5, (base + top) / 2), (half * 0.5, (base + top) / 2), (0, top)],
                WHITE.fade(220),
            )


def _crown(pen: Pen, leaf: Colour, rng: np.random.Generator) -> None:
    pen.poly([(-0.07, 0), (0.07, 0), (0.04, 0.5), (-0.04, 0.5)], WOOD)
    pen.line([(0, 0.32), (0.15, 0.5)], WOOD, 0.035)
    middles = np.array([(-0.2, 0.55), (0.21, 0.57), (-0.1, 0.76), (0.13, 0.78), (0.0, 0.62)])
    puffs = (middles + rng.uniform(-0.04, 0.04, (5, 2))).tolist()
    for u, v in puffs:
        pen.disc(u + 0.03, v - 0.03, 0.22, leaf.shade(0.78))
    for u, v in puffs:
        pen.disc(u, v, 0.2, leaf)
    for u, v in puffs[:4]:
        pen.disc(u - 0.06, v + 0.06, 0.08, leaf.shade(1.18).fade(150))


def flower(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A daisy with petals round its heart, or a tulip, on a stem with leaves."""
    green, bend = Colour(66, 140, 58), rng.uniform(-0.08, 0.08)
    pen.curve([(0, 0), (bend, 0.35), (0, 0.7)], green, 0.055)
    for side in (-1.0, 1.0):
        pen.disc(bend + side * 0.14, 0.26, 0.16, green, squash=0.4, turn=side * 0.7)
    if rng.random() < 0.35:
        cup = [(-0.2, 0.98), (-0.22, 0.72), (0, 0.58), (0.22, 0.72), (0.2, 0.98)]
        pen.poly([*cup, (0.1, 0.82), (0, 1.0), (-0.1, 0.82)], colour)
        pen.poly([(0, 1.0), (0.1, 0.8), (0, 0.6), (-0.1, 0.8)], colour.shade(0.82))
        return
    n_petals = int(rng.integers(5, 9))
    turn = rng.uniform(0, 1)
    for angle in (np.arange(n_petals) * 2 * math.pi / n_petals + turn).tolist():
        u, v = 0.2 * math.cos(angle), 0.74 + 0.2 * math.sin(angle)
        pen.disc(u, v, 0.155, colour.shade(rng.uniform(0.88, 1.05)), squash=0.62, turn=angle)
    heart = COLOURS["brown"] if colour == COLOURS["yellow"] else COLOURS["yellow"]
    pen.disc(0, 0.74, 0.115, heart)


def cactus(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A column with one or two raised arms and pale ribs."""
    green = pick(rng, (Colour(70, 134, 74), Colour(94, 144, 84), Colour(52, 116, 84)))
    left, right = rng.uniform(0.3, 0.5, 2).tolist()
    if rng.random() < 0.8:
        pen.limb([(0, left), (-0.26, left + 0.02), (-0.28, left + 0.3)], green.shade(0.88), 0.14)
    pen.limb([(0, right), (0.26, right + 0.02), (0.28, right + 0.26)], green.shade(0.94), 0.14)
    pen.limb([(0, 0.02), (0, 0.5), (0, 0.9)], green, 0.22)
    for u in (-0.05, 0.04):
        pen.line([(u, 0.03), (u, 0.93)], green.shade(1.25), 0.02)
    if rng.random() < 0.4:
        pen.disc(0, 1.0, 0.06, COLOURS["pink"])


def bush(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A low heap of leaves in the setting's own green, straw or snow."""
    for u, v, radius in ((-0.4, 0.3, 0.36), (0.4, 0.28, 0.34), (0.0, 0.5, 0.46)):
        pen.disc(u + rng.uniform(-0.1, 0.1), v, radius, colour.shade(rng.uniform(0.82, 1.0)))
    pen.disc(-0.12, 0.66, 0.22, colour.shade(1.12).fade(140))


def stone(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A boulder lit from one side."""
    grey = COLOURS["grey"].mix(colour, 0.4)
    top = rng.uniform(0.7, 1.0)
    outline = [(-0.8, 0), (-0.66, 0.5), (-0.1, top), (0.5, 0.66), (0.8, 0)]
    pen.poly(outline, grey.shade(0.78))
    pen.poly([(-0.66, 0.5), (-0.1, top), (0.5, 0.66), (0.0, 0.42)], grey.shade(1.1))


def tuft(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A few blades of grass."""
    for lean in rng.uniform(-0.7, 0.7, 5).tolist():
        pen.line([(lean * 0.3, 0), (lean, rng.uniform(0.6, 1.0))], colour.shade(0.8), 0.12)
