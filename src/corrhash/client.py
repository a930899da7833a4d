"""Client: a collection behind a service, with the calls of one that is at hand."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3

from corrhash.collection import Added, Match
from corrhash.errors import InputError
from corrhash.index.item import Item
from corrhash.records import Unusable, as_sent, open_picture

BATCH = 50
"""Items that are sent at once, at most."""

BYTES = 8 << 20
"""Of a request with items: far below what services take, so that it arrives in time."""

SECONDS = 60.0


class Client:
    """Searches and fills a collection over the network.

    Calls and what they return are those of :class:`corrhash.collection.Collection`; items come
    without the path of their file, which the service keeps to itself.

    Parameters
    ----------
    address : of the service, as ``http://127.0.0.1:8000``.
    token : lets add and delete, where the service is writable.
    """

    def __init__(self, address: str, token: str | None = None, seconds: float = SECONDS) -> None:
        self.address = address.rstrip("/")
        self.token = token
        # A service that is busy says how long to wait; only then is a request sent again.
        again = urllib3.Retry(
            total=5, connect=2, read=0, status_forcelist=[429], allowed_methods=None
        )
        self._pool = urllib3.PoolManager(retries=again, timeout=seconds, maxsize=32)

    def search_text(self, text: str, k: int = 10, find: str = "image", **how: Any) -> list[Match]:
        """Items for words; ``how`` may hold where, radius, offset and rerank."""
        return self._search("text", {"text": text, "k": k, "find": find, **how})

    def search_image(self, image: Any, k: int = 10, find: str = "text", **how: Any) -> list[Match]:
        """Items for a picture of any size: a path, an opened image or an array."""
        given = {"k": k, "find": find, **how}
        asked = {name: _plain(value) for name, value in given.items() if value is not None}
        data, kind = _picture_file(image)
        path = f"/api/v1/search/image?{urlencode(asked)}"
        return _matches(self._call("POST", path, data, {"Content-Type": kind}))

    def search_item(self, key: str, k: int = 10, find: str = "image", **how: Any) -> list[Match]:
        """Items like one that is there, itself left out."""
        return self._search("item", {"key": key, "k": k, "find": find, **how})

    def add(self, records: Iterable[Mapping[str, Any]], *, batch: int = BATCH) -> Added:
        """Add items: key, image, text, labels and metadata, as far as they are known.

        They are read as they come, and sent as many at once as a service takes. As in a collection,
        items are skipped, and told, where there is nothing but a picture that cannot be read.
        """
        skipped: dict[str, str] = {}
        added = Added()
        for items in _batches(_sendable_items(records, skipped), batch):
            added += Added(**self._json("POST", "/api/v1/items", {"items": items}))
        return added + Added(skipped=skipped)

    def delete(self, keys: str | Sequence[str]) -> int:
        """Forget items by key; how many of them were there."""
        names = [keys] if isinstance(keys, str) else list(keys)
        gone = 0
        for start in range(0, len(names), BATCH):
            asked = urlencode([("key", name) for name in names[start : start + BATCH]])
            gone += self._call("DELETE", f"/api/v1/items?{asked}")["deleted"]
        return gone

    def get(self, key: str) -> Item:
        """What is kept of an item."""
        for found in self._call("GET", f"/api/v1/items?{urlencode({'key': key})}"):
            return _item(found)
        raise InputError(f"There is no item {key!r} at {self.address}. Check the key.")

    def thumbnail(self, number: int) -> bytes:
        """The small picture of a match, a JPEG, by its id."""
        return self._send("GET", f"/api/v1/items/{int(number)}/thumbnail").data

    def info(self) -> dict[str, Any]:
        """What there is to know about the collection and the service."""
        answer: dict[str, Any] = self._call("GET", "/api/v1/info")
        return answer

    def __len__(self) -> int:
        return int(self.info()["items"])

    def _search(self, by: str, question: dict[str, Any]) -> list[Match]:
        return _matches(self._json("POST", f"/api/v1/search/{by}", question))

    def _json(self, method: str, path: str, content: Any) -> Any:
        kind = {"Content-Type": "application/json"}
        return self._call(method, path, json.dumps(content).encode(), kind)

    def _call(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Any:
        return json.loads(self._send(method, path, body, headers).data)

    def _send(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> urllib3.BaseHTTPResponse:
        sent = dict(headers or {})
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        try:
            answer = self._pool.request(
                method, self.address + path, body=body or None, headers=sent
            )
        except urllib3.exceptions.HTTPError as error:
            raise InputError(
                f"Cannot reach a service at {self.address}: {error}. Start one: corrhash serve."
            ) from error
        if answer.status >= 400:
            raise InputError(_sentence(answer))
        return answer


def _sentence(answer: urllib3.BaseHTTPResponse) -> str:
    try:
        return str(json.loads(answer.data)["error"])
    except (ValueError, KeyError, TypeError):
        return f"The service answered {answer.status}, without a word. Check its address."


def _matches(answer: Any) -> list[Match]:
    return [
        Match(found["id"], found["distance"], found["score"], _item(found))
        for found in answer["matches"]
    ]


def _item(found: Mapping[str, Any]) -> Item:
    return Item(found["key"], found["text"], found["labels"], found["metadata"])


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _picture_file(image: Any) -> tuple[bytes, str]:
    """A picture as the bytes of a file and their kind; exactly the pixels that services look at."""
    file = io.BytesIO()
    as_sent(open_picture(image)).save(file, "PNG")
    return file.getvalue(), "image/png"


def _sendable_items(
    records: Iterable[Mapping[str, Any]], skipped: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Records as they are sent; ``skipped`` learns of those that cannot be."""
    for record in records:
        item = _sendable(record)
        if isinstance(item, Unusable):
            skipped[item.key] = item.reason
        else:
            yield item


def _sendable(record: Mapping[str, Any]) -> dict[str, Any] | Unusable:
    """A record in JSON, its picture in base64; only its words where that cannot be read."""
    content = dict(record)
    image = content.pop("image", None)
    if isinstance(image, (str, Path)):
        content.setdefault("key", str(image))
    if image is not None:
        try:
            content["image"] = base64.b64encode(_picture_file(image)[0]).decode()
        except InputError as error:
            if not content.get("text"):
                return Unusable(content.get("key", ""), str(error))
    if "metadata" in content:
        content["metadata"] = Item(metadata=content["metadata"]).metadata  # plain values
    return content


def _batches(items: Iterable[dict[str, Any]], most: int) -> Iterator[list[dict[str, Any]]]:
    """Items that are sent at once: so many at most, and not too many bytes."""
    batch, size = list[dict[str, Any]](), 0
    for item in items:
        length = len(json.dumps(item))
        if batch and (len(batch) == most or size + length > BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += length
    if batch:
        yield batch
