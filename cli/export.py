"""``lanemap export``."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from .. import DEFAULT_SOURCE, LanemapError, Query
from ..db import lookup, names
from ..db.notation import NOTATIONS
from .app import DISAGREES, app, complain, open_database
from .options import Db, Major, Selector, SomeInstruction, SomeOperand, SomeRole, SomeShape, SomeTypes, Source
from .output import binary_stdout, remark

_TABLES = ("parquet", "csv", "arrow", "jsonl", "dataset")
_FILES = {name.upper().replace("-", "_"): name for name in (*_TABLES, *NOTATIONS)}
_AUDIENCES = ", ".join(f"{each.name} ({each.audience})" for each in NOTATIONS.values())
FileFormat = StrEnum("FileFormat", _FILES)  # type: ignore[misc]
Exported = Annotated[
    FileFormat | None,
    typer.Option(
        "--format",
        "-f",
        help=f"Table: {', '.join(_TABLES)}. Notation: {_AUDIENCES}. Default: by the ending of --output, else csv.",
        case_sensitive=False,
        metavar="FORMAT",
    ),
]


@app.command(epilog="Example: lanemap export --format parquet --output layouts.parquet --shape m16n8k16")
def export(  # over 40 lines with its options
    operand: SomeOperand = None,
    format: Exported = None,  # noqa: A002
    output: Annotated[str, typer.Option("--output", "-o", help="A file, or - for stdout.", metavar="FILE")] = "-",
    source: Source = DEFAULT_SOURCE,
    instruction: SomeInstruction = None,
    shape: SomeShape = None,
    type: SomeTypes = None,  # noqa: A002
    role: SomeRole = None,
    major: Major = None,
    selector: Selector = None,
    db: Db = None,
) -> None:
    """Write layouts as a table, or in another notation.

    The words name an operand or an instruction, as for show; the options select from everything. The layouts are of
    the source that look-ups read: --source names another one, and --source all is every source. A dataset is a folder
    of Parquet files by source and instruction, which DuckDB, Spark and pandas read as one table. A notation is of one
    source, and is evaluated again and compared with the rows before it is written. Exit code 1: it cannot express some
    of the fragments; 2: it can express none.
    """
    if operand and (shape or type or role):
        raise LanemapError("name the operand either by words or by --shape, --type and --role")
    more: dict[str, Any] = {"instruction": instruction, "major": major, "selector": selector, "source": source}
    query = [Query(shape, each, role, **more) for each in names.one_or_several(type)]
    with open_database(db) as database:
        if operand:
            named = names.operand(operand, **more)
            query = [lookup.of_dense(database.reader, named)]
            if named.parameters()["role"]:
                remark(lookup.remarks(named, lookup.fragments(database.reader, *query)))
        if format in NOTATIONS:
            made = database.export(None if output == "-" else output, format=format, query=query)
            sys.stdout.write(made.text if output == "-" else "")
            for error in made.refused:
                complain(f"{format} cannot express {error}")
            if made.refused:
                raise typer.Exit(DISAGREES)
        elif output == "-" and format != "dataset":
            form = format or "csv"
            stream = binary_stdout(form) if form in ("parquet", "arrow") else sys.stdout.buffer
            database.export(stream, format=form, query=query)
            stream.flush()
        else:
            database.export(None if output == "-" else output, format=format, query=query)
