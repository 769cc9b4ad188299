"""``lanemap show``."""

from __future__ import annotations

from .. import DEFAULT_SOURCE
from .app import app, open_database
from .options import By, Db, Drawn, Format, Major, Output, Role, Selector, Shape, SomeInstruction, Source, Type, Whole


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
    from ..db import lookup

    query = lookup.Query(shape, type, role, instruction, major, selector, source)
    with open_database(db) as database:
        if format is not Format.TABLE:
            from .output import write_rows

            write_rows(lookup.find(database.reader, query), format)
            return
        from ..db.picture.view import View
        from .terminal import show as show_fragments

        show_fragments(lookup.one_operand(database.reader, query), by, View(whole=whole))
