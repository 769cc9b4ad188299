"""``lanemap ingest``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import LanemapError, Query
from .. import open as open_lanemap
from ..db.fragment import count_elements
from ..db.location import named_file
from ..db.reader import Rows
from .app import DISAGREES, app, open_database, progress
from .list_ import What, listing
from .options import Db, Format, Output
from .output import counted, table, write_rows

if TYPE_CHECKING:
    from ..ingest.document import Reading
    from ..ingest.document.report import Remark


@app.command(epilog="Example: lanemap ingest --db layouts.db")
def ingest(  # over 40 lines with its options
    documents: Annotated[
        list[str] | None,
        typer.Argument(metavar="DOCUMENT", help="Pages of the PTX documentation, or folders of them."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", "-n", help="Name of the source. Default: after the version in the text.", metavar="NAME"
        ),
    ] = None,
    slips: Annotated[bool, typer.Option("--slips", help="List what is wrong or doubtful in the text itself.")] = False,
    catalogue: Annotated[
        str | None, typer.Option("--catalogue", help="Write files of the catalogue to this folder.", metavar="DIR")
    ] = None,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Load PTX documentation as a source.

    It says what could not be read. Documents are HTML, Markdown or plain text, as in lanemap ingest ptx-isa.html
    --slips. Without a document, the sources that ship are loaded again, and other sources stay. Exit code 1: something
    could not be read; 2: nothing could.
    """
    if not documents:
        if name is not None or slips or catalogue is not None:
            raise LanemapError("--name, --slips and --catalogue go with documents: name a file or folder")
        with open_lanemap(db) as database:
            database.refresh(progress=progress)
            write_rows(listing(database.reader, What.SOURCES, Query()), format)
        return
    folder = None if catalogue is None else named_file(catalogue, "a folder for the catalogue")
    with open_database(db) as database:
        readings = database.ingest(*documents, name=name, progress=progress)
    report(readings, slips=slips, form=format)
    if not any(reading.source.fragments for reading in readings):
        raise LanemapError(f"no fragment in {', '.join(documents)}: give pages on the fragments of mma or mma.sp")
    if folder:
        write_catalogue(readings, folder)
    if not all(reading.complete for reading in readings):
        raise typer.Exit(DISAGREES)


_COLUMNS = ("kind", "source", "section", "document", "line", "fragments", "rows", "text", "reason")


def report(readings: Sequence[Reading], *, slips: bool, form: Format) -> None:
    """Print what documents came to: for reading, or as one row per section and remark."""
    if form is not Format.TABLE:
        write_rows(Rows(_COLUMNS, [row for reading in readings for row in _rows(reading, slips=slips)]), form)
        return
    for reading in readings:
        sys.stdout.write(_words(reading, slips=slips))


def write_catalogue(readings: Sequence[Reading], folder: Path) -> None:
    """Write the files of the catalogue: into the folder, or where there are several sources into one for each."""
    from ..db.files import make_folder

    if len(readings) > 1:
        make_folder(folder)
    for reading in readings:
        target = folder if len(readings) == 1 else folder / reading.source.name
        written = counted(reading.write(target), "section")
        sys.stderr.write(f"lanemap: {written} of {reading.source.name} in {target}\n")


def _words(reading: Reading, *, slips: bool) -> str:
    from ..ingest.document.report import Kind

    fragments = reading.source.fragments
    sections = [(place.name, count, elements, place.heading.title) for place, count, elements in reading.counts]
    counts = (len(sections), "section"), (len(fragments), "fragment"), (count_elements(fragments), "row")
    lines = [f"{reading.source.name}: {', '.join(counted(*each) for each in counts)}", ""]
    if sections:
        lines += table(Rows(("section", "fragments", "rows", "title"), sections)).splitlines()
        lines.append("")
    kinds = Counter(remark.kind for remark in reading.remarks)
    shown = [remark for remark in reading.remarks if slips or remark.kind is not Kind.SLIP]
    lines += [_line(remark) for kind in Kind for remark in shown if remark.kind is kind]
    if kinds[Kind.SLIP] and not slips:
        lines.append(f"{kinds[Kind.SLIP]} slips and doubts in the text: --slips lists them")
    return "\n".join(lines).rstrip() + "\n"


def _line(remark: Remark) -> str:
    from ..ingest.document.report import Kind

    where = f"{remark.file}:{remark.line}"
    if remark.kind is Kind.LATER:
        return f"{remark.kind.value}: {remark.text} ({where})"
    return f"{remark.kind.value}: {remark.section} ({where}): {remark.reason}: {remark.text}"


def _rows(reading: Reading, *, slips: bool) -> list[tuple[Any, ...]]:
    from ..ingest.document.report import Kind

    name = reading.source.name
    rows: list[tuple[Any, ...]] = [
        ("section", name, place.name, place.file, place.heading.line, count, elements, place.heading.title, None)
        for place, count, elements in reading.counts
    ]
    return rows + [
        (each.kind.value, name, each.section, each.file, each.line, None, None, each.text, each.reason or None)
        for each in reading.remarks
        if slips or each.kind is not Kind.SLIP
    ]
