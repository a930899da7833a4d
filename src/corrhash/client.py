"""Client: search and change a collection that ``corrhash serve`` publishes."""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import urlencode

import urllib3

from corrhash._progress import report
from corrhash.collection.base import (
    Added,
    DuplicateGroup,
    Match,
    Query,
    SearchableCollection,
    SearchOptions,
    check_deletion,
)
from corrhash.datasets.images import open_image, shrink_for_upload
from corrhash.datasets.records import Record, UnreadableRecord, as_record, parse_labels
from corrhash.errors import InputError, StorageError
from corrhash.index.filter_grammar import format_filter
from corrhash.index.filters import Filter
from corrhash.index.items import SHOWN, Item, check_fields

log = logging.getLogger("corrhash")

BATCH = 50
"""Maximum number of items per request."""

BATCH_BYTES = 8 << 20
"""Maximum size of a request with items, well below the limit of the service."""

API = "/api/v1"


class Client(SearchableCollection):
    """A collection served over HTTP, with the methods of a local ``Collection``.

    Images are downscaled before they are sent. Items have no path, which the service does not
    publish.

    Parameters
    ----------
    url : URL of the service, such as ``http://127.0.0.1:8000``.
    token : bearer token, needed to change items and to judge results.
    timeout : seconds to wait for a response.
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = 60.0) -> None:
        self.url = url.rstrip("/")
        self.token = token
        # A busy service answers 429 with Retry-After; only then is a request repeated.
        retries = urllib3.Retry(
            total=5, connect=2, read=0, status_forcelist=[429], allowed_methods=None
        )
        self._pool = urllib3.PoolManager(retries=retries, timeout=timeout, maxsize=32)

    def _search(self, query: Query, options: SearchOptions) -> list[list[Match]]:
        if getattr(query.values, "ndim", 0) == 2:
            raise InputError(
                "A service is searched with images and strings, got vectors. Search the "
                "collection itself, with Collection.open(uri).search."
            )
        fields = asdict(options)
        fields.pop("thumbnails")
        if options.min_probability is None:  # unknown to services of earlier versions
            fields.pop("min_probability")
        if options.where is not None and not isinstance(options.where, str):
            fields["where"] = format_filter(options.where)
        found = [self._search_one(query.kind, value, fields) for value in _each(query)]
        return (
            [self._with_thumbnails(matches) for matches in found] if options.thumbnails else found
        )

    def _search_one(self, kind: str, value: Any, fields: dict[str, Any]) -> list[Match]:
        if kind == "image":
            given = {name: json.dumps(v) for name, v in fields.items() if v is not None}
            given |= {name: v for name, v in fields.items() if isinstance(v, str)}
            headers = {"Content-Type": "image/png"}
            path = f"/search/image?{urlencode(given)}"
            return _matches(self._call("POST", path, _png(value), headers))
        answer = self._call_json("POST", f"/search/{kind}", {kind: value, **fields})
        if answer.get("message"):  # services of earlier versions send none
            log.warning("%s", answer["message"])
        return _matches(answer)

    def _with_thumbnails(self, matches: list[Match]) -> list[Match]:
        return [
            replace(match, item=replace(match.item, thumbnail=self.thumbnail(match.id)))
            for match in matches
        ]

    def add(
        self,
        records: Iterable[Record | UnreadableRecord | Mapping[str, Any]],
        *,
        batch: int = BATCH,
        total: int | None = None,
    ) -> Added:
        """Send records to the service; see :meth:`SearchableCollection.add`.

        Records are consumed lazily. Feature and term vectors cannot be sent.
        """
        skipped: dict[str, str] = {}
        added, done = Added(), 0
        for items in _batches(_json_items(records, skipped), min(batch, BATCH)):
            added += Added(**self._call_json("POST", "/items", {"items": items}))
            done += len(items)
            report("Adding", done, max(total or done, done))
        return added + Added(skipped=skipped)

    def update_many(
        self,
        changes: Iterable[Mapping[str, Any]],
        *,
        batch: int = BATCH,
        total: int | None = None,
    ) -> Added:
        """Send changes to the service; see :meth:`SearchableCollection.update_many`."""
        updated, done = Added(), 0
        for items in _batches(map(_json_change, changes), min(batch, BATCH)):
            updated += Added(**self._call_json("PATCH", "/items", {"items": items}))
            done += len(items)
            report("Updating", done, max(total or done, done))
        return updated

    def delete(
        self,
        keys: str | Iterable[str] | None = None,
        *,
        where: str | Filter | None = None,
        dry_run: bool = False,
    ) -> int:
        """Delete items by key, filter or both; see :meth:`SearchableCollection.delete`."""
        names = check_deletion(keys, where)
        options = [("dry_run", "true")] if dry_run else []
        if where is not None:
            options += [("where", where if isinstance(where, str) else format_filter(where))]
        n_deleted = 0
        for start in range(0, len(names) if names is not None else 1, BATCH):
            some = [("key", name) for name in (names or [])[start : start + BATCH]]
            n_deleted += self._call("DELETE", f"/items?{urlencode(some + options)}")["deleted"]
        return n_deleted

    def _judge(self, query: Query, item: str, fits: bool | None, find: str) -> None:
        value: Any = query.values[0]
        if query.kind == "image":
            value = base64.b64encode(_png(value)).decode()
        content = {query.kind: value, "item": item, "fits": fits, "find": find}
        self._call_json("POST", "/judgments", content)

    def duplicates(self, max_distance: int | None = None) -> list[DuplicateGroup]:
        """Return groups of equal images; see :meth:`SearchableCollection.duplicates`.

        A service compares images every ten minutes at most, so recent changes can be missing. Of a
        group, it describes the first 100 items.
        """
        if max_distance is not None:
            raise InputError(
                "A service compares images with the default max_distance, got "
                f"{max_distance!r}. Compare in the collection itself: Collection.open(uri)."
            )
        groups, offset = list[DuplicateGroup](), 0
        while offset is not None:
            answer = self._call("GET", f"/duplicates?offset={offset}")
            if not answer["ready"]:
                continue  # each request waits for some seconds
            groups += [
                DuplicateGroup(
                    tuple(item["id"] for item in group["items"]),
                    tuple(map(_item, group["items"])),
                    group["similarity"],
                )
                for group in answer["groups"]
            ]
            offset = answer["next_offset"]
        return groups

    def get(self, key: str, fields: Sequence[str] = SHOWN) -> Item:
        """Return an item with the given fields; the service publishes neither path nor codes."""
        check_fields(fields)
        for found in self._call("GET", f"/items?{urlencode({'key': key})}"):
            item = _item(found)
            if "thumbnail" in fields and found["thumbnail"] is not None:
                item = replace(item, thumbnail=self.thumbnail(found["id"]))
            return item.only(fields)
        raise InputError(f"No item with the key {key!r} in this collection.")

    def thumbnail(self, number: int) -> bytes | None:
        """Return the thumbnail of an item as JPEG, by id; None if it has none."""
        response = self._send("GET", f"/items/{int(number)}/thumbnail", allowed=(404,))
        return response.data if response.status == 200 else None

    def info(self) -> dict[str, Any]:
        """Return the statistics of the collection and the state of the service."""
        answer: dict[str, Any] = self._call("GET", "/info")
        return answer

    def __len__(self) -> int:
        return int(self.info()["items"])

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def _call_json(self, method: str, path: str, content: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        return self._call(method, path, json.dumps(content).encode(), headers)

    def _call(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Any:
        return json.loads(self._send(method, path, body, headers).data)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        allowed: tuple[int, ...] = (),
    ) -> urllib3.BaseHTTPResponse:
        headers = dict(headers or {})
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            response = self._pool.request(
                method, self.url + API + path, body=body or None, headers=headers
            )
        except urllib3.exceptions.HTTPError as error:
            raise InputError(
                f"Cannot connect to {self.url}: {error}. Start the service with corrhash serve."
            ) from error
        if response.status >= 400 and response.status not in allowed:
            kind = InputError if response.status < 500 else StorageError
            raise kind(_error_message(response))
        return response


def _each(query: Query) -> list[Any]:
    """The queries as the API accepts them; codes in hexadecimal digits."""
    if query.kind == "codes":
        return [code.tobytes().hex() for code in query.values.packed]
    return list(query.values)


def _matches(answer: Any) -> list[Match]:
    return [
        Match(
            found["id"],
            found["distance"],
            found["score"],
            found.get("probability"),  # services of earlier versions send none
            _item(found),
        )
        for found in answer["matches"]
    ]


def _item(found: Mapping[str, Any]) -> Item:
    return Item(found["key"], found["text"], found["labels"], found["metadata"])


def _error_message(response: urllib3.BaseHTTPResponse) -> str:
    try:
        return str(json.loads(response.data)["error"])
    except (ValueError, KeyError, TypeError):
        return f"The service answered with status {response.status}. Check its URL."


def _png(image: Any) -> bytes:
    """An image as a PNG file, with exactly the pixels that the service uses."""
    file = io.BytesIO()
    shrink_for_upload(open_image(image)).save(file, "PNG")
    return file.getvalue()


def _json_items(
    records: Iterable[Record | UnreadableRecord | Mapping[str, Any]], skipped: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Convert records to JSON; add those that cannot be read to ``skipped``."""
    for value in records:
        item = value if isinstance(value, UnreadableRecord) else _json_item(as_record(value))
        if isinstance(item, UnreadableRecord):
            skipped[item.key] = item.reason
        else:
            yield item


def _json_item(record: Record) -> dict[str, Any] | UnreadableRecord:
    """A record in JSON, its image in base64."""
    if record.is_vector or record.term_vector is not None:
        raise InputError(
            f"Record {record.key!r} contains vectors, and a service accepts images and strings. "
            "Add it to the collection itself, with Collection.open(uri).add."
        )
    item = record.item()
    content: dict[str, Any] = {"key": item.key, "text": item.text, "labels": list(item.labels)}
    content["metadata"] = dict(item.metadata)
    if record.image is not None:
        try:
            content["image"] = base64.b64encode(_png(record.image)).decode()
        except InputError as error:
            return UnreadableRecord(record.key, str(error))
    return content


def _json_change(change: Mapping[str, Any]) -> dict[str, Any]:
    if "image" in change:
        raise InputError(
            "A service changes texts, labels and metadata, got an image. Add the item again, with "
            "its new image."
        )
    given = {name: parse_labels(v) if name == "labels" else v for name, v in change.items()}
    return {name: dict(v) if isinstance(v, Mapping) else v for name, v in given.items()}


def _batches(items: Iterable[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    """Group items into requests of at most ``size`` items and about ``BATCH_BYTES`` bytes."""
    batch, n_bytes = list[dict[str, Any]](), 0
    for item in items:
        length = len(json.dumps(item))
        if batch and (len(batch) == size or n_bytes + length > BATCH_BYTES):
            yield batch
            batch, n_bytes = [], 0
        batch.append(item)
        n_bytes += length
    if batch:
        yield batch
