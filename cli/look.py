"""What is looked up: ``lanemap find``, ``show``, ``list`` and ``sql``."""

import re
import sys
from enum import StrEnum
from typing import Annotated, Any, Unpack

import typer

from .. import DEFAULT_SOURCE, Database, Fragments, LanemapError, Place, Query, Rows, Where, Which
from .app import app, complain, narrow, open_database, opened, remark, room, write_answer, write_rows
from .options import By, Format, Operand


@app.command(epilog="Example: lanemap find m16n8k16 f16 A --row 9 --col 3")
def find(
    operand: Operand,
    terms: bool = False,
    format: Format = Format.TABLE,
    db: str | None = None,
    **where: Unpack[Where],
) -> None:
    """Find the slot of a cell, or the cell of a slot.

    A cell is --row and --col, and a slot is --lane, --reg and --slot; some of them will do. The instruction may be one
    name: a PTX mnemonic as it stands in a kernel, an opcode such as HMMA.16816.F32.BF16, or an atom of CuTe. Then only
    ROLE follows. C and D are found by the type of A, too.

    With --terms it lists, by k, the slots that are multiplied and added up in --row and --col of D.
    """
    which: dict[str, Any] = {**where}
    place = {name: which.pop(name) for name in Place.__annotations__}
    with open_database(db) as database:
        query = Query.parse(operand, **which)
        if terms:
            if query.parameters()["role"] not in (None, "D") or place["row"] is None or place["col"] is None:
                raise LanemapError("--terms are of an element of D: name D, --row and --col")
            found = database.terms(query, place["row"], place["col"])
            remark(found.remarks)
            write_answer(found, format)
            return
        fragments = database.operand(query)
        if all(value is None for value in place.values()):
            words = "say where to look: --row and --col, or --lane, --reg and --slot, or some of them"
            raise LanemapError(f"{words}; lanemap show draws the whole operand")
        remark(fragments.remarks)
        rows = fragments.rows(**place)
        if not rows.rows:
            asked = " and ".join(f"{name} {value}" for name, value in place.items() if value is not None)
            remark([f"no element of {fragments[0]} has {asked}: leave one out to see what there is"])
            if format is Format.TABLE:
                return
        write_rows(narrow(rows) if format is Format.TABLE else rows, format)


@app.command(epilog="Example: lanemap show m16n8k16 f16 A --by lane")
def show(
    operand: Operand,
    by: By = By.ELEMENT,
    lane: Annotated[int | None, "Only what this lane holds, as a table."] = None,
    whole: bool = False,
    format: Format = Format.TABLE,
    db: str | None = None,
    **which: Unpack[Which],
) -> None:
    """Show an operand, or all operands of an instruction.

    An operand is drawn with its formula and where that stands: by element, a cell is lane:reg.slot; by lane, it is
    row,col. Neighbours that follow each other are drawn as one.

    In a list of operands, matrix is rows x columns; a lane has regs registers of so many bits, with slots elements in
    each. Below it, rows are the elements that look-ups show; a verdict says how those of another source compare with
    them, figure-only is what a source has in a figure and no formula, unstated what it has in neither, and impossible
    what puts two elements in one place.
    """
    query = Query.parse(operand, **which)
    with open_database(db) as database:
        fragments = database.show(query) if lane is None else database.operand(query, rows=False)
        if not isinstance(fragments, Fragments):
            write_answer(fragments, format)
            return
        remark(fragments.remarks)
        if format is Format.TABLE and lane is None:
            from ..db.render import terminal

            terminal.show(fragments, by, room(), whole=whole)
            database.operand(query)  # a figure alone is no answer
            return
        rows = database.operand(query).rows(lane=lane)
        write_rows(narrow(rows) if format is Format.TABLE else rows, format)


#: What there is to list.
What = StrEnum("What", ["FRAGMENTS", "SOURCES", "ERRATA", "FINDINGS"])


@app.command("list", epilog="Example: lanemap list --shape m16n8k16 --role A")
def list_(
    what: Annotated[What, typer.Argument(help="What to list.", metavar="WHAT", case_sensitive=False)] = What.FRAGMENTS,
    source: Annotated[
        str | None, f"Only this source, or all. Default: of fragments and errata {DEFAULT_SOURCE}, the best evidence."
    ] = None,
    instruction: str | None = None,
    shape: str | None = None,
    type: list[str] | None = None,
    role: str | None = None,
    vendor: Annotated[str | None, "Only instructions of this vendor."] = None,
    format: Format = Format.TABLE,
    db: str | None = None,
) -> None:
    """List fragments, sources, errata, or findings of checks.

    A fragment is one operand of an instruction as one source has it. Without --instruction, --shape, --type or --role a
    table has a line per instruction; with one of them, and in other formats, a row per operand. regs is how many
    registers of a lane hold it, and slots how many elements each of these has; of says which selector, major or
    qualifiers it is of. status is how the source knows it; a figure-only fragment has a figure and no rows, and an
    unstated one not even a figure. Rows are elements: lane, reg, slot and the row and col that they hold. Findings are
    what is wrong in the rows of a fragment.
    """
    filters = {"instruction": instruction, "shape": shape, "type": type, "role": role}
    if what is What.SOURCES and (named := [name for name, value in {**filters, "vendor": vendor}.items() if value]):
        raise LanemapError(f"--{named[0]} is not for sources: list fragments --{named[0]} says what a source has of it")
    queries = [Query(shape, type_, role, instruction, source=source, vendor=vendor) for type_ in type or (None,)]
    with open_database(db) as database:
        if what is What.SOURCES:
            rows = sources(database, *queries)
        elif what is not What.FRAGMENTS:
            rows = database.list(what, *queries)
        elif format is Format.TABLE and not any(filters.values()):
            rows = database.list("instructions", *queries)
            drawn = "without_rows counts figure-only and unstated fragments"
            remark(["one line per instruction: --instruction, --shape, --type or --role lists operands", drawn])
        else:
            rows = database.list("operands", *queries)
        write_rows(_compact(rows) if format is Format.TABLE else rows, format)


def sources(database: Database, *queries: Query) -> Rows:
    """What to print of the sources that match."""
    columns = ("name", "kind", "fragments", "without_rows", "findings", "title")
    records = database.list("sources", *queries).records()
    return Rows(columns, [tuple(record[name] for name in columns) for record in records])


def _compact(listed: Rows) -> Rows:
    """Rows for reading: no empty columns; of an operand no section, and one column for what tells it from others."""
    if "section" not in listed.columns or "roles" not in listed.columns:
        return listed.filled()
    rows = [(*row[:4], " ".join(map(str, filter(None, row[4:7]))) or None, *row[7:10]) for row in listed.rows]
    return Rows((*listed.columns[:4], "of", *listed.columns[7:10]), rows).filled()


@app.command(epilog="Example: lanemap sql 'SELECT role, COUNT(*) FROM layout GROUP BY role'")
def sql(
    query: Annotated[str, typer.Argument(help="One SELECT, or - to read it from stdin.", metavar="QUERY")],
    format: Format = Format.TABLE,
    output: str = "-",
    seconds: float = Database.SECONDS,
    rows: int = Database.ROWS,
    db: str | None = None,
) -> None:
    """Run a query, usually on the view layout.

    It cannot write to the database. layout has the rows of every source, with the columns shape, type, role, lane,
    reg, slot, row, col, col_last, instruction, major, computation, selector, qualifiers, source and first_bit.

    form has one row per mnemonic, with instruction, shape, opcode, atom, target and ptx; operand the type, major and
    qualifiers of each role of a mnemonic; instruction the name, vendor and threads. They join layout by the columns of
    the same names.
    """
    with open_database(db) as database, opened(output) as file:
        text = sys.stdin.read() if query == "-" else query
        result = database.select(text, seconds=seconds, rows=rows)
        if re.search(r"\blayout\b", text, re.IGNORECASE) and not re.search(r"\bsource", text, re.IGNORECASE):
            every, choice = ", ".join(database.names("source")), f"WHERE source = '{database.documents[0]}' takes one"
            complain(f"layout has the rows of every source: {every}; {choice}")
        write_rows(result, format, file)
