"""The route of near-duplicates: one comparison at a time, whose result is kept for some minutes.

Comparing all images takes long, and every client can ask for it. So it runs in the background, and
a request that does not find a result reports that it is not ready.
"""

from __future__ import annotations

import time
from threading import Event, Lock, Thread
from typing import Annotated

from fastapi import APIRouter, Query

from corrhash.collection.base import DuplicateGroup
from corrhash.collection.collection import Collection
from corrhash.errors import InputError, StorageError
from corrhash.service.limits import MAX_OFFSET
from corrhash.service.schemas import DuplicateGroupResponse, DuplicatesResponse, ItemResponse
from corrhash.service.search import item_fields
from corrhash.service.telemetry import log

MAX_COMPARED = 100_000
"""Items of a collection that a service compares."""

SECONDS_KEPT = 600
REST = 10
"""A result is kept for ten minutes, or for ten times as long as the comparison took; an error only
for the latter."""

SECONDS_WAITED = 5.0
"""How long a request waits for a comparison."""

GROUPS, SHOWN_ITEMS = 50, 100
"""Groups of a response, and items of a group that it describes."""


class DuplicateService:
    """Compares the images of a collection in the background."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self._lock = Lock()
        self._running: Event | None = None
        self._groups: list[DuplicateGroup] | None = None
        self._error: Exception | None = None
        self._expires = 0.0

    def groups(self) -> list[DuplicateGroup] | None:
        """Return the groups of the last comparison, or None while the first one is running."""
        if len(self.collection) > MAX_COMPARED:
            raise InputError(
                f"A service compares at most {MAX_COMPARED:,} items, and this collection has "
                f"{len(self.collection):,}. Run corrhash duplicates on the collection itself."
            )
        with self._lock:
            if self._running is None and time.monotonic() >= self._expires:
                self._running, self._error = Event(), None
                Thread(target=self._compare, args=(self._running,), daemon=True).start()
            running = self._running
        if running is not None and self._groups is None:
            running.wait(SECONDS_WAITED)
        if self._error is not None:
            raise self._error
        return self._groups

    def _compare(self, running: Event) -> None:
        started = time.monotonic()
        groups, problem = None, None
        try:
            groups = self.collection.duplicates()
        except (InputError, StorageError) as error:
            problem = error
        except Exception:
            log.exception("the comparison of images failed")
            problem = StorageError("The comparison of images failed. The log has the reason.")
        seconds = time.monotonic() - started
        with self._lock:
            self._groups, self._error, self._running = groups, problem, None
            kept = SECONDS_KEPT if problem is None else 0  # it may be solved soon
            self._expires = time.monotonic() + max(kept, REST * seconds)
        running.set()


def add_duplicates_route(api: APIRouter, collection: Collection) -> None:
    """Add the route to an API."""
    service = DuplicateService(collection)

    @api.get("/duplicates", tags=["items"])
    def get_duplicates(
        offset: Annotated[int, Query(ge=0, le=MAX_OFFSET)] = 0,
    ) -> DuplicatesResponse:
        """Return groups of items that show the same image, as far as they are known.

        The first request starts the comparison. Ask again while **ready** is false.
        """
        found = service.groups()
        if found is None:
            return DuplicatesResponse(ready=False, total=0, groups=[], next_offset=None)
        end = offset + GROUPS
        return DuplicatesResponse(
            ready=True,
            total=len(found),
            groups=[
                shown for group in found[offset:end] if len((shown := _shown(group)).items) > 1
            ],
            next_offset=end if end < len(found) else None,
        )

    def _shown(group: DuplicateGroup) -> DuplicateGroupResponse:
        """Describe a group; items that were deleted since are missing."""
        ids = group.ids[:SHOWN_ITEMS]
        has_image = collection.codes_of(ids, "image")
        items = [
            ItemResponse(**item_fields(number, item, number in has_image))
            for number, item in zip(ids, collection.items_of(ids), strict=True)
            if item is not None
        ]
        return DuplicateGroupResponse(
            items=items, n_items=len(group.ids), similarity=group.similarity
        )
