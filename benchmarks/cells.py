"""A cell of a comparison: one model, trained and measured."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import torch

from corrhash.datasets import DATASETS, RetrievalSplit, TextOptions, load_dataset, supervise
from corrhash.experiments.directions import DIRECTIONS, encode_pairs, score_directions
from corrhash.experiments.settings import new_hasher, with_seed
from corrhash.experiments.tuning import validation_map
from corrhash.methods import METHODS, Hasher
from corrhash.metrics import evaluate

N_WORDS = 1000


@cache
def load(data: str, features: str) -> RetrievalSplit:
    """A dataset by its name; or photos in a folder, with the most frequent words of their texts."""
    if data in DATASETS:
        return load_dataset(data)
    words = TextOptions(top=N_WORDS, min_count=1)
    return load_dataset(data, image_features=str(Path(data) / features), texts=words)


@dataclass(frozen=True)
class Cell:
    """A model to train."""

    method: str
    bits: int
    seed: int
    supervision: str
    params: tuple[tuple[str, Any], ...]

    def hasher(self) -> Any:
        """The method with these settings; ``literal`` is CHN as published."""
        literal = self.method == "literal"
        method = METHODS["chn" if literal else self.method]
        hasher = new_hasher(method, self.bits, dict(self.params), literal=literal)
        return with_seed(hasher, self.seed)

    def name(self, work: str) -> str:
        """A text that is the same for the same work on the same model."""
        return json.dumps([work, *asdict(self).values()])


Work = Callable[[RetrievalSplit, Any, str], dict[str, Any]]


def validate(split: RetrievalSplit, hasher: Hasher, supervision: str) -> dict[str, Any]:
    """Train one model and score it on validation items, which are what settings are chosen by."""
    taught = supervise(split, supervision, needed=hasher.needs_labels)
    hasher.fit(taught.train, taught.validation)
    return {"validation": validation_map(hasher, split.train, split.validation)}


def measure(split: RetrievalSplit, hasher: Any, supervision: str) -> dict[str, Any]:
    """Train one model and score its codes and, before binarisation, its real-valued scores."""
    taught = supervise(split, supervision, needed=hasher.needs_labels)
    hasher.fit(taught.train, taught.validation)
    query, database = (encode_pairs(hasher, part) for part in (split.query, split.database))
    scores = score_directions(split, query, database)
    numbers: dict[str, Any] = {direction: scores[direction].map for direction in DIRECTIONS}
    numbers |= {f"{d} cosine": value for d, value in cosine_maps(hasher, split).items()}
    numbers["distinct"] = scores["text->image"].n_distinct_database
    numbers["validation"] = validation_map(hasher, split.train, split.validation)
    return numbers


def cosine_maps(hasher: Hasher, split: RetrievalSplit) -> dict[str, float]:
    """The same model, ranked by the cosine of its scores: of CHN, what the paper calls CHN-B."""
    sides = {"image": hasher.score_image, "text": hasher.score_text}
    values = {}
    for direction in DIRECTIONS:
        asked, answered = direction.split("->")
        values[direction] = evaluate(
            sides[asked](getattr(split.query, f"{asked}s")),
            sides[answered](getattr(split.database, f"{answered}s")),
            split.query.labels,
            split.database.labels,
        ).map
    return values


def one_cell(data: str, features: str, cell: Cell, work: Work) -> dict[str, Any]:
    """One line of the results file."""
    torch.set_num_threads(1)
    split = load(data, features)
    started = time.perf_counter()
    numbers = work(split, cell.hasher(), cell.supervision)
    spent = round(time.perf_counter() - started, 1)
    return {"work": work.__name__, **asdict(cell), **numbers, "seconds": spent}


def line_name(line: dict[str, Any]) -> str:
    """What tells one line from another."""
    cell = Cell(*(line[part.name] for part in fields(Cell)))
    return cell.name(line["work"])
