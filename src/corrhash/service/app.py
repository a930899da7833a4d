"""The routes of the service: what the page and other programs call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Header, Query, Request, Response
from fastapi import Path as InPath
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from corrhash import __version__
from corrhash.collection import Collection
from corrhash.index.entries import LARGEST_ID
from corrhash.service.desk import Desk, item_fields
from corrhash.service.errors import tell_errors
from corrhash.service.guard import guarded
from corrhash.service.introduction import Introduction, introduce
from corrhash.service.limits import MOST_ITEMS, Limits
from corrhash.service.logs import log
from corrhash.service.messages import (
    AddedAnswer,
    DeletedAnswer,
    ErrorAnswer,
    How,
    InfoAnswer,
    ItemAnswer,
    ItemQuestion,
    Name,
    NewItems,
    SearchAnswer,
    Side,
    State,
    TextQuestion,
)
from corrhash.service.metrics import Metrics
from corrhash.service.new_records import new_records
from corrhash.service.token import check_token
from corrhash.service.uploads import FORMATS, Decoder

STATIC = Path(__file__).parent / "static"
DESCRIPTION = (
    "Finds pictures with words, words with pictures, and items like others, by short binary codes."
)
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": why}
    for status, why in {
        400: "The request cannot be read.",
        408: "The request did not arrive in time.",
        413: "The request is too large.",
        422: "The question cannot be answered; the sentence tells why.",
        429: "Too many requests: wait as long as Retry-After says.",
    }.items()
}
WRITE_ERRORS = ERRORS | {
    401: {"model": ErrorAnswer, "description": "The token is missing or wrong."},
    403: {"model": ErrorAnswer, "description": "The service was not started with --writable."},
}
NOT_FOUND: dict[int | str, dict[str, Any]] = {
    404: {"model": ErrorAnswer, "description": "There is no such item."}
}
PICTURE = {"schema": {"type": "string", "format": "binary"}}
PICTURE_BODY = {
    "requestBody": {"required": True, "content": dict.fromkeys(FORMATS.values(), PICTURE)}
}
ItemId = Annotated[int, InPath(ge=0, le=LARGEST_ID)]
Keys = Annotated[list[Name], Query(min_length=1, max_length=MOST_ITEMS)]
Authorization = Annotated[str | None, Header(description="Bearer, and the token.")]


def create_app(
    collection: Collection,
    limits: Limits | None = None,
    *,
    token: str | None = None,
    hosts: tuple[str, ...] = ("*",),
    ready: Callable[[], object] = lambda: None,
) -> ASGIApp:
    """A collection as a web application.

    Parameters
    ----------
    limits : how much may be asked for.
    token : lets those who have it add and delete; without one nobody can.
    hosts : names by which the service may be called.
    ready : called once the model is warm and questions are answered at once.
    """
    limits = limits or Limits()
    metrics, decoder = Metrics(), Decoder(limits)
    desk = Desk(collection, metrics.batch.observe)

    def warm_up() -> tuple[list[Side], Introduction]:
        found = desk.warm_up(), introduce(collection)
        log.info("ready: %s items", f"{len(collection):,}")
        ready()
        return found

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        app.state.warm = asyncio.create_task(asyncio.to_thread(warm_up))
        yield
        await asyncio.wait([app.state.warm])
        desk.close()
        decoder.close()

    app = FastAPI(
        title="corrhash",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        lifespan=life,
    )
    api = APIRouter(prefix="/api/v1", responses=ERRORS)

    @api.post("/search/text", tags=["search"])
    async def search_text(question: TextQuestion) -> SearchAnswer:
        """Find items by words."""
        return await desk.ask("text", question.text, question)

    @api.post("/search/image", tags=["search"], openapi_extra=PICTURE_BODY)
    async def search_image(request: Request, how: Annotated[How, Query()]) -> SearchAnswer:
        """Find items by a picture, which is the body of the request."""
        return await desk.ask("image", await decoder.read(await request.body()), how)

    @api.post("/search/item", tags=["search"])
    async def search_item(question: ItemQuestion) -> SearchAnswer:
        """Find items like one that is there, itself left out."""
        return await desk.ask("item", question.key, question)

    @api.get("/info", tags=["about"])
    async def about() -> InfoAnswer:
        """What there is to search, and how."""
        search_by, shown = await asyncio.shield(app.state.warm)
        facts = await asyncio.to_thread(collection.info)
        return InfoAnswer(
            name=Path(str(facts["address"])).name,
            items=facts["items"],
            bits=facts["bits"],
            method=facts["method"],
            fingerprint=facts["fingerprint"],
            version=__version__,
            writable=token is not None,
            search_by=search_by,
            examples=list(shown.examples),
            labels=list(shown.labels),
            samples=await asyncio.to_thread(_items_of_keys, collection, shown.samples),
        )

    @api.get("/items", tags=["items"])
    def items_by_key(key: Keys) -> list[ItemAnswer]:
        """The items of some keys, of those that are there."""
        return _items_of_keys(collection, key)

    @api.get("/items/{number}", tags=["items"], responses=NOT_FOUND)
    def item(number: ItemId) -> ItemAnswer:
        """One item."""
        for found in _items(collection, [number]):
            return found
        raise HTTPException(404, f"There is no item {number}. It may have been deleted.")

    @api.get(
        "/items/{number}/thumbnail",
        tags=["items"],
        response_class=Response,
        responses={200: {"content": {"image/jpeg": PICTURE}}, **NOT_FOUND},
    )
    def thumbnail(number: ItemId) -> Response:
        """The small picture that is kept of an item."""
        (found,) = collection.items_of([number], ["thumbnail"])
        if found is None or found.thumbnail is None:
            raise HTTPException(404, f"There is no picture of item {number}.")
        headers = {"Cache-Control": "private, max-age=300"}
        return Response(found.thumbnail, media_type="image/jpeg", headers=headers)

    @api.post("/items", tags=["items"], responses=WRITE_ERRORS)
    def add_items(new: NewItems, authorization: Authorization = None) -> AddedAnswer:
        """Add items, or put them in place of those of the same keys."""
        check_token(authorization, token)
        added = collection.add(new_records(new, limits))
        return AddedAnswer(
            new=added.new,
            updated=added.updated,
            unchanged=added.unchanged,
            skipped=dict(added.skipped),
        )

    @api.delete("/items", tags=["items"], responses=WRITE_ERRORS)
    def delete_items(key: Keys, authorization: Authorization = None) -> DeletedAnswer:
        """Forget items by their keys."""
        check_token(authorization, token)
        return DeletedAnswer(deleted=collection.delete(key))

    @app.get("/health", tags=["about"])
    async def health() -> State:
        """Whether the service is there."""
        return State(status="ok")

    @app.get("/ready", tags=["about"], responses={503: {"model": State}})
    async def is_ready(response: Response) -> State:
        """Whether questions are answered at once."""
        if app.state.warm.done() and app.state.warm.exception() is None:
            return State(status="ok")
        response.status_code = 503
        return State(status="starting")

    @app.get("/metrics", include_in_schema=False)
    def measured() -> Response:
        metrics.items.set(len(collection))
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    app.include_router(api)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    tell_errors(app, collection.uri)
    return guarded(app, limits, metrics, hosts)


def _items_of_keys(collection: Collection, keys: Sequence[str]) -> list[ItemAnswer]:
    return _items(collection, list(collection.ids_of(keys).values()))


def _items(collection: Collection, ids: list[int]) -> list[ItemAnswer]:
    pictured = collection.codes_of(ids, "image")
    found = zip(ids, collection.items_of(ids), strict=True)
    return [
        ItemAnswer(**item_fields(number, item, number in pictured))
        for number, item in found
        if item is not None
    ]
