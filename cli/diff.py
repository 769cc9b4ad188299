"""``lanemap diff``."""

from __future__ import annotations

from typing import Annotated

import typer

from .app import DISAGREES, app, open_database
from .options import (
    REPORT,
    Db,
    Everything,
    Report,
    ReportFile,
    SomeInstruction,
    SomeRole,
    SomeShape,
    SomeTypes,
    source_names,
)
from .output import write_report


@app.command(epilog="Example: lanemap diff ptx-isa-9.1+errata h200-sm_90a")
def diff(
    left: Annotated[str, typer.Argument(metavar="LEFT", help="A source, or a file.", autocompletion=source_names)],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="The other one.", autocompletion=source_names)],
    instruction: SomeInstruction = None,
    shape: SomeShape = None,
    type: SomeTypes = None,  # noqa: A002
    role: SomeRole = None,
    format: Report = REPORT,  # noqa: A002
    output: ReportFile = None,
    everything: Everything = False,
    db: Db = None,
) -> None:
    """Compare two sources, or files, fragment by fragment.

    A file is a capture, an export, or anyone's CSV or Parquet with the first eight columns of layout. Verdicts are:
    identical; relabelled, equal after one renumbering of M, N or K in all operands that share it; refined, exact
    columns within the windows of the other; different; left only and right only. Exit code 0 means that nothing is
    different, 1 that something is.
    """
    with open_database(db) as database:
        found = database.diff(left, right, shape=shape, type=type, role=role, instruction=instruction)
    write_report(found, format, output, everything=everything, sides=(left, right))
    if found.unexplained:
        raise typer.Exit(DISAGREES)
