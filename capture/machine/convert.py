"""Conversions: numbers of one type become the nearest of another, and keep their origin (9.7.10.22)."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from ...db.isa.types import TYPES
from ...db.layout.algebra import Array
from ..values import decode
from . import floats
from .launch import Maker, Step
from .ptx import Function, Statement, bits_of
from .schedule import Machine
from .values import ActiveThreads, Register, joined, limits_of, to_bits, whole

_ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def to_tf32(numbers: Array, words: Sequence[str]) -> Array:
    """The bits of the nearest numbers of 10 bits after the point: of two the even one, the larger, or towards zero."""
    bits = np.ascontiguousarray(numbers, "f4").view("u4").astype("i8")
    more = 0 if "rz" in words else 0x1000 if "rna" in words else 0xFFF + (bits >> 13 & 1)
    found = np.where(np.isfinite(numbers), bits + more, bits) & 0xFFFFE000
    if "satfinite" in words:
        found = np.where(found & 0x7FFFFFFF >= 0x7F800000, found - 0x2000, found)
    nan = np.isnan(numbers) & ("rna" not in words)  # which cuts off NaN, like an infinite number
    return np.where(nan, 0x7FFFE000, found).astype("u4")


#: Floats of 8 bits and less.
_NARROW = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "ue8m0")


def _convert(machine: Machine, instruction: Statement, function: Function) -> Step:
    """cvt: to another type, of one number, or of two that are packed (9.7.10.22)."""
    *words, to, of = instruction.parts[1:]
    if to.removesuffix("x2") in _NARROW or of.removesuffix("x2") in _NARROW:
        return _convert_narrow(machine, instruction, function)
    target, *given = instruction.operands
    result = machine.register(target, "b32" if to == "tf32" else to, function, loose=True)
    sources = machine.registers_of(given, of, function, loose=True)
    if to in ("f16x2", "bf16x2") and of == "f32":
        return _halves(instruction, result, sources)
    (source,) = sources
    if to == "f16":  # whose subnormal numbers stay, and come of those of f32
        words = [word for word in words if word != "ftz"]

    def step(group: ActiveThreads) -> None:
        if to == "tf32":
            numbers = source.numbers("f32")
            result.put(
                to_tf32(floats.clamped(words, numbers) if "relu" in words else numbers, words), source.origin, group
            )
            return
        numbers = _converted(to, of, words, source.numbers(of))
        origin = source.origin if of[0] in "us" and to[0] in "us" else None
        result.put_numbers(to, numbers, source.ids if origin is None else None, group)
        if origin is not None:
            count = min(bits_of(of), bits_of(to)) // 8
            kept = np.zeros((machine.threads, result.width // 8), np.int32)
            kept[:, :count] = origin[:, :count]
            result.put(result.bits, kept, group)

    return step


def _converted(to: str, of: str, words: Sequence[str], numbers: Array) -> Array:
    """Numbers of a type as those of another one."""
    if of == "f32":
        numbers = floats.flushed(words, numbers)
    numbers = next((_ROUND[word] for word in words if word in _ROUND), np.asarray)(numbers)
    if to[0] in "us" and of[0] in "us":
        limits = limits_of(to)
        return np.clip(numbers, limits.min, limits.max) if "sat" in words else numbers
    if to[0] in "us":
        return _to_whole(to, of, numbers)
    if of[0] in "us":
        wide = numbers.astype(f"{numbers.dtype.kind}8")
        high = wide >> 16 << 16  # both parts have less than the 53 bits of an f64
        found = floats.rounded(to, words, *floats.sum_exactly(high.astype("f8"), (wide - high).astype("f8")))
    else:
        found = numbers if to == of else floats.rounded(to, words, numbers)
    return floats.clamped(words, found)


def _to_whole(to: str, of: str, numbers: Array) -> Array:
    """Floats without a fraction as whole numbers, in their range. NaN is 0, or the highest bit (9.7.10.22)."""
    limits = limits_of(to)
    wide = np.nan_to_num(numbers.astype("f8"), nan=0.0)
    high = wide >= float(limits.max)
    found = np.where(high, 0, np.clip(wide, float(limits.min), float(limits.max))).astype(limits.dtype)
    nan = 0 if of != "f64" and bits_of(to) < 64 else 1 << bits_of(to) - 1
    found = np.where(high, limits.max, found).view(f"u{limits.dtype.itemsize}")
    return np.where(np.isnan(numbers), nan, found).astype(found.dtype).view(limits.dtype)


def _pair(sources: Sequence[Register], of: str) -> tuple[Array, Array | None]:
    """Two numbers of each thread and their origins, the lower first, of one register or of two, the upper first."""
    numbers = np.stack([each.numbers(of) for each in reversed(sources)], axis=1).reshape(-1, 2)
    held = joined([*reversed(sources)])
    return numbers, None if held is None else np.stack([whole(each) for each in np.split(held, 2, axis=1)], axis=1)


def _halves(instruction: Statement, result: Register, sources: Sequence[Register]) -> Step:
    """Two numbers of 32 bits to one register of halves."""
    to = instruction.parts[-2]

    def step(group: ActiveThreads) -> None:
        numbers, ids = _pair(sources, "f32")
        bits = to_bits(to, floats.clamped(instruction.parts, floats.rounded(to, instruction.parts, numbers)))
        result.put(bits, None if ids is None else np.repeat(ids, 2, axis=1), group)

    return step


@lru_cache
def narrow_values(type_: str) -> Array:
    """The value of each code of a narrow float, without padding."""
    bits = TYPES[type_].bits
    return np.asarray(decode(type_, bits, np.arange(1 << bits, dtype=np.uint8)), "f8")


def to_narrow(type_: str, numbers: Array) -> Array:
    """The code of the nearest finite value of a narrow float, of two the even one; what is too large is the largest."""
    values, bits = narrow_values(type_), TYPES[type_].bits
    every = (1 << sum(TYPES[type_].parts)) - 1
    last = TYPES[type_].largest or every
    positive = values[: last + 1]
    size = np.minimum(np.abs(np.nan_to_num(numbers.astype("f8"), nan=positive[-1])), positive[-1])
    above = np.searchsorted(positive, size)
    below = np.maximum(above - 1, 0)
    up, down = positive[above] - size, size - positive[below]
    code = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
    sign = 0 if type_.startswith("u") else np.where(np.signbit(numbers), 1 << bits - 1, 0)
    return np.where(np.isnan(numbers), every, code | sign).astype("u1")


def _powers(numbers: Array, words: Sequence[str]) -> Array:
    """The codes of the powers of two of ue8m0 next to numbers, towards zero or upwards."""
    mantissa, exponent = np.frexp(np.abs(numbers.astype("f8")))
    up = (mantissa > 0.5) & ("rp" in words)
    code = np.clip(np.where(numbers == 0, -127, exponent - 1 + up), -127, 127) + 127
    code = np.where(np.isinf(numbers), 0xFE if "satfinite" in words else 0xFF, code)
    return np.where(np.isnan(numbers), 0xFF, code).astype("u1")


def _convert_narrow(machine: Machine, instruction: Statement, function: Function) -> Step:
    """cvt of two narrow floats, to and from f16x2, bf16x2 and pairs of f32. The first source is the upper one."""
    to, of = instruction.parts[-2:]
    target, *given = instruction.operands
    type_ = (of if of.removesuffix("x2") in _NARROW else to).removesuffix("x2")
    packed = 4 if type_ == "e2m1" else 8
    register = f"b{2 * packed}"
    if to.removesuffix("x2") == type_:
        result = machine.register(target, register, function, loose=True)
        sources = machine.registers_of(given, of, function)

        def narrow(group: ActiveThreads) -> None:
            numbers, ids = _pair(sources, of)
            words = instruction.parts
            codes = _powers(numbers, words) if type_ == "ue8m0" else to_narrow(type_, floats.clamped(words, numbers))
            low, high = (codes[:, half].astype(f"u{max(result.width // 8, 1)}") for half in (0, 1))
            both = np.zeros((machine.threads, 2), np.int32) if ids is None else ids
            origin = whole(both)[:, None] if packed == 4 else both
            if result.width // 8 > origin.shape[1]:
                origin = np.pad(origin, ((0, 0), (0, result.width // 8 - origin.shape[1])))
            result.put(low | high << low.dtype.type(packed), origin if origin.any() else None, group)

        return narrow
    result = machine.register(target, to, function)
    source = machine.register(given[0], register, function, loose=True)

    def widen(group: ActiveThreads) -> None:
        codes = np.stack([source.bits & (1 << packed) - 1, source.bits >> source.bits.dtype.type(packed)], axis=1)
        codes = codes & (1 << TYPES[type_].bits) - 1
        numbers = floats.clamped(instruction.parts, floats.rounded(to, instruction.parts, narrow_values(type_)[codes]))
        origin = None
        if source.origin is not None:
            halves = source.origin[:, :2]
            if packed == 4:
                both = source.origin[:, :1]
                alone = np.concatenate([machine.tape.alone(both), machine.tape.alone(both + 1)], axis=1)
                halves = np.where(machine.tape.alone(both) > 0, alone, both)
            origin = np.repeat(halves, 2, axis=1)
        result.put(to_bits(to, numbers), origin, group)

    return widen


def _packed(machine: Machine, instruction: Statement, function: Function) -> Step:
    """cvt.pack: two whole numbers that are kept in the range of a narrower type; a third one goes above them."""
    to = next(part for part in instruction.parts[2:] if part != "sat")
    width = int(to[1:])
    target, *given = instruction.operands
    result, sources = machine.register(target, "b32", function), machine.registers_of(given, "s32", function)
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if to[0] == "s" else (0, (1 << width) - 1)

    def step(group: ActiveThreads) -> None:
        upper, lower = (np.clip(each.numbers("s32").astype("i8"), low, high) for each in sources[:2])
        rest = sources[2].bits.astype("i8") << 2 * width if sources[2:] else 0
        bits = (rest | (upper & (1 << width) - 1) << width | lower & (1 << width) - 1) & 0xFFFFFFFF
        above, below, *more = (each.origins for each in sources)
        size = max(width // 8, 1)
        parts = [np.repeat(whole(each)[:, None], size, axis=1) for each in (below, above)]
        origin = np.concatenate([*parts, *(more or [np.zeros_like(above)])], axis=1)[:, :4].astype(np.int32)
        result.put(bits.astype("u4"), origin if origin.any() else None, group)

    return step


MAKERS: Mapping[str, Maker] = {"cvt": _convert, "cvt.pack": _packed}
