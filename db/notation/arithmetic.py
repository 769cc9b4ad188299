"""Sums of digits as expressions, and their values.

``quotients`` writes them with ``+ * // %``, as Python and, with other words, MLIR have them; ``bits`` with
``+ * >> &``, as C++ and PTX have them. All these languages give the operators the same precedence.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .digits import Array, Case, Digit, Sum

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,  # C++ and PTX write the quotient of integers so
    ast.Mod: operator.mod,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.Eq: operator.eq,
    ast.Lt: operator.lt,
    ast.GtE: operator.ge,
}


def quotients(total: Sum, names: Sequence[str]) -> str:
    """The sum with the index of each axis under its name, in quotients and remainders.

    >>> quotients(Sum(0, ((Digit(1, 4, 0), Digit(4, 8, 1)), (Digit(1, 2, 0), Digit(2, 2, 8)))), ("lane", "value"))
    'lane // 4 + value // 2 * 8'
    """
    terms = [
        _quotient(digit, name, math.prod(each.size for each in digits), "//") + _factor(digit.weight)
        for name, digits in zip(names, total.axes, strict=True)
        for digit in digits
        if digit.weight
    ]
    return _added(terms, total.constant)


def _quotient(digit: Digit, name: str, length: int, sign: str) -> str:
    quotient = f" {sign} {digit.step}" if digit.step > 1 else ""
    remainder = f" % {digit.size}" if digit.step * digit.size < length else ""
    return name + quotient + remainder


def bits(case: Case, names: Sequence[str], known: Mapping[tuple[str, int, int], str] | None = None) -> str:
    """The sum of a case with the index of each axis under its name, in bit fields.

    ``known`` has words for fields of whole axes, by name, step and size.

    >>> total = Sum(1, ((Digit(1, 4, 2), Digit(4, 8, 1)), (Digit(1, 2, 0), Digit(2, 2, 8))))
    >>> bits(Case(total, (range(32), range(4))), ("lane", "i"))
    '(lane & 0x3) * 2 + (lane >> 2) + (i >> 1) * 8 + 1'
    """
    fields = [
        _field(name, digit, part, known or {})
        for name, digits, part in zip(names, case.total.axes, case.parts, strict=True)
        for digit in digits
        if digit.weight
    ]
    if len(fields) == 1 and fields[0][1] == 1 and not case.total.constant:
        return fields[0][0].removeprefix("(").removesuffix(")") if _one_pair(fields[0][0]) else fields[0][0]
    return _added([field + _factor(weight) for field, weight in fields], case.total.constant)


def _field(name: str, digit: Digit, part: range, known: Mapping[tuple[str, int, int], str]) -> tuple[str, int]:
    """The field of an index that runs over ``part``, in brackets where a sum needs them, and the weight that is left.

    No weight is left where the bits already stand where they count.
    """
    top = digit.step * digit.size >= part.stop
    if part.start == 0 and (name, digit.step, digit.size) in known:
        return known[name, digit.step, digit.size], digit.weight
    if not _power_of_two(digit.step) or not (top or _power_of_two(digit.size)):
        return f"({_quotient(digit, name, part.stop, '/')})", digit.weight
    if digit.weight == digit.step > 1 and _power_of_two(digit.size):
        return f"({name} & 0x{(digit.size - 1) * digit.step:X})", 1
    shift = digit.step.bit_length() - 1
    shifted = f"({name} >> {shift})" if shift else name
    return (shifted if top else f"({shifted} & 0x{digit.size - 1:X})"), digit.weight


def _power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _one_pair(text: str) -> bool:
    """Whether a text is one pair of brackets and what is in it."""
    return text.startswith("(") and text.find(")") == len(text) - 1 and "(" not in text[1:]


def _factor(weight: int) -> str:
    return f" * {weight}" if weight != 1 else ""


def _added(terms: Sequence[str], constant: int) -> str:
    return " + ".join([*terms, *([str(constant)] if constant or not terms else [])])


def evaluate(text: str, values: Mapping[str, Array]) -> Any:
    """The value of such an expression, or of a comparison of two. Nothing else is evaluated.

    Raises:
        ValueError: it is no such expression.
    """
    return _value(ast.parse(text.strip(), mode="eval").body, values)


def _value(node: ast.expr, values: Mapping[str, Array]) -> Any:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_value(left, values), _value(right, values))
        case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_value(left, values), _value(right, values))
    raise ValueError(f"cannot read {ast.unparse(node)!r}")
