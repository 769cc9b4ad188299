"""CuTe's thread-value layouts, and the traits of a whole instruction.

A layout maps (thread, value) to a cell counted down the columns: of A as (M, K), of B as (N, K), of C and D as (M, N).
``value`` is the element i. Where a warp does several products, a layout is that of one of them; a ThrID says which
lanes its threads are, and the lanes of the other products are its complement, as CuTe has it. Where every lane holds
elements of several matrices, cells are counted through one matrix after the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from ..fragment import Fragment
from . import Notation, RefusedError, identifier
from .digits import Array, Digit, Sum
from .table import by_lane, located, refusal, rows_of, sum_of, table

#: CuTe's names of PTX's types.
_VALUE_TYPES = {
    "f64": "double",
    "f32": "float",
    "tf32": "tfloat32_t",
    "f16": "half_t",
    "bf16": "bfloat16_t",
    "e4m3": "float_e4m3_t",
    "e5m2": "float_e5m2_t",
    "e3m2": "float_e3m2_t",
    "e2m3": "float_e2m3_t",
    "e2m1": "float_e2m1_t",
    "s32": "int32_t",
    "s8": "int8_t",
    "u8": "uint8_t",
    "s4": "int4_t",
    "u4": "uint4_t",
    "b1": "uint1_t",
}

_BEFORE = """\
#pragma once

// (thread, value) to the cell, counted down the columns of A (M, K), of B (N, K), of C and D (M, N).

#include <cute/layout.hpp>
#include <cute/numeric/numeric_types.hpp>

namespace lanemap {

using namespace cute;

"""
_LAYOUT = re.compile(r"Layout<(.+),\n *(.+)>;")


def compose(fragment: Fragment, name: str) -> str:
    """An alias of the layout, after one of its ThrID where its threads are not simply the lanes."""
    held = table(fragment)
    low, _ = _extents(fragment)
    fast, slow = _axes(fragment)
    cells = held.coordinates[fast] + held.coordinates[slow] * low
    computation = held.coordinates.get("computation", np.zeros((1, held.values), np.int64))
    if (computation == computation[0]).all():
        return _alias(name, _layout(fragment, cells + computation * math.prod(fragment.dimensions)))
    if len(odd := np.argwhere(computation != computation[:, :1]).tolist()):
        raise refusal(fragment, located(fragment, *odd[0]), "is of another product than its lane's first element")
    lanes = np.flatnonzero(computation[:, 0] == 0)
    threads = sum_of(fragment, "lane", lanes[:, None]).axes[0]
    return _alias(f"{name}_thr_id", [(digit,) for digit in threads]) + _alias(name, _layout(fragment, cells[lanes]))


def read(text: str, fragment: Fragment) -> Array:
    """The rows that the layout says, for the threads of every product."""
    *threads, (shape, stride) = _LAYOUT.findall(text)
    lanes = _lanes(_digits(*threads[0]), fragment.threads) if threads else np.arange(fragment.threads)[None]
    values = fragment.registers * fragment.slots
    layout = Sum(0, tuple(_digits(*mode) for mode in zip(_tree(shape), _tree(stride), strict=True)))
    matrix, cells = np.divmod(
        layout(*np.indices((lanes.shape[1], values), sparse=True)), math.prod(fragment.dimensions)
    )
    low, _ = _extents(fragment)
    fast, slow = _axes(fragment)
    far, near = np.divmod(cells, low)
    rows = np.concatenate(
        [
            rows_of(fragment, {fast: near, slow: far, "computation": matrix + product}, those)
            for product, those in enumerate(lanes)
        ]
    )
    return rows[np.argsort(rows["lane"], kind="stable")]


def traits(name: str, operands: Mapping[str, Fragment]) -> str:
    """What CuTe's MMA_Traits of an instruction holds, as a struct, given the aliases of its operands A, B, C and D.

    Raises:
        RefusedError: CuTe has no name for a type, or one layout or ThrID for operands whose rows differ in it.
    """
    a, c, d = (operands[role] for role in "ACD")
    if c.digest != d.digest or c.slots != d.slots:
        raise RefusedError(f"{name}: CuTe has one layout for C and D, whose rows differ")
    working = [_computations(each) for each in operands.values()]
    if any(not np.array_equal(each, working[0]) for each in working):
        raise RefusedError(f"{name}: its operands are not of the same product in every lane")
    if unknown := [each.type for each in operands.values() if each.type not in _VALUE_TYPES]:
        raise RefusedError(f"{name}: CuTe has no type {unknown[0]}")
    (m, k), (_, n) = a.dimensions, c.dimensions
    several = (working[0] > 1).any()
    lines = [
        *(f"ValType{role} = {_VALUE_TYPES[operands[role].type]}" for role in "DABC"),
        f"Shape_MNK = Shape<_{m},_{n},_{k}>",
        f"ThrID = {identifier(a)}_thr_id" if several else f"ThrID = Layout<_{a.threads}>",
        *(f"{role}Layout = {identifier(operands[role])}" for role in "ABC"),
    ]
    body = "".join(f"  using {line};\n" for line in lines)
    return f"struct {name} {{\n{body}}};\n"


def _layout(fragment: Fragment, cells: Array) -> tuple[tuple[Digit, ...], ...]:
    """The digits of thread and value that cells over (thread, value) are the sum of."""
    found = sum_of(fragment, "cell", cells)
    if found.constant:
        raise refusal(fragment, located(fragment, 0, 0), f"has cell {found.constant}, but layouts begin with cell 0")
    return found.axes


def _computations(fragment: Fragment) -> Array:
    """The product that each lane works on."""
    return by_lane(fragment).coordinates["computation"][:, 0] + 1


def _axes(fragment: Fragment) -> tuple[str, str]:
    """CuTe's dimensions of a matrix, the one first along which cells are counted."""
    return ("col", "row") if fragment.role == "B" else ("row", "col")


def _extents(fragment: Fragment) -> tuple[int, int]:
    rows, cols = fragment.dimensions
    return (cols, rows) if fragment.role == "B" else (rows, cols)


def _alias(name: str, modes: Sequence[Sequence[Digit]]) -> str:
    opening = f"using {name} = Layout<"
    shape = _tuple("Shape ", [_tuple("Shape ", [f"_{digit.size}" for digit in mode] or ["_1"]) for mode in modes])
    stride = _tuple("Stride", [_tuple("Stride", [f"_{digit.weight}" for digit in mode] or ["_0"]) for mode in modes])
    return f"{opening}{shape},\n{' ' * len(opening)}{stride}>;\n"


def _tuple(word: str, parts: Sequence[str]) -> str:
    return f"{word}<{','.join(parts)}>" if len(parts) > 1 else parts[0]


def _tree(text: str) -> list[str]:
    """The modes of a shape or stride."""
    return re.findall(r"\w+ ?<[^<>]*>|_\d+", text.partition("<")[2])


def _digits(shape: str, stride: str) -> tuple[Digit, ...]:
    """The digits of an index into a mode: the first counts fastest."""
    sizes, weights = ([int(number) for number in re.findall(r"_(\d+)", text)] for text in (shape, stride))
    steps = [math.prod(sizes[:place]) for place in range(len(sizes))]
    return tuple(map(Digit, steps, sizes, weights))


def _lanes(threads: Sequence[Digit], count: int) -> Array:
    """The lanes of each product: those of a ThrID, then those that its complement among all of them leads to."""
    complement, reached = [], 1
    for digit in sorted(threads, key=lambda digit: digit.weight):
        complement.append((digit.weight // reached, reached))
        reached = digit.weight * digit.size
    complement.append((count // reached, reached))
    starts = np.zeros(1, np.int64)
    for size, weight in complement:
        starts = (starts + weight * np.arange(size)[:, None]).ravel()
    each = np.arange(math.prod(digit.size for digit in threads))
    return starts[:, None] + Sum(0, (tuple(threads),))(each)


NOTATION = Notation(
    compose,
    read,
    traits,
    before=_BEFORE,
    after="\n}  // namespace lanemap\n",
)
