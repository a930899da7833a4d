"""Pictures drawn by the program: compose a scene, draw it, and find words for it."""

from corrhash.datasets.drawing.captions import write_caption
from corrhash.datasets.drawing.composing import compose
from corrhash.datasets.drawing.scene import Placed, Scene, draw
from corrhash.datasets.drawing.settings import SETTINGS
from corrhash.datasets.drawing.tags import write_tags
from corrhash.datasets.drawing.things import CLUTTER, THINGS, Thing

__all__ = [
    "CLUTTER",
    "SETTINGS",
    "THINGS",
    "Placed",
    "Scene",
    "Thing",
    "compose",
    "draw",
    "write_caption",
    "write_tags",
]
