"""Refusals: one sentence each, the same as on the command line, as problem+json (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from logging import getLogger

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ... import LanemapError
from ...db.errors import UnavailableError, masked

_MEDIA = "application/problem+json"
_TEXT = {"type": "string"}
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {"type": _TEXT, "title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT, "argument": _TEXT},
}
#: What the OpenAPI description says of refusals.
RESPONSES: dict[int | str, dict[str, object]] = {
    "4XX": {"description": "What was wrong, and what would be right", "content": {_MEDIA: {"schema": _PROBLEM}}},
    "5XX": {"description": "What the server could not do", "content": {_MEDIA: {"schema": _PROBLEM}}},
}


def problem(
    status: int, detail: str, argument: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer that says in one sentence what was wrong and what would be right, and which argument would mend it."""
    said = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    if argument:
        said["argument"] = argument
    return Response(json.dumps(said) + "\n", status, headers, _MEDIA)


def handle_problems(app: FastAPI) -> None:
    """Have the application answer every error with a problem."""
    app.add_exception_handler(LanemapError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _failed)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _broken)


def without_place(request: Request, text: str) -> str:
    """A sentence without the place of the database, which is for its owner alone."""
    location = request.app.state.database.location
    for place in (location.file and location.file.absolute(), location):
        text = text.replace(str(place), "the database") if place else text
    return masked(text)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, LanemapError)
    if isinstance(error, UnavailableError):
        # The reason may name a host or a folder: it is for the log.
        getLogger("lanemap").error("lanemap: %s", masked(str(error)))
        return problem(503, "the database cannot be read now: try again later")
    return problem(400, without_place(request, str(error)), error.argument)


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    where, words = invalid(error)
    return problem(400, f"{where}: {words}", where.partition(".")[0])


def invalid(error: RequestValidationError) -> tuple[str, str]:
    """The first parameter or part of a body that is wrong, and why."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"][1:] or first["loc"]))
    if first["type"] == "enum":
        return where, f"{first['input']!r} is not one of {first['ctx']['expected']}"
    return where, first["msg"].removeprefix("Value error, ")


def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = error.detail
    if error.status_code == 405 and error.headers:
        words = f"{request.url.path} does not take {request.method}: it takes {error.headers['Allow']}"
    return problem(error.status_code, words, headers=error.headers)


def _gone(_: Request, __: Exception) -> Response:
    return problem(400, "the request ended before all of it was sent")


def _broken(_: Request, __: Exception) -> Response:
    return problem(500, "Lanemap failed at this: its log says why")
