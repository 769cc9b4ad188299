"""What instructions compute, thread by thread: a table of rules, and how bytes keep their origins (9.7.1 to 9.7.10).

A number that is computed from one element has the origin of that element.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from ...db.layout.algebra import Array
from . import floats
from .launch import Maker, Step
from .ptx import Function, Name, Statement, Vector, bits_of
from .schedule import Machine
from .values import NONE, ActiveThreads, Register, joined, limits_of, to_bits, whole


class Rule(NamedTuple):
    """How a result is computed from its sources, and what their origins make: add, mul or mix.

    What only moves a sign is not ``clamped``: it may be any NaN.
    """

    compute: Callable[..., Any]
    joins: str = "mix"
    clamped: bool = True


def _quotient(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return a / b
    safe = np.where(b == 0, 1, b)
    quotient = a // safe
    if a.dtype.kind == "i":  # towards zero
        quotient += (a - quotient * safe != 0) & ((a < 0) != (b < 0))
    return np.where(b == 0, ~(b ^ b), quotient)


def _approximate_quotient(divided: Callable[..., Array], a: Array, b: Array) -> Array:
    """A quotient; but zero, or NaN of what is infinite, where the reciprocal is subnormal (9.7.3.8)."""
    with np.errstate(invalid="ignore"):
        zero = np.copysign(a - a, np.sign(a) * np.sign(b))
    return np.where(np.abs(b) >= 2.0**126, zero, divided(a, b)).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, ~(b ^ b), a - _quotient(a, b) * b)


def extremum(words: Collection[str], *, least: bool) -> Callable[..., Any]:
    """min or max: a number rather than NaN, or the other way round; of magnitudes, with the product of signs."""
    choose = (np.minimum if least else np.maximum) if "NaN" in words else (np.fmin if least else np.fmax)

    def compute(*of: Array) -> Array:
        given = [np.abs(each) for each in of] if "abs" in words else of
        found = np.asarray(reduce(choose, given))
        if found.dtype.kind == "f":  # of zeros the negative one is less
            of_sign = [((each == 0) & (np.signbit(each) == least)) for each in given]
            zero = np.copysign(found.dtype.type(0), np.where(np.logical_or.reduce(of_sign) == least, -1, 1))
            found = np.where(found == 0, zero.astype(found.dtype), found)
        if "xorsign" in words:
            found = np.copysign(found, np.where(np.signbit(of[0]) ^ np.signbit(of[1]), -1, 1).astype(found.dtype))
        return found

    return compute


def _high(a: Array, b: Array) -> Array:
    """The upper half of a product of whole numbers."""
    width = a.dtype.itemsize * 8
    if width < 64:
        return a.astype("i8" if a.dtype.kind == "i" else "u8") * b >> width
    x, y = a.astype(object), b.astype(object)
    return np.array([(int(p) * int(q) >> 64) & (1 << 64) - 1 for p, q in zip(x, y, strict=True)], "u8").view(a.dtype)


def _leading_zeros(a: Array) -> Array:
    width = a.dtype.itemsize * 8
    return np.array([width - int(number).bit_length() for number in a.view(f"u{a.dtype.itemsize}")])


def _found(a: Array) -> Array:
    """Where the highest bit stands that is not the sign."""
    bits = np.where(a < 0, ~a, a) if a.dtype.kind == "i" else a
    return np.array([int(number).bit_length() - 1 for number in bits])


def _reversed(a: Array) -> Array:
    width = a.dtype.itemsize * 8
    return np.array([int(f"{int(number):0{width}b}"[::-1], 2) for number in a], a.dtype)


def _nth_set(mask: Array, base: Array, offset: Array) -> Array:
    """The place of the set bit that is so many from a base on, upwards or downwards, or all ones without one."""
    place, start, by = np.arange(32), base.astype("i8")[:, None], offset.view("i4").astype("i8")[:, None]
    candidates = (mask[:, None] >> place.astype("u4") & 1 > 0) & ((place - start) * np.sign(by) >= 0)
    candidates &= ((by != 0) | (place == start)) & (start < 32)
    upwards = np.where(by < 0, candidates[:, ::-1], candidates)
    found = upwards & (np.cumsum(upwards, axis=1) == np.maximum(np.abs(by), 1))
    at = np.argmax(found, axis=1)
    return np.where(found.any(axis=1), np.where(by[:, 0] < 0, 31 - at, at), -1)


#: What is computed of numbers of one type. The result has the same type, but for counts.
RULES: Mapping[str, Rule] = {
    "add": Rule(np.add, "add"),
    "sub": Rule(np.subtract),
    "mul": Rule(np.multiply, "mul"),
    "div": Rule(_quotient),
    "rem": Rule(_remainder),
    "min": Rule(np.fmin),
    "max": Rule(np.fmax),
    "abs": Rule(np.abs),
    "neg": Rule(np.negative),
    "sqrt": Rule(np.sqrt),
    "rsqrt": Rule(lambda a: 1 / np.sqrt(a)),
    "rcp": Rule(lambda a: 1 / a),
    "ex2": Rule(np.exp2),
    "lg2": Rule(np.log2),
    "sin": Rule(np.sin),
    "cos": Rule(np.cos),
    "tanh": Rule(np.tanh),
    "copysign": Rule(lambda a, b: np.copysign(b, a), clamped=False),
    "sad": Rule(lambda a, b, c: np.where(a < b, b - a, a - b) + c),
    "popc": Rule(np.bitwise_count),
    "clz": Rule(_leading_zeros),
    "bfind": Rule(_found),
    "brev": Rule(_reversed),
    "cnot": Rule(lambda a: a == 0),
    "fns": Rule(_nth_set),
}


def _clamped(instruction: Statement, numbers: Array, type_: str) -> Array:
    """A result that is kept in its range where the instruction says so."""
    if numbers.dtype.kind == "f":
        return floats.clamped(instruction.parts, numbers)
    if "sat" in instruction.parts:
        limits = limits_of(type_)
        return np.clip(numbers, limits.min, limits.max)
    return np.maximum(numbers, 0) if "relu" in instruction.parts else numbers


def _numbers(machine: Machine, instruction: Statement, function: Function) -> Step:
    """What a rule of the table does."""
    name, type_ = instruction.parts[0], instruction.type
    rule = RULES[name]
    counts = name in ("popc", "clz", "bfind")
    result = machine.register(instruction.operands[0], "u32" if counts else type_, function)
    sources = machine.registers_of(instruction.operands[1:], type_, function)
    wide = "sat" in instruction.parts and type_[0] in "us"
    compute = extremum(instruction.parts, least=name == "min") if name in ("min", "max") else rule.compute
    down = bits_of(type_) - 1 if "shiftamt" in instruction.parts else None
    signs = {"add": 1, "sub": -1}
    if {"rz", "rm", "rp"} & {*instruction.parts} or ("ftz" in instruction.parts and name in ("mul", "div")):
        compute = partial(floats.computed, name, type_, instruction.parts)
    if name == "div" and "approx" in instruction.parts:
        compute = partial(_approximate_quotient, compute)

    def step(group: ActiveThreads) -> None:
        given = [floats.flushed(instruction.parts, source.numbers(type_)) for source in sources]
        if wide:
            given = [each.astype("i8") for each in given]
        numbers = compute(*given)
        numbers = _clamped(instruction, numbers, type_) if rule.clamped else numbers
        if down is not None:  # how far what is found is from the highest bit
            numbers = np.where(numbers < 0, numbers, down - numbers)

        def join(ids: Sequence[Array | None], at: Any) -> Array | None:
            if name in signs and numbers.dtype.kind == "f":
                ids = _changing(numbers[at], [given[0][at], signs[name] * given[1][at]], ids)
            return machine.tape.join(rule.joins, ids)

        _put(result, "u32" if counts else type_, numbers, sources, join, group)

    return step


def _put(
    result: Register,
    type_: str,
    numbers: Array,
    sources: Sequence[Register],
    join: Callable[[Sequence[Array | None], Any], Array | None],
    group: ActiveThreads,
) -> None:
    """Write numbers, with what ``join`` makes of the origins of their sources: of two that are packed each by itself.

    It is also given where the numbers of these origins are.
    """
    if not type_.endswith("x2") or all(source.origin is None for source in sources):
        result.put_numbers(type_, numbers, join([source.ids for source in sources], ...), group)
        return
    half, both = result.width // 16, np.zeros(numbers.shape, np.int32)
    for number in (0, 1):
        at = slice(half * number, half * (number + 1))
        ids = [None if each.origin is None else whole(each.origin[:, at]) for each in sources]
        if (joined_ := join(ids, (slice(None), number))) is not None:
            both[:, number] = joined_
    result.put(to_bits(type_, numbers), np.repeat(both, half, axis=1), group)


def _changing(total: Array, numbers: Sequence[Array], ids: Sequence[Array | None]) -> list[Array | None]:
    """The origins of two numbers that are added, but of what changes nothing of a constant.

    So a masked score, which is minus infinity or far below all others, stays a constant whatever is taken from it.
    """
    found = list(ids)
    for at, other in ((0, 1), (1, 0)):
        own, constant = ids[at], True if ids[other] is None else ids[other] == NONE
        if own is None or not np.any(constant):
            continue
        same = constant & (total == numbers[other]) & ((numbers[at] != 0) | np.isinf(numbers[other]))
        if same.any():
            found[at] = np.where(same & (own > NONE), NONE, own)
    return found


def _product(machine: Machine, instruction: Statement, function: Function) -> Step:
    """mul, mad and fma: a product, whole, its upper or its lower half, and what is added to it.

    mul24 and mad24 have the upper or the lower 32 bits of a product of 48.
    """
    words, type_, of_24_bits = set(instruction.parts), instruction.type, "24" in instruction.parts[0]
    wide = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}.get(type_, type_) if "wide" in words else type_
    result = machine.register(instruction.operands[0], wide, function)
    factors = machine.registers_of(instruction.operands[1:3], type_, function)
    added = machine.registers_of(instruction.operands[3:], wide, function)

    def step(group: ActiveThreads) -> None:
        a, b = (floats.flushed(words, factor.numbers(type_)) for factor in factors)
        c = floats.flushed(words, added[0].numbers(wide)) if added else None
        if of_24_bits:
            x, y = (
                each.astype("i8") << 40 >> 40 if type_ == "s32" else each.astype("i8") & 0xFFFFFF for each in (a, b)
            )
            numbers = (x * y >> (16 if "hi" in words else 0)) + (0 if c is None else c)
        elif "hi" in words:
            numbers = _high(a, b) if c is None else _high(a, b) + c
        elif "wide" in words:
            larger = a.astype(f"{a.dtype.kind}{2 * a.dtype.itemsize}") * b
            numbers = larger if c is None else larger + c
        elif c is None:
            numbers = a * b
        else:
            numbers = a * b + c if c.dtype.kind != "f" else floats.computed("fma", type_, words, a, b, c)

        def join(ids: Sequence[Array | None], at: Any) -> Array | None:
            parts = [machine.tape.join("mul", ids[:2]), *ids[2:]]
            if c is not None and c.dtype.kind == "f":
                parts = _changing(numbers[at], [(a * b)[at], c[at]], parts)
            return machine.tape.join("add", parts)

        _put(result, wide, _clamped(instruction, numbers, wide), [*factors, *added], join, group)

    return step


def _move(machine: Machine, instruction: Statement, function: Function) -> Step:
    """mov: a copy, or registers packed into a wider one, or apart again."""
    type_ = instruction.type
    target, source = instruction.operands
    if isinstance(target, Vector) and isinstance(source, Vector):
        pairs = zip(target.items, source.items, strict=True)
        moves = [_move(machine, instruction._replace(operands=pair), function) for pair in pairs]

        def each(group: ActiveThreads) -> None:
            for move in moves:
                move(group)

        return each
    if isinstance(target, Vector) or isinstance(source, Vector):
        return _pack(machine, instruction, function)
    result = machine.register(target, type_, function)
    if isinstance(source, Name) and source.name.startswith(("%clock", "%globaltimer")):
        above = 32 * source.name.endswith("_hi")

        def tick(group: ActiveThreads) -> None:
            ticks = (machine.ticks() >> above) % (1 << result.width)
            result.put(np.full(machine.threads, ticks, result.bits.dtype), None, group)

        return tick
    value = machine.register(source, type_, function)

    def copy(group: ActiveThreads) -> None:
        before = result.changed
        result.put(value.bits, value.origin, group)
        if before is not None and value.changed is not None:  # a copy has changed as what it is a copy of
            result.changed = np.where(group.mask, value.changed, before)

    return copy


def _pack(machine: Machine, instruction: Statement, function: Function) -> Step:
    target, source = instruction.operands
    whole_, parts = (source, target) if isinstance(target, Vector) else (target, source)
    assert isinstance(parts, Vector)
    width = bits_of(instruction.type) // len(parts.items)
    wide = machine.register(whole_, instruction.type, function)
    narrow = machine.registers_of(parts.items, f"b{width}", function)
    size = width // 8

    def together(group: ActiveThreads) -> None:
        data = np.stack([each.bits for each in narrow], axis=1)
        wide.put(np.ascontiguousarray(data).view(f"u{wide.width // 8}").ravel(), joined(narrow), group)

    def apart(group: ActiveThreads) -> None:
        data = np.ascontiguousarray(wide.bits).view(f"u{size}").reshape(machine.threads, -1)
        for number, each in enumerate(narrow):
            origin = None if wide.origin is None else wide.origin[:, number * size : (number + 1) * size]
            each.put(np.ascontiguousarray(data[:, number]), origin, group)

    return apart if isinstance(target, Vector) else together


def _address(machine: Machine, instruction: Statement, function: Function) -> Step:
    """cvta: from a state space to a generic address, and back."""
    from .memory import LOCAL, SHARED

    type_ = instruction.type
    space = next(part.partition("::")[0] for part in instruction.parts[1:] if part != "to")
    result, source = (machine.register(operand, type_, function) for operand in instruction.operands)
    window = {"shared": SHARED, "local": LOCAL, "param": LOCAL}.get(space, 0)
    by = -window if "to" in instruction.parts else window

    def step(group: ActiveThreads) -> None:
        result.put((source.bits.astype("i8") + by).astype(result.bits.dtype), source.origin, group)

    return step


def _dot(machine: Machine, instruction: Statement, function: Function) -> Step:
    """dp4a: four products of bytes, added to a number; dp2a: two, of halves with the lower or the upper bytes."""
    first, second = instruction.parts[-2:]
    sizes = (2, 1) if instruction.parts[0] == "dp2a" else (1, 1)
    places = slice(2, 4) if "hi" in instruction.parts else slice(0, 4 // sizes[0])
    result, *sources = machine.registers_of(instruction.operands, "s32", function)

    def step(group: ActiveThreads) -> None:
        a, b = (
            np.ascontiguousarray(source.bits).view(f"{'i' if kind[0] == 's' else 'u'}{size}").astype("i8")
            for source, kind, size in zip(sources, (first, second), sizes, strict=False)
        )
        a, b = a.reshape(machine.threads, -1), b.reshape(machine.threads, -1)[:, places]
        numbers = (a * b).sum(axis=1) + sources[2].numbers("s32")
        result.put_numbers("s32", numbers.astype("i4"), machine.tape.join("mix", [each.ids for each in sources]), group)

    return step


def _carried(machine: Machine, instruction: Statement, function: Function) -> Step:
    """add, sub and mad with the carry of the one before, or for the one after (9.7.2).

    As in hardware, a difference leaves a carry where nothing is borrowed: what divides 128 bits adds it up.
    """
    name, type_ = instruction.parts[0], f"u{bits_of(instruction.type)}"
    takes, leaves, less = name.endswith("c"), "cc" in instruction.parts, name.startswith("sub")
    result, a, b, *c = machine.registers_of(instruction.operands, type_, function)

    def step(group: ActiveThreads) -> None:
        first, second = a.numbers(type_), b.numbers(type_)
        if c:
            factors = [each.numbers(instruction.type) for each in (a, b)]
            product = _high(*factors) if "hi" in instruction.parts else first * second
            first, second = to_bits(type_, product.astype(first.dtype)), c[0].numbers(type_)
        before = (machine.carry.bits ^ less if takes else np.zeros(machine.threads, bool)).astype(first.dtype)
        found = first - second if less else first + second
        after = found - before if less else found + before
        carry = (first >= second) & (found >= before) if less else (found < first) | (after < found)
        ids = machine.tape.join("mix" if less or c else "add", [each.ids for each in (a, b, *c)])
        result.put_numbers(type_, after, ids, group)
        if leaves:
            machine.carry.put(carry, None, group)

    return step


MAKERS: Mapping[str, Maker] = {
    **dict.fromkeys(RULES, _numbers),
    **dict.fromkeys(("add.cc", "addc", "sub.cc", "subc", "mad.lo.cc", "mad.hi.cc", "madc"), _carried),
    "mul.wide": _product,
    "mul.hi": _product,
    "mad": _product,
    "fma": _product,
    "mul24": _product,
    "mad24": _product,
    "mov": _move,
    "cvta": _address,
    "dp4a": _dot,
    "dp2a": _dot,
}
