"""Tensor instructions: what fragments say of their operands is all that is known of them here."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from ...db.isa.forms import Form, forms
from ...db.isa.instructions import WARP, Key
from ...db.layout.algebra import Array
from ...db.layout.fragment import Fragment, address_lanes
from .. import values
from . import sparse
from .launch import Maker, Step, Unknown
from .memory import Memory
from .ptx import Function, Number, Operand, Statement, items_of
from .schedule import Machine
from .types import expect_type
from .values import NONE, UNSET, ActiveThreads, Execution, Register, held, joined, whole

#: Gives the fragment of a key. Raises LanemapError where no source has its elements.
Layouts = Callable[[Key], Fragment]

NAMES = ("mma", "mma.sp", "wmma", "ldmatrix", "stmatrix", "movmatrix")

#: How products round or saturate, which chooses no layout.
_ROUNDING = ("satfinite", "rn", "rz", "rm", "rp")

#: What a product gives that is no number.
_NAN = np.uint32(0x7FFFFFFF).view("f4")

#: State spaces that a move may name, and leave out for generic addresses.
_SPACES = ("shared", "global")


@cache
def _forms() -> Mapping[tuple[str, ...], Form]:
    """The forms that a warp executes, by the words of their mnemonics in any order that PTX takes."""
    every = [form for name in NAMES for form in forms(name)]
    # The size of scale vectors may be left out where a kind has only one (9.7.16.3).
    short = {
        _words([word for word in form.mnemonic.split(".") if not word.startswith("scale_vec")]): form
        for form in every
        if form.scale is not None and "nvf4" not in form.kind
    }
    return short | {_words(form.mnemonic.split(".")): form for form in every}


def _words(parts: Sequence[str]) -> tuple[str, ...]:
    """The words of a mnemonic; those of a move may stand in any order, with or without a state space.

    Metadata that need not be ordered, as it may be without a word for it, is read like any other.
    """
    if "mma" in parts[:2]:
        words = (part for part in parts if part not in _ROUNDING)
        return tuple("sp::ordered_metadata" if part == "sp" else part for part in words)
    return parts[0], *sorted(part for part in parts[1:] if part.removesuffix("::cta") not in _SPACES)


def _instruction(machine: Machine, instruction: Statement, function: Function) -> Step:
    """What a tensor instruction does, by the form that it names."""
    form = _forms().get(_words(instruction.parts))
    if form is None:
        raise Unknown(f"{instruction.opcode} is not known")
    if not form.role:
        return _multiply(machine, instruction, function, form)
    make = {"wmma": _tile, "movmatrix": _transpose}.get(instruction.parts[0], _matrices)
    return make(machine, instruction, function, form)


def registers_of(machine: Machine, operand: Operand, form: Form, role: str, function: Function) -> list[Register]:
    """The registers of an operand. Raises Unknown where they are not those that the form has."""
    items, wide = items_of(operand), form.operand(role)
    if len(items) != wide.registers:
        raise Unknown(f"{form.mnemonic} takes {wide.registers} registers of {role}, not {len(items)}")
    return machine.registers_of(items, f"b{wide.register_bits}", function)


def whole_groups(machine: Machine, group: ActiveThreads, size: int) -> Array:
    """The threads (groups, size) of the warps or warpgroups that execute an instruction, which takes whole ones."""
    first = group.threads
    first = np.unique(first - machine.number[first] % size)
    threads = np.minimum(first[:, None] + np.arange(size), machine.threads - 1)
    if (machine.number[first] + size > machine.per_block).any() or not group.mask[threads].all():
        opcode = ".".join(machine.program[machine.at][0].parts[:2])
        name = "warp" if size == WARP else "warpgroup"
        words = f"only some threads of a {name} execute {opcode}, which takes whole {name}s"
        machine.fault("divergence", group.threads, words)
    return np.asarray(threads)


def bits_of(registers: Sequence[Register], threads: Array) -> Array:
    """Registers of groups of threads as an array (groups, registers, threads)."""
    return np.stack([register.bits[threads] for register in registers], axis=1)


def origins(machine: Machine, registers: Sequence[Register], threads: Array, slots: int) -> Array:
    """The origin of each slot (groups, slots of all threads). That of a byte is the first of the elements in it."""
    width = registers[0].width // 8
    found = np.stack([register.origins[threads] for register in registers], axis=2)
    if slots > width:
        each = found[..., None] + np.arange(slots // width, dtype=np.int32)
        several = machine.tape.alone(found) != 0
        return np.where(several[..., None], each, found[..., None]).reshape(len(threads), -1)
    return whole(found.reshape(-1, width // slots)).reshape(len(threads), -1)


def write(
    machine: Machine, registers: Sequence[Register], threads: Array, bits: Array, ids: Array, group: ActiveThreads
) -> None:
    """Write bits (groups, registers, threads) and the origins of slots (groups, slots) to registers of groups."""
    width = registers[0].width // 8
    by_slot = ids.reshape(*threads.shape, len(registers), -1)
    count = by_slot.shape[-1]
    bytes_ = np.repeat(by_slot, width // count, axis=-1) if count <= width else by_slot[..., :: count // width]
    for number, register in enumerate(registers):
        all_bits = np.zeros(machine.threads, register.bits.dtype)
        all_bits[threads] = bits[:, number]
        origin = np.zeros((machine.threads, width), np.int32)
        origin[threads] = bytes_[:, :, number]
        register.put(all_bits, origin, group)


def exact(type_: str) -> str:
    """The type of numpy in which sums of products of a type are exact, or as exact as the instruction's."""
    return "f8" if type_ in ("s32", "f64") else "f4"


def _multiply(machine: Machine, instruction: Statement, function: Function, form: Form) -> Step:
    """mma: D = A x B + C, of each warp; A may be sparse, and both may have block scales."""
    sources = {
        role: registers_of(machine, operand, form, role, function)
        for operand, role in zip(instruction.operands[:4], "DABC", strict=True)
    }
    d = sources.pop("D")
    layout = {role: held(machine.layouts(form.key(role))) for role in "ABCD"}
    of_role = {role: form.operand(role) for role in "ABCD"}
    number, more = exact(form.d), list(instruction.operands[4:])
    metadata = None
    if form.sparse:
        metadata = sparse.metadata(machine, form, [more.pop(0), more.pop(0)], function)
    scales = None if form.scale is None else sparse.scales(machine, form, [*map(more.pop, [0] * 4)], function)
    if more:
        raise Unknown(f"{form.mnemonic} does not take so many operands")

    def step(group: ActiveThreads) -> None:
        threads = whole_groups(machine, group, WARP)
        chosen = metadata(threads, layout["A"].fragment) if metadata else None
        slots = {role: values.read_registers(of_role[role], bits_of(each, threads)) for role, each in sources.items()}
        ids = {role: origins(machine, each, threads, of_role[role].slots) for role, each in sources.items()}
        for role in "AB":
            expect_type(machine, form, role, of_role[role].slot_bits, slots[role], ids[role])
        numbers = {
            role: sparse.gathered(each.astype(number), layout[role], chosen if role == "A" else None)
            for role, each in slots.items()
        }
        by = scales(threads) if scales else {}
        for role, each in by.items():
            numbers[role[-1]] = sparse.scaled(role[-1], numbers[role[-1]], each)
        result = sparse.multiply(form, numbers["A"], numbers["B"], layout["A"], chosen) + numbers["C"]
        if "satfinite" in instruction.parts:
            result = np.clip(result, -(1 << 31), (1 << 31) - 1)
        beside = by | ({"E": chosen} if chosen else {})
        ids |= {role: each.ids for role, each in by.items()} | ({"E": chosen.held} if chosen else {})
        names, layouts = machine.warp_names(threads[:, 0]), {role: each.layout for role, each in beside.items()}
        chose = chosen and chosen.columns, chosen and chosen.ids
        execution = Execution(form, instruction.place, names, ids, layout | layouts, *chose)
        results(machine, d, threads, result, execution, group)

    return step


def results(
    machine: Machine, d: Sequence[Register], threads: Array, result: Array, execution: Execution, group: ActiveThreads
) -> None:
    """Write matrices (groups, computations, rows, columns) to D, as what an execution has computed."""
    form, layout = execution.form, execution.layouts["D"]
    if form.d == "s32":
        result = (result.astype("i8") & 0xFFFFFFFF).astype("u4").view("i4")
    slots = result[:, layout.computation, layout.row, layout.col]
    if slots.dtype == np.float32:
        slots = np.where(np.isnan(slots), _NAN, slots)
    nodes = machine.tape.add(execution, slots.size).reshape(slots.shape)
    execution.held["D"] = nodes
    write(machine, d, threads, values.write_registers(form.operand("D"), slots), nodes, group)


def _matrices(machine: Machine, instruction: Statement, function: Function, form: Form) -> Step:
    """ldmatrix and stmatrix: each lane names a row of a matrix in shared memory, of 8, 6 or 4 bits a line of bytes."""
    first, second = instruction.operands
    vector, address = (second, first) if form.stores else (first, second)
    registers = registers_of(machine, vector, form, form.role, function)
    addresses = machine.addresses(address, function)
    moved, lanes = machine.layouts(form.key("r")), machine.layouts(form.key("p"))
    lane, (_, _, place) = address_lanes(moved, lanes), values.places(moved)
    packed = _PACKED.get(form.packed, 0)
    width = max(values.memory_bits(form) // 8, 1)
    line = place.max() + 1 if form.packed == ".s4" else values.LINE * 2  # 16 numbers of 4 bits have no padding
    space, line = _space(instruction), int(line) // 2

    def step(group: ActiveThreads) -> None:
        groups = whole_groups(machine, group, WARP)
        named = np.zeros(WARP, bool)
        named[lane] = True
        threads = groups[:, named].ravel()
        base = np.full(machine.threads, -1)
        memory = machine.spaces.shared
        for reached, index, who in machine.access(space, addresses(threads), line, threads):
            if reached is memory:
                base[who] = index
            else:
                machine.fault("bounds", who, f"an address of {instruction.parts[0]} is not in shared memory")
        at = base[groups[:, lane]]
        good = at >= 0
        bit = place * (packed or 8 * width)
        at = np.where(good, at + bit // 8, 0)
        who = groups[:, lane].ravel()
        if form.stores:
            codes = bits_of(registers, groups).swapaxes(1, 2).reshape(len(groups), -1)
            data = np.ascontiguousarray(codes).view("u1").reshape(at.size, width)
            own, chosen = origins(machine, registers, groups, _BYTES).reshape(-1, width), good.ravel()
            machine.store(memory, at.ravel()[chosen], data[chosen], own[chosen], who[chosen])
            return
        data, ids = memory.load(at.ravel(), width)
        if packed:
            data, ids = _unpacked(machine, memory, at.ravel(), np.broadcast_to(bit % 8, at.shape).ravel(), packed, form)
        machine.reads(memory, at.ravel()[good.ravel()], width, who[good.ravel()])
        ids = np.where(good.reshape(-1, 1), ids, UNSET)
        words = np.ascontiguousarray(data.reshape(len(groups), WARP, -1)).view("u4").swapaxes(1, 2)
        write(machine, registers, groups, words, ids.reshape(len(groups), -1), group)

    return step


#: Bytes of a register that holds a row of a matrix, or a part of it.
_BYTES = 4

#: Bits of a number in memory, by the name of what becomes bytes when it is loaded (9.7.16.5.15).
_PACKED = {".b4x16_p64": 4, ".b6x16_p32": 6, ".s4": 4}


def _unpacked(
    machine: Machine, memory: Memory, index: Array, first: Array, bits: int, form: Form
) -> tuple[Array, Array]:
    """Bytes of numbers of fewer bits, each with the origin of its element: that of a byte is of its first bit."""
    low, ids = memory.load(index, 1)
    high, _ = memory.load(np.minimum(index + 1, len(memory.data) - 1), 1)
    codes = (low[:, 0] | high[:, 0].astype("u2") << 8) >> first & (1 << bits) - 1
    if form.a == "s8":
        codes = (codes ^ 1 << bits - 1) - (1 << bits - 1)
    later = (first > 0)[:, None] & (ids > NONE) & (ids < machine.tape.starts[0])
    return codes.astype("u1")[:, None], np.where(later, ids + 1, ids)


def _space(instruction: Statement) -> str:
    """The state space that a move names; empty where addresses are generic."""
    return next((space for space in _SPACES for part in instruction.parts if part.startswith(space)), "")


def _tile(machine: Machine, instruction: Statement, function: Function, form: Form) -> Step:
    """wmma.load and wmma.store: a matrix in memory, whose rows or columns are a stride apart (9.7.16.4.3)."""
    first, second, *stride = instruction.operands
    vector, address = (second, first) if form.stores else (first, second)
    registers = registers_of(machine, vector, form, form.role, function)
    addresses, space = machine.addresses(address, function), _space(instruction)
    apart = machine.register(stride[0] if stride else Number(values.extents(form, form.role)[1]), "u32", function)
    _, row, col = values.places(machine.layouts(form.key(form.role)))
    bits, size = values.memory_bits(form), registers[0].width // 8
    width, together = max(bits // 8, 1), max(8 // bits, 1)
    each = np.stack((row, col) if form.layout == "row" else (col, row)).reshape(2, WARP, -1, together)
    if (each != each[..., :1] + np.stack([np.zeros(together, int), np.arange(together)])[:, None, None]).any():
        raise Unknown(f"{instruction.opcode} is not known: a byte of a register is of several bytes in memory")
    line, place = each[..., 0]

    def step(group: ActiveThreads) -> None:
        whole_groups(machine, group, WARP)
        threads = group.threads
        given, lane, pitch = addresses(threads), threads % WARP, apart.bits[threads].astype("i8")
        data = (
            np.stack([register.bits for register in registers], axis=1).view("u1").reshape(machine.threads, -1, width)
        )
        ids = joined(registers)
        origins_ = np.zeros(data.shape, np.int32) if ids is None else ids.reshape(data.shape).copy()
        for element in range(line.shape[1]):
            at = given + (line[lane, element] * pitch + place[lane, element]) * bits // 8
            for memory, index, who in machine.access(space, at, width, threads):
                if form.stores:
                    machine.store(memory, index, data[who, element], origins_[who, element], who)
                else:
                    data[who, element], origins_[who, element] = machine.load(memory, index, width, who)
        if not form.stores:
            words = data.reshape(machine.threads, -1).view(f"u{size}")
            by_register = origins_.reshape(machine.threads, len(registers), size)
            for number, register in enumerate(registers):
                register.put(np.ascontiguousarray(words[:, number]), by_register[:, number], group)

    return step


def _transpose(machine: Machine, instruction: Statement, function: Function, form: Form) -> Step:
    """movmatrix: a matrix of 8 x 8 in registers, transposed."""
    target, source = (
        registers_of(machine, operand, form, role, function)
        for operand, role in zip(instruction.operands, "DA", strict=True)
    )
    of, to = (held(machine.layouts(form.key(role))) for role in "AD")

    def step(group: ActiveThreads) -> None:
        groups = whole_groups(machine, group, WARP)
        codes = np.ascontiguousarray(bits_of(source, groups).swapaxes(1, 2)).reshape(len(groups), -1).view("u2")
        ids = origins(machine, source, groups, _BYTES).reshape(len(groups), -1, 2)  # a number may be of two elements
        at = of.slot[0][to.col, to.row]
        words = np.ascontiguousarray(codes[:, at]).view("u4").reshape(len(groups), 1, WARP)
        write(machine, target, groups, words, ids[:, at].reshape(len(groups), -1), group)

    return step


MAKERS: Mapping[str, Maker] = dict.fromkeys(NAMES, _instruction)
