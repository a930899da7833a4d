"""Near-duplicates among real photos with planted copies: precision and recall.

Copies of some photos are resized, re-encoded, cropped by 5% of each side at a random position, and
mirrored. A pair of items is right if both were made from the same photo. Photos that were published
twice count as wrong pairs; they are listed, to be looked at.

    python -m benchmarks.duplicates PHOTOS MODEL [--photos 1000] [--copied 100]

PHOTOS is a folder of images, and MODEL a folder that corrhash train wrote, which reads images.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from corrhash import Collection, load_model

KINDS = ("resized", "re-encoded", "cropped", "mirrored")


def copy_of(image: Image.Image, kind: str, rng: np.random.Generator) -> bytes:
    """Return a copy of an image as the content of a JPEG file."""
    width, height = image.size
    quality = 85
    if kind == "resized":
        image = image.resize((width // 2, height // 2), Image.Resampling.LANCZOS)
    elif kind == "re-encoded":
        quality = 30
    elif kind == "cropped":
        left, top = rng.uniform(0, 0.05, 2)
        box = (left * width, top * height, (left + 0.95) * width, (top + 0.95) * height)
        image = image.crop(tuple(round(edge) for edge in box))
    else:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def records(photos: list[Path], n_copied: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield photos and copies; the key of a copy starts with that of its photo."""
    rng = np.random.default_rng(seed)
    for number, path in enumerate(photos):
        yield {"key": path.name, "image": path}
        if number < n_copied:
            with Image.open(path) as image:
                rgb = image.convert("RGB")
            for kind in KINDS:
                yield {"key": f"{path.name} {kind}", "image": copy_of(rgb, kind, rng)}


def measure(photos: list[Path], model: Path, n_copied: int, seed: int) -> dict[str, Any]:
    """Index photos and copies, and compare the groups with those that were planted."""
    collection = Collection.create("memory:", load_model(model))
    collection.add(records(photos, n_copied, seed))
    started = time.perf_counter()
    groups = collection.duplicates()
    seconds = time.perf_counter() - started
    found = {pair for group in groups for pair in combinations(sorted(group.keys), 2)}
    planted = set()
    for path in photos[:n_copied]:
        copies = [path.name, *(f"{path.name} {kind}" for kind in KINDS)]
        planted |= {*combinations(sorted(copies), 2)}
    with_photo = {kind: [(p.name, f"{p.name} {kind}") for p in photos[:n_copied]] for kind in KINDS}
    ids = collection.ids_of([key for pair in planted for key in pair])
    codes = collection.codes_of(list(ids.values()), "image")
    distances = {
        kind: [int(codes[ids[a]].hamming(codes[ids[b]])[0, 0]) for a, b in pairs]
        for kind, pairs in with_photo.items()
    }
    return {
        "items": len(collection),
        "bits": collection.n_bits,
        "groups": len(groups),
        "precision": len(found & planted) / max(1, len(found)),
        "recall": len(found & planted) / len(planted),
        "recall_by_kind": {
            kind: len(found.intersection(pairs)) / len(pairs) for kind, pairs in with_photo.items()
        },
        "code_distance_95_percent": {
            kind: float(np.percentile(values, 95)) for kind, values in distances.items()
        },
        "wrong_pairs": sorted(found - planted)[:20],
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Print the measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--photos", dest="n", type=int, default=1000)
    parser.add_argument("--copied", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    paths = sorted(given.photos.rglob("*.jpg"))
    order = np.random.default_rng(given.seed).permutation(len(paths))[: given.n]
    print(
        json.dumps(
            measure([paths[i] for i in order], given.model, given.copied, given.seed), indent=1
        )
    )


if __name__ == "__main__":
    main()
