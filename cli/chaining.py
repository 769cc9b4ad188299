"""What ``chain`` prints."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from ..db.chain import Chain, Move, Movement, relabelled, summary
from ..db.reader import Rows
from ..db.spans import spans
from .options import Format
from .output import table, write_rows

_TILES = ("tile_row", "tile_col", "from_tile_row", "from_tile_col")
_SUMMARY = (
    *("tile_row", "tile_col", "reg", "slot", "from_tile_row", "from_tile_col"),
    *("from_reg", "from_slot", "lanes", "from_lanes"),
)


def write_chain(shown: Chain, renumbered: Chain | None, form: Format) -> None:
    """The verdict and where each register comes from; in other formats than the table, every move.

    Args:
        shown: what to print.
        renumbered: the same with K numbered so that nothing moves, where there is such a numbering.
        form: how.
    """
    if form is not Format.TABLE:
        write_rows(Rows(Move._fields, shown.moves), form)
        return
    sys.stdout.writelines(line + "\n" for line in _verdict(shown, renumbered))
    sys.stdout.write("\n" + table(_by_register(shown.moves)))


def write_chains(found: Sequence[Chain], form: Format, *, relabel: bool) -> None:
    """The operands that a D can be without a move between lanes; with ``relabel``, also where K is renumbered."""
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
    given, taken = shown.first, shown.second
    yield f"{given}{', transposed,' if shown.transposed else ''} as {taken}: {shown.movement}"
    yield f"source: {shown.first.source}"
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


def _by_register(moves: Sequence[Move]) -> Rows:
    rows = []
    for place, lanes in summary(moves):
        same = all(lane == origin for lane, origin in lanes)
        origins = "same" if same else " ".join(str(origin) for _, origin in lanes)
        rows.append((*place, spans(lane for lane, _ in lanes).replace(" ", ""), origins))
    columns = list(zip(*rows, strict=True))
    kept = [at for at, column in enumerate(_SUMMARY) if column not in _TILES or set(columns[at]) != {0}]
    return Rows(tuple(_SUMMARY[at] for at in kept), [tuple(row[at] for at in kept) for row in rows])
