"""Layouts as formulas in PTX's own notation, also those that the document only draws.

A coordinate is a sum of bit fields of ``%laneid`` and ``i``, in as few cases as halving the elements, then the lanes,
leads to. Where only some lanes hold elements, the cases of ``row`` say which. Where a warp does several products,
``computation`` counts from 1.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ..formula import coverage, evaluate_at, parse, value_at
from ..fragment import Fragment, elements
from ..instructions import WARP
from . import Notation, RefusedError
from .arithmetic import bits
from .digits import Array, Case
from .table import by_lane, cases_of, everywhere, holding

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
    held = by_lane(fragment)
    whole = everywhere(fragment, held)
    threads, values = whole["row"].shape
    tests = _test(fragment, "%laneid", threads, held.lanes), _test(fragment, "i", values, held.elements)
    window = whole["col_last"] - whole["col"]
    lines = _definition(fragment, "row", whole["row"], tests)
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


def _test(fragment: Fragment, name: str, count: int, numbers: Array) -> str:
    """The condition for one of ``count`` lanes or elements to be among these, empty where all are."""
    found = holding(count, numbers)
    if found is None:
        raise RefusedError(f"{fragment}: no bits of {name} tell which of them hold something")
    mask, value = found
    if not mask or mask == count - 1:
        return f"{name} = {value}" if mask else ""
    field = f"{name} % {mask + 1}" if mask & (mask + 1) == 0 else f"({name} & 0x{mask:X})"
    return f"{field} = {value}"


def _definition(fragment: Fragment, name: str, values: Array, tests: tuple[str, str] = ("", "")) -> list[str]:
    """The lines that define a coordinate over (lane, element), where these tests of the two hold."""
    cases = cases_of(fragment, name, values)
    texts = [bits(case, ("%laneid", "i"), _NAMES if fragment.threads == WARP else {}) for case in cases]
    # A case that began with a sign would go on with the condition of the case before it.
    texts = [f"0 - {text[1:]}" if text.startswith("-") else text for text in texts]
    clauses = [_clauses(case, values.shape, _LETTER[fragment.role], *tests) for case in cases]
    width = max(map(len, texts)) if any(clauses) else 0
    lines = [f"{text:<{width}}{clause}" for text, clause in zip(texts, clauses, strict=True)]
    margin = " " * len(f"{name} = ")
    return [(margin if place else f"{name} = ") + line for place, line in enumerate(lines)]


def _clauses(case: Case, shape: tuple[int, ...], letter: str, lane_test: str, element_test: str) -> str:
    """For which lanes and elements a case holds, as PTX says it."""
    (lanes, those), (threads, count) = case.parts, shape
    element = " && ".join(filter(None, (_between("i", those, count), element_test)))
    clause = f"  for {letter}i where {element}" if element else ""
    if len(those) == 1 < count and not element_test:
        clause = f"  for {letter}{those.start}"
    lane = " && ".join(filter(None, (_between("%laneid", lanes, threads), lane_test)))
    return clause + (f"  if {lane}" if lane else "")


def _between(name: str, part: range, count: int) -> str:
    if len(part) == count:
        return ""
    if len(part) == 1:
        return f"{name} = {part.start}"
    if part.start == 0:
        return f"{name} < {part.stop}"
    return f"{name} >= {part.start}" if part.stop == count else f"{part.start} <= {name} < {part.stop}"


NOTATION = Notation(compose, read)
