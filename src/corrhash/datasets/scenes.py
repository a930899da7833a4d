"""Scenes: drawn pictures with captions, noisy tags and labels, made from a seed alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from joblib import Parallel, cpu_count, delayed

from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.datasets.drawing import (
    THINGS,
    Scene,
    compose,
    draw,
    write_caption,
    write_tags,
)
from corrhash.datasets.splits import draw_split
from corrhash.errors import InputError
from corrhash.progress import report

# What two pictures can have in common: the drawn things, sea, snow and night. The other places
# are told in words but do not count: if all did, most pairs would share no more than a place,
# which the colours of a few pixels give away.
SCENE_LABELS = (*THINGS, "sea", "snow", "night")
CHUNK = 100  # pictures that are drawn between two reports of progress
WORTH_A_PROCESS = 200  # pictures; for fewer, starting another Python takes longer than drawing


@dataclass(frozen=True, eq=False)
class Scenes:
    """``n`` pictures and what is known of them; row *i* of each belongs together."""

    images: np.ndarray  # (n, size, size, 3) uint8
    tags: list[str]  # n strings of tags with spaces between; a few are empty
    captions: list[str]  # n sentences
    labels: np.ndarray  # (n, c) uint8, 0 or 1
    label_names: tuple[str, ...] = SCENE_LABELS  # c names


def draw_scenes(n: int, seed: int = 0, size: int = 96, workers: int | None = None) -> Scenes:
    """Draw ``n`` pictures of ``size`` pixels square, with words and labels.

    Picture *i* depends on ``seed``, ``size`` and *i* only: a longer list begins with the shorter
    one, any number of ``workers`` gives the same pictures bit for bit, and another size shows
    the same scenes.

    Parameters
    ----------
    n
        How many.
    seed
        Of everything: pictures, words and labels; zero or more.
    size
        Width and height in pixels, 16 or more.
    workers
        Processes to draw in; by default one for each core, where there is enough to do.

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
    _check(n, seed, size, workers)
    n_processes = max(1, min(workers or cpu_count(), n // WORTH_A_PROCESS))
    if n_processes == 1:
        return _draw_rows(seed, size, 0, n)
    # joblib's processes, unlike those of the standard library, do not run the caller's script.
    draw_in_processes = Parallel(n_jobs=n_processes, return_as="generator")
    bounds = [*range(0, n, CHUNK), n]
    parts = []
    for part in draw_in_processes(
        delayed(_draw_rows)(seed, size, *rows) for rows in pairwise(bounds)
    ):
        parts.append(part)
        report("Drawing scenes", bounds[len(parts)], n)
    return _joined(parts)


def scene_labels(scene: Scene) -> list[int]:
    """One 0 or 1 for each name of ``SCENE_LABELS``."""
    present = {*scene.kinds(), scene.place, scene.time}
    return [int(name in present) for name in SCENE_LABELS]


def _check(n: int, seed: int, size: int, workers: int | None) -> None:
    if n < 1:
        raise InputError(f"`n` must be at least 1. Got {n}. Ask for one picture or more.")
    if seed < 0:
        raise InputError(f"`seed` must be at least 0. Got {seed}. Use zero or more.")
    if size < 16:
        raise InputError(
            f"`size` must be at least 16 pixels. Got {size}. Use 96, for which things are drawn."
        )
    if workers is not None and workers < 1:
        raise InputError(
            f"`workers` must be at least 1. Got {workers}. Leave it out to use every core."
        )


def _draw_rows(seed: int, size: int, first: int, last: int) -> Scenes:
    """Rows ``first`` to ``last``, drawn in this process."""
    rngs = [np.random.default_rng([seed, row]) for row in range(first, last)]
    scenes = [compose(rng) for rng in rngs]
    return Scenes(
        images=np.stack([draw(scene, size) for scene in scenes]),
        tags=[write_tags(scene, rng) for scene, rng in zip(scenes, rngs, strict=True)],
        captions=[write_caption(scene, rng) for scene, rng in zip(scenes, rngs, strict=True)],
        labels=np.array([scene_labels(scene) for scene in scenes], dtype=np.uint8),
    )


def _joined(parts: list[Scenes]) -> Scenes:
    return Scenes(
        images=np.concatenate([part.images for part in parts]),
        tags=[tags for part in parts for tags in part.tags],
        captions=[caption for part in parts for caption in part.captions],
        labels=np.concatenate([part.labels for part in parts]),
    )


def load(seed: int = 0, n: int = 6000) -> RetrievalSplit:
    """Drawn pictures with noisy tags, 27 labels: minutes from raw pixels, nothing to download."""
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
