"""SearchableCollection: the interface shared by a local Collection and the network Client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
from PIL import Image

from corrhash.codes import Codes, check_codes
from corrhash.datasets.base import n_rows
from corrhash.datasets.records import Record, UnreadableRecord
from corrhash.errors import InputError, ParameterError
from corrhash.index.base import check_k, check_radius
from corrhash.index.filters import Filter
from corrhash.index.items import SHOWN, Item, check_modality

QueryKind = Literal["text", "image", "key", "codes"]


@dataclass(frozen=True)
class Match:
    """One search result.

    Parameters
    ----------
    id : id of the item in the collection.
    distance : Hamming distance between the codes of the item and the query.
    score : cosine similarity used for re-ranking; None if the item was not re-ranked.
    probability : probability that the item shares a label with the query; None if the model is not
        calibrated.
    item : key, text, labels, metadata and path of the item, and its thumbnail if requested.
    """

    id: int
    distance: int
    score: float | None
    probability: float | None
    item: Item

    @property
    def key(self) -> str:
        """Key of the item."""
        return self.item.key


@dataclass(frozen=True)
class DuplicateGroup:
    """Items that show the same image.

    Parameters
    ----------
    ids : ids of the items, ascending.
    items : the items, without thumbnails.
    similarity : lowest correlation of pixels by which they were joined; None if only their codes
        were compared.
    """

    ids: tuple[int, ...]
    items: tuple[Item, ...]
    similarity: float | None

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the items; the first one was added first."""
        return tuple(item.key for item in self.items)


@dataclass(frozen=True)
class Added:
    """Counts of written items; ``skipped`` maps the key of each skipped item to the reason.

    ``moved`` items are stored under a new path or key, but their images were not encoded again.
    """

    new: int = 0
    updated: int = 0
    moved: int = 0
    unchanged: int = 0
    skipped: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: Added) -> Added:
        return Added(
            self.new + other.new,
            self.updated + other.updated,
            self.moved + other.moved,
            self.unchanged + other.unchanged,
            {**self.skipped, **other.skipped},
        )


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search, with the same defaults in Python, on the command line and over HTTP.

    See :meth:`SearchableCollection.search` for their meaning.
    """

    find: str = "image"
    k: int = 10
    where: str | Filter | None = None
    radius: int | None = None
    offset: int = 0
    rerank: bool = True
    thumbnails: bool = False
    min_probability: float | None = None

    def __post_init__(self) -> None:
        check_modality(self.find, "find")
        check_k(self.k)
        check_radius(self.radius)
        if not isinstance(self.offset, (int, np.integer)) or self.offset < 0:
            raise ParameterError("offset", f"must be a non-negative integer, got {self.offset!r}.")
        least = self.min_probability
        if least is not None and not (isinstance(least, (int, float)) and 0 <= least <= 1):
            raise ParameterError("min_probability", f"must be between 0 and 1, got {least!r}.")


class SearchKeywords(TypedDict, total=False):
    """Keyword arguments that become :class:`SearchOptions`."""

    find: str
    k: int
    where: str | Filter | None
    radius: int | None
    offset: int
    rerank: bool
    thumbnails: bool
    min_probability: float | None


@dataclass(frozen=True, eq=False)
class Query:
    """One or more queries of the same kind; ``single`` if the caller passed a bare value."""

    kind: QueryKind
    values: Any
    single: bool = False

    def __len__(self) -> int:
        return n_rows(self.values)

    @classmethod
    def of(cls, text: Any, image: Any, key: Any, codes: Any) -> Query:
        """Make a query of the one argument that is not None."""
        given = {"text": text, "image": image, "key": key, "codes": codes}
        passed = [name for name, value in given.items() if value is not None]
        if len(passed) != 1:
            got = " and ".join(passed) or "none of them"
            raise InputError(f"Pass exactly one of text, image, key and codes, got {got}.")
        if text is not None:
            return cls._of_strings("text", text)
        if key is not None:
            return cls._of_strings("key", key)
        if codes is not None:
            return cls("codes", check_codes(codes))
        if getattr(image, "ndim", None) == 1:
            return cls("image", image[None], single=True)
        if _is_one_image(image):
            return cls("image", [image], single=True)
        return cls("image", image)

    @classmethod
    def _of_strings(cls, kind: Literal["text", "key"], value: Any) -> Query:
        if isinstance(value, str):
            return cls(kind, [value], single=True)
        if kind == "text" and hasattr(value, "ndim"):  # term vectors
            return cls(kind, value[None] if value.ndim == 1 else value, single=value.ndim == 1)
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        for one in values:
            if not isinstance(one, str):
                raise InputError(f"{kind} must be a string or a list of strings, got {one!r}.")
        return cls(kind, values)


class SearchableCollection(ABC):
    """A collection of images and texts that can be searched and changed by key.

    :class:`corrhash.collection.Collection` implements it on an index, and
    :class:`corrhash.client.Client` over HTTP. Both accept the same values.
    """

    @overload
    def search(self, text: str, **options: Unpack[SearchKeywords]) -> list[Match]: ...

    @overload
    def search(self, text: list[str], **options: Unpack[SearchKeywords]) -> list[list[Match]]: ...

    @overload
    def search(
        self, *, image: str | Path | bytes | Image.Image, **options: Unpack[SearchKeywords]
    ) -> list[Match]: ...

    @overload
    def search(self, *, key: str, **options: Unpack[SearchKeywords]) -> list[Match]: ...

    @overload
    def search(self, *, key: list[str], **options: Unpack[SearchKeywords]) -> list[list[Match]]: ...

    @overload
    def search(self, *, codes: Codes, **options: Unpack[SearchKeywords]) -> list[list[Match]]: ...

    @overload
    def search(
        self,
        text: Any = None,
        *,
        image: Any = None,
        key: Any = None,
        codes: Codes | None = None,
        **options: Unpack[SearchKeywords],
    ) -> Any: ...

    def search(
        self,
        text: Any = None,
        *,
        image: Any = None,
        key: Any = None,
        codes: Codes | None = None,
        find: str = "image",
        k: int = 10,
        where: str | Filter | None = None,
        radius: int | None = None,
        offset: int = 0,
        rerank: bool = True,
        thumbnails: bool = False,
        min_probability: float | None = None,
    ) -> Any:
        """Return the items nearest to a query, best first.

        Pass exactly one of ``text``, ``image``, ``key`` and ``codes``. A single value returns a
        list of matches; a list (or an array with a row per query, or ``codes``) returns one list
        of matches per query.

        Parameters
        ----------
        text : a string, or a list of strings. A local collection also accepts term vectors.
        image : a path, file content (bytes), an opened image or an (height, width, 3) array of
            uint8; or a list of these. A local collection also accepts feature vectors.
        key : key of an item in the collection, which is excluded from its own results. The query
            is its image, or its text if it has no image.
        codes : hash codes. Results are not re-ranked.
        find : ``"image"`` (the default for every kind of query) compares the query with the image
            codes of items, ``"text"`` with their text codes.
        k : maximum number of matches.
        where : a filter such as ``year >= 2015 and 'dog' in labels``.
        radius : maximum Hamming distance.
        offset : number of leading matches to skip, for paging.
        rerank : re-rank the nearest 100 items by cosine similarity of continuous codes.
        thumbnails : whether the items of matches include their thumbnails.
        min_probability : exclude matches that are less likely to be relevant, from 0 to 1. This
            needs a calibrated model, and a query that is not a code.
        """
        query = Query.of(text, image, key, codes)
        options = SearchOptions(find, k, where, radius, offset, rerank, thumbnails, min_probability)
        found = self._search(query, options) if len(query) else []
        return found[0] if query.single else found

    @abstractmethod
    def _search(self, query: Query, options: SearchOptions) -> list[list[Match]]:
        """Return the matches of each query."""

    @abstractmethod
    def add(
        self,
        records: Iterable[Record | UnreadableRecord | Mapping[str, Any]],
        *,
        batch: int = ...,
        total: int | None = None,
    ) -> Added:
        """Encode and store records, or dictionaries with the fields of :class:`Record`.

        An existing key is updated; an unchanged record is not encoded again, nor is an image file
        whose content is stored already. Images that cannot be read and texts without a known term
        are skipped and reported. ``batch`` is the maximum number of items per write, ``total`` the
        expected number of records for progress reports.
        """

    def update(self, key: str, **changes: Any) -> None:
        """Change the text, labels or metadata of an item; see :meth:`update_many`.

        If the change is impossible, an error is raised and the item is unchanged.
        """
        for reason in self.update_many([{"key": key, **changes}]).skipped.values():
            raise InputError(f"Cannot update {key!r}. {reason}")

    @abstractmethod
    def update_many(
        self,
        changes: Iterable[Mapping[str, Any]],
        *,
        batch: int = ...,
        total: int | None = None,
    ) -> Added:
        """Change the text, labels or metadata of items, and encode new texts.

        Each change is a dictionary with the ``key`` of an item and the fields to change: ``text``
        (empty to remove it), ``labels`` (all of them) and ``metadata`` (fields to set, or None to
        remove a field; others stay). A local collection also accepts ``image``. Unknown keys and
        texts without a known term are skipped and reported, and their items are unchanged.
        """

    @abstractmethod
    def delete(
        self,
        keys: str | Iterable[str] | None = None,
        *,
        where: str | Filter | None = None,
        dry_run: bool = False,
    ) -> int:
        """Delete items by key, by a filter, or by both: the given items that pass the filter.

        Returns how many items were deleted or, with ``dry_run``, how many would be.
        """

    def judge(
        self,
        text: str | None = None,
        *,
        image: Any = None,
        key: str | None = None,
        item: str,
        fits: bool | None,
        find: str = "image",
    ) -> None:
        """Store whether an item fits a query, for ``corrhash improve`` to learn from.

        Parameters
        ----------
        text, image, key : the query, exactly one of them, as in :meth:`search`.
        item : key of the judged item.
        fits : True, False, or None to withdraw an earlier judgment of this query and item.
        find : ``image`` or ``text``, the codes that were searched.
        """
        query = Query.of(text, image, key, None)
        if not query.single:
            raise InputError("Judge one query at a time, got a list or an array of several.")
        self._judge(query, item, fits, check_modality(find, "find"))

    @abstractmethod
    def _judge(self, query: Query, item: str, fits: bool | None, find: str) -> None: ...

    @abstractmethod
    def duplicates(self, max_distance: int | None = None) -> list[DuplicateGroup]:
        """Return groups of items that show the same image; nothing is deleted.

        Copies that were resized, re-encoded, mirrored or cropped by up to a tenth are found.

        Parameters
        ----------
        max_distance : largest Hamming distance of image codes, by default 3/8 of the code length.
            Pairs within it are verified on the stored images. A collection without a model compares
            codes alone, by default up to 1/8 of the code length.
        """

    @abstractmethod
    def get(self, key: str, fields: Sequence[str] = SHOWN) -> Item:
        """Return an item with the given fields."""

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """Return the statistics of the collection: items, bits, method, fingerprint."""

    @abstractmethod
    def __len__(self) -> int: ...


def check_deletion(keys: str | Iterable[str] | None, where: object) -> list[str] | None:
    """Return the keys to delete as a list; None if items are deleted by a filter only."""
    if keys is None and where is None:
        raise InputError(
            "Pass keys, a filter (where) or both. Got neither, so nothing was deleted."
        )
    return [keys] if isinstance(keys, str) else None if keys is None else list(keys)


def _is_one_image(image: Any) -> bool:
    """Whether ``image`` is one image rather than a sequence of images."""
    if isinstance(image, (str, Path, bytes, Image.Image)) or getattr(image, "ndim", 0) == 3:
        return True
    return not hasattr(image, "__getitem__")
