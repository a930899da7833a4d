"""The scenes dataset: synthetic photos with captions, noisy tags and labels, from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from joblib import Parallel, cpu_count, delayed

from corrhash._progress import report
from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.datasets.scenes.composition import compose
from corrhash.datasets.scenes.objects import OBJECTS
from corrhash.datasets.scenes.scene import Scene, draw
from corrhash.datasets.scenes.texts import write_caption, write_tags
from corrhash.datasets.splits import draw_split
from corrhash.errors import InputError, check_integer

# Other places are no labels: most similar pairs would share only a place, which the colours of a
# few pixels reveal.
SCENE_LABELS = (*OBJECTS, "sea", "snow", "night")

CHUNK = 100
"""Images per progress report."""

MIN_PER_PROCESS = 200
"""Images per process; for fewer, starting a process takes longer than drawing."""


@dataclass(frozen=True, eq=False)
class Scenes:
    """Images of ``n`` scenes with their texts and labels, row by row."""

    images: np.ndarray  # (n, size, size, 3) uint8
    tags: list[str]  # n strings of space-separated tags; a few are empty
    captions: list[str]  # n sentences
    labels: np.ndarray  # (n, n_labels) uint8, 0 or 1
    label_names: tuple[str, ...] = SCENE_LABELS


def load(seed: int = 0, n: int = 6000) -> RetrievalSplit:
    """Synthetic photos with noisy tags and 27 labels; trains from pixels in minutes."""
    check_integer("n", n, 12)  # fewer would give no queries
    scenes = draw_scenes(n, seed)
    pairs = PairedDataset(
        images=scenes.images,
        texts=scenes.tags,
        labels=scenes.labels,
        keys=[f"scene {row}" for row in range(n)],
        items=[{"caption": caption} for caption in scenes.captions],
        label_names=scenes.label_names,
    )
    part = n // 12
    return draw_split(pairs, "scenes", seed, n_query=part, n_validation=part, n_train=8 * part)


def draw_scenes(n: int, seed: int = 0, size: int = 96, workers: int | None = None) -> Scenes:
    """Draw ``n`` square images with tags, captions and labels.

    Image *i* depends on ``seed``, ``size`` and *i* only. Neither ``n`` nor ``workers`` changes a
    bit of it, and another size shows the same scene.

    Parameters
    ----------
    n : number of images.
    seed : seed of images, texts and labels, 0 or more.
    size : width and height in pixels, 16 or more.
    workers : number of processes; by default one per core, if there is enough to draw.

    Examples
    --------
    >>> scenes = draw_scenes(3, seed=1)
    >>> scenes.images.shape, scenes.labels.shape
    ((3, 96, 96, 3), (3, 27))
    >>> scenes.captions[2]
    'A city with a black dog and a red car in the morning.'
    >>> scenes.tags[2]
    'travel dogs downtown car'
    """
    for name, value, least in (("n", n, 1), ("seed", seed, 0), ("size", size, 16)):
        check_integer(name, value, least)
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}. Omit it to use every core.")
    n_processes = max(1, min(workers or cpu_count(), n // MIN_PER_PROCESS))
    if n_processes == 1:
        return _draw_rows(seed, size, 0, n)
    # Unlike processes of the standard library, joblib's do not run the caller's script again.
    draw_in_processes = Parallel(n_jobs=n_processes, return_as="generator")
    bounds = [*range(0, n, CHUNK), n]
    parts = []
    for part in draw_in_processes(
        delayed(_draw_rows)(seed, size, *rows) for rows in pairwise(bounds)
    ):
        parts.append(part)
        report("Drawing scenes", bounds[len(parts)], n)
    return Scenes(
        images=np.concatenate([part.images for part in parts]),
        tags=[tags for part in parts for tags in part.tags],
        captions=[caption for part in parts for caption in part.captions],
        labels=np.concatenate([part.labels for part in parts]),
    )


def _draw_rows(seed: int, size: int, first: int, last: int) -> Scenes:
    """Draw rows ``first`` to ``last`` in this process."""
    rngs = [np.random.default_rng([seed, row]) for row in range(first, last)]
    scenes = [compose(rng) for rng in rngs]
    return Scenes(
        images=np.stack([draw(scene, size) for scene in scenes]),
        tags=[write_tags(scene, rng) for scene, rng in zip(scenes, rngs, strict=True)],
        captions=[write_caption(scene, rng) for scene, rng in zip(scenes, rngs, strict=True)],
        labels=np.array([scene_labels(scene) for scene in scenes], dtype=np.uint8),
    )


def scene_labels(scene: Scene) -> list[int]:
    """Return 0 or 1 for each name of ``SCENE_LABELS``."""
    present = {*scene.object_names(), scene.place, scene.time}
    return [int(name in present) for name in SCENE_LABELS]
