"""``lanemap draw``."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from .. import DEFAULT_SOURCE
from ..db import names
from ..db.picture import FORMATS
from .app import app, open_database
from .numbers import integer
from .options import Db, Major, Operand, Selector, SomeInstruction, Source, Whole
from .output import binary_stdout

PictureFormat = StrEnum("PictureFormat", {name.upper(): name for name in FORMATS})  # type: ignore[misc]


@app.command(epilog="Example: lanemap draw m16n8k16 f16 A --output a.svg")
def draw(  # over 40 lines: most of them are its options
    operand: Operand,
    output: Annotated[str, typer.Option("--output", "-o", help="A file, or - for stdout.", metavar="FILE")] = "-",
    format: Annotated[  # noqa: A002
        PictureFormat | None,
        typer.Option("--format", "-f", help="Default: by the ending of --output, else svg.", case_sensitive=False),
    ] = None,
    diff: Annotated[
        tuple[str, str] | None, typer.Option("--diff", help="Mark where two sources differ.", metavar="LEFT RIGHT")
    ] = None,
    accumulator: Annotated[
        str | None, typer.Option("--accumulator", "-a", help="Type of C and D, without ROLE.", metavar="TYPE")
    ] = None,
    instruction: SomeInstruction = None,
    major: Major = None,
    selector: Selector = None,
    source: Source = DEFAULT_SOURCE,
    lane: Annotated[
        list[int] | None,
        typer.Option("--lane", "-l", parser=integer, help="Colour only this lane. May be repeated.", metavar="N"),
    ] = None,
    values: Annotated[
        str | None, typer.Option("--values", help="Colour only these, as in 'T0:{a0,a1}'.", metavar="VALUES")
    ] = None,
    ptx: Annotated[bool, typer.Option("--ptx", help="Label cells as PTX does: T0:{a0,a1}.")] = False,
    whole: Whole = False,
    title: Annotated[bool, typer.Option("--title/--no-title", help="Say above it what it shows.")] = True,
    db: Db = None,
) -> None:
    """Draw an operand, or a whole instruction, as a picture.

    Without ROLE it is the whole instruction, C and D with the most exact type unless --accumulator names one. A name
    that several have is refused, with what there is to choose from. The picture is an SVG, which follows the reader's
    dark mode, or a PNG or PDF, which need Pillow and ReportLab.
    """
    named = names.operand(operand)
    with open_database(db) as database:
        picture = database.draw(
            str(named.shape),
            named.type,
            named.role,
            accumulator=accumulator,
            diff=diff,
            instruction=instruction,
            major=major,
            selector=selector,
            source=source,
            lanes=lane or (),
            values=values,
            ptx=ptx,
            whole=whole,
            title=title,
        )
    if output != "-":
        picture.save(output, format)
        return
    form = format or "svg"
    stream = sys.stdout.buffer if form == "svg" else binary_stdout(form)
    picture.write(form, stream)
    stream.flush()
