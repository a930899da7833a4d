"""Relevance judgments of a collection: whether an item fits a query, as its users judged it.

A judgment is a record that is only ever appended. A later one of the same query and item replaces
an earlier one, and the verdict 0 withdraws it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from corrhash._files import content_checksum
from corrhash.datasets.images import open_image
from corrhash.errors import InputError, NotFoundError
from corrhash.index.base import CodeIndex
from corrhash.index.items import check_modality, check_text
from corrhash.model import Model

KIND = "judgment"
"""Kind of record in the log of an index."""

MAX_QUERY = 10_000
"""Most characters of a query text."""

MAX_FEATURE = 65_504
"""Largest feature of a query image: they are stored as float16."""

QueryKind = Literal["text", "image", "key"]


@dataclass(frozen=True)
class Judgment:
    """Whether an item fits a query.

    Parameters
    ----------
    kind : ``text``, ``key`` or ``image``, the kind of query.
    query : the text, the key of an item, or a checksum of the image.
    item : key of the judged item.
    verdict : 1 if it fits, -1 if it does not fit, 0 if the judgment is withdrawn.
    find : ``image`` or ``text``, the part of the item that was found.
    time : when it was judged, in UTC, such as 2026-05-01T12:30:00+00:00.
    features : of a query image, if the model reads feature vectors: float16 in base64.
    """

    kind: QueryKind
    query: str
    item: str
    verdict: int
    find: str = "image"
    time: str = ""
    features: str = ""

    def __post_init__(self) -> None:
        for name, value in (("query", self.query), ("item", self.item)):
            if not isinstance(value, str) or not value.strip():
                raise InputError(
                    f"The {name} of a judgment must be a non-empty string, got {value!r}."
                )
            check_text(value, f"The {name} of a judgment")
        if len(self.query) > MAX_QUERY:
            raise InputError(
                f"A query must have at most {MAX_QUERY:,} characters, got {len(self.query):,}."
            )
        if self.kind not in ("text", "image", "key"):
            raise InputError(f"The kind of query must be text, image or key, got {self.kind!r}.")
        if self.verdict not in (1, -1, 0) or isinstance(self.verdict, bool):
            raise InputError(
                "The verdict must be 1 (fits), -1 (does not fit) or 0 (withdrawn), got "
                f"{self.verdict!r}."
            )
        if self.kind == "key" and self.query == self.item:
            raise InputError(f"{self.item!r} cannot be judged as a result of itself.")
        check_modality(self.find, "find")
        if not self.time:
            object.__setattr__(self, "time", datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def subject(self) -> tuple[str, str, str, str]:
        """What is judged: a later judgment about the same subject replaces this one."""
        return self.kind, self.query, self.item, self.find

    @property
    def vector(self) -> NDArray[np.float32] | None:
        """Features of the query image."""
        if not self.features:
            return None
        return np.frombuffer(base64.b64decode(self.features), np.float16).astype(np.float32)

    def record(self) -> dict[str, Any]:
        """Return the judgment as JSON values, without empty fields."""
        return {name: value for name, value in asdict(self).items() if value != ""}


def as_verdict(fits: bool | None) -> int:
    """Return 1 for True, -1 for False and 0 for None."""
    if fits is not None and not isinstance(fits, (bool, np.bool_)):
        raise InputError(
            f"fits must be True, False or None (None withdraws a judgment), got {fits!r}."
        )
    return 0 if fits is None else 1 if fits else -1


def store_judgments(index: CodeIndex, judgments: Sequence[Judgment]) -> None:
    """Append judgments; an unknown key of an item raises an error, and nothing is stored."""
    named = {one.item for one in judgments} | {one.query for one in judgments if one.kind == "key"}
    unknown = sorted(named - index.ids_of(sorted(named)).keys())
    if unknown:
        raise NotFoundError(f"No item with the key {unknown[0]!r} in this collection.")
    index.append(KIND, [one.record() for one in judgments])


def read_judgments(index: CodeIndex) -> list[Judgment]:
    """Return the judgments that hold, in the order of storage; withdrawn ones are skipped."""
    return [one for _, one in numbered_judgments(index.records(KIND))]


def numbered_judgments(records: Sequence[dict[str, Any]]) -> list[tuple[int, Judgment]]:
    """Return the judgments that hold, each with the number of the record that introduced it.

    A judgment that is repeated, such as by importing a file twice, keeps its number.
    """
    latest: dict[tuple[str, str, str, str], tuple[int, Judgment]] = {}
    for number, record in enumerate(records):
        one = Judgment(**record)
        first, known = latest.pop(one.subject, (number, one))
        latest[one.subject] = first if known.verdict == one.verdict else number, one
    return [found for found in latest.values() if found[1].verdict]


def verdicts(judgments: Iterable[Judgment], kind: str, query: str, find: str) -> dict[str, int]:
    """Return the verdicts about one query, by key of the item."""
    asked = (kind, query, find)
    return {one.item: one.verdict for one in judgments if (one.kind, one.query, one.find) == asked}


def of_image(image: Any, model: Model) -> tuple[str, str]:
    """Return the checksum and the features of a query image, as :class:`Judgment` holds them.

    Feature vectors that the model cannot encode raise an error.
    """
    if getattr(image, "ndim", 0) == 1:
        if image.dtype.kind not in "fiub":
            raise InputError(f"Image features must be numbers, got an array of {image.dtype}.")
        vector = np.asarray(image, np.float32)  # whatever the type, for equal checksums
        model.hasher.embed_image(vector[None])
        return content_checksum(vector.tobytes()), _packed(vector)
    opened = open_image(image)
    checksum = content_checksum(opened.convert("RGB").tobytes())
    if model.reader.image_features is None:
        return checksum, ""
    return checksum, _packed(model.reader.read_images([opened])[0])


def _packed(vector: NDArray[Any]) -> str:
    largest = float(np.abs(vector).max(initial=0))
    if not largest <= MAX_FEATURE:
        raise InputError(
            f"The features of a judged image must be between -{MAX_FEATURE:,} and {MAX_FEATURE:,}, "
            f"got {largest:g}. Judge the image itself, or scale the features and train again."
        )
    return base64.b64encode(np.asarray(vector, np.float16).tobytes()).decode()


def at_time(judgment: Judgment, time: str) -> Judgment:
    """Return a judgment with another time, which must be an ISO date."""
    try:
        datetime.fromisoformat(time)
    except ValueError as error:
        raise InputError(f"The time of a judgment must be an ISO date, got {time!r}.") from error
    return replace(judgment, time=time)
