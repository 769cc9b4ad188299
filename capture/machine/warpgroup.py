"""wgmma: a warpgroup multiplies what descriptors name in shared memory, while its threads go on (9.7.17).

A product is computed where it is issued, but nobody may touch its registers, and what it reads, before a wait.
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import numpy as np

from ...db.isa.forms import Form, forms
from ...db.isa.instructions import WARP, WARPGROUP, Key, tile
from ...db.isa.shared import Fields, Tile, wrong_bits
from ...db.layout.algebra import Array
from ...db.layout.fragment import Fragment
from ...db.layout.shared import places, read, shared
from .. import values
from . import sparse
from .accesses import WGMMA, Manner
from .launch import Maker, Step, Unknown
from .ptx import Function, Number, Statement, Vector
from .schedule import Machine
from .sparse import Chosen
from .tensor import bits_of, exact, origins, registers_of, results, whole_groups
from .types import expect_type
from .values import UNSET, ActiveThreads, Execution, Held, Register, held, whole


def _order(machine: Machine, instruction: Statement, _: Function) -> Step:
    """wgmma.fence, commit_group and wait_group."""
    kind = instruction.parts[1]
    pending = instruction.operands[0] if instruction.operands else Number(0)
    assert isinstance(pending, Number)

    def step(group: ActiveThreads) -> None:
        threads = whole_groups(machine, group, WARP).ravel()
        warps = np.unique(threads // WARP)
        if kind == "fence":
            machine.flights.fence(warps)
        elif kind == "commit_group":
            machine.order.commit(warps, WGMMA)
        else:
            machine.order.arrived(threads, pending.number, WGMMA)
            machine.flights.land(warps, machine.order.groups(warps, WGMMA) - pending.number)

    return step


@cache
def _forms() -> Mapping[str, Form]:
    return {form.mnemonic: form for name in ("wgmma", "wgmma.sp") for form in forms(name)}


class _Matrix(NamedTuple):
    """A or B of some warpgroups: numbers (groups, rows, columns), the origin of each slot, and the cells of slots.

    Of a sparse A, ``chosen`` has the columns that metadata chose.
    """

    numbers: Array
    ids: Array
    layout: Held
    chosen: Chosen | None = None


def _multiply(machine: Machine, instruction: Statement, function: Function) -> Step:
    """wgmma.mma_async: D = A x B, or D = A x B + D where a predicate says so; A may be sparse (9.7.17.5.2)."""
    form = _forms().get(instruction.opcode)
    if form is None:
        raise Unknown(f"{instruction.opcode} is not known")
    to, from_, other, *more = instruction.operands
    described, more = (more[:2], more[2:]) if form.sparse else ([], more)
    adds, *rest = more
    d = registers_of(machine, to, form, "D", function)
    a = registers_of(machine, from_, form, "A", function) if isinstance(from_, Vector) else []
    signs, turns = ([], rest) if form.d == "s32" else (rest[:2], rest[2:])
    negative = [isinstance(each, Number) and each.number < 0 for each in signs]
    majors = ["MN" if isinstance(each, Number) and each.number else "K" for each in turns] or ["K", "K"]
    words = {"B": machine.register(other, "b64", function)}
    if not a:
        words["A"] = machine.register(from_, "b64", function)
    major = {"A": majors[0], "B": majors[-1]}
    keep = machine.register(adds, "pred", function)
    machine.flights.watch([*d, *a])
    layout, kind = held(machine.layouts(form.key("D"))), exact(form.d)
    of_a = held(machine.layouts(form.key("A"))) if a else None
    choose = sparse.metadata(machine, form, described, function) if form.sparse else None

    def in_registers(threads: Array) -> _Matrix:
        assert of_a is not None
        slots = values.read_registers(form.operand("A"), bits_of(a, threads)).astype(kind)
        chosen = choose(threads, of_a.fragment) if choose else None
        ids = origins(machine, a, threads, form.operand("A").slots)
        expect_type(machine, form, "A", form.operand("A").slot_bits, slots, ids)
        return _Matrix(sparse.gathered(slots, of_a, chosen)[:, 0], ids, of_a, chosen)

    def in_memory(role: str, threads: Array) -> _Matrix:
        side = _in_memory(machine, form, role, major[role], words[role], threads)
        if role == "B" or choose is None:
            return side
        # Memory has what is stored of each line, and the layout the windows of its slots.
        lines, rule, layout = values.stored_a(form), form.sparsity, side.layout
        place = layout.col // rule.width * rule.fields * rule.group + layout.col % rule.width
        at = layout.row * side.numbers.shape[2] + place
        stored = choose(threads, lines)
        chosen = stored._replace(columns=stored.columns[:, at], ids=stored.ids[:, at])
        slots, ids = (each[:, layout.row, place] for each in (side.numbers, side.ids))
        return _Matrix(sparse.gathered(slots.astype(kind), layout, chosen)[:, 0], ids, layout, chosen)

    def step(group: ActiveThreads) -> None:
        threads = whole_groups(machine, group, WARPGROUP)
        sides = {role: in_memory(role, threads) for role in words}
        if a:
            sides["A"] = in_registers(threads)
        numbers = {role: side.numbers.astype(kind) for role, side in sides.items()}
        for role, is_negative in zip("AB", negative, strict=False):
            numbers[role] = -numbers[role] if is_negative else numbers[role]
        machine.expect_set(keep, threads.ravel(), "whether D is added")
        adding = keep.bits[threads[:, :1]]
        before = values.read_registers(form.operand("D"), bits_of(d, threads)).astype(kind)
        before = np.where(adding, before, 0)[:, layout.slot[0]]
        ids = {role: side.ids for role, side in sides.items()}
        ids["C"] = np.where(adding, origins(machine, d, threads, form.operand("D").slots), 0)
        side = sides["A"]
        product = sparse.multiply(form, numbers["A"], numbers["B"], side.layout, side.chosen) + before
        layouts = {role: side.layout for role, side in sides.items()} | {"C": layout, "D": layout}
        chosen, names = side.chosen, machine.warp_names(threads[:, 0])
        if chosen:
            ids["E"], layouts["E"] = chosen.held, chosen.layout
        by = chosen and chosen.columns, chosen and chosen.ids
        execution = Execution(form, instruction.place, names, ids, layouts, *by)
        warps = np.unique(threads // WARP)
        if len(unfenced := machine.flights.unfenced([*d, *a], warps)):
            words_ = f"{instruction.parts[0]} begins before any wgmma.fence orders its registers"
            machine.fault("race", unfenced * WARP, words_)
        results(machine, d, threads, product[:, None], execution, group)
        for register in d:  # products of one kind follow each other without a fence
            machine.flights.settle(register, warps)
        machine.flights.start([*d, *a], warps, machine.order.groups(warps, WGMMA) + 1, instruction.place)

    return step


@cache
def _cells(key: Key) -> tuple[Tile, Held]:
    """The tile of an operand in memory, and which of its cells each element is."""
    of = tile(key)
    assert of is not None
    return of, held(Fragment.of(key, shared(key, places(of)), "documented"))


def _in_memory(machine: Machine, form: Form, role: str, major: str, word: Register, threads: Array) -> _Matrix:
    """What descriptors name, one for each warpgroup: its slots are those of the layout that the first one says."""
    described = [int(number) for number in word.bits[threads[:, 0]]]
    machine.expect_set(word, threads.ravel(), f"the descriptor of {role}")
    if wrong := wrong_bits(described[0]):
        machine.fault("descriptor", threads[0], f"the descriptor of {role}: {wrong}")
    fields = [Fields.of(number) for number in described]
    key = form.key(role)._replace(qualifiers=f"{fields[0].mode}.{major}")
    of, layout = _cells(key)
    memory, width = machine.spaces.shared, max(of.bits // 8, 1)
    bits = np.stack([read(of._replace(mode=each.mode), each) for each in fields])
    at = bits >> 3
    inside = memory.inside(at, width)
    if not inside.all():
        first = int(at[~inside][0])
        words = f"the descriptor of {role} reads shared memory at {first:#x}"
        machine.fault("bounds", threads[~inside.all(axis=(1, 2)), 0], words)
    index = np.where(inside, at, memory.low) + (machine.owner[threads[:, 0]] * memory.size)[:, None, None]
    data, origin = memory.load(index.ravel(), width)
    codes = np.ascontiguousarray(data).view(f"u{width}").reshape(index.shape)
    if of.bits < 8:
        codes = codes >> (bits & 7).astype("u1") & (1 << of.bits) - 1
    numbers = values.decode(form.types[role], of.bits, codes)
    ids = np.where(inside, whole(origin).reshape(index.shape), UNSET)
    expect_type(machine, form, role, of.bits, numbers, ids)
    machine.reads(memory, index.ravel(), width, np.repeat(threads[:, 0], index[0].size), Manner(WGMMA))
    if role == "B":
        numbers, ids = numbers.swapaxes(1, 2), ids.swapaxes(1, 2)
    if layout.fragment.windowed:
        return _Matrix(numbers, ids, layout)
    return _Matrix(numbers, ids[:, layout.row, layout.col], layout)


MAKERS: Mapping[str, Maker] = {
    "wgmma.mma_async": _multiply,
    "wgmma.fence": _order,
    "wgmma.commit_group": _order,
    "wgmma.wait_group": _order,
}
