"""Whether the D of one instruction is the A or B of the next as it stands, or which lanes must exchange what.

The view ``chain`` has the answer element by element; here it becomes a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from .errors import LanemapError
from .fragment import Fragment
from .lookup import Query, one_operand, with_rows
from .reader import Reader


class Movement(StrEnum):
    """How far values must move."""

    NONE = "no data movement between lanes"
    QUAD = "data movement within the quad"
    WARP = "data movement across the warp"


class Move(NamedTuple):
    """An element that is taken, and where its value comes from. Tiles are counted along rows and columns."""

    tile_row: int
    tile_col: int
    lane: int
    reg: int
    slot: int
    row: int
    col: int
    computation: int
    from_tile_row: int
    from_tile_col: int
    from_lane: int
    from_reg: int
    from_slot: int


#: How many fields of a move are of the element that is taken.
_TAKEN = Move._fields.index("from_tile_row")


@dataclass(frozen=True)
class Chain:
    """Every move that makes ``first``, a D, into ``second``, an A or B.

    ``order`` says, where K is numbered anew, which K each one stands for: the other operand of the second instruction
    must be given its rows or columns in this order.
    """

    first: Fragment
    second: Fragment
    transposed: bool
    moves: Sequence[Move]
    order: tuple[int, ...] | None = None

    @property
    def movement(self) -> Movement:
        """The verdict."""
        if all(move.lane == move.from_lane for move in self.moves):
            return Movement.NONE
        near = all(move.lane // 4 == move.from_lane // 4 for move in self.moves)
        return Movement.QUAD if near else Movement.WARP

    @property
    def registers_stay(self) -> bool:
        """Whether every register that is taken is a register of D as it is, with nothing to convert or pack."""
        if self.movement is not Movement.NONE or self.first.slot_bits != self.second.slot_bits:
            return False
        taken = {(move.tile_row, move.tile_col, move.lane, move.reg): _origin(move) for move in self.moves}
        return all(
            move.slot == move.from_slot and taken[move.tile_row, move.tile_col, move.lane, move.reg] == _origin(move)
            for move in self.moves
        )

    @property
    def tiles(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """How many D, and how many A or B, make the matrix that both are tiles of: down and across."""
        given = 1 + max(move.from_tile_row for move in self.moves), 1 + max(move.from_tile_col for move in self.moves)
        taken = 1 + max(move.tile_row for move in self.moves), 1 + max(move.tile_col for move in self.moves)
        return given, taken


_MOVES = f"""
SELECT {", ".join(Move._fields)} FROM chain
WHERE source = :source AND transposed = :transposed
  AND from_instruction = :from_instruction AND from_shape = :from_shape AND from_type = :from_type
  AND instruction = :instruction AND shape = :shape AND type = :type AND role = :role
  AND (CAST(:major AS TEXT) IS NULL OR major = :major)
ORDER BY tile_row, tile_col, lane, reg, slot, from_lane <> lane, from_lane, from_reg, from_slot
"""  # noqa: S608 - the names of a record's fields


def chain(reader: Reader, first: Query, second: Query, *, transposed: bool = False) -> Chain:
    """The moves from a D to an A or B of the same source.

    Raises:
        LanemapError: an operand is not there, has no rows, or is none that can give or take values.
    """
    for query, role, right in ((first, "giver", ("D",)), (second, "taker", ("A", "B"))):
        if query.parameters()["role"] not in right:
            raise LanemapError(f"{query.role} is no {role}: chain goes from D of the first to A or B of the second")
    giver, taker = _only(reader, first), _only(reader, second)
    names = ("instruction", "shape", "type")
    asked = {name: getattr(taker, name) for name in (*names, "role", "major", "source")} | {
        "transposed": int(transposed)
    }
    found = reader.select(_MOVES, asked | {f"from_{name}": getattr(giver, name) for name in names}).rows
    moves: dict[tuple[int, ...], Move] = {}
    for move in map(Move._make, found):
        moves.setdefault(move[:5], move)
    _expect_all(giver, taker, len(moves), transposed)
    return Chain(giver, taker, transposed, list(moves.values()))


def relabelled(plain: Chain) -> Chain | None:
    """The same without movement, with K numbered anew; None where no numbering of K avoids it.

    A product does not change when the columns of A and the rows of B are renumbered alike. So it is enough that every
    lane that takes some K of its rows (A) or columns (B) holds some other K of just the same ones. Beside a sparse A
    that holds for whole chunks of its columns: one that is torn, or in another order, is no longer what metadata says.
    """
    cells = {_cell(plain, move): move for move in plain.moves}
    depths = {k for k, _ in cells}
    ends = {end for _, end in cells}
    if not len(plain.moves) == len(cells) == len(depths) * len(ends):
        return None
    width, numbers = _together(plain), sorted(depths)
    chunks = [numbers[at : at + width] for at in range(0, len(numbers), width)]
    held: dict[tuple[int, ...], list[list[int]]] = {}
    for chunk in reversed(chunks):
        held.setdefault(tuple(cells[k, end].from_lane for k in chunk for end in ends), []).append(chunk)
    order: list[int] = []
    for chunk in chunks:
        alike = held.get(tuple(cells[k, end].lane for k in chunk for end in ends))
        if not alike:
            return None
        order += alike.pop()
    moves = []
    for move in plain.moves:
        k, end = _cell(plain, move)
        moves.append(Move(*move[:_TAKEN], *cells[order[k], end][_TAKEN:]))
    return replace(plain, moves=moves, order=tuple(order))


def _together(chain: Chain) -> int:
    """How many K in a row must stay so: the chunk of columns that the metadata of a sparse A is about."""
    return chain.second.chunk


def _cell(chain: Chain, move: Move) -> tuple[int, tuple[int, int]]:
    """K, and the row of A or column of B with its computation, in the whole matrix."""
    row = move.tile_row * chain.second.dimensions[0] + move.row
    col = move.tile_col * chain.second.dimensions[1] + move.col
    return (col, (row, move.computation)) if chain.second.role == "A" else (row, (col, move.computation))


def summary(moves: Sequence[Move]) -> Iterator[tuple[tuple[int, ...], list[tuple[int, int]]]]:
    """Each slot with the slot of D that it takes its value from, and the lanes that do so with those that give it."""
    groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for move in moves:
        place = (move.tile_row, move.tile_col, move.reg, move.slot, *_origin(move), move.from_slot)
        groups.setdefault(place, []).append((move.lane, move.from_lane))
    yield from sorted(groups.items())


def _origin(move: Move) -> tuple[int, int, int]:
    return move.from_tile_row, move.from_tile_col, move.from_reg


def _only(reader: Reader, query: Query) -> Fragment:
    found = with_rows(reader, one_operand(reader, query))
    if len(found) > 1:
        majors = " or ".join(f"--major {fragment.major}" for fragment in found)
        raise LanemapError(f"{query.role} of {query.shape} {query.type} comes in both majors: say {majors}")
    return found[0]


def _expect_all(giver: Fragment, taker: Fragment, count: int, transposed: bool) -> None:
    """Refuse what the view has no answer for, or only part of one."""
    taken = taker.records()
    if any(each.col < each.col_last for each in taken):
        raise LanemapError(f"{taker} takes columns that its metadata chooses: chain a dense A, or a B")
    computations = [max(each.computation for each in side) for side in (giver.records(), taken)]
    if computations[0] != computations[1]:
        raise LanemapError(
            f"{giver} is of {computations[0]} computations, {taker} of {computations[1]}: "
            "chain two that a warp does as many of"
        )
    down, across = giver.dimensions[::-1] if transposed else giver.dimensions
    rows, cols = taker.dimensions
    if count != len(taken) * max(1, down // rows) * max(1, across // cols):
        raise LanemapError(f"{giver} lacks values that {taker} takes: the findings of the source say why")
