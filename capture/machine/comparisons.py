"""What is compared, and what is chosen by it (9.7.5, 9.7.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...db.layout.algebra import Array
from .launch import Maker, Step, Unknown, known
from .memory import GLOBAL, LOCAL, SHARED
from .ptx import Both, Function, Statement
from .schedule import Machine
from .values import ActiveThreads, unset

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

#: What testp asks of a number (9.7.3.2).
_TESTS: Mapping[str, Callable[[Array], Array]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny),
    "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny),
}


def _compare(machine: Machine, instruction: Statement, function: Function) -> Step:
    """setp: a comparison, with its opposite as a second result, and with another predicate."""
    type_, words = instruction.type, [part for part in instruction.parts[1:] if part != "ftz"]
    packed = type_.endswith("x2")
    name = words[0]
    unordered = name not in COMPARISONS
    combined = next((_COMBINED[word] for word in words[1:] if word in _COMBINED), None)
    compare = COMPARISONS.get(name) or COMPARISONS.get(name.removesuffix("u"))
    if compare is None or {*words[1:]} - {*_COMBINED, type_}:
        raise Unknown(f"{instruction.opcode} is not known")
    target, left, right, *more = instruction.operands
    targets = [target.first, target.second] if isinstance(target, Both) else [target]
    results = machine.registers_of(targets, "pred", function)
    sources = machine.registers_of((left, right), type_, function)
    other, negated = machine.predicate(more[0], function) if more else (None, False)

    def step(group: ActiveThreads) -> None:
        a, b = (source.numbers(type_) for source in sources)
        true = compare(a, b)
        if unordered:
            true = true | np.isnan(a) | np.isnan(b)
        # Of pairs, one result is of the lower and one of the upper; else the second is the opposite.
        for result, found in zip(results, true.T if packed else (true, ~true), strict=False):
            bits = combined(found, other.bits ^ negated) if combined and other is not None else found
            result.put(np.asarray(bits), unset([*sources, *([other] if other else [])]), group)

    return step


def _set(machine: Machine, instruction: Statement, function: Function) -> Step:
    """set: a comparison whose result is a number: ones in all bits, or 1.0."""
    *words, to, type_ = instruction.parts[1:]
    name, *more = [word for word in words if word != "ftz"]
    compare, combined = COMPARISONS.get(name), _COMBINED.get(more[0] if more else "")
    if compare is None or (more and combined is None):
        raise Unknown(f"{instruction.opcode} is not known")
    result = machine.register(instruction.operands[0], to, function)
    sources = machine.registers_of(instruction.operands[1:3], type_, function)
    other, negated = machine.predicate(instruction.operands[3], function) if more else (None, False)

    def step(group: ActiveThreads) -> None:
        true = np.asarray(compare(*(source.numbers(type_) for source in sources)))
        if combined is not None and other is not None:
            true = combined(true, other.bits ^ negated)
        numbers = true.astype("f4") if to[0] in "fb" else -true.astype("i8")
        result.put_numbers(to, numbers, None, group)

    return step


def _select(machine: Machine, instruction: Statement, function: Function) -> Step:
    """selp: one of two by a predicate."""
    type_ = instruction.type
    known(instruction, "")
    result, a, b = machine.registers_of(instruction.operands[:3], type_, function)
    chosen, negated = machine.predicate(instruction.operands[3], function)

    def step(group: ActiveThreads) -> None:
        first = chosen.bits ^ negated
        _put_either(first, a, b, result, group)

    return step


def _put_either(first: Array, a: Any, b: Any, result: Any, group: ActiveThreads) -> None:
    """Each thread's number of the first or of the second register, with its origin."""
    origin = None
    if a.origin is not None or b.origin is not None:
        origin = np.where(first[:, None], a.origins, b.origins)
    result.put(np.where(first, a.bits, b.bits), origin, group)


def _by_sign(machine: Machine, instruction: Statement, function: Function) -> Step:
    """slct: the first of two where a number is not negative."""
    type_, of = instruction.parts[-2:]
    known(instruction, f"{type_} {of} ftz")
    result, a, b = machine.registers_of(instruction.operands[:3], type_, function)
    chosen = machine.register(instruction.operands[3], of, function)

    def step(group: ActiveThreads) -> None:
        first = chosen.numbers(of) >= 0
        _put_either(first, a, b, result, group)

    return step


def _test(machine: Machine, instruction: Statement, function: Function) -> Step:
    """testp: of what kind a number is."""
    type_, test = instruction.type, _TESTS[instruction.parts[1]]
    result, value = (
        machine.register(each, kind, function) for each, kind in zip(instruction.operands, ("pred", type_), strict=True)
    )
    return lambda group: result.put(np.asarray(test(value.numbers(type_))), unset([value]), group)


def _is_in(machine: Machine, instruction: Statement, function: Function) -> Step:
    """isspacep: whether a generic address is in the window of a state space."""
    low, high = _WINDOWS[instruction.parts[1].partition("::")[0]]
    result = machine.register(instruction.operands[0], "pred", function)
    value = machine.register(instruction.operands[1], "u64", function)
    return lambda group: result.put((value.bits >= low) & (value.bits < high), unset([value]), group)


_WINDOWS = {"shared": (SHARED, LOCAL), "local": (LOCAL, GLOBAL), "global": (GLOBAL, 1 << 63), "const": (1 << 63,) * 2}

MAKERS: Mapping[str, Maker] = {
    "setp": _compare,
    "set": _set,
    "selp": _select,
    "slct": _by_sign,
    "testp": _test,
    "isspacep": _is_in,
}
