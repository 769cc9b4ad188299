"""Where threads go: branches, calls, ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ...db.layout.algebra import Array
from .launch import Step, Unknown
from .parse import Function, Name, Operand, Statement, Vector
from .schedule import Machine
from .values import ActiveThreads


def binder(machine: Machine, instruction: Statement, function: Function) -> Step | None:
    """What an instruction that moves threads does; None where it is of another kind."""
    make = _GOES.get(instruction.parts[0])
    return make(machine, instruction, function) if make else None


def _branch(machine: Machine, instruction: Statement, function: Function) -> Step:
    target = instruction.operands[0]
    assert isinstance(target, Name)
    at = machine.address_of(target.name, function)

    def step(group: ActiveThreads) -> None:
        machine.pc[group.mask] = at

    return step


def _branch_to_one(machine: Machine, instruction: Statement, function: Function) -> Step:
    """brx.idx: to one of several labels by its number."""
    number, table = instruction.operands
    assert isinstance(table, Name)
    index = machine.register(number, "u32", function)
    at = np.array([machine.address_of(name, function) for name in function.targets[table.name]])

    def step(group: ActiveThreads) -> None:
        chosen = index.bits[group.mask]
        if (beyond := chosen >= len(at)).any():
            words = f"brx.idx to label {int(chosen[beyond][0])} of {len(at)}"
            machine.fault("bounds", np.flatnonzero(group.mask)[beyond], words)
        machine.pc[group.mask] = at[np.minimum(chosen, len(at) - 1)]

    return step


def _end(machine: Machine, instruction: Statement, _: Function) -> Step:
    if instruction.parts[0] == "exit":
        return lambda group: machine.stop(group.mask)
    return machine.end


def _trap(machine: Machine, _: Statement, __: Function) -> Step:
    def step(group: ActiveThreads) -> None:
        machine.fault("trap", np.flatnonzero(group.mask), "the kernel traps")
        machine.stop(group.mask)

    return step


def _call(machine: Machine, instruction: Statement, function: Function) -> Step:
    """call of a function by its name: parameters are copied there, and results back when it returns."""
    operands = instruction.operands
    name = next(operand for operand in operands if isinstance(operand, Name))
    at = operands.index(name)
    called = machine.functions.get(name.name)
    if called is None:
        raise Unknown(f"the function {name.name} is called and not defined")
    results, given = (
        [item for operand in part if isinstance(operand, Vector) for item in operand.items]
        for part in (operands[:at], operands[at + 1 :])
    )
    local = machine.spaces.local

    def places(operands: list[Operand], owner: Function) -> list[int]:
        return [machine.address_of(each.name, owner) for each in operands if isinstance(each, Name)]

    into = [machine.own[called.name, each.name] for each in called.parameters]
    back = [machine.own[called.name, each.name] for each in called.returns]
    inward = list(zip(places(given, function), into, [each.size for each in called.parameters], strict=True))
    outward = list(zip(back, places(results, function), [each.size for each in called.returns], strict=True))
    start = machine.entry_of[called.name]

    def copy(moves: list[tuple[int, int, int]], threads: Array) -> None:
        for source, target, size in moves:
            data, origin = local.load(threads * local.size + source, size)
            local.store(threads * local.size + target, data, origin)

    def step(group: ActiveThreads) -> None:
        threads = np.flatnonzero(group.mask)
        copy(inward, threads)
        machine.enter(group, start, machine.at + 1, lambda back_again: copy(outward, back_again))

    return step


_GOES: Mapping[str, Callable[[Machine, Statement, Function], Step]] = {
    "bra": _branch,
    "brx": _branch_to_one,
    "ret": _end,
    "exit": _end,
    "trap": _trap,
    "brkpt": _trap,
    "call": _call,
}
