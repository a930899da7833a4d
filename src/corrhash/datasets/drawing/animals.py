"""Animals, drawn from the foot up and facing right: cat, dog, sheep, fish, whale."""

from __future__ import annotations

import numpy as np

from corrhash.datasets.drawing.colours import COLOURS, DARK, WHITE, Colour
from corrhash.datasets.drawing.pen import Pen


def cat(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """Sitting and looking at us: pointed ears, curled tail, whiskers."""
    dark, pale = colour.shade(0.7), colour.mix(WHITE, 0.5)
    pen.limb([(-0.16, 0.06), (-0.42, 0.1), (-0.46, 0.34), (-0.36, 0.46)], dark, 0.09)
    pen.blob(
        [(-0.28, 0.02), (-0.27, 0.3), (-0.12, 0.58), (0.12, 0.58), (0.27, 0.3), (0.28, 0.02)],
        colour,
    )
    pen.disc(0, 0.26, 0.13, pale, squash=1.5)
    for side in (-1.0, 1.0):
        pen.disc(side * 0.1, 0.05, 0.09, pale, squash=0.6)
        pen.poly([(side * 0.25, 0.72), (side * 0.24, 1.03), (side * 0.05, 0.9)], colour)
        pen.poly(
            [(side * 0.21, 0.78), (side * 0.21, 0.95), (side * 0.1, 0.88)],
            COLOURS["pink"].shade(0.9),
        )
    pen.disc(0, 0.71, 0.27, colour, squash=0.86)
    if rng.random() < 0.5:
        for u in (-0.08, 0.0, 0.08):
            pen.line([(u, 0.84), (u, 0.93)], dark, 0.035)
    for side in (-1.0, 1.0):
        pen.disc(side * 0.1, 0.74, 0.05, Colour(206, 226, 90).lit(), squash=1.1)
        pen.disc(side * 0.1, 0.74, 0.025, DARK, squash=2)
        pen.line([(side * 0.08, 0.63), (side * 0.34, 0.66)], pale, 0.014)
    pen.disc(0, 0.63, 0.09, pale, squash=0.7)
    pen.poly([(-0.04, 0.67), (0.04, 0.67), (0, 0.62)], COLOURS["pink"].shade(0.8))


def dog(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """Standing in profile: a long muzzle, a hanging ear, a raised tail."""
    dark, ear = colour.shade(0.72), colour.shade(0.5)
    pen.limb([(-0.5, 0.58), (-0.68, 0.72), (-0.66, 0.92)], colour, 0.09)
    for u in (-0.36, 0.3):
        pen.limb([(u + 0.1, 0.4), (u + 0.12, 0.05)], dark, 0.11)
    pen.blob(
        [
            (-0.56, 0.6),
            (-0.3, 0.68),
            (0.2, 0.68),
            (0.42, 0.62),
            (0.36, 0.34),
            (0, 0.36),
            (-0.4, 0.32),
        ],
        colour,
    )
    for u in (-0.44, 0.24):
        pen.limb([(u, 0.4), (u, 0.06), (u + 0.06, 0.05)], colour, 0.12)
    if rng.random() < 0.5:
        pen.disc(-0.12, 0.54, 0.16, colour.mix(WHITE, 0.7), squash=0.7)
    pen.poly([(0.2, 0.6), (0.32, 0.86), (0.56, 0.84), (0.44, 0.5)], colour)
    pen.disc(0.46, 0.84, 0.18, colour)
    pen.blob([(0.5, 0.9), (0.78, 0.84), (0.82, 0.74), (0.5, 0.7)], colour.mix(WHITE, 0.15))
    pen.disc(0.81, 0.82, 0.055, DARK)
    pen.disc(0.34, 0.8, 0.1, ear, squash=1.8, turn=-0.2)
    pen.disc(0.53, 0.89, 0.035, DARK)
    pen.line([(0.24, 0.66), (0.48, 0.6)], COLOURS["red"], 0.06)


def sheep(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A ball of wool on thin legs, with a dark face."""
    face = [DARK, COLOURS["brown"].shade(0.7)][int(rng.integers(2))]
    for u in (-0.4, -0.26, 0.22, 0.36):
        pen.line([(u, 0.0), (u, 0.36)], face, 0.08)
    curls = [
        (-0.46, 0.5),
        (-0.22, 0.36),
        (0.1, 0.36),
        (0.36, 0.46),
        (0.3, 0.72),
        (0, 0.8),
        (-0.3, 0.74),
        (0, 0.56),
    ]
    for drop, tone in ((-0.04, 0.8), (0.0, 1.0)):
        for u, v in curls:
            pen.disc(u, v + drop, 0.22, colour.shade(tone))
    for u, v in curls[:6]:
        pen.disc(u - 0.02, v + 0.04, 0.08, colour.shade(0.92))
    pen.disc(0.58, 0.7, 0.15, face, squash=1.35, turn=0.5)
    pen.disc(0.42, 0.8, 0.09, face, squash=0.5, turn=0.4)
    pen.disc(0.48, 0.88, 0.12, colour)
    pen.disc(0.61, 0.76, 0.03, WHITE)


def fish(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A body with stripes, fins and a forked tail, and bubbles of its own."""
    fin, stripe = colour.shade(0.68), colour.mix(WHITE, 0.6)
    pen.poly([(-0.5, 0.5), (-0.95, 0.86), (-0.84, 0.5), (-0.95, 0.14)], fin)
    pen.poly([(-0.3, 0.72), (0.0, 1.05), (0.3, 0.76)], fin)
    pen.poly([(-0.1, 0.28), (-0.2, 0.02), (0.14, 0.24)], fin)
    pen.blob(
        [(-0.62, 0.5), (-0.25, 0.78), (0.25, 0.84), (0.72, 0.5), (0.25, 0.18), (-0.25, 0.22)],
        colour,
    )
    pen.blob(
        [(-0.5, 0.44), (0.2, 0.36), (0.66, 0.42), (0.25, 0.18), (-0.25, 0.22)],
        colour.mix(WHITE, 0.45),
    )
    if rng.random() < 0.6:
        for u in (-0.2, 0.08):
            pen.curve([(u, 0.77), (u + 0.07, 0.5), (u, 0.24)], stripe, 0.1)
    pen.poly([(0.06, 0.48), (-0.16, 0.36), (-0.1, 0.58)], fin)
    pen.disc(0.44, 0.58, 0.1, WHITE)
    pen.disc(0.46, 0.58, 0.055, DARK)
    for u, v in rng.uniform((0.8, 0.6), (1.05, 1.1), (3, 2)).tolist():
        pen.ring(u, v, 0.05, WHITE.fade(190), 0.025)


def whale(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """Its back and its fluke above the water, a fountain over the head."""
    pen.blob(
        [(-0.62, 0.0), (-0.72, 0.3), (-0.86, 0.62), (-0.74, 0.62), (-0.5, 0.28), (-0.2, 0.0)],
        colour.shade(0.86),
    )
    pen.blob([(-0.82, 0.58), (-1.12, 0.86), (-0.98, 0.6)], colour)
    pen.blob([(-0.8, 0.58), (-0.48, 0.88), (-0.62, 0.58)], colour)
    pen.poly([(-0.6, 0.0), *_back(), (0.98, 0.0)], colour)
    pen.blob([(0.1, 0.0), (0.3, 0.16), (0.95, 0.2), (0.96, 0.0)], colour.mix(WHITE, 0.65))
    pen.disc(0.62, 0.28, 0.045, WHITE)
    pen.disc(0.63, 0.28, 0.03, DARK)
    spray = WHITE.mix(COLOURS["blue"], 0.15)
    height = rng.uniform(0.85, 1.05)
    for side in (-1.0, 1.0):
        pen.curve(
            [(0.4, 0.52), (0.4 + side * 0.1, height), (0.4 + side * 0.3, height - 0.14)],
            spray.fade(220),
            0.07,
        )
    pen.curve([(-0.9, 0.0), (-0.3, 0.05), (0.3, 0.0), (1.1, 0.04)], spray.fade(180), 0.05)


def _back() -> list[tuple[float, float]]:
    return [(-0.42, 0.2), (-0.1, 0.42), (0.3, 0.54), (0.68, 0.5), (0.92, 0.3)]
