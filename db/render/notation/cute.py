"""CuTe's thread-value layouts, and the traits of a whole instruction.

A layout maps (thread, value) to a cell counted down the columns: of A as (M, K), of B as (N, K), of C and D as (M, N).
``value`` is the element i. Where a warp does several products, the layout is that of one of them; a ThrID says which
lanes its threads are, and the lanes of the other products follow as its complement. Where every lane holds elements of
several matrices, cells are counted through one matrix after the other.
"""

import math
from collections.abc import Mapping, Sequence
from importlib.resources import files

import numpy as np

from ...isa.types import TYPES
from ...layout.algebra import Array, Digit, Sum
from ...layout.fragment import Fragment
from .table import RefusedError, Writer, cells, refusal, sum_of, table

_BEFORE = (files(__package__) / "cute.hpp").read_text("utf-8")


def layout(fragment: Fragment, name: str) -> str:
    """An alias of the layout, after one of its ThrID where its threads are not simply the lanes."""
    coordinates = cells(fragment)
    rows, cols = fragment.dimensions
    row, col = coordinates["row"], coordinates["col"]
    counted = col + row * cols if fragment.role == "B" else row + col * rows
    computation = coordinates.get("computation", np.zeros((1, counted.shape[1]), np.int64))
    if (computation == computation[0]).all():
        return _alias(name, _digits(fragment, counted + computation * rows * cols))
    if len(odd := np.argwhere(computation != computation[:, :1]).tolist()):
        lane, element = odd[0]
        raise refusal(fragment, lane, element, "is of another product than its lane's first element")
    first = np.flatnonzero(computation[:, 0] == 0)
    threads = sum_of(fragment, "lane", first[:, None]).axes[0]
    lanes = _products(threads, fragment.threads)
    if lanes.shape != (fragment.threads // len(first), len(first)):
        raise RefusedError(f"{fragment}: the lanes of its first product have no complement")
    agrees = (computation[lanes, 0] == np.arange(len(lanes))[:, None]) & (counted[lanes] == counted[first]).all(axis=2)
    if len(odd := np.argwhere(~agrees).tolist()):
        raise refusal(
            fragment, int(lanes[tuple(odd[0])]), 0, "is not of the product, or not the cell, that its ThrID says"
        )
    return _alias(f"{name}_thr_id", [(digit,) for digit in threads]) + _alias(name, _digits(fragment, counted[first]))


def _products(threads: Sequence[Digit], count: int) -> Array:
    """The lane of each thread in each product: those of a ThrID, then those of its complement."""
    starts, reached = np.zeros(1, np.int64), 1
    for weight, size in [*sorted((digit.weight, digit.size) for digit in threads), (count, 1)]:
        starts = (starts + reached * np.arange(weight // reached)[:, None]).ravel()
        reached = weight * size
    return starts[:, None] + Sum(0, (tuple(threads),))(np.arange(math.prod(digit.size for digit in threads)))


def _digits(fragment: Fragment, counted: Array) -> tuple[tuple[Digit, ...], ...]:
    """The digits of thread and value whose sum are the cells over (thread, value)."""
    total = sum_of(fragment, "cell", counted)
    if total.constant:
        raise refusal(fragment, 0, 0, f"has cell {total.constant}, but layouts start at cell 0")
    return total.axes


def _alias(name: str, modes: Sequence[Sequence[Digit]]) -> str:
    opening = f"using {name} = Layout<"
    shape = _tuple("Shape ", [_tuple("Shape ", [_integer(digit.size) for digit in mode] or ["_1"]) for mode in modes])
    stride = _tuple(
        "Stride", [_tuple("Stride", [_integer(digit.weight) for digit in mode] or ["_0"]) for mode in modes]
    )
    return f"{opening}{shape},\n{' ' * len(opening)}{stride}>;\n"


def _integer(number: int) -> str:
    """A number known to the compiler. CuTe has names for some (cute/numeric/integral_constant.hpp)."""
    named = number in (*range(11), 12, 384, 768) or (number % 8 == 0 and number <= 256)
    return f"_{number}" if named or (number.bit_count() == 1 and number <= 1 << 19) else f"Int<{number}>"


def _tuple(word: str, parts: Sequence[str]) -> str:
    return f"{word}<{','.join(parts)}>" if len(parts) > 1 else parts[0]


def traits(name: str, operands: Mapping[str, Fragment]) -> str:
    """The members of CuTe's MMA_Traits of an instruction as a struct, given the aliases of its operands A, B, C and D.

    Raises:
        RefusedError: CuTe has no name for a type, or the operands differ where CuTe has one layout or ThrID.
    """
    a, c, d = (operands[role] for role in "ACD")
    if c.digest != d.digest or c.slots != d.slots:
        raise RefusedError(f"{name}: CuTe has one layout for C and D, whose rows differ")
    products = [table(fragment).coordinates["computation"][:, 0] for fragment in operands.values()]
    if any(not np.array_equal(product, products[0]) for product in products):
        raise RefusedError(f"{name}: its operands are not of the same product in every lane")
    if unknown := [
        fragment.type for fragment in operands.values() if fragment.type not in TYPES or not TYPES[fragment.type].cute
    ]:
        raise RefusedError(f"{name}: CuTe has no type {unknown[0]}")
    (m, k), (_, n) = a.dimensions, c.dimensions
    lines = [
        *(f"ValType{role} = {TYPES[operands[role].type].cute}" for role in "DABC"),
        f"Shape_MNK = Shape<{_integer(m)},{_integer(n)},{_integer(k)}>",
        f"ThrID = {a.key.identifier}_thr_id" if products[0].any() else f"ThrID = Layout<{_integer(a.threads)}>",
        *(f"{role}Layout = {operands[role].key.identifier}" for role in "ABC"),
    ]
    body = "".join(f"  using {line};\n" for line in lines)
    return f"struct {name} {{\n{body}}};\n"


CUTE = Writer(layout, traits, before=_BEFORE, after="\n}  // namespace lanemap\n")
