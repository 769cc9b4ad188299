"""``lanemap find``."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import DEFAULT_SOURCE, LanemapError
from ..db import lookup, names
from .app import app, open_database
from .numbers import integer
from .options import Computation, Db, Format, Major, Operand, Output, Selector, SomeInstruction, Source
from .output import narrow, remark, write_rows


@app.command(epilog="Example: lanemap find m16n8k16 f16 A --row 9 --col 3")
def find(
    operand: Operand,
    row: Annotated[
        int | None, typer.Option("--row", "-r", parser=integer, help="Row of the matrix.", metavar="N")
    ] = None,
    col: Annotated[
        int | None, typer.Option("--col", "-c", parser=integer, help="Column of the matrix.", metavar="N")
    ] = None,
    lane: Annotated[int | None, typer.Option("--lane", "-l", parser=integer, help="Lane, from 0.", metavar="N")] = None,
    reg: Annotated[
        int | None, typer.Option("--reg", "-g", parser=integer, help="Register of the operand.", metavar="N")
    ] = None,
    slot: Annotated[
        int | None,
        typer.Option("--slot", "-t", parser=integer, help="Slot in the register, low bits first.", metavar="N"),
    ] = None,
    computation: Computation = None,
    instruction: SomeInstruction = None,
    major: Major = None,
    selector: Selector = None,
    source: Source = DEFAULT_SOURCE,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Find the slot that holds a cell, or the cell that a slot holds.

    A cell is --row and --col, and a slot is --lane, --reg and --slot; some of them will do. The instruction may be one
    name: a PTX mnemonic as it stands in a kernel, an opcode such as HMMA.16816.F32.BF16, or an atom of CuTe. Then only
    ROLE follows. C and D are found by the type of A, too.
    """
    where = {"row": row, "col": col, "lane": lane, "reg": reg, "slot": slot, "computation": computation}
    if all(value is None for value in where.values()):
        raise LanemapError("say where to look: --row and --col, or --lane, --reg and --slot, or some of them")
    query = names.operand(operand, instruction=instruction, major=major, selector=selector, source=source)
    with open_database(db) as database:
        fragments = lookup.operand_with_rows(database.reader, query)
        remark(lookup.remarks(query, fragments))
        found = lookup.rows(fragments, **where)
        write_rows(narrow(found) if format is Format.TABLE else found, format)
