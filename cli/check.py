"""``lanemap check``."""

from __future__ import annotations

from typing import Annotated

import typer

from .app import DISAGREES, app, open_database
from .options import REPORT, Db, Everything, Report, ReportFile, source_names
from .output import write_report


@app.command(epilog="Example: lanemap check")
def check(
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            help="Compare only with this source. May be repeated.",
            metavar="SOURCE",
            autocompletion=source_names,
        ),
    ] = None,
    format: Report = REPORT,  # noqa: A002
    output: ReportFile = None,
    everything: Everything = False,
    strict: Annotated[bool, typer.Option("--strict", help="Count what an erratum explains, too.")] = False,
    db: Db = None,
) -> None:
    """Check every source, and compare sources with each other.

    It checks the structure of each, and compares documents with captures and imports. Differences caused by a listed
    error in the document do not fail the check. Exit code 0 means that nothing else disagrees, 1 that something does.
    """
    with open_database(db) as database:
        found = database.check(against or ())
    write_report(found, format, output, everything=everything)
    if found.unexplained or (strict and found.known):
        raise typer.Exit(DISAGREES)
