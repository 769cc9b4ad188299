"""The arguments and options that several commands share, each said once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..db.connection import connect, state
from ..db.location import locate
from ..db.lookup import following
from ..db.reader import Reader
from ..db.report import FORMATS as REPORTS
from .numbers import integer


class Format(StrEnum):
    """How rows come out."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"


class By(StrEnum):
    """The two ways to draw a fragment."""

    ELEMENT = "element"
    LANE = "lane"


ReportFormat = StrEnum("ReportFormat", {name.upper(): name for name in REPORTS})  # type: ignore[misc]
REPORT = ReportFormat("table")


def _completed(ask: Callable[[Reader], Iterable[str]], incomplete: str, fallback: Sequence[str] = ()) -> list[str]:
    """What the database says may come next, or the usual names before there is one."""
    names: Iterable[str] = fallback
    try:
        location = locate()
        if state(location) is not None:
            names = ask(connect(location))
    except Exception:  # noqa: S110 - a completer must never disturb the shell
        pass
    return [name for name in names if name.lower().startswith(incomplete.lower())]


Completer = Callable[[typer.Context, str], list[str]]


def completer(statement: str, fallback: Sequence[str] = ()) -> Completer:
    """A completer for the names that the database gives; ``:shape`` is the shape that was named before."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        shape = context.params.get("shape")
        asked = {"shape": shape if isinstance(shape, str) else None}
        return _completed(
            lambda reader: [str(row[0]) for row in reader.select(statement, asked).rows], incomplete, fallback
        )

    return complete


_shapes = completer("SELECT DISTINCT shape FROM fragment ORDER BY 1", ("m8n8k4", "m16n8k8", "m16n8k16", "m16n8k32"))
_types = completer(
    "SELECT DISTINCT type FROM fragment WHERE CAST(:shape AS TEXT) IS NULL OR shape = LOWER(:shape) ORDER BY 1",
    ("f16", "bf16", "tf32", "f64", "s8", "f32", "s32"),
)
_roles = completer(
    "SELECT DISTINCT role FROM fragment WHERE CAST(:shape AS TEXT) IS NULL OR shape = LOWER(:shape) ORDER BY 1", "ABCDE"
)
_instructions = completer("SELECT DISTINCT instruction FROM fragment ORDER BY 1", ("mma", "mma.sp"))
source_names = completer("SELECT name FROM source ORDER BY id", ("ptx-isa-9.1", "ptx-isa-9.1+errata"))


def operand_word(context: typer.Context, incomplete: str) -> list[str]:
    """A completer for the words of an operand: a shape, then types that it has, then roles that they have."""
    return next_words(context.params.get("operand") or [], context, incomplete)


def next_words(words: Sequence[str], context: typer.Context, incomplete: str) -> list[str]:
    """The words that may follow those of one operand, or that may begin one."""
    return _completed(lambda reader: following(reader, words), incomplete) if words else _shapes(context, incomplete)


Operand = Annotated[
    list[str],
    typer.Argument(
        metavar="SHAPE TYPE ROLE",
        help="Instead of SHAPE and TYPE, an instruction may have one name, such as a mnemonic.",
        autocompletion=operand_word,
    ),
]
SomeOperand = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SHAPE TYPE ROLE", help="An instruction, or one operand of it.", autocompletion=operand_word
    ),
]
SomeShape = Annotated[
    str | None, typer.Option("--shape", help="Only this shape.", metavar="SHAPE", autocompletion=_shapes)
]
SomeTypes = Annotated[
    list[str] | None,
    typer.Option("--type", help="Only this type. May be repeated.", metavar="TYPE", autocompletion=_types),
]
SomeRole = Annotated[str | None, typer.Option("--role", help="Only this role.", metavar="ROLE", autocompletion=_roles)]
SomeInstruction = Annotated[
    str | None,
    typer.Option(
        "--instruction", "-i", help="As in mma.sp, where several have it.", metavar="NAME", autocompletion=_instructions
    ),
]
Major = Annotated[
    str | None, typer.Option("--major", "-m", help="row or col, where there are both (m8n8k4 f16).", metavar="MAJOR")
]
Drawn = Annotated[By, typer.Option("--by", "-b", help="Draw the matrix, or the register file.", case_sensitive=False)]
Whole = Annotated[bool, typer.Option("--whole", help="All of a large operand, not only what repeats.")]
Computation = Annotated[
    int | None, typer.Option("--computation", parser=integer, help="1 to 4, in m8n8k4 f16.", metavar="N")
]
Selector = Annotated[
    int | None, typer.Option("--selector", parser=integer, help="Sparsity selector, for E.", metavar="N")
]
Source = Annotated[
    str,
    typer.Option(
        "--source", "-s", help="Where the layout comes from, or all.", metavar="SOURCE", autocompletion=source_names
    ),
]
SomeSource = Annotated[
    str | None, typer.Option("--source", "-s", help="Only this source.", metavar="SOURCE", autocompletion=source_names)
]
Output = Annotated[Format, typer.Option("--format", "-f", help="How rows come out.", case_sensitive=False)]
Report = Annotated[ReportFormat, typer.Option("--format", "-f", help="How the report comes out.", case_sensitive=False)]
ReportFile = Annotated[Path | None, typer.Option("--output", "-o", help="Write it to a file.", metavar="FILE")]
Everything = Annotated[bool, typer.Option("--all", "-a", help="List every element that differs.")]
Db = Annotated[
    str | None,
    typer.Option("--db", "-d", help="A SQLite file or a postgresql:// URL. [env: LANEMAP_DB]", metavar="URL"),
]
