"""CodeIndex: the abstract base class of engines that store and search binary codes."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrhash._progress import report
from corrhash.codes import Codes, check_codes, check_same_bits
from corrhash.errors import InputError, ParameterError, did_you_mean
from corrhash.index.filter_grammar import as_filter
from corrhash.index.filters import TEXT_FIELDS, Filter, field_names
from corrhash.index.items import (
    FIELDS,
    SHOWN,
    Entries,
    Item,
    ModalityCodes,
    as_entries,
    as_ids,
    check_fields,
    check_modality,
)
from corrhash.index.ranking import Ranking

SHOWN_NAMES = 20
"""Most fields that an error message lists."""


class CodeView(Protocol):
    """The codes of one modality that pass a filter."""

    def nearest(self, queries: Codes, k: int, threads: int | None = None) -> Ranking:
        """Return the ``k`` nearest ids of each query, or all of them if there are fewer."""

    def codes(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], Codes]:
        """Return the positions of those ids that exist, and their codes."""


class CodeIndex(ABC):
    """Codes and their items under integer ids, searched by Hamming distance.

    An item has an image code, a text code or both, and each modality is searched on its own. A
    ranking holds ids instead of rows. Items at equal distance come in ascending order of id.

    The public methods validate their arguments and call a private method of the engine:
    :meth:`_view`, :meth:`_select`, :meth:`_upsert`, :meth:`_delete`, :meth:`_get`,
    :meth:`_codes_of`, :meth:`_ids_of`, :meth:`_ids_of_content`, :meth:`_existing`,
    :meth:`_batches`, :meth:`_append`, :meth:`_records` and :meth:`_write_about`.

    A write is atomic unless the engine documents otherwise. Once it returns it survives the end
    of the process, unless the engine stores everything in memory.

    Attributes
    ----------
    n_bits : code length.
    about : description stored with the index, as JSON values.
    threads : threads of one search, where this process searches; None for all cores.
    """

    n_bits: int
    about: dict[str, Any]
    threads: int | None = None

    @classmethod
    @abstractmethod
    def open(cls, uri: str, n_bits: int, about: dict[str, Any] | None = None) -> Self:
        """Open the index at a URI, or create one described by ``about`` if none exists."""

    @classmethod
    @abstractmethod
    def look(cls, uri: str) -> dict[str, Any] | None:
        """Return the description of the index at a URI, with ``n_bits``; None if none exists."""

    def add(
        self, ids: ArrayLike, codes: ModalityCodes, items: Sequence[Item] | None = None
    ) -> None:
        """Store codes and items under new ids.

        Parameters
        ----------
        ids : (n,) distinct integers from 0 to 2^62 - 1.
        codes : image codes, or codes by modality. A pair of rows and Codes under a modality covers
            only some of the items.
        items : n items; empty ones by default.
        """
        entries = as_entries(ids, codes, items, self.n_bits)
        with self.writing():
            taken = self._existing(entries.ids)
            if len(taken):
                raise InputError(
                    f"Id {taken[0]} is already stored. Use another id, or replace it with upsert."
                )
            self._upsert(entries)

    def upsert(
        self, ids: ArrayLike, codes: ModalityCodes, items: Sequence[Item] | None = None
    ) -> None:
        """Store codes and items under ids, replacing what was stored under them."""
        entries = as_entries(ids, codes, items, self.n_bits)
        with self.writing():
            self._upsert(entries)

    def delete(self, ids: ArrayLike) -> int:
        """Delete ids and return how many of them existed."""
        numbers = np.unique(as_ids(ids))
        with self.writing():
            return self._delete(numbers)

    def search(
        self,
        queries: Codes,
        k: int = 10,
        *,
        modality: str = "image",
        where: str | Filter | None = None,
        radius: int | None = None,
    ) -> Ranking:
        """Return the ``k`` nearest ids of each query, or all of them if there are fewer.

        Parameters
        ----------
        queries : codes of ``n_bits`` bits.
        k : number of results, at least 1.
        modality : ``image`` or ``text``, the codes to search.
        where : filter that results must pass, such as ``year >= 2015 and 'dog' in labels``. A
            field that no item has is an error, if the engine can list the fields.
        radius : largest Hamming distance of a result; unlimited by default.
        """
        check_same_bits(check_codes(queries).n_bits, self.n_bits)
        k, radius = check_k(k), check_radius(radius)
        return self.view(modality, where).nearest(queries, k, self.threads).within_radius(radius)

    def view(self, modality: str = "image", where: str | Filter | None = None) -> CodeView:
        """Return the codes that pass a filter, to search them and to look them up.

        An engine that holds all codes in memory returns those of this moment, which do not change.
        """
        return self._view(check_modality(modality), self._as_filter(where))

    def current_view(self, modality: str) -> CodeView | None:
        """Return the :meth:`view` without a filter if that takes no time.

        It is None where codes have to be read first, or where another thread is reading them.
        """
        return None

    def select(self, where: str | Filter) -> NDArray[np.int64]:
        """Return the ids of all items that pass a filter, ascending."""
        parsed = self._as_filter(where)
        assert parsed is not None
        return self._select(parsed)

    def _as_filter(self, where: str | Filter | None) -> Filter | None:
        """Parse a filter; refuse a field that no item has, which is most likely misspelled."""
        parsed = as_filter(where)
        names = set() if parsed is None else field_names(parsed) - set(TEXT_FIELDS)
        known = self._metadata_names() if names else None
        unknown = [] if known is None else sorted(names.difference(known))
        if known is not None and unknown and len(self):
            valid = [*TEXT_FIELDS, "labels", *known]
            more = f" and {len(valid) - SHOWN_NAMES} more" if len(valid) > SHOWN_NAMES else ""
            raise InputError(
                f"Unknown field {unknown[0]!r}.{did_you_mean(unknown[0], valid)} Valid fields: "
                f"{', '.join(valid[:SHOWN_NAMES])}{more}."
            )
        return parsed

    def get(self, ids: ArrayLike, fields: Sequence[str] = SHOWN) -> list[Item | None]:
        """Return the items of ids with the given fields filled; None for ids that do not exist."""
        numbers, names = as_ids(ids), check_fields(fields)
        items = self._get(numbers, names)
        return [items.get(number) for number in numbers.tolist()]

    def codes_of(self, ids: ArrayLike, modality: str = "image") -> tuple[NDArray[np.int64], Codes]:
        """Return which of the ids have a code of this modality, as positions, and these codes."""
        return self._codes_of(as_ids(ids), check_modality(modality))

    def ids_of(self, keys: Sequence[str]) -> dict[str, int]:
        """Return the ids of those keys that exist; an empty key names no item."""
        return self._ids_of([key for key in keys if key])

    def ids_of_content(self, contents: Sequence[str]) -> dict[str, list[int]]:
        """Return the ids of the items that have one of these checksums, ascending, by checksum."""
        return self._ids_of_content([content for content in contents if content])

    def describe(self, **values: Any) -> None:
        """Change values of :attr:`about`, durably."""
        with self.writing():
            self._write_about({**self.about, **values})
            self.about = {**self.about, **values}

    def append(self, kind: str, records: Sequence[dict[str, Any]]) -> None:
        """Append JSON objects of one kind to the record log, such as relevance judgments."""
        if records:
            with self.writing():
                self._append(kind, records)

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Return all records of one kind, oldest first."""
        return self._records(kind)

    def batches(self, size: int = 1000, fields: Sequence[str] = FIELDS) -> Iterator[Entries]:
        """Iterate over items and codes in ascending order of id, ``size`` items at a time.

        Other fields than ``fields`` can be empty.
        """
        return self._batches(check_k(size, "size"), check_fields(fields))

    def verify(self) -> None:
        """Read everything, and raise a StorageError unless it is readable and consistent."""
        for entries in self.batches():
            for modality, rows in entries.rows.items():
                self._codes_of(entries.ids[rows], modality)

    @abstractmethod
    def new_ids(self, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return an unused id for each new key; without keys, pass empty ones."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[object]:
        """Exclude other writers inside the block, as far as the engine can.

        Writes made inside the block can reach searches only when it ends.
        """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _upsert(self, entries: Entries) -> None:
        """Store entries, replacing existing ones."""

    @abstractmethod
    def _delete(self, ids: NDArray[np.int64]) -> int:
        """Delete distinct ids and return how many existed."""

    @abstractmethod
    def _existing(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the ids that are stored."""

    @abstractmethod
    def _view(self, modality: str, where: Filter | None) -> CodeView:
        """Return the codes of one modality that pass a filter."""

    @abstractmethod
    def _select(self, where: Filter) -> NDArray[np.int64]:
        """Return the ids that pass a filter, ascending."""

    def _metadata_names(self) -> list[str] | None:
        """Return the names of all metadata fields, sorted; None if they are expensive to find."""
        return None

    @abstractmethod
    def _get(self, ids: NDArray[np.int64], fields: Sequence[str]) -> dict[int, Item]:
        """Return the items that exist, by id, with only these fields filled."""

    @abstractmethod
    def _codes_of(
        self, ids: NDArray[np.int64], modality: str
    ) -> tuple[NDArray[np.int64], Codes]: ...

    @abstractmethod
    def _ids_of(self, keys: Sequence[str]) -> dict[str, int]: ...

    @abstractmethod
    def _ids_of_content(self, contents: Sequence[str]) -> dict[str, list[int]]: ...

    @abstractmethod
    def _write_about(self, about: dict[str, Any]) -> None: ...

    @abstractmethod
    def _append(self, kind: str, records: Sequence[dict[str, Any]]) -> None: ...

    @abstractmethod
    def _records(self, kind: str) -> list[dict[str, Any]]: ...

    @abstractmethod
    def _batches(self, size: int, fields: Sequence[str]) -> Iterator[Entries]: ...


def check_k(k: int, name: str = "k") -> int:
    """Return a positive number of results as an int."""
    if not isinstance(k, (int, np.integer)) or k < 1:
        raise ParameterError(name, f"must be a positive integer, got {k!r}.")
    return int(k)


def check_radius(radius: int | None, name: str = "radius") -> int | None:
    """Return a largest distance as an int; None means no limit."""
    if radius is not None and (not isinstance(radius, (int, np.integer)) or radius < 0):
        raise ParameterError(name, f"must be a non-negative integer, got {radius!r}.")
    return None if radius is None else int(radius)


def check_stored_bits(about: dict[str, Any], uri: str, n_bits: int) -> None:
    """Refuse an index whose codes have another length than the expected one."""
    if about["n_bits"] != n_bits:
        raise InputError(
            f"{uri} stores codes of {about['n_bits']} bits, expected {n_bits}. "
            "Use the model it was created with, or another URI."
        )


def checksum(index: CodeIndex) -> str:
    """Return a SHA-256 over all ids, codes and items, which is the same in every engine."""
    digest = hashlib.sha256()
    for line in as_lines(index, FIELDS):
        digest.update(json.dumps(line, sort_keys=True, default=bytes.hex).encode())
    return digest.hexdigest()


def as_lines(index: CodeIndex, fields: tuple[str, ...] = SHOWN) -> Iterator[dict[str, Any]]:
    """Yield each item in ascending order of id: its id, its codes in hexadecimal, its fields."""
    total, done = len(index), 0
    for entries in index.batches(fields=fields):
        lines: list[dict[str, Any]] = [{"id": number} for number in entries.ids.tolist()]
        for modality, codes in sorted(entries.codes.items()):
            for row, code in zip(entries.rows[modality].tolist(), codes.packed, strict=True):
                lines[row][f"{modality}_code"] = code.tobytes().hex()
        for row, line in enumerate(lines):
            item = entries.item(row)
            yield {**line, **{name: getattr(item, name) for name in fields}}
        done += len(entries)
        report("Reading items", done, max(total, done))
