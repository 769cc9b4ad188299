"""The pages: what the API answers, for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable
from functools import cache
from hashlib import sha256
from io import BytesIO
from threading import Lock
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from ... import DEFAULT_SOURCE, Database, LanemapError
from ...db import lookup
from ...db.errors import printable
from ...db.instructions import Key
from ...db.notation import NOTATIONS
from ...db.picture import FORMATS
from ...db.survey import Product, Survey, survey
from ..options import Format
from . import tasks, views
from .api import Only
from .held import Opened
from .links import Links, Page, operand_page
from .problem import invalid, without_place
from .render import describe, layouts_css, render, selection
from .search import find, near
from .work import Working

_ROWS, _SECONDS = 500, 10.0
_PICTURES = {"svg": "image/svg+xml", "png": "image/png", "pdf": "application/pdf"}
Text = Annotated[str | None, Query()]


class _PageRoute(APIRoute):
    """A route of which a refusal is a page, too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handled(request: Request) -> Response:
            if request.url.path.startswith("/api/"):
                raise HTTPException(404, f"there is no {request.url.path}: /openapi.json says what there is")
            try:
                return await handler(request)
            except LanemapError as error:
                return _refused(request, 400, str(error))
            except RequestValidationError as error:
                return _refused(request, 400, ": ".join(invalid(error)))
            except HTTPException as error:
                return _refused(request, error.status_code, error.detail)

        return handled


router = APIRouter(include_in_schema=False, route_class=_PageRoute)


class CurrentSurvey:
    """What is in a database, looked at again when somebody has written."""

    def __init__(self, database: Database) -> None:
        self._reader = database.reader
        self._lock = Lock()
        self._last: tuple[object, Survey | None] = (None, None)

    def now(self) -> Survey:
        """What there is.

        Raises:
            LanemapError: the database cannot be read.
        """
        with self._lock:
            changes, (before, found) = self._reader.changes(), self._last
            if found is None or changes != before:
                found = survey(self._reader)
                self._last = changes, found
            return found


def surveyed(request: Request) -> Survey:
    """That of the application's database."""
    made: CurrentSurvey = request.app.state.surveyed
    return made.now()


Known = Annotated[Survey, Depends(surveyed)]


def links() -> Links:
    """Addresses on the server."""
    from .app import static_address

    return Links(page=lambda page: page.address, asset=lambda name: _made(name) or cache(static_address)(name))


@cache
def _made(name: str) -> str | None:
    """The address of a style sheet that is made, not a file."""
    return f"/{name}?v={sha256(layouts_css().encode()).hexdigest()[:16]}" if name == "layouts.css" else None


def _page(name: str, facts: dict[str, Any], status: int = 200) -> Response:
    return Response(render(name, links(), facts), status, media_type="text/html")


def _refused(request: Request, status: int, words: str) -> Response:
    found = near(surveyed(request), request.url.path, links())
    title = "Not found" if status == 404 else "Not understood"
    response = _page("error", {"title": title, "words": without_place(request, words), "near": found}, status)
    response.headers["Cache-Control"] = "no-store"
    return response


@router.get("/layouts.css")
def made_style() -> Response:
    """The colours of lanes."""
    return Response(layouts_css(), media_type="text/css")


@router.get("/")
def home(known: Known) -> Response:
    """What is covered."""
    return _page("home", views.home(known, links()))


@router.get("/search")
def search(request: Request, database: Opened, known: Known, q: str = "") -> Response:
    """What a name stands for: the page where there is one, else a list. As JSON, the first few for a search box."""
    found, words = find(known, database.reader, q, links())
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse([{"name": each.name, "href": each.href} for each in found[:12]])
    if len(found) == 1 or (found and found[0].exact):
        return RedirectResponse(found[0].href, 303, headers={"Cache-Control": "no-store"})
    return _page("search", {"title": "Search", "asked": q, "found": found, "words": words})


@router.get("/check")
async def check(working: Working) -> Response:
    """The cross-check of everything."""
    report = (await working(tasks.check, "page", [])).decode()
    return _page("check", views.report("Check", report))


@router.get("/defects")
def defects(known: Known) -> Response:
    """What is wrong in documents and libraries."""
    return _page("defects", views.defects(known, links()))


@router.get("/sources")
def sources(known: Known) -> Response:
    """Where layouts come from."""
    return _page("sources", views.sources(known))


@router.get("/api")
def api(request: Request) -> Response:
    """What programs can ask."""
    return _page("api", views.api(request.app.openapi()))


@router.get("/fleet")
def fleet(database: Opened, known: Known) -> Response:
    """Forms against cards and drivers, and where captures differ."""
    return _page("fleet", views.fleet(database.fleet(), known, links()))


@router.get("/compare")
async def compare(
    known: Known,
    working: Working,
    only: Only,
    left: Text = None,
    right: Text = None,
) -> Response:
    """Two sources, or a dropped file and a source."""
    report, refused = "", ""
    if left and right:
        try:
            report = (await working(tasks.diff, "page", left, right, only)).decode()
        except LanemapError as error:
            refused = str(error)
    chosen = {"left": left, "right": right or DEFAULT_SOURCE, "names": list(known.sources), "which": only}
    facts = views.report("Compare", report) | chosen | {"refused": refused}
    return _page("compare", facts, 400 if refused else 200)


@router.post("/compare")
async def compare_file(request: Request, working: Working, against: str = DEFAULT_SOURCE) -> Response:
    """The report on a file, which is the body, as a part of a page. The file is not kept."""
    try:
        async with working.received(request) as file:
            report = await working(tasks.diff_file, "page", file, against, {})
    except LanemapError as error:
        return Response(without_place(request, str(error)), 400, media_type="text/plain")
    except HTTPException as error:
        return Response(error.detail, error.status_code, media_type="text/plain")
    return Response(report, media_type="text/html")


@router.get("/sql")
async def sql(working: Working, query: str = "") -> Response:
    """The result of one SELECT."""
    rows, refused = None, ""
    if query.strip():
        try:
            rows = json.loads(await working(tasks.sql, Format.JSON, query, _SECONDS, _ROWS))
        except LanemapError as error:
            refused = str(error)
    facts = views.sql(query, rows, refused, links()) | {"limit": _ROWS, "seconds": _SECONDS}
    return _page("sql", facts, 400 if refused else 200)


def named(
    database: Opened,
    known: Known,
    instruction: str,
    shape: str,
    type: str,  # noqa: A002 - PTX's word
    role: str,
    major: Text = None,
    selector: int | None = None,
    qualifiers: Text = None,
    source: Text = None,
) -> tuple[Key, str | None]:
    """The fragment that an address names, the first of an operand where it does not say which, and the source.

    Raises:
        HTTPException: there is none.
    """
    names, apart = (instruction, shape, type, role), {"major": major, "selector": selector, "qualifiers": qualifiers}
    of_operand = known.operands.get(Key(*names), ())
    alike = (key for key in of_operand if all(value in (None, getattr(key, each)) for each, value in apart.items()))
    if (key := next(alike, None)) is None:
        raise HTTPException(404, _why(database, names, **apart))
    if source is None:
        return key, None
    there = {each.lower(): each for each in known.fragments[key]}
    if source.lower() not in there:
        raise HTTPException(404, f"{source} has no {key}: there is {', '.join(there.values())}")
    return key, there[source.lower()]


Named = Annotated[tuple[Key, str | None], Depends(named)]


@router.get("/picture/{instruction}/{shape}/{type}/{role}.{form}")
def picture(known: Known, named: Named, form: str) -> Response:
    """The picture of an operand as a file."""
    if form not in FORMATS:
        raise HTTPException(404, f"no picture format {form!r}: choose from {', '.join(FORMATS)}")
    stream = BytesIO()
    known.shown(*named).draw().write(form, stream)
    return Response(stream.getvalue(), media_type=_PICTURES[form])


@router.get("/{instruction}/{shape}/{type}")
def of_instruction(
    database: Opened,
    known: Known,
    instruction: str,
    shape: str,
    type: str,  # noqa: A002 - PTX's word
    accumulator: Text = None,
    lane: int | None = None,
) -> Response:
    """A, B and D where they meet."""
    product = Product(instruction, shape, type)
    if product not in known.products:
        raise HTTPException(404, _why(database, product))
    return _page("instruction", views.instruction(known, product, links(), accumulator=accumulator, lane=lane))


@router.get("/{instruction}/{shape}/{type}/{role}")
def of_operand(request: Request, database: Opened, known: Known, named: Named, lane: int | None = None) -> Response:
    """Matrix and register file of an operand, and all that is known of it."""
    key, source = named
    facts = views.operand(known, database, key, links(), source=source, lane=lane)
    here = operand_page(known, key, source)
    more = {
        "address": str(request.url),
        "preview": f"{request.base_url}{_picture(here, 'png')[1:]}" if facts["matrices"] else "",
        "description": describe(facts["fragment"]),
        "downloads": list(_downloads(known, key, facts["fragment"].source)),
        "picture": _picture(here, "svg"),
        "selection": selection(key, source),
    }
    return _page("operand", facts | more)


@router.get("/{path:path}")
def nothing(database: Opened, path: str) -> Response:
    """There is no such page."""
    raise HTTPException(404, _why(database, path.split("/")))


def _picture(of: Page, form: str) -> str:
    """The address of the picture on a page."""
    return f"/picture{of._replace(path=(*of.path[:-1], f'{of.path[-1]}.{form}')).address}"


def _why(database: Database, names: Iterable[str], **more: Any) -> str:
    """Why there is no such page, in the words of a look-up."""
    instruction, shape, type_, role = (*names, None, None, None, None)[:4]
    try:
        lookup.fragments(database.reader, lookup.Query(shape, type_, role, instruction, **more))
    except LanemapError as error:
        return str(error)
    return f"there is no page {printable('/'.join(filter(None, (instruction, shape, type_, role))))}"


def _downloads(known: Survey, key: Key, source: str) -> Iterable[tuple[str, str]]:
    asked = {name: value for name, value in key._asdict().items() if value is not None} | {"source": source}
    for name in ("csv", "json", "parquet", "arrow", *NOTATIONS):
        form = "jsonl" if name == "json" else name
        yield form, f"/api/export/{form}?{urlencode(asked)}"
    yield from ((f"{form} picture", _picture(operand_page(known, key, source), form)) for form in FORMATS)
