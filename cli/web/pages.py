"""The pages: what the API answers, for people. One table says which there are, on the server and in a site."""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from ... import DEFAULT_SOURCE, Survey
from ...db.text import shortened
from . import guide, views, work
from .api import Compared
from .api import router as api
from .links import Links, Page, look_up, meant, narrowed, near, page, page_of, suggested
from .render import layouts_css, render, server_links
from .views import Facts, NamedOperand, Tiled, not_there
from .work import Opened, Surveyed, Working

#: The formats of pictures, which are methods of ``Picture``, and what they are called in HTTP.
_PICTURES = {"svg": "image/svg+xml", "png": "image/png", "pdf": "application/pdf"}
_Every = Callable[[Survey], Iterable[tuple[Page, Mapping[str, Any]]]]


class PageKind(NamedTuple):
    """A page, or all pages of a kind.

    ``name`` is that of its template, ``path`` its address, ``facts`` makes what it says, of a Context and of what the
    address names. ``navigation`` is what the head of every page calls it. ``every`` are the pages of a site, with what
    each is asked for; without it the page is on a server only.
    """

    name: str
    path: str
    facts: Callable[..., Facts | Coroutine[Any, Any, Facts]]
    navigation: str | None = None
    every: _Every | None = None


def _once(*path: str) -> _Every:
    return lambda _: [(page(*path), {})]


def _products(survey: Survey) -> Iterator[tuple[Page, Mapping[str, Any]]]:
    for product in survey.products:
        for accumulator in (None, *product.accumulators):
            yield page_of(survey, product, accumulator=accumulator), {"named": product, "accumulator": accumulator}


def _operands(survey: Survey) -> Iterator[tuple[Page, Mapping[str, Any]]]:
    """Those of one layout follow each other: what is made of it is found again."""
    every = [(key, source) for key, there in survey.fragments.items() for source in (None, *there)]
    for key, source in sorted(every, key=lambda named: survey.shown(*named).digest or ""):
        yield page_of(survey, key, source=source), {"named": (key, source), "tiles": {"tile": None}}


PAGES = (
    PageKind("home", "/", views.home, every=_once()),
    PageKind("chain", "/chain", views.chains, "Chain"),
    PageKind("descriptor", "/descriptor", views.descriptor, "Descriptor"),
    PageKind("trace", "/trace", views.trace, "Trace"),
    PageKind("compare", "/compare", views.compare, "Compare"),
    PageKind("check", "/check", views.check, "Check", _once("check")),
    PageKind("defects", "/defects", views.defects, "Defects", _once("defects")),
    PageKind("sources", "/sources", views.sources, "Sources", _once("sources")),
    PageKind("guide", "/guide", views.guide_index, "Guide", _once("guide")),
    PageKind(
        "guide",
        "/guide/{name}",
        views.guide_page,
        every=lambda _: [(page("guide", name), {"name": name}) for name in guide.guide()],
    ),
    PageKind("fleet", "/fleet", views.fleet, "Fleet"),
    PageKind("sql", "/sql", views.sql, "SQL"),
    PageKind("api", "/api", views.api),
    PageKind("instruction", "/{instruction}/{shape}/{type}", views.instruction, every=_products),
    PageKind("operand", "/{instruction}/{shape}/{type}/{role}", views.operand, every=_operands),
)


def text(name: str, links: Links, facts: Facts) -> str:
    """A page of a kind, or another one of a template."""
    navigation = [(page_kind.path[1:], page_kind.navigation) for page_kind in PAGES if page_kind.navigation]
    return render(name, links, {"navigation": navigation} | facts)


def _page(name: str, survey: Survey, facts: Facts, status: int = 200) -> Response:
    status = 400 if facts.get("refused") else status
    facts = facts | {name: shortened(facts[name]) for name in ("refused", "words") if name in facts}
    return Response(text(name, server_links(survey), facts), status, media_type="text/html")


async def refused(request: Request, status: int, words: str) -> Response:
    """The page that says why there is none, and what there is; or the one that an address means."""
    survey, path, query = await request.app.state.lanemap.survey(), request.url.path, request.url.query
    if status == 404 and (target := meant(survey, path)) and target.address.partition("?")[0] != path:
        address = target.address + ("&" if target.parameters else "?") * bool(query) + query
        return RedirectResponse(address, 307)
    guesses = suggested(path.strip("/").replace("/", " "), words)
    facts = {"near": near(survey, path), "guesses": guesses, "words": words}
    return _page("error", survey, {"title": "Not found" if status == 404 else "Not understood", **facts}, status)


router = APIRouter(include_in_schema=False)


def _route(kind: PageKind) -> Callable[..., Any]:
    """What answers for a kind of page. Its parameters are those of what makes the facts."""

    async def answer(at: views.Context, **parameters: Any) -> Response:
        if inspect.iscoroutinefunction(kind.facts):
            return _page(kind.name, at.survey, await kind.facts(at, **parameters))
        return await run_sync(lambda: _page(kind.name, at.survey, kind.facts(at, **parameters)))  # type: ignore[arg-type]

    vars(answer).update(__signature__=inspect.signature(kind.facts, eval_str=True))
    return answer


for _kind in PAGES:
    router.add_api_route(_kind.path, _route(_kind), response_class=Response)


@router.get("/layouts.css")
def made_style() -> Response:
    """The colours of lanes."""
    return Response(layouts_css(), media_type="text/css")


#: How many of what is found a page shows.
_MOST = 60


@router.get("/search")
def search(request: Request, database: Opened, survey: Surveyed, q: str = "") -> Response:
    """What a name stands for: the page where there is one, else a list. As JSON, the first few for a search box."""
    matching, exact, words = look_up(survey, database, q)
    read = guide.found(q)
    if "application/json" in request.headers.get("accept", ""):
        hits = [*(matching[:12] or filter(None, [exact])), *(page("guide", name) for name in read)]
        return JSONResponse([{"name": hit.name, "href": hit.address} for hit in hits[:12]])
    if exact:
        return RedirectResponse(exact.address, 303)
    listed, facets = narrowed(matching, q, request.query_params)
    facts = {"found": listed, "most": _MOST, "facets": facets, "words": words, "guide": read}
    return _page("search", survey, {"title": "Search", "asked": q, "guesses": suggested(q, words), **facts})


@router.post("/trace")
async def run_kernel(at: views.At, request: Request) -> Response:
    """The report on a kernel, which is in the form that was sent."""
    try:
        sent = dict(parse_qsl((await request.body()).decode("latin-1"), max_num_fields=20))
    except ValueError:
        raise HTTPException(400, "this is not the form of the page: POST /api/trace takes JSON") from None
    return _page("trace", at.survey, await views.run(at, sent))


@router.post("/compare")
async def compare_file(working: Working, only: Compared, against: str = DEFAULT_SOURCE) -> Response:
    """The report on a file, which is the body, as a part of a page. The file is not kept."""
    async with working.received() as file:
        return Response(await working(work.diff_file, "page", file, against, only), media_type="text/html")


@router.get("/picture/{instruction}/{shape}/{type}/{role}.{form}")
def picture(survey: Surveyed, named: NamedOperand, form: str, tiles: Tiled) -> Response:
    """The picture of an operand as a file."""
    if form not in _PICTURES:
        raise HTTPException(404, f"no picture format {form!r}: choose from {', '.join(_PICTURES)}")
    drawn = survey.shown(*named).tiled(**tiles).draw()
    return Response(getattr(drawn, form)(), media_type=_PICTURES[form])


@router.get("/{path:path}")
def nothing(request: Request, database: Opened, path: str) -> Response:
    """There is no such page, or what is there accepts no GET."""
    for route in api.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is Match.PARTIAL:
            raise HTTPException(405, headers={"Allow": ", ".join(route.methods or ())})
    raise HTTPException(404, not_there(database, *path.split("/")))
