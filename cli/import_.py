"""``lanemap import``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from operator import itemgetter
from typing import Annotated

import typer

from .. import LanemapError
from ..db.grouped import grouped
from ..db.reader import Rows
from ..ingest.imported import Imported
from ..ingest.importing import IMPORTERS
from .app import app, open_database, progress
from .options import Db, Format, Output
from .output import counted, write_rows

_KINDS = ("capture", *IMPORTERS)


def _kinds(incomplete: str) -> list[str]:
    return [kind for kind in _KINDS if kind.startswith(incomplete.lower())]


Kind = Annotated[str, typer.Argument(metavar="KIND", help=f"What to read: {', '.join(_KINDS)}.", autocompletion=_kinds)]


@app.command("import", epilog="Example: lanemap import python triton")
def import_(
    kind: Kind,
    path: Annotated[
        str | None, typer.Argument(help="A file or folder, or a mapping's name; tensor-layouts needs none.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", "-n", help="What to call the source.", metavar="NAME")] = None,
    python: Annotated[
        str | None, typer.Option("--python", help="The Python that has the library of a mapping.", metavar="PATH")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the mappings that ship.")] = False,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Load the layouts of another toolchain, a table or a capture.

    cute is a CUTLASS source tree or header; table is CSV, Parquet or Arrow with the first eight columns of layout;
    python is a mapping, a TOML file that names layout functions and what each claims. What could not be loaded is
    listed with the reason: counted in a table, and by name in other formats.
    """
    if show:
        list_mappings(kind, format)
        return
    with open_database(db) as database:
        found = database.import_layouts(kind.lower(), path, name=name, python=python, progress=progress)
    write_imported(found, format)


def list_mappings(kind: str, form: Format) -> None:
    """The mappings that ship, with the versions that each was seen to work with.

    Raises:
        LanemapError: the kind has no mappings.
    """
    from ..ingest.python import shipped

    if kind.lower() != "python":
        raise LanemapError(f"{kind} has no mappings: lanemap import python --list")
    rows = [(each.path.stem, each.library, each.package, " ".join(each.seen)) for each in shipped()]
    write_rows(Rows(("mapping", "library", "package", "seen"), rows), form)


def write_imported(found: Sequence[Imported], form: Format) -> None:
    """A line for each source, which is not part of the rows, then what was left out, and what is wrong in the rest.

    As a table it has one line for each reason, because a header has hundreds of atoms that share one.
    """
    stream = sys.stdout if form is Format.TABLE else sys.stderr
    for each in found:
        held = f"{counted(len(each.source.fragments), 'fragment')}, {counted(each.rows, 'row')}"
        wrong = f", {counted(len(each.findings), 'finding')}" if each.findings else ""
        stream.write(f"{each.source.name}: {held}; {len(each.skipped)} left out{wrong}\n")
    left_out = [(each.source.name, atom.name, atom.reason) for each in found for atom in each.skipped]
    findings = [(each.source.name, atom.name, atom.reason) for each in found for atom in each.findings]
    if form is not Format.TABLE:
        write_rows(Rows(("source", "name", "reason"), [*left_out, *findings]), form)
        return
    for rows in (_by_reason("left_out", left_out), _by_reason("wrong_in", findings)):
        if rows.rows:
            sys.stdout.write("\n")
            write_rows(rows, form)


def _by_reason(count: str, left_out: Sequence[tuple[str, str, str]]) -> Rows:
    groups = grouped(left_out, itemgetter(2))
    rows = [(len(found), reason, found[0][1] + (", ..." if len(found) > 1 else "")) for reason, found in groups.items()]
    return Rows((count, "reason", "name"), rows)
