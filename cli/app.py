"""The application that the commands join, and what they share: exit codes, complaints, the database, output."""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from .. import Database, LanemapError, Rows, __version__
from .. import open as open_lanemap
from ..db.rows import plain, table, wrapped
from ..db.text import masked, printable, shortened
from .options import Format

if TYPE_CHECKING:
    from .. import Check, Source
    from ..db.rows import Told

app = typer.Typer(
    name="lanemap",
    help="Which lane, register and slot of a matrix instruction holds which matrix element.",
    epilog="Try: lanemap show m16n8k16 f16 A",
    rich_markup_mode=None,
    invoke_without_command=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)

OK, DISAGREES, BAD_INPUT, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


def complain(words: str) -> int:
    """One line on stderr, without passwords and control characters; the exit code of bad input.

    On a terminal it is as many as there is room for, cut between words.
    """
    line = printable(f"lanemap: {shortened(masked(' '.join(words.split())))}")
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        line = "\n".join(wrapped(line, width, "  "))
    sys.stderr.write(f"{line}\n")
    return BAD_INPUT


def open_database(db: str | None) -> Database:
    """The database, built if need be; says when it is stale."""
    database = open_lanemap(db, progress=progress)
    if database.stale:
        command = f"lanemap ingest --db {db}" if db else "lanemap ingest"
        complain(f"Lanemap has changed since {database.location} was built: {command} updates it")
    return database


def progress(source: Source) -> None:
    """Say on a terminal which source is being loaded."""
    if sys.stderr.isatty():
        complain(f"loading {source.name}")


@contextmanager
def progress_line(what: str) -> Iterator[Callable[[int, int], object]]:
    """A function that says on a terminal how many are done of how many, in a line that is gone at the end."""
    said = False

    def say(done: int, total: int) -> None:
        nonlocal said
        if sys.stderr.isatty():
            said = True
            sys.stderr.write(f"\r{done} of {total} {what}")
            sys.stderr.flush()

    try:
        yield say
    finally:
        if said:
            sys.stderr.write("\r\033[K")


def _print_version(query: bool) -> None:
    if query:
        sys.stdout.write(f"lanemap {__version__}\n")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", "-V", help="Print the version.", callback=_print_version, is_eager=True)
]


@app.callback()
def _common(context: typer.Context, version: Version = False) -> None:  # noqa: ARG001 - its callback prints it
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


@contextmanager
def opened(output: str, reads: Iterable[str] = ()) -> Iterator[IO[bytes] | None]:
    """The file to write, or None for ``-``. One that may not be written is refused before anybody works for it.

    It appears whole or not at all, and is none of those that are read meanwhile.
    """
    if output == "-":
        yield None
        return
    from ..db.store import files

    with files.atomically(Path(output), [Path(source) for source in reads if Path(source).is_file()]) as file:
        yield file


def write_rows(rows: Rows, form: Format, file: IO[bytes] | None = None) -> None:
    """Print rows, or write them to a file. A table is for reading; the other formats are for programs."""
    # In one piece: what cannot be written is found before any of it is.
    piped = file is None and not sys.stdout.seekable()
    write(encoded(rows, form, room() if file is None else None, piped=piped), file, form.value)


def write_answer(found: Told, form: Format) -> None:
    """Print what an answer says, or in other formats than the table its rows."""
    if form is not Format.TABLE:
        remark(found.failed)
        write_rows(found.rows(), form)
    elif text := found.text(room()):
        sys.stdout.write(text + "\n")


def encoded(rows: Rows, form: Format, room: int | None = None, *, piped: bool = False) -> str | bytes:
    """Rows in a format: Parquet and Arrow as bytes, others as text, a table no wider than ``room``.

    Arrow for a pipe is a stream, which others can read while it is written.
    """
    if form in (Format.PARQUET, Format.ARROW):
        return _binary(rows, form, piped=piped)
    if form is Format.TABLE:
        return table(rows, room)
    values = [tuple(map(plain, row)) for row in rows.rows]
    if form is Format.CSV:
        written = io.StringIO()
        writer = csv.writer(written, lineterminator="\n")
        writer.writerow(rows.columns)
        for row in values:
            writer.writerow(map(_no_formula, row))
        return written.getvalue()
    import json

    lines = [json.dumps(record) for record in Rows(rows.columns, values).records()]
    return "".join(line + "\n" for line in lines) if form is Format.JSONL else "[" + ",\n ".join(lines) + "]\n"


def room() -> int | None:
    """How long lines of output may be: as the terminal or the variable COLUMNS says, else as long as they are."""
    known = sys.stdout.isatty() or os.environ.get("COLUMNS")
    return shutil.get_terminal_size().columns if known else None


def write(data: str | bytes, file: IO[bytes] | None = None, form: str = "") -> None:
    """Print, or write to a file. ``form`` is what bytes are called in the message that they are not for a terminal."""
    if file:
        file.write(data.encode() if isinstance(data, str) else data)
    elif isinstance(data, str):
        sys.stdout.write(data)
    else:
        binary_stdout(form).write(data)


def write_report(check: Check, form: str, file: IO[bytes] | None, *, everything: bool) -> None:
    """Print the report of a comparison, or write it to a file."""
    import shlex

    made = {"command": shlex.join(["lanemap", *sys.argv[1:]]), "version": f"lanemap {__version__}"}
    made["date"] = datetime.now(UTC).date().isoformat()
    write(replace(check, made=made).report(form, everything=everything), file)


def narrow(rows: Rows) -> Rows:
    """Elements for reading: without the columns that tell nothing there, so that a line fits a terminal."""
    columns = dict(zip(rows.columns, rows.by_column(), strict=True))
    silent = {name for name in ("major", "selector", "qualifiers") if len(set(columns[name])) == 1}
    silent |= {"col_last"} if columns["col_last"] == columns["col"] else set()
    silent |= {"computation"} if set(columns["computation"]) == {1} else set()
    silent |= {"first_bit"} if set(columns["first_bit"]) <= {0, None} else set()
    return rows.only(lambda name, _: name not in silent)


def remark(lines: Iterable[str]) -> None:
    """Print remarks on an answer to stderr."""
    for line in lines:
        complain(line)


def binary_stdout(form: str) -> IO[bytes]:
    """Stdout for the bytes of a format, unless somebody would have to look at what is no text."""
    if sys.stdout.isatty() and form not in ("csv", "jsonl", "svg"):
        raise LanemapError(f"{form} is not for a terminal: send it to a file or a pipe, as in ... > layouts.{form}")
    return sys.stdout.buffer


def _no_formula(cell: str | float | None) -> str | float | None:
    """A cell that a spreadsheet does not take for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def _binary(rows: Rows, form: Format, *, piped: bool) -> bytes:
    import pyarrow as pa

    from ..db.store.export import write_arrow, write_parquet

    arrays = []
    for name, column in zip(rows.columns, rows.named().by_column(), strict=True):
        try:
            arrays.append(pa.array(column))
        except (pa.ArrowException, OverflowError, TypeError):
            kinds = ", ".join(sorted({type(value).__name__ for value in column if value is not None}))
            raise LanemapError(
                f"column {name!r} holds what {form} cannot ({kinds}): CAST it to one type, or take another --format"
            ) from None
    written = pa.Table.from_arrays(arrays, names=list(rows.columns))
    stream = io.BytesIO()
    if form is Format.PARQUET:
        write_parquet(written, stream)
    else:
        write_arrow(written, stream, piped=piped)
    return stream.getvalue()
