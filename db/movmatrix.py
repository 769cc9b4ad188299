"""What movmatrix makes of the registers of a D, where the next instruction takes values of other lanes."""

from __future__ import annotations

from typing import NamedTuple

from .chain import Chain, chain
from .fragment import Fragment
from .instructions import WARP
from .recipe import packed


class Transposed(NamedTuple):
    """A register of an A or B, and the register of D that movmatrix makes it of. Tiles are counted as in a chain."""

    tile_row: int
    tile_col: int
    reg: int
    from_tile_row: int
    from_tile_col: int
    from_reg: int


def through_movmatrix(moved: Chain, given: Fragment, taken: Fragment) -> list[Transposed] | None:
    """How movmatrix makes each register that a chain takes of one register of D; None where it cannot.

    A D of 32 bits is packed first, see ``packed``.

    Args:
        moved: a chain with movement between lanes.
        given: A of movmatrix, what it is given.
        taken: its D, what comes out: the transpose of A (9.7.14.5.17).
    """
    place = {(each.row, each.col): (each.lane, each.slot) for each in given.records()}
    origin = {(each.lane, each.slot): place[each.col, each.row] for each in taken.records()}
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for each in chain(packed(moved.first) or moved.first, moved.second, transposed=moved.transposed).moves:
        warp, lane = divmod(each.lane, WARP)
        from_lane, from_slot = origin.get((lane, each.slot), (-1, -1))
        if (each.from_lane, each.from_slot) != (warp * WARP + from_lane, from_slot):
            return None
        source = each.from_tile_row, each.from_tile_col, each.from_reg
        if found.setdefault((each.tile_row, each.tile_col, each.reg), source) != source:
            return None
    return [Transposed(*to, *source) for to, source in sorted(found.items())]
