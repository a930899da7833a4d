"""Generate images with captions and save a contact sheet: 01_draw_scenes.py [OUTPUT.png]."""

import sys

from corrhash.contact_sheet import contact_sheet
from corrhash.datasets.scenes import draw_scenes

path = sys.argv[1] if len(sys.argv) > 1 else "scenes.png"
scenes = draw_scenes(18, seed=7, size=144)
contact_sheet(scenes.images, scenes.tags, columns=6, size=144).save(path, optimize=True)
print(f"Saved {len(scenes.images)} scenes to {path}. The first captions:")
for caption in scenes.captions[:3]:
    print(" ", caption)
