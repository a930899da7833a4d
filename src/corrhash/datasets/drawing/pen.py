"""The pen: draws shapes in a thing's own coordinates onto the paper of the picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from corrhash.datasets.drawing.colours import Colour, Light

Point = tuple[float, float]

CIRCLE = [(math.cos(a), math.sin(a)) for a in np.linspace(0, 2 * np.pi, 24, endpoint=False)]

_NEIGHBOURS = np.arange(-1, 3)  # of a point: before, itself, and two after
# Catmull-Rom weights of four neighbouring points, at four steps from the second to the third.
_STEPS = np.arange(4)[:, None] / 4  # (4, 1)
_WEIGHTS = 0.5 * np.hstack(
    [
        -_STEPS + 2 * _STEPS**2 - _STEPS**3,
        2 - 5 * _STEPS**2 + 3 * _STEPS**3,
        _STEPS + 4 * _STEPS**2 - 3 * _STEPS**3,
        -(_STEPS**2) + _STEPS**3,
    ]
)  # (4 steps, 4 points)


def smooth(points: Sequence[Point], closed: bool = True) -> list[Point]:
    """A Catmull-Rom curve through the points: four times as many, and no corners.

    >>> len(smooth([(0, 0), (1, 0), (1, 1)]))
    12
    """
    at = np.asarray(points, dtype=float)
    if not closed:
        at = np.vstack([at[:1], at, at[-1:]])
    turn = np.arange(len(at))[:, None] + _NEIGHBOURS  # (n, 4)
    curve = _WEIGHTS @ at[turn % len(at)]  # (n, 4 steps, 2)
    if not closed:
        curve = curve[1:-2]
    inner = [(u, v) for u, v in curve.reshape(-1, 2).tolist()]
    return inner if closed else [*inner, (float(at[-1, 0]), float(at[-1, 1]))]


class Paper:
    """The picture under way: ``width`` pixels square, under one light."""

    def __init__(self, width: int, light: Light):
        self.width = width
        self.light = light
        self.image = Image.new("RGB", (width, width))
        self.opaque = ImageDraw.Draw(self.image, "RGB")
        self.blending = ImageDraw.Draw(self.image, "RGBA")  # for see-through colours; slower

    def wash(
        self,
        top: float,
        bottom: float,
        colours: Sequence[Colour],
        rng: np.random.Generator,
        rough: float = 6.0,
        grain: tuple[int, int] = (5, 5),
    ) -> None:
        """Fill from ``top`` to ``bottom`` (shares of the height) with colours running down.

        ``rough`` is how much brightness wanders, over ``grain`` patches (rows, columns).
        """
        first, last = round(top * self.width), round(bottom * self.width)
        if last <= first:
            return
        seen = np.array([self.light.on(colour)[:3] for colour in colours], dtype=float)
        where = np.linspace(0, len(colours) - 1, grain[0])
        column = np.stack([np.interp(where, range(len(seen)), part) for part in seen.T], axis=1)
        pixels = column[:, None, :] + rng.normal(0, rough, grain)[:, :, None]  # (*grain, 3)
        patches = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        fill = patches.resize((self.width, last - first), Image.Resampling.BICUBIC)
        self.image.paste(fill, (0, first))

    def pen(self) -> Pen:
        """A pen for the whole picture: (0, 0) is bottom left, (1, 1) top right."""
        return Pen(self, 0.0, 1.0, 1.0)


class Pen:
    """Draws one thing whose foot stands at (x, y) of the paper and which is ``size`` tall.

    A thing's own coordinates: u to the right, v up, v = 1 at its top; it faces right.
    """

    def __init__(
        self,
        paper: Paper,
        x: float,
        y: float,
        size: float,
        mirrored: bool = False,
        tilt: float = 0.0,
        haze: float = 0.0,
    ):
        self.paper = paper
        self.light = paper.light
        self.haze = haze
        self.scale = size * paper.width
        self.across = x * paper.width
        self.down = y * paper.width
        self.flip = -1.0 if mirrored else 1.0
        self.cos = math.cos(tilt) * self.scale
        self.sin = math.sin(tilt) * self.scale

    def place(self, points: Sequence[Point]) -> list[Point]:
        """From the thing's coordinates to pixels."""
        across, down, cos, sin = self.across, self.down, self.cos, self.sin
        flip_cos, flip_sin = self.flip * cos, self.flip * sin
        return [(across + u * flip_cos - v * flip_sin, down - u * sin - v * cos) for u, v in points]

    def _brush(self, colour: Colour) -> ImageDraw.ImageDraw:
        return self.paper.opaque if colour.alpha == 255 else self.paper.blending

    def poly(self, points: Sequence[Point], colour: Colour) -> None:
        """A filled polygon."""
        self._brush(colour).polygon(self.place(points), self.light.on(colour, self.haze))

    def box(self, u0: float, v0: float, u1: float, v1: float, colour: Colour) -> None:
        """A filled rectangle between two corners."""
        self.poly([(u0, v0), (u1, v0), (u1, v1), (u0, v1)], colour)

    def blob(self, points: Sequence[Point], colour: Colour) -> None:
        """A filled shape with a smooth outline through the points."""
        self.poly(smooth(points), colour)

    def disc(
        self,
        u: float,
        v: float,
        radius: float,
        colour: Colour,
        squash: float = 1.0,
        turn: float = 0.0,
    ) -> None:
        """A filled ellipse, ``squash`` times as high as wide, turned by radians."""
        cos, sin = math.cos(turn) * radius, math.sin(turn) * radius
        (x, y), (x1, y1), (x2, y2) = self.place(
            [(u, v), (u + cos, v + sin), (u - squash * sin, v + squash * cos)]
        )
        wide, tall = (x1 - x, y1 - y), (x2 - x, y2 - y)  # the half axes in pixels
        self._brush(colour).polygon(
            [(x + a * wide[0] + b * tall[0], y + a * wide[1] + b * tall[1]) for a, b in CIRCLE],
            self.light.on(colour, self.haze),
        )

    def dot(self, u: float, v: float, radius: float, colour: Colour) -> None:
        """A speck, drawn the quick way: square below two pixels, round above."""
        ((x, y),), reach = self.place([(u, v)]), radius * self.scale
        brush = self._brush(colour)
        shape = brush.rectangle if reach < 2 else brush.ellipse
        shape((x - reach, y - reach, x + reach, y + reach), self.light.on(colour, self.haze))

    def line(self, points: Sequence[Point], colour: Colour, width: float) -> None:
        """A stroke through the points, never thinner than a pixel."""
        self._brush(colour).line(
            self.place(points),
            fill=self.light.on(colour, self.haze),
            width=max(1, round(width * self.scale)),
            joint="curve",
        )

    def curve(self, points: Sequence[Point], colour: Colour, width: float) -> None:
        """A smooth stroke through the points."""
        self.line(smooth(points, closed=False), colour, width)

    def limb(self, points: Sequence[Point], colour: Colour, width: float) -> None:
        """A smooth stroke with round ends."""
        self.curve(points, colour, width)
        for u, v in (points[0], points[-1]):
            self.disc(u, v, width / 2, colour)

    def ring(self, u: float, v: float, radius: float, colour: Colour, width: float) -> None:
        """A circle drawn as a stroke."""
        around = [(u + radius * a, v + radius * b) for a, b in CIRCLE]
        self.line([*around, *around[:2]], colour, width)
