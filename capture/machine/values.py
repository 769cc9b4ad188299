"""Registers of many threads at once, each byte with its origin, and the record of what was computed from what.

An origin is a number: of an element of an argument, or of a node, which is a value that was computed from several of
them. Elements come first, counted through all arguments from 1; nodes follow. Moving bytes and converting a number
keep the origin; what has an origin and what has none make the one that there is. The origin of a byte of two elements
of 4 bits is that of the lower one, and the next one is the upper one; what is left of one of them has another origin.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...db.errors import LanemapError
from ...db.isa.forms import Form
from ...db.isa.instructions import WARP, copies
from ...db.layout.algebra import Array
from ...db.layout.fragment import Fragment
from .. import values
from .ptx import SourceLine, bits_of

#: Origins that are no element and no node: of constants, of what comes from several places, of what lies between two
#: allocations, of what nobody wrote. Where nobody wrote some bits of a byte, it has one below UNSET that says which.
NONE, MIXED, OUTSIDE, UNSET = 0, -1, -2, -3

#: Types of numpy for those of PTX. Those of bits are unsigned numbers.
_LETTERS = {"u": "u", "s": "i", "b": "u", "f": "f"}


class ActiveThreads(NamedTuple):
    """The threads that execute an instruction together; ``full`` if all there are."""

    mask: Array
    full: bool

    @classmethod
    def of(cls, mask: Array) -> ActiveThreads:
        """The group of a mask."""
        return cls(mask, bool(mask.all()))

    @property
    def threads(self) -> Array:
        """Their numbers."""
        return np.flatnonzero(self.mask)

    @property
    def warps(self) -> Array:
        """The warps that they are of."""
        return np.unique(self.threads // WARP)


class Register:
    """A register of all threads, or a number that all of them have.

    ``bits`` is an array of unsigned numbers, or bool of a predicate. ``origin`` is an array (threads, bytes), or None
    where nothing has one. ``changed`` says which threads have written it, where somebody wants to know.
    """

    __slots__ = ("bits", "changed", "origin", "width")

    def __init__(self, width: int, bits: Array, origin: Array | None = None) -> None:
        self.width, self.bits, self.origin = width, bits, origin
        self.changed: Array | None = None

    @classmethod
    def unset(cls, type_: str, threads: int) -> Register:
        """A register that nobody wrote."""
        width = bits_of(type_)
        return cls(width, np.zeros(threads, _unsigned(width)), spread(np.full(threads, UNSET, np.int32), width))

    @classmethod
    def constant(cls, width: int, number: int, threads: int) -> Register:
        """A register that holds one number, of which ``width`` bits count."""
        return cls(width, np.full(threads, number & (1 << width) - 1, _unsigned(width)))

    def of(self, threads: Array) -> Register:
        """What some threads have in it."""
        return Register(self.width, self.bits[threads], None if self.origin is None else self.origin[threads])

    def like(self, data: Array, origin: Array | None) -> Register:
        """A register as wide that holds bytes (threads, bytes) with their origins."""
        return Register(self.width, np.ascontiguousarray(data).view(self.bits.dtype).ravel(), origin)

    def put(self, bits: Array, origin: Array | None, group: ActiveThreads) -> None:
        """Write what the threads of a group have computed."""
        if self.changed is not None:
            self.changed |= group.mask
        if group.full:
            self.bits, self.origin = bits, origin
            return
        self.bits = np.where(group.mask, bits, self.bits)
        if origin is not None or self.origin is not None:
            self.origin = np.where(group.mask[:, None], NONE if origin is None else origin, self.origins)

    def put_numbers(self, type_: str, numbers: Array, ids: Array | None, group: ActiveThreads) -> None:
        """Write numbers of a type, each with one origin for all of its bytes; wider registers are extended."""
        bits = to_bits(type_, numbers)
        if bits.dtype.itemsize * 8 < self.width:
            signed = bits.view(f"i{bits.dtype.itemsize}") if type_[0] == "s" else bits
            bits = signed.astype(f"i{self.width // 8}" if type_[0] == "s" else _unsigned(self.width))
            bits = bits.view(_unsigned(self.width))
        self.put(bits, None if ids is None else spread(ids, self.width), group)

    def numbers(self, type_: str) -> Array:
        """Its numbers of a type: (threads,), or (threads, 2) of two packed ones."""
        width = bits_of(type_)
        bits = self.bits if width == self.width else self.bits.astype(_unsigned(width))
        if type_.startswith("bf16"):
            bits = (bits.view("u2").astype("u4") << 16).view("f4")
        elif type_ != "pred":
            bits = bits.view(f"{_LETTERS[type_[0]]}{width // 8 // (2 if type_.endswith('x2') else 1)}")
        return bits.reshape(-1, 2) if type_.endswith("x2") else bits

    @property
    def origins(self) -> Array:
        """The origins of its bytes (threads, bytes), also where nothing has one."""
        shape = len(self.bits), max(self.width // 8, 1)
        return np.full(shape, NONE, np.int32) if self.origin is None else self.origin

    @property
    def ids(self) -> Array | None:
        """The one origin of each thread's value, MIXED where its bytes have several; None where nothing has one."""
        return None if self.origin is None else whole(self.origin)


def to_bits(type_: str, numbers: Array) -> Array:
    """The bits of numbers of a type, the inverse of ``Register.numbers``."""
    if type_ == "pred":
        return numbers.astype(bool)
    if type_.startswith("bf16"):
        return round_bf16(numbers).view("u4" if type_.endswith("x2") else "u2").reshape(-1)
    width = bits_of(type_)
    letter = f"{_LETTERS[type_[0]]}{width // 8 // (2 if type_.endswith('x2') else 1)}"
    return np.ascontiguousarray(numbers.astype(letter)).view(_unsigned(width)).reshape(-1)


def limits_of(type_: str) -> Any:
    """The least and the greatest number (``min``, ``max``) of a type of whole numbers, packed or not."""
    size = bits_of(type_) // (16 if type_.endswith("x2") else 8)
    return np.iinfo(f"{_LETTERS[type_[0]]}{size}")


def round_bf16(numbers: Array) -> Array:
    """The nearest bf16 of each number, of two the even one, as 16 bits."""
    bits = np.ascontiguousarray(numbers, "f4").view("u4")
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(numbers), 0x7FFF, rounded).astype("u2")


def _unsigned(width: int) -> str:
    return "?" if width == 1 else f"u{width // 8}"


def unset_origins(bits: Array) -> Array:
    """The origins of bytes of which nobody wrote these bits."""
    return np.where(bits == 0, NONE, UNSET - 0xFF + bits.astype(np.int32))


def unset_bits(origin: Array) -> Array:
    """The bits of bytes that nobody wrote, the inverse of ``unset_origins``."""
    return np.where(origin <= UNSET, origin + 0xFF - UNSET, 0).astype("u1")


def spread(ids: Array, width: int) -> Array:
    """The same origin for each byte of a register."""
    return np.broadcast_to(ids[:, None], (len(ids), max(width // 8, 1)))


def whole(origin: Array) -> Array:
    """The origin that the bytes of each row (rows, bytes) have in common, those apart that have none.

    It is UNSET where nobody wrote a bit of them.
    """
    first = origin[:, 0]
    if (origin == first[:, None]).all():
        return np.maximum(first, UNSET)
    high, low = origin.max(axis=1), origin.min(axis=1)
    alike = ((origin == high[:, None]) | (origin == NONE)).all(axis=1)
    return np.where(low <= UNSET, UNSET, np.where(alike, high, MIXED)).astype(np.int32)


def merged(first: Array, second: Array) -> Array:
    """The origins of bytes that come from two: where both have one, it is the same or MIXED."""
    both = np.where(first == second, first, MIXED)
    return np.where(first == NONE, second, np.where(second == NONE, first, both)).astype(np.int32)


def shifted(origin: Array | None, bits: Array, by: Array, tape: Tape) -> Array | None:
    """Origins of the bytes of registers after a shift to the left. A byte of parts of two comes from those that count.

    ``bits`` is what is shifted: a part that is zero counts only where both are, and then the larger one does. By 4 bits
    elements of 4 bits become neighbours of others, which is followed where they were so in memory.
    """
    if origin is None:
        return None
    count, data = origin.shape[1], np.ascontiguousarray(bits).view("u1").reshape(origin.shape)
    at = np.arange(count) - by[:, None] // 8

    def taken(from_: Array, place: Array) -> Array:
        inside = (place >= 0) & (place < count)
        return np.where(inside, np.take_along_axis(from_, np.clip(place, 0, count - 1), axis=1), NONE)

    whole_bytes, rest = taken(origin, at), by[:, None] % 8
    if not rest.any():
        return whole_bytes.astype(np.int32)
    low = taken(origin, at - 1)
    uses_high, uses_low = taken(data, at) << rest & 0xFF > 0, taken(data, at - 1) >> 8 - rest > 0
    neither = ~uses_high & ~uses_low
    main = np.where(by[:, None] > 0, whole_bytes, low)
    one = np.where(neither, main, np.where(uses_high, whole_bytes, low))
    cut = np.where(uses_high & uses_low, merged(whole_bytes, low), one)
    if tape.shares is not None:
        lower, upper = tape.alone(low), tape.alone(whole_bytes)
        pair = (lower > 0) & ((whole_bytes == low + 2) | (whole_bytes == NONE))
        first = (upper > 0) & (low == NONE) & (tape.alone(whole_bytes - 1) > 0)
        near = np.where(pair, low + 1, np.where(first, whole_bytes - 1, MIXED))
        cut = np.where((lower == 0) & (upper == 0), cut, np.where(rest == 4, near, MIXED))
    return np.where(rest == 0, whole_bytes, cut).astype(np.int32)


def joined(registers: Sequence[Register], width: int | None = None) -> Array | None:
    """The origins of registers side by side, of each its first ``width`` bytes; None where no byte has one."""
    if all(register.origin is None for register in registers):
        return None
    return np.concatenate([each.origins[:, :width] for each in registers], axis=1)


class Held(NamedTuple):
    """A fragment as arrays: for each slot, in the order of lanes, registers and slots, its cell; and the way back.

    ``slot`` (computations, rows, columns) is the slot that holds a cell.
    """

    fragment: Fragment
    computation: Array
    row: Array
    col: Array
    slot: Array

    def spot(self, slot: int) -> str:
        """Where a slot is, in words."""
        if self.fragment.tile:
            return f"row {self.row[slot]} column {self.col[slot]} of what the descriptor reads"
        table = self.fragment.table[slot]
        return f"lane {table['lane']} register {table['reg']} slot {table['slot']}"


@cache
def held(fragment: Fragment) -> Held:
    """The arrays of a fragment. Raises LanemapError where it lacks cells.

    Of a sparse A the columns are those of windows, and no cell has a slot before metadata chooses it. Of metadata and
    block scales several slots may be of one cell, and a cell of one slot for several columns.
    """
    cells = values.places(fragment)
    if fragment.windowed or fragment.role not in "ABCD":
        return Held(fragment, *cells, np.zeros(0, np.intp))
    slot = np.full((fragment.computations, *fragment.dimensions), -1)
    slot[cells] = np.arange(len(fragment.table))
    if (slot < 0).any() or len(fragment.table) != slot.size * copies(*fragment.key[:4]):
        raise LanemapError(f"{fragment.source} does not have all elements of {fragment}")
    return Held(fragment, *cells, slot)


def scattered(slots: Array, layout: Held, columns: Array) -> Array:
    """Matrices (groups, computations, rows, columns) of the slots of a sparse A, 0 where nothing is stored."""
    fragment = layout.fragment
    matrices = np.zeros((len(slots), fragment.computations, *fragment.dimensions), slots.dtype)
    matrices[np.arange(len(slots))[:, None], layout.computation, layout.row, columns] = slots
    return matrices


class Join(NamedTuple):
    """Values that come from two: a sum, a product, or anything else (``kind`` is add, mul or mix)."""

    kind: str
    left: Array
    right: Array


class Execution(NamedTuple):
    """One execution of a tensor instruction, by some warps or warpgroups.

    ``warps`` has the block and the first warp of each, ``held`` the origins (groups, slots) of operands, of which those
    of D are its nodes, and ``layouts`` which cell each slot is of. Of a sparse A, ``columns`` (groups, slots) are
    those that metadata chose, and ``metadata`` has the origins of that.
    """

    form: Form
    place: SourceLine
    warps: Array
    held: dict[str, Array]
    layouts: Mapping[str, Held]
    columns: Array | None = None
    metadata: Array | None = None

    def cells(self, role: str, groups: slice = slice(None)) -> Array:
        """The origins of an operand as matrices (groups, computations, rows, columns)."""
        layout, ids = self.layouts[role], self.held[role][groups]
        if role != "A" or self.columns is None:
            return np.asarray(ids[:, layout.slot])
        return scattered(ids, layout, self.columns[groups])

    @property
    def scaled(self) -> list[str]:
        """The roles of its block scales."""
        return [role for role in ("SFA", "SFB") if role in self.held]

    def scales(self, role: str, groups: slice = slice(None)) -> Array:
        """The origins of block scales (groups, rows of A or columns of B, blocks)."""
        layout, ids = self.layouts[role], self.held[role][groups]
        line, block = (layout.row, layout.col)[:: 1 if role == "SFA" else -1]
        found = np.zeros((len(ids), line.max() + 1, block.max() + 1), np.int32)
        found[:, line, block] = ids
        return found

    def factors(self, group: int, cell: tuple[int, int, int]) -> Array:
        """The origins (K, factors) of what is multiplied for a computation, row and column."""
        computation, row, col = cell
        only = slice(group, group + 1)
        pair = [self.cells("A", only)[0, computation, row], self.cells("B", only)[0, computation, :, col]]
        for role in self.scaled:
            own = self.scales(role, only)[0, row if role == "SFA" else col]
            pair.append(own.repeat(len(pair[0]) // len(own)))
        return np.stack(pair, axis=1)


class Tape:
    """What was computed from what. Node n of event e has the number ``starts[e]`` + n.

    ``shares`` has for each element that shares a byte the origin of it alone, MIXED where that is not followed, and 0
    for all others; None where none does.
    """

    def __init__(self, first: int, shares: Array | None = None) -> None:
        self.starts, self.shares = [first], shares
        self.events: list[Join | Execution] = []

    def add(self, event: Join | Execution, count: int) -> Array:
        """The numbers of the nodes of an event."""
        first = self.starts[-1]
        self.events.append(event)
        self.starts.append(first + count)
        return np.arange(first, first + count, dtype=np.int32)

    def alone(self, origin: Array) -> Array:
        """The origin that stands for the first element of each byte alone; 0 where the byte has no more than one."""
        if self.shares is None:
            return np.zeros_like(origin)
        return self.shares[np.where((origin > 0) & (origin < len(self.shares)), origin, 0)]

    def masked(self, origin: Array, kept: Array) -> Array:
        """Origins of bytes of which only some bits are left."""
        first = self.alone(origin)
        part = np.where(kept & 0xF0 == 0, first, np.where(kept & 0x0F == 0, self.alone(origin + 1), MIXED))
        return np.where((first == 0) | (kept == 0xFF), origin, np.where(first > 0, part, MIXED)).astype(np.int32)

    def event(self, node: int) -> tuple[Join | Execution, int]:
        """The event of a node, and which of its nodes it is."""
        at = bisect_right(self.starts, node) - 1
        return self.events[at], node - self.starts[at]

    def join(self, kind: str, sources: Sequence[Array | None]) -> Array | None:
        """One origin of a value that comes from several, for each thread."""
        found: Array | None = None
        for ids in sources:
            if ids is None or found is None:
                found = ids if found is None else found
                continue
            joined = np.where(found == NONE, ids, found)
            both = (found != NONE) & (ids != NONE)
            if kind == "mix":
                both &= found != ids
            if both.any():
                new = both & (found > 0) & (ids > 0)
                joined = np.where(both, np.minimum(np.minimum(found, ids), MIXED), joined).astype(np.int32)
                if count := int(np.count_nonzero(new)):
                    joined[new] = self.add(Join(kind, found[new], ids[new]), count)
            found = joined
        return found
