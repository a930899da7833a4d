"""Things of the air, each drawn about its middle: sun, moon, cloud, bird, balloon, butterfly."""

from __future__ import annotations

import math

import numpy as np

from corrhash.datasets.drawing.colours import COLOURS, DARK, WHITE, WOOD, Colour
from corrhash.datasets.drawing.pen import Pen


def sun(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A disc in its glow, with or without rays; orange when the light is warm."""
    low = pen.light.tint[2] < 0.8
    core = Colour(255, 176, 84).lit() if low else Colour(255, 240, 150).lit()
    for radius, alpha in ((1.0, 34), (0.75, 50), (0.58, 80)):
        pen.disc(0, 0, radius, core.fade(alpha))
    if rng.random() < 0.55:
        n_rays, turn = int(rng.integers(8, 14)), rng.uniform(0, 1)
        for angle in (np.arange(n_rays) * 2 * math.pi / n_rays + turn).tolist():
            tip = (0.82 * math.cos(angle), 0.82 * math.sin(angle))
            sides = [(0.5 * math.cos(angle + d), 0.5 * math.sin(angle + d)) for d in (-0.13, 0.13)]
            pen.poly([tip, *sides], core.fade(230))
    pen.disc(0, 0, 0.46, core)
    pen.disc(-0.08, 0.08, 0.3, core.mix(WHITE, 0.35))


def moon(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A crescent, or a full moon with its seas."""
    pale = Colour(244, 240, 214).lit()
    pen.disc(0, 0, 0.8, pale.fade(22))
    pen.disc(0, 0, 0.62, pale.fade(34))
    if rng.random() < 0.5:
        pen.disc(0, 0, 0.5, pale)
        for u, v, radius in ((-0.15, 0.15, 0.13), (0.18, -0.05, 0.1), (-0.08, -0.22, 0.09)):
            pen.disc(u, v, radius, pale.shade(0.86))
        return
    angles = np.linspace(-math.pi / 2, math.pi / 2, 14)
    bulge = rng.uniform(0.18, 0.34)
    outer = [(0.5 * math.cos(a), 0.5 * math.sin(a)) for a in angles]
    inner = [(bulge * math.cos(a), 0.5 * math.sin(a)) for a in angles[::-1]]
    pen.poly([*outer, *inner], pale)


def cloud(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """Puffs side by side, shaded below."""
    puffs = [
        (u, rng.uniform(0.0, 0.12), rng.uniform(0.22, 0.4) * (1.1 - 0.8 * abs(u)))
        for u in np.linspace(-0.7, 0.7, int(rng.integers(4, 7))).tolist()
    ]
    for drop, tone in ((-0.08, 0.86), (0.0, 1.0)):
        for u, v, radius in puffs:
            pen.disc(u, v + drop, radius, colour.shade(tone).fade(190), squash=0.72)


def bird(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """On the wing: two bent wings, a body, a tail and a beak."""
    lift = rng.uniform(0.3, 0.75)
    far, near = colour.shade(0.72), colour.shade(0.9)
    tip = colour.mix(DARK, 0.6)
    for side, tone in ((1.0, far), (-1.0, near)):
        elbow, end = (side * 0.4, lift), (side * 0.98, lift * rng.uniform(0.3, 0.9))
        pen.blob([(side * 0.02, 0.1), elbow, end, (side * 0.45, lift - 0.22), (0, -0.1)], tone)
        pen.line([(side * 0.84, (lift + end[1]) / 2), end], tip, 0.08)
    pen.poly([(-0.3, 0.0), (-0.58, 0.08), (-0.56, -0.14)], far)
    pen.blob([(-0.38, -0.02), (0, 0.13), (0.3, 0.12), (0.36, 0.0), (0.02, -0.17)], colour)
    pen.disc(0.36, 0.09, 0.13, colour.mix(WHITE, 0.12))
    pen.poly([(0.46, 0.13), (0.66, 0.04), (0.46, 0.02)], COLOURS["orange"])
    pen.disc(0.4, 0.12, 0.03, DARK)


def balloon(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A hot-air balloon: a striped envelope over its basket."""
    bright = COLOURS["orange"] if colour == COLOURS["yellow"] else COLOURS["yellow"]
    other = [bright, WHITE, colour.shade(0.62)][int(rng.integers(3))]
    for u in (-0.1, 0.1):
        pen.line([(u * 2.2, -0.12), (u, -0.4)], DARK, 0.014)
    outline = [(0, 0.5), (0.27, 0.42), (0.36, 0.18), (0.26, -0.06), (0.1, -0.24)]
    pen.blob([*outline, *[(-u, v) for u, v in outline[:0:-1]]], colour)
    gores = rng.integers(2)
    if gores:
        for left, right in ((-0.25, -0.12), (0.04, 0.17)):
            down = [(left * 0.1, 0.49), (right, 0.34), (right, 0.1), (right * 0.4, -0.24)]
            pen.blob([*down, (left * 0.4, -0.24), (left, 0.1), (left, 0.34)], other)
    else:
        pen.poly([(-0.36, 0.22), (0.36, 0.22), (0.345, 0.08), (-0.345, 0.08)], other)
    pen.blob([(0.1, 0.47), (0.34, 0.2), (0.22, -0.1), (0.26, 0.2)], DARK.fade(40))
    pen.box(-0.1, -0.5, 0.1, -0.37, WOOD)


def butterfly(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """Four wings with a spot on each, seen from above."""
    spread, spot = rng.uniform(0.85, 1.1), [WHITE, DARK, COLOURS["yellow"]][int(rng.integers(3))]
    for side in (-1.0, 1.0):
        for u, v, radius, turn in ((0.3, 0.2, 0.34, 0.75), (0.24, -0.2, 0.25, -0.7)):
            at, lean = (side * u * spread, v), side * turn
            pen.disc(*at, radius, colour.shade(0.45), squash=0.68, turn=lean)
            pen.disc(*at, radius * 0.86, colour, squash=0.66, turn=lean)
            pen.disc(side * (u + 0.09) * spread, v * 1.25, radius * 0.25, spot)
        pen.curve([(0, 0.24), (side * 0.08, 0.4), (side * 0.18, 0.48)], DARK, 0.035)
    pen.disc(0, 0, 0.065, DARK, squash=4.6)
