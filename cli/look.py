"""What is looked up: ``lanemap find``, ``show``, ``list`` and ``sql``."""

import re
import sys
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, Unpack

import typer

from .. import ROWS, SECONDS, Database, Fragment, LanemapError, Rows, Summary, instructions, listing, lookup, names
from .app import app, complain, narrow, open_database, remark, room, without_empty, write_rows
from .options import By, Format, Operand


@app.command(epilog="Example: lanemap find m16n8k16 f16 A --row 9 --col 3")
def find(operand: Operand, format: Format = Format.TABLE, db: str | None = None, **where: Unpack[lookup.Where]) -> None:
    """Find the slot that holds a cell, or the cell that a slot holds.

    A cell is --row and --col, and a slot is --lane, --reg and --slot; some of them will do. The instruction may be one
    name: a PTX mnemonic as it stands in a kernel, an opcode such as HMMA.16816.F32.BF16, or an atom of CuTe. Then only
    ROLE follows. C and D are found by the type of A, too.
    """
    place, which = lookup.apart(where)
    if all(value is None for value in place.values()):
        raise LanemapError("say where to look: --row and --col, or --lane, --reg and --slot, or some of them")
    query = names.operand(operand, **which)
    with open_database(db) as database:
        fragments = database.operand(query)
        remark(lookup.remarks(query, fragments))
        found = lookup.rows(fragments, **place)
        write_rows(narrow(found) if format is Format.TABLE else found, format)


@app.command(epilog="Example: lanemap show m16n8k16 f16 A --by lane")
def show(
    operand: Operand,
    by: By = By.ELEMENT,
    lane: Annotated[int | None, "Only what this lane holds, as a table."] = None,
    whole: bool = False,
    format: Format = Format.TABLE,
    db: str | None = None,
    **which: Unpack[names.Which],
) -> None:
    """Show an operand, or without ROLE all operands of an instruction.

    An operand is drawn with its formula and where that stands: by element, a cell is lane:reg.slot; by lane, it is
    row,col. Neighbours that follow each other are drawn as one.

    In a list of operands, matrix is rows x columns; a lane has regs registers of so many bits, with slots elements in
    each. Below it, rows are the elements that look-ups show; a verdict says how those of another source compare with
    them, and figure-only is what a source only draws.
    """
    query = names.operand(operand, **which)
    with open_database(db) as database:
        if query.parameters()["role"] is None and lane is None:
            _write(database.summary(query), format)
            return
        fragments = database.operand(query, rows=False)
        remark(lookup.remarks(query, fragments))
        if format is Format.TABLE and lane is None:
            from .. import terminal

            terminal.show(fragments, by, room(), whole=whole)
            database.operand(query)  # a figure alone is no answer
            return
        found = lookup.rows(database.operand(query), lane=lane)
        write_rows(narrow(found) if format is Format.TABLE else found, format)


def _write(summary: Summary, form: Format) -> None:
    if form is not Format.TABLE:
        write_rows(summary.rows(), form)
        return
    typer.echo("\n".join(map(_line, summary.mnemonics) if summary.mnemonics else [summary.title]) + "\n")
    operands, verdicts = map(without_empty, summary.tables())
    write_rows(operands, form)
    typer.echo()
    write_rows(verdicts, form)


def _line(form: tuple[str, str]) -> str:
    """A mnemonic and its targets, which go into a line of their own where a terminal has no room for both."""
    line = "  ".join(form)
    return line if len(line) <= (room() or len(line)) else "\n    ".join(form)


class What(StrEnum):
    """What there is to list."""

    FRAGMENTS = "fragments"
    SOURCES = "sources"
    ERRATA = "errata"
    FINDINGS = "findings"


@app.command("list", epilog="Example: lanemap list --shape m16n8k16 --role A")
def list_(
    what: Annotated[What, typer.Argument(help="What to list.", metavar="WHAT", case_sensitive=False)] = What.FRAGMENTS,
    source: Annotated[
        str | None, f"Only this source, or all. Fragments and errata default to {names.DEFAULT_SOURCE}."
    ] = None,
    instruction: str | None = None,
    shape: str | None = None,
    type: list[str] | None = None,
    role: str | None = None,
    format: Format = Format.TABLE,
    db: str | None = None,
) -> None:
    """List fragments, sources, errata, or findings of checks.

    A fragment is one operand of an instruction as one source has it. Without --instruction, --shape, --type or --role a
    table has a line per instruction; with one of them, and in other formats, a row per operand. regs is how many
    registers of a lane hold it, and slots how many elements each of these has; of says which selector, major or
    qualifiers it is of. status is how the source knows it; a figure-only fragment is drawn and has no rows. Rows are
    elements: lane, reg, slot and the row and col that they hold. Findings are what is wrong in the rows of a fragment.
    """
    queries = [names.Query(shape, type_, role, instruction, source=source) for type_ in names.one_or_several(type)]
    filters = instruction, shape, type, role
    with open_database(db) as database:
        if what is What.FRAGMENTS and format is Format.TABLE and not any(filters):
            write_rows(_by_instruction(_matching(database, *queries)), format)
            drawn = "without_rows counts what the source only draws: look-ups take its elements from another source"
            remark(["one line per instruction: --instruction, --shape, --type or --role lists operands", drawn])
        else:
            found = listed(database, what, *queries)
            write_rows(_compact(found) if format is Format.TABLE else found, format)


_SOURCE = ("name", "kind", "fragments", "without_rows", "findings", "title")
_ERRATUM = ("source", "instruction", "shape", "type", "role", "section", "erratum", "evidence")
_ALIKE = ("instruction", "shape", "major", "registers", "slots", "status")


def listed(database: Database, what: What, *queries: names.Query) -> Rows:
    """The rows to print: fragments and errata of the source that look-ups read, unless another is named."""
    if what is What.FINDINGS:
        return database.listing("findings", *queries)
    if what is What.FRAGMENTS:
        return _by_operand(_matching(database, *queries))
    if what is What.ERRATA:
        said = [vars(fragment) | fragment.citation._asdict() for fragment in _matching(database, *queries)]
        return Rows(_ERRATUM, [tuple(record[name] for name in _ERRATUM) for record in said if record["erratum"]])
    query = queries[0]
    if named := [name for name in ("instruction", "shape", "type", "role") if getattr(query, name) is not None]:
        raise LanemapError(f"--{named[0]} is not for sources: list fragments --{named[0]} says what a source has of it")
    there = None if query.source is None else {fragment.source for fragment in database.matching(query)}
    records = [record for record in database.listing("sources").records() if there is None or record["name"] in there]
    return Rows(_SOURCE, [tuple(record[name] for name in _SOURCE) for record in records])


def _matching(database: Database, *queries: names.Query) -> list[Fragment]:
    """The fragments of the source that look-ups read, unless another is named, with block scales last."""
    asked = [replace(query, source=names.DEFAULT_SOURCE) if query.source is None else query for query in queries]
    return sorted(database.matching(*asked), key=lambda each: each.role.startswith("SF"))


def _by_instruction(fragments: list[Fragment]) -> Rows:
    rows = []
    for name, group in listing.grouped(fragments, lambda fragment: fragment.instruction).items():
        shapes, drawn = {fragment.shape for fragment in group}, sum(not fragment.has_rows for fragment in group)
        rows.append((name, _distinct(group, "role"), len(shapes), _distinct(group, "type"), len(group), drawn))
    return Rows(("instruction", "roles", "shapes", "types", "fragments", "without_rows"), rows)


def _by_operand(fragments: list[Fragment]) -> Rows:
    """One row for the roles, types and selectors that a section treats alike."""

    def alike(each: Fragment) -> tuple[Any, ...]:
        kind, apart = "CD" if each.role in "CD" else each.role, instructions.undecided(each.qualifiers)
        return kind, apart, *(getattr(each, name) for name in _ALIKE), each.citation.section

    rows = []
    for (_, _, instruction, shape, major, *rest), group in listing.grouped(fragments, alike).items():
        roles, types, selectors = (_distinct(group, name) for name in ("role", "type", "selector"))
        qualifiers = instructions.choices(fragment.qualifiers for fragment in group)
        rows.append((instruction, shape, roles, types, selectors, major, qualifiers, *rest))
    columns = "instruction shape roles types selectors major qualifiers regs slots status section"
    return Rows(tuple(columns.split()), rows)


def _distinct(group: list[Fragment], name: str) -> str | None:
    values = dict.fromkeys(str(getattr(fragment, name)) for fragment in group if getattr(fragment, name) is not None)
    return " ".join(values) or None


def _compact(found: Rows) -> Rows:
    """Rows for reading: no empty columns; of a fragment no section, and one column for what tells it from others."""
    if "roles" not in found.columns:
        return without_empty(found)
    rows = [(*row[:4], " ".join(map(str, filter(None, row[4:7]))) or None, *row[7:10]) for row in found.rows]
    return without_empty(Rows((*found.columns[:4], "of", *found.columns[7:10]), rows))


@app.command(epilog="Example: lanemap sql 'SELECT role, COUNT(*) FROM layout GROUP BY role'")
def sql(
    query: Annotated[str, typer.Argument(help="One SELECT, or - to read it from stdin.", metavar="QUERY")],
    format: Format = Format.TABLE,
    output: str = "-",
    seconds: float = SECONDS,
    rows: int = ROWS,
    db: str | None = None,
) -> None:
    """Run a query, usually on the view layout.

    It cannot write to the database. layout has the rows of every source, with the columns shape, type, role, lane,
    reg, slot, row, col, col_last, instruction, major, computation, selector, qualifiers, source and first_bit.

    form has one row per mnemonic, with instruction, shape, opcode, atom, target and ptx; operand the type, major and
    qualifiers of each role of a mnemonic; instruction the name, vendor and threads. They join layout by the columns of
    the same names.
    """
    with open_database(db) as database:
        text = sys.stdin.read() if query == "-" else query
        found = database.select(text, seconds=seconds, rows=rows)
        if re.search(r"\blayout\b", text, re.IGNORECASE) and not re.search(r"\bsource", text, re.IGNORECASE):
            every, one = ", ".join(database.names("source")), f"WHERE source = '{names.DEFAULT_SOURCE}' takes one"
            complain(f"layout has the rows of every source: {every}; {one}")
        write_rows(found, format, output)
