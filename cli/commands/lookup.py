"""Commands that look up: lists, drawings, cells and slots, and SQL."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ... import DEFAULT_SOURCE, LanemapError
from ..app import app, open_database
from ..numbers import integer
from ..options import (
    By,
    Computation,
    Db,
    Drawn,
    Format,
    Major,
    Output,
    Role,
    Selector,
    Shape,
    SomeInstruction,
    SomeRole,
    SomeShape,
    SomeType,
    Source,
    Type,
    What,
    Whole,
    source_names,
)


@app.command("list", epilog="Example: lanemap list --shape m16n8k16 --role A")
def list_(
    what: Annotated[What, typer.Argument(help="What to list.", case_sensitive=False)] = What.FRAGMENTS,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            "-s",
            help=f"Only this source; of fragments and errata: {DEFAULT_SOURCE}.",
            autocompletion=source_names,
        ),
    ] = None,
    instruction: SomeInstruction = None,
    shape: SomeShape = None,
    type: SomeType = None,  # noqa: A002
    role: SomeRole = None,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """List the fragments that there are, or the sources, errata or structural findings."""
    from ...db.lookup import Query
    from ..listing import listing
    from ..output import write_rows

    query = Query(shape, type, role, instruction, source=source)
    with open_database(db) as database:
        write_rows(listing(database.reader, what, query), format)


@app.command(epilog="Example: lanemap show m16n8k16 f16 A --by lane")
def show(
    shape: Shape,
    type: Type,  # noqa: A002
    role: Role,
    by: Drawn = By.ELEMENT,
    whole: Whole = False,
    instruction: SomeInstruction = None,
    major: Major = None,
    selector: Selector = None,
    source: Source = DEFAULT_SOURCE,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Draw a fragment, with its formula and where it stands.

    By element, each cell is lane:reg.slot; by lane, row,col. Neighbours that count on are drawn as one.
    """
    from ...db import lookup

    query = lookup.Query(shape, type, role, instruction, major, selector, source)
    with open_database(db) as database:
        if format is not Format.TABLE:
            from ..output import write_rows

            write_rows(lookup.find(database.reader, query), format)
            return
        from ...db.picture.view import View
        from ..terminal import show as show_fragments

        show_fragments(lookup.one_operand(database.reader, query), by, View(whole=whole))


@app.command(epilog="Example: lanemap find m16n8k16 f16 A --row 9 --col 3")
def find(
    shape: Shape,
    type: Type,  # noqa: A002
    role: Role,
    row: Annotated[int | None, typer.Option("--row", "-r", parser=integer, help="Row of the matrix.")] = None,
    col: Annotated[int | None, typer.Option("--col", "-c", parser=integer, help="Column of the matrix.")] = None,
    lane: Annotated[int | None, typer.Option("--lane", "-l", parser=integer, help="Lane, 0 to 31.")] = None,
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
    from ...db import lookup
    from ..output import telling, write_rows

    where = {"row": row, "col": col, "lane": lane, "reg": reg, "slot": slot, "computation": computation}
    if all(value is None for value in where.values()):
        raise LanemapError("say where to look: --row and --col, or --lane, --reg and --slot, or some of them")
    query = lookup.Query(shape, type, role, instruction, major, selector, source)
    with open_database(db) as database:
        found = lookup.find(database.reader, query, **where)
        write_rows(telling(found) if format is Format.TABLE else found, format)


@app.command(epilog="Example: lanemap sql 'SELECT role, COUNT(*) FROM layout GROUP BY role'")
def sql(
    query: Annotated[str, typer.Argument(help="One SELECT, or - to read it from stdin.", show_default=False)],
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Run a query, usually on the view layout. It cannot write.

    layout has the columns shape, type, role, lane, reg, slot, row, col, col_last, instruction, major, computation,
    selector and source.
    """
    from ..output import write_rows

    with open_database(db) as database:
        write_rows(database.reader.sql(sys.stdin.read() if query == "-" else query), format)
