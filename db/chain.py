"""Whether the D of one instruction is the A or B of the next as it stands, or which lanes must exchange what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import LanemapError
from .fragment import Fragment, merge
from .lookup import Query, by_trust, expect_one, operand_with_rows, read_fragments
from .reader import Reader, Rows

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Array = NDArray[Any]


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


_TAKEN = ["tile_row", "tile_col", "lane", "reg"]
_ORIGIN = ["from_tile_row", "from_tile_col", "from_reg"]


@dataclass(frozen=True, eq=False)
class Chain:
    """Every move that makes ``first``, a D, into ``second``, an A or B.

    ``table`` has a row for each move, with the fields of Transfer, sorted. ``order`` says, where K is renumbered, which
    K each one stands for: the other operand of the second instruction must be given its rows or columns in this order.
    """

    first: Fragment
    second: Fragment
    transposed: bool
    table: Array = field(repr=False)
    order: tuple[int, ...] | None = None

    @cached_property
    def moves(self) -> list[Transfer]:
        """The table as tuples."""
        return list(map(Transfer._make, self.table.tolist()))

    @property
    def movement(self) -> Movement:
        """The verdict."""
        lane, origin = self.table["lane"], self.table["from_lane"]
        if (lane == origin).all():
            return Movement.NONE
        return Movement.QUAD if (lane // 4 == origin // 4).all() else Movement.WARP

    @property
    def registers_stay(self) -> bool:
        """Whether every register that is taken is a register of D as it is, with nothing to convert or pack."""
        if self.movement is not Movement.NONE or self.first.slot_bits != self.second.slot_bits:
            return False
        above, below = self.table[:-1], self.table[1:]
        torn = (above[_TAKEN] == below[_TAKEN]) & (above[_ORIGIN] != below[_ORIGIN])
        return bool((self.table["slot"] == self.table["from_slot"]).all() and not torn.any())

    @property
    def tiles(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """How many D, and how many A or B, make the matrix that both are tiles of: down and across."""
        down, across, from_down, from_across = (
            1 + int(self.table[name].max()) for name in ("tile_row", "tile_col", "from_tile_row", "from_tile_col")
        )
        return (from_down, from_across), (down, across)

    def rows(self) -> Rows:
        """Every move as a row."""
        return Rows(Transfer._fields, self.table.tolist())

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
    import numpy as np

    given, taken = _chainable(first, second)
    down, across = first.dimensions[::-1] if transposed else first.dimensions
    rows, cols = second.dimensions
    height, width = max(down, rows), max(across, cols)
    if height % min(down, rows) or width % min(across, cols):
        raise LanemapError(
            f"{first} is {down} x {across} here, {second} {rows} x {cols}: neither is a tile of the other"
        )
    tiles = np.indices((height // rows, width // cols)).reshape(2, -1)
    tile_row, tile_col = tiles.repeat(len(taken), axis=1)
    taken = np.tile(taken, tiles.shape[1])
    row, col = tile_row * rows + taken["row"], tile_col * cols + taken["col"]
    place = ("computation", *(("col", "row") if transposed else ("row", "col")), "lane")
    sizes = first.computations + 1, down, across, first.threads
    try:
        held = np.ravel_multi_index(tuple(given[name] for name in place), sizes)
        wanted = np.ravel_multi_index((taken["computation"], row % down, col % across, taken["lane"]), sizes)
    except ValueError:
        raise LanemapError(f"{first} or {second} has elements outside its matrix: see lanemap list findings") from None
    givers = _givers(held, wanted, first.threads)
    if givers is None:
        raise LanemapError(f"{first} lacks values that {second} takes: see lanemap list findings")
    source = given[givers]
    columns = {"tile_row": tile_row, "tile_col": tile_col, "from_tile_row": row // down, "from_tile_col": col // across}
    table = np.empty(len(taken), [(name, "<i4") for name in Transfer._fields])
    for name in Transfer._fields:
        origin = name.removeprefix("from_")
        table[name] = columns[name] if name in columns else taken[name] if name == origin else source[origin]
    return Chain(first, second, transposed, table)


def _givers(held: Array, wanted: Array, threads: int) -> Array | None:
    """Where in ``held`` each of ``wanted`` is, at its own lane or else at the first; None where one is not.

    Both number a place and, in the last digit of base ``threads``, a lane.
    """
    import numpy as np

    sorter = held.argsort(kind="stable")
    in_order = np.append(held[sorter], -1)  # what would be behind the last one is found at the end
    own, first = (in_order[:-1].searchsorted(each) for each in (wanted, wanted - wanted % threads))
    at = np.where(in_order[own] == wanted, own, first)
    return None if (in_order[at] // threads != wanted // threads).any() else sorter[at]


def operand(reader: Reader, query: Query) -> Fragment:
    """The one fragment with elements that a query names. Where two majors have one layout, it is that of both.

    Raises:
        LanemapError: there is none, it is r of a matrix move, or it comes in two majors, each with a layout of its own,
            and the query does not say which.
    """
    major = query.parameters()["major"]
    found = operand_with_rows(reader, replace(query, major=None))
    first = found[0]
    if first.role == "r":
        raise LanemapError(f"{first.instruction} computes no D and takes no A or B: {_instead(first.instruction)}")
    expect_one(query, found, "source", "shape", "type")
    of = {each.major or each.qualifiers: each for each in found}
    if major and major not in of:
        known = " or ".join(filter(None, of))
        raise LanemapError(f"{first} has no major {major}" + (f": it has {known}" if known else ""), "major")
    if major or len(of) == 1:
        return of[major] if major else first
    if alike := of_both(found):
        return alike
    name = first.key._replace(major=None, qualifiers=None)
    raise LanemapError(f"{name} comes in the majors {' and '.join(filter(None, of))}: name one", "major")


def of_both(found: Sequence[Fragment]) -> Fragment | None:
    """What fragments of two majors are that have one layout, as those of wmma; None where they have several."""
    first = found[0]
    if len(found) == 1:
        return first
    return replace(first, major=None, qualifiers=None) if all(each.same_layout(first) for each in found) else None


def _instead(move: str) -> str:
    if move in ("ldmatrix", "stmatrix"):
        return f"name what it {'loads' if move == 'ldmatrix' else 'stores'}, too, such as m16n8k16 f16 A"
    return "chain products, or load with ldmatrix and store with stmatrix"


def every_operand(reader: Reader, query: Query) -> list[Fragment]:
    """The fragments with elements that match, each key once.

    Each is of the source that is asked for, or where that has no rows, of the first other source ``by_trust`` that has.

    Raises:
        LanemapError: no source has them.
    """
    asked, order = str(query.source).lower(), by_trust(reader)
    found = [each for each in read_fragments(reader, replace(query, source=None)) if each.has_rows]
    found.sort(key=lambda each: (str(each.source).lower() != asked, order.index(str(each.source))))
    return merge(found)[0]


def chains(end: Fragment, others: Iterable[Fragment]) -> list[Chain]:
    """Every chain that there is from a D to these fragments, or from them to an A or B, as they are and transposed.

    Fragments of one layout share their moves.

    Raises:
        LanemapError: the end is neither a D nor an A or B with elements that can be chained.
    """
    _elements(end)
    made: dict[tuple[object, ...], Chain | None] = {}
    found = []
    for other, transposed in product(others, (False, True)):
        first, second = (end, other) if end.role == "D" else (other, end)
        layout = other.role, other.dimensions, other.threads, other.computations, other.digest, transposed
        if layout not in made:
            try:
                made[layout] = chain(first, second, transposed=transposed)
            except LanemapError:
                made[layout] = None
        if known := made[layout]:
            found.append(replace(known, first=first, second=second))
    return found


def relabelled(plain: Chain) -> Chain | None:
    """The same without movement, with K renumbered where that is needed; None where no numbering of K avoids it.

    A product does not change when the columns of A and the rows of B are renumbered alike. So it is enough that every
    lane that takes some K of its rows (A) or columns (B) holds some other K of just the same ones. Beside a sparse A
    that holds for whole chunks of its columns: one that is torn, or in another order, is no longer what metadata says.
    """
    import numpy as np

    if plain.movement is Movement.NONE:
        return plain
    table, (rows, cols) = plain.table, plain.second.dimensions
    row, col = table["tile_row"] * rows + table["row"], table["tile_col"] * cols + table["col"]
    depth, end = (col, row) if plain.second.role == "A" else (row, col)
    end = end * (plain.second.computations + 1) + table["computation"]
    # A line for each K, with the moves of its rows of A or columns of B in the same order.
    sorter = np.lexsort((end, depth))
    size, width = int(depth.max()) + 1, plain.second.chunk
    if len(table) % size or size % width:
        return None
    lines = sorter.reshape(size, -1)
    if (end[lines] != end[lines[0]]).any() or (depth[lines] != np.arange(size)[:, None]).any():
        return None
    held: dict[bytes, list[int]] = {}
    for first in reversed(range(0, size, width)):
        held.setdefault(table["from_lane"][lines[first : first + width]].tobytes(), []).append(first)
    order: list[int] = []
    for first in range(0, size, width):
        alike = held.get(table["lane"][lines[first : first + width]].tobytes())
        if not alike:
            return None
        start = alike.pop()
        order += range(start, start + width)
    moved = table.copy()
    origins = [name for name in Transfer._fields if name.startswith("from_")]
    moved[origins][lines] = table[origins][lines[order]]
    return replace(plain, table=moved, order=tuple(order))


def summary(moves: Sequence[Transfer]) -> Iterator[tuple[tuple[int, ...], list[tuple[int, int]]]]:
    """Each slot with the slot of D that it takes its value from, and the lanes that do so with those that give it."""
    groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for move in moves:
        origin = move.from_tile_row, move.from_tile_col, move.from_reg, move.from_slot
        place = move.tile_row, move.tile_col, move.reg, move.slot, *origin
        groups.setdefault(place, []).append((move.lane, move.from_lane))
    yield from sorted(groups.items())


def _elements(end: Fragment) -> Array:
    """The elements of an operand that can be at either end of a chain."""
    if end.role not in ("D", "A", "B"):
        raise LanemapError(f"{end} is neither a D nor an A or B: a chain goes from a D to an A or B")
    if end.elements is None:
        raise LanemapError(f"{end.source} has no rows for {end}: {end.status}")
    if (end.elements["col"] < end.elements["col_last"]).any():
        raise LanemapError(f"{end} takes columns that its metadata chooses: chain a dense A, or a B")
    return end.elements


def _chainable(first: Fragment, second: Fragment) -> tuple[Array, Array]:
    """The elements of both."""
    if first.role != "D" or second.role not in ("A", "B"):
        raise LanemapError(f"{first} cannot be {second}: chain goes from D of the first to A or B of the second")
    ends = _elements(first), _elements(second)
    counts = {"computations": (first.computations, second.computations), "threads": (first.threads, second.threads)}
    for name, (given, taken) in counts.items():
        if given != taken:
            raise LanemapError(f"{first} and {second} have {given} and {taken} {name}: chain two that have as many")
    return ends
