"""Errors as the service tells them: JSON with a sentence that helps."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from corrhash.errors import InputError
from corrhash.service.logs import current_request, log

API = "/api/v1/openapi.json describes the API."
SENTENCES = {
    "Not Found": f"There is nothing at this address. {API}",
    "Method Not Allowed": f"This address does not take such requests. {API}",
}
"""For the words of the framework."""


def error_answer(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An error with its sentence, and the id under which the log knows the request."""
    content = {"error": sentence, "request_id": current_request.get()}
    return JSONResponse(content, status, headers)


def tell_errors(app: FastAPI, address: str) -> None:
    """Let every error of an app come as JSON; ``address`` of the collection is not told."""

    async def mistake(request: Request, error: Exception) -> JSONResponse:
        return error_answer(422, str(error).replace(address, "the collection"))

    async def invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return error_answer(422, _sentence(error.errors()))

    async def refused(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers) if error.headers else None
        sentence = SENTENCES.get(str(error.detail), str(error.detail))
        return error_answer(error.status_code, sentence, headers)

    async def defect(request: Request, error: Exception) -> JSONResponse:
        log.error("defect", exc_info=error)
        return error_answer(500, "Something went wrong here. The log tells more under this id.")

    app.add_exception_handler(InputError, mistake)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(Exception, defect)


def _sentence(errors: Any) -> str:
    """What was wrong with a request, field by field; values are not repeated."""
    parts = []
    for error in errors[:5]:
        place = [str(part) for part in error["loc"] if part not in ("body", "query", "path")]
        name = ".".join(place)[:100].encode("ascii", "replace").decode()
        parts.append(f"{name}: {error['msg']}" if name else str(error["msg"]))
    return "The request cannot be read. " + "; ".join(parts) + "."
