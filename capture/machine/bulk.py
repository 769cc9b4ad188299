"""Bulk copies: many bytes, or a box of a tensor, between global and shared memory (9.7.9.25.4, 9.7.9.25.5, 5.5).

A copy is done where it is issued, but nobody may touch what it writes before a wait for the mbarrier that it completes
on, and what it reads before a wait for its group.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np

from ...db.isa.shared import BoundingBox
from ...db.layout.algebra import Array
from ...db.layout.shared import strides, swizzle
from .accesses import BULK, GRID, Manner
from .barriers import reached, turn
from .launch import Maker, Step, Unknown, known
from .memory import GLOBAL, LOCAL, MAP_SIZE, UNIT, Memory, map_number
from .moves import combined, groups, nothing, space_of, turns
from .ptx import Function, MemoryOperand, Operand, Statement, Vector, bits_of, items_of
from .schedule import Machine
from .values import NONE, ActiveThreads, Register, joined

#: What a swizzled or a tiled copy in shared memory begins at a multiple of (5.5.7).
_ALIGNMENT = 128

_COMPLETES = "mbarrier::complete_tx::bytes"
_WORDS = f"cp reduce async bulk global shared::cta shared::cluster {_COMPLETES} bulk_group tile tensor L2::cache_hint"
_WORDS += " multicast::cluster 1d 2d 3d 4d 5d im2col im2col_no_offs"

#: What cp.reduce.async.bulk makes of what is there and what is copied (9.7.9.25.4.2).
_REDUCES = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


class _Ends(NamedTuple):
    """The units of a copy in global memory: where each begins, whether the tensor has it, and how shared memory does.

    ``lies`` says how its units lie in shared memory, and their bits; that of a copy that is no tensor's has one row.
    ``type`` and ``fill`` are those of a tensor.
    """

    units: Array
    inside: Array
    lies: BoundingBox
    type: str = ""
    fill: bytes = bytes(1)


#: Moves the units of a copy: its ends, and for each unit the place in shared memory and the thread that copies.
_Move = Callable[[_Ends, Array, Array], None]


def _copy(machine: Machine, instruction: Statement, function: Function) -> Step:
    """cp.async.bulk: what one thread copies, unit by unit; and cp.reduce.async.bulk, which has an ``operation``."""
    words, reduces = {*instruction.parts}, instruction.parts[1] == "reduce"
    operation = next((word for word in _REDUCES if word in words), "") if reduces else ""
    known(instruction, f"{_WORDS} {operation} noftz" if reduces else _WORDS)
    loads, tiled = _COMPLETES in words, "tensor" in words
    if (reduces and (not operation or loads)) or (not loads and "global" not in words):
        raise Unknown(f"{instruction.opcode} is not known")
    first, second, *rest = instruction.operands
    inner, outer = (first, second) if loads else (second, first)
    size = rest.pop(0) if not tiled else None
    barrier = machine.addresses(rest.pop(0), function) if loads else None
    offsets = rest.pop(0) if "im2col" in words else Vector(())
    others = machine.register(rest[0], "u16", function) if "multicast::cluster" in words else None
    within = machine.addresses(inner, function)
    source = machine.spaces.globe if "global" in words else machine.spaces.shared
    if tiled:
        side = _box(machine, outer, offsets, words, function)
    else:
        side = _bytes(machine, outer, size, function, source.name)
    move = _into_shared(machine, source, barrier) if barrier else _into_global(machine, operation, instruction.type)

    def step(group: ActiveThreads) -> None:
        for thread in group.threads.tolist():
            found, start = side(thread), int(within(np.array([thread]))[0])
            if found is None:
                continue
            at = _within(machine, start, thread, found.lies, align=_ALIGNMENT if tiled else UNIT)
            if at is None:
                continue
            if found.type == "s64" and operation not in ("", "min", "max"):
                fault = f"{machine.opcode} reduces s64 by min and max alone: use u64"
                machine.fault("type", np.array([thread]), fault)
            if others is not None and int(others.bits[thread]) != 1 << int(machine.special["%cluster_ctarank"][thread]):
                machine.log.stopped = f"{instruction.place}: a copy to other blocks of the cluster is not run"
                continue
            move(found, at, np.full(len(at), thread))

    return step


def _into_shared(machine: Machine, source: Memory, barrier: Callable[[Array], Array]) -> _Move:
    """What copies to shared memory from there or from global memory, and completes on a mbarrier."""
    globe, shared = machine.spaces.globe, machine.spaces.shared

    def move(found: _Ends, at: Array, who: Array) -> None:
        units, inside, size = found.units, found.inside, found.lies.bits // 8
        if source is globe:
            machine.reads(globe, units[inside], size, who[inside])
        else:  # a wait for the mbarrier is one for the reads, too
            machine.reads(shared, units, size, who, Manner(BULK, GRID, passes=True))
        data, origin = source.load(np.where(inside, units, 0), size)
        filled = np.resize(np.frombuffer(found.fill, "u1"), size)
        data, origin = np.where(inside[:, None], data, filled), np.where(inside[:, None], origin, NONE)
        for object_, _ in reached(machine, "shared", barrier(who[:1]), who[:1]):
            machine.store(shared, at, data, origin, who, Manner(BULK, mbarrier=object_.number))
            machine.order.complete(object_)
            object_.due -= size * len(units)
            turn(machine, object_)

    return move


def _into_global(machine: Machine, operation: str, type_: str) -> _Move:
    """What copies from shared to global memory, or reduces there by an operation, on elements of a type."""
    globe, shared = machine.spaces.globe, machine.spaces.shared

    def move(found: _Ends, at: Array, who: Array) -> None:
        size, own = found.lies.bits // 8, found.type or type_
        data, origin = machine.load(shared, at, size, who, Manner(BULK))
        units, data, origin, who = (each[found.inside] for each in (found.units, data, origin, who))
        if not operation:
            machine.store(globe, units, data, origin, who)
            return
        before, _ = globe.load(units, size)
        width = bits_of(own) // 8
        places = (units[:, None] + np.arange(0, size, width)).ravel()
        sides = (globe.load(places, width), (data.reshape(-1, width), origin.reshape(-1, width)))
        old, new = (
            Register(8 * width, np.ascontiguousarray(each).view(f"u{width}").ravel(), ids) for each, ids in sides
        )
        globe.store(places, *combined(machine, operation, own, old, [new]))
        machine.writes(globe, units, before, who, Manner(strong=GRID))

    return move


def _store(machine: Machine, instruction: Statement, function: Function) -> Step:
    """st.async and red.async: they complete on a mbarrier of a block of the cluster, which is here the block itself."""
    operation = next((word for word in _REDUCES if word in instruction.parts), "")
    words = f"async relaxed cluster {operation}" if instruction.parts[0] == "red" else "async weak v2 v4"
    space, type_ = space_of(instruction, f"{words} {_COMPLETES}"), instruction.type
    target, source, place = instruction.operands
    values = machine.registers_of(items_of(source), type_, function)
    to, barrier = machine.addresses(target, function), machine.addresses(place, function)

    def step(group: ActiveThreads) -> None:
        threads = group.threads
        data = np.ascontiguousarray(np.stack([each.bits for each in values], axis=1)).view("u1")
        data = data.reshape(machine.threads, -1)
        ids = joined(values)
        for object_, waits in reached(machine, "shared", barrier(threads), threads):
            for memory, index, who in machine.access(space, to(waits), data.shape[1], waits):
                if operation:
                    before, _ = memory.load(index, data.shape[1])
                    for chosen in turns(index):
                        at, new = index[chosen], values[0].of(who[chosen])
                        old = new.like(*memory.load(at, data.shape[1]))
                        memory.store(at, *combined(machine, operation, type_, old, [new]))
                    machine.writes(memory, index, before, who, Manner(strong=GRID, mbarrier=object_.number))
                else:
                    own = None if ids is None else ids[who]
                    machine.store(memory, index, data[who], own, who, Manner(mbarrier=object_.number))
                machine.order.complete(object_)
                object_.due -= data.shape[1] * len(who)
                turn(machine, object_)

    return step


def _bytes(
    machine: Machine, operand: Operand, size: Operand | None, function: Function, space: str
) -> Callable[[int], _Ends | None]:
    """What gives the units in a state space of a copy of consecutive bytes."""
    assert size is not None
    addresses, count = machine.addresses(operand, function), machine.register(size, "u32", function)

    def units(thread: int) -> _Ends | None:
        length, who = int(count.bits[thread]), np.array([thread])
        if length % UNIT:
            machine.fault("alignment", who, f"{machine.opcode} of {length} bytes, which is no multiple of {UNIT}")
            return None
        for _, index, _ in machine.access(space, addresses(who), length, who, align=UNIT):
            if len(index):
                return _Ends(
                    index[0] + np.arange(0, length, UNIT),
                    np.ones(length // UNIT, bool),
                    BoundingBox("none", 8 * UNIT, 1, length // UNIT),
                )
        return None

    return units


def _box(
    machine: Machine, operand: Operand, offsets: Operand, words: Collection[str], function: Function
) -> Callable[[int], _Ends | None]:
    """What gives the units in global memory of a box, whose coordinates stand behind the address of its tensor map.

    ``offsets`` are those of im2col, where the instruction has any.

    An H200 ends the kernel with an illegal instruction where a box begins within a unit, or not between the corners of
    its map, and where one that is stored or reduced begins before its tensor, or by a map with corners outside of it.
    """
    assert isinstance(operand, MemoryOperand)
    (start,) = operand.more
    assert isinstance(start, Vector)
    assert isinstance(offsets, Vector)
    coordinates = [machine.register(item, "b32", function) for item in start.items]
    further = [machine.register(item, "b16", function) for item in offsets.items]
    assert len(further) in (0, len(coordinates) - 2)
    addresses, local = machine.addresses(operand, function), machine.spaces.local
    loads, im2col = _COMPLETES in words, not {"im2col", "im2col_no_offs"}.isdisjoint(words)

    def units(thread: int) -> _Ends | None:
        address = int(addresses(np.array([thread]))[0])
        at = address - (LOCAL if address >= LOCAL else 0)
        data = local.data[thread * local.size + at :][:MAP_SIZE] if 0 <= at < local.size else local.data[:0]
        number = map_number(data.tobytes())
        found = machine.launch.maps[number] if number is not None else None
        if found is None or len(found.shape) != len(coordinates) or bool(found.corners) != im2col:
            kind = f"{'im2col' if im2col else 'tiled'} tensor map of so many dimensions"
            fault = f"{machine.opcode} with {len(coordinates)} coordinates names no {kind}"
            machine.fault("tensor map", np.array([thread]), fault)
            return None
        begin = np.array([int(each.bits.view("i4")[thread]) for each in reversed(coordinates)])
        if (first := int(begin[-1]) * found.bits) % (8 * UNIT):
            fault = f"its first coordinate is {begin[-1]}, which is {first // 8} bytes"
            machine.fault("alignment", np.array([thread]), f"{machine.opcode}: {fault}: write a multiple of {UNIT}")
        elif not loads and (before := np.flatnonzero(begin < 0)).size:
            fault = f"its coordinate {len(begin) - before[-1]} is {begin[before[-1]]}"
            machine.fault("bounds", np.array([thread]), f"{machine.opcode}: {fault}: only loads may begin before 0")
        for (low, high), place, extent in zip(found.corners, begin[1:].tolist(), found.shape[1:], strict=False):
            if not low <= place < high:
                fault = f"{machine.opcode} begins at {place} of a dimension whose pixels are {low} to {high - 1}"
                machine.fault("bounds", np.array([thread]), fault)
            elif not loads and (low < 0 or high > extent):
                fault = f"{machine.opcode}: the corners of its map lie outside of the tensor: only loads may have such"
                machine.fault("bounds", np.array([thread]), fault)
        beyond = np.array([[int(each.bits[thread])] for each in reversed(further)] or 0)
        place, inside = found.units(begin, beyond)
        return _Ends(place + found.address - GLOBAL, inside, found.lies, found.type, found.fill)

    return units


def _within(machine: Machine, start: int, thread: int, lies: BoundingBox, *, align: int) -> Array | None:
    """Where the units of a copy lie in shared memory; None where they cannot. The address decides the phase."""
    shared, who = machine.spaces.shared, np.array([thread])
    for _, index, _ in machine.access("shared", np.array([start]), lies.size, who, align=align):
        if len(index):
            base = int(machine.owner[thread]) * shared.size
            at = (strides(lies)(*np.indices((lies.mn, lies.k))) >> 3).ravel() + index[0] - base
            return base + np.minimum(swizzle(lies.mode)(at), shared.size - UNIT)
    return None


def expect_awaited(machine: Machine) -> None:
    """Note copies that may still read the shared memory of blocks when these have ended."""
    copies, threads = machine.order.unawaited()
    for at in np.unique(copies).tolist():
        machine.at = at
        words = "may still read shared memory when its block ends: wait for its group"
        machine.fault("race", threads[copies == at], f"{machine.opcode} {words}")


MAKERS: Mapping[str, Maker] = {
    "st.async": _store,
    "red.async": _store,
    "cp.async.bulk": _copy,
    "cp.reduce.async.bulk": _copy,
    "cp.async.bulk.commit_group": groups(BULK),
    "cp.async.bulk.wait_group": groups(BULK),
    "cp.async.bulk.prefetch": nothing,
}
