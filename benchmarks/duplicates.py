"""Near-duplicates among real photos with planted copies: precision and recall.

Some photos have one copy each: resized to half, re-encoded with quality 30, cropped by 5% of each
side at a random position, or mirrored. A pair is right if it is a photo and its copy. Photos that
were published twice count as wrong pairs; they are listed, to be looked at.

    python -m benchmarks.duplicates PHOTOS MODEL [--photos 1000] [--copied 100 of each kind]

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
    """Yield all photos, and one copy of some: ``n_copied`` of each kind."""
    rng = np.random.default_rng(seed)
    for path in photos:
        yield {"key": path.name, "image": path}
    for first, second in planted_pairs(photos, n_copied):
        path = next(path for path in photos if path.name == first)
        with Image.open(path) as image:
            copy = copy_of(image.convert("RGB"), second.rpartition(" ")[2], rng)
        yield {"key": second, "image": copy}


def planted_pairs(photos: list[Path], n_copied: int) -> list[tuple[str, str]]:
    """Return the keys of photos and their copies."""
    kinds = [kind for kind in KINDS for _ in range(n_copied)]
    return [(path.name, f"{path.name} {kind}") for path, kind in zip(photos, kinds, strict=False)]


def measure(photos: list[Path], model: Path, n_copied: int, seed: int) -> dict[str, Any]:
    """Index photos and copies, and compare the groups with those that were planted."""
    collection = Collection.create("memory:", load_model(model))
    collection.add(records(photos, n_copied, seed))
    started = time.perf_counter()
    groups = collection.duplicates()
    seconds = time.perf_counter() - started
    found = {pair for group in groups for pair in combinations(sorted(group.keys), 2)}
    planted = planted_pairs(photos, n_copied)
    ids = collection.ids_of([key for pair in planted for key in pair])
    codes = collection.codes_of(list(ids.values()), "image")
    kinds = {kind: [pair for pair in planted if pair[1].endswith(kind)] for kind in KINDS}
    return {
        "items": len(collection),
        "bits": collection.n_bits,
        "groups": len(groups),
        "precision": len(found.intersection(planted)) / max(1, len(found)),
        "recall": len(found.intersection(planted)) / len(planted),
        "recall_by_kind": {
            kind: len(found.intersection(pairs)) / len(pairs) for kind, pairs in kinds.items()
        },
        "code_distance_95_percent": {
            kind: float(
                np.percentile([codes[ids[a]].hamming(codes[ids[b]])[0, 0] for a, b in pairs], 95)
            )
            for kind, pairs in kinds.items()
        },
        "wrong_pairs": sorted(found.difference(planted))[:20],
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
