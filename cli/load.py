"""Loading and removing sources: ``lanemap ingest``, ``import`` and ``remove``."""

import sys
from collections.abc import Sequence
from operator import itemgetter
from typing import Annotated

import typer

from .. import IMPORTERS, Imported, LanemapError, Rows, named_file, shipped_mappings, shipped_names
from .. import open as open_lanemap
from ..db.store import files
from ..db.text import counted, grouped
from .app import DISAGREES, OK, app, open_database, progress, write_rows
from .look import sources
from .options import Format, argument, source_names


@app.command(epilog="Example: lanemap ingest --db layouts.db")
def ingest(
    documents: Annotated[
        list[str] | None, argument("DOCUMENT", "Pages of the PTX documentation, or folders of them.")
    ] = None,
    name: Annotated[str | None, "Name of the source. Default: after the version in the text."] = None,
    slips: bool = False,
    catalogue: str | None = None,
    format: Format = Format.TABLE,
    db: str | None = None,
) -> int:
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
            write_rows(sources(database), format)
        return OK
    folder = None if catalogue is None else named_file(catalogue, "a folder for the catalogue")
    with open_database(db) as database:
        readings = database.ingest(*documents, name=name, progress=progress)
    if format is Format.TABLE:
        for reading in readings:
            sys.stdout.write(reading.text(slips=slips))
    else:
        tables = [reading.rows(slips=slips) for reading in readings]
        write_rows(Rows(tables[0].columns, [row for rows in tables for row in rows.rows]), format)
    if not any(reading.source.fragments for reading in readings):
        raise LanemapError(f"no fragment in {', '.join(documents)}: give pages on the fragments of mma or mma.sp")
    if folder:
        if len(readings) > 1:
            files.make_folder(folder)
        for reading in readings:
            target = folder if len(readings) == 1 else folder / reading.source.name
            written = counted(reading.write(target), "section")
            sys.stderr.write(f"lanemap: {written} of {reading.source.name} in {target}\n")
    return OK if all(reading.complete for reading in readings) else DISAGREES


_KINDS = ("capture", *IMPORTERS)
_PATH = "A file or folder, or a mapping's name."


def _kinds(_: typer.Context, incomplete: str) -> list[str]:
    return [kind for kind in _KINDS if kind.startswith(incomplete.lower())]


@app.command("import", epilog="Example: lanemap import python triton")
def import_(
    kind: Annotated[str, argument("KIND", f"What to read: {', '.join(_KINDS)}.", _kinds)],
    path: Annotated[str | None, argument("PATH", _PATH)] = None,
    name: str | None = None,
    python: str | None = None,
    listed: Annotated[bool, "List the mappings that ship."] = False,
    format: Format = Format.TABLE,
    db: str | None = None,
) -> int:
    """Load the layouts of another toolchain, a table or a capture.

    cute is a CUTLASS source tree or header; table is CSV, Parquet or Arrow with the first eight columns of layout;
    python is a mapping, a TOML file that names layout functions and what each claims. What could not be loaded is
    listed with the reason: counted in a table, and by name in other formats. Exit code 1: something that a mapping of
    your own claims could not be loaded.
    """
    if listed:
        if kind.lower() != "python":
            raise LanemapError(f"{kind} has no mappings: lanemap import python --list")
        write_rows(shipped_mappings(), format)
        return OK
    with open_database(db) as database:
        imports = database.import_layouts(kind.lower(), path, name=name, python=python, progress=progress)
    _write_imported(imports, format)
    return DISAGREES if any(imported.failed for imported in imports) else OK


def _write_imported(imports: Sequence[Imported], form: Format) -> None:
    """A line for each source, apart from the rows, then what was left out, and what is wrong in the rest.

    A table has one line for each reason, because a header has hundreds of atoms with the same one.
    """
    stream = sys.stdout if form is Format.TABLE else sys.stderr
    for imported in imports:
        held = f"{counted(len(imported.source.fragments), 'fragment')}, {counted(imported.rows, 'row')}"
        wrong = f", {counted(len(imported.findings), 'finding')}" if imported.findings else ""
        stream.write(f"{imported.source.name}: {held}; {len(imported.skipped)} {_LOST[imported.failed]}{wrong}\n")
    left_out = [(imported.source.name, atom.name, atom.reason) for imported in imports for atom in imported.skipped]
    findings = [(imported.source.name, atom.name, atom.reason) for imported in imports for atom in imported.findings]
    if form is not Format.TABLE:
        write_rows(Rows(("source", "name", "reason"), [*left_out, *findings]), form)
        return
    failed = any(imported.failed for imported in imports)
    for count, named in (_LOST[failed].replace(" ", "_"), left_out), ("wrong_in", findings):
        groups = grouped(named, itemgetter(2))
        rows = [(len(group), why, group[0][1] + (", ..." if len(group) > 1 else "")) for why, group in groups.items()]
        if rows:
            sys.stdout.write("\n")
            write_rows(Rows((count, "reason", "name"), rows), form)


#: The words for what was not imported: by a shipped mapping, and by a user's own.
_LOST = ("left out", "failed")


def _added(context: typer.Context, incomplete: str) -> list[str]:
    """A completer for the sources that can be removed."""
    kept = {*shipped_names(), *(context.params.get("sources") or ())}
    return [name for name in source_names(context, incomplete) if name not in kept]


@app.command(epilog="Example: lanemap remove mine")
def remove(
    sources: Annotated[list[str], argument("SOURCE", "As lanemap list sources names it.", _added)],
    db: str | None = None,
) -> None:
    """Remove sources that were imported, captured or ingested.

    What Lanemap ships stays.
    """
    with open_database(db) as database:
        for source in sources:
            database.remove(source)
            sys.stderr.write(f"lanemap: removed {source}\n")
