"""What meets in an element of D: the slots of A and B that are multiplied, with their metadata and scales, by k."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ..errors import AbsentError, OutsideError
from ..isa.forms import forms
from ..isa.instructions import instruction
from ..layout.fragment import Element, Fragment
from ..lookup import Query, every_operand, operands
from ..rows import Rows, Told
from ..store.reader import Reader

#: The coordinate that each role shares with D; the other one counts K, or blocks of it.
_SHARED = {"A": "row", "E": "row", "SFA": "row", "B": "col", "SFB": "col"}


@dataclass(frozen=True, repr=False)
class Terms(Told):
    """The slots that meet in one element of ``d``: of each role those of each (computation, k), as lane:reg.slot."""

    d: Fragment
    row: int
    col: int
    depth: int
    slots: Mapping[str, Mapping[tuple[int, int], str]]
    remarks: Sequence[str] = ()

    def rows(self) -> Rows:
        """A row for each k, of each product where there are several."""
        products = sorted({product for held in self.slots.values() for product, _ in held})
        pairs = [(product, k) for product in products for k in range(self.depth)]
        rows = [(*pair, *(held.get(pair) for held in self.slots.values())) for pair in pairs]
        whole = Rows(("computation", "k", *self.slots), rows)
        return whole.only(lambda name, _: name != "computation" or len(products) > 1)

    def parts(self) -> Iterator[str | Rows]:
        """What is added up where, and a table."""
        holder = "thread" if self.d.tiling else "lane"
        yield f"row {self.row}, column {self.col} of {self.d} adds up, as {holder}:reg.slot:"
        yield self.rows()


def terms(reader: Reader, query: Query, row: int, col: int) -> Terms:
    """What meets in a row and column of D. Slots joined by ``or`` can each hold the k, as the metadata chooses.

    Raises:
        OutsideError: D has no such element.
        LanemapError: see ``lookup.operands``.
    """
    try:
        found = {operand.role: operand for operand in operands(reader, replace(query, role=None))}
    except AbsentError as error:
        asked = query.parameters()
        types = (form.a for form in forms(asked["instruction"], asked["shape"]) if form.d == asked["type"])
        example = f"{asked['shape']} {a} D" if (a := next(types, None)) else "m16n8k16 f16 D"
        raise AbsentError(f"{error}: name the type of A, as in {example}, to see what it meets") from None
    d, at, remarks = found["D"], {"row": row, "col": col}, []
    for name, number in at.items():
        if number not in d.ranges[name]:
            raise OutsideError(name, number, d.ranges[name], d)
    for role in filter(instruction(d.instruction).axes.__contains__, ("SFA", "SFB")):
        with suppress(AbsentError):
            scales = every_operand(reader, replace(query, role=role, instruction=d.instruction))
            found[role] = scales[0]
            if len(scales) > 1:
                remarks.append(f"shown is {scales[0]}: name scale_vec, byte_id and thread_id for another")
    if "B" not in found:
        remarks.append(f"B of {d.instruction} lies in shared memory: find it with its layout, as in B 128B.K")
    depth = found["A"].dimensions[1]
    thread = next(lane for lane, _, _, *cell, _, _ in d.tuples() if cell == [row, col])
    warp = thread // (d.atom or d).threads  # of those that hold the same A, that which adds up
    slots = {role: _slots(found[role], at, depth, warp) for role in _SHARED if role in found}
    return Terms(d, row, col, depth, slots, remarks)


def _slots(operand: Fragment, at: Mapping[str, int], depth: int, warp: int) -> dict[tuple[int, int], str]:
    """The slots of a warp for each computation and k of a row of A or its like, or of a column of B or its like."""
    threads = (operand.atom or operand).threads
    shared = _SHARED[operand.role]
    wide = depth // operand.dimensions[shared == "row"]  # a scale is that of a block of K
    found: dict[tuple[int, int], list[str]] = {}
    for element in map(Element._make, operand.tuples()):
        if getattr(element, shared) == at[shared] and element.lane // threads == warp:
            first, last = (element.col, element.col_last) if shared == "row" else (element.row, element.row)
            for k in range(first * wide, (last + 1) * wide):
                found.setdefault((element.computation, k), []).append(f"{element.lane}:{element.reg}.{element.slot}")
    return {pair: " or ".join(slots) for pair, slots in found.items()}
