"""Tensor Memory: 128 lanes of 512 columns for each block, which a warp allocates and whose lanes warps share (9.7.18).

Loads and stores are done where they are issued, but nobody may touch what a load writes before a wait, and nobody may
load what a store has written before its wait.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from ...db.isa.forms import Form, forms
from ...db.isa.instructions import WARP, WARPGROUP, WORD
from ...db.layout.algebra import Array
from .. import values
from .arithmetic import extremum
from .launch import Maker, Step, Unknown
from .memory import Memory
from .moves import nothing
from .ptx import Function, MemoryOperand, Number, SourceLine, Statement
from .schedule import Machine
from .tensor import bits_of, registers_of, whole_groups, write
from .values import ActiveThreads, joined

LANES, COLUMNS = 128, 512

#: Columns that are allocated together.
_UNIT = 32


@dataclass
class TensorMemory:
    """The Tensor Memory of some blocks: what it holds, which columns are taken, and which stores are on their way.

    ``taken`` has for each block and allocation its first column, with the number of columns and where that was.
    """

    memory: Memory
    storing: Array
    taken: dict[tuple[int, int], tuple[int, SourceLine]] = field(default_factory=dict)
    relinquished: set[int] = field(default_factory=set)

    def free(self, block: int, count: int) -> int | None:
        """The first of so many free columns of a block, which begin at a multiple of their number."""
        used = np.zeros(COLUMNS, bool)
        for (owner, first), (length, _) in self.taken.items():
            used[first : first + length] |= owner == block
        return next((at for at in range(0, COLUMNS, count) if not used[at : at + count].any()), None)


def _wait(machine: Machine, instruction: Statement, _: Function) -> Step:
    """tcgen05.wait: for what a warp loads, or for what it stores."""
    if instruction.parts[1] == "wait::ld":
        return lambda group: machine.loads.land(group.warps, np.ones(1))
    return lambda group: _stored(machine, group)


@cache
def _forms() -> Mapping[str, Form]:
    return {form.mnemonic: form for name in ("tcgen05.ld", "tcgen05.ld.red", "tcgen05.st") for form in forms(name)}


def _columns(machine: Machine) -> TensorMemory:
    """The Tensor Memory of a machine, made when something needs it."""
    if machine.tensor is None:
        blocks = machine.threads // machine.per_block
        memory = Memory("tensor", 0, LANES * COLUMNS * WORD // 8, blocks)
        machine.tensor = TensorMemory(memory, np.zeros(blocks * LANES * COLUMNS, np.int32))
    columns: TensorMemory = machine.tensor
    return columns


def _stored(machine: Machine, group: ActiveThreads) -> None:
    storing = _columns(machine).storing
    storing[np.isin(storing, group.warps + 1)] = 0


def _allocation(machine: Machine, instruction: Statement, function: Function) -> Step:
    """tcgen05.alloc, dealloc and relinquish_alloc_permit, by one warp of a block (9.7.18.7)."""
    kind = instruction.parts[1]
    if "cta_group::1" not in instruction.parts:
        raise Unknown(f"{instruction.opcode} is not run: of two blocks")
    first, *more = instruction.operands or (Number(0),)
    count = machine.register(more[0], "u32", function) if more else None
    into = machine.addresses(first, function) if kind == "alloc" else None
    given = machine.register(first, "b32", function) if kind == "dealloc" else None

    def allocate(thread: int, columns: TensorMemory, block: int, number: int) -> None:
        at, who = columns.free(block, number), np.array([thread])
        if block in columns.relinquished or at is None:
            reason = "after the permit was given back" if block in columns.relinquished else "and no more are free"
            machine.fault("tensor memory", who, f"{number} columns are allocated {reason}")
            return
        columns.taken[block, at] = number, instruction.place
        assert into is not None
        shared = "shared" if any(part.startswith("shared") for part in instruction.parts) else ""
        for memory, index, whose in machine.access(shared, into(who), 4, who):
            machine.store(memory, index, np.array([at], "<u4").view("u1").reshape(1, -1), None, whose)

    def step(group: ActiveThreads) -> None:
        columns = _columns(machine)
        for thread in whole_groups(machine, group, WARP)[:, 0].tolist():
            block, who = int(machine.owner[thread]), np.array([thread])
            number = 0 if count is None else int(count.bits[thread])
            if kind == "relinquish_alloc_permit":
                columns.relinquished.add(block)
            elif number < _UNIT or number > COLUMNS or number.bit_count() != 1:
                words = f"{number} columns: a power of two from {_UNIT} to {COLUMNS} is allocated"
                machine.fault("tensor memory", who, words)
            elif given is None:
                allocate(thread, columns, block, number)
            elif columns.taken.get((block, int(given.bits[thread])), (0,))[0] == number:
                del columns.taken[block, int(given.bits[thread])]
            else:
                words = f"{number} columns at {int(given.bits[thread]):#x} are deallocated, and not allocated so"
                machine.fault("tensor memory", who, words)

    return step


def expect_freed(machine: Machine) -> None:
    """Note columns that a kernel leaves allocated."""
    for (block, _), (number, place) in (machine.tensor.taken if machine.tensor else {}).items():
        first = np.flatnonzero(machine.owner == block)[:1]
        machine.fault("tensor memory", first, f"{number} columns are never deallocated", place)


def _move(machine: Machine, instruction: Statement, function: Function) -> Step:
    """tcgen05.ld and st: a warp reaches 32 lanes of its own. A second block of lanes begins where a number says.

    tcgen05.ld.red also gives each thread the least or greatest of what it loads.
    """
    form = _forms().get(instruction.opcode)
    if form is None:
        raise Unknown(f"{'.'.join(instruction.parts[:2])} is not run")
    operands = [*instruction.operands]
    least = machine.register(operands.pop(1), "b32", function) if form.name == "tcgen05.ld.red" else None
    reduce = extremum(instruction.parts, least="min" in instruction.parts) if least is not None else None
    address = operands.pop(0 if form.stores else 1)
    split = next((operands.pop(at) for at, each in enumerate(operands) if isinstance(each, Number)), Number(0))
    registers = registers_of(machine, operands[0], form, "r", function)
    if not isinstance(address, MemoryOperand) or len(operands) != 1 or not isinstance(split, Number):
        raise Unknown(f"{instruction.opcode} is not known with these operands")
    addresses = machine.addresses(address, function)
    computation, row, col = values.places(machine.layouts(form.key("r")))
    width = WORD // 8 // form.operand("r").slots

    def places(threads: Array) -> Array:
        """The index of the word of each slot in Tensor Memory (groups, slots)."""
        columns, given = _columns(machine), addresses(threads)
        if (given != given[:, :1]).any():
            machine.fault("tensor memory", threads[:, 0], "lanes of a warp name different addresses")
        base = given[:, :1] + computation * split.number
        lane, column = (base >> 16) + row, (base & 0xFFFF) + col
        own = (machine.number[threads[:, :1]] % WARPGROUP) // WARP * WARP
        good = (lane >= own) & (lane < own + WARP)
        if not good.all():
            wrong = int(lane[~good][0])
            machine.fault("tensor memory", threads[~good.all(axis=1), 0], f"lane {wrong} belongs to another warp")
        block = machine.owner[threads[:, 0]]
        taken = np.zeros((len(threads), COLUMNS), bool)
        for (owner, first), (number, _) in columns.taken.items():
            taken[block == owner, first : first + number] = True
        inside = (column < COLUMNS) & np.take_along_axis(taken, np.minimum(column, COLUMNS - 1), axis=1)
        if not inside.all():
            words = f"column {int(column[~inside][0])} of Tensor Memory is not allocated"
            machine.fault("bounds", threads[~inside.all(axis=1), 0], words)
        at = (np.clip(lane, 0, LANES - 1) * COLUMNS + np.minimum(column, COLUMNS - 1)) % (LANES * COLUMNS)
        return np.asarray(at + block[:, None] * LANES * COLUMNS)

    def store(threads: Array, at: Array, columns: TensorMemory) -> None:
        codes = np.ascontiguousarray(bits_of(registers, threads).swapaxes(1, 2)).view("u1").reshape(at.size, width)
        ids = joined(registers)
        origin = None if ids is None else ids[threads].reshape(at.size, width)
        index = at.ravel() * WORD // 8
        if width < WORD // 8:  # a column holds one element of 16 bits
            columns.memory.store(index + width, np.zeros_like(codes), None)
        columns.memory.store(index, codes, origin)
        columns.storing[at] = threads[:, :1] // WARP + 1

    def step(group: ActiveThreads) -> None:
        threads, columns = whole_groups(machine, group, WARP), _columns(machine)
        at = places(threads)
        if (late := columns.storing[at] > 0).any() and not form.stores:
            machine.fault("race", threads[late.any(axis=1), 0], "loads what no tcgen05.wait::st has waited for")
        if form.stores:
            store(threads, at, columns)
            return
        data, ids = columns.memory.load(at.ravel() * WORD // 8, width)
        words = np.ascontiguousarray(data.reshape(len(threads), WARP, -1)).view("u4").swapaxes(1, 2)
        write(machine, registers, threads, words, ids.reshape(len(threads), -1), group)
        if reduce is not None and least is not None:
            joins = machine.tape.join("mix", [each.ids for each in registers])
            least.put_numbers(form.a, reduce(*(each.numbers(form.a) for each in registers)), joins, group)
        machine.loads.start(
            [*registers, *([least] if least else [])],
            np.unique(threads // WARP),
            np.ones(1, np.int64),
            instruction.place,
        )

    return step


MAKERS: Mapping[str, Maker] = {
    **dict.fromkeys([f"tcgen05.{name}" for name in ("alloc", "dealloc", "relinquish_alloc_permit")], _allocation),
    **dict.fromkeys([f"tcgen05.fence::{name}_thread_sync" for name in ("before", "after")], nothing),
    "tcgen05.wait::ld": _wait,
    "tcgen05.wait::st": _wait,
    "tcgen05": _move,
}
