"""Requests to a Milvus server: connect, create and describe collections, wait while it restarts."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from corrhash.errors import InputError, StorageError, optional_packages
from corrhash.index.milvus_storage import (
    DEFAULTS,
    MAX_TEXT_BYTES,
    STRINGS,
    check_options,
    parse_uri,
)
from corrhash.index.time_limit import check_time, seconds_left, time_limit_error

with optional_packages("The engine milvus://"):
    from grpc import RpcError
    from pymilvus import DataType, MilvusClient, MilvusException

FORMAT = "corrhash collection 2"
ABOUT = "corrhash.about"
"""Property of the Milvus collection that holds changed values of its description."""

RETRY_SECONDS = 300.0
"""How long requests to an unavailable server are repeated: some restart within minutes."""

CONNECT_SECONDS = 10.0
"""How long the first connection is tried: the URI may be wrong."""

UNAVAILABLE = (
    *("connect", "unavailable", "not ready", "not healthy", "no available", "timeout"),
    *("deadline", "not loaded", "recover", "node not", "channel not", "shard", "offline"),
    *("index not found", "no vector index"),  # while another process creates the collection
)
"""Words in the messages of a server that is down or not ready yet."""

STRONG = {"consistency_level": "Strong"}
"""Reads see all earlier writes, of any client."""

logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # errors are raised as StorageError


def connect(uri: str) -> tuple[Any, str, dict[str, Any]]:
    """Return the client, the name of the collection, and the options in the URI."""
    server, name, options = parse_uri(uri)
    client = request(uri, lambda: MilvusClient(uri=server, timeout=10), CONNECT_SECONDS)
    return client, name, options


def request(uri: str, send: Callable[[], Any], seconds: float | None = None) -> Any:
    """Send a request, and repeat it while the server is unavailable."""
    end = time.monotonic() + (RETRY_SECONDS if seconds is None else seconds)
    pause = 0.1
    while True:
        check_time()
        try:
            return send()
        except (MilvusException, RpcError) as error:
            message = str(getattr(error, "message", error))
            left = seconds_left()
            if left is not None and left < pause and "connect" not in message.lower():
                raise time_limit_error() from error
            if not any(words in message.lower() for words in UNAVAILABLE):
                raise StorageError(f"Milvus at {uri} refused the request: {message}.") from error
            if time.monotonic() > end or (left is not None and left < pause):
                raise StorageError(
                    f"Milvus at {uri} does not respond ({message}). Start the server, or check "
                    "host and port.",
                    "busy",
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, 3.0)


def look(client: Any, name: str, uri: str) -> dict[str, Any] | None:
    """Return the description of a collection; None if it does not exist."""
    if not request(uri, lambda: client.has_collection(name)):
        return None
    described = request(uri, lambda: client.describe_collection(name))
    changed = (described.get("properties") or {}).get(ABOUT)  # the description cannot change
    try:
        about = dict(json.loads(changed or described["description"]))
        if about["format"] != FORMAT:
            raise ValueError(f"format {about['format']!r}, expected {FORMAT!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"The Milvus collection {uri} was not created by corrhash ({error}). "
            "Choose another name."
        ) from error
    return about


def create(client: Any, name: str, about: dict[str, Any], options: dict[str, Any]) -> None:
    """Create a collection for items, two rows each."""
    options = {**DEFAULTS, **options}
    schema = client.create_schema(auto_id=False, description=json.dumps(about))
    schema.add_field("pk", DataType.INT64, is_primary=True)
    schema.add_field("code", DataType.BINARY_VECTOR, dim=8 * -(-about["n_bits"] // 8))
    for flag in ("modality", "first"):
        schema.add_field(flag, DataType.INT8)
    for column in STRINGS:
        schema.add_field(column, DataType.VARCHAR, max_length=MAX_TEXT_BYTES)
    schema.add_field("fields", DataType.JSON)
    lists = {} if options["index"] == "BIN_FLAT" else {"nlist": options["nlist"]}
    kind = {"index_type": options["index"], "metric_type": "HAMMING", "params": lists}
    index = client.prepare_index_params()
    index.add_index("code", **kind)
    shards = {**STRONG, "num_shards": options["shards"]}
    client.create_collection(name, schema=schema, index_params=index, **shards)


class RecordLog:
    """JSON documents beside a collection, in a Milvus collection of their own.

    Milvus orders nothing, so that a row is numbered by the time of its writing in nanoseconds.
    """

    def __init__(self, client: Any, name: str, uri: str) -> None:
        self.client, self.name, self.uri = client, f"{name}_records", uri

    def append(self, kind: str, records: Sequence[dict[str, Any]]) -> None:
        """Store documents, after creating the collection at the first call."""
        if not self._exists():
            request(self.uri, self._create)
        start = time.time_ns()
        rows = [
            {"pk": start + at, "kind": kind, "content": json.dumps(record), "unused": b"\0"}
            for at, record in enumerate(records)
        ]
        # The rows keep their numbers if the request is repeated.
        request(self.uri, lambda: self.client.upsert(self.name, rows))

    def read(self, kind: str) -> list[dict[str, Any]]:
        """Return the documents of one kind, oldest first."""
        if not self._exists():
            return []
        request(self.uri, lambda: self.client.load_collection(self.name))
        pages = request(self.uri, self._pages)
        found: dict[int, tuple[str, str]] = {}
        while page := pages.next():
            found |= {int(row["pk"]): (row["kind"], row["content"]) for row in page}
        pages.close()
        return [json.loads(text) for _, (of_kind, text) in sorted(found.items()) if of_kind == kind]

    def _exists(self) -> bool:
        return bool(request(self.uri, lambda: self.client.has_collection(self.name)))

    def _pages(self) -> Any:
        fields = {"filter": "pk >= 0", "output_fields": ["kind", "content"]}
        return self.client.query_iterator(self.name, batch_size=1000, **fields, **STRONG)

    def _create(self) -> None:
        schema = self.client.create_schema(auto_id=False)
        schema.add_field("pk", DataType.INT64, is_primary=True)
        schema.add_field("kind", DataType.VARCHAR, max_length=64)
        schema.add_field("content", DataType.VARCHAR, max_length=MAX_TEXT_BYTES)
        schema.add_field("unused", DataType.BINARY_VECTOR, dim=8)  # Milvus requires a vector
        index = self.client.prepare_index_params()
        index.add_index("unused", index_type="BIN_FLAT", metric_type="HAMMING")
        self.client.create_collection(self.name, schema=schema, index_params=index, **STRONG)


def check_index(client: Any, name: str, uri: str, options: dict[str, Any]) -> None:
    """Refuse options in a URI that differ from those that a collection was created with."""
    if options.keys() - {"nprobe"}:
        index = request(uri, lambda: client.describe_index(name, "code"))
        shards = request(uri, lambda: client.describe_collection(name))["num_shards"]
        stored = {"shards": shards, "index": index["index_type"], "nlist": index.get("nlist")}
        check_options(uri, options, stored)
