"""Limits: how much one request, one client and all of them together may ask for."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1 << 20

# What the description of the API states.
LONGEST_TEXT = 1000
"""Characters of a query, a key or a filter."""

MOST_ANSWERS, LAST_OFFSET = 100, 10_000
"""Answers of one page, and how many may be left out before it."""

MOST_ITEMS = 100
"""How many items are added or deleted at once."""


@dataclass(frozen=True)
class Limits:
    """What the service refuses to exceed.

    Parameters
    ----------
    body : bytes of a question in JSON.
    upload : bytes of a picture to search with.
    write : bytes of items that are added at once.
    pixels : of a picture, width times height.
    seconds : for a body to arrive, and for a picture to be decoded.
    rate, burst : requests a second of one client in the long run, and at once.
    concurrent : requests that are under way at the same time, of all clients.
    """

    body: int = 64 * 1024
    upload: int = 10 * MEGABYTE
    write: int = 32 * MEGABYTE
    pixels: int = 40_000_000
    seconds: float = 10.0
    rate: float = 20.0
    burst: int = 60
    concurrent: int = 64
