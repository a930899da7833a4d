"""The routes of the service: search, items, status and the web page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from corrhash import __version__
from corrhash.codes import Codes
from corrhash.collection.collection import Collection
from corrhash.collection.judging import verdicts
from corrhash.collection.overview import Overview, make_overview
from corrhash.errors import InputError
from corrhash.index.time_limit import time_limit
from corrhash.service.auth import require_token
from corrhash.service.direct import DirectRoute, DirectRoutes
from corrhash.service.duplicates import add_duplicates_route
from corrhash.service.errors import error_handlers
from corrhash.service.images import BINARY, NOT_FOUND, ItemId, add_image_routes
from corrhash.service.limits import MAX_ITEMS, MAX_RESPONSE, MEGABYTE, Limits
from corrhash.service.middleware import add_middleware, client_of
from corrhash.service.schemas import (
    AddResponse,
    CodesSearch,
    DeleteResponse,
    ErrorResponse,
    FullItemResponse,
    InfoResponse,
    ItemChanges,
    ItemResponse,
    JudgmentResponse,
    KeySearch,
    Modality,
    Name,
    NewItems,
    NewJudgment,
    SearchParameters,
    SearchResponse,
    Status,
    Text,
    TextSearch,
    public_filter,
)
from corrhash.service.search import SearchService, how_many_fit, item_fields
from corrhash.service.telemetry import Metrics, log
from corrhash.service.uploads import FORMATS, ImageDecoder

STATIC = Path(__file__).parent / "static"
DESCRIPTION = "Cross-modal search: find images and texts by text, by image or by similar item."
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse, "description": description}
    for status, description in {
        400: "Malformed request.",
        408: "The request arrived too slowly.",
        413: "The request is too large.",
        422: "Invalid request; the message explains why.",
        429: "Too many requests; wait for the seconds in Retry-After.",
    }.items()
}
WRITE_ERRORS = ERRORS | {
    401: {"model": ErrorResponse, "description": "The token is missing or wrong."},
    403: {"model": ErrorResponse, "description": "The service is read-only."},
}
WARM_UP_SECONDS = 5
"""How long the end of the service waits for its start, which loads and compiles."""

IMAGE_BODY = {"requestBody": {"required": True, "content": dict.fromkeys(FORMATS.values(), BINARY)}}
Keys = Annotated[list[Name], Query(min_length=1, max_length=MAX_ITEMS)]
OptionalKeys = Annotated[list[Name] | None, Query(min_length=1, max_length=MAX_ITEMS)]


def create_app(
    collection: Collection,
    limits: Limits | None = None,
    *,
    token: str | None = None,
    originals: bool = False,
    paths: bool = False,
    hosts: Sequence[str] = ("*",),
    ready: Callable[[], object] = lambda: None,
) -> ASGIApp:
    """Create the web application of a collection.

    Parameters
    ----------
    limits : sizes, times and request rates.
    token : token that allows changing items and judging results; None makes the service read-only.
    originals : publish the image files of items that lie below the root of the collection.
    paths : publish the paths of these files, relative to the root.
    hosts : accepted values of the Host header; ``*`` accepts all.
    ready : called once the model is loaded and compiled.
    """
    limits = limits or Limits()
    metrics, decoder = Metrics(), ImageDecoder(limits)
    service = SearchService(collection, metrics.batch_size.observe, limits.search)
    handlers: dict[Any, Any] = error_handlers(collection.uri)

    def warm_up() -> tuple[list[Modality], Overview]:
        prepared = service.warm_up(), make_overview(collection)
        log.info("ready: %s items", f"{len(collection):,}")
        ready()
        return prepared

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.warm_up = asyncio.create_task(asyncio.to_thread(warm_up))
        yield
        await asyncio.wait([app.state.warm_up], timeout=WARM_UP_SECONDS)
        service.close()
        decoder.close()
        resizer.close()

    app = FastAPI(
        title="corrhash",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # they load scripts from other servers
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers=handlers,
    )
    api = APIRouter(prefix="/api/v1", responses=ERRORS)
    writable = [Depends(require_token(token))]
    resizer = add_image_routes(api, collection, limits, originals=originals)
    add_duplicates_route(api, collection)

    async def find_by_text(search: TextSearch, client: str) -> bytes:
        return await service.search("text", search.text, search.options(), client)

    async def find_by_key(search: KeySearch, client: str) -> bytes:
        return await service.search("key", search.key, search.options(), client)

    async def find_by_code(search: CodesSearch, client: str) -> bytes:
        code = Codes.from_hex([search.codes], collection.n_bits)
        return await service.search("codes", code, search.options(), client)

    @api.post("/search/text", tags=["search"], response_model=SearchResponse)
    async def search_text(search: TextSearch, request: Request) -> Response:
        """Search by text."""
        return in_json(await find_by_text(search, client_of(request.scope)))

    @api.post(
        "/search/image",
        tags=["search"],
        response_model=SearchResponse,
        openapi_extra=IMAGE_BODY,
    )
    async def search_image(
        request: Request, search: Annotated[SearchParameters, Query()]
    ) -> Response:
        """Search by image; the request body is the image file."""
        options = search.options()
        image = await decoder.decode(await request.body())
        return in_json(await service.search("image", image, options, client_of(request.scope)))

    @api.post("/search/key", tags=["search"], response_model=SearchResponse, responses=NOT_FOUND)
    async def search_key(search: KeySearch, request: Request) -> Response:
        """Search for items similar to an item, which is excluded."""
        return in_json(await find_by_key(search, client_of(request.scope)))

    @api.post("/search/codes", tags=["search"], response_model=SearchResponse)
    async def search_codes(search: CodesSearch, request: Request) -> Response:
        """Search by hash code."""
        return in_json(await find_by_code(search, client_of(request.scope)))

    @api.get("/info", tags=["status"])
    async def info() -> InfoResponse:
        """Describe the collection and the service."""
        search_by, overview = await asyncio.shield(app.state.warm_up)
        facts = await asyncio.to_thread(collection.info)
        return InfoResponse(
            name=Path(collection.uri).absolute().name,
            items=facts["items"],
            bits=facts["bits"],
            method=facts["method"],
            fingerprint=facts["fingerprint"],
            version=__version__,
            writable=token is not None,
            originals=originals,
            paths=paths,
            search_by=search_by,
            find=list(overview.modalities),
            examples=list(overview.examples),
            labels=list(overview.labels),
            samples=await asyncio.to_thread(_items_by_key, collection, overview.samples),
        )

    @api.get("/items", tags=["items"])
    def get_items(key: Keys) -> list[ItemResponse]:
        """Return items by key; unknown keys are ignored."""
        items = _items_by_key(collection, key)
        if len(items) > 1 and how_many_fit([item.model_dump() for item in items]) < len(items):
            raise InputError(
                f"These {len(items)} items exceed {MAX_RESPONSE // MEGABYTE} MB in total. Request "
                "fewer keys at a time."
            )
        return items

    @api.get("/items/{number}", tags=["items"], responses=NOT_FOUND)
    def get_item(number: ItemId) -> FullItemResponse:
        """Return one item by id, with its path if paths are public."""
        (stored,) = collection.items_of([number], ["path"])
        for item in _items(collection, [number]):
            path = stored.path if paths and stored is not None else ""
            shown = path if path and not Path(path).is_absolute() else None
            return FullItemResponse(**item.model_dump(), path=shown)
        raise HTTPException(404, f"No item with the id {number}.")

    @api.post("/items", tags=["items"], responses=WRITE_ERRORS, dependencies=writable)
    def add_items(new: NewItems) -> AddResponse:
        """Add items, or replace those with the same keys."""
        added = collection.add(new.records(limits))
        return AddResponse(**asdict(added))

    @api.patch("/items", tags=["items"], responses=WRITE_ERRORS, dependencies=writable)
    def update_items(changes: ItemChanges) -> AddResponse:
        """Change texts, labels or metadata of items; what is not given stays as it is."""
        return AddResponse(**asdict(collection.update_many(changes.changes())))

    @api.delete("/items", tags=["items"], responses=WRITE_ERRORS, dependencies=writable)
    def delete_items(
        key: OptionalKeys = None, where: Text | None = None, dry_run: bool = False
    ) -> DeleteResponse:
        """Delete items by key, by a filter, or by both: the given items that pass the filter."""
        with time_limit(limits.search):
            n_deleted = collection.delete(key, where=public_filter(where), dry_run=dry_run)
        return DeleteResponse(deleted=n_deleted)

    @api.post("/judgments", tags=["judgments"], responses=WRITE_ERRORS, dependencies=writable)
    def judge(new: NewJudgment) -> JudgmentResponse:
        """Store whether an item fits a query, or withdraw what was stored."""
        collection.judge(**new.arguments(limits))
        return JudgmentResponse(item=new.item, fits=new.fits)

    @api.get("/judgments", tags=["judgments"], responses=WRITE_ERRORS, dependencies=writable)
    def get_judgments(
        text: Name | None = None, key: Name | None = None, find: Modality = "image"
    ) -> list[JudgmentResponse]:
        """Return the judgments about one query, by text or by key."""
        kind, query = ("text", text) if text is not None else ("key", key or "")
        found = verdicts(collection.judgments(), kind, query, find)
        return [JudgmentResponse(item=item, fits=value > 0) for item, value in found.items()]

    @app.get("/health", tags=["status"])
    async def health() -> Status:
        """Report that the service is running."""
        return Status(status="ok")

    @app.get("/ready", tags=["status"], responses={503: {"model": Status}})
    async def is_ready(response: Response) -> Status:
        """Report whether the model is loaded and compiled."""
        if app.state.warm_up.done() and app.state.warm_up.exception() is None:
            return Status(status="ok")
        response.status_code = 503
        return Status(status="starting")

    @app.get("/metrics", include_in_schema=False)
    def get_metrics() -> Response:
        metrics.items.set(len(collection))
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    files = RevalidatedFiles(directory=STATIC)

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    @app.get("/duplicates", include_in_schema=False)
    async def duplicates_page(request: Request) -> Response:
        return await files.get_response("duplicates.html", request.scope)

    app.include_router(api)
    app.mount("/static", GZipMiddleware(files), name="static")
    direct = [
        DirectRoute("/api/v1/search/text", TextSearch, find_by_text),
        DirectRoute("/api/v1/search/key", KeySearch, find_by_key),
        DirectRoute("/api/v1/search/codes", CodesSearch, find_by_code),
    ]
    return add_middleware(DirectRoutes(app, direct, handlers), limits, metrics, hosts, token)


class RevalidatedFiles(StaticFiles):
    """Static files that browsers revalidate, so that they never mix those of two versions."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """Return a file, or status 304 if the client has it."""
        response = super().file_response(*arguments, **options)
        response.headers["Cache-Control"] = "no-cache"
        return response


def in_json(content: bytes) -> Response:
    """Return JSON that is complete: FastAPI would parse, check and write it again."""
    return Response(content, media_type="application/json")


def _items_by_key(collection: Collection, keys: Sequence[str]) -> list[ItemResponse]:
    return _items(collection, list(collection.ids_of(keys).values()))


def _items(collection: Collection, ids: list[int]) -> list[ItemResponse]:
    has_image = collection.codes_of(ids, "image")
    items = zip(ids, collection.items_of(ids), strict=True)
    return [
        ItemResponse(**item_fields(number, item, number in has_image))
        for number, item in items
        if item is not None
    ]
