"""Whether what an instruction computes hangs on what nobody wrote: it is computed again with other values of that.

A byte of a result that changes is one that nobody wrote, whatever the instruction; one that stays is made of the rest.
Of what moves bits, each bit by itself is.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ...db.layout.algebra import Array
from .launch import Step
from .ptx import Function, Number, Statement
from .schedule import Machine
from .values import NONE, UNSET, ActiveThreads, Register, unset_bits, unset_origins

#: What each byte is tried with: the least and the greatest numbers of all types, and some between.
_BYTES = (0x00, 0xFF, 0x7F, 0x80, 0x3F, 0xBF)


def propagate_unset(machine: Machine, instruction: Statement, function: Function, step: Step, *, bitwise: bool) -> Step:
    """A step that computes its first operand of the others, and says which bytes of it nobody wrote."""
    target, *operands = instruction.operands
    results, sources = ([*machine.named(each, function), machine.carry] for each in ((target,), operands))
    constants = [Register.constant(64, each.number, 1) for each in operands if isinstance(each, Number)]

    def run(group: ActiveThreads) -> None:
        holes = {source: hole for source in sources if (hole := _unset(source, group)) is not None}
        if not holes:
            step(group)
            return
        before = {each: (each.bits, each.origin) for each in (*results, *sources)}
        given, tried = [_bytes(each.bits) for each in (*constants, *sources)], []
        for values in _tries([hole.shape for hole in holes.values()], given):
            for source in sources:
                source.origin = None
            for (source, hole), value in zip(holes.items(), values, strict=True):
                data = _bytes(source.bits) & ~hole | value.astype("u1") & hole
                source.bits = (data & (1 if source.width == 1 else 0xFF)).view(source.bits.dtype).ravel()
            step(group)
            tried.append([each.bits for each in results])
            for each, (bits, origin) in before.items():
                each.bits, each.origin = bits, origin
        for source, hole in holes.items():
            source.origin = np.where(hole > 0, NONE, source.origins)
        step(group)
        for source in holes.keys() - {*results}:
            source.origin = before[source][1]
        for result, found in zip(results, zip(*tried, strict=True), strict=True):
            changes = np.bitwise_or.reduce([_bytes(bits ^ result.bits) for bits in found])
            if changes.any():
                if not bitwise or result.width == 1:
                    changes = np.where(changes > 0, 0xFF, 0)
                result.origin = np.where(changes > 0, unset_origins(changes), result.origins)

    return run


def _unset(register: Register, group: ActiveThreads) -> Array | None:
    """The bits of its bytes that nobody wrote, in the threads of a group; None where there are none."""
    if register.origin is None or register.origin.min() > UNSET:
        return None
    hole = np.where(group.mask[:, None], unset_bits(register.origin), np.uint8(0))
    return hole if hole.any() else None


def _bytes(bits: Array) -> Array:
    return np.ascontiguousarray(bits).view("u1").reshape(len(bits), -1)


def _tries(shapes: Sequence[tuple[int, ...]], others: Sequence[Array]) -> Iterator[list[Array]]:
    """Bytes for some registers of these shapes: of patterns, for each another one; of other operands; and any."""
    patterns = np.array(_BYTES)
    for first in range(len(_BYTES)):
        yield [patterns[[(first + place) % len(_BYTES)]] for place in range(len(shapes))]
    for other in others:
        yield [np.resize(other[:, : size[1]], (len(other), size[1])) for size in shapes]
    random = np.random.default_rng(0)
    for _ in range(2):
        yield [random.integers(0, 256, size) for size in shapes]
