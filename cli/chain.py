"""``lanemap chain``."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import DEFAULT_SOURCE, LanemapError
from .app import DISAGREES, app, open_database
from .options import Db, Format, Major, Output, Role, Shape, Source, Type


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
    from ..db.chain import Movement, chains, operand, relabelled
    from ..db.chain import chain as moves
    from ..db.lookup import Query, read_fragments
    from .chaining import write_chain, write_chains

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
