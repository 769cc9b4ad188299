"""What lanes of a warp tell each other: shuffles, votes, matches, reductions."""

from collections.abc import Mapping

import numpy as np

from ...db.isa.instructions import WARP
from ...db.layout.algebra import Array
from .launch import Maker, Step
from .ptx import Both, Function, Statement
from .schedule import Machine
from .values import UNSET, ActiveThreads


def _shuffle(machine: Machine, instruction: Statement, function: Function) -> Step:
    """shfl.sync (9.7.10.6). What a lane that is not named, or does not execute it, gives is what nobody wrote."""
    kind = next(part for part in instruction.parts if part in ("up", "down", "bfly", "idx"))
    target, source, *rest = instruction.operands
    first, second = (target.first, target.second) if isinstance(target, Both) else (target, None)
    result, value = (machine.register(operand, "b32", function) for operand in (first, source))
    valid = machine.register(second, "pred", function) if second else None
    by, clamp = (machine.register(operand, "b32", function) for operand in rest[:2])
    lane = machine.lane.astype("i8")

    def step(group: ActiveThreads) -> None:
        amount, limit = (by.bits & 31).astype("i8"), (clamp.bits & 31).astype("i8")
        segment = (clamp.bits >> np.uint32(8) & 31).astype("i8")
        low = lane & segment
        high = low | limit & ~segment
        at = {"up": lane - amount, "down": lane + amount, "bfly": lane ^ amount}.get(kind, low | amount & ~segment)
        good = at >= high if kind == "up" else at <= high
        at = np.where(good, at, lane) + np.arange(machine.threads) - lane
        origin = value.origins[at]
        origin[(named_by(machine, group) >> machine.lane[at] & 1) == 0] = UNSET
        result.put(value.bits[at], origin if origin.any() else None, group)
        if valid:
            valid.put(good, None, group)

    return step


def _ballot(mask: Array) -> Array:
    """The lanes of each warp for which something is true, as 32 bits for each thread."""
    words = np.packbits(mask.reshape(-1, WARP), axis=1, bitorder="little").view("u4").ravel()
    return np.repeat(words, WARP)


def named_by(machine: Machine, group: ActiveThreads) -> Array:
    """The lanes that each thread names and that execute an instruction with it, itself among them.

    Notes who does not name itself, which the document leaves undefined.
    """
    members, here, own = machine.members(), _ballot(group.mask), np.uint32(1) << machine.lane
    if members is None:
        return here
    if (outside := group.mask & (members & own == 0)).any():
        machine.fault("divergence", np.flatnonzero(outside), f"a lane not in its mask executes {machine.opcode}")
    return np.asarray(here & (members | own))


def _vote(machine: Machine, instruction: Statement, function: Function) -> Step:
    """vote.sync."""
    kind = next(part for part in instruction.parts if part in ("ballot", "any", "all", "uni"))
    target, source = instruction.operands[:2]
    result = machine.register(target, "b32" if kind == "ballot" else "pred", function)
    value, negated = machine.predicate(source, function)

    def step(group: ActiveThreads) -> None:
        true = _ballot(value.bits ^ negated)
        members = named_by(machine, group)
        yes, no = members & true, members & ~true
        found = {"ballot": yes, "any": yes != 0, "all": no == 0, "uni": (yes == 0) | (no == 0)}[kind]
        result.put(found, None, group)

    return step


def _active(machine: Machine, instruction: Statement, function: Function) -> Step:
    result = machine.register(instruction.operands[0], "b32", function)
    return lambda group: result.put(_ballot(group.mask), None, group)


def _match(machine: Machine, instruction: Statement, function: Function) -> Step:
    """match.sync: the lanes that hold the same, or all if all do."""
    target, source = instruction.operands[:2]
    first, second = (target.first, target.second) if isinstance(target, Both) else (target, None)
    result, value = machine.register(first, "b32", function), machine.register(source, instruction.type, function)
    agreed = machine.register(second, "pred", function) if second else None
    every = "all" in instruction.parts

    def step(group: ActiveThreads) -> None:
        lanes = value.bits.reshape(-1, WARP)
        alike = lanes[:, :, None] == lanes[:, None, :]
        members = named_by(machine, group)
        words = np.packbits(alike, axis=2, bitorder="little").view("u4").ravel() & members
        if every:
            whole_ = words == members
            words = np.where(whole_, words, 0).astype("u4")
            if agreed:
                agreed.put(whole_, None, group)
        result.put(words, None, group)

    return step


def _reduce(machine: Machine, instruction: Statement, function: Function) -> Step:
    """redux.sync."""
    type_ = instruction.type
    result, value = (machine.register(operand, type_, function) for operand in instruction.operands[:2])
    words = {*instruction.parts}
    ends = (np.minimum, np.maximum) if "NaN" in words or type_ != "f32" else (np.fmin, np.fmax)
    reducer: Mapping[str, np.ufunc] = {
        "add": np.add,
        "min": ends[0],
        "max": ends[1],
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    operation = next(part for part in instruction.parts if part in reducer)

    def step(group: ActiveThreads) -> None:
        numbers = np.abs(value.numbers(type_)) if "abs" in words else value.numbers(type_)
        found = np.zeros(machine.threads, numbers.dtype)
        ids, made = value.ids, np.zeros(machine.threads, np.int32)
        for warp, named in dict.fromkeys(
            zip(group.threads // WARP, named_by(machine, group)[group.threads], strict=True)
        ):
            at = np.flatnonzero(named >> np.arange(WARP, dtype="u4") & 1) + warp * WARP
            found[at] = reducer[operation].reduce(numbers[at])
            kind = "add" if operation == "add" else "mix"
            if ids is not None and (one := machine.tape.join(kind, [*ids[at, None]])) is not None:
                made[at] = one
        result.put_numbers(type_, found, None if ids is None else made, group)

    return step


def _elect(machine: Machine, instruction: Statement, function: Function) -> Step:
    """elect.sync: the first of the lanes."""
    target = instruction.operands[0]
    assert isinstance(target, Both)
    lane, chosen = machine.register(target.first, "b32", function), machine.register(target.second, "pred", function)

    def step(group: ActiveThreads) -> None:
        first = (named_by(machine, group)[:, None] >> np.arange(WARP, dtype="u4") & 1).argmax(axis=1)
        lane.put(first.astype("u4"), None, group)
        chosen.put(machine.lane == first, None, group)

    return step


MAKERS: Mapping[str, Maker] = {
    "shfl": _shuffle,
    "vote": _vote,
    "activemask": _active,
    "match": _match,
    "redux": _reduce,
    "elect": _elect,
}
