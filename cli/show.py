"""``lanemap show``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .. import DEFAULT_SOURCE
from ..db import lookup, names
from .app import app, open_database
from .numbers import integer
from .options import By, Db, Drawn, Format, Major, Operand, Output, Selector, SomeInstruction, Source, Whole
from .output import narrow, remark, room, without_empty, write_rows

if TYPE_CHECKING:
    from ..db.summary import Summary


@app.command(epilog="Example: lanemap show m16n8k16 f16 A --by lane")
def show(
    operand: Operand,
    by: Drawn = By.ELEMENT,
    lane: Annotated[
        int | None,
        typer.Option("--lane", "-l", parser=integer, help="Only what this lane holds, as a table.", metavar="N"),
    ] = None,
    whole: Whole = False,
    instruction: SomeInstruction = None,
    major: Major = None,
    selector: Selector = None,
    source: Source = DEFAULT_SOURCE,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Show an operand, or without ROLE all operands of an instruction.

    An operand is drawn with its formula and where that stands: by element, a cell is lane:reg.slot; by lane, it is
    row,col. Neighbours that follow each other are drawn as one. The list of operands says of each source how its rows
    compare with those that look-ups show.
    """
    query = names.operand(operand, instruction=instruction, major=major, selector=selector, source=source)
    with open_database(db) as database:
        if query.parameters()["role"] is None and lane is None:
            from ..db.summary import instruction_summary

            _write(instruction_summary(database.reader, query), format)
            return
        fragments = lookup.one_operand(database.reader, query)
        remark(lookup.remarks(query, fragments))
        if format is Format.TABLE and lane is None:
            from ..db.picture.view import View
            from .terminal import show as show_fragments

            show_fragments(fragments, by, View(whole=whole))
            lookup.with_rows(database.reader, fragments)
            return
        found = lookup.rows(lookup.with_rows(database.reader, fragments), lane=lane)
        write_rows(narrow(found) if format is Format.TABLE else found, format)


def _write(summary: Summary, form: Format) -> None:
    if form is not Format.TABLE:
        write_rows(summary.rows(), form)
        return
    typer.echo("\n".join(map(_line, summary.mnemonics) if summary.mnemonics else [summary.title]) + "\n")
    operands, verdicts = map(without_empty, summary.tables())
    write_rows(operands, form)
    typer.echo()
    write_rows(verdicts, form)


def _line(form: tuple[str, str]) -> str:
    """A mnemonic and its targets, which go into a line of their own where a terminal has no room for both."""
    line = "  ".join(form)
    return line if len(line) <= (room() or len(line)) else "\n    ".join(form)
