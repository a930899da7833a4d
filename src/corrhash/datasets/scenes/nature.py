"""Drawing functions of the sky, of plants, stones and animals.

Objects of the sky and air are drawn around their centre, all others from the foot up, facing right.
"""

from __future__ import annotations

import math

import numpy as np

from corrhash.datasets.scenes.drawing import COLOURS, DARK, WHITE, WOOD, Colour, Pen, pick


def sun(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A glowing disc, with or without rays; orange in warm light."""
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
    """A crescent, or a full moon with dark patches."""
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
    """A row of puffs with a shaded underside."""
    puffs = [
        (u, rng.uniform(0.0, 0.12), rng.uniform(0.22, 0.4) * (1.1 - 0.8 * abs(u)))
        for u in np.linspace(-0.7, 0.7, int(rng.integers(4, 7))).tolist()
    ]
    for drop, tone in ((-0.08, 0.86), (0.0, 1.0)):
        for u, v, radius in puffs:
            pen.disc(u, v + drop, radius, colour.shade(tone).fade(190), squash=0.72)


def bird(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """In flight: two bent wings, a body, a tail and a beak."""
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
    """A hot-air balloon: a striped envelope over a basket."""
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


LEAVES = (
    Colour(58, 128, 54),
    Colour(84, 150, 60),
    Colour(40, 104, 66),
    Colour(120, 150, 50),
    Colour(208, 128, 44),
    Colour(186, 78, 44),
)


def mountain(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A snow-covered peak with a shoulder, one face in shadow."""
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
    """A daisy or a tulip on a stem with leaves."""
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
    """A low heap of leaves in the colour of the place."""
    for u, v, radius in ((-0.4, 0.3, 0.36), (0.4, 0.28, 0.34), (0.0, 0.5, 0.46)):
        pen.disc(u + rng.uniform(-0.1, 0.1), v, radius, colour.shade(rng.uniform(0.82, 1.0)))
    pen.disc(-0.12, 0.66, 0.22, colour.shade(1.12).fade(140))


def stone(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A boulder lit from above."""
    grey = COLOURS["grey"].mix(colour, 0.4)
    top = rng.uniform(0.7, 1.0)
    outline = [(-0.8, 0), (-0.66, 0.5), (-0.1, top), (0.5, 0.66), (0.8, 0)]
    pen.poly(outline, grey.shade(0.78))
    pen.poly([(-0.66, 0.5), (-0.1, top), (0.5, 0.66), (0.0, 0.42)], grey.shade(1.1))


def tuft(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """A few blades of grass."""
    for lean in rng.uniform(-0.7, 0.7, 5).tolist():
        pen.line([(lean * 0.3, 0), (lean, rng.uniform(0.6, 1.0))], colour.shade(0.8), 0.12)


def cat(pen: Pen, colour: Colour, rng: np.random.Generator) -> None:
    """Sitting, seen from the front: pointed ears, curled tail, whiskers."""
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
    """A body with stripes, fins, a forked tail, and bubbles."""
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
    """Back and fluke above the water, with a spout."""
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
