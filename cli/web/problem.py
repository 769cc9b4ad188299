"""Refusals: one sentence each, the same as on the command line, as problem+json (RFC 9457)."""

from __future__ import annotations

import json
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ... import LanemapError
from ...db.errors import masked


def problem(status: int, detail: str, **more: str) -> Response:
    """An answer that says in one sentence what was wrong and what would be right."""
    headers = {name: value for name, value in more.items() if name in _HEADERS}
    said = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    said |= {name: value for name, value in more.items() if name not in _HEADERS}
    return Response(
        json.dumps(said) + "\n",
        status,
        {"Cache-Control": "no-store", **{name.replace("_", "-"): value for name, value in headers.items()}},
        "application/problem+json",
    )


_HEADERS = ("WWW_Authenticate", "Retry_After", "Allow")


def handle_problems(app: FastAPI) -> None:
    """Have the application answer every error with a problem."""
    app.add_exception_handler(LanemapError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _failed)
    app.add_exception_handler(Exception, _broken)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, LanemapError)
    more = {"argument": error.argument} if error.argument else {}
    return problem(HTTPStatus.BAD_REQUEST, without_place(request, str(error)), **more)


def without_place(request: Request, text: str) -> str:
    """A sentence that does not say where the database is, which is nobody's business but its owner's."""
    return masked(text.replace(str(request.app.state.database.location), "the database"))


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name = str(first["loc"][-1])
    detail = f"{name}: {first['msg'].removeprefix('Value error, ')}"
    return problem(HTTPStatus.BAD_REQUEST, detail, argument=name)


def _failed(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = {name.replace("-", "_"): value for name, value in (error.headers or {}).items()}
    return problem(error.status_code, error.detail, **headers)


def _broken(_: Request, __: Exception) -> Response:
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "Lanemap failed at this: its log says why")
