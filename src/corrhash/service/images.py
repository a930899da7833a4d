"""The routes of images: stored thumbnails and previews, and original files if they are public."""

from __future__ import annotations

import asyncio
import hashlib
from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as PathParameter
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from corrhash.collection.collection import Collection
from corrhash.datasets.images import shrink_jpeg
from corrhash.index.items import LARGEST_ID
from corrhash.service.limits import Limits
from corrhash.service.originals import (
    CONVERTED_SIZE,
    SIZES,
    NotServedError,
    Original,
    open_original,
)
from corrhash.service.schemas import ErrorResponse
from corrhash.service.uploads import ImageDecoder

ItemId = Annotated[int, PathParameter(ge=0, le=LARGEST_ID)]
BINARY = {"schema": {"type": "string", "format": "binary"}}
NOT_FOUND: dict[int | str, dict[str, Any]] = {
    404: {"model": ErrorResponse, "description": "No such item."}
}
IMAGE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": BINARY}},
    304: {"description": "The client has the current image."},
    **NOT_FOUND,
}
ORIGINAL = {**IMAGE, 200: {"content": {"image/*": BINARY}}}
N_CACHED = 512
"""Thumbnails that are kept in memory, about ten pages of results."""

PRIVATE = "Original files are not public. Start the service with --originals to publish them."


def add_image_routes(
    api: APIRouter, collection: Collection, limits: Limits, *, originals: bool
) -> ImageDecoder:
    """Add the routes, and return the threads that resize images, which the caller closes."""
    # Not the threads of searches by image, which would wait for large files.
    decoder = ImageDecoder(limits)
    shrunk = lru_cache(N_CACHED)(shrink_jpeg)

    def stored(number: int) -> bytes:
        (item,) = collection.items_of([number], ["thumbnail"])
        if item is None or item.thumbnail is None:
            raise HTTPException(404, f"Item {number} has no image.")
        return item.thumbnail

    def opened(number: int) -> Original:
        (item,) = collection.items_of([number], ["path"])
        if item is None or not item.path:
            raise HTTPException(404, f"Item {number} has no file.")
        try:
            return open_original(collection.root, item.path)
        except NotServedError:
            raise HTTPException(404, f"The file of item {number} is not available.") from None

    @api.get("/items/{number}/thumbnail", tags=["items"], response_class=Response, responses=IMAGE)
    def get_thumbnail(number: ItemId, request: Request) -> Response:
        """Return the image of an item in 256 pixels; 304 if the client has it (If-None-Match)."""
        image = stored(number)
        headers = _headers(f'"{_digest(image)}-small"')
        if _is_known(request, headers):
            return Response(status_code=304, headers=headers)
        return Response(shrunk(image), media_type="image/jpeg", headers=headers)

    @api.get("/items/{number}/preview", tags=["items"], response_class=Response, responses=IMAGE)
    def get_preview(number: ItemId, request: Request) -> Response:
        """Return the image of an item in the stored size; 304 if the client has it."""
        image = stored(number)
        headers = _headers(f'"{_digest(image)}"')
        if _is_known(request, headers):
            return Response(status_code=304, headers=headers)
        return Response(image, media_type="image/jpeg", headers=headers)

    @api.get(
        "/items/{number}/original", tags=["items"], response_class=Response, responses=ORIGINAL
    )
    async def get_original(
        number: ItemId,
        request: Request,
        size: Annotated[
            int | None,
            Query(ge=SIZES[0], le=SIZES[1], description="Longest side of a resized JPEG."),
        ] = None,
    ) -> Response:
        """Return the image file of an item, or a JPEG of it; 304 if the client has it."""
        if not originals:
            raise HTTPException(404, PRIVATE)
        original = await asyncio.to_thread(opened, number)
        if original.media_type is None and size is None:
            size = CONVERTED_SIZE  # no browser shows the file itself
        headers = _headers(original.tag(size))
        if _is_known(request, headers):
            original.file.close()
            return Response(status_code=304, headers=headers)
        if size is not None:
            image = await decoder.run(original.resized, size, limits)
            return Response(image, media_type="image/jpeg", headers=headers)
        headers["Content-Disposition"] = f"inline; filename*=UTF-8''{quote(original.name)}"
        headers["Content-Length"] = str(original.n_bytes)
        return StreamingResponse(original.chunks(), media_type=original.media_type, headers=headers)

    return decoder


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _headers(tag: str) -> dict[str, str]:
    return {"Cache-Control": "private, max-age=300", "ETag": tag}


def _is_known(request: Request, headers: dict[str, str]) -> bool:
    """Whether the client has the response with these headers."""
    known = request.headers.get("If-None-Match", "").split(",")
    return headers["ETag"] in (tag.strip().removeprefix("W/") for tag in known)
