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

from ..db.instructions import DENSE, WARP, Form, Operand, Sparsity
from ..db.metadata import pack_vectors
from . import values
from .device import POISON, Device, Probes, combinations
from .relations import Contradiction, Side, blocks

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


class Bench:
    """Runs probes of one instruction on a device, checks every output, and counts."""

    def __init__(self, device: Device, instruction: Form) -> None:
        self.device = device
        self.instruction = instruction
        self.output = instruction.operand("D")
        self.probes = 0
        self.gpu_seconds = 0.0

    def values(self, patterns: Mapping[str, NDArray[Any]], picks: NDArray[Any], selector: int | None) -> NDArray[Any]:
        """Values of D (probes, slots). Raises Contradiction where a register was not written."""
        output = self.device.run(self.instruction, selector, Probes(patterns, picks))
        self.probes += len(picks)
        self.gpu_seconds += output.gpu_seconds
        poison = POISON << 32 | POISON if output.words.dtype.itemsize == 8 else POISON
        if (unwritten := output.words == poison).any():
            probe, reg, lane = np.argwhere(unwritten)[0]
            raise Contradiction(f"probe {probe} did not write D in lane {lane}, reg {reg}")
        codes = values.unpack(output.words, self.output.slots)
        return values.decode(self.output.type, self.output.slot_bits, codes)

    def bits(self, what: str, patterns: Mapping[str, NDArray[Any]], picks: NDArray[Any], selector: int | None) -> Any:
        """Products (probes, slots of D), each 0 or 1, of an A and a B of zeros and ones; C must be 0.

        Pattern 0 of A and of B must be zeros. An instruction that counts the bits that differ tells the product by
        |a and b| = (|a xor 0| + |0 xor b| - |a xor b|) / 2.
        """
        if self.instruction.suffix == ".xor.popc":
            masks = np.array([(1, 0, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1)], np.uint32)
            parts = (picks * masks[:, None]).reshape(-1, 4)
            needed, where = np.unique(parts, axis=0, return_inverse=True)
            left, right, both = self.values(patterns, needed, selector)[where.reshape(3, -1)]
            found = (left + right - both) / 2
        else:
            found = self.values(patterns, picks, selector)
        return self.checked(what, found)

    def checked(self, what: str, found: NDArray[Any]) -> NDArray[Any]:
        """``found`` as 0 and 1. Raises Contradiction naming the first other value."""
        one = found == 1
        if not (one | (found == 0)).all():
            probe, slot = np.argwhere(~one & (found != 0))[0]
            place = describe_slot(self.output, slot)
            raise Contradiction(f"probe {probe} of the {what} gives {found[probe, slot]:g} in {place}: not 0 or 1")
        return np.asarray(one)


def describe_slot(operand: Operand, slot: Any) -> str:
    """A slot number in words."""
    lane, reg, place = (int(each) for each in values.coordinates(operand, np.asarray(slot)))
    return f"{operand.role} lane {lane}, reg {reg}, slot {place}"


def side(operand: Operand) -> Side:
    """The slots of an operand as a side of a relation."""
    return Side(operand.size, lambda slot: describe_slot(operand, slot))


def measure(bench: Bench) -> Measurement:
    """All relations of an instruction. Raises Contradiction where outputs fit no matrix product."""
    instruction = bench.instruction
    a, b, c = (instruction.operand(role) for role in "ABC")
    rule = instruction.sparsity or DENSE
    selector = instruction.selectors[0]
    vectors = list(rule.indices)
    nothing = {role: values.ones(instruction.operand(role), 1, _none(), _none()) for role in "ABC"}
    numbered_a = _numbered(a)
    uniform = np.stack([np.full((1, WARP), 0x11111111 * vector, np.uint32) for vector in vectors])
    constant = {**nothing, "A": numbered_a, "E": uniform}

    everywhere = np.arange(b.size)
    hot = {**constant, "B": values.ones(b, b.size + 1, everywhere + 1, everywhere)}
    ends = sorted({0, len(vectors) - 1})
    answers = bench.bits("columns of B", hot, combinations(_ALL, everywhere + 1, 0, ends), selector)
    hit_b, hit_d = np.nonzero(answers.reshape(b.size, len(ends), -1).any(axis=1))
    column_of_b, column_of_d = blocks(hit_b, hit_d, side(b), side(bench.output))
    b_by_column = _ranked(instruction, column_of_b)

    depth = b_by_column.shape[1]
    rank = np.tile(np.arange(1, depth + 1), len(b_by_column))
    each_column = {**constant, "B": values.ones(b, depth + 1, rank, b_by_column.ravel())}
    picks = combinations(np.arange(1, len(numbered_a)), np.arange(1, depth + 1), 0, np.arange(len(vectors)))
    found = bench.bits("partners of A and B", each_column, picks, selector)
    found = found.reshape(len(numbered_a) - 1, depth, len(vectors), -1).transpose(0, 2, 1, 3)
    meets = np.where(found[0], _number(found[1:]), -1)

    governs = {
        each: _fields(bench, each_column, meets, rule, each) for each in instruction.selectors if each is not None
    }
    numbered_c = {**constant, "C": _numbered(c)}
    accumulated = bench.checked(
        "accumulator C", bench.values(numbered_c, combinations(0, 0, np.arange(1, len(numbered_c["C"])), 0), selector)
    )
    if not accumulated[0].all():
        place = describe_slot(bench.output, np.argmin(accumulated[0]))
        raise Contradiction(f"no slot of C comes out in {place}")
    return Measurement(_number(accumulated[1:]), column_of_d, b_by_column[column_of_d].T, meets, governs)


def _fields(
    bench: Bench, patterns: Mapping[str, NDArray[Any]], meets: NDArray[Any], rule: Sparsity, selector: int
) -> NDArray[Any]:
    """The metadata field that governs each slot of A, by which slots of A move when one index of a vector changes."""
    vectors, depth = list(rule.indices), meets.shape[1]
    field_of_a = np.full(bench.instruction.operand("A").size, -1)
    for field, (before, after) in enumerate(rule.steps):
        words = pack_vectors(np.where(_numbers(_VECTORS), after, before).reshape(-1, WARP, 8))
        picks = combinations(_ALL, np.arange(1, depth + 1), 0, np.arange(len(words)))
        what = f"metadata with selector {selector}"
        found = bench.bits(what, {**patterns, "E": words[:, None]}, picks, selector)
        found = found.reshape(depth, len(words), -1).transpose(1, 0, 2)
        old, new = meets[vectors.index(before)], meets[vectors.index(after)]
        if not ((found[0] == (old >= 0)).all() and (found[1] == (new >= 0)).all()):
            raise Contradiction(f"selector {selector} pairs other slots of A and B than selector 0")
        moved = (old < 0) & (new >= 0)
        vector = _number(found[2:])[moved]
        number = vector // 8 * rule.slots + vector % 8 * rule.fields + field
        slots = new[moved]
        known = field_of_a[slots]
        field_of_a[slots] = number
        odd = (field_of_a[slots] != number) | (known >= 0)
        if odd.any():
            slot = slots[np.argmax(odd)]
            place = describe_slot(bench.instruction.operand("A"), slot)
            raise Contradiction(f"with selector {selector} two fields of metadata govern {place}")
    if (field_of_a < 0).any():
        place = describe_slot(bench.instruction.operand("A"), np.argmin(field_of_a))
        raise Contradiction(f"with selector {selector} no field of metadata governs {place}")
    return field_of_a


def _numbers(count: int) -> NDArray[Any]:
    """None of them, all of them, then the bits of the numbers 0 to ``count`` - 1, as rows."""
    bits = np.arange(count) >> np.arange((count - 1).bit_length())[:, None] & 1
    return np.concatenate([np.zeros((1, count), int), np.ones((1, count), int), bits]).astype(bool)


def _numbered(operand: Operand) -> NDArray[Any]:
    """Words of the patterns of _numbers, for the slots of an operand."""
    pattern, slot = np.nonzero(_numbers(operand.size))
    return values.ones(operand, int((operand.size - 1).bit_length()) + 2, pattern, slot)


def _number(bits: NDArray[Any]) -> NDArray[Any]:
    """Numbers from their bits, low bits first along the first axis."""
    return np.asarray(np.tensordot(1 << np.arange(len(bits)), bits, axes=1))


def _ranked(instruction: Form, column_of_b: NDArray[Any]) -> NDArray[Any]:
    """Slots of B by (column, rank). Raises Contradiction where a column is not as deep as the shape says."""
    depth = instruction.dimensions[2]
    sizes = np.bincount(column_of_b)
    if (sizes != depth).any():
        raise Contradiction(f"a column of B has {sizes[np.argmax(sizes != depth)]} slots: K is {depth}")
    return np.argsort(column_of_b, kind="stable").reshape(len(sizes), depth)


def _none() -> NDArray[Any]:
    return np.zeros(0, np.intp)
