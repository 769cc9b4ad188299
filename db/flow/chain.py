"""Whether the D of one instruction is the A, B or C of the next unchanged, or which lanes must exchange what."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import count, product, takewhile
from typing import Any, NamedTuple

import numpy as np

from ..errors import LanemapError
from ..isa.forms import forms
from ..isa.instructions import Key, instruction
from ..isa.vendors import Vendor
from ..layout.algebra import Array
from ..layout.fragment import Fragment, elements
from ..layout.tile import joined
from ..lookup import Query, operand_with_rows
from ..rows import Rows, Told
from ..store.reader import Reader
from ..text import but_for_n, grouped, spans


class Movement(StrEnum):
    """How far values must move: not at all, within lanes that exchange cheaply, such as a quad, or further."""

    NONE = "no data movement between lanes"
    NEAR = "data movement between near lanes"
    FAR = "data movement between far lanes"


class Transfer(NamedTuple):
    """An element of the second operand, and where its value comes from. Tiles are counted along rows and columns."""

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


class Transposed(NamedTuple):
    """A register of an A or B, and the register of D that movmatrix makes it from. Tiles are counted as in a chain."""

    tile_row: int
    tile_col: int
    reg: int
    from_tile_row: int
    from_tile_col: int
    from_reg: int


_TILES = ("tile_row", "tile_col", "from_tile_row", "from_tile_col")
_MADE = ["tile_row", "tile_col", "reg"]
_TAKEN = [*_MADE, "lane"]
_ORIGIN = ["from_tile_row", "from_tile_col", "from_reg"]


@dataclass(frozen=True, eq=False, repr=False)
class Chain(Told):
    """Every move that makes ``first``, a D, into ``second``, an A, B or C.

    ``table`` has a row for each move, with the fields of Transfer, sorted. If K is renumbered, ``order`` says which K
    each index stands for: the other operand of the second instruction must have its rows or columns in this order.
    ``torn_scales`` are the numbers of block scales along K with which that order would move elements between blocks.
    ``movmatrix`` has the operands of movmatrix, A and D, where it can be tried.
    """

    first: Fragment
    second: Fragment
    transposed: bool
    table: Array
    order: tuple[int, ...] | None = None
    torn_scales: tuple[int, ...] = ()
    movmatrix: tuple[Fragment, Fragment] | None = None
    remarks: Sequence[str] = ()

    @property
    def ends(self) -> tuple[Fragment, Fragment]:
        """Both operands."""
        return self.first, self.second

    @cached_property
    def moves(self) -> list[Transfer]:
        """The table as tuples."""
        return list(map(Transfer._make, self.table.tolist()))

    @property
    def movement(self) -> Movement:
        """The verdict."""
        if self._within(1):
            return Movement.NONE
        return Movement.NEAR if self._within(self.vendor.near) else Movement.FAR

    @property
    def verdict(self) -> str:
        """The verdict in the words of the vendor."""
        vendor, movement = self.vendor, self.movement
        if movement is Movement.NONE:
            return movement.value
        if movement is Movement.NEAR:
            return f"data movement within the {vendor.near_name}"
        across = not vendor.name or self._within(vendor.group)
        return f"data movement {f'across the {vendor.group_name}' if across else f'between {vendor.group_name}s'}"

    @property
    def vendor(self) -> Vendor:
        """The vendor of the second instruction."""
        return instruction(self.second.instruction).vendor

    def _within(self, lanes: int) -> bool:
        """Whether no value leaves its run of this many lanes."""
        return bool((self.table["lane"] // lanes == self.table["from_lane"] // lanes).all())

    @property
    def moves_values(self) -> bool:
        """Whether values move between lanes."""
        return self.movement is not Movement.NONE

    @property
    def exit_code(self) -> int:
        """1 where values move between lanes."""
        return int(self.moves_values)

    @property
    def registers_stay(self) -> bool:
        """Whether every register is a register of D unchanged, with nothing to convert or pack."""
        if self.moves_values or self.first.slot_bits != self.second.slot_bits or self.converts:
            return False
        above, below = self.table[:-1], self.table[1:]
        torn = (above[_TAKEN] == below[_TAKEN]) & (above[_ORIGIN] != below[_ORIGIN])
        return bool((self.table["slot"] == self.table["from_slot"]).all() and not torn.any())

    @property
    def converts(self) -> bool:
        """Whether values have other bits in the second type: those of f32 are also a tf32, those of b16 any type."""
        types = {self.first.type, self.second.type}
        return len(types) > 1 and types != {"f32", "tf32"} and types.isdisjoint(("b8", "b16", "b32"))

    @property
    def tiles(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """How many D, and how many A or B, make up the matrix that both are tiles of: down and across."""
        down, across, from_down, from_across = (1 + int(self.table[name].max()) for name in _TILES)
        return (from_down, from_across), (down, across)

    def through_movmatrix(self) -> list[Transposed] | None:
        """How movmatrix makes each register that is taken from one register of D; None if it cannot.

        movmatrix returns the transpose of its operand (9.7.16.5.17). A D of 32 bits is first packed to 16 bits,
        registers 2 i and 2 i + 1 into register i.
        """
        before, after = self.movmatrix or (None, None)
        if before is None or after is None or instruction(before.instruction).vendor is not self.vendor:
            return None
        if self.second.slots > after.slots:
            return None
        table = chain(as_half_pairs(self.first) or self.first, self.second, transposed=self.transposed).table
        group, lane = np.divmod(table["lane"], before.threads)
        result = after.at(lane, 0, table["slot"])
        origin = before.find(result.col, result.row)
        from_lanes = group * before.threads + origin.lane
        registers = np.unique(table[list(Transposed._fields)])
        one_source = len(registers) == len(np.unique(table[_MADE]))
        if not one_source or (from_lanes != table["from_lane"]).any() or (origin.slot != table["from_slot"]).any():
            return None
        return list(map(Transposed._make, registers.tolist()))

    def rows(self) -> Rows:
        """Every move as a row."""
        return Rows(Transfer._fields, self.table.tolist())

    def parts(self) -> Iterator[str | Rows]:
        """What is said of it as a whole, and where each register comes from."""
        yield from self.facts()
        yield from self._registers()

    def facts(self) -> Iterator[str | Rows]:
        """The verdict, how tiles, K and registers fit, and what movmatrix makes."""
        second, (produced, needed) = self.second, self.tiles
        yield f"{self.first}{', transposed,' if self.transposed else ''} as {second}: {self.verdict}"
        yield f"source: {', '.join(dict.fromkeys(str(end.source) for end in (self.first, second)))}"
        if (produced, needed) != ((1, 1), (1, 1)):
            verb = "makes" if produced == (1, 1) else "make"
            yield f"tiles:  {_times(produced)} D {verb} {_times(needed)} {second.role}"
        if self.order:
            lines = "rows of B" if second.role == "A" else "columns of A"
            yield f"K:      renumbered: give the second instruction the {lines} in the order"
            yield f"        {_in_order(self.order)}"
            if self.torn_scales:
                yield f"scales: not with {_scales(self.torn_scales)}: elements would move to blocks with other scales"
        elif self.moves_values and second.role == "C":
            yield "K:      C has no K that could be renumbered"
        elif self.moves_values and relabelled(self):
            yield "K:      with relabel, it is renumbered and nothing moves between lanes"
        elif self.moves_values:
            yield f"K:      no order of K{' by whole chunks of A' if second.chunk > 1 else ''} avoids the movement"
        elif self.registers_stay:
            yield "registers: taken as they are"
        else:
            yield "registers: each lane converts or packs its own"
        if len(bits := second.occupied_bits) < second.slot_bits:
            yield f"slots:  {second.type} into bits {spans(bits)} of each {second.slot_bits}"
        if crossing := self.moves_values and self.through_movmatrix():
            packed = f", converted to {second.type} first" * self.converts
            packed = ", packed to 16 bits first: 2 i and 2 i + 1 into i" if self.first.slot_bits > 16 else packed
            yield f"movmatrix: makes each register of {second.role} from one of D{packed}"
            yield _without_tiles(Transposed._fields, crossing)

    def _registers(self) -> Iterator[str | Rows]:
        """For each slot, the slot of D that its value comes from, and the lanes, where these differ."""
        groups = grouped(sorted(self.moves), lambda move: (*move[:2], *move[3:5], *move[8:10], *move[11:]))
        pairs = {place: [(move.lane, move.from_lane) for move in moves] for place, moves in sorted(groups.items())}
        threads, moves = self.second.threads, {(place, *pair) for place, lanes in pairs.items() for pair in lanes}

        def repeats(step: int) -> bool:
            """Whether everything is the same after so many lanes, in lanes as many higher."""
            later = {(place, lane + step, origin + step) for place, lane, origin in moves if lane + step < threads}
            return later == {move for move in moves if move[1] >= step}

        steps = takewhile(lambda step: step < threads, (self.vendor.near << log for log in count()))
        step = next(filter(repeats, steps), threads) if self.moves_values else threads
        rows = []
        for place, lanes in pairs.items():
            taken, origins = zip(*(pair for pair in lanes if pair[0] < step), strict=True)
            shown = "same" if taken == origins else " ".join(map(str, origins))
            rows.append((*place, spans(taken).replace(" ", ""), shown))
        columns = ("tile_row", "tile_col", "reg", "slot", *_TILES[2:], "from_reg", "from_slot", "lanes", "from_lanes")
        yield _without_tiles(columns, rows)
        if step < threads:
            repetition = f"Lanes {step}-{threads - 1} repeat lanes 0-{step - 1}"
            yield f"{repetition}: from_lanes are {step} higher with every {step} lanes."


class Chains(Told, list[Chain]):
    """Chains from one D, or to one A or B, their ``end``; ``renumbered`` are more chains, which renumber K."""

    def __init__(self, end: Fragment, listed: Iterable[Chain], renumbered: Iterable[Chain] = ()) -> None:
        super().__init__(listed)
        self.end = end
        self.ends = (end,)
        self.renumbered = list(renumbered)

    @classmethod
    def of(cls, end: Fragment, others: Iterable[Fragment], turned: Sequence[bool] = (False, True)) -> "Chains":
        """Every chain from a D to these fragments, or from them to an A or B, as they are and transposed.

        Fragments of one layout share their moves.

        Raises:
            LanemapError: the end is neither a D nor an A or B with elements that can be chained.
        """
        _elements(end)
        by_layout: dict[tuple[object, ...], Chain | None] = {}
        listed = []
        for other, transposed in product((fragment for fragment in others if fragment.role != "C"), turned):
            first, second = (end, other) if end.role == "D" else (other, end)
            layout = other.role, other.dimensions, other.threads, other.computations, other.digest, transposed
            if layout not in by_layout:
                try:
                    by_layout[layout] = chain(first, second, transposed=transposed)
                except LanemapError:
                    by_layout[layout] = None
            if template := by_layout[layout]:
                listed.append(replace(template, first=first, second=second))
        return cls(end, listed)

    @property
    def exit_code(self) -> int:
        """1 where the list is empty."""
        return int(not self)

    def still(self, *, relabel: bool = False) -> "Chains":
        """The chains without movement between lanes; with ``relabel``, those that renumber K are among them.

        Without ``relabel``, those are listed as ``renumbered``.
        """
        found = list(filter(None, map(relabelled, self)))
        plain = [entry for entry in found if not entry.order or relabel]
        still = Chains(self.end, plain, [] if relabel else [entry for entry in found if entry.order])
        advice = [f"{still.verdict}: name a second operand to see what moves"]
        if self.end.tile:
            advice = [f"{self.end} lies in shared memory: lanemap descriptor says how an instruction reads it"]
        if still:
            to_load = self.end.role in ("A", "B", "C")
            advice = [f"listed: {still.verdict}. Put ldmatrix first to see how to load it"] if to_load else []
        others = (end for chain in still for end in chain.ends if end is not self.end)
        if elsewhere := dict.fromkeys(str(end.source) for end in others if end.note):
            advice.append(f"rows that the document lacks or leaves open are from {', '.join(elsewhere)}")
        still.remarks = [*self.remarks, *advice]
        return still

    @property
    def verdict(self) -> str:
        """What the list has where no value may move between lanes, or that it is empty."""
        some, none = "every D that can feed this operand", "no D can feed this operand"
        if self.end.role not in ("A", "B", "C"):
            some, none = "every operand that can be fed", "no operand can be fed"
        unless = " or an order of K" if self.renumbered else ""
        return f"{some if self else none} without moving data between lanes{'' if self else unless}"

    def rows(self) -> Rows:
        """A row for each chain: the operand at its other end, and what happens to K and registers."""
        rows = []
        for entry in self:
            far_end = entry.first if self.end is entry.second else entry.second
            order = "renumbered" if entry.order else "as it is"
            order += f", not with {_scales(entry.torn_scales)}" if entry.torn_scales else ""
            registers = "as they are" if entry.registers_stay else "converted or packed"
            rows.append((*far_end.key[:5], far_end.qualifiers, int(entry.transposed), order, registers, far_end.source))
        return Rows((*Key._fields[:5], "qualifiers", "transposed", "K", "registers", "source"), rows)

    def parts(self) -> Iterator[str | Rows]:
        """A table with one row for operands that differ only in shape, type or source, and one of ``renumbered``."""
        if self:
            yield self._table("as it is")
        if self.renumbered:
            yield "With relabel, which renumbers K and costs nothing:"
            yield Chains(self.end, self.renumbered)._table("renumbered")

    def _table(self, usual: str) -> Rows:
        shown = []
        for *named, _, transposed, order, registers, _ in self.rows().rows:
            key = Key(*named)
            major = f"{key.major} major" if key.several_majors else ""
            shown.append((*key[:4], major, "transposed" if transposed else "as it stands", order, registers))
        for at in (1, 2):
            merged = grouped(shown, lambda row, at=at: (*row[:at], *row[at + 1 :]))  # type: ignore[misc]
            shown = [(*rest[:at], _in_short([row[at] for row in rows]), *rest[at:]) for rest, rows in merged.items()]
        rows = [(" ".join(filter(None, (row[3], "of", *row[:3], row[4]))), *row[5:]) for row in shown]
        return Rows(("operand", "D", "K", "registers"), rows).only(lambda name, all_: name != "K" or {*all_} != {usual})


def _scales(counts: Iterable[int]) -> str:
    return " or ".join(f"scale_vec::{count}X" for count in counts)


def _times(tiles: tuple[int, int]) -> str:
    down, across = tiles
    return "one" if down * across == 1 else f"{down} x {across}"


def _in_order(order: Sequence[int]) -> str:
    """Numbers in words: one period, if the next ones are higher by its length."""
    step = next(
        step
        for step in range(1, len(order) + 1)
        if len(order) % step == 0 and all(b - a == step for a, b in zip(order, order[step:], strict=False))
    )
    suffix = "" if step == len(order) else f" and so on, {step} higher with every {step}"
    return " ".join(map(str, order[:step])) + suffix


def _in_short(names: Iterable[str]) -> str:
    """Names one after the other; for shapes that differ only in N, the first and the last."""
    by_shape = but_for_n(dict.fromkeys(names))
    return " ".join(f"{first} ... {last[-1]} ({1 + len(last)} shapes)" if last else first for first, *last in by_shape)


def _without_tiles(names: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> Rows:
    """Rows without the columns of tiles that are always 0."""
    return Rows(names, rows).only(lambda name, values: name not in _TILES or set(values) != {0})


def chain(first: Fragment, second: Fragment, *, transposed: bool = False) -> Chain:
    """The moves from a D to an A, B or C.

    Tiles of D, joined or cut, make the matrix (``transposed``: its transpose) that the A or B is a tile of. If several
    slots of D hold a value, one of the lane that needs it is preferred.

    Raises:
        LanemapError: the first is not a D or the second not an A, B or C with elements, or they cannot be chained.
    """
    if first.role != "D" or second.role not in ("A", "B", "C"):
        raise LanemapError(f"{first} cannot be {second}: chain goes from D of the first to A, B or C of the second")
    _ = _elements(first), _elements(second)
    if second.tile:
        raise LanemapError(f"{second} lies in shared memory: say how the tile is swizzled, as in 128B", "through")
    counts = {"computations": (first.computations, second.computations), "threads": (first.threads, second.threads)}
    for name, (left, right) in counts.items():
        if left != right:
            raise LanemapError(f"{first} and {second} have {left} and {right} {name}: chain two with equally many")
    down, across = first.dimensions[::-1] if transposed else first.dimensions
    rows, cols = second.dimensions
    height, width = max(down, rows), max(across, cols)
    if height % min(down, rows) or width % min(across, cols):
        raise LanemapError(
            f"{first} is {down} x {across} here, {second} {rows} x {cols}: neither is a tile of the other"
        )
    taken = joined(second, height // rows, width // cols).table
    taken = taken[np.argsort(taken["reg"] // second.registers, kind="stable")]
    row, col = taken["row"], taken["col"]
    cell = (col % across, row % down) if transposed else (row % down, col % across)
    places = np.ma.stack(first.find(*cell, taken["computation"])).reshape(3, len(taken), -1)
    # A value comes from the same lane, or else from the first.
    own = np.ma.filled(places[0] == taken["lane"][:, None], False).argmax(axis=1)
    lane, reg, slot = places[:, np.arange(len(taken)), own]
    if np.ma.is_masked(lane):
        raise LanemapError(f"{first} lacks values that {second} takes: see lanemap list findings")
    columns = dict(zip(_TILES, (row // rows, col // cols, row // down, col // across), strict=True))
    columns |= {"reg": taken["reg"] % second.registers, "row": row % rows, "col": col % cols}
    columns |= {"from_lane": lane, "from_reg": reg, "from_slot": slot}
    table = np.empty(len(taken), [(name, "<i4") for name in Transfer._fields])
    for name in Transfer._fields:
        table[name] = columns[name] if name in columns else taken[name]
    return Chain(first, second, transposed, table)


def operand(reader: Reader, query: Query) -> Fragment:
    """The one fragment with elements that a query names; if two majors share a layout, it stands for both.

    Raises:
        LanemapError: there is none, it is r or p of a matrix move, or it comes in two majors with different layouts and
            the query does not say which.
    """
    major = query.parameters()["major"]
    fragments = operand_with_rows(reader, replace(query, major=None))
    first = fragments[0]
    if first.role in ("r", "p"):
        row = instruction(first.instruction)
        advice = "chain products, or load with ldmatrix and store with stmatrix"
        advice = f"also name what it {row.moves}s, such as m16n8k16 f16 A" if "p" in row.axes else advice
        raise LanemapError(f"{row.name} computes no D and takes no A or B: {advice}")
    fragments.expect_one("shape", "type", "source")
    by_major = {fragment.major or fragment.qualifiers: fragment for fragment in fragments}
    if major and major not in by_major:
        majors = " or ".join(filter(None, by_major))
        raise LanemapError(f"{first} has no major {major}" + (f": it has {majors}" if majors else ""), "major")
    if major or len(by_major) == 1:
        return by_major[major] if major else first
    if common := common_to_majors(fragments):
        return common
    name = first.key._replace(major=None, qualifiers=None)
    if first.tile:
        raise LanemapError(f"say how {name} lies in shared memory: {', '.join(filter(None, by_major))}")
    raise LanemapError(f"{name} comes in the majors {' and '.join(filter(None, by_major))}: name one", "major")


def common_to_majors(fragments: Sequence[Fragment]) -> Fragment | None:
    """One fragment for two majors that share a layout, as those of wmma do; None if their layouts differ."""
    first = fragments[0]
    if len(fragments) == 1:
        return first
    one_layout = all(fragment.same_layout(first) for fragment in fragments)
    return replace(first, major=None, qualifiers=None) if one_layout else None


def relabelled(plain: Chain) -> Chain | None:
    """The same chain without movement, with K renumbered if needed; None if no numbering of K avoids movement.

    A product does not change when the columns of A and the rows of B are renumbered alike. So it is enough that every
    lane that needs some K of its rows (A) or columns (B) holds another K of exactly these. For a sparse A whole chunks
    of columns are renumbered: a chunk that is torn, or in another order, would contradict the metadata. Blocks of K
    with scales keep their elements, the smallest blocks if possible.
    """
    if not plain.moves_values or plain.second.role == "C":
        return None if plain.moves_values else plain
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
    chunks = [lines[first : first + width] for first in range(0, size, width)]
    held, wanted = ([table[name][chunk].tobytes() for chunk in chunks] for name in ("from_lane", "lane"))
    if sorted(held) != sorted(wanted):
        return None
    alike = forms(*plain.second.key[:3])
    counts = sorted({form.block_scales[0] for form in alike if form.block_scales}, reverse=True)
    blocks = {count: (cols if plain.second.role == "A" else rows) // count for count in counts}
    order = [at * width + k for at in _renumbered(held, wanted) for k in range(width)]
    torn = [count for count, size in blocks.items() if any(k // size != at // size for at, k in enumerate(order))]
    if torn == counts and all(form.block_scales for form in alike) and alike:
        return None
    moved = table.copy()
    origins = [name for name in Transfer._fields if name.startswith("from_")]
    moved[origins][lines] = table[origins][lines[order]]
    return replace(plain, table=moved, order=tuple(order), torn_scales=tuple(torn))


def _renumbered(held: Sequence[bytes], wanted: Sequence[bytes]) -> list[int]:
    """For each wanted item the index of an equal one that is held: for the first of its kind the first, and so on.

    Blocks of any size keep their items if that is possible at all: each then holds as many of every kind as are wanted.
    """
    free = {item: iter(indices) for item, indices in grouped(range(len(held)), held.__getitem__).items()}
    return [next(free[item]) for item in wanted]


def as_half_pairs(operand: Fragment) -> Fragment | None:
    """An operand of 32 bits after converting its elements to 16 bits, two to a register; None for other operands."""
    if operand.slot_bits != 32 or operand.registers % 2 or operand.elements is None:
        return None
    columns: dict[str, Any] = {name: operand.elements[name] for name in operand.elements.dtype.names or ()}
    columns |= {"reg": columns["reg"] // 2, "slot": columns["reg"] % 2}
    return replace(operand, registers=operand.registers // 2, slots=2, elements=elements(columns))


def _elements(end: Fragment) -> Array:
    """The elements of an operand that can be at an end of a chain."""
    if end.role not in ("D", "A", "B", "C"):
        raise LanemapError(f"{end} is neither a D nor an A, B or C: a chain goes from a D to an A, B or C")
    if end.memory == "Tensor Memory":
        raise LanemapError(f"{end} lies in Tensor Memory: chain what tcgen05.ld loads of it")
    if (end.table["col"] < end.table["col_last"]).any():
        raise LanemapError(f"{end} takes columns that its metadata chooses: chain a dense A, or a B")
    return end.table
