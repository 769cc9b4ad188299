"""What is wrong with a run: operands that hold other elements than they must, and sums of terms that do not belong.

An origin becomes a label: an array with an index along each of its axes, of which ``ANY`` is one that is not known.
What holds an operand is compared with itself, with its partner, and with what the product says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ...db.errors import LanemapError
from ...db.isa.instructions import WARP
from ...db.layout.algebra import Array
from ...db.layout.fragment import Fragment
from ...db.text import counted
from .labels import ANY, Labelling, Labels
from .operands import Contraction, Diagnostic, Followed, HeldOperand, described
from .product import Factor
from .values import UNSET, Execution


class Judge(Labelling):
    """Finds what is wrong with what a run has recorded, once ``follow`` has labelled it."""

    def follow(self) -> None:
        """Label what each event of the run has made, in their order, and note operands that are wrong."""
        self.faulty: dict[tuple[str, str], list[Any]] = {}
        for number, event in enumerate(self.tape.events):
            at = slice(self.tape.starts[number], self.tape.starts[number + 1])
            found = self._product(number, event) if isinstance(event, Execution) else self.joined(event)
            self.known.array[at], self.known.place[at] = found

    @cached_property
    def pairs(self) -> dict[tuple[str, str], Contraction]:
        """What each step multiplies, by the names of both factors in either order."""
        found = {}
        for number, step in enumerate(self.steps):
            for term in step.terms:
                for left in term.factors:
                    for right in term.factors:
                        if left.shares or right.shares:
                            continue
                        shared = {*left.indices} & {*right.indices} - {*step.left.indices}
                        if left is not right and shared:
                            summed = tuple(name for name in left.indices if name in shared)
                            pair = Contraction(number, left, right, summed)
                            for one in self.like(left.name):
                                for other in self.like(right.name):
                                    found[one, other] = pair
        return found

    # Operands.

    def _product(self, number: int, event: Execution) -> Labels:
        """The labels of what a tensor instruction computes. Notes operands that do not hold what they must."""
        sides = {role: HeldOperand(self, event, role) for role in "AB"}
        a, b = sides.values()
        pair = self._paired(a, b)
        result = event.layouts["D"]
        count = len(event.warps) * len(result.row)
        array, index = np.full(count, ANY, np.int16), np.full((count, self.axes), ANY, np.int32)
        if pair is None:
            if not self.steps:
                self._alone(number, event, sides)
            return Labels(array, index)
        self._judge(number, event, a, b)
        left = self.steps[pair.step].left
        target = self.origin(left.name)
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

    def _paired(self, a: HeldOperand, b: HeldOperand) -> Contraction | None:
        """The step of the product that multiplies what two operands hold, which are numbered by it."""
        pair = self.pairs.get((self.names[a.array], self.names[b.array])) if ANY not in (a.array, b.array) else None
        if pair is not None:
            a.follow(pair.left, pair)
            b.follow(pair.right, pair)
        return pair

    def _judge(self, number: int, event: Execution, a: HeldOperand, b: HeldOperand) -> None:
        """Compare what two operands hold: the free index along rows of A and columns of B, the summed one along K.

        Metadata and scales must be those of what they choose and scale. Where metadata is of others, so are columns.
        """
        astray = a.metadata(event)
        if astray.any():
            self._note("metadata", "E", event, number, np.asarray(astray.any(axis=1)), (a, astray))
        for side in (a, b):
            others = side.scales(event)
            if others.wrong.any():
                self._note(
                    "scale", f"SF{side.role}", event, number, np.asarray(others.wrong.any(axis=(1, 2))), (side, others)
                )
        agree_a, agree_b = a.consistent() | astray.any(axis=1), b.consistent()
        depth_a, depth_b = a.depth_first(), b.depth_first()
        other = (depth_a != depth_b) & (depth_a != ANY) & (depth_b != ANY)
        wrong = other.any(axis=(1, 2)) & agree_a & agree_b & ~astray.any(axis=1)
        for side, partner, agree in ((a, depth_b, agree_a), (b, depth_a, agree_b)):
            if not agree.all():
                usable = (agree_b if side is a else agree_a)[:, None, None]
                self._note("operand", side.role, event, number, ~agree, (side, np.where(usable, partner, ANY)))
        if wrong.any():
            self._note("pairing", "", event, number, wrong, (a, b))

    def _alone(self, number: int, event: Execution, sides: Mapping[str, HeldOperand]) -> None:
        """Without a product: rows and columns of an array must be those of the operand, or the other way round."""
        for side in sides.values():
            if side.array == ANY or len(self.shapes[side.array]) < 2 or side.columns is not None:
                continue
            transposed, plain = (self._follow_alone(side, last=last).consistent(either=True) for last in (False, True))
            if not (plain | transposed).all():
                self._note("operand", side.role, event, number, ~(plain | transposed), (side, None))

    def _follow_alone(self, side: HeldOperand, *, last: bool) -> HeldOperand:
        """Number what an operand holds by its array alone: the last index is the summed one, or all others are."""
        shape = self.shapes[side.array]
        factor = Factor(self.names[side.array], tuple(f"axis {axis}" for axis in range(len(shape))))
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
        """What an operand of an execution of a warp holds, by the rows and columns that should hold it.

        Of D that is what its sums are stored as.

        Raises:
            LanemapError: there is no such operand, or it holds elements of other tiles, or what cannot be followed.
        """
        products = self.executions
        roles = _roles(products[number - 1]) if 1 <= number <= len(products) else []
        if role not in roles or not 0 <= warp < len(products[number - 1].warps):
            words = f"name {', '.join(roles or 'ABCD')}, and one of {len(products)} executions"
            raise LanemapError(f"{role} of mma {number}, warp {warp}: {words}")
        found = self._followed(products[number - 1]).fragment(role, warp)
        if found is None:
            words = "does not hold the elements of one tile, or none that can be followed"
            raise LanemapError(f"{role} of mma {number}, warp {warp}, {words}")
        return found

    def held(self) -> Iterator[tuple[int, int, list[Fragment]]]:
        """What operands of each execution hold that are of one tile, with its number and the warp.

        What an instruction holds alike in several executions comes once.
        """
        known = set()
        for number, event in enumerate(self.executions, 1):
            followed = self._followed(event)
            for warp in range(len(event.warps)):
                fragments = [held for role in _roles(event) if (held := followed.fragment(role, warp)) is not None]
                alike = event.place.line, *(held.digest for held in fragments)
                if fragments and alike not in known:
                    known.add(alike)
                    yield number, warp, fragments

    def _followed(self, event: Execution) -> Followed:
        """The operands of an execution, numbered by the product, or each by its array alone where it has none."""
        sides = {role: HeldOperand(self, event, role) for role in _roles(event) if role in "ABCD"}
        pair = self._paired(sides["A"], sides["B"])
        for role, side in sides.items():
            if pair is not None and role in "CD" and side.array != ANY:
                side.accumulates(pair)
            elif (
                pair is None
                and (role != "D" or not self.steps)
                and side.array != ANY
                and len(self.shapes[side.array]) > 1
            ):
                self._follow_alone(side, last=True)
        return Followed(self, event, sides, pair)

    def stored_as(self, origin: int) -> tuple[tuple[str, int, int] | None, str] | None:
        """The D that a sum was computed in last, and in words how that is stored, where all of it is of one tile.

        None where it is stored as it must be.
        """
        while origin >= self.tape.starts[0]:
            event, place = self.tape.event(origin)
            if isinstance(event, Execution):
                warp = place // len(event.layouts["D"].row)
                if (held := self._followed(event).fragment("D", warp)) is None:
                    break
                operand, name = self._operand("D", event, warp)
                words = described(held, self.must("D", operand[1]))
                return (operand, f"{name}, as it is stored: {words}") if words else None
            origin = int(max(event.left[place], event.right[place]))
        return None, ""

    def unwritten(self, node: int) -> tuple[tuple[str, int, int], str]:
        """The operand of which a tensor instruction has multiplied what nobody wrote for a sum, and in words where."""
        event, place = self.tape.event(node)
        assert isinstance(event, Execution)
        d = event.layouts["D"]
        warp, slot = divmod(place, len(d.row))
        unset = event.factors(warp, (int(d.computation[slot]), int(d.row[slot]), int(d.col[slot]))) == UNSET
        role = ["A", "B", *event.scaled][int(unset.any(axis=0).argmax())]
        slots = event.held[role][warp] == UNSET
        operand, name = self._operand(role, event, warp)
        first, count = event.layouts[role].spot(int(slots.argmax())), np.count_nonzero(slots)
        return operand, f"{name}: {first} is uninitialised  ({count} of {slots.size} slots)"

    def _operand(self, role: str, event: Execution, warp: int) -> tuple[tuple[str, int, int], str]:
        """An operand of an execution of a warp, as findings name it."""
        number = next(at for at, each in enumerate(self.executions, 1) if each is event)
        return (role, number, warp), f"{role} of {event.form.name} {number} ({event.place}), {_warp(event, warp)}"

    def _note(self, kind: str, role: str, event: Execution, number: int, wrong: Array, more: Any) -> None:
        key = kind, f"{role} {event.place.line}"
        known = self.faulty.setdefault(key, [0, None])
        known[0] += int(np.count_nonzero(wrong))
        if known[1] is None:
            known[1] = self._explain(kind, role, event, number, int(np.argmax(wrong)), more)

    def _explain(self, kind: str, role: str, event: Execution, number: int, warp: int, more: Any) -> Diagnostic:
        form, place = event.form, event.place.named
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
            return Diagnostic("pairing", words, place, (f"column {at} of A has {one}, row {at} of B {two}",))
        side, depth = more
        if kind == "metadata":
            words, details = f"E of {name}: metadata of other elements", side.astray(event, warp, depth)
            return Diagnostic(kind, words, place, details, operand=("E", self._count(number), warp))
        if kind == "scale":
            words, details = f"{role} of {name}: scales of other blocks", side.misscaled(warp, depth)
            return Diagnostic(kind, words, place, details, operand=(role, self._count(number), warp))
        found: Diagnostic = side.explain(warp, None if depth is None else depth[warp], f"{role} of {name}", place)
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


def _roles(event: Execution) -> list[str]:
    """The operands of an execution; what wgmma adds to is D itself."""
    return sorted(role for role, layout in event.layouts.items() if layout.fragment.role == role)


def _warp(event: Execution, warp: int) -> str:
    block, number = event.warps[warp].tolist()
    last = number + event.form.threads // WARP - 1
    warps = f"warps {number} to {last}" if last > number else f"warp {number}"
    return warps + (f" of block {block}" if block else "")
