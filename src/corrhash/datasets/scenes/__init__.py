"""Synthetic photos of scenes: compose a scene, draw it, and write its tags and caption."""

from corrhash.datasets.scenes.composition import compose
from corrhash.datasets.scenes.dataset import SCENE_LABELS, Scenes, draw_scenes
from corrhash.datasets.scenes.objects import CLUTTER, OBJECTS, ObjectKind
from corrhash.datasets.scenes.places import PLACES
from corrhash.datasets.scenes.scene import PlacedObject, Scene, draw
from corrhash.datasets.scenes.texts import write_caption, write_tags

__all__ = [
    "CLUTTER",
    "OBJECTS",
    "PLACES",
    "SCENE_LABELS",
    "ObjectKind",
    "PlacedObject",
    "Scene",
    "Scenes",
    "compose",
    "draw",
    "draw_scenes",
    "write_caption",
    "write_tags",
]
