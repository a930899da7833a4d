"""Scenes: drawn pictures with captions, noisy tags and labels, made from a seed alone."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import corrhash
from corrhash.datasets.drawing import SETTINGS, THINGS, Scene, compose, draw
from corrhash.datasets.drawing import write_caption, write_tags
from corrhash.errors import InputError

# What counts as a shared label: the drawn things, the five settings, and night.
SCENE_LABELS = (*THINGS, *SETTINGS, "night")
WORTH_A_PROCESS = 250  # pictures; below, starting another Python takes longer than drawing


@dataclass(frozen=True, eq=False)
class Scenes:
    """``n`` pictures and what is known of them; row *i* of each belongs together."""

    images: np.ndarray  # (n, size, size, 3) uint8
    tags: list[str]  # n strings of tags with spaces between; a few are empty
    captions: list[str]  # n sentences
    labels: np.ndarray  # (n, c) uint8, 0 or 1
    label_names: tuple[str, ...]  # c names


def draw_scenes(n: int, seed: int = 0, size: int = 96, workers: int | None = None) -> Scenes:
    """Draw ``n`` pictures of ``size`` pixels square, with words and labels.

    Picture *i* depends on ``seed``, ``size`` and *i* only, so a longer list begins with the
    shorter one, and any number of ``workers`` (processes; by default one per core where that
    pays) gives the same pictures bit for bit.

    >>> scenes = draw_scenes(3, seed=1)
    >>> scenes.images.shape, scenes.labels.shape
    ((3, 96, 96, 3), (3, 30))
    >>> scenes.captions[0]
    """
    _check(n, size, workers)
    with ThreadPoolExecutor(max_workers=1) as pool:
        drawing = pool.submit(_draw_all, n, seed, size, _n_processes(n, workers))
        words = [_describe(seed, row) for row in range(n)]
        images = drawing.result()
    return Scenes(
        images,
        tags=[tags for tags, _, _ in words],
        captions=[caption for _, caption, _ in words],
        labels=np.array([labels for _, _, labels in words], dtype=np.uint8),
        label_names=SCENE_LABELS,
    )


def scene_labels(scene: Scene) -> list[int]:
    """One 0 or 1 for each name of ``SCENE_LABELS``."""
    present = {*scene.kinds(), scene.place, scene.time}
    return [int(name in present) for name in SCENE_LABELS]


def _check(n: int, size: int, workers: int | None) -> None:
    if n < 1:
        raise InputError(f"`n` must be at least 1. Got {n}. Ask for one picture or more.")
    if size < 16:
        raise InputError(
            f"`size` must be at least 16 pixels. Got {size}. Use 96, for which things are drawn."
        )
    if workers is not None and workers < 1:
        raise InputError(
            f"`workers` must be at least 1. Got {workers}. Leave it out to use every core."
        )


def _compose(seed: int, row: int) -> tuple[Scene, np.random.Generator]:
    """The scene of one row, and the generator to go on with."""
    rng = np.random.default_rng([seed, row])
    return compose(rng), rng


def _describe(seed: int, row: int) -> tuple[str, str, list[int]]:
    scene, rng = _compose(seed, row)
    return write_tags(scene, rng), write_caption(scene, rng), scene_labels(scene)


def _n_processes(n: int, workers: int | None) -> int:
    wanted = workers or len(os.sched_getaffinity(0))
    return max(1, min(wanted, n // WORTH_A_PROCESS))


def _draw_rows(seed: int, size: int, first: int, last: int) -> np.ndarray:
    """Rows ``first`` to ``last`` in this process: (last - first, size, size, 3)."""
    return np.stack([draw(_compose(seed, row)[0], size) for row in range(first, last)])


def _draw_all(n: int, seed: int, size: int, n_processes: int) -> np.ndarray:
    """All pictures, in equal shares over the processes."""
    if n_processes == 1:
        return _draw_rows(seed, size, 0, n)
    bounds = np.linspace(0, n, n_processes + 1).astype(int).tolist()
    with ThreadPoolExecutor(max_workers=n_processes) as threads:
        shares = threads.map(
            lambda first, last: _ask_process(seed, size, first, last), bounds, bounds[1:]
        )
        return np.concatenate(list(shares))


def _ask_process(seed: int, size: int, first: int, last: int) -> np.ndarray:
    """Rows drawn by another Python, which sends back their bytes.

    A pool of `multiprocessing` would run the caller's script again in each process, and a
    script without a `__main__` guard would start pools without end; this one never sees it.
    """
    root = str(Path(corrhash.__file__).parents[1])  # so that it finds this very package
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    answer = subprocess.run(
        [sys.executable, "-P", "-c", "from corrhash.datasets.scenes import _serve; _serve()"]
        + [str(number) for number in (seed, size, first, last)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=True,
    )
    return np.frombuffer(answer.stdout, dtype=np.uint8).reshape(last - first, size, size, 3)


def _serve() -> None:
    """Draw the rows named on the command line and write their bytes to standard output."""
    seed, size, first, last = map(int, sys.argv[1:])
    sys.stdout.buffer.write(_draw_rows(seed, size, first, last).tobytes())
