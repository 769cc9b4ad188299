"""``lanemap chain``."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import DEFAULT_SOURCE, Database, LanemapError, Query
from ..db import lookup, names
from ..db.grouped import grouped
from ..db.instructions import Key
from ..db.reader import Rows
from ..db.spans import spans
from .app import DISAGREES, app, open_database
from .options import Db, Format, Output, Source, next_words
from .output import remark, room, table, write_rows

if TYPE_CHECKING:
    from ..db.chain import Chain
    from ..db.movmatrix import Transposed


def _next_word(context: typer.Context, incomplete: str) -> list[str]:
    """A completer for the words of several operands, one after the other."""
    *_, last = [[], *names.operands(context.params.get("operand") or [])]
    return next_words([] if last and names.is_role(last[-1]) else last, context, incomplete)


@app.command(epilog="Example: lanemap chain m16n8k16 f32 D m16n8k16 f16 A")
def chain(  # over 40 lines: most of them are its options
    operand: Annotated[
        list[str],
        typer.Argument(
            metavar="OPERAND [OPERAND]",
            help="A D, and an A or B: each a SHAPE, TYPE and ROLE, or a name. Or ldmatrix first, or stmatrix last.",
            autocompletion=_next_word,
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
        typer.Option(
            "--major",
            "-m",
            help="row or col: of A or B that has both, or of the tile in memory.",
            metavar="MAJOR",
        ),
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
    to fit. A table is by register, other formats are by element. Of a D alone, it lists every A and B that it can be
    without a move between lanes, and of an A or B every D that can be it. Exit code 0: no value moves to another lane;
    1: some do.

    ldmatrix before an operand loads it, and stmatrix after it stores it: then the answer is the address in a tile of
    shared memory that each lane passes. Either may have qualifiers, as in ldmatrix.x4.
    """
    from ..db.chain import Movement, relabelled

    given, *taken = _operands(operand)
    if len(taken) > 1:
        raise LanemapError(f"name two operands, as in m16n8k16 f32 D m16n8k16 f16 A: these are {1 + len(taken)}")
    d = names.operand(given, instruction=first, source=source)
    if taken and (moved := _moved(d, names.operand(taken[0], instruction=second, source=source))):
        if transpose or relabel:
            raise LanemapError("--transpose and --relabel are for a D and an A or B: say --major how the tile lies")
        with open_database(db) as database:
            _write_recipes(database, *moved, [major] if major else ["row", "col"], count, format)
        return
    if count != 1:
        raise LanemapError("--count is for what ldmatrix loads or stmatrix stores: write ldmatrix before the operand")
    with open_database(db) as database:
        if not taken:
            alone = d.parameters()["role"] in ("A", "B")
            end = replace(d, major=major if alone else None)
            found = database.chains(end, Query(instruction=second, major=None if alone else major))
            found = [each for each in found if each.transposed or not transpose]
            remark(lookup.remarks(end, [found[0].second if alone else found[0].first]) if found else [])
            if alone:
                remark(["a chain ends at an A or B: these D can be it. Write ldmatrix before it to load it"])
            _write_chains(found, format, relabel=relabel, to=alone, source=source)
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


_MOVES = ("ldmatrix", "stmatrix")


def _operands(words: Sequence[str]) -> list[list[str]]:
    """The words of each operand. ``ldmatrix`` before one and ``stmatrix`` after it may be without their role, r."""
    found = names.operands(words)
    if _moves(found[0]):
        found[:1] = [[found[0][0], "r"], *filter(None, [found[0][1:]])]
    if len(found) > 1 and _moves(found[-1]):
        found[-1] = [*found[-1], "r"]
    named = [word.lower() for word in found[1]] if len(found) > 1 else []
    if named[:1] == ["movmatrix"] and named[1:2] not in ([], ["a"], ["m8n8"]):
        raise LanemapError("leave movmatrix out: the answer says what it makes where values must move")
    return found


def _moves(words: Sequence[str]) -> bool:
    return words[0].lower().partition(".")[0] in _MOVES and words[-1].lower() != "r"


def _moved(first: Query, second: Query) -> tuple[Query, Query] | None:
    """The move and the operand, of two that are not a D and an A or B; None where neither is a matrix move.

    Raises:
        LanemapError: both are, or the move is not ldmatrix before its operand or stmatrix after it.
    """
    roles = [each.parameters()["role"] for each in (first, second)]
    if "r" not in roles:
        return None
    if roles == ["r", "r"]:
        raise LanemapError("both are matrix moves: name the A, B, C or D that one of them loads or stores")
    place = roles.index("r")
    move, other = (first, second) if place == 0 else (second, first)
    named = move.name.instruction or _MOVES[place]
    if named not in _MOVES:
        raise LanemapError(f"{named} is not for shared memory: write ldmatrix before an operand, or stmatrix after it")
    if named != _MOVES[place]:
        raise LanemapError("write ldmatrix before what it loads, and stmatrix after what it stores")
    return replace(move, instruction=named), other


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
    remark(lookup.remarks(operand, [found[0].operand]))
    if form is Format.TABLE:
        parts = (str(each).partition("\n\n") for each in (*found, *failed))
        texts = ("\n".join(map(_broken, lines.split("\n"))) + blank + table for lines, blank, table in parts)
        sys.stdout.write("\n\n".join(texts) + "\n")
        return
    remark(map(str, failed))
    rows = [each.rows() for each in found]
    write_rows(replace(rows[0], rows=[row for each in rows for row in each.rows]), form)


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
    sys.stdout.writelines(_broken(line) + "\n" for line in _verdict(shown, renumbered))
    if through and shown.movement is not Movement.NONE:
        packed = ", packed to 16 bits first: 2 i and 2 i + 1 into i" if shown.first.slot_bits > 16 else ""
        sys.stdout.write(
            _broken(f"movmatrix: makes each register of {shown.second.role} from one of D{packed}") + "\n\n"
        )
        sys.stdout.write(table(_without_tiles(through[0]._fields, through), room()))
    groups, threads = list(summary(shown.moves)), shown.second.threads
    step = _step(groups, threads)
    sys.stdout.write("\n" + table(_by_register(groups, step), room()))
    if step < threads:
        again = f"Lanes {step}-{threads - 1} repeat lanes 0-{step - 1}"
        sys.stdout.write(f"\n{again}: from_lanes are {step} higher with every {step} lanes.\n")


def _write_chains(found: Sequence[Chain], form: Format, *, relabel: bool, to: bool, source: str) -> None:
    """The operands that a D can be, or the D that an operand can be (``to``), without a move between lanes.

    With ``relabel``, also where K is renumbered. A table says what differs only in shape or type in one row, and a
    remark which other sources than the one that was asked for have rows.
    """
    from ..db.chain import Movement, relabelled

    rows = []
    for plain in found:
        still = relabelled(plain) if relabel else plain if plain.movement is Movement.NONE else None
        if still is not None:
            other = plain.first if to else plain.second
            order = "renumbered" if still.order else "as it is"
            registers = "as they are" if still.registers_stay else "converted or packed"
            named = *other.key[:5], other.qualifiers
            rows.append((*named, int(plain.transposed), order, registers, other.source))
    if form is not Format.TABLE:
        write_rows(Rows(_LISTED, rows), form)
    elif rows:
        write_rows(_to_read(rows), form)
        others = [name for name in dict.fromkeys(str(row[-1]) for row in rows) if name.lower() != source.lower()]
        remark([f"where {source} has no rows they are from {', '.join(others)}"] if others else [])
    if not rows:
        remark(["nothing is without a move between lanes: name a second operand to see what must move"])
        raise typer.Exit(DISAGREES)


def _to_read(rows: Sequence[tuple[Any, ...]]) -> Rows:
    """A row for operands that differ only in shape, type or source."""
    shown = []
    for instruction, shape, type_, role, major, _, transposed, order, registers, _ in rows:
        one = Key(instruction, shape, type_, role, major)
        several = f"{major} major" if one.several_majors else ""
        how = "transposed" if transposed else "as it stands", order, registers
        shown.append((instruction, shape, type_, role, several, *how))
    for at in (1, 2):
        alike = grouped(shown, lambda row, at=at: (*row[:at], *row[at + 1 :]))  # type: ignore[misc]
        shown = [(*rest[:at], _together([row[at] for row in same]), *rest[at:]) for rest, same in alike.items()]
    words = [(" ".join(filter(None, (row[3], "of", *row[:3], row[4]))), *row[5:]) for row in shown]
    found = Rows(("operand", "D", "K", "registers"), words)
    return found.only(lambda name, values: name != "K" or set(values) != {"as it is"})


def _together(names: Iterable[str]) -> str:
    """Names one after the other; of many shapes that differ only in N, the first and the last."""
    parts = []
    for alike in grouped(dict.fromkeys(names), lambda each: re.sub(r"n\d+", "", each)).values():
        many = f"{alike[0]} ... {alike[-1]} ({len(alike)} shapes)"
        parts.append(many if len(alike) > 3 else " ".join(alike))
    return " ".join(parts)


_LISTED = ("instruction", "shape", "type", "role", "major", "qualifiers", "transposed", "K", "registers", "source")


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
        yield f"        {_in_order(shown.order)}"
    elif shown.movement is not Movement.NONE:
        whole = " by whole chunks of A" if shown.second.instruction == "mma.sp" else ""
        none = f"no order of K{whole} avoids the movement"
        yield "K:      " + ("renumbered, nothing moves between lanes: --relabel shows it" if renumbered else none)
    elif shown.registers_stay:
        yield "registers: taken as they are"
    else:
        yield "registers: each lane converts or packs its own"


def _in_order(order: Sequence[int]) -> str:
    """Numbers in words: those of one period where all further ones are as many higher."""
    size = len(order)
    periods = [step for step in range(1, size // 2 + 1) if size % step == 0]
    step = next(
        (step for step in periods if all(b - a == step for a, b in zip(order, order[step:], strict=False))), size
    )
    words = " ".join(map(str, order[:step]))
    return words if step == size else f"{words} and so on, {step} higher with every {step}"


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


def _broken(line: str) -> str:
    """A line as several where it is too long, the further ones below its words. A table stays as it is."""
    if "\n" in line or not line:
        return line
    label = re.match(r"[A-Za-z]+( \d+)?: *|  +", line)
    indent = " " * len(label[0] if label else "")
    return textwrap.fill(line, room() or 80, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


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
