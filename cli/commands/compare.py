"""Commands that compare: sources with each other, and one operand with the next."""

from __future__ import annotations

from typing import Annotated

import typer

from ... import DEFAULT_SOURCE
from ..app import DISAGREES, app, open_database
from ..options import (
    REPORT,
    Db,
    Everything,
    Format,
    Major,
    Output,
    Report,
    ReportFile,
    Role,
    Shape,
    SomeInstruction,
    SomeRole,
    SomeShape,
    SomeType,
    Source,
    Type,
    source_names,
)


@app.command(epilog="Example: lanemap check")
def check(
    against: Annotated[
        list[str] | None,
        typer.Option("--against", help="Only against this source; may be repeated.", autocompletion=source_names),
    ] = None,
    format: Report = REPORT,  # noqa: A002
    output: ReportFile = None,
    everything: Everything = False,
    strict: Annotated[bool, typer.Option("--strict", help="Count what an erratum explains, too.")] = False,
    db: Db = None,
) -> None:
    """Check the structure of every source, and every document against every capture and import.

    What a catalogued erratum explains is reported as known. Exit code 0 means that nothing else disagrees, 1 that
    something does.
    """
    from .. import crosschecking

    with open_database(db) as database:
        report = crosschecking.check(database, against or ())
    crosschecking.write(report, format, output, everything=everything)
    if report.unexplained or (strict and report.known):
        raise typer.Exit(DISAGREES)


@app.command(epilog="Example: lanemap diff ptx-isa-9.1+errata h200-sm_90a")
def diff(
    left: Annotated[str, typer.Argument(metavar="LEFT", help="A source, or a file.", autocompletion=source_names)],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="Another one.", autocompletion=source_names)],
    instruction: SomeInstruction = None,
    shape: SomeShape = None,
    type: SomeType = None,  # noqa: A002
    role: SomeRole = None,
    format: Report = REPORT,  # noqa: A002
    output: ReportFile = None,
    everything: Everything = False,
    db: Db = None,
) -> None:
    """Compare two sources fragment by fragment; each is in the database, or a file.

    A file is a capture, an export, or anyone's CSV or Parquet with the first eight columns of layout. Verdicts:
    identical; relabelled, equal after one renumbering of rows, columns or depth in all operands that share it;
    refined, exact columns within the windows of the other; different; left only and right only. Exit code 0 means
    that nothing is different, 1 that something is.
    """
    from ...db.lookup import Query
    from .. import crosschecking

    with open_database(db) as database:
        report = crosschecking.diff(database, left, right, Query(shape, type, role, instruction))
    crosschecking.write(report, format, output, everything=everything, sides=(left, right))
    if report.unexplained:
        raise typer.Exit(DISAGREES)


@app.command(epilog="Example: lanemap chain m16n8k16 f32 D m16n8k16 f16 A")
def chain(
    first_shape: Shape,
    first_type: Type,
    first_role: Role,
    shape: Annotated[
        str | None, typer.Argument(metavar="SHAPE", help="Of the second operand, if only one is asked for.")
    ] = None,
    type: Annotated[str | None, typer.Argument(metavar="TYPE", help="As in bf16.")] = None,  # noqa: A002
    role: Annotated[str | None, typer.Argument(metavar="ROLE", help="A or B.")] = None,
    transpose: Annotated[bool, typer.Option("--transpose", "-t", help="Take D transposed.")] = False,
    relabel: Annotated[bool, typer.Option("--relabel", "-k", help="Renumber K where that avoids movement.")] = False,
    first: Annotated[str | None, typer.Option("--first", help="mma or mma.sp, where both have the first.")] = None,
    second: Annotated[str | None, typer.Option("--second", help="mma or mma.sp, where both have the second.")] = None,
    major: Major = None,
    source: Source = DEFAULT_SOURCE,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Can D of one instruction be A or B of the next as it is, or which lanes must exchange what?

    Tiles of D are put together, or D is cut, to fit. A table says it by register, other formats by element. Without a
    second operand, every A and B is listed that D can be without a move between lanes. Exit code 0: no value moves to
    another lane; 1: some do.
    """
    from ...db.chain import Movement, chains, operand, relabelled
    from ...db.chain import chain as moves
    from ...db.errors import LanemapError
    from ...db.lookup import Query, read_fragments
    from ..chaining import write_chain, write_chains

    taken = Query(shape, type, role, second, major, source=source)
    named = [name is not None for name in (shape, type, role)]
    if any(named) and not all(named):
        raise LanemapError("name the shape, type and role of the second operand, as in m16n8k16 f16 A, or none of them")
    with open_database(db) as database:
        given = operand(database.reader, Query(first_shape, first_type, first_role, first, source=source))
        if not all(named):
            write_chains(chains(given, read_fragments(database.reader, taken)), format, relabel=relabel)
            return
        plain = moves(given, operand(database.reader, taken), transposed=transpose)
    renumbered = relabelled(plain)
    shown = renumbered if relabel and renumbered else plain
    write_chain(shown, renumbered, format)
    if shown.movement is not Movement.NONE:
        raise typer.Exit(DISAGREES)
