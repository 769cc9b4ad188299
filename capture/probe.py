"""Probes: what an instruction does with its slots, measured without knowing any layout.

Every product is of zeros and ones, so every output is exact. Slots are numbered as in a fragment's elements. One slot
of B is made 1 against an A of ones: the slots of D that answer are its column. Then one slot of every column is made 1
at a time, and the numbers of A's slots are written into A bit by bit: each slot of D reads the number of the one slot
of A that met it. For a sparse A that is repeated with each valid vector of metadata everywhere; and the numbers of the
vectors themselves are written by moving only one index from one valid value to another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db.instructions import DENSE, WARP, Form, Sparsity
from ..db.metadata import pack_vectors
from . import values
from .bench import Bench, describe_slot, number, numbered, numbers, side
from .device import combinations
from .relations import Contradiction, blocks

_VECTORS = WARP * 8
_NOTHING, _ALL = 0, 1


@dataclass(frozen=True)
class Measurement:
    """The relations between the slots of one instruction, all as slot numbers.

    ``c_of_d`` (slots of D): the slot of C that comes out there. ``column_of_d``: a number for each column. ``b_of``
    (depth, slots of D): the slots of B in that column, in some order. ``meets`` (metadata vectors, depth, slots of D):
    the slot of A that meets ``b_of`` there, -1 where none does. ``governs``, by selector: the metadata field (lane *
    fields in a register + field) of each slot of A.
    """

    c_of_d: NDArray[Any]
    column_of_d: NDArray[Any]
    b_of: NDArray[Any]
    meets: NDArray[Any]
    governs: Mapping[int, NDArray[Any]]


def bits(
    bench: Bench, form: Form, what: str, patterns: Mapping[str, NDArray[Any]], picks: Any, selector: int | None
) -> Any:
    """Products (probes, slots of D), each 0 or 1, of an A and a B of zeros and ones; C must be 0.

    Pattern 0 of A and of B must be zeros. An instruction that counts the bits that differ tells the product by
    |a and b| = (|a xor 0| + |0 xor b| - |a xor b|) / 2.
    """
    if form.suffix == ".xor.popc":
        masks = np.array([(1, 0, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1)], np.uint32)
        parts = (picks * masks[:, None]).reshape(-1, 4)
        needed, where = np.unique(parts, axis=0, return_inverse=True)
        left, right, both = bench.values(patterns, needed, selector)[where.reshape(3, -1)]
        found = (left + right - both) / 2
    else:
        found = bench.values(patterns, picks, selector)
    return bench.checked(what, found)


def measure(bench: Bench, form: Form) -> Measurement:
    """All relations of a form. Raises Contradiction where outputs fit no matrix product."""
    a, b, c = (form.operand(role) for role in "ABC")
    rule = form.sparsity or DENSE
    selector = form.selectors[0]
    vectors = list(rule.indices)
    nothing = {role: values.ones(form.operand(role), 1, _none(), _none()) for role in "ABC"}
    numbered_a = numbered(a)
    uniform = np.stack([np.full((1, WARP), 0x11111111 * vector, np.uint32) for vector in vectors])
    constant = {**nothing, "A": numbered_a, "E": uniform}

    everywhere = np.arange(b.size)
    hot = {**constant, "B": values.ones(b, b.size + 1, everywhere + 1, everywhere)}
    ends = sorted({0, len(vectors) - 1})
    answers = bits(bench, form, "columns of B", hot, combinations(_ALL, everywhere + 1, 0, ends), selector)
    hit_b, hit_d = np.nonzero(answers.reshape(b.size, len(ends), -1).any(axis=1))
    column_of_b, column_of_d = blocks(hit_b, hit_d, side(b), side(bench.output))
    b_by_column = _ranked(form, column_of_b)

    depth = b_by_column.shape[1]
    rank = np.tile(np.arange(1, depth + 1), len(b_by_column))
    each_column = {**constant, "B": values.ones(b, depth + 1, rank, b_by_column.ravel())}
    picks = combinations(np.arange(1, len(numbered_a)), np.arange(1, depth + 1), 0, np.arange(len(vectors)))
    found = bits(bench, form, "partners of A and B", each_column, picks, selector)
    found = found.reshape(len(numbered_a) - 1, depth, len(vectors), -1).transpose(0, 2, 1, 3)
    meets = np.where(found[0], number(found[1:]), -1)

    governs = {
        each: _fields(bench, form, each_column, meets, rule, each) for each in form.selectors if each is not None
    }
    numbered_c = {**constant, "C": numbered(c)}
    accumulated = bench.checked(
        "accumulator C", bench.values(numbered_c, combinations(0, 0, np.arange(1, len(numbered_c["C"])), 0), selector)
    )
    if not accumulated[0].all():
        place = describe_slot(bench.output, np.argmin(accumulated[0]))
        raise Contradiction(f"no slot of C comes out in {place}")
    return Measurement(number(accumulated[1:]), column_of_d, b_by_column[column_of_d].T, meets, governs)


def _fields(
    bench: Bench,
    form: Form,
    patterns: Mapping[str, NDArray[Any]],
    meets: NDArray[Any],
    rule: Sparsity,
    selector: int,
) -> NDArray[Any]:
    """The metadata field that governs each slot of A, by which slots of A move when one index of a vector changes."""
    vectors, depth = list(rule.indices), meets.shape[1]
    field_of_a = np.full(form.operand("A").size, -1)
    for field, (before, after) in enumerate(rule.steps):
        words = pack_vectors(np.where(numbers(_VECTORS), after, before).reshape(-1, WARP, 8))
        picks = combinations(_ALL, np.arange(1, depth + 1), 0, np.arange(len(words)))
        what = f"metadata with selector {selector}"
        found = bits(bench, form, what, {**patterns, "E": words[:, None]}, picks, selector)
        found = found.reshape(depth, len(words), -1).transpose(1, 0, 2)
        old, new = meets[vectors.index(before)], meets[vectors.index(after)]
        if not ((found[0] == (old >= 0)).all() and (found[1] == (new >= 0)).all()):
            raise Contradiction(f"selector {selector} pairs other slots of A and B than selector 0")
        moved = (old < 0) & (new >= 0)
        vector = number(found[2:])[moved]
        governing = vector // 8 * rule.slots + vector % 8 * rule.fields + field
        slots = new[moved]
        known = field_of_a[slots]
        field_of_a[slots] = governing
        odd = (field_of_a[slots] != governing) | (known >= 0)
        if odd.any():
            slot = slots[np.argmax(odd)]
            place = describe_slot(form.operand("A"), slot)
            raise Contradiction(f"with selector {selector} two fields of metadata govern {place}")
    if (field_of_a < 0).any():
        place = describe_slot(form.operand("A"), np.argmin(field_of_a))
        raise Contradiction(f"with selector {selector} no field of metadata governs {place}")
    return field_of_a


def _ranked(form: Form, column_of_b: NDArray[Any]) -> NDArray[Any]:
    """Slots of B by (column, rank). Raises Contradiction where a column is not as deep as the shape says."""
    depth = form.dimensions[2]
    sizes = np.bincount(column_of_b)
    if (sizes != depth).any():
        raise Contradiction(f"a column of B has {sizes[np.argmax(sizes != depth)]} slots: K is {depth}")
    return np.argsort(column_of_b, kind="stable").reshape(len(sizes), depth)


def _none() -> NDArray[Any]:
    return np.zeros(0, np.intp)
