"""Whether the D of one instruction is the A or B of the next as it stands, or which lanes must exchange what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from .errors import LanemapError
from .fragment import Element, Fragment
from .lookup import Query, operand_with_rows
from .reader import Reader, Rows

if TYPE_CHECKING:
    import pandas as pd


class Movement(StrEnum):
    """How far values must move."""

    NONE = "no data movement between lanes"
    QUAD = "data movement within the quad"
    WARP = "data movement across the warp"


class Transfer(NamedTuple):
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
_TAKEN = Transfer._fields.index("from_tile_row")


@dataclass(frozen=True)
class Chain:
    """Every move that makes ``first``, a D, into ``second``, an A or B.

    ``order`` says, where K is renumbered, which K each one stands for: the other operand of the second instruction
    must be given its rows or columns in this order.
    """

    first: Fragment
    second: Fragment
    transposed: bool
    moves: Sequence[Transfer]
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

    def rows(self) -> Rows:
        """Every move as a row."""
        return Rows(Transfer._fields, self.moves)

    def frame(self) -> pd.DataFrame:
        """Every move as a row of a frame."""
        return self.rows().frame()


def chain(first: Fragment, second: Fragment, *, transposed: bool = False) -> Chain:
    """The moves from a D to an A or B.

    Tiles of D put together, or cut, are the matrix (``transposed``: its transpose) that the A or B is a tile of. Where
    several slots of D hold a value, one of the lane that takes it is preferred.

    Raises:
        LanemapError: the first is not a D or the second not an A or B with elements, or they cannot be chained.
    """
    _expect_chainable(first, second)
    down, across = first.dimensions[::-1] if transposed else first.dimensions
    rows, cols = second.dimensions
    if max(down, rows) % min(down, rows) or max(across, cols) % min(across, cols):
        raise LanemapError(
            f"{first} is {down} x {across} here, {second} {rows} x {cols}: neither is a tile of the other"
        )
    held: dict[tuple[int, int, int], list[tuple[int, int, Element]]] = {}
    for given in first.records():
        row, col = (given.col, given.row) if transposed else (given.row, given.col)
        place = given.computation, row % rows, col % cols
        held.setdefault(place, []).append((row // rows, col // cols, given))
    moves: dict[tuple[int, ...], Transfer] = {}
    for taken in second.records():
        for tile_row, tile_col, given in held.get((taken.computation, taken.row % down, taken.col % across), []):
            tiles = taken.row // down, taken.col // across
            cell = taken.row, taken.col, taken.computation
            move = Transfer(tile_row, tile_col, *taken[:3], *cell, *tiles, *given[:3])
            known = moves.setdefault(move[:5], move)
            if move.from_lane == move.lane != known.from_lane:
                moves[move[:5]] = move
    if len(moves) != len(second.records()) * max(1, down // rows) * max(1, across // cols):
        raise LanemapError(f"{first} lacks values that {second} takes: lanemap list findings says why")
    return Chain(first, second, transposed, sorted(moves.values()))


def operand(reader: Reader, query: Query) -> Fragment:
    """The one fragment with elements that a query names.

    Raises:
        LanemapError: there is none, it is r of a matrix move, or it comes in both majors and the query does not say
            which.
    """
    found = operand_with_rows(reader, query)
    if found[0].role == "r":
        raise LanemapError(f"{found[0].instruction} needs a recipe: name r with the operand that it loads or stores")
    if len(found) > 1:
        majors = " and ".join(str(each.major) for each in found)
        raise LanemapError(f"{query.role} of {query.shape} {query.type} comes in the majors {majors}: name one")
    return found[0]


def chains(first: Fragment, seconds: Iterable[Fragment]) -> list[Chain]:
    """Every chain that there is from a D to some of these fragments, as it stands and transposed."""
    found = []
    for second in seconds:
        for transposed in (False, True):
            try:
                found.append(chain(first, second, transposed=transposed))
            except LanemapError:
                continue
    return found


def stays(first: Fragment, second: Fragment, *, transposed: bool = False) -> bool:
    """Whether there is a chain and no value moves to another lane. Its moves are not made, so it is quick to tell."""
    try:
        _expect_chainable(first, second)
    except LanemapError:
        return False
    import numpy as np

    down, across = first.dimensions[::-1] if transposed else first.dimensions
    rows, cols = second.dimensions
    if max(down, rows) % min(down, rows) or max(across, cols) % min(across, cols):
        return False
    given, taken = first.elements, second.elements
    assert given is not None
    assert taken is not None
    names = ("lane", "computation", *(("col", "row") if transposed else ("row", "col")))
    sizes = [first.threads, first.computations + 1, down, across]
    tile_row, tile_col = np.indices((max(1, down // rows), max(1, across // cols))).reshape(2, -1, 1)
    wanted = (
        *np.broadcast_arrays(taken["lane"], taken["computation"], tile_row)[:2],
        (taken["row"] + tile_row * rows) % down,
        (taken["col"] + tile_col * cols) % across,
    )
    try:
        held = np.ravel_multi_index(tuple(given[name].astype(np.int64) for name in names), sizes)
        return bool(np.isin(np.ravel_multi_index(wanted, sizes), held).all())
    except ValueError:  # an element is outside the matrix
        return False


def relabelled(plain: Chain) -> Chain | None:
    """The same without movement, with K renumbered; None where no numbering of K avoids it.

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
        moves.append(Transfer(*move[:_TAKEN], *cells[order[k], end][_TAKEN:]))
    return replace(plain, moves=moves, order=tuple(order))


def _together(chain: Chain) -> int:
    """How many K in a row must stay so: the chunk of columns that the metadata of a sparse A is about."""
    return chain.second.chunk


def _cell(chain: Chain, move: Transfer) -> tuple[int, tuple[int, int]]:
    """K, and the row of A or column of B with its computation, in the whole matrix."""
    row = move.tile_row * chain.second.dimensions[0] + move.row
    col = move.tile_col * chain.second.dimensions[1] + move.col
    return (col, (row, move.computation)) if chain.second.role == "A" else (row, (col, move.computation))


def summary(moves: Sequence[Transfer]) -> Iterator[tuple[tuple[int, ...], list[tuple[int, int]]]]:
    """Each slot with the slot of D that it takes its value from, and the lanes that do so with those that give it."""
    groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for move in moves:
        place = (move.tile_row, move.tile_col, move.reg, move.slot, *_origin(move), move.from_slot)
        groups.setdefault(place, []).append((move.lane, move.from_lane))
    yield from sorted(groups.items())


def _origin(move: Transfer) -> tuple[int, int, int]:
    return move.from_tile_row, move.from_tile_col, move.from_reg


def _expect_chainable(first: Fragment, second: Fragment) -> None:
    if first.role != "D" or second.role not in ("A", "B"):
        raise LanemapError(f"{first} cannot be {second}: chain goes from D of the first to A or B of the second")
    if lacking := [each for each in (first, second) if not each.has_rows]:
        raise LanemapError(f"{lacking[0].source} has no rows for {lacking[0]}: {lacking[0].status}")
    if any(each.col < each.col_last for each in second.records()):
        raise LanemapError(f"{second} takes columns that its metadata chooses: chain a dense A, or a B")
    counts = {"computations": (first.computations, second.computations), "threads": (first.threads, second.threads)}
    for name, (given, taken) in counts.items():
        if given != taken:
            raise LanemapError(f"{first} is of {given} {name}, {second} of {taken}: chain two that have as many")
