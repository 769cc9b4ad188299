"""The application: what every request and every answer goes through, and the routes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ... import Database, __version__
from . import api, pages
from .cached import keep_answers
from .held import Held
from .limits import limit_body, limit_time
from .problem import handle_problems, problem
from .work import Workers

#: Nothing from elsewhere, and no script or style in a page itself.
_POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HEADERS = [(name.lower().encode(), value.encode()) for name, value in _POLICY.items()]
_STATIC = Path(__file__).parent / "static"
LOCAL = ("localhost", "127.0.0.1", "[::1]")


def create_app(database: Database, *, token: str | None = None, names: Collection[str] = LOCAL) -> FastAPI:
    """The application on an open database.

    Args:
        database: what it answers from.
        token: what a capture must be sent with. Without one nothing can be written.
        names: the hosts that it may be asked as, besides the address that a request came in at.
    """
    app = FastAPI(
        title="Lanemap",
        version=__version__,
        summary="Which lane, register and slot of a tensor-core instruction holds which matrix element.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.database = database
    app.state.token = token
    app.state.held = Held(database.reader)
    app.state.surveyed = pages.CurrentSurvey(database)
    place = database.location
    app.state.workers = Workers(replace(place, file=place.file.absolute()) if place.file else place)
    handle_problems(app)
    app.include_router(api.router)
    app.mount("/static", _Static(directory=_STATIC), name="static")
    # The last one: what has no other address may be an instruction.
    app.include_router(pages.router)
    app.add_middleware(keep_answers, held=app.state.held)
    app.add_middleware(limit_body)
    app.add_middleware(limit_time)
    app.add_middleware(_own_host, names=frozenset(names))
    app.add_middleware(_secure)
    return app


def static_address(name: str) -> str:
    """The address of a static file, with its digest, so that a browser may keep what it loaded for ever."""
    return f"/static/{name}?v={sha256((_STATIC / name).read_bytes()).hexdigest()[:16]}"


class _Static(StaticFiles):
    """Static files, which may be kept where their digest is in the address."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        kept = response.status_code == 200 and b"v=" in scope["query_string"]
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if kept else "no-cache"
        return response


def _secure(app: ASGIApp) -> ASGIApp:
    """Every answer with the headers that tell a browser what it must not do."""

    async def secured(scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Another message, because this one may be kept.
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        await app(scope, receive, with_headers)

    return secured


def _own_host(app: ASGIApp, names: frozenset[str]) -> ASGIApp:
    """Refuse requests to another host: a page elsewhere may have its name lead here (DNS rebinding)."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = dict(scope["headers"]).get(b"host", b"").decode("latin-1").lower()
            name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
            own = (scope.get("server") or ("",))[0]
            if name not in names and name.strip("[]") != own:
                await problem(421, "that is not a host that this server answers for")(scope, receive, send)
                return
        await app(scope, receive, send)

    return checked
