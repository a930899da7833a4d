"""Messages: what the API is asked and what it answers, with examples for its description."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from corrhash.service.limits import LAST_OFFSET, LONGEST_TEXT, MOST_ANSWERS, MOST_ITEMS

Side = Literal["image", "text"]
Text = Annotated[str, StringConstraints(max_length=LONGEST_TEXT, pattern=r"^[^\x00]*$")]
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=LONGEST_TEXT, pattern=r"^[^\x00]*$")
]

STRICT = ConfigDict(extra="forbid", strict=True)
"""In JSON a number is a number; in an address everything is a text."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid")


class How(_Message):
    """What every search takes."""

    find: Side = Field("image", description="By which of its codes an item is found.")
    k: int = Field(24, ge=1, le=MOST_ANSWERS, description="How many answers.")
    offset: int = Field(0, ge=0, le=LAST_OFFSET, description="Leave out so many of the first.")
    where: Text | None = Field(
        None,
        description="A filter, as: year >= 2015 and not 'dog' in labels",
        examples=["'boat' in labels"],
    )
    radius: int | None = Field(None, ge=0, le=1024, description="How many bits may differ at most.")
    rerank: bool = Field(True, description="Rank the nearest 100 once more.")


class TextQuestion(How):
    """A search by words."""

    model_config = STRICT

    text: Name = Field(description="Words, as they occur in the texts.", examples=["boat sea"])


class ItemQuestion(How):
    """A search for items like one that is there."""

    model_config = STRICT

    key: Name = Field(description="The key of the item.", examples=["scene 7"])


class ItemAnswer(_Message):
    """What is kept of an item, its codes in hexadecimal digits."""

    id: int
    key: str
    text: str
    labels: list[str]
    metadata: dict[str, Any]
    thumbnail: str | None = Field(description="Where its small picture is, if it has one.")


class MatchAnswer(ItemAnswer):
    """An item that was found."""

    distance: int = Field(description="In how many bits its code differs from the query's.")
    score: float | None = Field(description="The cosine that ranked it, if it was ranked again.")
    code: str = Field(
        description="The code by which it was found, two hexadecimal digits a byte; bit k is the "
        "bit of value 2^(k % 8) of byte k // 8."
    )


class SearchAnswer(_Message):
    """A page of what was found, best first."""

    code: str = Field(description="The code of the query, written as those of items.")
    bits: int = Field(description="Length of the codes.")
    find: Side
    matches: list[MatchAnswer]
    next_offset: int | None = Field(description="Where the next page begins, if there is one.")
    milliseconds: float = Field(description="From the question to the answer, in the service.")


class NewItem(_Message):
    """An item to add, or to put in place of that of the same key."""

    model_config = STRICT

    key: Name = Field(examples=["holiday/1.jpg"])
    image: str | None = Field(None, description="A picture file in base64.")
    text: str = Field("", max_length=20_000, examples=["two boats on the sea"])
    labels: list[Name] = Field([], max_length=200, examples=[["boat"]])
    metadata: dict[str, str | int | float | bool] = Field({}, examples=[{"year": 2015}])


class NewItems(_Message):
    """Items to add."""

    model_config = STRICT

    items: list[NewItem] = Field(min_length=1, max_length=MOST_ITEMS)


class AddedAnswer(_Message):
    """What became of the items."""

    new: int
    updated: int
    unchanged: int
    skipped: dict[str, str] = Field(description="Why items were left out, by key.")


class DeletedAnswer(_Message):
    """How many items were there, and are no longer."""

    deleted: int


class InfoAnswer(_Message):
    """What the service offers."""

    name: str
    items: int
    bits: int
    method: str
    fingerprint: str
    version: str
    writable: bool
    search_by: list[Side] = Field(description="With what the model can be asked.")
    examples: list[str] = Field(description="Words that the model knows.")
    labels: list[str] = Field(description="Frequent labels.")
    samples: list[ItemAnswer] = Field(description="Some items with pictures, to begin with.")


class ErrorAnswer(_Message):
    """What was wrong, and the way out."""

    error: str
    request_id: str


class State(_Message):
    """Whether the service works."""

    status: Literal["ok", "starting"]
