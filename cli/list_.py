"""``lanemap list``."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

import typer

from .. import DEFAULT_SOURCE, LanemapError, Query
from ..db import lookup
from ..db.fragment import Fragment
from ..db.grouped import grouped
from ..db.instructions import choices, undecided
from ..db.names import one_or_several
from ..db.reader import Reader, Rows
from .app import app, open_database
from .options import Db, Format, Output, SomeInstruction, SomeRole, SomeShape, SomeTypes, source_names
from .output import without_empty, write_rows


class What(StrEnum):
    """What there is to list."""

    FRAGMENTS = "fragments"
    SOURCES = "sources"
    ERRATA = "errata"
    FINDINGS = "findings"


@app.command("list", epilog="Example: lanemap list --shape m16n8k16 --role A")
def list_(
    what: Annotated[What, typer.Argument(help="What to list.", case_sensitive=False)] = What.FRAGMENTS,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            "-s",
            help=f"Only this source, or all. Fragments and errata default to {DEFAULT_SOURCE}.",
            metavar="SOURCE",
            autocompletion=source_names,
        ),
    ] = None,
    instruction: SomeInstruction = None,
    shape: SomeShape = None,
    type: SomeTypes = None,  # noqa: A002
    role: SomeRole = None,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """List fragments, sources, errata, or what structural checks found."""
    queries = [Query(shape, each, role, instruction, source=source) for each in one_or_several(type)]
    with open_database(db) as database:
        found = listing(database.reader, what, *queries)
        write_rows(_compact(found) if format is Format.TABLE else found, format)


_SOURCE = ("name", "kind", "fragments", "without_rows", "findings", "title")
_ERRATUM = ("source", "instruction", "shape", "type", "role", "section", "erratum", "evidence")
_ALIKE = ("instruction", "shape", "major", "registers", "slots", "status", "section")


def listing(reader: Reader, what: What, *queries: Query) -> Rows:
    """The rows to print: fragments and errata of the source that look-ups read, unless another is named."""
    if what is What.SOURCES:
        return _sources(reader, queries[0])
    if what is What.FINDINGS:
        return lookup.findings(reader, *queries)
    fragments = lookup.fragments(
        reader, *(replace(each, source=DEFAULT_SOURCE if each.source is None else each.source) for each in queries)
    )
    if what is What.ERRATA:
        wrong = [each for each in fragments if each.erratum]
        return Rows(_ERRATUM, [tuple(getattr(each, name) for name in _ERRATUM) for each in wrong])
    return _grouped(fragments)


def _sources(reader: Reader, query: Query) -> Rows:
    named = [name for name in ("instruction", "shape", "type", "role") if getattr(query, name) is not None]
    if named:
        raise LanemapError(f"--{named[0]} is not for sources: list fragments --{named[0]} says what a source has of it")
    there = None if query.source is None else {each.source for each in lookup.fragments(reader, query)}
    records = [each for each in lookup.sources(reader).records() if there is None or each["name"] in there]
    return Rows(_SOURCE, [tuple(record[name] for name in _SOURCE) for record in records])


def _grouped(fragments: list[Fragment]) -> Rows:
    """One row for the roles, types and selectors that a section treats alike."""

    def alike(each: Fragment) -> tuple[Any, ...]:
        kind = "CD" if each.role in "CD" else each.role
        return kind, undecided(each.qualifiers), *(getattr(each, name) for name in _ALIKE)

    rows = []
    for (_, _, instruction, shape, major, *rest), group in grouped(fragments, alike).items():
        roles, types, selectors = (_distinct(group, name) for name in ("role", "type", "selector"))
        qualifiers = choices(each.qualifiers for each in group)
        rows.append((instruction, shape, roles, types, selectors, major, qualifiers, *rest))
    columns = (
        *("instruction", "shape", "roles", "types", "selectors", "major", "qualifiers"),
        *("regs", "slots", "status", "section"),
    )
    return Rows(columns, rows)


#: What tells fragments apart that have the same operand, in a table one column.
_APART = ("selectors", "major", "qualifiers")


def _compact(found: Rows) -> Rows:
    """Rows for reading: without empty columns, and fragments without their section, which ``show`` tells."""
    if "roles" not in found.columns:
        return without_empty(found)
    kept = [name for name in found.columns if name not in (*_APART, "section")]
    rows = []
    for record in found.records():
        apart = " ".join(str(record[name]) for name in _APART if record[name] is not None)
        rows.append((*(record[name] for name in kept[:4]), apart or None, *(record[name] for name in kept[4:])))
    return without_empty(Rows((*kept[:4], "of", *kept[4:]), rows))


def _distinct(group: list[Fragment], name: str) -> str | None:
    values = dict.fromkeys(str(getattr(each, name)) for each in group if getattr(each, name) is not None)
    return " ".join(values) or None
