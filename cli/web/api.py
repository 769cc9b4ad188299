"""The API: what ``Database`` answers. The parameters of a route are the arguments of the method of its name."""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from enum import StrEnum
from hmac import compare_digest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypeVar, Unpack

import typer
from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi import Path as InPath
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException

from ... import DEFAULT_SOURCE, Chaining, Fragments, Place, Rows, Tiles, Which
from ... import Query as OperandQuery
from ..app import encoded
from ..export import FileFormat
from ..options import ChainFormat, Format, described, integer, plain
from ..options import ReportFormat as Report
from . import work
from .work import Current, Opened, Working

Form = TypeVar("Form", bound=StrEnum)
T = TypeVar("T")

ReportForm = StrEnum("ReportForm", {name.upper(): name for name in map(str, (*Report, *Format))})  # type: ignore[misc]
ExportForm = StrEnum("ExportForm", {name.upper(): name for name in FileFormat if name != "dataset"})  # type: ignore[misc]

#: The formats of answers, and what they are called in HTTP. The first one is for who accepts anything.
_MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
    "table": "text/plain",
    "markdown": "text/markdown",
    "html": "text/html",
    "junit": "application/xml",
    "github": "text/plain",
    "cpp": "text/x-c++src",
}

_WHICH = "Default: as the header Accept says, else JSON."


def _asked(kind: type[Form]) -> Callable[..., Awaitable[Form]]:
    """What finds the format that a request asks for."""
    media = {kind(name): media for name, media in _MEDIA_TYPES.items() if name in [*kind]}

    async def asked(
        format: Annotated[kind | None, Query(description=_WHICH)] = None,  # type: ignore[valid-type]
        accept: Annotated[str, Header(include_in_schema=False)] = "*/*",
    ) -> Form:
        return format or _accepted(media, accept)

    return asked


RowsFormat = Annotated[Format, Depends(_asked(Format))]
AnyChainFormat = Annotated[ChainFormat, Depends(_asked(ChainFormat))]
TraceFormat = Annotated[Report, Depends(_asked(Report))]
ReportFormat = Annotated[ReportForm, Depends(_asked(ReportForm))]


def _in_formats(kind: type[StrEnum]) -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI description says of an answer in these formats."""
    content: dict[str, Any] = {media: {} for name, media in _MEDIA_TYPES.items() if name in [*kind]}
    return {200: {"description": "The answer", "content": content}}


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


#: What refusals are called in HTTP (RFC 9457), and what the OpenAPI description says of them.
PROBLEM = "application/problem+json"
_TEXT = {"type": "string"}
_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {"type": _TEXT, "title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT, "argument": _TEXT},
}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "What was wrong, and what would be right", "content": {PROBLEM: {"schema": _SCHEMA}}},
    "5XX": {"description": "What the server could not do", "content": {PROBLEM: {"schema": _SCHEMA}}},
}

Route = TypeVar("Route", bound=Callable[..., Any])
#: How long a query may take, and how many rows it may give.
_SECONDS, _ROWS = work.SECONDS / 2, 100_000


def explained(route: Route) -> Route:
    """A route or dependency whose parameters say in the description what they say on the command line."""

    def parameter(_: str, kind: Any, words: str) -> Any:
        return Annotated[kind, *[BeforeValidator(_integer)] * (plain(kind) is int), Query(description=words)]

    described(route, parameter)
    return route


async def _known(request: Request) -> None:
    """Refuse a parameter that the route does not have: a name that is misspelt would leave out a condition."""
    dependant = request.scope["route"].dependant
    allowed = {name.alias: name for of in (dependant, *dependant.dependencies) for name in of.query_params}
    for name in request.query_params:
        if name not in allowed:
            choice = f": choose from {', '.join(allowed)}" if allowed else ""
            raise HTTPException(400, f"there is no parameter {name}{choice}")
        if len(request.query_params.getlist(name)) > 1 and name != "against":
            raise HTTPException(400, f"{name} is given twice: give it once")


def _integer(value: object) -> object:
    try:
        return None if value is None else integer(str(value))
    except typer.BadParameter as error:
        raise ValueError(str(error)) from None


router = APIRouter(prefix="/api", dependencies=[Depends(_known)], responses=_REFUSALS)


@explained
async def operand(
    request: Request,
    state: Current,
    shape: Annotated[str, "As in m16n8k16, or an instruction by one name, such as a PTX mnemonic."],
    type: str | None = None,
    role: str | None = None,
    **which: Unpack[Which],
) -> Fragments:
    """The fragments with elements of the operand that a request names."""
    return await state.operand(request, OperandQuery.of(shape, type, role, **which))


Operand = Annotated[Fragments, Depends(operand)]


@router.get("/find", responses=_in_formats(Format))
@explained
async def find(operand: Operand, form: RowsFormat, **place: Unpack[Place]) -> Response:
    """The elements of one operand: of a cell, of a place, of any part of these, or all."""
    if form is Format.JSON and any(value is not None for value in place.values()):
        # A few rows cost less than going to a thread and back.
        return _rows(operand.rows(**place), form)
    return await run_sync(lambda: _rows(operand.rows(**place), form))


@router.get("/fragments", responses=_in_formats(Format))
@explained
def fragments(database: Opened, form: RowsFormat, source: str = DEFAULT_SOURCE) -> Response:
    """What a source says of each fragment."""
    return _rows(database.list("fragments", OperandQuery(source=source)), form)


@router.get("/sources", responses=_in_formats(Format))
def sources(database: Opened, form: RowsFormat) -> Response:
    """Every source: name, kind, title, provenance, and how many fragments and findings it has."""
    return _rows(database.list("sources"), form)


@router.get("/fleet", responses=_in_formats(Format))
def fleet(database: Opened, form: RowsFormat) -> Response:
    """What became of each form in each capture, with its card and driver."""
    return _rows(database.fleet().rows(), form)


@router.get("/sql", responses=_in_formats(Format))
async def sql(
    working: Working,
    form: RowsFormat,
    query: Annotated[str, Query(description="One SELECT, usually on the view layout.")],
    seconds: Annotated[float, Query(gt=0, le=_SECONDS)] = _SECONDS,
    rows: Annotated[int, Query(ge=1, le=_ROWS)] = _ROWS,
) -> Response:
    """The result of one SELECT. It only reads."""
    answer = await working(work.sql, form, query, seconds, rows)
    # A query may ask for the time.
    return Response(answer, media_type=_MEDIA_TYPES[form], headers={"Cache-Control": "no-store"})


@router.get("/chain", responses=_in_formats(ChainFormat))
@explained
async def chain(
    working: Working,
    form: AnyChainFormat,
    first: Annotated[str, "A D, as in m16n8k16 f32 D, or ldmatrix."],
    second: Annotated[
        str, "An A, B or C, as in m16n8k16 f16 A, or stmatrix. Without it: all that need no move between lanes."
    ] = "",
    **how: Unpack[Chaining],
) -> Response:
    """How the D of one instruction becomes the A or B of the next, what it can feed, or how ldmatrix loads it."""
    answer = await working(work.chain, form, first, second or None, **how)
    return Response(answer, media_type=_MEDIA_TYPES[form])


@router.get("/reduce", responses=_in_formats(Format))
@explained
def reduce(
    database: Opened,
    form: RowsFormat,
    shape: Annotated[str, "As in m16n8k16, or an instruction by one name, such as a PTX mnemonic."],
    type: str | None = None,
    role: str | None = None,
    along: Annotated[str, "What becomes one value: each row, or each col."] = "row",
    **which: Unpack[Which],
) -> Response:
    """Which lanes share a row or column, and how they reduce it. JSON has the values, masks and warps, too."""
    found = database.reduce(OperandQuery.of(shape, type, role, **which), along)
    if form is not Format.JSON:
        return _rows(found.rows(), form)
    record: dict[str, Any] = {**found.fragment.key._asdict(), "source": found.fragment.source, "along": found.along}
    record |= {name: getattr(found, name) for name in ("verdict", "reason", "values", "masks", "copies")}
    record |= {"warps": [{"parts": parts, "lines": lines} for parts, lines in found.warps.items()]}
    return Response(json.dumps({**record, "rows": found.rows().records()}) + "\n", media_type=_MEDIA_TYPES[form])


@router.get("/descriptor", responses=_in_formats(Format))
async def descriptor(
    working: Working,
    form: RowsFormat,
    operand: Annotated[str, Query(description="As in m64n128k16 f16 B 128B.K, cp.async.bulk.tensor b16 128B.")],
    tile: Annotated[str | None, Query(description="The tile in memory, as in n128k64. Default: the smallest.")] = None,
    decode: Annotated[str | None, Query(description="A descriptor: what it reads of the tile.")] = None,
) -> Response:
    """Which descriptor reads a tile in shared memory, or what one reads. JSON has the word and the whole text, too."""
    return Response(await working(work.descriptor, form, operand, tile, decode), media_type=_MEDIA_TYPES[form])


@router.get("/check", responses=_in_formats(ReportForm))
async def check(
    working: Working,
    form: ReportFormat,
    against: Annotated[list[str] | None, Query(description="Compare only with these sources.")] = None,
) -> Response:
    """The structure of every source, and what documents, imports and captures say of each other."""
    return await _report(working, form, work.check, against or [])


@explained
async def compared(
    _: Annotated[None, Depends(_known)], operand: str | None = None, **tiles: Unpack[Tiles]
) -> dict[str, Any]:
    """The operand to compare, and the tile that the left side claims."""
    # A form also sends the fields that are empty.
    return {name: value or None for name, value in {"operand": operand, **tiles}.items()}


Compared = Annotated[dict[str, Any], Depends(compared)]


@router.get("/diff", responses=_in_formats(ReportForm))
async def diff(
    working: Working,
    form: ReportFormat,
    only: Compared,
    left: Annotated[str, Query(description="A source.")],
    right: Annotated[str, Query(description="The other one, or best: the best evidence of each.")] = DEFAULT_SOURCE,
) -> Response:
    """Two sources compared, fragment by fragment. In JSON ``exit_code`` is what ``lanemap diff`` exits with."""
    return await _report(working, form, work.diff, left, right, only)


_BODY = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}}


@router.post("/diff", responses=_in_formats(ReportForm), openapi_extra=_BODY)
async def diff_file(
    working: Working,
    form: ReportFormat,
    only: Compared,
    against: Annotated[str, Query(description="A source, or best: the best evidence of each.")] = DEFAULT_SOURCE,
) -> Response:
    """A file compared with a source: a capture, or a CSV, Parquet or Arrow table, as the body. It is not kept."""
    async with working.received() as file:
        return await _report(working, form, work.diff_file, file, against, only)


class _Arguments(BaseModel):
    """Arguments of a method of ``Database``, by name."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        if isinstance(given, dict) and (unknown := given.keys() - cls.model_fields):
            raise ValueError(f"there is no {min(map(str, unknown))!r}: there is {', '.join(cls.model_fields)}")
        return given


class DecodeRequest(_Arguments):
    """The arguments of ``Database.decode``."""

    operand: str
    words: list[int | str]
    selector: int | None = None
    source: str | None = None


@router.post("/decode", responses=_in_formats(Format))
def decode(database: Opened, form: RowsFormat, metadata: DecodeRequest) -> Response:
    """The columns of a sparse A that metadata chooses. A word may be text, as in 0x44444444."""
    return _rows(database.decode(**metadata.model_dump()).columns_by_slot(), form)


class TraceRequest(_Arguments):
    """The arguments of ``Database.trace``."""

    kernel: str
    arguments: list[str] | dict[str, str | int | float] = []
    product: str | None = None
    block: int | list[int]
    grid: int | list[int] = 1
    shared: int | None = None
    entry: str | None = None
    source: str | None = None
    seed: int = 0


@router.post("/trace", responses=_in_formats(Report))
async def trace(working: Working, form: TraceFormat, asked: TraceRequest) -> Response:
    """A kernel on simulated threads: PTX as text. In JSON ``exit_code`` is what ``lanemap trace`` exits with."""
    if too_large := work.too_large(asked.kernel):
        raise HTTPException(413, too_large)
    report = await working(work.trace, form, **asked.model_dump())
    return Response(report, media_type=_MEDIA_TYPES[form], headers=_saved(form))


@router.get("/export/{format}", responses={200: {"description": "A file"}})
@explained
async def export(
    working: Working,
    format: Annotated[ExportForm, InPath()],
    shape: str | None = None,
    type: str | None = None,
    role: str | None = None,
    **which: Unpack[Which],
) -> Response:
    """Layouts as a table, or in another toolchain's notation. Lanemap-Refused says what that cannot express."""
    query = OperandQuery(shape, type, role, **which)
    refused, file, sent = await _written(lambda file: working(work.export, format, query, file))
    media = _MEDIA_TYPES[format] if format in [*Format] else None
    reasons = "; ".join(refused)[:4000].encode("ascii", "replace").decode()
    headers = {"Lanemap-Refused": reasons} if reasons else None
    name = media and f"lanemap.{format}"
    return FileResponse(file, 200, headers, media or "text/plain", sent, name)


@router.post("/captures", status_code=201, openapi_extra=_BODY)
async def captures(request: Request, working: Working) -> Response:
    """Store a capture, the file as the body, as a source of its own. It needs the server's token."""
    _authorize(request)
    working.trusted = True
    async with working.received() as file:
        name, new = await working(work.store, file)
    return Response(json.dumps({"source": name}) + "\n", 201 if new else 200, media_type="application/json")


def _authorize(request: Request) -> None:
    """Refuse a request without the token.

    Raises:
        HTTPException: the token is missing or wrong, or the server takes no captures.
    """
    token: str | None = request.app.state.token
    if token is None:
        raise HTTPException(403, "nothing can be written here: lanemap serve was started without --token-file")
    scheme, _, credential = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not compare_digest(credential.strip().encode(), token.encode()):
        words = "send the token of this server, as in Authorization: Bearer TOKEN"
        raise HTTPException(401, words, {"WWW-Authenticate": "Bearer"})


def _rows(rows: Rows, form: Format) -> Response:
    return Response(encoded(rows, form), media_type=_MEDIA_TYPES[form])


async def _written(write: Callable[[Path], Awaitable[T]]) -> tuple[T, Path, BackgroundTask]:
    """What ``write`` returns, the file that it has written, which may be large, and what removes it once it is sent."""
    with ExitStack() as stack:
        file = Path(stack.enter_context(TemporaryDirectory()), "answer")
        return await write(file), file, BackgroundTask(stack.pop_all().close)


async def _report(working: work.Work, form: ReportForm, function: Callable[..., str | bytes], *args: Any) -> Response:
    """What a function of ``work`` reports."""
    _, file, sent = await _written(lambda file: working(work.into, file, function, form, *args))
    return FileResponse(file, 200, _saved(form), _MEDIA_TYPES[form], sent)


def _saved(form: ReportForm | Report) -> Mapping[str, str] | None:
    """A report in HTML has its own style, which no page of this server may have: it is to be saved."""
    return {"Content-Disposition": 'attachment; filename="lanemap.html"'} if form == "html" else None
