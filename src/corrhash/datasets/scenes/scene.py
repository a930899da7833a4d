"""Scene: a list of placed objects, and how it is drawn and photographed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFilter

from corrhash.datasets.scenes.drawing import COLOURS, DARK, LIGHTS, WHITE, Canvas, Colour, Pen
from corrhash.datasets.scenes.objects import CLUTTER, OBJECTS, ObjectKind
from corrhash.datasets.scenes.places import PLACES, draw_sky, draw_weather

SUPERSAMPLING = 2
"""Scenes are drawn larger by this factor and averaged, for smooth edges."""

CENTRED = ("sky", "air")
"""Zones whose objects are positioned by their centre."""


@dataclass(frozen=True)
class PlacedObject:
    """An object in a scene; lengths are shares of the image height, and y points down."""

    name: str
    x: float
    y: float
    size: float
    colour: str  # a key of COLOURS, or "" if the drawing function chooses
    mirrored: bool
    tilt: float
    seed: int  # of its variations in shape

    @property
    def kind(self) -> ObjectKind:
        """Its entry in OBJECTS or CLUTTER."""
        return OBJECTS.get(self.name) or CLUTTER[self.name]

    def box(self) -> tuple[float, float, float, float]:
        """Return the bounding box: left, top, right, bottom."""
        half = self.size * self.kind.width / 2
        bottom = self.y + (self.size / 2 if self.kind.zone in CENTRED else 0.0)
        return self.x - half, bottom - self.size, self.x + half, bottom


@dataclass(frozen=True)
class Scene:
    """Everything that an image shows."""

    place: str
    time: str
    horizon: float
    shore: float  # y of the near bank; 1 if there is none
    objects: tuple[PlacedObject, ...]
    clutter: tuple[PlacedObject, ...]
    seed: int  # of sky, ground and camera

    def object_names(self) -> tuple[str, ...]:
        """Return the names of the labelled objects without duplicates, in order of placement."""
        return tuple(dict.fromkeys(placed.name for placed in self.objects))


def draw(scene: Scene, size: int = 96) -> np.ndarray:
    """Draw a scene as a (size, size, 3) uint8 image; the same scene gives the same image."""
    rng = np.random.default_rng(scene.seed)
    canvas = Canvas(SUPERSAMPLING * size, LIGHTS[scene.time])
    draw_sky(canvas, scene.time, scene.horizon, rng)
    placed_objects = sorted([*scene.clutter, *scene.objects], key=_depth_order)
    behind = [placed for placed in placed_objects if _depth_order(placed) < 0]
    for placed in behind:
        draw_object(canvas, scene, placed)
    PLACES[scene.place].draw(canvas, scene.horizon, scene.shore, rng)
    _draw_reflection(canvas, scene, rng)
    for placed in placed_objects[len(behind) :]:
        draw_object(canvas, scene, placed)
    draw_weather(canvas, scene.place, rng)
    return apply_camera(canvas.image, size, rng)


def _draw_reflection(canvas: Canvas, scene: Scene, rng: np.random.Generator) -> None:
    """Draw the reflection of sun or moon on water."""
    lights = [placed for placed in scene.objects if placed.name in ("sun", "moon")]
    if not lights or scene.place not in ("sea", "river"):
        return
    pen, middle = canvas.pen(), lights[0].x
    shine = (WHITE if scene.time != "dusk" else COLOURS["yellow"].mix(WHITE, 0.4)).lit().fade(150)
    top, bottom = scene.horizon + 0.06, min(1.0, scene.shore - 0.03)
    for share, aside in rng.random((22, 2)).tolist():
        v, reach = 1 - top - share * (bottom - top), 0.012 + 0.03 * share
        u = middle + (aside - 0.5) * (0.06 + 0.16 * share)
        pen.line([(u - reach, v), (u + reach, v)], shine, 0.007)


def _depth_order(placed: PlacedObject) -> float:
    """Sort key from far to near; what is behind the land is negative."""
    far = {"sun": -4.0, "moon": -4.0, "cloud": -3.0, "mountain": -2.0}
    if placed.name in far:
        return far[placed.name]
    return {"sky": 0.0, "air": 2.0}.get(placed.kind.zone, placed.y)


def draw_object(canvas: Canvas, scene: Scene, placed: PlacedObject) -> None:
    """Draw an object with its shadow."""
    kind, near = placed.kind, (placed.y - scene.horizon) / (1 - scene.horizon)
    haze = {"ground": 0.3 * (1 - near), "horizon": 0.38, "coast": 0.1, "sky": 0.06}
    pen = Pen(
        canvas,
        placed.x,
        placed.y,
        placed.size,
        placed.mirrored,
        placed.tilt,
        max(0.0, haze.get(kind.zone, 0.0)),
    )
    if kind.zone == "ground":
        pen.disc(0.05, 0.0, 0.45 * kind.width, DARK.fade(70), squash=0.16)
    if placed.name in ("boat", "whale", "lighthouse"):
        pen.disc(0.0, -0.05, 0.42 * kind.width, DARK.fade(60), squash=0.22)
    kind.draw(pen, _colour(scene, placed), np.random.default_rng(placed.seed))


def _colour(scene: Scene, placed: PlacedObject) -> Colour:
    """Return the colour by name; clutter has the colour of its place, clouds are white."""
    if placed.colour:
        return COLOURS[placed.colour]
    return WHITE if placed.name == "cloud" else PLACES[scene.place].clutter_colour


def apply_camera(drawing: Image.Image, size: int, rng: np.random.Generator) -> np.ndarray:
    """Reduce a drawing to (size, size, 3) uint8 with the flaws of a mediocre camera.

    These are soft focus, reduced colour resolution, exposure, white balance, vignette and grain.
    """
    image = drawing.reduce(drawing.width // size)
    image = image.filter(ImageFilter.BoxBlur(rng.uniform(0.0, 0.0045) * size))
    image = _soften_colour(image)
    gains = rng.uniform(0.84, 1.16) * rng.uniform(0.92, 1.08, 3)  # exposure, white balance
    levels = _vignette(size, rng.uniform(0.0, 0.3)) * gains.astype(np.float32)
    grain = rng.standard_normal((size, size, 1), dtype=np.float32)
    grain *= np.float32(rng.uniform(1.0, 5.0))
    pixels = np.asarray(image) * levels
    pixels += grain
    return np.clip(pixels, 0, 255, out=pixels).astype(np.uint8)


def _soften_colour(image: Image.Image) -> Image.Image:
    """Halve the resolution of colour but not of brightness, as JPEG does."""
    brightness, *colours = image.convert("YCbCr").split()
    half = (max(1, image.width // 2), max(1, image.height // 2))
    soft = [
        colour.resize(half, Image.Resampling.BOX).resize(image.size, Image.Resampling.BILINEAR)
        for colour in colours
    ]
    return Image.merge("YCbCr", (brightness, *soft)).convert("RGB")


def _vignette(size: int, strength: float) -> np.ndarray:
    """(size, size, 1) brightness: 1 at the centre, ``1 - strength`` in the corners."""
    across = np.linspace(-1, 1, size, dtype=np.float32) ** 2
    return (1 - strength / 2 * (across[:, None] + across[None, :]))[:, :, None]
