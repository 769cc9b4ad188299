"""What an instruction computes through given layouts: it judges verdicts, and knows nothing of how they are found."""

from dataclasses import replace
from itertools import product

import numpy as np

PLACE = ["lane", "reg", "slot"]


def slots(fragment):
    """The number of every element's slot, the same for a slot in any layout of the operand."""
    table = fragment.elements
    return (table["lane"].astype(int) * fragment.registers + table["reg"]) * fragment.slots + table["slot"]


def values(fragment, seed):
    """A number for every slot of an operand."""
    return np.random.default_rng(seed).integers(1, 1 << 20, 128 * fragment.registers * fragment.slots)


def matrix(fragment, index=0):
    """The matrices that the numbers in the slots make, one for each computation, up to five.

    ``index`` is what metadata says: the column, within its window, that each element stands for.
    """
    table = fragment.elements
    held = np.zeros((5, *fragment.dimensions), np.int64)
    col = np.minimum(table["col"] + index, table["col_last"])
    np.add.at(
        held, (table["computation"], table["row"], col), values(fragment, "ABC".index(fragment.role))[slots(fragment)]
    )
    return held


def results(a, b, c, d):
    """What every slot of D holds after the instruction, for every index that metadata can have."""
    table = d.elements
    widest = int((a.elements["col_last"] - a.elements["col"]).max()) + 1
    found = []
    for index in range(widest):
        whole = matrix(a, index) @ matrix(b) + matrix(c)
        held = np.full(128 * d.registers * d.slots, -1)
        held[slots(d)] = whole[table["computation"], table["row"], table["col"]]
        found.append(held)
    return np.stack(found)


def governed(e, a):
    """Which slots of A each slot of the metadata E is about: those whose windows lie in its own."""
    one, other = e.elements, a.elements
    same = [one[name][:, None] == other[name] for name in ("row", "computation")]
    within = (one["col"][:, None] <= other["col"]) & (other["col_last"] <= one["col_last"][:, None])
    held = np.zeros((128 * e.registers * e.slots, 128 * a.registers * a.slots), bool)
    held[slots(e)[:, None], slots(a)] = same[0] & same[1] & within
    return held


def meets(a, b):
    """Which slots of B each slot of A can be multiplied with."""
    one, other = a.elements, b.elements
    held = np.zeros((128 * a.registers * a.slots, 128 * b.registers * b.slots), bool)
    row = other["row"]
    within = (one["col"][:, None] <= row) & (row <= one["col_last"][:, None])
    held[slots(a)[:, None], slots(b)] = within & (one["computation"][:, None] == other["computation"])
    return held


def instructions(fragments, forms):
    """Every instruction that the fragments can make, as the fragments of A, B, C and D, in all majors."""

    def of(role, type_):
        return [fragment for fragment in fragments if (fragment.role, fragment.type) == (role, type_)]

    for a, b, c, d in forms:
        yield from product(of("A", a), of("B", b), of("C", c), of("D", d))


def computes_the_same(left, right, forms):
    """Whether every instruction gives the same results in every slot, whichever of the two layouts it goes through."""
    theirs = {fragment.key: fragment for fragment in right}
    for operands in instructions(left, forms):
        if not np.array_equal(results(*operands), results(*(theirs[operand.key] for operand in operands))):
            return False
    for e, a in product(
        [fragment for fragment in left if fragment.role == "E"], [fragment for fragment in left if fragment.role == "A"]
    ):
        if e.type == a.type and not np.array_equal(governed(e, a), governed(theirs[e.key], theirs[a.key])):
            return False
    return True


def placed(operand, bits, seed):
    """The matrices, one for each computation, that random numbers in the slots of an operand make."""
    table = operand.elements
    numbers = np.random.default_rng(seed).integers(1, 1 << bits, 128 * operand.registers * operand.slots)
    held = np.zeros((int(table["computation"].max(initial=1)) + 4, *operand.dimensions), np.int64)
    np.add.at(held, (table["computation"], table["row"], table["col"]), numbers[slots(operand)])
    return held[:5]


def taken(operand, whole):
    """What each slot of an operand holds of matrices."""
    table = operand.elements
    held = np.full(128 * operand.registers * operand.slots, -1)
    held[slots(operand)] = whole[table["computation"], table["row"], table["col"]]
    return held


def computed(operands):
    """What an instruction gives in every slot, through layouts by role; what no layout is of lies in memory, or is 0.

    Yields arrays: of a product what D holds for every index that metadata can have, and what metadata is about; of a
    matrix that is loaded or transposed the registers.
    """
    of = operands.get
    if "r" in operands:  # an address stands for what lies there: each column of its row
        yield taken(of("r"), placed(of("p"), 16, 0) * 1000 + np.arange(of("r").dimensions[1]))
        return
    a, d, b = of("A"), of("D") or of("C"), of("B")
    if a.instruction == "movmatrix":
        yield taken(d, placed(a, 16, 0).transpose(0, 2, 1))
        return
    depth = a.dimensions[1]
    memory = np.random.default_rng(9).integers(1, 1 << 16, (5, depth, d.dimensions[1]))
    right = placed(b, 16, 1) if b else memory
    if scale := of("SFB"):
        right = right * np.repeat(placed(scale, 8, 4), depth // scale.dimensions[0], axis=1)
    for index in range(int((a.elements["col_last"] - a.elements["col"]).max(initial=0)) + 1):
        table = a.elements.copy()
        table["col"] = np.minimum(table["col"] + index, table["col_last"])
        left = placed(replace(a, elements=table), 16, 0)
        if scale := of("SFA"):
            left = left * np.repeat(placed(scale, 8, 3), depth // scale.dimensions[1], axis=2)
        yield taken(d, left @ right + (placed(of("C"), 16, 2) if of("C") and of("D") else 0))
    if e := of("E"):
        yield governed(e, a)
