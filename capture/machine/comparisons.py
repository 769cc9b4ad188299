"""What is compared, and what is chosen by it (9.7.5, 9.7.6)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...db.layout.algebra import Array
from .floats import flushed
from .launch import Maker, Step, Unknown
from .memory import GLOBAL, LOCAL, SHARED
from .ptx import Both, Function, Operand, Statement
from .schedule import Machine
from .values import ActiveThreads

#: Comparisons; what ends in u is also true of NaN (9.7.5).
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

#: What testp asks of a number (9.7.3.2).
_TESTS: Mapping[str, Callable[[Array], Array]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & ((a == 0) | (np.abs(a) >= np.finfo(a.dtype).tiny)),
    "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny),
}


def _comparison(
    machine: Machine, words: Sequence[str], type_: str, operands: Sequence[Operand], function: Function
) -> tuple[Callable[[], Array], Callable[[Array], Array]]:
    """What compares two numbers, and then combines what it is given with another predicate.

    The words are the comparison, and how it is combined.
    """
    name, *more = (word for word in words if word != "ftz")
    compare, combined = COMPARISONS.get(name) or COMPARISONS.get(name.removesuffix("u")), _COMBINED.get("".join(more))
    if compare is None or (more and combined is None):
        raise Unknown(f"no comparison is .{' .'.join(words)}")
    sources = machine.registers_of(operands[:2], type_, function)
    other, negated = machine.predicate(operands[2], function) if more else (None, False)

    def true() -> Array:
        a, b = (flushed(words, source.numbers(type_)) for source in sources)
        found = np.asarray(compare(a, b))
        return found if name in COMPARISONS else found | np.isnan(a) | np.isnan(b)

    def combine(found: Array) -> Array:
        return combined(found.T, other.bits ^ negated).T if combined and other is not None else found

    return true, combine


def _compare(machine: Machine, instruction: Statement, function: Function) -> Step:
    """setp: a comparison, with its opposite as a second result, and with another predicate."""
    *words, type_ = instruction.parts[1:]
    target, *operands = instruction.operands
    true, combine = _comparison(machine, words, type_, operands, function)
    targets = [target.first, target.second] if isinstance(target, Both) else [target]
    results = machine.registers_of(targets, "pred", function)

    def step(group: ActiveThreads) -> None:
        found = true()
        # Of pairs, one result is of the lower and one of the upper; else the second is the opposite.
        every = [combine(own) for own in (found.T if type_.endswith("x2") else (found, ~found))]
        for result, own in zip(results, every, strict=False):
            result.put(own, None, group)

    return step


def _set(machine: Machine, instruction: Statement, function: Function) -> Step:
    """set: a comparison whose result is a number: ones in all bits, or 1.0."""
    *words, to, type_ = instruction.parts[1:]
    result = machine.register(instruction.operands[0], to, function)
    true, combine = _comparison(machine, words, type_, instruction.operands[1:], function)
    to = "s16x2" if to[0] in "us" and type_.endswith("x2") else to  # a half for each of two comparisons

    def step(group: ActiveThreads) -> None:
        found = combine(true())
        result.put_numbers(to, found.astype("f4") if to[0] in "fb" else -found.astype("i8"), None, group)

    return step


def _choose(machine: Machine, instruction: Statement, function: Function) -> Step:
    """selp: one of two by a predicate; slct: the first of two where a number is not negative."""
    *others, of = instruction.parts[1:]
    type_ = others[-1] if others else of
    result, a, b = machine.registers_of(instruction.operands[:3], type_, function)
    by = instruction.operands[3]
    chosen, negated = (machine.register(by, of, function), False) if others else machine.predicate(by, function)

    def step(group: ActiveThreads) -> None:
        first = flushed(others, chosen.numbers(of)) >= 0 if others else chosen.bits ^ negated
        origin = None
        if a.origin is not None or b.origin is not None:
            origin = np.where(first[:, None], a.origins, b.origins)
        result.put(np.where(first, a.bits, b.bits), origin, group)

    return step


def _test(machine: Machine, instruction: Statement, function: Function) -> Step:
    """testp: of what kind a number is."""
    type_, test = instruction.type, _TESTS[instruction.parts[1]]
    result, value = (
        machine.register(each, kind, function) for each, kind in zip(instruction.operands, ("pred", type_), strict=True)
    )
    return lambda group: result.put(np.asarray(test(value.numbers(type_))), None, group)


def _is_in(machine: Machine, instruction: Statement, function: Function) -> Step:
    """isspacep: whether a generic address is in the window of a state space."""
    low, high = _WINDOWS[instruction.parts[1].partition("::")[0]]
    result = machine.register(instruction.operands[0], "pred", function)
    value = machine.register(instruction.operands[1], "u64", function)
    return lambda group: result.put((value.bits >= low) & (value.bits < high), None, group)


_WINDOWS = {"shared": (SHARED, LOCAL), "local": (LOCAL, GLOBAL), "global": (GLOBAL, 1 << 63), "const": (1 << 63,) * 2}

MAKERS: Mapping[str, Maker] = {
    "setp": _compare,
    "set": _set,
    "selp": _choose,
    "slct": _choose,
    "testp": _test,
    "isspacep": _is_in,
}
