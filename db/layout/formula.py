"""PTX's formula notation: parsed, and evaluated over many lanes and elements at once. The grammar is ``formula.lark``.

A formula is a list of definitions. Each has one or more cases; a case is a value, or a window of values, for some
elements (``for a0 and a1``, ``for ai where i < 4``), some lanes (``if %laneid < 16``), both, or what the cases before
it leave (``otherwise``). Operators have C's precedence; ``=`` in a condition compares; ``0 <= i < 2`` is a chain.

The lane is ``%laneid``, of a group of several warps ``%tid.x``, and ``lane`` where nothing of that name is defined.

Arithmetic is that of integers in PTX's 32-bit registers. A value outside that range, a negative dividend or an
impossible shift is an error: no layout needs one, and languages disagree on its meaning.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken

from ..errors import LanemapError
from ..text import spans
from .algebra import Array

#: Documents are untrusted: a longer formula, or one nested more deeply in all its definitions together, is refused.
#: Each level takes up to four Python calls.
MAX_LENGTH = 10_000
MAX_DEPTH = 120
_LONGEST_EXCERPT = 200
_LARGEST = 2**31
_MAX_SET = 10_000
#: The most operations for each lane and element. The longest formula of PTX takes 31.
_MAX_STEPS = 500


class FormulaError(LanemapError):
    """A formula that cannot be parsed, or that does not say where every element goes."""


class Clause(NamedTuple):
    """One value of a definition, and the elements and lanes for which it holds."""

    value: Tree[Token]
    elements: Tree[Token] | None
    lanes: Tree[Token] | None
    otherwise: bool
    text: str


Formula = Mapping[str, tuple[Clause, ...]]


@lru_cache(maxsize=1024)
def parse(text: str) -> Formula:
    """The definitions of a formula by name, in the order of the text.

    Raises:
        FormulaError: a syntax error; names the line, the column and the text.
    """
    if len(text) > MAX_LENGTH:
        raise FormulaError(f"a formula of {len(text)} characters is longer than the limit of {MAX_LENGTH}")
    try:
        parsed = _parser().parse(text)
    except UnexpectedInput as error:
        if isinstance(error, UnexpectedToken) and error.token.type == "$END":
            raise FormulaError(f"the formula ends in the middle: {text.strip()[-60:]!r}") from None
        line = text.split("\n")[error.line - 1]
        rest, whole = (part.strip()[:_LONGEST_EXCERPT] for part in (line[error.column - 1 :], line))
        place = f"line {error.line}, column {error.column}"
        raise FormulaError(f"{place}: cannot read {rest!r} in {whole!r}") from None
    definitions: dict[str, tuple[Clause, ...]] = {}
    depth = 0
    for definition in parsed.children:
        assert isinstance(definition, Tree)
        level = [definition]
        while level := [child for tree in level for child in tree.children if isinstance(child, Tree)]:
            depth += 1
        if depth > MAX_DEPTH:
            raise FormulaError(f"nested deeper than {MAX_DEPTH} levels")
        name = str(definition.children[0]).rstrip("=").split()[-1]
        if name in definitions:
            raise FormulaError(f"{name} is defined twice")
        definitions[name] = tuple(_case(case, text) for case in definition.children[1:] if isinstance(case, Tree))
    return definitions


@cache
def _parser() -> Lark:
    options = {"start": "formula", "parser": "lalr", "propagate_positions": True, "maybe_placeholders": False}
    return Lark.open("formula.lark", __file__, **options)


def _case(tree: Tree[Token], text: str) -> Clause:
    excerpt = " ".join(text[tree.meta.start_pos : tree.meta.end_pos].split())
    value, *clauses = tree.children
    by_kind: dict[str, Tree[Token]] = {}
    for clause in clauses:
        assert isinstance(clause, Tree)
        kind = {"element_test": "elements", "lane_test": "lanes"}.get(clause.data, str(clause.data))
        if kind in by_kind:
            raise FormulaError(f"two conditions of one kind in {excerpt!r}")
        by_kind[kind] = clause
    assert isinstance(value, Tree)
    otherwise = "otherwise" in by_kind
    return Clause(value, by_kind.get("elements"), by_kind.get("lanes"), otherwise, excerpt)


class Cells(NamedTuple):
    """The cell of each element: arrays of the same shape; ``col_last`` is the end of a sparse window."""

    row: Array
    col: Array
    col_last: Array


def evaluate_at(formula: Formula, letter: str, lane: Array, element: Array) -> Cells:
    """Evaluate ``row`` and ``col`` at some points: arrays as long as ``lane`` and ``element``.

    Args:
        formula: what to evaluate.
        letter: the name of the operand's elements in the formula.
        lane: the lane of each point, in its group.
        element: ``i`` of each point.

    Raises:
        FormulaError: a definition is missing or circular, the arithmetic leaves 32 bits, or no case covers an element,
            or two that disagree. The message names the definition, the elements and the lanes.
    """
    row = value_at(formula, "row", letter, lane, element)
    col, col_last = _Evaluation(formula, letter, lane).definition("col", lane, element)
    if (col > col_last).any():
        raise FormulaError("col is a window that ends before it begins")
    return Cells(row, col, col_last)


def value_at(formula: Formula, name: str, letter: str, lane: Array, element: Array) -> Array:
    """The value of a definition that is not a window, at some points.

    Raises:
        FormulaError: as for ``evaluate_at``.
    """
    first, last = _Evaluation(formula, letter, lane).definition(name, lane, element)
    if not np.array_equal(first, last):
        raise FormulaError(f"{name} is a window, not a value")
    return first


def coverage(formula: Formula, name: str, letter: str, count: int, lanes: int = 32) -> list[Array]:
    """Where each case of a definition holds, over elements 0..count-1: one mask of shape (lanes, count) per case.

    Raises:
        FormulaError: as for ``evaluate_at``, where a condition cannot be evaluated.
    """
    lane, element = (index.ravel() for index in np.indices((lanes, count)))
    points = _Points(_Evaluation(formula, letter, lane), lane, element)
    return [holds.reshape(lanes, count) for holds in points.parts(formula[name])]


class _Evaluation:
    """Evaluates a definition as a function of (lane, element), only at the points where a case needs it.

    So ``(i - 2) % 4 for ai where i >= 2`` is never evaluated for a0.
    """

    def __init__(self, formula: Formula, letter: str, lanes: Array) -> None:
        self.formula = formula
        self.letter = letter
        self.lanes = lanes
        self.open: set[str] = set()
        # A step counts its points; one on few or none counts as a tenth of all.
        self.budget = _MAX_STEPS * lanes.size

    def definition(self, name: str, lane: Array, element: Array) -> tuple[Array, Array]:
        """First and last value at each point; they differ only where the value is a window."""
        if name not in self.formula:
            if name == "lane":
                return lane, lane
            raise FormulaError(f"{name} is not defined")
        if name in self.open:
            raise FormulaError(f"{name} is defined in terms of itself")
        self.open.add(name)
        points, cases = _Points(self, lane, element), self.formula[name]
        first = np.zeros(points.lane.shape, np.int64)
        last = first.copy()
        covered = np.zeros(points.lane.shape, bool)
        for case, holds in zip(cases, points.parts(cases), strict=True):
            low, high = _Points(self, points.lane[holds], points.element[holds]).window(case.value)
            conflict = covered[holds] & ((first[holds] != low) | (last[holds] != high))
            if conflict.any():
                where = points.name(np.flatnonzero(holds)[conflict])
                raise FormulaError(f"two cases of {name} disagree for {where}, the second is {case.text!r}")
            first[holds], last[holds] = low, high
            covered |= holds
        if not covered.all():
            where = points.name(np.flatnonzero(~covered))
            raise FormulaError(f"no case of {name} covers {where}, the last is {cases[-1].text!r}")
        self.open.remove(name)
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

    def parts(self, cases: Iterable[Clause]) -> Iterator[Array]:
        """The mask of each case, in order."""
        covered = np.zeros(self.lane.shape, bool)
        for case in cases:
            holds = self.holds(case) & ~covered if case.otherwise else self.holds(case)
            covered |= holds
            yield holds

    def holds(self, case: Clause) -> Array:
        """Where the conditions of a case hold."""
        holds = np.ones(self.lane.shape, bool)
        letter = self.evaluation.letter
        for clause in filter(None, (case.elements, case.lanes)):
            tokens = [token for token in clause.children if isinstance(token, Token)]
            names = [str(token).lower() for token in tokens if token.type in ("ELEMENT", "ANY_ELEMENT")]
            if wrong := [name for name in names if name[0] != letter]:
                raise FormulaError(
                    f"{wrong[0]} is not an element of this operand, whose elements are {letter}0, {letter}1, ..."
                )
            if clause.data == "elements":
                holds &= np.isin(self.element, [int(name[1:]) for name in names])
            for test in clause.children:
                if isinstance(test, Tree):
                    holds &= self.value(test) != 0
        return holds

    def window(self, tree: Tree[Token]) -> tuple[Array, Array]:
        """First and last of the value of a case."""
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
        self.evaluation.budget -= max(self.lane.size, self.evaluation.lanes.size // 10)
        if self.evaluation.budget < 0:
            raise FormulaError(f"the formula takes more than {_MAX_STEPS} operations for an element")
        match tree.data:
            case "number":
                return np.full(self.lane.shape, _number(tree.children[0]))
            case "laneid":
                return self.lane
            case "name" if tree.children[0] == "i":
                return self.element
            case "name":
                first, last = self.window(tree)
                if not np.array_equal(first, last):
                    raise FormulaError(f"{tree.children[0]} is a window and cannot be used in arithmetic")
                return first
            case "member":
                number, sign, members = tree.children
                assert isinstance(members, Tree)
                inside = np.isin(self.value(number), _numbers([str(token) for token in members.children]))
                return (inside if sign != "!=" else ~inside).astype(np.int64)
            case "relation":
                values = [self.value(operand) for operand in tree.children[::2]]
                pairs = zip(tree.children[1::2], values, values[1:], strict=False)
                holds = [_INFIX[str(sign)](left, right) for sign, left, right in pairs]
                return np.asarray(np.all(holds, axis=0), np.int64)
            case "prefixed":
                return _in_range(_PREFIX[str(tree.children[0])](self.value(tree.children[1])))
        value = self.value(tree.children[0])
        for sign, operand in zip(tree.children[1::2], tree.children[2::2], strict=True):
            value = _calculated(str(sign), value, self.value(operand))
        return value


def _numbers(items: list[str]) -> list[int]:
    """The members of a set as written: ``0 .. 7`` continues with the step before the dots, or with 1.

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


def _calculated(sign: str, left: Array, right: Array) -> Array:
    if sign in "/%" and ((right <= 0).any() or (left < 0).any()):
        operation = "quotient" if sign == "/" else "remainder"
        raise FormulaError(f"a {operation} of a negative number, or by a number that is not positive")
    if sign in ("<<", ">>") and ((right < 0).any() or (right > 31).any() or (left < 0).any()):
        raise FormulaError("a shift of a negative number, or by less than 0 or more than 31")
    if sign in ("&&", "||"):
        left, right = left != 0, right != 0
    return _in_range(_INFIX[sign](left, right).astype(np.int64, copy=False))


_PREFIX: dict[str, Callable[[Array], Array]] = {
    "+": operator.pos,
    "-": operator.neg,
    "~": operator.invert,
    "!": lambda value: (value == 0).astype(np.int64),
}
_SUMS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv, "%": operator.mod}
_BITS = {"<<": operator.lshift, ">>": operator.rshift, "&": operator.and_, "^": operator.xor, "|": operator.or_}
_TRUTHS = {"&&": operator.and_, "||": operator.or_, "=": operator.eq, "==": operator.eq, "!=": operator.ne}
_RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_INFIX: dict[str, Callable[[Array, Array], Array]] = {**_SUMS, **_BITS, **_TRUTHS, **_RELATIONS}
