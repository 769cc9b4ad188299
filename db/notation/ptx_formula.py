"""Layouts as formulas in PTX's own notation, also those that the document only draws.

A coordinate is a sum of bit fields of ``%laneid`` and ``i``, in as few cases as halving the elements, then the lanes,
leads to. Where only some lanes hold elements, the cases of ``row`` say which. Where a warp does several products,
``computation`` counts from 1.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formula import coverage, evaluate_at, parse, value_at
from ..fragment import Fragment, elements
from ..instructions import WARP
from . import Notation
from .arithmetic import bits
from .digits import Case
from .table import by_lane, cases_of, everywhere, holding, located, refusal

Array = NDArray[Any]

#: What PTX calls the elements of a role; those of matrix moves, which have no formulas, are called like those of A.
_LETTER = defaultdict(lambda: "a", {"A": "a", "B": "b", "C": "c", "D": "c", "E": "e"})

#: What PTX calls two fields of the lane in every section about a warp.
_NAMES = {("%laneid", 4, 8): "groupID", ("%laneid", 1, 4): "threadID_in_group"}
_DEFINITIONS = {"groupID": "groupID = %laneid >> 2", "threadID_in_group": "threadID_in_group = %laneid % 4"}


def compose(fragment: Fragment, name: str) -> str:  # noqa: ARG001 - a formula has no name
    """The definitions of ``row`` and ``col``, after those that they use, and of ``computation`` if there are several.

    Raises:
        RefusedError: a coordinate takes more cases than a formula should have.
    """
    lanes, coordinates = by_lane(fragment)
    whole, test = everywhere(fragment, lanes, coordinates), _test(fragment, lanes)
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
    held = np.any(coverage(formula, "row", letter, fragment.registers * fragment.slots, fragment.threads), axis=0)
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


def _test(fragment: Fragment, lanes: Array) -> str:
    """The condition for a lane to hold anything, empty where all do."""
    found = holding(fragment, lanes)
    if found is None:
        why = "is held by a lane that no bits of its number distinguish from those that hold nothing"
        raise refusal(fragment, located(fragment, int(lanes[0]), 0), why)
    mask, value = found
    if not mask:
        return ""
    field = f"%laneid % {mask + 1}" if mask & (mask + 1) == 0 else f"(%laneid & 0x{mask:X})"
    return f"{field} = {value}"


def _definition(fragment: Fragment, name: str, values: Array, test: str = "") -> list[str]:
    """The lines that define a coordinate over (lane, element), where ``test`` holds for the lane."""
    cases = cases_of(fragment, name, values)
    texts = [bits(case, ("%laneid", "i"), _NAMES if fragment.threads == WARP else {}) for case in cases]
    clauses = [_clauses(case, values.shape, _LETTER[fragment.role], test) for case in cases]
    width = max(map(len, texts)) if any(clauses) else 0
    lines = [f"{text:<{width}}{clause}" for text, clause in zip(texts, clauses, strict=True)]
    margin = " " * len(f"{name} = ")
    return [(margin if place else f"{name} = ") + line for place, line in enumerate(lines)]


def _clauses(case: Case, shape: tuple[int, ...], letter: str, test: str) -> str:
    """For which lanes and elements a case holds, as PTX says it."""
    (lanes, those), (threads, count) = case.parts, shape
    element = _between("i", those, count)
    clause = f"  for {letter}i where {element}" if element else ""
    if len(those) == 1 < count:
        clause = f"  for {letter}{those.start}"
    tests = [each for each in (_between("%laneid", lanes, threads), test) if each]
    return clause + (f"  if {' && '.join(tests)}" if tests else "")


def _between(name: str, part: range, count: int) -> str:
    if len(part) == count:
        return ""
    if len(part) == 1:
        return f"{name} = {part.start}"
    if part.start == 0:
        return f"{name} < {part.stop}"
    return f"{name} >= {part.start}" if part.stop == count else f"{part.start} <= {name} < {part.stop}"


NOTATION = Notation(compose, read)
