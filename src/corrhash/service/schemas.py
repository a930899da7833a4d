"""Requests and responses of the API, with the descriptions that its OpenAPI document shows."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError, to_json

from corrhash.collection.base import SearchOptions
from corrhash.datasets.records import Record
from corrhash.errors import InputError
from corrhash.index.filter_grammar import parse_filter
from corrhash.index.filters import field_names
from corrhash.service.limits import (
    MAX_CAPTION,
    MAX_FIELDS,
    MAX_ITEMS,
    MAX_K,
    MAX_LABEL,
    MAX_LABELS,
    MAX_NAME,
    MAX_OFFSET,
    MAX_TEXT,
    MAX_VALUE,
    Limits,
)
from corrhash.service.uploads import decode_image

__all__ = ["ValidationError", "to_json"]  # to_json takes a fifth of the time of json.dumps

Modality = Literal["image", "text"]
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT, pattern=r"^[^\x00]*$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT, pattern=r"^[^\x00]*$")]
Label = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LABEL, pattern=r"^[^\x00]*$")]
Labels = Annotated[list[Label], FailFast()]
Hex = Annotated[str, StringConstraints(min_length=2, max_length=256, pattern=r"^[0-9a-f]+$")]

STRICT = ConfigDict(extra="forbid", strict=True)
"""For JSON, whose values have types; query parameters are strings and need conversion."""

DEFAULTS = SearchOptions()

PRIVATE_FIELDS = {"path"}
"""Fields that responses hide. A filter could reveal their values, one character after another."""

METADATA_LIMITS = f"Names have at most {MAX_NAME} characters, strings at most {MAX_VALUE:,}."


def _few_fields(value: Any) -> Any:
    """Refuse an object with many fields at once, instead of explaining what is wrong with each."""
    if isinstance(value, dict) and len(value) > MAX_FIELDS:
        counts = {"most": MAX_FIELDS, "got": len(value)}
        raise PydanticCustomError("too_many_fields", "has too many fields", counts)
    return value


class _Schema(BaseModel):
    model_config = ConfigDict(extra="forbid")

    _limited = model_validator(mode="before")(_few_fields)


class SearchParameters(_Schema):
    """The options of every search."""

    find: Modality = Field("image", description="Which codes of items to search.")
    k: int = Field(DEFAULTS.k, ge=1, le=MAX_K, description="Maximum number of matches.")
    where: Text | None = Field(
        None,
        description="A filter, such as: year >= 2015 and not 'dog' in labels",
        examples=["'boat' in labels"],
    )
    radius: int | None = Field(None, ge=0, le=1024, description="Maximum Hamming distance.")
    offset: int = Field(
        DEFAULTS.offset, ge=0, le=MAX_OFFSET, description="Number of leading matches to skip."
    )
    rerank: bool = Field(
        DEFAULTS.rerank, description="Re-rank the nearest 100 items by cosine similarity."
    )
    min_probability: float | None = Field(
        None, ge=0, le=1, description="Exclude matches that are less likely to be relevant."
    )

    def options(self) -> SearchOptions:
        """The same as options of a collection."""
        return SearchOptions(
            find=self.find,
            k=self.k,
            where=public_filter(self.where),
            radius=self.radius,
            offset=self.offset,
            rerank=self.rerank,
            min_probability=self.min_probability,
        )


class TextSearch(SearchParameters):
    """A search by text."""

    model_config = STRICT

    text: Name = Field(description="The query text.", examples=["boat sea"])


class KeySearch(SearchParameters):
    """A search for items similar to an item of the collection."""

    model_config = STRICT

    key: Name = Field(description="Key of the item.", examples=["scene 7"])


class CodesSearch(SearchParameters):
    """A search by hash code."""

    model_config = STRICT

    codes: Hex = Field(
        description="One hash code in hexadecimal digits, as in the responses.",
        examples=["3fa207"],
    )


class ItemResponse(_Schema):
    """An item."""

    id: int
    key: str
    text: str
    labels: list[str]
    metadata: dict[str, Any]
    thumbnail: str | None = Field(description="Path of the thumbnail, if the item has an image.")


class FullItemResponse(ItemResponse):
    """An item with the location of its image file."""

    path: str | None = Field(
        description="Path of the image file below the root of the collection, if paths are public."
    )


class MatchResponse(ItemResponse):
    """A matching item."""

    distance: int = Field(description="Hamming distance between its code and the query's.")
    score: float | None = Field(
        description="Cosine similarity that it was re-ranked by, if it was."
    )
    probability: float | None = Field(
        description="Probability that it shares a label with the query, if the model is calibrated."
    )
    code: str = Field(
        description="Its code, two hexadecimal digits per byte; bit k is the bit of value "
        "2^(k % 8) of byte k // 8."
    )


class SearchResponse(_Schema):
    """A page of matches, best first."""

    code: str = Field(description="The code of the query, in the same format as those of items.")
    bits: int = Field(description="Code length.")
    find: Modality
    matches: list[MatchResponse]
    next_offset: int | None = Field(description="Offset of the next page, if there is one.")
    unknown_words: list[str] = Field(
        description="Words of a text query that the model does not know."
    )
    suggestions: dict[str, str] = Field(
        description="A similar known term for some of the unknown words."
    )
    message: str = Field(
        description="What to show to the user about the words of a text query; empty if all of "
        "them are known."
    )
    milliseconds: float = Field(description="Time from request to response, in the service.")


class DuplicateGroupResponse(_Schema):
    """Items that show the same image."""

    items: list[ItemResponse] = Field(description="The first 100 items.")
    n_items: int = Field(description="Number of items when they were compared.")
    similarity: float | None = Field(
        description="Lowest correlation of their pixels; null if only codes were compared."
    )


class DuplicatesResponse(_Schema):
    """A page of groups of items that show the same image."""

    ready: bool = Field(description="Whether the images have been compared.")
    total: int = Field(description="Number of groups.")
    groups: list[DuplicateGroupResponse]
    next_offset: int | None = Field(description="Offset of the next page, if there is one.")


class NewItem(_Schema):
    """An item to add, or to replace the one with the same key."""

    model_config = STRICT

    key: Name = Field(examples=["holiday/1.jpg"])
    image: str | None = Field(None, description="An image file in base64.")
    text: str = Field("", max_length=MAX_CAPTION, examples=["two boats on the sea"])
    labels: Labels = Field([], max_length=MAX_LABELS, examples=[["boat"]])
    metadata: Annotated[dict[str, str | int | float | bool], BeforeValidator(_few_fields)] = Field(
        {}, max_length=MAX_FIELDS, description=METADATA_LIMITS, examples=[{"year": 2015}]
    )


class NewItems(_Schema):
    """Items to add."""

    model_config = STRICT

    items: Annotated[list[NewItem], FailFast()] = Field(min_length=1, max_length=MAX_ITEMS)

    def records(self, limits: Limits) -> list[Record]:
        """Convert all items to records; one invalid item rejects all."""
        return list(_records(self.items, limits))


class ItemChange(_Schema):
    """Fields of an item to change."""

    model_config = STRICT

    key: Name = Field(examples=["holiday/1.jpg"])
    text: str = Field("", max_length=MAX_CAPTION, description="The new text, empty to remove it.")
    labels: Labels = Field([], max_length=MAX_LABELS, description="All labels of the item.")
    metadata: Annotated[
        dict[str, str | int | float | bool | None], BeforeValidator(_few_fields)
    ] = Field(
        {},
        max_length=MAX_FIELDS,
        description=f"Fields to set, or null to remove a field. {METADATA_LIMITS}",
        examples=[{"year": 2015}],
    )


class ItemChanges(_Schema):
    """Items to change."""

    model_config = STRICT

    items: Annotated[list[ItemChange], FailFast()] = Field(min_length=1, max_length=MAX_ITEMS)

    def changes(self) -> list[dict[str, Any]]:
        """Return the fields that were given."""
        for item in self.items:
            _check_metadata(item)
        return [item.model_dump(exclude_unset=True) for item in self.items]


class AddResponse(_Schema):
    """The number of written items."""

    new: int
    updated: int
    moved: int
    unchanged: int
    skipped: dict[str, str] = Field(description="Reason per key of a skipped item.")


class NewJudgment(_Schema):
    """Whether an item fits a query, which is a text, the key of an item or an image."""

    model_config = STRICT

    text: Name | None = Field(None, description="The query text.", examples=["two dogs"])
    key: Name | None = Field(None, description="The key of an item that was searched by.")
    image: str | None = Field(None, description="The query image, a file in base64.")
    item: Name = Field(description="Key of the judged item.", examples=["holiday/1.jpg"])
    fits: bool | None = Field(description="Null withdraws an earlier judgment.")
    find: Modality = Field("image", description="Which codes of items were searched.")

    def arguments(self, limits: Limits) -> dict[str, Any]:
        """Return the arguments of :meth:`Collection.judge`."""
        image = None if self.image is None else decode_image(_decode(self.image), limits)
        return {**self.model_dump(), "image": image}


class JudgmentResponse(_Schema):
    """A stored judgment."""

    item: str
    fits: bool | None


class DeleteResponse(_Schema):
    """The number of deleted items, or of those that would be deleted."""

    deleted: int


class InfoResponse(_Schema):
    """The collection and the state of the service."""

    name: str
    items: int
    bits: int = Field(description="Code length.")
    method: str
    fingerprint: str = Field(description="Fingerprint of the model.")
    version: str
    writable: bool
    originals: bool = Field(description="Whether original image files are public.")
    paths: bool = Field(description="Whether paths of image files are public.")
    search_by: list[Modality] = Field(description="Kinds of queries that the model accepts.")
    find: list[Modality] = Field(description="Kinds of codes that items have.")
    examples: list[str] = Field(description="Example query terms.")
    labels: list[str] = Field(description="Frequent labels.")
    samples: list[ItemResponse] = Field(description="Sample items that have images.")


class ErrorResponse(_Schema):
    """An error."""

    error: str = Field(description="What is wrong and how to fix it.")
    request_id: str


class Status(_Schema):
    """Whether the service is ready."""

    status: Literal["ok", "starting"]


def _records(items: list[NewItem], limits: Limits) -> Iterator[Record]:
    for item in items:
        _check_metadata(item)
        try:
            image = None if item.image is None else decode_image(_decode(item.image), limits)
            yield Record(item.key, image, item.text, labels=item.labels, metadata=item.metadata)
        except InputError as error:
            raise InputError(f"Item {item.key!r}: {error}") from error


def public_filter(where: str | None) -> str | None:
    """Return a filter after checking that it parses and compares no private fields."""
    for name in PRIVATE_FIELDS & (set() if where is None else field_names(parse_filter(where))):
        raise InputError(
            f"The field {name!r} is private. Filter by key, text, labels or metadata fields."
        )
    return where


def _check_metadata(item: NewItem | ItemChange) -> None:
    for name, value in item.metadata.items():
        if len(name) > MAX_NAME:
            raise InputError(
                f"Item {item.key!r}: the name of a metadata field must have at most {MAX_NAME} "
                f"characters, got {len(name):,}."
            )
        if isinstance(value, str) and len(value) > MAX_VALUE:
            raise InputError(
                f"Item {item.key!r}: metadata[{name!r}] must have at most {MAX_VALUE:,} "
                f"characters, got {len(value):,}."
            )


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError("The image is not valid base64.") from error
