"""Sums of digits as expressions with ``+ * // %``, as Python and, with other words, MLIR have them; and their values.

The two languages give these operators the same precedence, so one text serves both.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from .digits import Digit, Sum

Array = NDArray[Any]

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def expression(total: Sum, names: Sequence[str]) -> str:
    """The sum with the index of each axis under its name.

    >>> expression(Sum(0, ((Digit(1, 4, 0), Digit(4, 8, 1)), (Digit(1, 2, 0), Digit(2, 2, 8)))), ("lane", "value"))
    'lane // 4 + value // 2 * 8'
    """
    terms = [
        _term(digit, name, math.prod(each.size for each in digits))
        for name, digits in zip(names, total.axes, strict=True)
        for digit in digits
        if digit.weight
    ]
    terms += [str(total.constant)] if total.constant or not terms else []
    return " + ".join(terms)


def _term(digit: Digit, name: str, length: int) -> str:
    quotient = f" // {digit.step}" if digit.step > 1 else ""
    remainder = f" % {digit.size}" if digit.step * digit.size < length else ""
    factor = f" * {digit.weight}" if digit.weight != 1 else ""
    return name + quotient + remainder + factor


def evaluate(text: str, values: Mapping[str, Array]) -> Array | int:
    """The value of such an expression. Nothing else is evaluated.

    Raises:
        ValueError: it is no such expression.
    """
    return _value(ast.parse(text, mode="eval").body, values)


def _value(node: ast.expr, values: Mapping[str, Array]) -> Array | int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            result: Array | int = _OPERATORS[type(sign)](_value(left, values), _value(right, values))
            return result
    raise ValueError(f"cannot read {ast.unparse(node)!r}")
