"""Layouts of wgmma, measured: B, and for D also A, come from memory, so that every label is absolute.

D: a column of ones in A, and a row of ones in B, make D all ones; the bits of row numbers in A, or of column numbers in
B, make each slot of D read its own row or column. A in registers: times an identity, D shows A itself, in which slots
hold their own numbers. For a sparse A that is repeated with each valid vector of metadata, and again with the numbers
of the vectors themselves, by moving only one index from one valid value to another.

A and its metadata do not depend on N, so they are measured where B can be an identity, and verified for each other N.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db.fragment import Fragment
from ..db.instructions import DENSE, WARPGROUP, Form, Key, Sparsity
from ..db.metadata import pack_vectors
from . import memory, values
from .bench import Bench, captured, describe_slot, number, numbered, numbers
from .device import combinations
from .kernels import in_registers
from .relations import Contradiction

_ALL = 1

#: Vectors of metadata that a warpgroup holds.
_VECTORS = WARPGROUP * 8


def measure(bench: Bench, form: Form, known: MutableMapping[Key, Fragment]) -> tuple[list[Fragment], str]:
    """The fragments of a form, and in words what their labels are from.

    ``known`` has what was measured before, and gets A and its metadata where they are measured first.
    """
    square = replace(form, shape=f"m64n{form.dimensions[2]}k{form.dimensions[2]}")
    if square.dimensions[1] > 256:
        raise Contradiction(f"K is {square.dimensions[1]}: no B of {form.name} is an identity")
    found = [square.key("A"), *(square.key("E", selector) for selector in form.selectors if selector is not None)]
    if found[0] not in known:
        other = bench if square == form else Bench(bench.device, square)
        measured = _registers(other, square)
        bench.probes += 0 if other is bench else other.probes
        bench.gpu_seconds += 0 if other is bench else other.gpu_seconds
        known.update({fragment.key: fragment for fragment in measured})
    row, column = _accumulator(bench, form)
    shared = [replace(known[key], shape=form.shape) for key in found]
    words = "rows and columns are those of A and B in memory"
    if square != form:
        words += f"; A as measured with {square.shape}, and verified"
    return [*shared, captured(form.key("D"), np.arange(len(row)), row, column)], words


def _accumulator(bench: Bench, form: Form) -> tuple[NDArray[Any], NDArray[Any]]:
    """Row and column of each slot of D."""
    m, n, _ = form.dimensions
    rows, columns = numbers(m), numbers(n)
    a = np.zeros((len(rows), *memory.extents(form, "A")))
    a[:, :, 0] = rows
    b = np.zeros((len(columns), *memory.extents(form, "B")))
    b[:, :, 0] = columns
    patterns = {**_nothing(form), "shared_A": memory.write(form, "A", a), "shared_B": memory.write(form, "B", b)}
    picks = np.array(
        [(each, _ALL) for each in range(1, len(rows))] + [(_ALL, each) for each in range(2, len(columns))], np.uint32
    )
    others = np.zeros((len(picks), len(in_registers(form)) + form.sparse), np.uint32)
    found = bench.checked("rows and columns of D", bench.values(patterns, np.hstack([picks, others])))
    if not found[0].all():
        raise Contradiction(f"nothing comes out in {bench.place(np.argmin(found[0]))}")
    row, column = number(found[1 : len(rows) - 1]), number(found[len(rows) - 1 :])
    held = np.bincount(row * n + column, minlength=m * n)
    if (held != 1).any() or (row >= m).any() or (column >= n).any():
        odd = int(np.argmax(held != 1))
        raise Contradiction(f"row {odd // n}, column {odd % n} of D comes out {held[odd]} times")
    return row, column


def _registers(bench: Bench, form: Form) -> list[Fragment]:
    """A, and its metadata for each selector, of a form whose B can be an identity."""
    rule, a = form.sparsity or DENSE, form.operand("A")
    row, column = _accumulator(bench, form)
    order = np.lexsort((column, row))
    identity = memory.write(form, "B", np.eye(form.dimensions[2])[None])
    uniform = np.stack([np.full((1, WARPGROUP), 0x11111111 * vector, np.uint32) for vector in rule.indices])
    patterns = {**_nothing(form), "shared_B": identity}
    slots = numbered(a)
    columns, governing = None, {}
    for place, (name, selector) in enumerate(in_registers(form).items()):

        def shown(what: str, words: NDArray[Any], taken: Any, name: str = name, place: int = place) -> NDArray[Any]:
            """D as cells (patterns of metadata, patterns of A, rows * columns)."""
            inputs = [0, 0, *([0] * len(in_registers(form))), np.arange(len(words))]
            inputs[2 + place] = taken
            picks = combinations(*inputs)
            found = bench.checked(what, bench.values({**patterns, name: slots, "E": words}, picks))
            return found[:, order].reshape(-1, len(words), len(order)).swapaxes(0, 1)

        where = _where(form, shown("slots of A", uniform, np.arange(1, len(slots))))
        if columns is not None and not np.array_equal(where, columns):
            raise Contradiction(f"selector {selector} places slots of A differently from selector {form.selectors[0]}")
        columns = where
        if selector is not None:
            governing[selector] = _fields(form, rule, where, lambda words, shown=shown: shown("metadata", words, _ALL))
    assert columns is not None
    of_row, of_column = columns[0] // form.dimensions[2], columns % form.dimensions[2]
    first, last = of_column.min(axis=0), of_column.max(axis=0)
    fragments = [captured(form.key("A"), np.arange(a.size), of_row, first, last)]
    for selector, field in governing.items():
        names, one = np.unique(field, return_index=True)
        low, high = np.full(len(names), 1 << 15), np.zeros(len(names), np.int64)
        at = np.searchsorted(names, field)
        np.minimum.at(low, at, first)
        np.maximum.at(high, at, last)
        fragments.append(captured(form.key("E", selector), names, of_row[one], low, high))
    return fragments


def _where(form: Form, found: NDArray[Any]) -> NDArray[Any]:
    """The cell, row * K + column, of each slot of A: (metadata vectors, slots)."""
    size = form.operand("A").size
    cells = []
    for shown in found:
        cell = np.flatnonzero(shown[0])
        slot = number(shown[1:])[cell]
        if not np.array_equal(np.sort(slot), np.arange(size)):
            missing = np.setdiff1d(np.arange(size), slot)
            what = describe_slot(form.operand("A"), missing[0]) if len(missing) else "a slot of A"
            raise Contradiction(f"{what} does not come out in D once")
        cells.append(cell[np.argsort(slot)])
    where = np.stack(cells)
    if (where // form.dimensions[2] != where[0] // form.dimensions[2]).any():
        raise Contradiction("metadata moves a slot of A to another row")
    return where


def _fields(form: Form, rule: Sparsity, where: NDArray[Any], shown: Any) -> NDArray[Any]:
    """The metadata field that governs each slot of A, by which slots move when one index of a vector changes."""
    vectors = list(rule.indices)
    governing = np.full(where.shape[1], -1)
    for field, (before, after) in enumerate(rule.steps):
        words = pack_vectors(np.where(numbers(_VECTORS), after, before).reshape(-1, WARPGROUP, 8))
        found = shown(words[:, None])[:, 0]
        old, new = where[vectors.index(before)], where[vectors.index(after)]
        if not (found[0][old].all() and found[1][new].all()):
            raise Contradiction("numbered metadata places slots of A differently from uniform metadata")
        moved = old != new
        vector = number(found[2:])[new[moved]]
        if (governing[moved] >= 0).any():
            raise Contradiction(f"two fields of metadata govern {describe_slot(form.operand('A'), np.argmax(moved))}")
        governing[moved] = vector // 8 * rule.slots + vector % 8 * rule.fields + field
    if (governing < 0).any():
        slot = np.argmin(governing)
        raise Contradiction(f"no field of metadata governs {describe_slot(form.operand('A'), slot)}")
    return governing


def _nothing(form: Form) -> dict[str, NDArray[Any]]:
    """Zeros for every input; metadata that selects the first columns of each chunk."""
    a = form.operand("A")
    zeros = np.zeros((1, a.registers, a.threads), values.word_type(a))
    patterns = dict.fromkeys(in_registers(form), zeros)
    patterns |= {f"shared_{role}": np.zeros((1, memory.size(form, role)), np.uint8) for role in "AB"}
    first = next(iter((form.sparsity or DENSE).indices))
    return {**patterns, "E": np.full((1, 1, WARPGROUP), 0x11111111 * first, np.uint32)}
