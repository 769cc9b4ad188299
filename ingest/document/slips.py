"""What is wrong or doubtful in the formulas of a document, though they can be read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...db.formula import Formula, FormulaError, coverage
from ...db.fragment import Fragment
from ...db.structure import check


def slips(fragment: Fragment, formula: Formula, letter: str) -> Iterator[str]:
    """Cases without an upper bound, elements that two cases cover, and what the structural checks find."""
    count = fragment.registers * fragment.slots
    for name, cases in formula.items():
        try:
            masks = coverage(formula, name, letter, count * _BEYOND)
        except FormulaError:
            continue
        yield from _unbounded(masks, [case.text for case in cases], count)
        twice = np.sum([mask[:, :count] for mask in masks], axis=0) > 1
        if twice.any():
            first = int(np.flatnonzero(twice.any(axis=0))[0])
            yield f"two cases of {name} cover {letter}{first}, the last is {cases[-1].text!r}"
    yield from check(fragment)


def _unbounded(
    masks: list[np.ndarray[tuple[int, ...], np.dtype[np.bool_]]], texts: list[str], count: int
) -> Iterator[str]:
    for mask, text in zip(masks, texts, strict=True):
        beyond, within = mask[:, count:], mask[:, :count]
        if ">" in text and beyond.all() and not within.all():
            yield f"a case without an upper bound: {text!r}"


_BEYOND = 2
