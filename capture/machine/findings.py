"""What is wrong with a run: operands that hold other elements than they must, and sums of terms that do not belong.

An origin becomes a label: an array with an index along each of its axes, of which ``ANY`` is one that is not known.
What holds an operand is compared with itself, with its partner, and with what the product says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...db.compare.difference import difference
from ...db.errors import LanemapError
from ...db.isa.instructions import WARP
from ...db.layout.algebra import Array
from ...db.layout.fragment import NOT_CITED, Fragment
from ...db.text import counted
from .arguments import Argument
from .product import Factor, Formula, Term
from .values import NONE, UNSET, Execution, Held, Join, Tape

#: What tables call a register.
_REG = re.compile(r"\breg(s?)\b")

#: An index, or an array, that is not known.
ANY = -1

#: What is said of a sum that has the terms of the product.
RIGHT = "it adds the right products"

#: More terms than this of one sum are not followed.
_MOST_TERMS = 1 << 17


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


class Labels(NamedTuple):
    """The array that each of some values is an element of, and its place (values, axes) in it; ANY where not known."""

    array: Array
    place: Array

    def of(self, chosen: Any) -> Labels:
        """Some of them."""
        return Labels(self.array[chosen], self.place[chosen])


class Contraction(NamedTuple):
    """Two factors that a step multiplies, with the indices that both have and the left side lacks."""

    step: int
    left: Factor
    right: Factor
    summed: tuple[str, ...]

    def free(self, factor: Factor) -> tuple[str, ...]:
        """The indices of a factor that are not summed over."""
        return tuple(name for name in factor.indices if name not in self.summed)


class Judge:
    """Follows what a run has recorded, with the labels of all that was computed in it."""

    def __init__(
        self,
        tape: Tape,
        arguments: Sequence[Argument],
        steps: Sequence[Formula],
        extents: Mapping[str, int],
    ) -> None:
        self.tape, self.steps, self.extents = tape, steps, extents
        self.arguments = [argument for argument in arguments if argument.pointer]
        made = [step.left for step in steps]
        self.names = [*(argument.name for argument in self.arguments)]
        self.names += [factor.name for factor in made if factor.name not in self.names]
        self.shapes = [argument.shape for argument in self.arguments]
        self.shapes += [
            tuple(extents.get(name, 1) for name in factor.indices)
            for factor in made
            if factor.name not in {argument.name for argument in self.arguments}
        ]
        self.axes = max([len(shape) for shape in self.shapes], default=1)
        #: What a step makes of one array alone has the elements of that array.
        self.same = {
            step.left.name: step.terms[0].factors[0].name
            for step in steps
            if len(step.terms) == 1 and len(step.terms[0].factors) == 1
        }
        #: The labels of all origins, by their numbers; that of what has none is not known.
        self.known = Labels(
            np.full(tape.starts[-1], ANY, np.int16), np.full((tape.starts[-1], self.axes), ANY, np.int32)
        )
        for number, argument in enumerate(self.arguments):
            at = slice(argument.first, argument.first + prod(argument.shape))
            self.known.array[at] = number
            places = np.indices(argument.shape, np.int32).reshape(len(argument.shape), -1)
            self.known.place[at, : len(argument.shape)] = places.T
        self.faulty: dict[tuple[str, str], list[Any]] = {}
        for number, event in enumerate(tape.events):
            at = slice(tape.starts[number], tape.starts[number + 1])
            found = self._product(number, event) if isinstance(event, Execution) else self._join(event)
            self.known.array[at], self.known.place[at] = found

    # Labels.

    def labels(self, ids: Array) -> Labels:
        """The labels of origins."""
        return self.known.of(np.maximum(ids, NONE))

    def _join(self, event: Join) -> Labels:
        """The label of a value that two make: where only one of them knows an index, it is that."""
        left, right = self.labels(event.left), self.labels(event.right)
        unknown = left.array == ANY
        array = np.where(unknown, right.array, left.array)
        # Of two arrays, the one whose element is known in all of its axes: a sum is scaled by what a row has in common.
        other = (left.array != right.array) & ~unknown & (right.array != ANY)
        missing = (left.place == ANY).sum(axis=-1) > (right.place == ANY).sum(axis=-1)
        array = np.where(other & missing, right.array, array)
        both = np.where(left.place == ANY, right.place, np.where(right.place == ANY, left.place, ANY))
        agreed = np.where(left.place == right.place, left.place, both)
        index = np.where((other & missing | unknown)[:, None], right.place, left.place)
        alike = (left.array == right.array)[:, None]
        return Labels(array, np.where(alike, agreed, index))

    def name(self, number: int) -> str:
        """The name of an array."""
        return self.names[number]

    def element(self, number: int, index: Sequence[int]) -> str:
        """An element in words."""
        shape = self.shapes[number]
        places = "".join("[.]" if value == ANY else f"[{value}]" for value in list(index)[: len(shape)])
        return f"{self.name(number)}{places}"

    def _indices(self, name: str) -> tuple[str, ...]:
        """The names of the indices of an array, as the product has them."""
        for step in self.steps:
            for factor in (step.left, *(factor for term in step.terms for factor in term.factors)):
                if factor.name == name:
                    return factor.indices
        return ()

    @cached_property
    def pairs(self) -> dict[tuple[str, str], Contraction]:
        """What each step multiplies, by the names of both factors in either order."""
        found = {}
        for number, step in enumerate(self.steps):
            for term in step.terms:
                for left in term.factors:
                    for right in term.factors:
                        shared = {*left.indices} & {*right.indices} - {*step.left.indices}
                        if left is not right and shared:
                            summed = tuple(name for name in left.indices if name in shared)
                            pair = Contraction(number, left, right, summed)
                            for one in (left.name, *self._like(left.name)):
                                for other in (right.name, *self._like(right.name)):
                                    found[one, other] = pair
        return found

    def _like(self, name: str) -> Iterator[str]:
        """The arrays that an array was made of alone, whose elements it has."""
        while name in self.same:
            name = self.same[name]
            yield name

    def flat(self, labels: Labels, factor: Factor, names: Sequence[str]) -> Array:
        """One number for the indices of these names; ANY where one of them is not known."""
        found = np.zeros(labels.array.shape, np.int64)
        known = labels.array != ANY
        for name in names:
            values = labels.place[..., factor.indices.index(name)]
            found = found * self.extents[name] + values
            known &= values != ANY
        return np.where(known, found, ANY)

    # Operands.

    def _product(self, number: int, event: Execution) -> Labels:
        """The labels of what a tensor instruction computes. Notes operands that do not hold what they must."""
        sides = {role: _Side(self, event, role) for role in "AB"}
        a, b = sides["A"], sides["B"]
        pair = self.pairs.get((self.name(a.array), self.name(b.array))) if ANY not in (a.array, b.array) else None
        result = event.layouts["D"]
        count = len(event.warps) * len(result.row)
        array, index = np.full(count, ANY, np.int16), np.full((count, self.axes), ANY, np.int32)
        if pair is None:
            if not self.steps:
                self._alone(number, event, sides)
            return Labels(array, index)
        a.follow(pair.left, pair)
        b.follow(pair.right, pair)
        self._judge(number, event, a, b)
        left = self.steps[pair.step].left
        target = self.names.index(next(iter(reversed([left.name, *self._like(left.name)]))))
        rows = a.first(result.computation, result.row)
        columns = b.first(result.computation, result.col)
        found = np.full((*rows.array.shape, self.axes), ANY, np.int32)
        for axis, name in enumerate(left.indices):
            for labels, factor in ((rows, pair.left), (columns, pair.right)):
                if name in factor.indices:
                    found[..., axis] = labels.place[..., factor.indices.index(name)]
        known = (rows.array != ANY) & (columns.array != ANY)
        return Labels(
            np.where(known, target, ANY).reshape(-1), np.where(known[..., None], found, ANY).reshape(count, -1)
        )

    def _judge(self, number: int, event: Execution, a: _Side, b: _Side) -> None:
        """Compare what two operands hold: the free index along rows of A and columns of B, the summed one along K."""
        agree_a, agree_b = a.consistent(), b.consistent()
        depth_a, depth_b = a.depth_first(), b.depth_first()
        other = (depth_a != depth_b) & (depth_a != ANY) & (depth_b != ANY)
        wrong = other.any(axis=(1, 2)) & agree_a & agree_b
        for side, partner, agree in ((a, depth_b, agree_a), (b, depth_a, agree_b)):
            if not agree.all():
                usable = (agree_b if side is a else agree_a)[:, None, None]
                self._note("operand", side.role, event, number, ~agree, (side, np.where(usable, partner, ANY)))
        if wrong.any():
            self._note("pairing", "", event, number, wrong, (a, b))

    def _alone(self, number: int, event: Execution, sides: Mapping[str, _Side]) -> None:
        """Without a product: rows and columns of an array must be those of the operand, or the other way round."""
        for side in sides.values():
            if side.array == ANY or len(self.shapes[side.array]) < 2:
                continue
            transposed, plain = (self._follow_alone(side, last=last).consistent(either=True) for last in (False, True))
            if not (plain | transposed).all():
                self._note("operand", side.role, event, number, ~(plain | transposed), (side, None))

    def _follow_alone(self, side: _Side, *, last: bool) -> _Side:
        """Number what an operand holds by its array alone: the last index is the summed one, or all others are."""
        shape = self.shapes[side.array]
        factor = Factor(self.name(side.array), tuple(f"axis {axis}" for axis in range(len(shape))))
        self.extents = {**self.extents, **dict(zip(factor.indices, shape, strict=True))}
        side.follow(factor, Contraction(0, factor, factor, factor.indices[-1:] if last else factor.indices[:-1]))
        return side

    @cached_property
    def executions(self) -> list[Execution]:
        """Every execution of a tensor instruction, in their order."""
        return [event for event in self.tape.events if isinstance(event, Execution)]

    def must(self, role: str, number: int) -> Fragment:
        """The layout that an operand of an execution has."""
        return self.executions[number - 1].layouts[role].fragment

    def fragment(self, role: str, number: int, warp: int) -> Fragment:
        """What A or B of an execution of a warp holds, by the rows and columns that should hold it.

        Raises:
            LanemapError: there is no such operand, or it holds elements of other tiles, or what cannot be followed.
        """
        products = self.executions
        if (
            role not in ("A", "B")
            or not 1 <= number <= len(products)
            or not 0 <= warp < len(products[number - 1].warps)
        ):
            raise LanemapError(
                f"{role} of mma {number}, warp {warp}: name A or B, and one of {len(products)} executions"
            )
        event = products[number - 1]
        a, b = (_Side(self, event, each) for each in "AB")
        side, other = (a, b) if role == "A" else (b, a)
        pair = self.pairs.get((self.name(a.array), self.name(b.array))) if ANY not in (a.array, b.array) else None
        depth = None
        if pair is not None:
            a.follow(pair.left, pair)
            b.follow(pair.right, pair)
            depth = other.depth_first()[warp] if other.consistent()[warp] else None
        elif side.array != ANY:
            self._follow_alone(side, last=True)
        found = None if side.array == ANY else side.relative(warp, *side.meant(warp, depth))
        if found is None:
            raise LanemapError(f"{role} of mma {number}, warp {warp}, does not hold the elements of one tile")
        return found

    def _note(self, kind: str, role: str, event: Execution, number: int, wrong: Array, more: Any) -> None:
        key = kind, f"{role} {event.place.line}"
        known = self.faulty.setdefault(key, [0, None])
        known[0] += int(np.count_nonzero(wrong))
        if known[1] is None:
            known[1] = self._explain(kind, role, event, number, int(np.argmax(wrong)), more)

    def _explain(self, kind: str, role: str, event: Execution, number: int, warp: int, more: Any) -> Diagnostic:
        form = event.form
        name = f"{form.name} {self._count(number)} ({event.place}), {_warp(event, warp)}"
        if kind == "pairing":
            a, b = more
            depth = [side.depth_first()[warp].reshape(-1) for side in (a, b)]
            at = int(np.argmax((depth[0] != depth[1]) & (depth[0] != ANY) & (depth[1] != ANY)))
            one, two = (
                self.element(int(labels.array), labels.place.tolist())
                for labels in (a.at_depth(warp, at), b.at_depth(warp, at))
            )
            words = f"A and B of {name}: they disagree about K"
            return Diagnostic("pairing", words, str(event.place), (f"column {at} of A has {one}, row {at} of B {two}",))
        side, depth = more
        found: Diagnostic = side.explain(
            warp, None if depth is None else depth[warp], f"{role} of {name}", str(event.place)
        )
        return replace(found, operand=(role, self._count(number), warp))

    def _count(self, number: int) -> int:
        """Which of the executions of this instruction it is, from 1."""
        events = self.tape.events[: number + 1]
        return sum(isinstance(event, Execution) for event in events)

    @property
    def operands(self) -> list[Diagnostic]:
        """What is wrong with operands. What is wrong in the same way in several places is one finding."""
        alike: dict[tuple[str, ...], list[tuple[int, Diagnostic]]] = {}
        for count, found in self.faulty.values():
            alike.setdefault((found.kind, found.words[:1], found.words.partition(": ")[2]), []).append((count, found))
        merged = []
        for several in alike.values():
            first, total = several[0][1], sum(count for count, _ in several)
            places = {found.place: None for _, found in several}
            more = len(several) - 1
            where = f"so for {counted(more, 'more instruction')}" + (
                f", in {', '.join([*places][:4])}" if len(places) > 1 else ""
            )
            details = (*first.details, where) if more else first.details
            merged.append(replace(first, details=details, count=total))
        return merged

    # Sums.

    def terms(self, origin: int) -> Counter[tuple[int, ...]] | None:
        """The products that were added, by the origins of their factors; None where that cannot be followed."""
        found: Counter[tuple[int, ...]] = Counter()
        open_ = [origin]
        while open_:
            node = open_.pop()
            if node == NONE:
                continue
            if node == UNSET:
                found[node,] += 1
                continue
            if node < 0 or len(found) > _MOST_TERMS:
                return None
            if node < self.tape.starts[0]:
                found[node,] += 1
                continue
            event, place = self.tape.event(node)
            if isinstance(event, Join):
                left, right = int(event.left[place]), int(event.right[place])
                if event.kind == "add":
                    open_ += [left, right]
                elif event.kind == "mul":
                    found[tuple(sorted((left, right)))] += 1
                else:
                    return None
                continue
            layout = event.layouts
            warp, slot = divmod(place, len(layout["D"].row))
            cell = (int(layout["D"].computation[slot]), int(layout["D"].row[slot]), int(layout["D"].col[slot]))
            open_.append(int(event.held["C"][warp, layout["C"].slot[cell]]))
            left_slots = layout["A"].slot[cell[0], cell[1], :]
            right_slots = layout["B"].slot[cell[0], :, cell[2]]
            for one, two in zip(
                event.held["A"][warp, left_slots].tolist(), event.held["B"][warp, right_slots].tolist(), strict=True
            ):
                if UNSET in (one, two):
                    found[UNSET,] += 1
                elif NONE not in (one, two):
                    if min(one, two) < 0:
                        return None
                    found[tuple(sorted((one, two)))] += 1
        return found

    def sum_words(self, output: int, index: Sequence[int], origin: int) -> str:
        """What is wrong with the terms of one element of the last step, in words; empty where that cannot be known."""
        step = self.steps[-1]
        found = self.terms(origin)
        if found is None or step.functions:
            return ""
        if unset := found[UNSET,]:
            return f"{self.element(output, index)} adds what nobody wrote ({unset} of {found.total()} products)"
        keys: Counter[tuple[tuple[int, tuple[int, ...]], ...]] = Counter()
        for ids, count in found.items():
            labels = self.labels(np.array(ids))
            keys[
                tuple(sorted((int(n), tuple(i.tolist())) for n, i in zip(labels.array, labels.place, strict=True)))
            ] += count
        wanted = Counter(
            key for term in step.terms for key in self._wanted(term, dict(zip(step.left.indices, index, strict=False)))
        )
        extra, missing = keys - wanted, wanted - keys
        twice = [key for key in extra if key in wanted]
        foreign = sum(count for key, count in extra.items() if key not in wanted)
        subject = self.element(output, index)

        def product(key: tuple[tuple[int, tuple[int, ...]], ...]) -> str:
            return " x ".join(self.element(number, place) for number, place in key)

        total = sum(keys.values())
        if foreign:
            first = next(key for key in extra if key not in wanted)
            return f"{subject} adds {product(first)} ({foreign} of {total} products are not of this sum)"
        if twice:
            return f"{subject} adds {product(twice[0])} {keys[twice[0]]} times ({len(twice)} products are added again)"
        if missing:
            first = next(iter(missing))
            few = f"{missing.total()} of {wanted.total()}"
            return f"{subject} lacks {product(first)} ({few} products are missing)"
        return RIGHT

    def _wanted(self, term: Term, fixed: Mapping[str, int]) -> Iterator[tuple[tuple[int, tuple[int, ...]], ...]]:
        """The products of a term for an element, by array and indices."""
        names = [name for name in dict.fromkeys(n for f in term.factors for n in f.indices) if name not in fixed]
        for place in np.ndindex(*(self.extents[name] for name in names)):
            at = {**fixed, **dict(zip(names, place, strict=True))}
            yield tuple(
                sorted(
                    (
                        self.names.index(next(iter(reversed([factor.name, *self._like(factor.name)])))),
                        (*(at[name] for name in factor.indices), *[ANY] * (self.axes - len(factor.indices))),
                    )
                    for factor in term.factors
                )
            )


class _Side:
    """A or B of one execution: what its slots hold, as matrices (warps, computations, rows, columns)."""

    def __init__(self, judge: Judge, event: Execution, role: str) -> None:
        self.judge, self.role = judge, role
        self.layout: Held = event.layouts[role]
        self.ids = event.held[role]
        self.labels = judge.labels(self.ids)
        known = self.labels.array[self.labels.array != ANY]
        self.array = int(np.bincount(known).argmax()) if len(known) else ANY
        slots = self.layout.slot
        self.cells = self.labels.of((slice(None), slots))
        if role == "B":  # K along the last axis, as in A
            self.cells = Labels(self.cells.array.swapaxes(2, 3), self.cells.place.swapaxes(2, 3))
        self.free: Array = np.zeros(0)
        self.depth: Array = np.zeros(0)
        self.factor = Factor("", ())
        self.pair: Contraction | None = None

    def follow(self, factor: Factor, pair: Contraction) -> None:
        """Number the free and the summed indices that the cells hold."""
        self.factor, self.pair = factor, pair
        self.free = self.judge.flat(self.cells, factor, pair.free(factor))
        self.depth = self.judge.flat(self.cells, factor, pair.summed)
        foreign = (self.cells.array != ANY) & (self.cells.array != self.array)
        # An element of another array is of no row and no column of this one.
        self.free, self.depth = (np.where(foreign, -2 - self.cells.array, each) for each in (self.free, self.depth))

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

    def meant(self, warp: int, depth: Array | None) -> tuple[Array, Array]:
        """What each row and each column of a warp's operand must hold: K as its partner says, or else ascending."""
        free, own = self.free[warp], self.depth[warp]
        columns = _ascending(own, 1) if depth is None or (depth == ANY).all() else depth
        rows = _first(np.where(own == columns[:, None, :], free, ANY)[None], 3)[0]
        return np.where(rows == ANY, _ascending(free, 2), rows), columns

    def explain(self, warp: int, depth: Array | None, name: str, place: str) -> Diagnostic:
        """What a warp's operand holds instead of what it must."""
        free, held_depth = self.free[warp], self.depth[warp]
        rows, columns = self.meant(warp, depth)
        known = (free != ANY) & (held_depth != ANY) & (rows[:, :, None] != ANY) & (columns[:, None, :] != ANY)
        wrong = known & ((free != rows[:, :, None]) | (held_depth != columns[:, None, :]))
        if self.role == "B":
            wrong = wrong.swapaxes(1, 2)
        layout = self.layout
        at_slot = wrong[layout.computation, layout.row, layout.col]
        slots = np.flatnonzero(at_slot)
        words = "slots hold other elements than the rest of their rows and columns"
        if len(slots) == 0:
            return Diagnostic("operand", f"{name}: {words}", place)
        relative = self.relative(warp, rows, columns)
        if relative is not None:
            words = _words(relative, layout.fragment) or words
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
        table = layout.fragment.table[slot]
        spot = f"lane {table['lane']} register {table['reg']} slot {table['slot']}"
        if layout.fragment.tile:
            spot = f"row {row} column {col} of what the descriptor reads"
        has = self.judge.element(int(own.array), own.place.tolist())
        line_ = f"{spot} holds {has}, must hold {self.judge.element(self.array, index)}"
        return Diagnostic("operand", f"{name}: {words}", place, (f"{line_}  ({len(slots)} of {len(at_slot)} slots)",))

    def relative(self, warp: int, rows: Array, columns: Array) -> Fragment | None:
        """What the operand holds as a fragment, whose rows and columns are those that should hold it."""
        free, depth = self.free[warp], self.depth[warp]
        layout, table = self.layout, self.layout.fragment.table.copy()
        lines = layout.row if self.role == "A" else layout.col
        depths = layout.col if self.role == "A" else layout.row
        for slot in range(len(table)):
            computation, line, column = int(layout.computation[slot]), int(lines[slot]), int(depths[slot])
            row = np.flatnonzero(rows[computation] == free[computation, line, column])
            col = np.flatnonzero(columns[computation] == depth[computation, line, column])
            if len(row) != 1 or len(col) != 1:
                return None
            place = (int(row[0]), int(col[0])) if self.role == "A" else (int(col[0]), int(row[0]))
            table[slot]["row"], table[slot]["col"] = place
            table[slot]["col_last"] = place[1]
        fragment = layout.fragment
        return replace(fragment, elements=table, status="traced", source="trace", citation=NOT_CITED)


def _words(traced: Fragment, true: Fragment) -> str:
    """How what an operand holds differs from what it must hold."""
    one, other = traced.table, true.table
    rows, columns = (
        (one[a] == other[a] - other[a] % 8 + other[b] % 8).all() for a, b in (("row", "col"), ("col", "row"))
    )
    return (
        "blocks of 8 x 8 are transposed"
        if rows and columns
        else _REG.sub(r"register\1", difference(traced, true).words)
    )


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


def _warp(event: Execution, warp: int) -> str:
    block, number = event.warps[warp].tolist()
    last = number + event.form.threads // WARP - 1
    warps = f"warps {number} to {last}" if last > number else f"warp {number}"
    return warps + (f" of block {block}" if block else "")
