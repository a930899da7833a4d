"""Colours by name, and the light of day, dusk and night that falls on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Colour(NamedTuple):
    """Red, green and blue from 0 to 255, how opaque it is, and whether it shines by itself.

    >>> Colour(200, 100, 0).shade(0.5)
    Colour(red=100.0, green=50.0, blue=0.0, alpha=255, glow=False)
    """

    red: float
    green: float
    blue: float
    alpha: int = 255
    glow: bool = False

    def shade(self, factor: float) -> Colour:
        """Darker below one, brighter above; the light clips it at 255."""
        red, green, blue, alpha, glow = self
        return Colour(red * factor, green * factor, blue * factor, alpha, glow)

    def mix(self, other: Colour, share: float) -> Colour:
        """This colour with ``share`` of the other stirred in."""
        red, green, blue, alpha, glow = self
        return Colour(
            red + share * (other.red - red),
            green + share * (other.green - green),
            blue + share * (other.blue - blue),
            alpha,
            glow,
        )

    def fade(self, alpha: int) -> Colour:
        """The same colour, see-through."""
        return Colour(self.red, self.green, self.blue, alpha, self.glow)

    def lit(self) -> Colour:
        """The same colour as a lamp gives it: night does not darken it."""
        return self._replace(glow=True)


def pick(rng: np.random.Generator, colours: tuple[Colour, ...]) -> Colour:
    """One of the colours, each as likely."""
    return colours[int(rng.integers(len(colours)))]


# The words that captions and tags use; each is told from the others at a glance.
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
    """What the hour does to every colour: a tint over all, and haze over what is far."""

    tint: tuple[float, float, float]
    haze: Colour
    dark: bool = False  # windows and lamps are lit

    def on(self, colour: Colour, haze: float = 0.0) -> tuple[int, int, int, int]:
        """The colour as seen in this light through ``haze`` from 0 to 1, ready for Pillow."""
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
