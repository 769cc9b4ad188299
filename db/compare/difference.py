"""Whether two layouts differ, where, and what that does to a product: element by element, and in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from ..isa.instructions import dimensions, instruction
from ..layout.algebra import Array as Array
from ..layout.fragment import CELL, PLACE, Fragment, place_numbers
from ..layout.permutation import Span
from ..text import counted, grouped, listed, spans

#: Lane, register and slot.
Place = tuple[int, int, int]
#: Row, column, last column and computation.
Cell = tuple[int, int, int, int]

_Cells = Mapping[tuple[int, ...], tuple[int, ...]]

#: A first and a last number on the left, and those in their place on the right.
Pair = tuple[Span, Span]

_SWAPPED = (("row", "col"), ("row", "col_last"), ("col", "row"), ("col_last", "row"))
#: How many groups of elements, swaps and so on are named one by one.
_FEW = 3


@dataclass(frozen=True, eq=False)
class Difference:
    """The elements of two layouts side by side.

    ``left`` and ``right`` are arrays of elements, equally long: those that both sides have in the same lane, register
    and slot. ``left_only`` and ``right_only`` are the elements whose slot the other side lacks. ``dimensions`` are the
    rows and columns of the matrix. ``packing`` says how registers are divided in other ways; empty where both sides
    have elements in the same bits of a register.
    """

    left: Array
    right: Array
    left_only: Array
    right_only: Array
    dimensions: tuple[int, int]
    packing: str = ""

    @cached_property
    def unequal(self) -> Array:
        """Which of the shared slots hold different cells."""
        return np.asarray(np.logical_or.reduce([self.left[name] != self.right[name] for name in CELL]))

    @property
    def same_slots(self) -> bool:
        """Whether both sides have the same slots."""
        return not len(self.left_only) and not len(self.right_only)

    @property
    def total(self) -> int:
        """How many slots there are on at least one side."""
        return len(self.left) + len(self.left_only) + len(self.right_only)

    @property
    def count(self) -> int:
        """How many slots differ: they hold different cells, use other bits, or are on one side only."""
        return self.total if self.packing else int(self.unequal.sum()) + len(self.left_only) + len(self.right_only)

    @cached_property
    def pairs(self) -> tuple[Mapping[int, set[Pair]], ...]:
        """The distinct pairs of rows, and of windows of columns, in each computation of the left.

        Then, under 1, the pairs of computations, counted from 0.
        """
        computation = self.left["computation"]
        parts = {int(number): computation == number for number in np.unique(computation)}
        rows = {part: self._pairs("row", "row", at) for part, at in parts.items()}
        cols = {part: self._pairs("col", "col_last", at) for part, at in parts.items()}
        counted = self._pairs("computation", "computation", slice(None))
        return rows, cols, {1: {((a - 1, b - 1), (c - 1, d - 1)) for (a, b), (c, d) in counted}}

    def _pairs(self, first: str, last: str, at: Array | slice) -> set[Pair]:
        code = np.zeros(len(self.left[at]), np.int64)
        for side, name in product((self.left, self.right), (first, last)):
            code = code << 16 | side[name][at].astype(np.int64)
        rows = np.unique(code)[:, None] >> np.array([48, 32, 16, 0]) & 0xFFFF
        return {((a, b), (c, d)) for a, b, c, d in rows.tolist()}

    @cached_property
    def elements(self) -> list[tuple[Place, Cell | None, Cell | None]]:
        """Every slot that differs, in order, with the cell on the left and on the right, None if it has none."""
        both = zip(_split(self.left[self.unequal]), _split(self.right[self.unequal]), strict=True)
        pairs: list[tuple[Place, Cell | None, Cell | None]] = [(place, old, new) for (place, old), (_, new) in both]
        pairs += [(place, cell, None) for place, cell in _split(self.left_only)]
        pairs += [(place, None, cell) for place, cell in _split(self.right_only)]
        return sorted(pairs, key=lambda pair: pair[0])

    @property
    def drawable(self) -> bool:
        """Whether a picture can show it: cells differ, and all of them are in the matrix."""
        return bool(self.elements) and not self.out_of_range

    @cached_property
    def words(self) -> str:
        """What is wrong with the left if the right is true; empty where nothing differs."""
        phrases = [self.packing] if self.packing else []
        phrases += [
            f"absent on the {side}: {self._where([place for place, _ in _split(table)])}"
            for side, table in (("left", self.right_only), ("right", self.left_only))
            if len(table)
        ]
        rows = [(place, left, right) for place, left, right in self.elements if left and right]
        if not rows:
            return "; ".join(phrases)
        if whole := self._as_a_whole():
            return "; ".join([*phrases, whole])
        exchanged = self._exchanged(rows)
        return "; ".join([*phrases, *self.out_of_range, *([exchanged] if exchanged else self._offsets(rows))])

    def _as_a_whole(self) -> str:
        """One change of all rows and columns: transposed, counted from 1, or shifted with wrap-around."""
        left, right = self.left, self.right
        off = {name: left[name].astype(np.int64) - right[name] for name in CELL}
        if off["computation"].any():
            return ""
        if all((left[left_name] == right[right_name]).all() for left_name, right_name in _SWAPPED):
            return "transposed: rows and columns are exchanged"
        if (off["col"] != off["col_last"]).any():
            return ""
        from_one, around = [], []
        for name, extent in zip(("row", "col"), self.dimensions, strict=True):
            by = np.unique(off[name])
            if by.tolist() == [1] and right[name].min() == 0:
                from_one.append(f"{name}s")
            elif len(np.unique(by % extent)) > 1 or (len(by) == 1 and by[0]):
                return ""
            elif len(by) > 1:
                around.append(f"{name} is {by[0] % extent} too high, and wraps around")
        counted = [f"{' and '.join(from_one)} are counted from 1"] if from_one else []
        return "; ".join(counted + around)

    @cached_property
    def out_of_range(self) -> list[str]:
        """Rows and columns outside the matrix, and where they are."""
        phrases = []
        for side, tables in (("left", (self.left, self.left_only)), ("right", (self.right, self.right_only))):
            table = np.concatenate(tables)
            for name, last, extent in zip(("row", "col"), ("row", "col_last"), self.dimensions, strict=True):
                beyond = table[table[last] >= extent]
                if len(beyond):
                    where = self._where([place for place, _ in _split(beyond)])
                    phrases.append(f"{side} {name} {spans(beyond[last].tolist())} is outside 0..{extent - 1} ({where})")
        return phrases

    def _offsets(self, rows: Sequence[tuple[Place, Cell, Cell]]) -> list[str]:
        by_offset = grouped(rows, lambda row: tuple(np.subtract(row[1], row[2]).tolist()))
        largest = sorted(by_offset.items(), key=lambda group: -len(group[1]))
        words = [f"{self._where([place for place, *_ in group])}: {_off(offset)}" for offset, group in largest[:_FEW]]
        rest = sum(len(group) for _, group in largest[_FEW:])
        return [*words, f"and {rest} more elements, each off in its own way"] if rest else words

    def _exchanged(self, rows: Sequence[tuple[Place, Cell, Cell]]) -> str:
        """Whole lanes, registers or slots that are exchanged; empty if that does not explain the difference."""
        home = {right: place for place, _, right in rows}
        moves = [(place, home[left]) for place, left, _ in rows if left in home]
        if not len(home) == len(moves) == len(rows):
            return ""
        for index, name in enumerate(PLACE):
            pairs = {(place[index], origin[index]) for place, origin in moves}
            rest = all(
                place[:index] + place[index + 1 :] == origin[:index] + origin[index + 1 :] for place, origin in moves
            )
            if rest and len(pairs) == len({first for first, _ in pairs}) == len({second for _, second in pairs}):
                where = self._where([place for place, _ in moves], but=name)
                return (f"{where}: " if where else "") + _exchange(name, dict(pairs))
        return ""

    def _where(self, places: Sequence[Place], but: str = "") -> str:
        """Places in words: ``reg 1`` is all its slots in all lanes. ``but`` names a dimension to leave out."""
        sides = (self.left, self.left_only, self.right_only)
        named = []
        chosen = {name: {place[index] for place in places} for index, name in enumerate(PLACE)}
        if len(places) != len(chosen["lane"]) * len(chosen["reg"]) * len(chosen["slot"]):
            return f"{len(places)} elements in {_some('reg', chosen['reg'])}, {_some('lane', chosen['lane'])}"
        for name in ("reg", "slot", "lane"):
            every = np.unique(np.concatenate([side[name] for side in sides]))
            if len(chosen[name]) < len(every) and name != but:
                named.append(_some(name, chosen[name]))
        return ", ".join(named) or ("" if but else "everywhere")


def difference(left: Fragment, right: Fragment) -> Difference:
    """Two fragments of one operand, both with elements, side by side."""
    ours, theirs = left.table, right.table
    _, at, there = np.intersect1d(place_numbers(ours), place_numbers(theirs), return_indices=True)
    alone = np.delete(ours, at), np.delete(theirs, there)
    return Difference(ours[at], theirs[there], *alone, left.dimensions, _packing(left, right))


def _packing(left: Fragment, right: Fragment) -> str:
    """How the packing of two fragments differs, in words."""
    if left.packing[:2] != right.packing[:2]:
        divided = [f"{side.register_bits} bits with {counted(side.slots, 'slot')}" for side in (left, right)]
        return f"a register is {divided[0]} on the left, and {divided[1]} on the right"
    bits = spans(left.occupied_bits), spans(right.occupied_bits)
    where = f"elements have bits {bits[0]} of each slot on the left, and {bits[1]} on the right"
    return "" if left.packed_like(right) else where


def wrong_results(claimed: Fragment, true: Fragment) -> Array:
    """Which results are wrong if registers are filled, or D is read, as claimed.

    The cells of A, B, scales and E hold different numbers, which are multiplied with a random matrix. Places that
    nothing is claimed to fill hold other numbers. An instruction that does not multiply gives the matrix that it moves.

    Returns:
        A bool array (computations, rows, columns) of the elements of D, or of the matrix that is moved.
    """
    claim, truth = ({row[:3]: row[3:] for row in fragment.tuples()} for fragment in (claimed, true))
    claim = claim if claimed.packed_like(true) else {}
    if instruction(true.instruction).multiplies and true.role not in "CD":
        return _wrong_products(claim, truth, true)
    written, read = (claim, truth) if true.role == "C" else (truth, claim)
    right = np.zeros((2, true.computations, *true.dimensions), bool)
    for place, (row, col, _, computation) in read.items():
        if row < true.dimensions[0] and col < true.dimensions[1]:
            right[int(written.get(place) == read[place]), computation - 1, row, col] = True
    return np.asarray(right[0] | ~right[1])


def _wrong_products(claim: _Cells, truth: _Cells, true: Fragment) -> Array:
    generator = np.random.default_rng(0)
    cells = sorted({*claim.values(), *truth.values()})
    numbers = dict(zip(cells, generator.integers(1, 1 << 20, (len(cells), 2)).tolist(), strict=True))
    meant, seen = np.zeros((2, true.computations, *true.dimensions), np.int64)
    for place, cell in truth.items():
        row, col, last, computation = cell
        value, index = numbers[cell]
        at = computation - 1, row, col + index % (last - col + 1)
        meant[at] += value
        seen[at] += numbers[claim[place]][0] if place in claim else generator.integers(1, 1 << 20)
    rows, cols = dimensions(true.shape, "D", true.instruction)
    by_column = true.role in ("B", "SFB")
    shape = (rows, true.dimensions[0]) if by_column else (true.dimensions[1], cols)
    factor = generator.integers(1, 1 << 10, shape)
    return np.asarray(factor @ seen != factor @ meant if by_column else seen @ factor != meant @ factor)


def _split(table: Array) -> list[tuple[Place, Cell]]:
    return [(row[: len(PLACE)], row[len(PLACE) :]) for row in table.tolist()]


def _off(offset: tuple[int, ...]) -> str:
    row, col, col_last, computation = offset
    named = [("row", row), ("col", col), ("computation", computation)]
    if col_last != col:
        named.insert(2, ("col_last", col_last))
    parts = [f"{name} is {abs(by)} too {'high' if by > 0 else 'low'}" for name, by in named if by]
    return " and ".join(parts)


def _exchange(name: str, moves: Mapping[int, int]) -> str:
    """An exchange in words. ``moves`` says for each number on the left which one on the right holds the same."""
    swaps = sorted((left, right) for left, right in moves.items() if left < right and moves.get(right) == left)
    if 2 * len(swaps) == len(moves) and len(swaps) <= _FEW:
        return ", ".join(f"{name}s {left} and {right} are exchanged" for left, right in swaps)
    listed = ", ".join(f"{left} is {right}" for left, right in sorted(moves.items())[: 2 * _FEW])
    return f"{name}s are exchanged: left {listed}" + (", ..." if len(moves) > 2 * _FEW else "")


def _some(name: str, numbers: set[int]) -> str:
    return f"{name}{'s' * (len(numbers) > 1)} {listed(numbers)}"
