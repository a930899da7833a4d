"""Limits of the service: sizes, times and request rates."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1 << 20

MAX_TEXT = 1000
"""Maximum number of characters of a query, a key or a filter."""

MAX_CAPTION = 20_000
"""Maximum number of characters of the text of an item."""

MAX_LABELS, MAX_LABEL = 200, 200
"""Maximum number of labels of an item, and of their characters."""

MAX_FIELDS, MAX_NAME, MAX_VALUE = 50, 100, 1000
"""Maximum number of metadata fields of an item, and of characters of their names and values."""

MAX_RESPONSE = 4 * MEGABYTE
"""Maximum bytes of a response with more than one item."""

MAX_K, MAX_OFFSET = 100, 10_000
MAX_ITEMS = 100
"""Maximum number of items to add or delete per request."""


@dataclass(frozen=True)
class Limits:
    """Configurable limits.

    Parameters
    ----------
    headers : maximum bytes of the headers of a request.
    body : maximum bytes of a JSON request.
    upload : maximum bytes of a query image.
    write : maximum bytes of a request that adds items.
    original : maximum bytes of an image file that is resized.
    pixels : maximum pixels of an image, width times height.
    timeout : maximum seconds to receive the headers of a request, to receive its body, to decode an
        image, and until a client has read a response.
    search : maximum seconds of a search, or of a filter that selects what to delete.
    rate, burst : sustained requests per second of one client, and how many it can send at once.
    concurrent, client_concurrent : maximum requests in progress, of all clients and of one.
    buffered, client_buffered : maximum bytes of bodies in memory, of all clients and of one.
    connections, client_connections : maximum open connections, of all clients and of one.
    keep_alive : seconds after which an idle connection is closed.
    """

    headers: int = 64 * 1024
    body: int = 64 * 1024
    upload: int = 10 * MEGABYTE
    write: int = 32 * MEGABYTE
    original: int = 128 * MEGABYTE
    pixels: int = 40_000_000
    timeout: float = 10.0
    search: float = 5.0
    rate: float = 20.0
    burst: int = 60
    concurrent: int = 64
    client_concurrent: int = 32
    buffered: int = 256 * MEGABYTE
    client_buffered: int = 64 * MEGABYTE
    connections: int = 512
    client_connections: int = 128
    keep_alive: int = 5
