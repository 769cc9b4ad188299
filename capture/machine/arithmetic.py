"""What instructions compute, thread by thread: a table of rules, and how bytes keep their origins (9.7.1 to 9.7.10).

A number that is computed from one element has the origin of that element. Of bits, each byte of the result comes from
the operands on whose byte it depends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from ...db.isa.types import TYPES
from ...db.layout.algebra import Array
from ..values import decode
from .parse import Both, Function, Name, Number, Operand, Statement, Vector, bits_of
from .schedule import Machine, Step, Unknown
from .values import MIXED, NONE, UNSET, ActiveThreads, Register, to_bits, whole


class Rule(NamedTuple):
    """How a result is computed from its sources, and what their origins make: add, mul or mix.

    ``words`` may stand between operation and type without changing more than the last digit, but those that ``_after``
    knows.
    """

    compute: Callable[..., Any]
    joins: str = "mix"
    words: str = "rn rz rm rp ftz sat relu approx full nan xorsign lo uni"


def _quotient(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return a / b
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a.astype("i8")) // np.abs(safe.astype("i8")) if a.dtype.kind == "i" else a // safe
    signed = np.where((a < 0) != (b < 0), -quotient, quotient) if a.dtype.kind == "i" else quotient
    return np.where(b == 0, -1, signed) if a.dtype.kind == "i" else np.where(b == 0, ~(b ^ b), signed)


def _remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, a, a - _quotient(a, b).astype(a.dtype) * b)


def _least(*of: Array) -> Array:
    return np.asarray(reduce(np.fmin, of))  # a number before none at all


def _greatest(*of: Array) -> Array:
    return np.asarray(reduce(np.fmax, of))


def _fused(a: Array, b: Array, c: Array) -> Array:
    if a.dtype.kind == "f" and a.dtype.itemsize < 8:
        return a.astype("f8") * b + c
    return a * b + c


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


#: What is computed of numbers of one type. The result has the same type, but for counts.
RULES: Mapping[str, Rule] = {
    "add": Rule(np.add, "add"),
    "sub": Rule(np.subtract),
    "mul": Rule(np.multiply, "mul"),
    "div": Rule(_quotient),
    "rem": Rule(_remainder),
    "min": Rule(_least),
    "max": Rule(_greatest),
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
    "copysign": Rule(lambda a, b: np.copysign(b, a)),
    "sad": Rule(lambda a, b, c: np.where(a < b, b - a, a - b) + c),
    "popc": Rule(np.bitwise_count),
    "clz": Rule(_leading_zeros),
    "bfind": Rule(_found),
    "brev": Rule(_reversed),
    "cnot": Rule(lambda a: a == 0),
}

#: Comparisons; what ends in u is also true where a number is none (9.7.5).
COMPARISONS: Mapping[str, Callable[[Array, Array], Any]] = {
    "eq": np.equal,
    "ne": lambda a, b: (a < b) | (a > b),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}

_COMBINED = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}

#: The table of a function of three bits: of 1s where the first, the second and the third are set (9.7.8.6).
TRUTH = {"and": 0xF0 & 0xCC, "or": 0xF0 | 0xCC, "xor": 0xF0 ^ 0xCC, "not": 0x0F}


def binder(machine: Machine, instruction: Statement, function: Function) -> Step | None:
    """What an instruction of arithmetic does; None where it is of another kind."""
    name = instruction.parts[0]
    if name in TRUTH or name == "lop3":
        return _logic(machine, instruction, function)
    if name in _OTHERS:
        return _OTHERS[name](machine, instruction, function)
    return _numbers(machine, instruction, function) if name in RULES else None


def known(instruction: Statement, words: str) -> None:
    """Refuse words of an instruction that change what it does in a way that the machine does not know."""
    rest = {part for part in instruction.parts[1:] if part != instruction.type} - set(words.split())
    if rest:
        raise Unknown(f"{instruction.opcode} is not known: .{' .'.join(sorted(rest))}")


def _after(instruction: Statement, numbers: Array, type_: str) -> Array:
    """A result that is kept in its range where the instruction says so."""
    if "sat" in instruction.parts:
        if type_[0] in "fb":
            return np.asarray(np.clip(np.nan_to_num(numbers, nan=0.0), 0, 1))
        limits = np.iinfo(f"i{bits_of(type_) // 8}")
        return np.clip(numbers, limits.min, limits.max)
    return np.maximum(numbers, 0) if "relu" in instruction.parts else numbers


def _sources(machine: Machine, operands: Sequence[Operand], type_: str, function: Function) -> list[Register]:
    return [machine.register(operand, type_, function) for operand in operands]


def _numbers(machine: Machine, instruction: Statement, function: Function) -> Step:
    """What a rule of the table does."""
    name, type_ = instruction.parts[0], instruction.type
    rule = RULES[name]
    if name == "mul" and {"wide", "hi"} & set(instruction.parts):
        return _product(machine, instruction, function)
    known(instruction, rule.words + (" shiftamt" if name == "bfind" else ""))
    counts = name in ("popc", "clz", "bfind")
    result = machine.register(instruction.operands[0], "u32" if counts else type_, function)
    sources = _sources(machine, instruction.operands[1:], type_, function)
    wide = "sat" in instruction.parts and type_ == "s32"
    packed = type_.endswith("x2")

    def step(group: ActiveThreads) -> None:
        given = [source.numbers(type_) for source in sources]
        if wide:
            given = [each.astype("i8") for each in given]
        numbers = _after(instruction, rule.compute(*given), type_)
        if packed and any(source.origin is not None for source in sources):
            half = result.width // 16
            parts = [
                machine.tape.join(rule.joins, [None if s.origin is None else whole(s.origin[:, at]) for s in sources])
                for at in (slice(0, half), slice(half, None))
            ]
            both = [np.zeros(machine.threads, np.int32) if part is None else part for part in parts]
            result.put(to_bits(type_, numbers), np.repeat(np.stack(both, axis=1), half, axis=1), group)
            return
        ids = machine.tape.join(rule.joins, [source.ids for source in sources])
        result.put_numbers("u32" if counts else type_, numbers, ids, group)

    return step


def _product(machine: Machine, instruction: Statement, function: Function) -> Step:
    """mul, mad and fma: a product, whole, its upper or its lower half, and what is added to it."""
    parts, type_ = set(instruction.parts), instruction.type
    known(instruction, "wide hi lo rn rz rm rp ftz sat relu cc")
    wide = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}.get(type_, type_) if "wide" in parts else type_
    result = machine.register(instruction.operands[0], wide, function)
    factors = _sources(machine, instruction.operands[1:3], type_, function)
    added = _sources(machine, instruction.operands[3:], wide, function)

    def step(group: ActiveThreads) -> None:
        a, b = (factor.numbers(type_) for factor in factors)
        c = added[0].numbers(wide) if added else None
        if "hi" in parts:
            numbers = _high(a, b) if c is None else _high(a, b) + c
        elif "wide" in parts:
            larger = a.astype(f"{a.dtype.kind}{2 * a.dtype.itemsize}") * b
            numbers = larger if c is None else larger + c
        else:
            numbers = a * b if c is None else _fused(a, b, c)
        ids = machine.tape.join("mul", [factor.ids for factor in factors])
        ids = machine.tape.join("add", [ids, *(each.ids for each in added)])
        result.put_numbers(wide, _after(instruction, numbers, wide), ids, group)

    return step


def _logic(machine: Machine, instruction: Statement, function: Function) -> Step:
    """and, or, xor, not and lop3. A byte comes from the operands that could change it."""
    name, type_ = instruction.parts[0], instruction.type
    known(instruction, "")
    operands = list(instruction.operands[1:])
    table = TRUTH.get(name, 0)
    if name == "lop3":
        if not isinstance(operands[-1], Number) or len(operands) != 4:
            raise Unknown("lop3 takes three operands and a table")
        table = operands[-1].number
        operands.pop()
    result = machine.register(instruction.operands[0], type_, function)
    sources = _sources(machine, operands, type_, function)
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
        values = [source.bits for source in sources]
        bits = compute(values)
        origin = None
        if any(source.origin is not None for source in sources):
            origin = np.zeros((machine.threads, max(result.width // 8, 1)), np.int32)
            for number, source in enumerate(sources):
                if source.origin is None:
                    continue
                flipped = [value ^ full if place == number else value for place, value in enumerate(values)]
                depends = np.ascontiguousarray(compute(flipped) ^ bits).view("u1").reshape(machine.threads, -1) != 0
                origin = merged(origin, np.where(depends, source.origin, NONE))
        result.put(bits, origin, group)

    return step


def merged(first: Array, second: Array) -> Array:
    """The origins of bytes that come from two: where both have one, it is the same or MIXED."""
    both = np.where(first == second, first, np.where(np.minimum(first, second) == UNSET, UNSET, MIXED))
    return np.where(first == NONE, second, np.where(second == NONE, first, both)).astype(np.int32)


def _shift(machine: Machine, instruction: Statement, function: Function) -> Step:
    """shl and shr: shifts by more than the width give zeros, or the sign."""
    left, type_ = instruction.parts[0] == "shl", instruction.type
    known(instruction, "")
    result, value = (machine.register(operand, type_, function) for operand in instruction.operands[:2])
    amount = machine.register(instruction.operands[2], "u32", function)
    width = bits_of(type_)

    def step(group: ActiveThreads) -> None:
        numbers, by = value.numbers(type_), amount.numbers("u32").astype("i8")
        within = np.minimum(by, width - 1).astype(numbers.dtype)
        moved = numbers << within if left else numbers >> within
        rest = np.where(numbers < 0, -1, 0).astype(numbers.dtype) if type_[0] == "s" else numbers ^ numbers
        bits = to_bits(type_, np.where(by < width, moved, rest))
        result.put(bits, shifted(value.origin, by if left else -by), group)

    return step


def shifted(origin: Array | None, by: Array) -> Array | None:
    """Origins of bytes after a shift of bits to the left. Bytes that are cut have the origin that all have."""
    if origin is None:
        return None
    count = origin.shape[1]
    at = np.arange(count) - by[:, None] // 8
    moved = np.where((at >= 0) & (at < count), np.take_along_axis(origin, np.clip(at, 0, count - 1), axis=1), NONE)
    cut = by % 8 != 0
    return np.where(cut[:, None], whole(origin)[:, None], moved).astype(np.int32) if cut.any() else moved


def _extract(machine: Machine, instruction: Statement, function: Function) -> Step:
    """bfe: a field of bits."""
    type_ = instruction.type
    known(instruction, "")
    width = bits_of(type_)
    result, value = (machine.register(operand, type_, function) for operand in instruction.operands[:2])
    start, length = (machine.register(operand, "u32", function) for operand in instruction.operands[2:])

    def step(group: ActiveThreads) -> None:
        first, count = (np.minimum(each.bits & 0xFF, width).astype("i8") for each in (start, length))
        numbers = value.numbers(type_)
        up = np.maximum(width - first - count, 0)
        unsigned = value.bits if value.width == width else value.bits.astype(f"u{width // 8}")
        raised = (unsigned << np.minimum(up, width - 1).astype(unsigned.dtype)).view(numbers.dtype)
        found = raised >> np.minimum(width - np.minimum(count, width - first), width - 1).astype(raised.dtype)
        last = np.minimum(first, width - 1).astype(numbers.dtype)
        found = np.where(first + count >= width, numbers >> last, found)
        beyond = np.where(numbers < 0, -1, 0) if type_[0] == "s" else 0
        found = np.where(count == 0, 0, np.where(first >= width, beyond, found)).astype(numbers.dtype)
        origin = value.origin
        if origin is not None:
            byte = 8 * np.arange(width // 8)
            field = (byte + 8 > first[:, None]) & (byte < (first + count)[:, None])
            origin = shifted(np.where(field, origin, NONE).astype(np.int32), -first)
        result.put(to_bits(type_, found), origin, group)

    return step


def _insert(machine: Machine, instruction: Statement, function: Function) -> Step:
    """bfi: a field of bits that replaces one of another register."""
    type_ = instruction.type
    known(instruction, "")
    width = bits_of(type_)
    result, field, base = (machine.register(operand, type_, function) for operand in instruction.operands[:3])
    start, length = (machine.register(operand, "u32", function) for operand in instruction.operands[3:])

    def step(group: ActiveThreads) -> None:
        kind = field.bits.dtype
        first, count = (np.minimum(each.bits & 0xFF, width).astype("i8") for each in (start, length))
        ones = np.where(count >= width, ~kind.type(0), (kind.type(1) << np.minimum(count, width - 1).astype(kind)) - 1)
        mask = np.where(first >= width, 0, ones.astype(kind) << np.minimum(first, width - 1).astype(kind)).astype(kind)
        bits = base.bits & ~mask | field.bits << np.minimum(first, width - 1).astype(kind) & mask
        origin = None
        if field.origin is not None or base.origin is not None:
            byte = mask.view("u1").reshape(machine.threads, -1)
            zeros = np.zeros(byte.shape, np.int32)
            moved = shifted(field.origin, first)
            kept = zeros if base.origin is None else np.where(byte == 0xFF, NONE, base.origin)
            origin = merged(kept, zeros if moved is None else np.where(byte == 0, NONE, moved))
        result.put(bits.astype(kind), origin, group)

    return step


def _permute(machine: Machine, instruction: Statement, function: Function) -> Step:
    """prmt in its default mode: any four bytes of eight, or their signs."""
    known(instruction, "")
    result, *sources = _sources(machine, instruction.operands, "b32", function)

    def step(group: ActiveThreads) -> None:
        low, high, chosen = sources
        data = np.stack([low.bits, high.bits], axis=1).view("u1")
        nibble = chosen.bits[:, None] >> np.array([0, 4, 8, 12], "u4") & 0xF
        at = (nibble & 7).astype(np.intp)
        found = np.take_along_axis(data, at, axis=1)
        found = np.where(nibble & 8, np.where(found & 0x80, 0xFF, 0), found).astype("u1")
        origin = None
        if low.origin is not None or high.origin is not None:
            zeros = np.zeros((machine.threads, 4), np.int32)
            both = np.concatenate([zeros if each.origin is None else each.origin for each in (low, high)], axis=1)
            origin = np.take_along_axis(both, at, axis=1)
        result.put(np.ascontiguousarray(found).view("u4").ravel(), origin, group)

    return step


def _funnel(machine: Machine, instruction: Statement, function: Function) -> Step:
    """shf: a shift of two registers that gives one."""
    known(instruction, "l r wrap clamp")
    left, wraps = "l" in instruction.parts, "wrap" in instruction.parts
    result, low, high, amount = _sources(machine, instruction.operands, "b32", function)

    def step(group: ActiveThreads) -> None:
        by = (amount.bits & 31 if wraps else np.minimum(amount.bits, 32)).astype("u8")
        both = high.bits.astype("u8") << np.uint64(32) | low.bits
        bits = (both << by >> np.uint64(32) if left else both >> by).astype("u4")
        origin = None
        if low.origin is not None or high.origin is not None:
            zeros = np.zeros((machine.threads, 4), np.int32)
            every = np.concatenate([zeros if each.origin is None else each.origin for each in (low, high)], axis=1)
            moved = shifted(every, by.astype("i8") if left else -by.astype("i8"))
            origin = None if moved is None else moved[:, 4:] if left else moved[:, :4]
        result.put(bits, origin, group)

    return step


def _compare(machine: Machine, instruction: Statement, function: Function) -> Step:
    """setp: a comparison, with its opposite as a second result, and with another predicate."""
    type_, words = instruction.type, [part for part in instruction.parts[1:] if part != "ftz"]
    name = words[0]
    unordered = name not in COMPARISONS
    combined = next((_COMBINED[word] for word in words[1:] if word in _COMBINED), None)
    compare = COMPARISONS.get(name) or COMPARISONS.get(name.removesuffix("u"))
    if compare is None or {*words[1:]} - {*_COMBINED, type_}:
        raise Unknown(f"{instruction.opcode} is not known")
    target, left, right, *more = instruction.operands
    targets = [target.first, target.second] if isinstance(target, Both) else [target]
    results = _sources(machine, targets, "pred", function)
    sources = _sources(machine, (left, right), type_, function)
    other, negated = machine.predicate(more[0], function) if more else (None, False)

    def step(group: ActiveThreads) -> None:
        a, b = (source.numbers(type_) for source in sources)
        true = compare(a, b)
        if unordered:
            true = true | np.isnan(a) | np.isnan(b)
        for result, found in zip(results, (true, ~true), strict=False):
            bits = combined(found, other.bits ^ negated) if combined and other is not None else found
            result.put(np.asarray(bits), unset([*sources, *([other] if other else [])]), group)

    return step


def unset(sources: Sequence[Register]) -> Array | None:
    """The origin of a predicate: only whether it was computed of something."""
    found = None
    for source in sources:
        if source.origin is not None and source.origin.min() == UNSET:
            own = np.where(source.origin.min(axis=1) == UNSET, UNSET, NONE)
            found = own if found is None else np.minimum(found, own)
    return None if found is None else found[:, None].astype(np.int32)


def _select(machine: Machine, instruction: Statement, function: Function) -> Step:
    """selp: one of two by a predicate."""
    type_ = instruction.type
    known(instruction, "")
    result, a, b = _sources(machine, instruction.operands[:3], type_, function)
    chosen, negated = machine.predicate(instruction.operands[3], function)

    def step(group: ActiveThreads) -> None:
        first = chosen.bits ^ negated
        origin = None
        if a.origin is not None or b.origin is not None:
            zeros = np.zeros((machine.threads, max(result.width // 8, 1)), np.int32)
            held = [zeros if each.origin is None else each.origin for each in (a, b)]
            origin = np.where(first[:, None], *held)
        result.put(np.where(first, a.bits, b.bits), origin, group)

    return step


def _move(machine: Machine, instruction: Statement, function: Function) -> Step:
    """mov: a copy, or registers packed into a wider one, or apart again."""
    type_ = instruction.type
    known(instruction, "")
    target, source = instruction.operands
    if isinstance(target, Vector) or isinstance(source, Vector):
        return _pack(machine, instruction, function)
    result = machine.register(target, type_, function)
    if isinstance(source, Name) and source.name.startswith("%clock"):

        def tick(group: ActiveThreads) -> None:
            result.put(np.full(machine.threads, machine.log.steps, result.bits.dtype), None, group)

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
    narrow = _sources(machine, parts.items, f"b{width}", function)
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


def joined(registers: Sequence[Register]) -> Array | None:
    """The origins of registers side by side; None where no byte has one."""
    if all(register.origin is None for register in registers):
        return None
    return np.concatenate(
        [
            np.zeros((len(each.bits), each.width // 8), np.int32) if each.origin is None else each.origin
            for each in registers
        ],
        axis=1,
    )


_ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _convert(machine: Machine, instruction: Statement, function: Function) -> Step:
    """cvt: to another type, of one number, or of two that are packed (9.7.10.22)."""
    if instruction.parts[1] == "pack":
        return _convert_whole(machine, instruction, function)
    *words, to, of = instruction.parts[1:]
    rest = {*words} - {"rn", "rz", "rm", "rp", "rna", "ftz", "sat", "satfinite", "relu", *_ROUND}
    if rest:
        raise Unknown(f"{instruction.opcode} is not known: .{' .'.join(sorted(rest))}")
    if to.removesuffix("x2") in _NARROW or of.removesuffix("x2") in _NARROW:
        return _convert_narrow(machine, instruction, function)
    target, *given = instruction.operands
    result = machine.register(target, "b32" if to == "tf32" else to, function)
    sources = _sources(machine, given, of, function)
    if to in ("f16x2", "bf16x2") and of == "f32":
        return _halves(machine, instruction, result, sources)
    (source,) = sources
    rounded = next((_ROUND[word] for word in words if word in _ROUND), None)
    if of[0] == "f" and to[0] in "us":
        rounded = rounded or np.trunc

    def step(group: ActiveThreads) -> None:
        if to == "tf32":  # the nearest number of 10 bits after the point
            bits = (source.numbers("u32") + 0x1000 & 0xFFFFE000).astype("u4")
            result.put(bits, source.origin, group)
            return
        numbers = source.numbers(of)
        numbers = rounded(numbers) if rounded else numbers
        if to[0] in "us" and (of[0] in "fb" or "sat" in words):
            limits = np.iinfo(f"{'i' if to[0] == 's' else 'u'}{bits_of(to) // 8}")
            if of[0] in "fb":
                wide = np.nan_to_num(numbers.astype("f8"), nan=0.0)
                high = wide >= float(limits.max)
                numbers = np.where(high, 0, np.clip(wide, float(limits.min), float(limits.max)))
                numbers = np.where(high, limits.max, numbers.astype(limits.dtype))
            else:
                numbers = np.clip(numbers, limits.min, limits.max)
        elif {"sat", "relu"} & {*words}:
            numbers = _after(instruction, numbers, to)
        if of[0] in "us" and to[0] in "us" and source.origin is not None:
            result.put_numbers(to, numbers, None, group)
            count = min(bits_of(of), bits_of(to)) // 8
            kept = np.zeros((machine.threads, result.width // 8), np.int32)
            kept[:, :count] = source.origin[:, :count]
            result.put(result.bits, kept, group)
        else:
            result.put_numbers(to, numbers, source.ids, group)

    return step


def _halves(machine: Machine, instruction: Statement, result: Register, sources: Sequence[Register]) -> Step:
    """Two numbers of 32 bits to one register of halves; the first source is the upper half."""
    to = instruction.parts[-2]

    def step(group: ActiveThreads) -> None:
        pair = list(reversed(sources))
        numbers = _after(instruction, np.stack([each.numbers("f32") for each in pair], axis=1), to)
        ids = [each.ids for each in pair]
        origin = None
        if any(each is not None for each in ids):
            both = [np.zeros(machine.threads, np.int32) if each is None else each for each in ids]
            origin = np.repeat(np.stack(both, axis=1), 2, axis=1)
        result.put(to_bits(to, numbers), origin, group)

    return step


#: Floats of 8 bits and less.
_NARROW = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")


@lru_cache
def narrow_values(type_: str) -> Array:
    """The value of each code of a narrow float, without padding."""
    bits = TYPES[type_].bits
    return np.asarray(decode(type_, bits, np.arange(1 << bits, dtype=np.uint8)), "f8")


def to_narrow(type_: str, numbers: Array) -> Array:
    """The code of the nearest finite value of a narrow float, of two the even one; what is too large is the largest."""
    values, bits = narrow_values(type_), TYPES[type_].bits
    unsigned = sum(TYPES[type_].parts)
    last = {"e5m2": 0x7B, "e4m3": 0x7E, "ue4m3": 0x7E, "ue8m0": 0xFE}.get(type_, (1 << unsigned) - 1)
    positive = values[: last + 1]
    size = np.minimum(np.abs(np.nan_to_num(numbers.astype("f8"), nan=positive[-1])), positive[-1])
    above = np.searchsorted(positive, size)
    below = np.maximum(above - 1, 0)
    up, down = positive[above] - size, size - positive[below]
    code = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
    sign = 0 if type_.startswith("u") else np.where(np.signbit(numbers), 1 << bits - 1, 0)
    return np.asarray(code | sign).astype("u1")


def _convert_narrow(machine: Machine, instruction: Statement, function: Function) -> Step:
    """cvt of two narrow floats, to and from f16x2, bf16x2 and pairs of f32. The first source is the upper one."""
    to, of = instruction.parts[-2:]
    target, *given = instruction.operands
    type_ = (of if of.removesuffix("x2") in _NARROW else to).removesuffix("x2")
    packed = 4 if type_ == "e2m1" else 8
    register = f"b{2 * packed}"
    if to.removesuffix("x2") == type_:
        result = machine.register(target, register, function)
        sources = _sources(machine, given, of, function)

        def narrow(group: ActiveThreads) -> None:
            if of == "f32":
                pair = list(reversed(sources))
                numbers, ids = np.stack([each.numbers(of) for each in pair], axis=1), [each.ids for each in pair]
            else:
                numbers, held = sources[0].numbers(of), sources[0].origin
                ids = [None if held is None else whole(held[:, 2 * half : 2 * half + 2]) for half in (0, 1)]
            codes = to_narrow(type_, np.maximum(numbers, 0) if "relu" in instruction.parts else numbers)
            low, high = (codes[:, half].astype(f"u{max(result.width // 8, 1)}") for half in (0, 1))
            zeros = np.zeros(machine.threads, np.int32)
            both = np.stack([zeros if each is None else each for each in ids], axis=1)
            origin = whole(both)[:, None] if packed == 4 else both
            if result.width // 8 > origin.shape[1]:
                origin = np.pad(origin, ((0, 0), (0, result.width // 8 - origin.shape[1])))
            result.put(low | high << low.dtype.type(packed), origin if origin.any() else None, group)

        return narrow
    result = machine.register(target, to, function)
    source = machine.register(given[0], register, function)

    def widen(group: ActiveThreads) -> None:
        codes = np.stack([source.bits & (1 << packed) - 1, source.bits >> source.bits.dtype.type(packed)], axis=1)
        codes = codes & (1 << TYPES[type_].bits) - 1
        numbers = _after(instruction, narrow_values(type_)[codes], to)
        origin = None
        if source.origin is not None:
            halves = source.origin[:, [0, 0]] if packed == 4 else source.origin[:, :2]
            origin = np.repeat(halves, 2, axis=1)
        result.put(to_bits(to, numbers), origin, group)

    return widen


def _convert_whole(machine: Machine, instruction: Statement, function: Function) -> Step:
    """cvt.pack: two whole numbers in the low bits of a register, the second lowest, and a third above them."""
    type_ = instruction.parts[3]
    width, signed = TYPES[type_].bits, type_[0] == "s"
    result, high, low, *more = _sources(machine, instruction.operands, "s32", function)
    limits = (-1 << width - 1, (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)

    def step(group: ActiveThreads) -> None:
        bits = np.zeros(machine.threads, "u8")
        for place, source in enumerate((low, high)):
            whole_ = np.clip(source.numbers("s32"), *limits).astype("i8") & (1 << width) - 1
            bits |= whole_.astype("u8") << np.uint64(place * width)
        if more:
            bits |= more[0].bits.astype("u8") << np.uint64(2 * width)
        ids = [np.zeros(machine.threads, np.int32) if source.ids is None else source.ids for source in (low, high)]
        own = np.stack(ids, axis=1) if width >= 8 else whole(np.stack(ids, axis=1))[:, None]
        above = np.zeros((machine.threads, 4), np.int32) if not more or more[0].origin is None else more[0].origin
        origin = np.concatenate([np.repeat(own, max(width // 8, 1), axis=1), above], axis=1)[:, :4]
        result.put((bits & 0xFFFFFFFF).astype("u4"), origin if origin.any() else None, group)

    return step


def _address(machine: Machine, instruction: Statement, function: Function) -> Step:
    """cvta: from a state space to a generic address, and back."""
    from .memory import LOCAL, SHARED

    known(instruction, "to global shared local const param shared::cta shared::cluster")
    type_ = instruction.type
    space = next(part.partition("::")[0] for part in instruction.parts[1:] if part != "to")
    result, source = (machine.register(operand, type_, function) for operand in instruction.operands)
    window = {"shared": SHARED, "local": LOCAL, "param": LOCAL}.get(space, 0)
    by = -window if "to" in instruction.parts else window

    def step(group: ActiveThreads) -> None:
        result.put((source.bits.astype("i8") + by).astype(result.bits.dtype), source.origin, group)

    return step


def _dot(machine: Machine, instruction: Statement, function: Function) -> Step:
    """dp4a: four products of bytes, added to a number."""
    first, second = instruction.parts[1:]
    result, *sources = _sources(machine, instruction.operands, "s32", function)

    def step(group: ActiveThreads) -> None:
        a, b = (
            np.ascontiguousarray(source.bits).view("i1" if kind[0] == "s" else "u1").reshape(-1, 4).astype("i8")
            for source, kind in zip(sources, (first, second), strict=False)
        )
        numbers = (a * b).sum(axis=1) + sources[2].numbers("s32")
        result.put_numbers("s32", numbers.astype("i4"), machine.tape.join("mix", [each.ids for each in sources]), group)

    return step


_OTHERS: Mapping[str, Callable[[Machine, Statement, Function], Step]] = {
    "mad": _product,
    "fma": _product,
    "shl": _shift,
    "shr": _shift,
    "bfe": _extract,
    "bfi": _insert,
    "prmt": _permute,
    "shf": _funnel,
    "setp": _compare,
    "selp": _select,
    "mov": _move,
    "cvt": _convert,
    "cvta": _address,
    "dp4a": _dot,
}
