"""``lanemap chain``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import DEFAULT_SOURCE, Database, LanemapError, Query
from ..db import lookup, names
from ..db.reader import Rows
from ..db.spans import spans
from .app import DISAGREES, app, open_database
from .options import Db, Format, Output, Source, chain_word
from .output import remark, table, write_rows

if TYPE_CHECKING:
    from ..db.chain import Chain
    from ..db.recipe import Recipe, Transposed


@app.command(epilog="Example: lanemap chain m16n8k16 f32 D m16n8k16 f16 A")
def chain(  # over 40 lines: most of them are its options
    operand: Annotated[
        list[str],
        typer.Argument(
            metavar="OPERAND [OPERAND]",
            help="A D, and an A or B: each a SHAPE, TYPE and ROLE, or a name. Or m8n8 b16 r of a matrix move.",
            autocompletion=chain_word,
        ),
    ],
    transpose: Annotated[bool, typer.Option("--transpose", "-t", help="Take D transposed.")] = False,
    relabel: Annotated[bool, typer.Option("--relabel", "-k", help="Renumber K where that avoids movement.")] = False,
    first: Annotated[
        str | None, typer.Option("--first", help="The instruction, where several have the first.", metavar="NAME")
    ] = None,
    second: Annotated[
        str | None, typer.Option("--second", help="The instruction, where several have the second.", metavar="NAME")
    ] = None,
    major: Annotated[
        str | None,
        typer.Option("--major", "-m", help="row or col: of m8n8k4 f16, or of the tile in memory.", metavar="MAJOR"),
    ] = None,
    count: Annotated[
        int,
        typer.Option(
            "--count", "-n", help="Neighbours to load or store together: A along M, others along N.", metavar="N"
        ),
    ] = 1,
    source: Source = DEFAULT_SOURCE,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Say how D of one instruction becomes A or B of the next.

    It can be A or B as it is, or lanes must exchange what the answer lists. Tiles of D are put together, or D is cut,
    to fit. A table is by register, other formats are by element. Without a second operand, it lists every A and B that
    D can be without a move between lanes. Exit code 0: no value moves to another lane; 1: some do.

    m8n8 b16 r as the first operand is ldmatrix, and as the second stmatrix: then the answer is the address in a tile
    of shared memory that each lane passes.
    """
    from ..db.chain import Movement, relabelled

    given, *taken = names.operands(operand)
    if len(taken) > 1:
        raise LanemapError(f"name two operands, as in m16n8k16 f32 D m16n8k16 f16 A: these are {1 + len(taken)}")
    d = names.operand(given, instruction=first, source=source)
    if taken and (moved := _moved(d, names.operand(taken[0], instruction=second, source=source))):
        with open_database(db) as database:
            _write_recipes(database, *moved, [major] if major else ["row", "col"], count, format)
        return
    if count != 1:
        raise LanemapError("--count is for what a matrix move loads or stores: write m8n8 b16 r for ldmatrix")
    with open_database(db) as database:
        if not taken:
            every = Query(instruction=second, major=major, source=source)
            _write_chains(database.chains(d, every), format, relabel=relabel)
            return
        query = names.operand(taken[0], instruction=second, major=major, source=source)
        plain = database.chain(d, query, transposed=transpose)
        through = None if plain.movement is Movement.NONE else database.through_movmatrix(plain)
    said = [line for asked, end in ((d, plain.first), (query, plain.second)) for line in lookup.remarks(asked, [end])]
    remark(dict.fromkeys(said))
    renumbered = relabelled(plain)
    shown = renumbered if relabel and renumbered else plain
    _write_chain(shown, renumbered, through, format)
    if shown.movement is not Movement.NONE:
        raise typer.Exit(DISAGREES)


def _moved(first: Query, second: Query) -> tuple[Query, Query] | None:
    """The move and the operand, of two that are not a D and an A or B; None where neither is a matrix move."""
    for move, operand, name in ((first, second, "ldmatrix"), (second, first, "stmatrix")):
        if move.parameters()["role"] == "r":
            return replace(move, instruction=move.instruction or name), operand
    return None


def _write_recipes(
    database: Database, move: Query, operand: Query, majors: Sequence[str], count: int, form: Format
) -> None:
    """What each lane passes for a tile of each major, or why there is no recipe for one of them.

    Raises:
        LanemapError: there is a recipe for none of them.
    """
    found, failed = [], []
    for major in majors:
        try:
            found.append(database.recipe(move, operand, major=major, count=count))
        except LanemapError as error:
            failed.append(error)
    if not found:
        raise failed[0]
    if form is Format.TABLE:
        texts = ["\n".join(recipe_lines(each)) + "\n" for each in found] + [f"{each}\n" for each in failed]
        sys.stdout.write("\n".join(texts))
        return
    remark(map(str, failed))
    rows = [each.rows() for each in found]
    write_rows(replace(rows[0], rows=[row for each in rows for row in each.rows]), form)


def recipe_lines(found: Recipe) -> Iterator[str]:
    """A recipe as lines: each move with its addresses and registers, then the matrices of each."""
    from ..db.recipe import formula, mnemonic

    (lines, width), line = found.tile, "row" if found.major == "row" else "column"
    loads = found.moves[0].instruction == "ldmatrix"
    named = f"what is kept of {found.operand}" if found.operand.windowed else str(found.operand)
    yield f"{named} {'from' if loads else 'to'} a {line}-major tile of {lines} {line}s of {width} bytes"
    yield f"source:  {', '.join(dict.fromkeys(str(each.source) for each in (found.operand, *found.moves)))}"
    if found.count > 1:
        along = "along M" if found.operand.role == "A" else "along N"
        yield f"count:   {found.count} neighbours {along}; registers of each follow those of the one before"
    if found.packed:
        yield "first:   convert each element to 16 bits, registers 2 i and 2 i + 1 into the halves of register i"
    packed, matrices = "packed " if found.packed else "", []
    for step, passed in groupby(found.addresses, key=lambda each: each.step):
        addresses = list(passed)
        regs = sorted({each.reg for each in addresses})
        move = found.moves[step]
        yield f"move {step}:  {mnemonic(move)}, registers {spans(regs)} of {packed}{found.operand.role}"
        yield f"{line + ':':<8} {formula(addresses, 'line')}"
        yield f"byte:    {formula(addresses, 'byte')}"
        length = move.dimensions[1] * move.slot_bits // 8
        for (matrix, reg), tile in groupby(sorted(addresses), key=lambda each: (each.matrix, each.reg)):
            held = list(tile)
            bytes_ = spans(first + byte for first in {each.byte for each in held} for byte in range(length))
            matrices.append((step, matrix, reg, spans(each.line for each in held), bytes_))
    yield ""
    yield table(Rows(("move", "matrix", "register", f"{line}s", "bytes"), matrices)).rstrip("\n")


_TILES = ("tile_row", "tile_col", "from_tile_row", "from_tile_col")
_SUMMARY = (
    *("tile_row", "tile_col", "reg", "slot", "from_tile_row", "from_tile_col"),
    *("from_reg", "from_slot", "lanes", "from_lanes"),
)


def _write_chain(shown: Chain, renumbered: Chain | None, through: Sequence[Transposed] | None, form: Format) -> None:
    """The verdict and where each register comes from; in other formats than the table, every move.

    Args:
        shown: what to print.
        renumbered: the same with K numbered so that nothing moves, where there is such a numbering.
        through: the registers that movmatrix makes, where it can make all.
        form: how.
    """
    from ..db.chain import Movement, summary

    if form is not Format.TABLE:
        write_rows(shown.rows(), form)
        return
    sys.stdout.writelines(line + "\n" for line in _verdict(shown, renumbered))
    if through and shown.movement is not Movement.NONE:
        packed = ", packed to 16 bits first: 2 i and 2 i + 1 into i" if shown.first.slot_bits > 16 else ""
        sys.stdout.write(f"movmatrix: makes each register of {shown.second.role} of one of D{packed}\n\n")
        sys.stdout.write(table(_without_tiles(through[0]._fields, through)))
    groups, threads = list(summary(shown.moves)), shown.second.threads
    step = _step(groups, threads)
    sys.stdout.write("\n" + table(_by_register(groups, step)))
    if step < threads:
        again = f"Lanes {step}-{threads - 1} repeat lanes 0-{step - 1}"
        sys.stdout.write(f"\n{again}: from_lanes are {step} higher with every {step} lanes.\n")


def _write_chains(found: Sequence[Chain], form: Format, *, relabel: bool) -> None:
    """The operands that a D can be without a move between lanes; with ``relabel``, also where K is renumbered."""
    from ..db.chain import Movement, relabelled

    rows = []
    for plain in found:
        still = plain if plain.movement is Movement.NONE else relabelled(plain) if relabel else None
        if still is not None:
            registers = "as they are" if still.registers_stay else "converted or packed"
            order = "renumbered" if still.order else "as it is"
            rows.append((*plain.second.key[:5], int(plain.transposed), order, registers))
    columns = ("instruction", "shape", "type", "role", "major", "transposed", "K", "registers")
    write_rows(Rows(columns, rows), form)


def _verdict(shown: Chain, renumbered: Chain | None) -> Iterator[str]:
    from ..db.chain import Movement

    given, taken = shown.first, shown.second
    yield f"{given}{', transposed,' if shown.transposed else ''} as {taken}: {shown.movement}"
    yield f"source: {', '.join(dict.fromkeys(str(end.source) for end in (given, taken)))}"
    (down, across), (parts_down, parts_across) = shown.tiles
    role = shown.second.role
    if down * across > 1:
        yield f"tiles:  {down} x {across} D make {_count(parts_down, parts_across)} {role}"
    elif parts_down * parts_across > 1:
        yield f"tiles:  one D makes {_count(parts_down, parts_across)} {role}"
    if shown.order:
        other = "rows of B" if role == "A" else "columns of A"
        yield f"K:      renumbered: give the second instruction the {other} in the order"
        yield f"        {' '.join(map(str, shown.order))}"
    elif shown.movement is not Movement.NONE:
        whole = " by whole chunks of A" if shown.second.instruction == "mma.sp" else ""
        none = f"no order of K{whole} avoids the movement"
        yield "K:      " + ("renumbered, nothing moves between lanes: --relabel shows it" if renumbered else none)
    elif shown.registers_stay:
        yield "registers: taken as they are"
    else:
        yield "registers: each lane converts or packs its own"


def _count(down: int, across: int) -> str:
    return "one" if down * across == 1 else f"{down} x {across}"


#: A slot and the slot of D that it takes its value from, and the lanes that do so, each with the lane that gives it.
_Group = tuple[tuple[int, ...], list[tuple[int, int]]]


def _step(groups: Sequence[_Group], threads: int) -> int:
    """After how many lanes all repeats, with lanes as many higher; all lanes where it does not, or where none moves."""
    if all(lane == origin for _, lanes in groups for lane, origin in lanes):
        return threads

    def repeats(step: int) -> bool:
        return all(
            {(lane + step, origin + step) for lane, origin in lanes if lane + step < threads}
            == {pair for pair in lanes if pair[0] >= step}
            for _, lanes in groups
        )

    return next((step for step in (4, 8, 16, 32, 64) if step < threads and repeats(step)), threads)


def _by_register(groups: Sequence[_Group], step: int) -> Rows:
    """A row for each group, with its lanes below ``step``."""
    rows: list[tuple[Any, ...]] = []
    for place, lanes in groups:
        shown = [(lane, origin) for lane, origin in lanes if lane < step]
        same = all(lane == origin for lane, origin in shown)
        origins = "same" if same else " ".join(str(origin) for _, origin in shown)
        rows.append((*place, spans(lane for lane, _ in shown).replace(" ", ""), origins))
    return _without_tiles(_SUMMARY, rows)


def _without_tiles(names: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> Rows:
    """Rows without the columns that count tiles of which there is one."""
    return Rows(names, rows).only(lambda name, values: name not in _TILES or set(values) != {0})
