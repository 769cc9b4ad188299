"""``lanemap sql``."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from .. import DEFAULT_SOURCE
from ..db import lookup
from ..db.reader import ROWS, SECONDS
from .app import app, open_database
from .options import Db, Format, Output
from .output import remark, write_rows


@app.command(epilog="Example: lanemap sql 'SELECT role, COUNT(*) FROM layout GROUP BY role'")
def sql(
    query: Annotated[str, typer.Argument(help="One SELECT, or - to read it from stdin.", show_default=False)],
    format: Output = Format.TABLE,  # noqa: A002
    output: Annotated[str, typer.Option("--output", "-o", help="A file, or - for stdout.", metavar="FILE")] = "-",
    seconds: Annotated[float, typer.Option("--seconds", help="How long it may take.", metavar="N")] = SECONDS,
    rows: Annotated[int, typer.Option("--rows", help="How many rows it may give.", metavar="N")] = ROWS,
    db: Db = None,
) -> None:
    """Run a query, usually on the view layout.

    It cannot write to the database. layout has the rows of every source, with the columns shape, type, role, lane,
    reg, slot, row, col, col_last, instruction, major, computation, selector, qualifiers and source.
    """
    with open_database(db) as database:
        text = sys.stdin.read() if query == "-" else query
        found = database.reader.sql(text, seconds=seconds, rows=rows)
        if re.search(r"\blayout\b", text, re.IGNORECASE) and not re.search(r"\bsource", text, re.IGNORECASE):
            sources = ", ".join(record["name"] for record in lookup.sources(database.reader).records())
            remark([f"layout has the rows of every source: {sources}; WHERE source = '{DEFAULT_SOURCE}' takes one"])
        write_rows(found, format, output)
