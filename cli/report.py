"""``lanemap report``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..db.report import DEFECTS
from .app import DISAGREES, app, open_database
from .options import Db, ReportFile, source_names
from .output import write


@app.command(epilog="Example: lanemap report tilelang-0.1.15 --fragment 'm16n8k64 s4 A'")
def report(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="A source, or a library such as tvm-0.27.0: all that was imported of it.",
            autocompletion=source_names,
        ),
    ],
    fragment: Annotated[
        str | None, typer.Option("--fragment", help="Only this operand, as in 'm16n8k16 f16 A'.", metavar="OPERAND")
    ] = None,
    format: Annotated[  # noqa: A002
        str, typer.Option("--format", "-f", help=f"One of {', '.join(DEFECTS)}.", metavar="FORMAT")
    ] = "markdown",
    output: ReportFile = None,
    db: Db = None,
) -> None:
    """Report what is wrong in sources, for those who maintain them.

    The corrected document and captures are taken for true. Each defect comes with its place, the proof, an example, its
    effect on a product, the true layout, and the other versions of the library that are in the database. Exit code 1
    means that there are defects.
    """
    with open_database(db) as database:
        found = database.report(*sources, fragment=fragment)
    write(found.report(format.lower()), "-" if output is None else str(output))
    if found.defects:
        raise typer.Exit(DISAGREES)
