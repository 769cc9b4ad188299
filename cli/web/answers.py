"""The format of an answer, by ``format=`` or the header Accept, and refusals.

These are one sentence each, the same as on the command line, as problem+json (RFC 9457).
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from http import HTTPStatus
from logging import getLogger
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ... import LanemapError, UnavailableError, errors
from ..export import FileFormat
from ..options import NO_TIKZ, Format
from ..options import ReportFormat as Report

Form = TypeVar("Form", bound=StrEnum)

ReportForm = StrEnum("ReportForm", {name.upper(): name for name in map(str, (*Report, *Format))})  # type: ignore[misc]
ExportForm = StrEnum("ExportForm", {name.upper(): name for name in FileFormat if name != "dataset"})  # type: ignore[misc]

#: The formats of rows and what they are called in HTTP. The first one is for who accepts anything.
ROWS: Mapping[Format, str] = {
    Format.JSON: "application/json",
    Format.CSV: "text/csv",
    Format.JSONL: "application/jsonl",
    Format.PARQUET: "application/vnd.apache.parquet",
    Format.ARROW: "application/vnd.apache.arrow.file",
    Format.TABLE: "text/plain",
}
_REPORTS: Mapping[str, str] = {
    "markdown": "text/markdown",
    "html": "text/html",
    "junit": "application/xml",
    "github": "text/plain",
}
#: The same of reports.
REPORT: Mapping[ReportForm, str] = {
    ReportForm(form): media for table in (ROWS, _REPORTS) for form, media in table.items()
}

_WHICH = "Default: as the header Accept says, else JSON."
Accept = Annotated[str, Header(include_in_schema=False)]


async def of_rows(format: Annotated[Format | None, Query(description=_WHICH)] = None, accept: Accept = "*/*") -> Format:
    """The format of rows that a request asks for."""
    return format or _accepted(ROWS, accept)


async def of_report(
    format: Annotated[ReportForm | None, Query(description=_WHICH)] = None, accept: Accept = "*/*"
) -> ReportForm:
    """The format of a report that a request asks for."""
    return format or _accepted(REPORT, accept)


RowsFormat = Annotated[Format, Depends(of_rows)]
ReportFormat = Annotated[ReportForm, Depends(of_report)]


def in_formats(media: Mapping[Any, str]) -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI description says of an answer in these formats."""
    return {200: {"description": "The answer", "content": {media_type: {} for media_type in media.values()}}}


def _accepted(media: Mapping[Form, str], accept: str) -> Form:
    """The format that a header Accept wants most.

    Raises:
        HTTPException: it takes none that there is.
    """

    def weight(part: str) -> float:
        try:
            return float(part.partition(";q=")[2].partition(";")[0] or 1)
        except ValueError:
            return 0.0

    for part in sorted(accept.lower().replace(" ", "").split(","), key=weight, reverse=True):
        wanted = part.partition(";")[0] or "*/*"
        for form, name in media.items():
            if weight(part) > 0 and wanted in (name, "*/*", name.partition("/")[0] + "/*"):
                return form
    raise HTTPException(406, f"none of these formats is available: ask for {', '.join(media.values())}")


#: Tells a program to ask again after a minute.
LATER = {"Retry-After": "60"}

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
    content = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": errors.shortened(detail),
    }
    if argument:
        content["argument"] = argument
    return Response(json.dumps(content) + "\n", status, headers, _MEDIA)


def without_place(request: Request, text: str) -> str:
    """A sentence without the place of the database, which is for its owner alone."""
    location = request.app.state.lanemap.database.location
    for place in (location.file and location.file.absolute(), location):
        text = text.replace(str(place), "the database") if place else text
    return errors.masked(text)


def handle_errors(app: FastAPI, page: Callable[[Request, int, str], Awaitable[Response]]) -> None:
    """Have the application answer every error with a problem, and who asked for a page with ``page``."""

    async def refuse(
        request: Request,
        status: int,
        words: str,
        argument: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        words = without_place(request, words)
        if request.method == "GET" and not request.url.path.startswith(("/api/", "/static/")):
            with suppress(UnavailableError, OSError):  # without the database a page has nothing around it
                return await page(request, status, words)
        return problem(status, words, argument, headers)

    @app.exception_handler(LanemapError)
    async def refused(request: Request, error: LanemapError) -> Response:
        return await refuse(request, 400, str(error), error.argument)

    @app.exception_handler(UnavailableError)
    @app.exception_handler(OSError)
    def unable(_: Request, error: Exception) -> Response:
        # The reason may name a host or a folder: it is for the log.
        getLogger("lanemap").error("lanemap: %s", errors.masked(str(error)))
        reason = "the server has no room for this" if isinstance(error, OSError) else "the database cannot be read"
        return problem(503, f"{reason} now: try again later", headers=LATER)

    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where, words = ".".join(map(str, first["loc"][1:] or first["loc"])), first["msg"].removeprefix("Value error, ")
        if first["input"] == "tikz":
            words = NO_TIKZ
        elif first["type"] == "enum":
            words = f"{first['input']!r} is not one of {first['ctx']['expected']}"
        return await refuse(request, 400, f"{where}: {words}", where.partition(".")[0])

    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: HTTPException) -> Response:
        path, words = request.url.path, error.detail
        if error.status_code == 405 and error.headers:
            words = f"{path} accepts only {error.headers['Allow']}"
        elif error.status_code == 404 and path.startswith("/api/"):
            words = f"there is no {path}: /openapi.json says what there is"
        return await refuse(request, error.status_code, words, headers=error.headers)

    @app.exception_handler(ClientDisconnect)
    def gone(_: Request, __: Exception) -> Response:
        return problem(400, "the request ended before all of it was sent")

    @app.exception_handler(Exception)
    def broken(_: Request, __: Exception) -> Response:
        return problem(500, "internal error: see the server's log")
