"""What is drawn or written: ``lanemap draw`` and ``export``."""

import sys
from enum import StrEnum
from typing import Annotated, Unpack

import typer

from .. import NOTATIONS, LanemapError, Query, Which
from ..db.render.picture import formats
from .app import DISAGREES, OK, app, binary_stdout, open_database, remark
from .options import Operand, SomeOperand

PictureFormat = StrEnum("PictureFormat", {name.upper(): name for name in formats.FORMATS})  # type: ignore[misc]


@app.command(epilog="Example: lanemap draw m16n8k16 f16 A --output a.svg")
def draw(
    operand: Operand,
    output: str = "-",
    format: Annotated[PictureFormat | None, "Default: by the ending of --output, else svg."] = None,
    diff: tuple[str, str] | None = None,
    accumulator: str | None = None,
    lane: Annotated[list[int] | None, "Colour only this lane."] = None,
    values: str | None = None,
    ptx: bool = False,
    whole: bool = False,
    title: Annotated[bool, typer.Option("--title/--no-title", help="Add a title.")] = True,
    db: str | None = None,
    **which: Unpack[Which],
) -> None:
    """Draw an operand, or a whole instruction, as a picture.

    Without ROLE it is the whole instruction, C and D with the most exact type unless --accumulator names one. A name
    that several have is refused, with what there is to choose from. The picture is an SVG, which follows the reader's
    dark mode, or a PNG or PDF, which need Pillow and ReportLab.
    """
    named = Query.parse(operand)
    with open_database(db) as database:
        picture = database.draw(
            str(named.shape),
            named.type,
            named.role,
            accumulator=accumulator,
            diff=diff,
            lanes=lane or (),
            values=values,
            ptx=ptx,
            whole=whole,
            title=title,
            **which,
        )
    if output == "-":
        form = format or "svg"
        picture.write(form, binary_stdout(form))
    else:
        picture.save(output, format)


_TABLES = ("parquet", "csv", "arrow", "jsonl", "dataset")
_AUDIENCES = ", ".join(f"{name} ({notation.audience})" for name, notation in NOTATIONS.items())
FileFormat = StrEnum("FileFormat", {name.upper(): name for name in (*_TABLES, *NOTATIONS)})  # type: ignore[misc]
_FORMATS = f"Table: {', '.join(_TABLES)}. Notation: {_AUDIENCES}. Default: by the ending of --output, else csv."


@app.command(epilog="Example: lanemap export --format parquet --output layouts.parquet --shape m16n8k16")
def export(
    operand: SomeOperand = None,
    format: Annotated[
        FileFormat | None, typer.Option("--format", "-f", help=_FORMATS, case_sensitive=False, metavar="FORMAT")
    ] = None,
    output: str = "-",
    shape: str | None = None,
    type: list[str] | None = None,
    role: str | None = None,
    db: str | None = None,
    **which: Unpack[Which],
) -> int:
    """Write layouts as a table, or in another notation.

    The words name an operand or an instruction, as for show; the options select from everything. The layouts are of
    the source that look-ups read: --source names another one, and --source all is every source. A dataset is a folder
    of Parquet files by source and instruction, which DuckDB, Spark and pandas read as one table. A notation has
    measured rows where that source is figure-only, names the source of each fragment, and is compared with every row
    before it is written. Exit code 1: it cannot express some of the fragments; 2: it can express none.
    """
    if operand and (shape or type or role):
        raise LanemapError("name the operand either by words or by --shape, --type and --role")
    query = [Query(shape, type_, role, **which) for type_ in type or (None,)]
    remarks: list[str] = []
    with open_database(db) as database:
        if operand:
            named = Query.parse(operand, **which)
            query = [database.prefer_dense(named)]
            if named.parameters()["role"]:
                remarks = database.operand(named, rows=False).remarks
        if output != "-":
            exported = database.export(output, format=format, query=query)
        elif format == "dataset" or format in NOTATIONS:
            exported = database.export(format=format, query=query)
            sys.stdout.write(exported.text)
        else:
            form = format or "csv"
            exported = database.export(binary_stdout(form), format=form, query=query)
    remark(remarks)
    remark(f"{format} cannot express {error}" for error in exported.refused)
    return DISAGREES if exported.refused else OK
