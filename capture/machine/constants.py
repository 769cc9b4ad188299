"""Constants of PTX and expressions of them: whole numbers of 64 bits with the operators of C, and floats (4.5)."""

from __future__ import annotations

import operator
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import isinf
from typing import Any, NamedTuple

from ...db.isa.instructions import WARP

#: Tokens of numbers: bits of floats, floats, whole numbers, which ``U`` makes unsigned, and a name for one.
NUMBER = (
    r"0[fF][\da-fA-F]{8}|0[dD][\da-fA-F]{16}|\d+[eE][-+]?\d+|\d*\.\d+(?:[eE][-+]?\d+)?|\d+\.(?:[eE][-+]?\d+)?"
    r"|(?:0[xX][\da-fA-F]+|0[bB][01]+|\d+)U?|WARP_SZ\b"
)

#: Operators of more than one character.
LONG_SIGNS = ("<<", ">>", "<=", ">=", "==", "!=", "&&", "||")


class Constant(NamedTuple):
    """A value of the type s64, u64 or f64."""

    value: Any
    type: str

    @classmethod
    def of(cls, value: Any, type_: str) -> Constant:
        """A value as its type has it: whole numbers without the bits above 64."""
        if type_ == "f64":
            return cls(value, type_)
        bits = value & (1 << 64) - 1
        return cls(bits - (1 << 64) if type_ == "s64" and bits >> 63 else bits, type_)


def _quotient(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        return a / b
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


#: What stands between two operands, the operators that bind most first, and what it computes.
_BINARY: Sequence[Mapping[str, Callable[[Any, Any], Any]]] = (
    {"*": operator.mul, "/": _quotient, "%": operator.mod},
    {"+": operator.add, "-": operator.sub},
    {"<<": lambda a, by: a << by % 64, ">>": lambda a, by: a >> by % 64},
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    {"==": operator.eq, "!=": operator.ne},
    {"&": operator.and_},
    {"^": operator.xor},
    {"|": operator.or_},
    {"&&": lambda a, b: a != 0 and b != 0},
    {"||": lambda a, b: a != 0 or b != 0},
)

#: Operators that only whole numbers have.
_WHOLE = ("%", "<<", ">>", "&", "^", "|", "&&", "||")


def constant(words: Sequence[str]) -> Constant:
    """The value of an expression. Raises ValueError, IndexError or ArithmeticError where it has none."""
    left = deque(words)
    found = _conditional(left)
    if left:
        raise ValueError(left[0])
    return found


def _expect(words: deque[str], word: str) -> None:
    if words.popleft() != word:
        raise ValueError(word)


def _whole(constant: Constant) -> Constant:
    if constant.type == "f64":
        raise ValueError(constant)
    return constant


def _conditional(words: deque[str]) -> Constant:
    condition = _binary(words, len(_BINARY))
    if not words or words[0] != "?":
        return condition
    words.popleft()
    first = _whole(_conditional(words))
    _expect(words, ":")
    second = _whole(_conditional(words))
    return first if _whole(condition).value else second


def _binary(words: deque[str], levels: int) -> Constant:
    """An expression of the operators of the first levels."""
    if not levels:
        return _unary(words)
    found = _binary(words, levels - 1)
    while words and words[0] in _BINARY[levels - 1]:
        found = _combined(words.popleft(), found, _binary(words, levels - 1))
    return found


def _combined(sign: str, first: Constant, second: Constant) -> Constant:
    """What an operator makes of two operands: unsigned as soon as one is, and a remainder always."""
    types = {first.type, second.type}
    if "f64" in types and (len(types) > 1 or sign in _WHOLE):
        raise ValueError(sign)
    common = "u64" if sign == "%" or "u64" in types else first.type
    compute = next(level[sign] for level in _BINARY if sign in level)
    if sign in ("<<", ">>"):
        return Constant.of(compute(first.value, second.value), first.type)
    value = compute(Constant.of(first.value, common).value, Constant.of(second.value, common).value)
    return Constant.of(int(value), "s64") if isinstance(value, bool) else Constant.of(value, common)


def _unary(words: deque[str]) -> Constant:
    match word := words.popleft():
        case "(" if words[0] in (".s64", ".u64"):
            type_ = words.popleft()[1:]
            _expect(words, ")")
            return Constant.of(_whole(_unary(words)).value, type_)
        case "(":
            found = _conditional(words)
            _expect(words, ")")
            return found
        case "+":
            return _unary(words)
        case "-":
            value, type_ = _unary(words)
            return Constant.of(-value, type_)
        case "!":
            return Constant(int(not _whole(_unary(words)).value), "s64")
        case "~":
            return Constant.of(~_whole(_unary(words)).value, "u64")
        case "WARP_SZ":
            return Constant(WARP, "s64")
    return _literal(word)


def _literal(text: str) -> Constant:
    """A number as it is written; a whole one is signed where it fits and nothing says otherwise."""
    if re.fullmatch(r"[\d.]+(?:[eE][-+]?\d+)?", text) and not text.isdigit():
        if isinf(value := float(text)):
            raise OverflowError(text)
        return Constant(value, "f64")
    digits = text.removesuffix("U")
    number = int(digits, 8) if re.fullmatch(r"0[0-7]+", digits) else int(digits, 0)
    if number >> 64:
        raise OverflowError(text)
    return Constant(number, "u64" if number >> 63 or digits != text else "s64")
