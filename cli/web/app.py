"""The application: the routes, and what every request and every answer goes through.

Refusals are one sentence each, the same as on the command line, as problem+json (RFC 9457).
"""

import json
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from http import HTTPStatus
from logging import getLogger
from math import inf

from anyio import CancelScope, current_time
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ... import Database, LanemapError, UnavailableError, __version__, program_digest
from ...db.text import masked, shortened
from . import api, pages, work
from .render import STATIC, environment
from .work import DIGEST, MADE, State, Workers

#: Nothing from elsewhere, and no script or style in a page itself.
_POLICY = Headers(
    {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
).raw
#: How much a request may send, and where it may be a file.
LARGEST, LARGEST_FILE, TAKES_FILE = 1 << 20, 64 << 20, {"/api/captures", "/api/diff", "/compare"}
#: A body has so many seconds from when it is first read, and one more for so many bytes.
BODY, RATE = 10, 1 << 16
LOCAL = ("localhost", "127.0.0.1", "[::1]")


def create_app(
    database: Database, *, token: str | None = None, names: Collection[str] = LOCAL, without_sql: str | None = None
) -> FastAPI:
    """The application on an open database.

    Args:
        database: what it answers from.
        token: what a capture must be sent with. Without one nothing can be written.
        names: the hosts that it may be asked as, besides the address that a request came in at.
        without_sql: why it takes no queries in SQL, if it takes none.
    """
    app = FastAPI(
        title="Lanemap",
        version=__version__,
        summary="Which lane, register and slot of a tensor-core instruction holds which matrix element.",
        docs_url=None,
        redoc_url=None,
    )
    environment()  # a later version may take the place of the files
    app.state.token = token
    app.state.lanemap = State(database)
    place = database.location
    app.state.workers = Workers(replace(place, file=place.file.absolute()) if place.file else place, without_sql)
    handle_errors(app, pages.refused)
    app.include_router(api.router)
    app.mount("/static", _Static(directory=STATIC), name="static")
    # The last one: what has no other address may be an instruction.
    app.include_router(pages.router)
    app.add_middleware(keep_answers, state=app.state.lanemap)
    app.state.requests = {}
    app.add_middleware(Guard, names=frozenset(names), requests=app.state.requests)
    return app


class _Static(StaticFiles):
    """Static files, which may be kept where their digest is in the address."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        versioned = response.status_code == 200 and b"v=" in scope["query_string"]
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if versioned else "no-cache"
        return response


class Guard:
    """What holds of every request, and what every answer forbids a browser to do.

    Requests to another host are refused: a page elsewhere may have its name lead here (DNS rebinding). So is a body
    that is too large, which is counted as it comes and before where its length is said, or too slow. A request that
    takes too long is ended, and with it the process that works for it; an answer that has begun may be read as slowly
    as its reader likes.
    """

    def __init__(self, app: ASGIApp, names: frozenset[str], requests: dict[CancelScope, bool]) -> None:
        self.app, self.names, self.requests = app, names, requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        size, largest = 0, LARGEST_FILE if scope["path"] in TAKES_FILE else LARGEST
        comes: float | None = None

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Another message, because this one may be kept.
                message = {**message, "headers": [*message["headers"], *_POLICY]}
            await send(message)

        async def counted() -> Message:
            nonlocal size, comes
            if comes is None:  # what waits for a place is not slow
                comes = current_time() + BODY
            with CancelScope(deadline=comes) as patience:
                message = await receive()
            if patience.cancelled_caught:
                raise HTTPException(408, "the rest of the request did not come in time: send it faster")
            comes = comes + len(message["body"]) / RATE if message.get("more_body") else inf
            size += len(message.get("body", b""))
            if size > largest:
                raise HTTPException(413, too_large)
            return message

        async def begun(message: Message) -> None:
            time.deadline, self.requests[time] = inf, True
            await secured(message)

        too_large = f"the request has more than {largest >> 20} MB: send less"
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not _own_host(scope, self.names):
            await problem(421, "unknown host name: see lanemap serve --name")(scope, receive, secured)
        elif length.isdigit() and (len(length) > 18 or int(length) > largest):
            await problem(413, too_large)(scope, receive, secured)
        else:
            time = CancelScope(deadline=current_time() + work.SECONDS)
            self.requests[time] = ended = False
            try:
                with time:
                    await self.app(scope, counted, begun)
            except CancelledError:  # a thread works for it, and the server waits no longer
                ended = True
            finally:
                answered = self.requests.pop(time)
            late = f"this took longer than {work.SECONDS:g} s: ask for less"
            words = late if current_time() >= time.deadline else "the server is being stopped: send this again"
            if (ended or time.cancelled_caught) and not answered:
                await problem(503, f"{words}, or try again later", headers=LATER)(scope, receive, secured)


def _own_host(scope: Scope, names: frozenset[str]) -> bool:
    host = dict(scope["headers"]).get(b"host", b"").decode("latin-1").lower()
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name in names or name.strip("[]") == (scope.get("server") or ("",))[0]


#: How large an answer may be that is kept.
_LARGEST_ANSWER = 1 << 18


def keep_answers(app: ASGIApp, state: State) -> ASGIApp:
    """Answers have an ETag, and the ones asked for last are kept: as long as database and program stay the same.

    What GET answers follows from these two, the address and the header Accept, unless it says ``no-store``. A browser
    may keep it as long as it asks whether it still holds.
    """

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/static/"):
            await app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            # The server itself leaves out the body.
            scope = {**scope, "method": "GET"}
        request_headers, before, tag = Headers(scope=scope), None, ""
        if scope["method"] == "GET":
            with suppress(LanemapError):  # the route will find the same, and say so
                scope[DIGEST] = before = await state.digest()
                same = program_digest(), before, request_headers.get("host"), scope["path"], scope["query_string"]
                tag = sha256(repr((*same, request_headers.get("accept"))).encode()).hexdigest()[:32]
        tag_headers = {"etag": f'"{tag}"', "cache-control": "no-cache", "vary": "Accept"}
        messages: list[Message] = []
        keep = False

        async def listening(message: Message) -> None:
            nonlocal keep
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message["headers"]))
                keep = bool(tag) and message["status"] == 200 and headers.get("cache-control") != "no-store"
                headers.update(tag_headers if keep else {"cache-control": "no-store"})
                if keep:
                    del headers["last-modified"]
                message = {**message, "headers": headers.raw}
            messages.append(message)
            keep = keep and sum(len(message.get("body", b"")) for message in messages) <= _LARGEST_ANSWER
            if not keep:
                messages.clear()
            await send(message)

        if tag and tag in request_headers.get("if-none-match", ""):
            await Response(status_code=304, headers=tag_headers)(scope, receive, send)
        elif remembered := MADE.recall(tag):
            for message in remembered:
                await send(message)
        else:
            await app(scope, receive, listening)
            # What was written meanwhile may be in the answer or not.
            if keep and before == await state.digest():
                MADE.keep(tag, messages, sum(len(message.get("body", b"")) for message in messages))

    return answered


#: Tells a program to ask again after a minute.
LATER = {"Retry-After": "60"}


def problem(
    status: int, detail: str, argument: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer that says in one sentence what was wrong and what would be right, and which argument would mend it."""
    content = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": shortened(detail)}
    if argument:
        content["argument"] = argument
    return Response(json.dumps(content) + "\n", status, headers, api.PROBLEM)


def without_place(request: Request, text: str) -> str:
    """A sentence without the place of the database, which is for its owner alone."""
    location = request.app.state.lanemap.database.location
    for place in (location.file and location.file.absolute(), location):
        text = text.replace(str(place), "the database") if place else text
    return masked(text)


def handle_errors(app: FastAPI, page: Callable[[Request, int, str], Awaitable[Response]]) -> None:
    """Have the application answer every error with a problem, and who asked for a page with ``page``."""

    async def refuse(
        request: Request, status: int, words: str, argument: str | None = None, headers: Mapping[str, str] | None = None
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
        getLogger("lanemap").error("lanemap: %s", masked(str(error)))
        reason = "the server has no room for this" if isinstance(error, OSError) else "the database cannot be read"
        return problem(503, f"{reason} now: try again later", headers=LATER)

    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where, words = ".".join(map(str, first["loc"][1:] or first["loc"])), first["msg"].removeprefix("Value error, ")
        if first["type"] == "enum":
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
