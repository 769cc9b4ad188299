"""The API: what ``Database`` answers. The parameters of a route are those of the method of its name."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from ... import DEFAULT_SOURCE
from ...db import lookup
from ...db.names import of_one_operand
from .database import Opened
from .formats import Chosen, answer


def _known(request: Request) -> None:
    """Refuse a parameter that the route does not have: a name that is misspelt would leave out a condition."""
    known = [each.alias for each in request.scope["route"].dependant.query_params]
    known += [each.alias for more in request.scope["route"].dependant.dependencies for each in more.query_params]
    for name in request.query_params:
        if name not in known:
            raise HTTPException(400, f"there is no parameter {name}: there is {', '.join(known) or 'none'}")
        if len(request.query_params.getlist(name)) > 1:
            raise HTTPException(400, f"{name} is given twice: give it once")


router = APIRouter(prefix="/api", dependencies=[Depends(_known)])

Shape = Annotated[str, Query(description="As in m16n8k16, or an instruction by one name, such as a PTX mnemonic.")]
Type = Annotated[str | None, Query(description="The operand's own, as in bf16.")]
Role = Annotated[str | None, Query(description="A, B, C, D or E.")]
Instruction = Annotated[str | None, Query(description="mma or mma.sp, where both have it.")]
Major = Annotated[str | None, Query(description="row or col, where there are both.")]
Number = Annotated[int | None, Query()]
Source = Annotated[str, Query(description="Where the layout comes from.")]


@router.get("/find")
def find(
    database: Opened,
    form: Chosen,
    shape: Shape,
    type: Type = None,  # noqa: A002 - PTX's word
    role: Role = None,
    row: Number = None,
    col: Number = None,
    lane: Number = None,
    reg: Number = None,
    slot: Number = None,
    computation: Number = None,
    instruction: Instruction = None,
    major: Major = None,
    selector: Number = None,
    source: Source = DEFAULT_SOURCE,
) -> Response:
    """The elements at a cell, in a place, or at any part of these."""
    query = of_one_operand(shape, type, role, instruction=instruction, major=major, selector=selector, source=source)
    where = {"row": row, "col": col, "lane": lane, "reg": reg, "slot": slot, "computation": computation}
    return answer(lookup.find(database.reader, query, **where), form)


@router.get("/sources")
def sources(database: Opened, form: Chosen) -> Response:
    """Every source: name, kind, title, provenance, and how many fragments and findings it has."""
    return answer(lookup.sources(database.reader), form)
