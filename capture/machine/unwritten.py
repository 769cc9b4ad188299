"""What nobody wrote, followed through all that was computed of it to what a kernel leaves."""

import numpy as np

from ...db.isa.instructions import WARP
from ...db.layout.algebra import Array
from .accesses import parts
from .findings import Judge
from .operands import Diagnostic
from .schedule import Machine
from .values import NONE, UNSET, Execution, Join, Tape

#: What combines what memory holds with what it is given.
_COMBINE = {"atom", "red", "reduce"}


class Unwritten:
    """Which values were computed of something that nobody wrote.

    A product with a factor that nobody wrote is such a value whatever the other factor is, but of whole numbers with
    a constant, which may be the zero of a mask, and of a sparse matrix where nothing is stored.
    """

    def __init__(self, tape: Tape) -> None:
        self.tape, self.nodes = tape, np.zeros(tape.starts[-1], bool)
        for number, event in enumerate(tape.events):
            at = slice(tape.starts[number], tape.starts[number + 1])
            if isinstance(event, Join):
                self.nodes[at] = self.nodes[event.left] | self.nodes[event.right]
            elif any(self.of(ids).any() for role, ids in event.held.items() if role in "ABC"):
                self.nodes[at] = self._product(event)

    def of(self, ids: Array) -> Array:
        """Whether values with these origins are."""
        return np.asarray(self.nodes[np.maximum(ids, NONE)] | (ids == UNSET))

    def _product(self, event: Execution) -> Array:
        """Which elements of D are, in the order of its nodes."""
        a, b, c = (event.cells(role) for role in "ABC")
        other_a, other_b = (
            ids != NONE if event.form.d == "s32" or event.columns is not None else np.ones_like(ids, bool)
            for ids in (a, b)
        )
        found = (self.of(a) @ other_b) | (other_a @ self.of(b)) | self.of(c)
        d = event.layouts["D"]
        return np.asarray(found[:, d.computation, d.row, d.col].ravel())

    def product(self, origin: int) -> int | None:
        """The node of the tensor instruction that has multiplied what nobody wrote for a value; None where none has."""
        while origin >= self.tape.starts[0]:
            event, place = self.tape.event(origin)
            if isinstance(event, Join):
                sources = [int(each[place]) for each in (event.left, event.right)]
            else:
                group, slot = divmod(place, len(event.layouts["D"].row))
                d, c = event.layouts["D"], event.layouts["C"]
                cell = (int(d.computation[slot]), int(d.row[slot]), int(d.col[slot]))
                factors = event.factors(group, cell)
                if (factors == UNSET).any():
                    return origin
                sources = [int(event.held["C"][group, c.slot[cell]]), *factors.ravel().tolist()]
            origin = next((each for each in sources if self.of(np.array(each))), NONE)
        return None

    def left(
        self, judge: Judge, name: str, ids: Array, writer: Array, machine: Machine, *, filled: bool
    ) -> tuple[Array, list[Diagnostic]]:
        """The elements of an array that are left so, by their origins and the last writes of their first bytes.

        Of one that is ``filled`` only those where that is combined with what is there: what is stored may be padding.
        """
        found, steps = self.of(ids) & (writer != 0), np.array(machine.order.history.steps)
        if filled and found.any():
            at = steps[parts(writer).time]
            combine = [each for each in np.unique(at[found]) if {*machine.program[each][0].parts[:2]} & _COMBINE]
            found &= np.isin(at, combine)
        if not found.any():
            return found, []
        first, number = int(found.argmax()), judge.names.index(name)
        _, time, who = (int(part) for part in parts(writer[first]))
        block, thread = divmod(who, machine.per_block)
        place = machine.program[steps[time]][0].place
        element = judge.element(number, [int(part) for part in np.unravel_index(first, judge.shapes[number])])
        of = f" of block {block}" if block else ""
        details = [f"the first is {element}, stored at {place} by warp {thread // WARP}, lane {thread % WARP}{of}"]
        operand = None
        if (node := self.product(int(ids[first]))) is not None:
            operand, how = judge.unwritten(node)
            details.append(how)
        words = f"{name}: {np.count_nonzero(found)} of {found.size} elements are made of what nobody wrote"
        return found, [Diagnostic("unset", words, place.named, tuple(details), int(np.count_nonzero(found)), operand)]
