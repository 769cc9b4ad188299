"""``lanemap decode``."""

from __future__ import annotations

import csv
import sys
from typing import Annotated

import typer

from .. import LanemapError
from ..db.location import named_file
from .app import app, open_database
from .options import Db, Format, Output, Selector, SomeSource, completer
from .output import write_rows

_LARGEST = 1 << 22
_shapes = completer("SELECT DISTINCT shape FROM fragment WHERE role = 'E' AND mapping_id IS NOT NULL ORDER BY 1")
_types = completer(
    "SELECT DISTINCT type FROM fragment WHERE role = 'E' AND mapping_id IS NOT NULL AND shape = LOWER(:shape) "
    "ORDER BY 1"
)


@app.command(epilog="Example: lanemap decode m16n8k32 f16 0x44444444 --selector 0")
def decode(
    shape: Annotated[str, typer.Argument(metavar="SHAPE", help="As in m16n8k16.", autocompletion=_shapes)],
    type: Annotated[str, typer.Argument(metavar="TYPE", help="That of A, as in bf16.", autocompletion=_types)],  # noqa: A002
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORD", help="Metadata of each thread, or one word for all; - for stdin."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns", "-c", help="A CSV with lane, reg, slot, col to make metadata of; - for stdin.", metavar="FILE"
        ),
    ] = None,
    selector: Selector = None,
    source: SomeSource = None,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Turn sparse metadata into columns, or columns into metadata.

    Metadata chooses the column of each element of a sparse A. With --columns it is made of these columns, as a word
    for each lane. What decode prints as CSV is what --columns takes.
    """
    if bool(words) == bool(columns):
        raise LanemapError("give words of metadata, or --columns FILE for the way back")
    with open_database(db) as database:
        if columns:
            text = sys.stdin.read(_LARGEST + 1) if columns == "-" else _read(columns)
            found = database.encode(shape, type, _table(columns, text), selector=selector, source=source)
        else:
            given = sys.stdin.read().split() if words == ["-"] else words or []
            found = database.decode(shape, type, list(map(word, given)), selector=selector, source=source)
    if found.others:
        others = ", ".join(found.others)
        sys.stderr.write(f"lanemap: metadata as in {found.e.source}; --source takes another: {others}\n")
    write_rows(found.words_by_lane() if columns else found.columns_by_slot(), format)


def _read(file: str) -> str:
    path = named_file(file, "a CSV with lane, reg, slot and col")
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return stream.read(_LARGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise LanemapError(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not text'}") from None


def _table(file: str, text: str) -> dict[tuple[int, int, int], int]:
    """The column of each lane, reg and slot in a CSV file."""
    if len(text) > _LARGEST:
        raise LanemapError(f"{file} has more than {_LARGEST} characters: the columns of one operand take far fewer")
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith(("\n", "\r")):
        raise LanemapError(f"{file}: the last line does not end with a line feed, so the table may be cut off")
    columns: dict[tuple[int, int, int], int] = {}
    reader = csv.DictReader(lines)
    try:
        for row in reader:
            lane, reg, slot, col = (int(row[name]) for name in ("lane", "reg", "slot", "col"))
            if (lane, reg, slot) in columns:
                raise LanemapError(f"{file}, line {reader.line_num}: lane {lane} reg {reg} slot {slot} is given twice")
            columns[lane, reg, slot] = col
    except (KeyError, TypeError, ValueError, csv.Error):
        raise LanemapError(
            f"{file}, line {reader.line_num}: cannot read lane, reg, slot and col: give a table such as decode prints "
            "as CSV"
        ) from None
    return columns


def word(text: str) -> int:
    """A word of metadata as people write one.

    >>> word("0x44")
    68
    """
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number < 2**32:
        raise LanemapError(f"{text!r} is not a word of metadata: write 32 bits, as in 0x44444444")
    return number
