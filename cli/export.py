"""``lanemap export``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import LanemapError, __version__
from ..db.files import atomically
from ..db.notation import NOTATIONS
from .app import DISAGREES, app, complain, open_database
from .options import Db, Exported, Major, Selector, SomeInstruction, SomeRole, SomeShape, SomeSource, SomeType
from .output import binary_stdout

if TYPE_CHECKING:
    from ..db.lookup import Query
    from ..db.reader import Reader


@app.command(epilog="Example: lanemap export --format parquet --output layouts.parquet --shape m16n8k16")
def export(
    format: Exported = None,  # noqa: A002
    output: Annotated[str, typer.Option("--output", "-o", help="A file, or - for stdout.", metavar="FILE")] = "-",
    source: SomeSource = None,
    instruction: SomeInstruction = None,
    shape: SomeShape = None,
    type: SomeType = None,  # noqa: A002
    role: SomeRole = None,
    major: Major = None,
    selector: Selector = None,
    db: Db = None,
) -> None:
    """Write the layout table, or a selection of it, to a file that appears whole or not at all.

    A dataset is a folder of Parquet files by source and instruction, which DuckDB, Spark and pandas read as one table.
    A notation is of one source, by default the one that look-ups read; each fragment is evaluated again and compared
    with its rows. Exit code 1: the notation cannot express some; 2: any.
    """
    from ..db.lookup import Query

    query = Query(shape, type, role, instruction, major, selector, source)
    with open_database(db) as database:
        if format and format in NOTATIONS:
            from .notating import export as write_notation

            refused = write_notation(database.reader, query, format, output)
            for error in refused:
                complain(f"{format} cannot express {error}")
            if refused:
                raise typer.Exit(DISAGREES)
            return
        _write(database.reader, query, format, output)


_ENDINGS = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow", ".feather": "arrow", ".jsonl": "jsonl"}


def _write(reader: Reader, query: Query, form: str | None, output: str) -> None:
    """Write the rows that match to a file, or to stdout for ``-``; a dataset to a folder."""
    if form == "dataset":
        from ..db.dataset import write_dataset

        if output == "-":
            raise LanemapError("a dataset is a folder: name it with --output, as in --output layouts")
        write_dataset(reader, query, Path(output), __version__)
        return
    from ..db.export import WRITERS, layout_table

    name = form or _form(output)
    table = layout_table(reader, query, __version__)
    if output == "-":
        stream = binary_stdout(name) if name in ("parquet", "arrow") else sys.stdout.buffer
        WRITERS[name](table, stream)
        stream.flush()
        return
    with atomically(Path(output)) as stream:
        WRITERS[name](table, stream)


def _form(output: str) -> str:
    if output == "-":
        return "csv"
    ending = Path(output).suffix.lower()
    if ending not in _ENDINGS:
        raise LanemapError(f"cannot tell the format of {output!r}: say --format parquet, csv, arrow or jsonl")
    return _ENDINGS[ending]
