"""MilvusIndex: codes and items on a Milvus server or cluster, for more than one machine holds.

Distances are exact, and equal distances come in order of id. Milvus itself returns ties in any
order and truncates them anywhere. A search therefore asks for more than ``k`` results, until the
last distance is complete or the server's limit is reached. In that case it logs a warning.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes, check_n_bits
from corrhash.errors import InputError
from corrhash.index.base import CodeIndex, check_stored_bits
from corrhash.index.filters import Filter, balanced
from corrhash.index.items import MODALITIES, Entries, Item
from corrhash.index.milvus_server import (
    ABOUT,
    FORMAT,
    STRONG,
    RecordLog,
    check_index,
    connect,
    create,
    look,
    request,
)
from corrhash.index.milvus_storage import (
    COLUMNS,
    as_codes,
    as_expression,
    as_ranking,
    as_rows,
    hashed_id,
    numbers_of,
    portions,
    quoted,
    read_code,
    read_entries,
    read_item,
    rows_in,
)
from corrhash.index.ranking import Ranking
from corrhash.index.time_limit import check_time, seconds_left

LIMIT = 16_384
"""Most results per query that a server returns."""

RESULTS_PER_REQUEST = 200_000
"""Results of one request, all its queries together."""

ROWS = 1000
"""Rows read by one request."""

MIN_TIMEOUT = 0.01
"""Least seconds for a request shortly before a time limit."""

log = logging.getLogger("corrhash")


class MilvusIndex(CodeIndex):
    """Codes and items on a Milvus server or cluster, at milvus://host:port/name.

    Options can follow the name, such as ``?index=BIN_IVF_FLAT&nlist=1024&nprobe=32``. With the
    index BIN_FLAT, the default, results are exact.

    The id of a new item is a hash of its key. Writers on several machines therefore need no
    coordination: if two of them add the same new key at the same moment, the last one wins.
    """

    @classmethod
    def open(cls, uri: str, n_bits: int, about: dict[str, Any] | None = None) -> MilvusIndex:
        """Open the index at a URI, or create one described by ``about`` if none exists."""
        client, name, options = connect(uri)
        found = look(client, name, uri)
        if found is None:
            content = {"format": FORMAT, **(about or {}), "n_bits": check_n_bits(n_bits)}
            request(uri, lambda: create(client, name, content, options))
            found = look(client, name, uri) or content  # another process can be faster
        check_stored_bits(found, uri, n_bits)
        check_index(client, name, uri, options)
        return cls(client, name, uri, found, options.get("nprobe"))

    @classmethod
    def look(cls, uri: str) -> dict[str, Any] | None:
        """Return the description of the index at a URI; None if none exists."""
        client, name, _ = connect(uri)
        return look(client, name, uri)

    def __init__(
        self, client: Any, name: str, uri: str, about: dict[str, Any], n_probes: int | None = None
    ) -> None:
        self.about = about
        self._search_params = {} if n_probes is None else {"nprobe": n_probes}
        self.n_bits: int = about["n_bits"]
        self._client, self._name, self._uri = client, name, uri
        self._log = RecordLog(client, name, uri)
        self._lock = RLock()
        self._call("load_collection")

    def _call(self, method: str, **arguments: Any) -> Any:
        """Send a request, and repeat it while the server is unavailable: all are idempotent."""
        call = getattr(self._client, method)

        def send() -> Any:
            left = seconds_left()
            timeout = {} if left is None else {"timeout": max(left, MIN_TIMEOUT)}
            return call(collection_name=self._name, **arguments, **timeout)

        return request(self._uri, send)

    def _rows(self, where: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return some columns of the rows that an expression selects, in order of number."""
        rows = self._call("query", filter=where, output_fields=["pk", *columns], **STRONG)
        return sorted((dict(row) for row in rows), key=lambda row: int(row["pk"]))

    def writing(self) -> AbstractContextManager[object]:
        """Exclude other writing threads of this process; other processes can write."""
        return self._lock

    def new_ids(self, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return an id for each new key: its hash, unless an item with another key has that id."""
        ids: dict[int, int] = {}  # rows of keys by id
        pending, attempt = list(range(len(keys))), 0
        while pending:
            hashed = {row: hashed_id(keys[row], attempt) for row in pending}
            taken = self._stored(list(hashed.values()), ["key"])
            pending = []
            for row, number in hashed.items():
                # A concurrent writer may have added the same key already.
                if number in ids or (number in taken and taken[number]["key"] != keys[row]):
                    pending.append(row)
                else:
                    ids[number] = row
            attempt += 1
        return np.array(sorted(ids, key=ids.__getitem__), dtype=np.int64)

    def _upsert(self, entries: Entries) -> None:
        rows = as_rows(entries)
        if rows:  # one request, which is atomic and can be repeated
            self._call("upsert", data=rows)

    def _delete(self, ids: NDArray[np.int64]) -> int:
        existing = self._existing(ids).tolist()
        for some in portions(existing, LIMIT // 2):
            self._call("delete", filter=f"pk in {numbers_of(some)}")
        return len(existing)

    def _existing(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array(sorted(self._stored(ids.tolist(), [])), dtype=np.int64)

    def _stored(self, ids: list[int], columns: Sequence[str]) -> dict[int, dict[str, Any]]:
        """Return the first row of each id that exists."""
        return {
            int(row["pk"]) // 2: row
            for some in portions(ids, LIMIT // 2)
            for row in self._rows(rows_in(some, "first == 1"), columns)
        }

    def _view(self, modality: str, where: Filter | None) -> _ServerView:
        return _ServerView(self, modality, where)

    def _search(self, queries: Codes, k: int, modality: str, where: Filter | None) -> Ranking:
        condition = f"modality == {MODALITIES.index(modality)}"
        if where is not None:
            condition += f" and {as_expression(balanced(where))}"
        if k > LIMIT:
            self._check_limit(k, condition)
            k = LIMIT
        results: list[NDArray[np.int64]] = [np.empty((2, 0), np.int64)] * len(queries)
        pending, limit = list(range(len(queries))), min(LIMIT, 2 * k + 64)
        while pending:
            truncated = []
            for some in portions(pending, max(1, RESULTS_PER_REQUEST // limit)):
                found = self._nearest(queries[some], limit, condition)
                for query, result in zip(some, found, strict=True):
                    results[query] = result[:, :k]
                    if result.shape[1] == limit and result[1, k - 1] == result[1, -1]:
                        truncated.append(query)
            if limit == LIMIT and truncated:
                log.warning(
                    "Milvus returns at most %s results, and %s of %s queries have more ties than "
                    "that at the last distance. Distances are exact, but the server chose which "
                    "tied items to return.",
                    *(f"{number:,}" for number in (LIMIT, len(truncated), len(queries))),
                )
                break
            pending, limit = truncated, min(LIMIT, 4 * limit)
        return as_ranking(results)

    def _check_limit(self, k: int, condition: str) -> None:
        """Refuse a ``k`` for which the server cannot return all items that meet a condition."""
        if (n := self._count(condition)) > LIMIT:
            raise InputError(
                f"Milvus returns at most {LIMIT:,} results, got k = {k:,} for {n:,} items. "
                "Use a smaller k, or a filter."
            )

    def _nearest(self, queries: Codes, limit: int, where: str) -> list[NDArray[np.int64]]:
        """Return (2, n) ids and distances for each query, by distance and then by id."""
        found = self._call(
            "search",
            data=[code.tobytes() for code in queries.packed],
            anns_field="code",
            limit=limit,
            filter=where,
            search_params={"metric_type": "HAMMING", "params": self._search_params},
            **STRONG,
        )
        results = []
        for hits in found:
            ids = np.array([hit["id"] // 2 for hit in hits], dtype=np.int64)
            distances = np.array([round(hit["distance"]) for hit in hits], dtype=np.int64)
            results.append(np.stack([ids, distances])[:, np.lexsort((ids, distances))])
        return results

    def _get(self, ids: NDArray[np.int64], fields: Sequence[str]) -> dict[int, Item]:
        columns = sorted({COLUMNS[name] for name in fields} | {"first"})
        items: dict[int, Item] = {}
        for some in portions(ids.tolist(), ROWS):
            rows = self._rows(rows_in(some), columns)
            for number, of_item in groupby(rows, key=lambda row: int(row["pk"]) // 2):
                items[number] = read_item(list(of_item), fields)
        return items

    def _codes_of(self, ids: NDArray[np.int64], modality: str) -> tuple[NDArray[np.int64], Codes]:
        found: dict[int, NDArray[np.uint8]] = {}
        for some in portions(ids.tolist(), ROWS):
            of_modality = f"modality == {MODALITIES.index(modality)}"
            for row in self._rows(rows_in(some, of_modality), ["code"]):
                found[int(row["pk"]) // 2] = read_code(row)
        coded = [row for row, number in enumerate(ids.tolist()) if number in found]
        packed = [found[int(ids[row])] for row in coded]
        return np.array(coded, dtype=np.int64), as_codes(packed, self.n_bits)

    def _ids_of(self, keys: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for some in portions(list(keys), ROWS):
            names = ", ".join(map(quoted, some))
            for row in self._rows(f"first == 1 and key in [{names}]", ["key"]):
                found[row["key"]] = int(row["pk"]) // 2
        return found

    def _ids_of_content(self, contents: Sequence[str]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for some in portions(list(contents), ROWS):
            names = ", ".join(map(quoted, some))
            for row in self._rows(f"first == 1 and content in [{names}]", ["content"]):
                found.setdefault(row["content"], []).append(int(row["pk"]) // 2)
        return found

    def _select(self, where: Filter) -> NDArray[np.int64]:
        return np.array(self._all_ids(as_expression(balanced(where))), dtype=np.int64)

    def _write_about(self, about: dict[str, Any]) -> None:
        self._call("alter_collection_properties", properties={ABOUT: json.dumps(about)})

    def _append(self, kind: str, records: Sequence[dict[str, Any]]) -> None:
        self._log.append(kind, records)

    def _records(self, kind: str) -> list[dict[str, Any]]:
        return self._log.read(kind)

    def _batches(self, size: int, fields: Sequence[str]) -> Iterator[Entries]:
        columns = sorted({*(COLUMNS[name] for name in fields), "first", "code"})
        for some in portions(self._all_ids(), min(size, ROWS)):
            yield read_entries(self._rows(rows_in(some), columns), self.n_bits, fields)

    def _all_ids(self, where: str = "pk >= 0") -> list[int]:
        """Return the ids that meet a condition; an iterator reads any number page by page."""
        condition = f"first == 1 and {where}"
        pages = self._call(
            "query_iterator", filter=condition, output_fields=["pk"], batch_size=LIMIT, **STRONG
        )
        ids: list[int] = []
        while page := pages.next():
            check_time()
            ids += [int(row["pk"]) // 2 for row in page]
        pages.close()
        return sorted(ids)

    def __len__(self) -> int:
        return self._count("first == 1")

    def _count(self, where: str) -> int:
        (row,) = self._call("query", filter=where, output_fields=["count(*)"], **STRONG)
        return int(row["count(*)"])


@dataclass(frozen=True, eq=False)
class _ServerView:
    """The codes of one modality that pass a filter, as the server has them at each call."""

    index: MilvusIndex
    modality: str
    where: Filter | None

    def nearest(self, queries: Codes, k: int, threads: int | None = None) -> Ranking:
        return self.index._search(queries, k, self.modality, self.where)

    def codes(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], Codes]:
        return self.index._codes_of(ids, self.modality)
