"""Error responses: JSON with a message that helps and the request id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from corrhash.errors import InputError, NotFoundError, StorageError, validation_problem
from corrhash.service.telemetry import current_request, log

MESSAGES = {
    "Not Found": "Not found. See /api/v1/openapi.json for the API.",
    "Method Not Allowed": "Method not allowed. See /api/v1/openapi.json for the API.",
}
"""Replacements for the framework's default messages."""

STORAGE_STATUS = {"busy": 503, "full": 507, "failed": 500}
"""The status for each problem of a StorageError."""


def error_response(
    status: int, message: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    """Return an error message with the id under which the request is logged."""
    content = {"error": message, "request_id": current_request.get()}
    return JSONResponse(content, status, headers)


Handler = Callable[[Request, Exception], Awaitable[JSONResponse]]


def error_handlers(uri: str) -> dict[type[Exception], Handler]:
    """Return functions that answer errors in JSON, without the location of the collection.

    An error is answered by the function of its class, or of its nearest base class.
    """
    location = _absolute(uri)

    async def on_input_error(request: Request, error: Exception) -> JSONResponse:
        status = 404 if isinstance(error, NotFoundError) else 422
        return error_response(status, str(error).replace(location, "the collection"))

    async def on_storage_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, StorageError)
        log.error("storage error", exc_info=error)
        message = str(error).replace(location, "the collection")
        return error_response(STORAGE_STATUS[error.problem], message)

    async def on_validation_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return error_response(422, _validation_message(error.errors()))

    async def on_http_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers) if error.headers else None
        message = MESSAGES.get(str(error.detail), str(error.detail))
        return error_response(error.status_code, message, headers)

    async def on_defect(request: Request, error: Exception) -> JSONResponse:
        log.error("unhandled exception", exc_info=error)
        return error_response(500, "Internal error. The log has details under this request id.")

    return {
        InputError: on_input_error,
        StorageError: on_storage_error,
        RequestValidationError: on_validation_error,
        HTTPException: on_http_error,
        Exception: on_defect,
    }


def _absolute(uri: str) -> str:
    """The full location of a collection. Its name alone may occur in a message by chance."""
    return uri if "://" in uri or uri == "memory:" else str(Path(uri).absolute())


def _validation_message(errors: Sequence[Any]) -> str:
    """Describe what is wrong with each field; long values are not repeated."""
    parts = []
    for error in errors[:5]:
        # Bad JSON is located by a position in the body, not by a field.
        inner = error["loc"] if error["type"] != "json_invalid" else ()
        location = [str(part) for part in inner if part not in ("body", "query", "path")]
        name = ".".join(location)[:100].encode("ascii", "replace").decode() or "the body"
        parts.append(f"{name} {validation_problem(error)}")
    return f"Invalid request. {'; '.join(parts)}."
