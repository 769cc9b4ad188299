"""Where threads go: branches, calls, ends."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ...db.layout.algebra import Array
from ...db.text import counted
from .launch import Maker, Step, Unknown
from .ptx import Function, Name, Number, Operand, Statement, Variable, Vector
from .schedule import Machine
from .values import ActiveThreads, Register


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
            machine.fault("bounds", group.threads[beyond], words)
        machine.pc[group.mask] = at[np.minimum(chosen, len(at) - 1)]

    return step


def _end(machine: Machine, instruction: Statement, _: Function) -> Step:
    if instruction.parts[0] == "exit":
        return lambda group: machine.stop(group.mask)
    return machine.end


def _trap(machine: Machine, _: Statement, __: Function) -> Step:
    def step(group: ActiveThreads) -> None:
        machine.fault("trap", group.threads, "the kernel traps")
        machine.stop(group.mask)

    return step


def _call(machine: Machine, instruction: Statement, function: Function) -> Step:
    """call of a function by its name, or by its address."""
    operands = instruction.operands
    name = next(operand for operand in operands if isinstance(operand, Name))
    at = operands.index(name)
    results, given = (
        [item for operand in part if isinstance(operand, Vector) for item in operand.items]
        for part in (operands[:at], operands[at + 1 :])
    )
    if (function.name, name.name) in machine.registers:
        return _call_by_address(machine, machine.registers[function.name, name.name], results, given, function)
    if name.name == "__assertfail":
        return _trap(machine, instruction, function)
    if name.name == "vprintf":
        return _print(machine, results, function)
    return _call_by_name(machine, name.name, results, given, function)


def _print(machine: Machine, results: list[Operand], function: Function) -> Step:
    """printf, which prints nothing here and returns 0."""
    printed = Variable("vprintf", ".reg", "b32", 4, 4)
    zero, *to = (_holder(machine, each, printed, function) for each in (Number(0), *results))

    def step(group: ActiveThreads) -> None:
        for each in to:
            each.put(*zero.get(), group)

    return step


def _call_by_address(
    machine: Machine, address: Register, results: list[Operand], given: list[Operand], function: Function
) -> Step:
    """A call of functions whose addresses threads have in a register."""
    names = {start: name for name, start in machine.entry_of.items() if not machine.functions[name].entry}

    def step(group: ActiveThreads) -> None:
        for start in np.unique(address.bits[group.mask]).tolist():
            own = group.mask & (address.bits == start)
            if start in names and not machine.within(own, start):
                _call_by_name(machine, names[start], results, given, function)(ActiveThreads.of(own))
            elif start in names:
                place = machine.program[machine.at][0].place
                machine.log.stopped = f"{place}: the function {names[start]} calls itself, and has no stack here"
            else:
                machine.fault("bounds", np.flatnonzero(own), f"there is no function at {start:#x}")
                machine.stop(own)

    return step


def _call_by_name(
    machine: Machine, name: str, results: list[Operand], given: list[Operand], function: Function
) -> Step:
    """A call: parameters are copied to the function, and results back when it returns."""
    called = machine.functions.get(name)
    if called is None:
        raise Unknown(f"the function {name} is called and not defined")
    if called in machine.module.reached(called):
        raise Unknown(f"the function {name} calls itself, and has no stack here")
    for what, own, those in (("takes", given, called.parameters), ("returns", results, called.returns)):
        if len(own) != len(those):
            raise Unknown(f"{name} {what} {counted(len(those), 'value')}, not {len(own)}")
    inward = [
        (_holder(machine, each, variable, function), _holder(machine, Name(variable.name), variable, called))
        for each, variable in zip(given, called.parameters, strict=True)
    ]
    outward = [
        (_holder(machine, Name(variable.name), variable, called), _holder(machine, each, variable, function))
        for each, variable in zip(results, called.returns, strict=True)
    ]
    start = machine.entry_of[called.name]

    def step(group: ActiveThreads) -> None:
        for source, target in inward:
            target.put(*source.get(), group)
        machine.enter(group, start, machine.at + 1, returned)

    def returned(threads: Array) -> None:
        group = ActiveThreads.of(np.isin(np.arange(machine.threads), threads))
        for source, target in outward:
            target.put(*source.get(), group)

    return step


class _Holder(NamedTuple):
    """What holds a value that is passed to a function or comes back from it: bytes or bits, with their origins."""

    get: Callable[[], tuple[Array, Array | None]]
    put: Callable[[Array, Array | None, ActiveThreads], None]


def _holder(machine: Machine, operand: Operand, variable: Variable, owner: Function) -> _Holder:
    """What holds an operand of a call, that is or becomes a parameter: a variable of each thread, or a register."""
    if isinstance(operand, Name) and (place := machine.own.get((owner.name, operand.name))) is not None:
        local = machine.spaces.local
        first = np.arange(machine.threads) * local.size + place

        def store(data: Array, origin: Array | None, group: ActiveThreads) -> None:
            data = np.ascontiguousarray(data).view("u1").reshape(len(first), -1)
            local.store(first[group.mask], data[group.mask], None if origin is None else origin[group.mask])

        return _Holder(lambda: local.load(first, variable.size), store)
    register = machine.register(operand, variable.type, owner, loose=True)
    if max(register.width // 8, 1) != variable.size:
        raise Unknown(f"{variable.name} takes {variable.size} bytes, not {max(register.width // 8, 1)}")

    def put(data: Array, origin: Array | None, group: ActiveThreads) -> None:
        register.put(np.ascontiguousarray(data).view(register.bits.dtype).reshape(-1), origin, group)

    return _Holder(lambda: (register.bits, register.origin), put)


MAKERS: Mapping[str, Maker] = {
    "bra": _branch,
    "brx": _branch_to_one,
    "ret": _end,
    "exit": _end,
    "trap": _trap,
    "brkpt": _trap,
    "call": _call,
}
