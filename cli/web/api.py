"""The API: what ``Database`` answers. The parameters of a route are the arguments of the method of its name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hmac import compare_digest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException

from ... import DEFAULT_SOURCE
from ...db import lookup
from ...db.fragment import Fragment
from ...db.names import Which
from ...db.reader import Rows
from ..decode import word
from ..numbers import integer
from ..options import Format
from ..output import encoded
from . import tasks
from .formats import REPORT, ROWS, ExportForm, ReportForm, ReportFormat, RowsFormat, described
from .held import Held, Opened
from .problem import RESPONSES
from .work import Working

#: The limits of a query, which are also the defaults.
_SECONDS, _ROWS = 30.0, 100_000


async def _known(request: Request) -> None:
    """Refuse a parameter that the route does not have: a name that is misspelt would leave out a condition."""
    dependant = request.scope["route"].dependant
    known = {each.alias: each for of in (dependant, *dependant.dependencies) for each in of.query_params}
    for name in request.query_params:
        if name not in known:
            choice = f": choose from {', '.join(known)}" if known else ""
            raise HTTPException(400, f"there is no parameter {name}{choice}")
        if len(request.query_params.getlist(name)) > 1 and name != "against":
            raise HTTPException(400, f"{name} is given twice: give it once")


def _integer(text: object) -> object:
    try:
        return integer(str(text))
    except typer.BadParameter as error:
        raise ValueError(str(error)) from None


router = APIRouter(prefix="/api", dependencies=[Depends(_known)], responses=RESPONSES)

Text = Annotated[str | None, Query(description="Only operands that have it.")]
_Integer = Annotated[int, BeforeValidator(_integer)]
Row = Annotated[_Integer | None, Query(description="Of the operand's own matrix, from 0.")]
Lane = Annotated[_Integer | None, Query(description="The thread in its group, from 0.")]
Reg = Annotated[_Integer | None, Query(description="Index in the operand's registers, from 0.")]
Slot = Annotated[_Integer | None, Query(description="Element in the register, low bits first, from 0.")]
Computation = Annotated[_Integer | None, Query(description="Which of several products or matrices, from 1.")]
Selector = Annotated[_Integer | None, Query(description="The sparsity selector, for E.")]


async def operand(
    request: Request,
    shape: Annotated[str, Query(description="As in m16n8k16, or an instruction by one name, such as a PTX mnemonic.")],
    type: Annotated[str | None, Query(description="The operand's own, as in bf16.")] = None,  # noqa: A002 - PTX's word
    role: Annotated[str | None, Query(description="A, B, C, D, E, SFA or SFB; r or p of a matrix move.")] = None,
    instruction: Annotated[str | None, Query(description="As in mma.sp, where several have it.")] = None,
    major: Annotated[str | None, Query(description="row or col, where there are both.")] = None,
    selector: Selector = None,
    qualifiers: Annotated[str | None, Query(description="What else the layout depends on, as in x4.trans.")] = None,
    source: Annotated[str, Query(description="Where the layout comes from, or all.")] = DEFAULT_SOURCE,
) -> Sequence[Fragment]:
    """The fragments with elements of the operand that a request names."""
    which = Which(instruction=instruction, major=major, selector=selector, qualifiers=qualifiers, source=source)
    held: Held = request.app.state.held
    return await held.operand(request, shape, type, role, which)


Operand = Annotated[Sequence[Fragment], Depends(operand)]


@router.get("/find", responses=described(ROWS))
async def find(
    operand: Operand,
    form: RowsFormat,
    row: Row = None,
    col: Row = None,
    lane: Lane = None,
    reg: Reg = None,
    slot: Slot = None,
    computation: Computation = None,
) -> Response:
    """The elements at a cell, in a place, or at any part of these."""
    where = {"row": row, "col": col, "lane": lane, "reg": reg, "slot": slot, "computation": computation}
    if form is Format.JSON and any(value is not None for value in where.values()):
        # A few rows cost less than going to a thread and back.
        return _rows(lookup.rows(operand, **where), form)
    return await run_sync(lambda: _rows(lookup.rows(operand, **where), form))


@router.get("/layout", responses=described(ROWS))
async def layout(operand: Operand, form: RowsFormat) -> Response:
    """All elements of one operand, by lane, register and slot."""
    return await run_sync(lambda: _rows(lookup.rows(operand), form))


@router.get("/fragments", responses=described(ROWS))
def fragments(
    database: Opened, form: RowsFormat, source: Annotated[str, Query(description="Or all.")] = DEFAULT_SOURCE
) -> Response:
    """What a source says of each fragment."""
    return _rows(lookup.listed(database.reader, lookup.Query(source=source)), form)


@router.get("/sources", responses=described(ROWS))
def sources(database: Opened, form: RowsFormat) -> Response:
    """Every source: name, kind, title, provenance, and how many fragments and findings it has."""
    return _rows(lookup.sources(database.reader), form)


@router.get("/fleet", responses=described(ROWS))
def fleet(database: Opened, form: RowsFormat) -> Response:
    """What became of each form in each capture, with its card and driver."""
    return _rows(database.fleet().rows(), form)


@router.get("/sql", responses=described(ROWS))
async def sql(
    working: Working,
    form: RowsFormat,
    query: Annotated[str, Query(description="One SELECT, usually on the view layout.")],
    seconds: Annotated[float, Query(gt=0, le=_SECONDS)] = _SECONDS,
    rows: Annotated[int, Query(ge=1, le=_ROWS)] = _ROWS,
) -> Response:
    """The result of one SELECT. It only reads."""
    made = await working(tasks.sql, form, query, seconds, rows)
    # A query may ask for the time.
    return Response(made, media_type=ROWS[form], headers={"Cache-Control": "no-store"})


@router.get("/chain", responses=described(ROWS))
async def chain(
    working: Working,
    form: RowsFormat,
    first: Annotated[str, Query(description="The D, as in m16n8k16 f32 D.")],
    second: Annotated[str, Query(description="The A or B, as in m16n8k16 f16 A.")],
    transposed: Annotated[bool, Query(description="Take D transposed.")] = False,
    relabel: Annotated[bool, Query(description="Renumber K where that avoids movement between lanes.")] = False,
) -> Response:
    """How the D of one instruction becomes the A or B of the next."""
    options = {"transposed": transposed, "relabel": relabel}
    return Response(await working(tasks.chain, form, first, second, options), media_type=ROWS[form])


@router.get("/check", responses=described(REPORT))
async def check(
    working: Working,
    form: ReportFormat,
    against: Annotated[list[str] | None, Query(description="Compare only with these sources.")] = None,
) -> Response:
    """The structure of every source, and what documents, imports and captures say of each other."""
    return _report(await working(tasks.check, form, against or []), form)


async def only(
    shape: Text = None,
    type: Text = None,  # noqa: A002 - PTX's word
    role: Text = None,
    instruction: Text = None,
) -> dict[str, str | None]:
    """The operands to compare."""
    # A form also sends the fields that are empty.
    return {"shape": shape or None, "type": type or None, "role": role or None, "instruction": instruction or None}


Only = Annotated[dict[str, str | None], Depends(only)]


@router.get("/diff", responses=described(REPORT))
async def diff(
    working: Working,
    form: ReportFormat,
    only: Only,
    left: Annotated[str, Query(description="A source.")],
    right: Annotated[str, Query(description="The other one.")],
) -> Response:
    """Two sources compared, fragment by fragment."""
    return _report(await working(tasks.diff, form, left, right, only), form)


_BODY = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}}


@router.post("/diff", responses=described(REPORT), openapi_extra=_BODY)
async def diff_file(
    request: Request,
    working: Working,
    form: ReportFormat,
    only: Only,
    against: Annotated[str, Query(description="A source.")] = DEFAULT_SOURCE,
) -> Response:
    """A file compared with a source: a capture, or a CSV, Parquet or Arrow table, as the body. It is not kept."""
    async with working.received(request) as file:
        return _report(await working(tasks.diff_file, form, file, against, only), form)


class DecodeRequest(BaseModel):
    """The arguments of ``Database.decode``."""

    model_config = ConfigDict(extra="forbid")

    shape: str
    type: str
    words: list[Annotated[int, BeforeValidator(lambda given: word(str(given)))]]
    selector: int | None = None
    source: str | None = None


@router.post("/decode", responses=described(ROWS))
def decode(database: Opened, form: RowsFormat, metadata: DecodeRequest) -> Response:
    """The columns of a sparse A that metadata chooses. A word may be text, as in 0x44444444."""
    return _rows(database.decode(**metadata.model_dump()).columns_by_slot(), form)


@router.get("/export/{format}", responses={200: {"description": "A file"}})
async def export(
    working: Working,
    format: ExportForm,  # noqa: A002
    shape: Text = None,
    type: Text = None,  # noqa: A002 - PTX's word
    role: Text = None,
    instruction: Text = None,
    major: Text = None,
    selector: Selector = None,
    source: Text = None,
    qualifiers: Text = None,
) -> Response:
    """Layouts as a table, or in another toolchain's notation. Lanemap-Refused says what that cannot express."""
    query = lookup.Query(shape, type, role, instruction, major, selector, source, qualifiers)
    folder = TemporaryDirectory(prefix="lanemap-")
    try:
        file = Path(folder.name, "export")
        refused = await working(tasks.export, format, query, file)
    except BaseException:
        folder.cleanup()
        raise
    rows = format.value in ROWS
    media, name = (ROWS[Format(format.value)], f"lanemap.{format}") if rows else ("text/plain", None)
    said = "; ".join(refused)[:4000].encode("ascii", "replace").decode()
    headers = {"Lanemap-Refused": said} if said else None
    return FileResponse(file, 200, headers, media, BackgroundTask(folder.cleanup), name)


@router.post("/captures", status_code=201, openapi_extra=_BODY)
async def captures(request: Request, working: Working) -> Response:
    """Store a capture, the file as the body, as a source of its own. It needs the server's token."""
    _authorize(request)
    async with working.received(request) as file:
        name, new = await working(tasks.store, file)
    return Response(json.dumps({"source": name}) + "\n", 201 if new else 200, media_type="application/json")


def _authorize(request: Request) -> None:
    """Refuse a request without the token.

    Raises:
        HTTPException: the token is missing or wrong, or the server takes no captures.
    """
    token: str | None = request.app.state.token
    if token is None:
        raise HTTPException(403, "nothing can be written here: lanemap serve was started without --token-file")
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not compare_digest(given.strip().encode(), token.encode()):
        words = "send the token of this server, as in Authorization: Bearer TOKEN"
        raise HTTPException(401, words, {"WWW-Authenticate": "Bearer"})


def _rows(rows: Rows, form: Format) -> Response:
    return Response(encoded(rows, form), media_type=ROWS[form])


def _report(made: bytes, form: ReportForm) -> Response:
    """A report. That in HTML has its own style, which no page of this server may have: it is to be saved."""
    headers: Mapping[str, Any] = {"Content-Disposition": 'attachment; filename="lanemap.html"'}
    return Response(made, media_type=REPORT[form], headers=headers if form == "html" else None)
