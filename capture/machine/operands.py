"""What the operands of a tensor instruction hold, compared with themselves and with what they must hold."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...db.compare.difference import difference
from ...db.layout.algebra import Array
from ...db.layout.fragment import NOT_CITED, Fragment
from .labels import ANY, Labelling, Labels
from .product import Factor
from .values import Execution, Held

#: What tables call a register.
_REG = re.compile(r"\breg(s?)\b")


@dataclass(frozen=True)
class Diagnostic:
    """Something that is wrong: in one sentence, with the place in the kernel and what else there is to say.

    ``kind`` is what a program asks for: operand, pairing, sum, store, unwritten, or that of a fault. ``operand`` names
    an operand that is wrong: its role, the execution, the warp.
    """

    kind: str
    words: str
    place: str = ""
    details: tuple[str, ...] = ()
    count: int = 1
    operand: tuple[str, int, int] | None = None

    def __str__(self) -> str:
        return "\n".join([self.words, *(f"  {line}" for line in self.details)])


class Contraction(NamedTuple):
    """Two factors that a step multiplies, with the indices that both have and the left side lacks."""

    step: int
    left: Factor
    right: Factor
    summed: tuple[str, ...]

    def free(self, factor: Factor) -> tuple[str, ...]:
        """The indices of a factor that are not summed over."""
        return tuple(name for name in factor.indices if name not in self.summed)


class Scaling(NamedTuple):
    """The labels of block scales (groups, lines, blocks), those that they must have, and where they are others."""

    held: Labels
    meant: Labels
    wrong: Array


class HeldOperand:
    """An operand of one execution: what its slots hold, as matrices (warps, computations, rows, columns).

    D holds what its sums are stored as.
    """

    def __init__(self, judge: Labelling, event: Execution, role: str) -> None:
        self.judge, self.role = judge, role
        self.layout: Held = event.layouts[role]
        self.columns = event.columns if role == "A" else None
        self.cells = (judge.destinations if role == "D" else judge.labels)(event.cells(role))
        known = self.cells.array[self.cells.array != ANY]
        self.array = int(np.bincount(known).argmax()) if len(known) else ANY
        if role == "B":  # K along the last axis, as in A
            self.cells = Labels(self.cells.array.swapaxes(2, 3), self.cells.place.swapaxes(2, 3))
        self.free: Array = np.zeros(0)
        self.depth: Array = np.zeros(0)
        self.factor = Factor("", ())
        self.pair: Contraction | None = None

    def follow(self, factor: Factor, pair: Contraction) -> None:
        """Number the free and the summed indices that the cells hold."""
        self.pair = pair
        self.number(factor, pair.free(factor), pair.summed)

    def number(self, factor: Factor, free: Sequence[str], depth: Sequence[str]) -> None:
        """Number what the cells hold by some indices of a factor along rows, and by others along columns."""
        self.factor = factor
        self.free, self.depth = (self.judge.flat(self.cells, factor, names) for names in (free, depth))
        foreign = (self.cells.array != ANY) & (self.cells.array != self.array)
        # An element of another array is of no row and no column of this one.
        self.free, self.depth = (np.where(foreign, -2 - self.cells.array, each) for each in (self.free, self.depth))

    def accumulates(self, pair: Contraction) -> bool:
        """Number what C or D holds by the free indices of A and B, where they are those of its array."""
        step = self.judge.steps[pair.step]
        factors = [factor for term in step.terms for factor in term.factors]
        name = self.judge.names[self.array]
        factor = next((each for each in factors if each.name == name), step.left)
        names = [pair.free(pair.left), pair.free(pair.right)]
        if self.judge.origin(factor.name) != self.array or {*factor.indices} != {*names[0], *names[1]}:
            return False
        self.number(factor, *names)
        return True

    def consistent(self, *, either: bool = False) -> Array:
        """For each warp, whether rows have one free index and columns one summed index each.

        ``either``: one of the two will do if the other is a sum of a part of the row and one of the column.
        """
        free, depth = self._alike(self.free, 3), self._alike(self.depth, 2)
        if not either:
            return free & depth
        return free & depth | depth & _additive(self.free) | free & _additive(self.depth)

    @staticmethod
    def _alike(values: Array, axis: int) -> Array:
        low = np.where(values == ANY, np.iinfo(np.int64).max, values).min(axis=axis)
        high = np.where(values == ANY, np.iinfo(np.int64).min, values).max(axis=axis)
        return np.asarray((low >= high).all(axis=(1, 2)))

    def depth_first(self) -> Array:
        """The summed index of each column (warps, computations, K), of the first row that has one."""
        return _first(self.depth, 2)

    def at_depth(self, warp: int, column: int) -> Labels:
        """The label of a cell in a column."""
        computation, at = divmod(column, self.depth.shape[3])
        row = int(np.argmax(self.depth[warp, computation, :, at] != ANY))
        return self.cells.of((warp, computation, row, at))

    def first(self, computation: Array, row: Array) -> Labels:
        """The label of each row, of the first cell that has one (warps, slots of D)."""
        at = (self.cells.array != ANY).argmax(axis=3)
        warps = np.arange(len(at))[:, None]
        return self.cells.of((warps, computation, row, at[:, computation, row]))

    def held_by(self, warp: int) -> Held:
        """The layout, where metadata chose columns with those that it chose for a warp."""
        if self.columns is None:
            return self.layout
        table = self.layout.fragment.table.copy()
        table["col"] = table["col_last"] = self.columns[warp]
        return self.layout._replace(
            fragment=replace(self.layout.fragment, elements=table), col=table["col"].astype(np.intp)
        )

    def meant(self, warp: int, depth: Array | None) -> tuple[Array, Array]:
        """What each row and each column of a warp's operand must hold: K as its partner says, or else ascending."""
        # No row or column is that of an element of another array.
        free, own = (np.where(each[warp] < 0, ANY, each[warp]) for each in (self.free, self.depth))
        depth = None if depth is None else np.where(depth < 0, ANY, depth)
        columns = _ascending(own, 1) if depth is None or (depth == ANY).all() else depth
        rows = _first(np.where(own == columns[:, None, :], free, ANY)[None], 3)[0]
        return np.where(rows == ANY, _ascending(free, 2), rows), columns

    def metadata(self, event: Execution) -> Array:
        """Where the metadata that chose the column of a slot (groups, slots) is that of another element.

        Where rows of A themselves hold elements of several rows, that is what is wrong.
        """
        if event.metadata is None or self.columns is None or not self.factor.metadata:
            return np.zeros((len(event.warps), 1), bool)
        held, meant = self._metadata(event)
        rows = self._alike(self.free, 3)[:, None]
        return np.asarray(rows & (meant.array != ANY) & (held.array != ANY) & _differ(held, meant))

    def _metadata(self, event: Execution) -> tuple[Labels, Labels]:
        """The labels of the metadata of each slot, and those that it must have by the row and the column."""
        assert event.metadata is not None
        judge, own = self.judge, self.judge.labels(event.held["A"])
        chooses = self.factor_of("E")
        assert chooses is not None
        number, place = judge.names.index(chooses.name), np.full_like(own.place, ANY)
        place[..., :2] = own.place[..., :2] // np.array(chooses.shares)
        return judge.labels(event.metadata), Labels(np.where(own.array == self.array, number, ANY), place)

    def astray(self, event: Execution, warp: int, wrong: Array) -> tuple[str, ...]:
        """Which metadata a warp has instead of which, in words."""
        held, meant = self._metadata(event)
        slot = int(np.argmax(wrong[warp]))
        has, must = (self.judge.element(*each.one((warp, slot))) for each in (held, meant))
        own = self.judge.element(*self.judge.labels(event.held["A"]).one((warp, slot)))
        count = f"{np.count_nonzero(wrong[warp])} of {wrong.shape[1]} slots of A"
        return (f"the column of {own} is chosen by {has}, must be by {must}  ({count})",)

    def scales(self, event: Execution) -> Scaling:
        """What scales the blocks of the lines, and what must: the factor of the term that counts the same free index.

        Nothing is wrong where the product has no such factor, or where a scale cannot be followed.
        """
        judge, role = self.judge, f"SF{self.role}"
        ids = event.scales(role) if role in event.scaled else np.zeros((len(event.warps), 1, 1), np.int32)
        held = judge.labels(ids)
        meant = Labels(np.full_like(held.array, ANY), np.full_like(held.place, ANY))
        factor = self.factor_of(role)
        if factor is not None and event.scaled:
            blocks = ids.shape[2]
            array = self.cells.array[:, 0].reshape(*ids.shape, -1)
            at = (array != ANY).argmax(axis=3)[..., None] + np.arange(blocks)[:, None] * array.shape[3]
            place = np.take_along_axis(self.cells.place[:, 0], at.reshape(*ids.shape[:2], -1, 1), axis=2)
            known = (array != ANY).any(axis=3) & (held.array != ANY)
            for axis, (name, share) in enumerate(zip(factor.indices, factor.shares, strict=True)):
                meant.place[..., axis] = place[..., self.factor.indices.index(name)] // share
            meant.array[known] = judge.names.index(factor.name)
        return Scaling(held, meant, (meant.array != ANY) & _differ(held, meant))

    def factor_of(self, role: str) -> Factor | None:
        """The factor that scales blocks of this one, or for E its metadata: each element is of several columns."""
        assert self.pair is not None
        if role != "E":
            indices = {*self.factor.indices}
            factors = [factor for term in self.judge.steps[self.pair.step].terms for factor in term.factors]
            return next((each for each in factors if each.shares and {*each.indices} <= indices), None)
        if not (name := self.factor.metadata):
            return None
        columns = self.judge.shapes[self.judge.names.index(name)][-1]
        return Factor(name, self.factor.indices, (1, self.judge.extents[self.factor.indices[-1]] // columns))

    def misscaled(self, warp: int, of: Scaling) -> tuple[str, ...]:
        """Which scales a warp has instead of which, in words."""
        line, block = np.unravel_index(int(np.argmax(of.wrong[warp])), of.wrong.shape[1:])
        has, must = (self.judge.element(*each.one((warp, line, block))) for each in (of.held, of.meant))
        name = "row" if self.role == "A" else "column"
        count = f"{np.count_nonzero(of.wrong[warp])} of {of.wrong[warp].size} scales"
        return (f"block {block} of {name} {line} is scaled by {has}, must be by {must}  ({count})",)

    def explain(self, warp: int, depth: Array | None, name: str, place: str) -> Diagnostic:
        """What a warp's operand holds instead of what it must."""
        free, held_depth = self.free[warp], self.depth[warp]
        rows, columns = self.meant(warp, depth)
        known = (free != ANY) & (held_depth != ANY) & (rows[:, :, None] != ANY) & (columns[:, None, :] != ANY)
        wrong = known & ((free != rows[:, :, None]) | (held_depth != columns[:, None, :]))
        if self.role == "B":
            wrong = wrong.swapaxes(1, 2)
        layout = self.held_by(warp)
        at_slot = wrong[layout.computation, layout.row, layout.col]
        slots = np.flatnonzero(at_slot)
        words = "slots hold other elements than the rest of their rows and columns"
        if len(slots) == 0:
            return Diagnostic("operand", f"{name}: {words}", place)
        relative = self.relative(warp, rows, columns)
        if relative is not None:
            words = described(relative, layout.fragment) or words
        slot = int(slots[0])
        computation, row, col = (int(part[slot]) for part in (layout.computation, layout.row, layout.col))
        line, column = (row, col) if self.role == "A" else (col, row)
        own = self.cells.of((warp, computation, line, column))
        index = [ANY] * self.judge.axes
        assert self.pair is not None
        for names, number in ((self.pair.free(self.factor), rows), (self.pair.summed, columns)):
            value = int(number[computation, line if number is rows else column])
            sizes = [self.judge.extents[each] for each in names]
            for each, part in zip(names, np.unravel_index(value, sizes) if names else (), strict=True):
                index[self.factor.indices.index(each)] = int(part)
        has = self.judge.element(int(own.array), own.place.tolist())
        line_ = f"{layout.spot(slot)} holds {has}, must hold {self.judge.element(self.array, index)}"
        return Diagnostic("operand", f"{name}: {words}", place, (f"{line_}  ({len(slots)} of {len(at_slot)} slots)",))

    def relative(self, warp: int, rows: Array, columns: Array) -> Fragment | None:
        """What the operand holds as a fragment, whose rows and columns are those that should hold it."""
        free, depth = self.free[warp], self.depth[warp]
        layout = self.held_by(warp)
        table = layout.fragment.table.copy()
        lines, depths = (layout.col, layout.row) if self.role == "B" else (layout.row, layout.col)
        held = (each[layout.computation, lines, depths] for each in (free, depth))
        places = []
        for numbers, own in zip((rows, columns), held, strict=True):
            same = numbers[layout.computation] == own[:, None]
            if (same.sum(axis=1) != 1).any():
                return None
            places.append(same.argmax(axis=1))
        row, col = reversed(places) if self.role == "B" else places
        table["row"], table["col"], table["col_last"] = row, col, col
        return traced(layout.fragment, table)


class Followed:
    """The operands of one execution, numbered as far as they can be followed, with what its product sums over.

    What metadata and block scales hold is of the rows and columns of the operand that they belong to.
    """

    def __init__(
        self, judge: Labelling, event: Execution, sides: Mapping[str, HeldOperand], pair: Contraction | None
    ) -> None:
        self.judge, self.event, self.sides, self.pair = judge, event, sides, pair
        partners = {"A": "B", "B": "A"} if pair is not None else {}
        self.depths = {
            role: np.where(sides[other].consistent()[:, None, None], sides[other].depth_first(), ANY)
            for role, other in partners.items()
        }

    def meant(self, role: str, warp: int) -> tuple[Array, Array]:
        """What each row and each column of an operand of a warp must hold."""
        if role in "CD" and self.pair is not None:
            return self.meant("A", warp)[0], self.meant("B", warp)[0]
        return self.sides[role].meant(warp, self.depths[role][warp] if role in self.depths else None)

    def fragment(self, role: str, warp: int) -> Fragment | None:
        """What an operand of a warp holds, by the rows and columns that should hold it; None where not of one tile."""
        if role not in self.sides:
            return self._beside(role, warp)
        side = self.sides[role]
        return side.relative(warp, *self.meant(role, warp)) if side.factor.indices else None

    def _beside(self, role: str, warp: int) -> Fragment | None:
        """What metadata or block scales hold: elements of a factor that counts several columns as one."""
        of = "B" if role == "SFB" else "A"
        if self.pair is None or (factor := self.sides[of].factor_of(role)) is None:
            return None
        judge, layout, held = self.judge, self.event.layouts[role], self.judge.labels(self.event.held[role][warp])
        (rows, *_), (columns, *_) = self.meant(of, warp)
        if (held.array != judge.names.index(factor.name)).any() or (rows == ANY).any() or (columns == ANY).any():
            return None
        at = layout.row if role == "SFB" else layout.col
        width = 1 if role == "E" else len(columns) // (int(at.max()) + 1)
        places = np.unravel_index(columns, [judge.extents[name] for name in self.pair.summed])
        units = np.zeros_like(columns)
        for name, place in zip(self.pair.summed, places, strict=True):
            units = units * judge.extents[name] + place // factor.shares[factor.indices.index(name)]
        free = judge.flat(held, factor, self.pair.free(self.sides[of].factor))[:, None] == rows
        own, there = units[at * width][:, None] == units, judge.flat(held, factor, self.pair.summed)[:, None] == units
        if (free.sum(axis=1) != 1).any() or not there.any(axis=1).all():
            return None
        # The unit that it is of begins elsewhere, and in it it is as far from the beginning as in its own.
        moved = (there.argmax(axis=1) - own.argmax(axis=1)) // width
        table = layout.fragment.table.copy()
        line, column = ("col", "row") if role == "SFB" else ("row", "col")
        table[line], table[column] = free.argmax(axis=1), at + moved
        table["col_last"] = table["col"] + layout.fragment.table["col_last"] - layout.fragment.table["col"]
        return traced(layout.fragment, table)


def traced(fragment: Fragment, table: Array) -> Fragment:
    """A fragment with the elements that a trace has found in its place."""
    return replace(fragment, elements=table, status="traced", source="trace", citation=NOT_CITED)


def described(traced: Fragment, true: Fragment) -> str:
    """How what an operand holds differs from what it must hold."""
    one, other = traced.table, true.table
    rows, columns = (
        (one[a] == other[a] - other[a] % 8 + other[b] % 8).all() for a, b in (("row", "col"), ("col", "row"))
    )
    if rows and columns:
        return "blocks of 8 x 8 are transposed"
    return _REG.sub(r"register\1", difference(traced, true).words)


def _differ(one: Labels, other: Labels) -> Array:
    """Where two labels are not of one element; what is not known may be any."""
    known = (one.place != ANY) & (other.place != ANY)
    return np.asarray((one.array != other.array) | (known & (one.place != other.place)).any(axis=-1))


def _first(values: Array, axis: int) -> Array:
    """The first value along an axis that is known."""
    at = (values != ANY).argmax(axis=axis, keepdims=True)
    return np.asarray(np.take_along_axis(values, at, axis=axis).squeeze(axis))


def _ascending(values: Array, axis: int) -> Array:
    """What each line along an axis must hold where nothing else says it: ascending numbers, where they are enough."""
    first: Array = _first(values[None], axis + 1)[0]
    for computation, line in enumerate(first):
        known = np.unique(values[computation][values[computation] > ANY])
        if len(known) == len(line):
            first[computation] = known
    return first


def _additive(values: Array) -> Array:
    """Whether each cell is a part of its row plus a part of its column; unknown cells are as if they were."""
    base = values[:, :, :1, :1]
    guess = values[:, :, :, :1] + values[:, :, :1, :] - base
    good = (values == guess) | (values == ANY) | (guess == ANY)
    return np.asarray(good.all(axis=(1, 2, 3)))
