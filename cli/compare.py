"""What sources say of each other: ``lanemap check``, ``diff`` and ``report``."""

from collections.abc import Iterable
from itertools import dropwhile
from pathlib import Path
from typing import Annotated, Unpack

import typer

from .. import Query, Tiles
from .app import DISAGREES, OK, app, open_database, opened, write, write_report
from .options import ReportFormat, argument, next_words, source_names

_BEST = "best, of each fragment the corrected document, or what was measured where that says more"
_LIBRARY = "tvm-0.27.0: all that was imported of it"
_OPERAND = "Only this operand, or instruction"


def _next_word(context: typer.Context, incomplete: str) -> list[str]:
    """A completer for sources, and for the words of an operand behind them."""
    named = _operand(context.params.get("words") or [])
    sources = [] if named else source_names(context, incomplete)
    return [*sources, *next_words(named, context, incomplete)]


def _operand(words: Iterable[str], sources: Iterable[str] = (), instructions: Iterable[str] = ()) -> list[str]:
    """The words of an operand behind those of sources: from the first on that may begin one, or is an instruction.

    The name of a source never begins an operand, even where it could: ``amd``, ``triton:shared memory``.
    """
    sides, names = ({name.lower() for name in known} for known in (sources, instructions))
    return [*dropwhile(lambda word: word.lower() in sides or not (Query.begins(word) or word.lower() in names), words)]


@app.command(epilog="Example: lanemap check")
def check(
    against: list[str] | None = None,
    format: ReportFormat = ReportFormat.TABLE,
    output: str = "-",
    everything: bool = False,
    strict: bool = False,
    db: str | None = None,
) -> int:
    """Check every source, and compare sources with each other.

    It checks the structure of each, and compares documents with captures and imports. The table says how many fragments
    a source has, how many of them agree with all others, or differ for a known reason, a listed error in the document,
    or for none; findings are what is wrong in a source by itself. Exit code 0 means that nothing disagrees but for a
    known reason, 1 that something does.
    """
    with open_database(db) as database, opened(output) as file:
        result = database.check(against or ())
        write_report(result, format, file, everything=everything)
    return DISAGREES if result.exit_code or (strict and (result.known or result.unjudged)) else OK


@app.command(epilog="Example: lanemap diff h200-sm_90a ptx-isa-9.4+errata --allow-unjudged")
def diff(
    left: Annotated[str, argument("LEFT", "A source, a library, or a file.", source_names)],
    words: Annotated[
        list[str] | None,
        argument("[RIGHT] [SHAPE TYPE ROLE]", f"The other one; default: {_BEST}. {_OPERAND}.", _next_word),
    ] = None,
    format: ReportFormat = ReportFormat.TABLE,
    output: str = "-",
    everything: bool = False,
    allow_unjudged: bool = False,
    db: str | None = None,
    **tiles: Unpack[Tiles],
) -> int:
    """Compare a source with another, or with the best evidence.

    A file is a capture, an export, or anyone's CSV or Parquet with the first eight columns of layout. Verdicts are:
    identical; relabelled, equal after one renumbering of M, N or K in all operands that share it; refined, exact
    columns within the windows of the other; different; left only and right only; unjudged, where a sparse operand
    claims no column. With --tile a file claims a tile of many instructions, and its lanes count the threads of all
    warps. Exit code 0 means that all of the left side agrees, 1 that something is different or unjudged.
    """
    with open_database(db) as database, opened(output, [left, *(words or ())]) as file:
        operand = words or []
        right = None
        known = database.names("source"), database.names("instruction")
        if operand and (Path(operand[0]).exists() or operand != _operand(operand, *known)):
            right, *operand = operand
        comparison = database.diff(left, right, Query.compared(operand) if operand else None, **tiles)
        write_report(comparison, format, file, everything=everything)
    return DISAGREES if comparison.unexplained or (comparison.exit_code and not allow_unjudged) else OK


@app.command(epilog="Example: lanemap report tilelang-0.1.15 m16n8k64 s4 A")
def report(
    words: Annotated[
        list[str],
        argument("SOURCE [SHAPE TYPE ROLE]", f"Sources, or libraries such as {_LIBRARY}. {_OPERAND}.", _next_word),
    ],
    format: Annotated[str, "One of markdown, html, json, issue."] = "markdown",
    output: str = "-",
    db: str | None = None,
) -> int:
    """Report what is wrong in sources, for those who maintain them.

    The corrected document and captures are taken for true. Each defect comes with its place, the proof, an example, its
    effect on a product and the true layout. Exit code 1 means that there are defects.
    """
    with open_database(db) as database, opened(output) as file:
        operand = _operand(words[1:], database.names("source"), database.names("instruction"))
        sources = words[: len(words) - len(operand)]
        defects = database.report(*sources, operand=Query.compared(operand) if operand else None)
        write(defects.report(format.lower()), file)
    return DISAGREES if defects.defects else OK
