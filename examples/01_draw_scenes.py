"""Draw scenes and look at them: ``python examples/01_draw_scenes.py scenes.png``."""

import sys

from corrhash.datasets.scenes import draw_scenes
from corrhash.sheet import contact_sheet

path = sys.argv[1] if len(sys.argv) > 1 else "scenes.png"
scenes = draw_scenes(18, seed=7, size=144)
contact_sheet(scenes.images, scenes.tags, columns=6, side=144).save(path, optimize=True)
print(f"{len(scenes.images)} scenes: {path}")
for caption in scenes.captions[:3]:
    print(" ", caption)
