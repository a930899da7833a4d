"""Drawing tools: colours, light, the canvas, and a pen in an object's own coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw


class Colour(NamedTuple):
    """Red, green and blue from 0 to 255, opacity, and whether the colour glows in the dark.

    >>> Colour(200, 100, 0).shade(0.5)
    Colour(red=100.0, green=50.0, blue=0.0, alpha=255, glow=False)
    """

    red: float
    green: float
    blue: float
    alpha: int = 255
    glow: bool = False

    def shade(self, factor: float) -> Colour:
        """Darken (factor below 1) or brighten; ``Light.on`` clips at 255."""
        red, green, blue, alpha, glow = self
        return Colour(red * factor, green * factor, blue * factor, alpha, glow)

    def mix(self, other: Colour, share: float) -> Colour:
        """Blend with a share of another colour."""
        red, green, blue, alpha, glow = self
        return Colour(
            red + share * (other.red - red),
            green + share * (other.green - green),
            blue + share * (other.blue - blue),
            alpha,
            glow,
        )

    def fade(self, alpha: int) -> Colour:
        """Return the colour with another opacity."""
        return Colour(self.red, self.green, self.blue, alpha, self.glow)

    def lit(self) -> Colour:
        """Return the colour as a light source, which night does not darken."""
        return self._replace(glow=True)


def pick(rng: np.random.Generator, colours: tuple[Colour, ...]) -> Colour:
    """Draw one of the colours uniformly."""
    return colours[int(rng.integers(len(colours)))]


# Colours that captions and tags name.
COLOURS = {
    "red": Colour(206, 44, 42),
    "orange": Colour(238, 130, 36),
    "yellow": Colour(244, 206, 52),
    "green": Colour(58, 148, 70),
    "blue": Colour(44, 98, 196),
    "purple": Colour(128, 62, 160),
    "pink": Colour(240, 140, 176),
    "brown": Colour(124, 78, 44),
    "white": Colour(240, 238, 232),
    "grey": Colour(138, 140, 146),
    "black": Colour(38, 36, 42),
}

WHITE = Colour(250, 250, 248)
CREAM = Colour(246, 238, 216)
DARK = Colour(34, 32, 40)
STEEL = Colour(120, 126, 136)
WOOD = Colour(112, 76, 48)
SKIN = (Colour(244, 206, 176), Colour(222, 172, 130), Colour(158, 108, 76), Colour(104, 70, 50))
GLASS = Colour(176, 212, 230)
LAMP = Colour(255, 220, 130).lit()


@dataclass(frozen=True)
class Light:
    """Light of a time of day: a tint on every colour, and haze on distant objects."""

    tint: tuple[float, float, float]
    haze: Colour
    dark: bool = False  # whether windows and lamps are lit

    def on(self, colour: Colour, haze: float = 0.0) -> tuple[int, int, int, int]:
        """Return the RGBA of a colour in this light, through ``haze`` from 0 to 1."""
        red, green, blue, alpha, glow = colour
        if not glow:
            clear = 1 - haze
            red = red * self.tint[0] * clear + self.haze.red * haze
            green = green * self.tint[1] * clear + self.haze.green * haze
            blue = blue * self.tint[2] * clear + self.haze.blue * haze
        return min(255, int(red)), min(255, int(green)), min(255, int(blue)), alpha


LIGHTS = {
    "day": Light((1.0, 1.0, 1.0), Colour(206, 220, 232)),
    "dusk": Light((0.95, 0.80, 0.74), Colour(226, 158, 128)),
    "night": Light((0.48, 0.54, 0.74), Colour(38, 48, 84), dark=True),
}


Point = tuple[float, float]

CIRCLE = [(math.cos(a), math.sin(a)) for a in np.linspace(0, 2 * np.pi, 24, endpoint=False)]

_NEIGHBOURS = np.arange(-1, 3)  # offsets of the four points that shape a segment
# Catmull-Rom weights of these points, at four steps from the second to the third.
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
    """Interpolate points by a Catmull-Rom curve with four points per segment.

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


class Canvas:
    """A square image being drawn, ``width`` pixels wide, in one light."""

    def __init__(self, width: int, light: Light):
        self.width = width
        self.light = light
        self.image = Image.new("RGB", (width, width))
        self.opaque = ImageDraw.Draw(self.image, "RGB")
        self.blending = ImageDraw.Draw(self.image, "RGBA")  # for translucent colours; slower

    def gradient(
        self,
        top: float,
        bottom: float,
        colours: Sequence[Colour],
        rng: np.random.Generator,
        rough: float = 6.0,
        grain: tuple[int, int] = (5, 5),
    ) -> None:
        """Fill from ``top`` to ``bottom`` (shares of the height) with a vertical gradient.

        ``rough`` is the standard deviation of brightness over ``grain`` (rows, columns) patches.
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
        """Return a pen for the whole image: (0, 0) is bottom left, (1, 1) top right."""
        return Pen(self, 0.0, 1.0, 1.0)


class Pen:
    """Draws an object of height ``size`` with its foot at (x, y) of the canvas.

    Object coordinates: u points right, v points up, and v = 1 is the top. Objects face right.
    """

    def __init__(
        self,
        canvas: Canvas,
        x: float,
        y: float,
        size: float,
        mirrored: bool = False,
        tilt: float = 0.0,
        haze: float = 0.0,
    ):
        self.canvas = canvas
        self.light = canvas.light
        self.haze = haze
        self.scale = size * canvas.width
        self.across = x * canvas.width
        self.down = y * canvas.width
        self.flip = -1.0 if mirrored else 1.0
        self.cos = math.cos(tilt) * self.scale
        self.sin = math.sin(tilt) * self.scale

    def to_pixels(self, points: Sequence[Point]) -> list[Point]:
        """Convert object coordinates to pixels."""
        across, down, cos, sin = self.across, self.down, self.cos, self.sin
        flip_cos, flip_sin = self.flip * cos, self.flip * sin
        return [(across + u * flip_cos - v * flip_sin, down - u * sin - v * cos) for u, v in points]

    def _brush(self, colour: Colour) -> ImageDraw.ImageDraw:
        return self.canvas.opaque if colour.alpha == 255 else self.canvas.blending

    def poly(self, points: Sequence[Point], colour: Colour) -> None:
        """Fill a polygon."""
        self._brush(colour).polygon(self.to_pixels(points), self.light.on(colour, self.haze))

    def box(self, u0: float, v0: float, u1: float, v1: float, colour: Colour) -> None:
        """Fill a rectangle between two corners."""
        self.poly([(u0, v0), (u1, v0), (u1, v1), (u0, v1)], colour)

    def blob(self, points: Sequence[Point], colour: Colour) -> None:
        """Fill a shape with a smooth outline through the points."""
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
        """Fill an ellipse, ``squash`` times as high as wide, rotated by ``turn`` radians."""
        cos, sin = math.cos(turn) * radius, math.sin(turn) * radius
        (x, y), (x1, y1), (x2, y2) = self.to_pixels(
            [(u, v), (u + cos, v + sin), (u - squash * sin, v + squash * cos)]
        )
        wide, tall = (x1 - x, y1 - y), (x2 - x, y2 - y)  # the half axes in pixels
        self._brush(colour).polygon(
            [(x + a * wide[0] + b * tall[0], y + a * wide[1] + b * tall[1]) for a, b in CIRCLE],
            self.light.on(colour, self.haze),
        )

    def dot(self, u: float, v: float, radius: float, colour: Colour) -> None:
        """Fill a small circle; below two pixels a square, which is faster."""
        ((x, y),), reach = self.to_pixels([(u, v)]), radius * self.scale
        brush = self._brush(colour)
        shape = brush.rectangle if reach < 2 else brush.ellipse
        shape((x - reach, y - reach, x + reach, y + reach), self.light.on(colour, self.haze))

    def line(self, points: Sequence[Point], colour: Colour, width: float) -> None:
        """Draw a polyline at least one pixel wide."""
        self._brush(colour).line(
            self.to_pixels(points),
            fill=self.light.on(colour, self.haze),
            width=max(1, round(width * self.scale)),
            joint="curve",
        )

    def curve(self, points: Sequence[Point], colour: Colour, width: float) -> None:
        """Draw a smooth curve through the points."""
        self.line(smooth(points, closed=False), colour, width)

    def limb(self, points: Sequence[Point], colour: Colour, width: float) -> None:
        """Draw a smooth curve with round ends."""
        self.curve(points, colour, width)
        for u, v in (points[0], points[-1]):
            self.disc(u, v, width / 2, colour)

    def ring(self, u: float, v: float, radius: float, colour: Colour, width: float) -> None:
        """Draw the outline of a circle."""
        around = [(u + radius * a, v + radius * b) for a, b in CIRCLE]
        self.line([*around, *around[:2]], colour, width)
