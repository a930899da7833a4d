"""A folder of images with a manifest, as user data."""

import numpy as np
from PIL import Image


def boats(folder, n=30):
    """Write images and a manifest with captions and labels; one image is truncated."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    lines = ["image,text,labels"]
    for i in range(n):
        pixels = rng.integers(0, 255, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.jpg")
        lines.append(f"{i}.jpg,{['a red boat', 'the green tree'][i % 2]},{['boat', 'tree'][i % 2]}")
    (folder / "manifest.csv").write_text("\n".join(lines))
    (folder / "4.jpg").write_bytes((folder / "4.jpg").read_bytes()[:700])
    return folder
