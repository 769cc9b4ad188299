"""A formula evaluated over many lanes and elements at once.

Arithmetic is that of whole numbers as PTX's 32-bit registers hold them. A value outside that range, a negative
dividend or an impossible shift is an error: no layout needs one, and languages disagree on its meaning.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from lark import Token, Tree
from numpy.typing import NDArray

from ..spans import spans
from .grammar import MAX_DEPTH, Clause, Formula, FormulaError

Array = NDArray[Any]

_LARGEST = 2**31
_MAX_SET = 10_000
#: Levels of expressions in definitions that are being evaluated: each takes up to four of Python's calls.
_MAX_OPEN = 2 * MAX_DEPTH
#: Operations for each lane and element. The longest formula of PTX takes 31.
_MAX_STEPS = 500


class Cells(NamedTuple):
    """Where each element sits: arrays of the same shape; ``col_last`` is the end of a sparse window."""

    row: Array
    col: Array
    col_last: Array


def evaluate_at(formula: Formula, letter: str, lane: Array, element: Array) -> Cells:
    """Evaluate ``row`` and ``col`` at some points: arrays as long as ``lane`` and ``element``.

    Args:
        formula: what to evaluate.
        letter: what the formula calls the elements of the operand.
        lane: ``%laneid`` of each point.
        element: ``i`` of each point.

    Raises:
        FormulaError: a name is missing or circular, the arithmetic leaves 32 bits, an element is covered by no case
            or by two that disagree. The message names the definition, the elements and the lanes.
    """
    row, row_last = _Evaluation(formula, letter, lane).definition("row", lane, element)
    col, col_last = _Evaluation(formula, letter, lane).definition("col", lane, element)
    if not np.array_equal(row, row_last):
        raise FormulaError("row is a window: only col may be one")
    if (col > col_last).any():
        raise FormulaError("col is a window that ends before it begins")
    return Cells(row, col, col_last)


def value_at(formula: Formula, name: str, letter: str, lane: Array, element: Array) -> Array:
    """The value of any definition, which must not be a window, at some points.

    Raises:
        FormulaError: as for ``evaluate_at``.
    """
    first, last = _Evaluation(formula, letter, lane).definition(name, lane, element)
    if not np.array_equal(first, last):
        raise FormulaError(f"{name} is a window and not a value")
    return first


def coverage(formula: Formula, name: str, letter: str, count: int, lanes: int = 32) -> list[Array]:
    """Where each case of a definition holds, over elements 0..count-1: one mask of shape (lanes, count) per case.

    Raises:
        FormulaError: as for ``evaluate_at``, where a condition cannot be evaluated.
    """
    lane, element = (index.ravel() for index in np.indices((lanes, count)))
    points = _Points(_Evaluation(formula, letter, lane), lane, element)
    covered = np.zeros(lane.shape, bool)
    masks = []
    for case in formula[name]:
        holds = points.holds(case) & ~covered if case.otherwise else points.holds(case)
        covered |= holds
        masks.append(holds.reshape(lanes, count))
    return masks


class _Evaluation:
    """A definition is a function of (lane, element), applied to just the points where a case asks for it.

    So ``(i - 2) % 4 for ai where i >= 2`` is never asked about a0.
    """

    def __init__(self, formula: Formula, letter: str, lanes: Array) -> None:
        self.formula = formula
        self.letter = letter
        self.lanes = lanes
        self.open: dict[str, int] = {}
        self.budget = _MAX_STEPS * lanes.size

    def spend(self, points: int) -> None:
        """Count an operation on some points. One on few or none costs a tenth of one on all."""
        self.budget -= max(points, self.lanes.size // 10)
        if self.budget < 0:
            raise FormulaError(f"the formula takes more than {_MAX_STEPS} operations for an element")

    def definition(self, name: str, lane: Array, element: Array) -> tuple[Array, Array]:
        """First and last value at each point; they differ only where the value is a window."""
        if name not in self.formula:
            raise FormulaError(f"{name} is not defined")
        if name in self.open:
            raise FormulaError(f"{name} is defined in terms of itself")
        self.open[name] = max(case.depth for case in self.formula[name])
        if sum(self.open.values()) > _MAX_OPEN:
            raise FormulaError(f"definitions refer to each other more than {_MAX_OPEN} levels deep")
        values = self._cases(name, _Points(self, lane, element))
        del self.open[name]
        return values

    def _cases(self, name: str, points: _Points) -> tuple[Array, Array]:
        cases = self.formula[name]
        first = np.zeros(points.lane.shape, np.int64)
        last = first.copy()
        covered = np.zeros(points.lane.shape, bool)
        for case in cases:
            holds = points.holds(case) & ~covered if case.otherwise else points.holds(case)
            low, high = _Points(self, points.lane[holds], points.element[holds]).window(case.value)
            again = covered[holds] & ((first[holds] != low) | (last[holds] != high))
            if again.any():
                where = points.name(np.flatnonzero(holds)[again])
                raise FormulaError(f"two cases of {name} disagree for {where}, the second is {case.text!r}")
            first[holds], last[holds] = low, high
            covered |= holds
        if not covered.all():
            where = points.name(np.flatnonzero(~covered))
            raise FormulaError(f"no case of {name} covers {where}, the last is {cases[-1].text!r}")
        return first, last


class _Points(NamedTuple):
    """The (lane, element) pairs at which an expression is evaluated."""

    evaluation: _Evaluation
    lane: Array
    element: Array

    def name(self, indices: Array) -> str:
        """Some of the points in words, as in ``a32-63 in lanes 16-31``."""
        lanes = sorted(set(self.lane[indices].tolist()))
        everywhere = lanes == np.unique(self.evaluation.lanes).tolist()
        at = "" if everywhere else f" in lanes {spans(lanes)}"
        return f"{self.evaluation.letter}{spans(self.element[indices].tolist())}{at}"

    def holds(self, case: Clause) -> Array:
        """Where the conditions of a case hold."""
        holds = np.ones(self.lane.shape, bool)
        for clause in (case.elements, case.lanes):
            if clause is not None:
                holds &= self._clause(clause)
        return holds

    def _clause(self, clause: Tree[Token]) -> Array:
        letter = self.evaluation.letter
        names = [
            str(token).lower()
            for token in clause.children
            if isinstance(token, Token) and token.type in ("ELEMENT", "ANY_ELEMENT")
        ]
        if wrong := [name for name in names if name[0] != letter]:
            raise FormulaError(
                f"{wrong[0]} is not an element of this operand, whose elements are {letter}0, {letter}1, ..."
            )
        if clause.data == "elements":
            return np.isin(self.element, [int(name[1:]) for name in names])
        tests = [self.value(child) != 0 for child in clause.children if isinstance(child, Tree)]
        return tests[0] if tests else np.ones(self.lane.shape, bool)

    def window(self, tree: Tree[Token]) -> tuple[Array, Array]:
        """First and last value of the value of a case."""
        if tree.data == "window":
            low, _, high = tree.children
            return self.value(low), self.value(high)
        if tree.data == "name" and tree.children[0] != "i":
            return self.evaluation.definition(str(tree.children[0]), self.lane, self.element)
        value = self.value(tree)
        return value, value

    def value(self, tree: Tree[Token] | Token) -> Array:
        """The value of an expression at each point."""
        assert isinstance(tree, Tree)
        self.evaluation.spend(self.lane.size)
        match tree.data:
            case "number":
                return np.full(self.lane.shape, _number(tree.children[0]))
            case "laneid":
                return self.lane
            case "name":
                return self._name(str(tree.children[0]))
            case "member":
                return self._member(tree)
            case "relation":
                return self._chain(tree)
            case "prefixed":
                return _in_range(_PREFIX[str(tree.children[0])](self.value(tree.children[1])))
        value = self.value(tree.children[0])
        for sign, operand in zip(tree.children[1::2], tree.children[2::2], strict=True):
            value = _in_range(_INFIX[str(sign)](value, self.value(operand)))
        return value

    def _name(self, name: str) -> Array:
        if name == "i":
            return self.element
        first, last = self.evaluation.definition(name, self.lane, self.element)
        if not np.array_equal(first, last):
            raise FormulaError(f"{name} is a window and cannot be calculated with")
        return first

    def _chain(self, tree: Tree[Token]) -> Array:
        values = [self.value(operand) for operand in tree.children[::2]]
        holds = np.ones(self.lane.shape, bool)
        for sign, left, right in zip(tree.children[1::2], values, values[1:], strict=False):
            holds = holds & _RELATION[str(sign)](left, right)
        return holds.astype(np.int64)

    def _member(self, tree: Tree[Token]) -> Array:
        value, sign, members = tree.children
        assert isinstance(members, Tree)
        inside = np.isin(self.value(value), _numbers([str(token) for token in members.children]))
        return (inside if sign != "!=" else ~inside).astype(np.int64)


def _numbers(items: list[str]) -> list[int]:
    """The members of a set as written: ``0 .. 7`` runs on by the step before the dots, or by 1.

    >>> _numbers(["0", "2", "..", "6"])
    [0, 2, 4, 6]
    """
    dots = [index for index, item in enumerate(items) if item.startswith((".", "…"))]
    if not dots:
        return [_number(item) for item in items]
    if len(dots) > 1 or dots[0] == 0 or dots[0] != len(items) - 2:
        raise FormulaError(
            f"cannot read the set {{{', '.join(items)}}}: dots stand before the last number, as in {{0,..,7}}"
        )
    before = [_number(item) for item in items[: dots[0]]]
    last = _number(items[-1])
    step = before[-1] - before[-2] if len(before) > 1 else 1
    if step <= 0 or last < before[-1] or last > _MAX_SET:
        raise FormulaError(f"cannot read the set {{{', '.join(items)}}}: it must ascend")
    return [*before, *range(before[-1] + step, last + 1, step)]


def _number(token: object) -> int:
    try:
        number = int(str(token), 0)
    except ValueError:
        raise FormulaError(f"cannot read the number {str(token)[:20]}: it begins with 0 or is too long") from None
    if number >= _LARGEST:
        raise FormulaError(f"{token} leaves the range of a 32-bit register")
    return number


def _in_range(value: Array) -> Array:
    if (value < -_LARGEST).any() or (value >= _LARGEST).any():
        raise FormulaError("a value leaves the range of a 32-bit register")
    return value


def _whole(divide: Callable[[Array, Array], Array], word: str) -> Callable[[Array, Array], Array]:
    def safely(left: Array, right: Array) -> Array:
        if (right <= 0).any() or (left < 0).any():
            raise FormulaError(f"{word} of a negative number or by one that is not positive")
        return divide(left, right)

    return safely


def _shift(shift: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def safely(left: Array, right: Array) -> Array:
        if (right < 0).any() or (right > 31).any() or (left < 0).any():
            raise FormulaError("a shift of a negative number, or by less than 0 or more than 31")
        return shift(left, right)

    return safely


def _truth(combine: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda left, right: combine(left != 0, right != 0).astype(np.int64)


_RELATION = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_PREFIX: dict[str, Callable[[Array], Array]] = {
    "+": operator.pos,
    "-": operator.neg,
    "~": operator.invert,
    "!": lambda value: (value == 0).astype(np.int64),
}
_INFIX: dict[str, Callable[[Array, Array], Array]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _whole(operator.floordiv, "a quotient"),
    "%": _whole(operator.mod, "a remainder"),
    "<<": _shift(operator.lshift),
    ">>": _shift(operator.rshift),
    "&": operator.and_,
    "^": operator.xor,
    "|": operator.or_,
    "&&": _truth(operator.and_),
    "||": _truth(operator.or_),
    "=": lambda left, right: (left == right).astype(np.int64),
    "==": lambda left, right: (left == right).astype(np.int64),
    "!=": lambda left, right: (left != right).astype(np.int64),
}
