"""What is done with bits: logic, shifts, fields, and bytes that are put in another order (9.7.8, 9.7.9).

Each byte of a result comes from the operands on whose byte it depends.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...db.layout.algebra import Array
from .launch import Maker, Step
from .ptx import Both, Function, Name, Number, Statement, bits_of
from .schedule import Machine
from .values import NONE, ActiveThreads, Register, joined, merged, shifted, to_bits

#: The table of a function of three bits: of 1s where the first, the second and the third are set (9.7.8.6).
TRUTH = {"and": 0xF0 & 0xCC, "or": 0xF0 | 0xCC, "xor": 0xF0 ^ 0xCC, "not": 0x0F}

#: Which byte of eight prmt puts where in a mode, by the place and two bits (9.7.8.7).
MODES: Mapping[str, Callable[[Array, Array], Array]] = {
    "f4e": lambda place, first: first + place,
    "b4e": lambda place, first: first - place,
    "rc8": lambda place, first: first + 0 * place,
    "ecl": np.maximum,
    "ecr": np.minimum,
    "rc16": lambda place, first: (place & 1) + 2 * (first & 1),
}


def _logic(machine: Machine, instruction: Statement, function: Function) -> Step:
    """and, or, xor, not and lop3. A byte comes from the operands that could change it."""
    name, type_ = instruction.parts[0], instruction.type
    target, *operands = instruction.operands
    table, found_set, other = TRUTH.get(name, 0), None, None
    if isinstance(target, Both):  # whether a bit is set, combined with another predicate
        other = machine.predicate(operands.pop(), function)
        found_set, target = machine.register(target.second, "pred", function), target.first
    if name == "lop3":
        number = operands.pop()
        assert isinstance(number, Number)
        table = number.number
    result = machine.register(target, type_, function)
    sources = machine.registers_of(operands, type_, function)
    flips = [isinstance(each, Name) and each.negated for each in operands]
    full = bool(1) if type_ == "pred" else np.array(-1).astype(f"u{bits_of(type_) // 8}")

    def compute(values: Sequence[Array]) -> Array:
        found: Any = None
        for case in range(8):
            if table >> case & 1:
                term: Any = full
                for value, bit in zip(values, (4, 2, 1), strict=False):
                    term = term & (value if case & bit else value ^ full)
                if len(values) == 3 or not case & (7 >> len(values)):
                    found = term if found is None else found | term
        return np.asarray(values[0] ^ values[0] if found is None else found)

    def step(group: ActiveThreads) -> None:
        values = [source.bits ^ full if flip else source.bits for source, flip in zip(sources, flips, strict=True)]
        bits = compute(values)
        origin = None
        if any(source.origin is not None for source in sources):
            origin = np.zeros((machine.threads, max(result.width // 8, 1)), np.int32)
            for number, source in enumerate(sources):
                if source.origin is None:
                    continue
                flipped = [value ^ full if place == number else value for place, value in enumerate(values)]
                kept = np.ascontiguousarray(compute(flipped) ^ bits).view("u1").reshape(machine.threads, -1)
                own = source.origin if machine.tape.shares is None else machine.tape.masked(source.origin, kept)
                origin = merged(origin, np.where(kept != 0, own, NONE))
        if found_set is not None and other is not None:
            combine = np.logical_or if "or" in instruction.parts else np.logical_and
            found_set.put(combine(bits != 0, other[0].bits ^ other[1]), None, group)
        result.put(bits, origin, group)

    return step


def _shift(machine: Machine, instruction: Statement, function: Function) -> Step:
    """shl and shr: shifts by more than the width give zeros, or the sign."""
    left, type_ = instruction.parts[0] == "shl", instruction.type
    result, value = (machine.register(operand, type_, function) for operand in instruction.operands[:2])
    amount = machine.register(instruction.operands[2], "u32", function)
    width = bits_of(type_)

    def step(group: ActiveThreads) -> None:
        numbers, by = value.numbers(type_), amount.numbers("u32").astype("i8")
        within = np.minimum(by, width - 1).astype(numbers.dtype)
        moved = numbers << within if left else numbers >> within
        rest = np.where(numbers < 0, -1, 0).astype(numbers.dtype) if type_[0] == "s" else numbers ^ numbers
        bits = to_bits(type_, np.where(by < width, moved, rest))
        result.put(bits, shifted(value.origin, value.bits, by if left else -by, machine.tape), group)

    return step


def _ones(count: Array, bits: int) -> Array:
    """Numbers of so many bits of which the lowest ``count`` are set, at most all."""
    kind = np.dtype(f"u{bits // 8}")
    few = (kind.type(1) << np.minimum(count, bits - 1).astype(kind)) - kind.type(1)
    return np.asarray(np.where(count < bits, few, ~kind.type(0)))


def _amount(instruction: Statement, register: Register, bits: int) -> Array:
    """Where bits begin, how many there are, or how far they move, up to all bits of a number.

    Of a field of 32 bits the low byte of it counts. Those of 64 bits ``ptxas`` makes of shifts, which take all of it.
    """
    field = bits == 32 and instruction.parts[0] in ("bfe", "bfi")
    counted = register.bits & (31 if "wrap" in instruction.parts else 0xFF if field else 0xFFFFFFFF)
    return np.asarray(np.minimum(counted, bits).astype("i8"))


def _extract(machine: Machine, instruction: Statement, function: Function) -> Step:
    """bfe: a field of bits, and szext: so many low ones; with the sign of the number or zeros above."""
    type_ = instruction.type
    width = bits_of(type_)
    result, value = (machine.register(operand, type_, function) for operand in instruction.operands[:2])
    *start, length = machine.registers_of(instruction.operands[2:], "u32", function)

    def step(group: ActiveThreads) -> None:
        first = _amount(instruction, start[0], width) if start else np.zeros(machine.threads, "i8")
        count = _amount(instruction, length, width)
        numbers = value.numbers(type_)
        ones = _ones(count, width).view(numbers.dtype)
        moved = numbers >> np.minimum(first, width - 1).astype(numbers.dtype)
        if type_[0] == "s":
            negative = moved & ones & ~(ones.view(f"u{width // 8}") >> 1).view(numbers.dtype) != 0
            found = np.where(negative, moved | ~ones, moved & ones)
        else:
            found = np.where(first < width, moved & ones, 0)
        origin = value.origin
        if origin is not None:
            byte = 8 * np.arange(width // 8)
            field = (byte + 8 > first[:, None]) & (byte < (first + count)[:, None])
            origin = shifted(np.where(field, origin, NONE).astype(np.int32), numbers, -first, machine.tape)
        result.put(to_bits(type_, found), origin, group)

    return step


def _insert(machine: Machine, instruction: Statement, function: Function) -> Step:
    """bfi: a field of bits that replaces one of another register."""
    type_ = instruction.type
    width = bits_of(type_)
    result, field, base = (machine.register(operand, type_, function) for operand in instruction.operands[:3])
    start, length = (machine.register(operand, "u32", function) for operand in instruction.operands[3:])

    def step(group: ActiveThreads) -> None:
        kind = field.bits.dtype
        first, count = (_amount(instruction, each, width) for each in (start, length))
        up = np.minimum(first, width - 1).astype(kind)
        mask = np.where(first < width, _ones(count, width) << up, kind.type(0))
        bits = base.bits & ~mask | field.bits << up & mask
        origin = None
        if field.origin is not None or base.origin is not None:
            byte = mask.view("u1").reshape(machine.threads, -1)
            moved = shifted(field.origins, field.bits, first, machine.tape)
            assert moved is not None
            origin = merged(np.where(byte == 0xFF, NONE, base.origins), np.where(byte == 0, NONE, moved))
        result.put(bits, origin, group)

    return step


def _permute(machine: Machine, instruction: Statement, function: Function) -> Step:
    """prmt: any four bytes of eight, or their signs; a mode says which, by two bits (9.7.8.7)."""
    mode = next((MODES[part] for part in instruction.parts if part in MODES), None)
    result, *sources = machine.registers_of(instruction.operands, "b32", function)

    def step(group: ActiveThreads) -> None:
        low, high, chosen = sources
        data = np.stack([low.bits, high.bits], axis=1).view("u1")
        nibble = chosen.bits[:, None] >> np.array([0, 4, 8, 12], "u4") & 0xF
        if mode is not None:
            nibble = mode(np.arange(4), (chosen.bits & 3)[:, None].astype(np.intp)) & 7
        at = (nibble & 7).astype(np.intp)
        found = np.take_along_axis(data, at, axis=1)
        found = np.where(nibble & 8, np.where(found & 0x80, 0xFF, 0), found).astype("u1")
        both = joined([low, high])
        origin = None if both is None else np.take_along_axis(both, at, axis=1)
        result.put(np.ascontiguousarray(found).view("u4").ravel(), origin, group)

    return step


def _funnel(machine: Machine, instruction: Statement, function: Function) -> Step:
    """shf: a shift of two registers that gives one."""
    left = "l" in instruction.parts
    result, low, high, amount = machine.registers_of(instruction.operands, "b32", function)

    def step(group: ActiveThreads) -> None:
        by = _amount(instruction, amount, 32)
        both = high.bits.astype("u8") << np.uint64(32) | low.bits
        bits = (both << by.view("u8") >> np.uint64(32) if left else both >> by.view("u8")).astype("u4")
        moved = shifted(joined([low, high]), both, by if left else -by, machine.tape)
        result.put(bits, None if moved is None else moved[:, 4:] if left else moved[:, :4], group)

    return step


def _mask(machine: Machine, instruction: Statement, function: Function) -> Step:
    """bmsk: so many ones from a bit on."""
    result, start, length = machine.registers_of(instruction.operands, "b32", function)

    def step(group: ActiveThreads) -> None:
        first, count = (_amount(instruction, each, 32) for each in (start, length))
        result.put((_ones(count, 64) << first.view("u8")).astype("u4"), None, group)

    return step


MAKERS: Mapping[str, Maker] = dict.fromkeys((*TRUTH, "lop3"), _logic) | {
    "shl": _shift,
    "shr": _shift,
    "bfe": _extract,
    "bfi": _insert,
    "prmt": _permute,
    "shf": _funnel,
    "bmsk": _mask,
    "szext": _extract,
}
