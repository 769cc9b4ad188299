"""Layouts as formulas in PTX's own notation, also those that the document only draws.

A coordinate is a sum of bit fields of ``%laneid`` and ``i``, in as few cases as halving the elements, then the lanes,
leads to. Where only some lanes hold elements, the cases of ``row`` say which. Where a warp does several products,
``computation`` counts from 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formula import coverage, evaluate_at, parse, value_at
from ..fragment import LANES, Fragment, elements
from . import Notation
from .digits import Digit, NotASumError, Sum, as_sum
from .table import by_lane, located, refusal

Array = NDArray[Any]

#: More cases than this are a table, not a formula.
_MAX_CASES = 16

_LETTER = {"A": "a", "B": "b", "C": "c", "D": "c", "E": "e"}

#: What PTX calls two fields of the lane in every section.
_NAMES = {(4, 8): "groupID", (1, 4): "threadID_in_group"}
_DEFINITIONS = {"groupID": "groupID = %laneid >> 2", "threadID_in_group": "threadID_in_group = %laneid % 4"}


@dataclass(frozen=True)
class _Case:
    """A sum, and the lanes and elements that it holds for."""

    total: Sum
    lanes: range
    elements: range


def compose(fragment: Fragment, name: str) -> str:  # noqa: ARG001 - a formula has no name
    """The definitions of ``row`` and ``col``, after those that they use, and of ``computation`` if there are several.

    Raises:
        RefusedError: a coordinate takes more cases than a formula should have.
    """
    lanes, coordinates = by_lane(fragment)
    nearest, test = _lanes(fragment, lanes)
    whole = {axis: values[nearest] for axis, values in coordinates.items()}
    window = whole["col_last"] - whole["col"]
    lines = _definition(fragment, "row", whole["row"], test)
    if window.any():
        even = (window == window[0, 0]).all()
        lines += ["col = [firstcol ... lastcol]", *_definition(fragment, "firstcol", whole["col"])]
        last = [f"lastcol = firstcol + {window[0, 0]}"]
        lines += last if even else _definition(fragment, "lastcol", whole["col_last"])
    else:
        lines += _definition(fragment, "col", whole["col"])
    if whole["computation"].any():
        lines += _definition(fragment, "computation", whole["computation"] + 1)
    used = [text for each, text in _DEFINITIONS.items() if any(each in line for line in lines)]
    return "\n".join([*used, *lines]) + "\n"


def read(text: str, fragment: Fragment) -> Array:
    """The rows that the formula says, of the elements that the cases of ``row`` cover."""
    formula, letter = parse(text), _LETTER[fragment.role]
    held = np.any(coverage(formula, "row", letter, fragment.registers * fragment.slots), axis=0)
    lane, element = np.nonzero(held)
    cells = evaluate_at(formula, letter, lane, element)
    several = "computation" in formula
    columns = {
        "lane": lane,
        "reg": element // fragment.slots,
        "slot": element % fragment.slots,
        **cells._asdict(),
        "computation": value_at(formula, "computation", letter, lane, element) if several else np.ones_like(lane),
    }
    return elements(columns)


def _lanes(fragment: Fragment, lanes: Array) -> tuple[Array, str]:
    """For each of the 32 lanes the place in ``lanes`` of the one that holds in its stead, and the test for holding."""
    first = int(lanes[0])
    varying = int(np.bitwise_or.reduce(lanes ^ first))
    fixed = (LANES - 1) & ~varying
    if len(lanes) != 1 << varying.bit_count():
        why = "is held by a lane that no bits of its number tell from those that hold nothing"
        raise refusal(fragment, located(fragment, first, 0), why)
    nearest = np.searchsorted(lanes, (np.arange(LANES) & varying) | (first & fixed))
    if not fixed:
        return nearest, ""
    low_bits = fixed & (fixed + 1) == 0
    field = f"%laneid % {fixed + 1}" if low_bits else f"(%laneid & 0x{fixed:X})"
    return nearest, f"{field} = {first & fixed}"


def _definition(fragment: Fragment, name: str, values: Array, test: str = "") -> list[str]:
    """The lines that define a coordinate over (lane, element), where ``test`` holds for the lane."""
    cases = _cases(fragment, name, values)
    texts = [_expression(case) for case in cases]
    clauses = [_clauses(case, values.shape[1], _LETTER[fragment.role], test) for case in cases]
    width = max(map(len, texts)) if any(clauses) else 0
    lines = [f"{text:<{width}}{clause}" for text, clause in zip(texts, clauses, strict=True)]
    margin = " " * len(f"{name} = ")
    return [(margin if place else f"{name} = ") + line for place, line in enumerate(lines)]


def _cases(fragment: Fragment, name: str, values: Array) -> list[_Case]:
    """The cases of a coordinate, halving elements first or lanes first, whichever takes fewer."""
    try:
        return [_Case(as_sum(values), range(LANES), range(values.shape[1]))]
    except NotASumError as error:
        ways = [_halved(values, lanes_first=each) for each in (False, True)]
        if found := min(filter(None, ways), key=len, default=None):
            return found
        why = f"has {name} {error.value}: a formula would take more than {_MAX_CASES} cases"
        raise refusal(fragment, located(fragment, *error.index), why) from None


def _halved(values: Array, *, lanes_first: bool) -> list[_Case] | None:
    """The cases that halving leads to, unless they are too many or a part that is no sum has no middle."""
    found: list[_Case] = []
    open_ = [(range(LANES), range(values.shape[1]))]
    while open_:
        lanes, those = open_.pop()
        try:
            found.append(_Case(as_sum(values[lanes.start : lanes.stop, those.start : those.stop]), lanes, those))
        except NotASumError:
            of_lanes = [(half, those) for half in _halves(lanes)]
            of_elements = [(lanes, half) for half in _halves(those)]
            parts = (of_lanes or of_elements) if lanes_first else (of_elements or of_lanes)
            if not parts or len(found) + len(open_) + len(parts) > _MAX_CASES:
                return None
            open_ += parts
    return found


def _halves(whole: range) -> list[range]:
    """The later half first, nothing where there is no middle: so digits of a part are digits of the whole."""
    middle = whole.start + len(whole) // 2
    return [range(middle, whole.stop), range(whole.start, middle)] if len(whole) % 2 == 0 else []


def _clauses(case: _Case, count: int, letter: str, test: str) -> str:
    """For which elements and lanes a case holds, as PTX says it."""
    element = _between("i", case.elements, count)
    clause = f"  for {letter}i where {element}" if element else ""
    if len(case.elements) == 1 < count:
        clause = f"  for {letter}{case.elements.start}"
    tests = [each for each in (_between("%laneid", case.lanes, LANES), test) if each]
    return clause + (f"  if {' && '.join(tests)}" if tests else "")


def _between(name: str, part: range, count: int) -> str:
    if len(part) == count:
        return ""
    if len(part) == 1:
        return f"{name} = {part.start}"
    if part.start == 0:
        return f"{name} < {part.stop}"
    return f"{name} >= {part.start}" if part.stop == count else f"{part.start} <= {name} < {part.stop}"


def _expression(case: _Case) -> str:
    terms = [
        _term(name, digit, part)
        for name, digits, part in zip(("%laneid", "i"), case.total.axes, (case.lanes, case.elements), strict=True)
        for digit in digits
        if digit.weight
    ]
    terms += [str(case.total.constant)] if case.total.constant or not terms else []
    return terms[0].removeprefix("(").removesuffix(")") if len(terms) == 1 and _bare(terms[0]) else " + ".join(terms)


def _bare(term: str) -> bool:
    """Whether a term is one pair of brackets and what is in it."""
    return term.startswith("(") and term.find(")") == len(term) - 1 and "(" not in term[1:]


def _term(name: str, digit: Digit, part: range) -> str:
    """A weighted field of an index that runs over ``part``, in brackets where a sum needs them."""
    if name == "%laneid" and (digit.step, digit.size) in _NAMES and len(part) == LANES:
        field, weight = _NAMES[digit.step, digit.size], digit.weight
    else:
        field, weight = _field(name, digit, part)
    return f"{field} * {weight}" if weight != 1 else field


def _field(name: str, digit: Digit, part: range) -> tuple[str, int]:
    """The field, and the weight that is left: none where the bits already stand where they count."""
    top = part.start == 0 and digit.step * digit.size >= part.stop
    if (digit.step & (digit.step - 1)) or (digit.size & (digit.size - 1)):
        return f"({name} / {digit.step} % {digit.size})", digit.weight
    if digit.weight == digit.step > 1:
        return f"({name} & 0x{(digit.size - 1) * digit.step:X})", 1
    shift = digit.step.bit_length() - 1
    shifted = f"({name} >> {shift})" if shift else name
    return (shifted if top else f"({shifted} & 0x{digit.size - 1:X})"), digit.weight


NOTATION = Notation(compose, read)
