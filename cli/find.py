"""``lanemap find``."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import DEFAULT_SOURCE, LanemapError
from .app import app, open_database
from .numbers import integer
from .options import Computation, Db, Format, Major, Output, Role, Selector, Shape, SomeInstruction, Source, Type


@app.command(epilog="Example: lanemap find m16n8k16 f16 A --row 9 --col 3")
def find(
    shape: Shape,
    type: Type,  # noqa: A002
    role: Role,
    row: Annotated[int | None, typer.Option("--row", "-r", parser=integer, help="Row of the matrix.")] = None,
    col: Annotated[int | None, typer.Option("--col", "-c", parser=integer, help="Column of the matrix.")] = None,
    lane: Annotated[int | None, typer.Option("--lane", "-l", parser=integer, help="Lane, from 0.")] = None,
    reg: Annotated[int | None, typer.Option("--reg", "-g", parser=integer, help="Register of the operand.")] = None,
    slot: Annotated[
        int | None, typer.Option("--slot", "-t", parser=integer, help="Slot in the register, low bits first.")
    ] = None,
    computation: Computation = None,
    instruction: SomeInstruction = None,
    major: Major = None,
    selector: Selector = None,
    source: Source = DEFAULT_SOURCE,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Find what sits in a cell (--row, --col), or what a slot holds (--lane, --reg, --slot), or any part of these."""
    from ..db import lookup
    from .output import narrow, write_rows

    where = {"row": row, "col": col, "lane": lane, "reg": reg, "slot": slot, "computation": computation}
    if all(value is None for value in where.values()):
        raise LanemapError("say where to look: --row and --col, or --lane, --reg and --slot, or some of them")
    query = lookup.Query(shape, type, role, instruction, major, selector, source)
    with open_database(db) as database:
        found = lookup.find(database.reader, query, **where)
        write_rows(narrow(found) if format is Format.TABLE else found, format)
