"""Sheets become fragments with their elements, with a remark where one cannot be had or looks wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ....db.errors import LanemapError
from ....db.formula import Formula, FormulaError, coverage, parse
from ....db.fragment import Fragment, count_elements
from ....db.instructions import Key
from ....db.structure import check
from ... import catalogue
from ..blocks import at_most
from ..entries import FragmentSection
from ..report import Kind, Remarks
from .sheets import Sheets

#: Over all fragments, the elements in each lane. The manual has 212 fragments.
MAX_FRAGMENTS = 2_000
MAX_ELEMENTS = 100_000


def evaluate(sheets: Sheets, remarks: Remarks) -> tuple[list[Fragment], dict[str, tuple[int, int]]]:
    """The first fragment of each key; by name of the sheet, how many there are and how many rows.

    A formula that leaves an element without a place costs only its own fragments.

    Raises:
        LanemapError: there are more elements than in any document of PTX.
    """
    kept: dict[Key, Fragment] = {}
    counts: dict[str, tuple[int, int]] = {}
    fragments = elements = 0
    for name, section in sheets.sections.items():
        found = []
        for fragment in _fragments(sheets, name, section, remarks):
            fragments, elements = fragments + 1, elements + fragment.registers * fragment.slots
            at_most(MAX_FRAGMENTS, fragments, "fragments")
            at_most(MAX_ELEMENTS, elements, "elements in each lane")
            found.append(fragment)
            _merge(kept, fragment, section, remarks)
        counts[name] = len(found), count_elements(found)
    return list(kept.values()), counts


def _fragments(sheets: Sheets, name: str, section: FragmentSection, remarks: Remarks) -> Iterator[Fragment]:
    sheet = sheets.sheets[name]
    known = {**sheets.borrowed, **sheets.sheets}
    for entry, line in zip(sheet["fragment"], sheets.lines[name], strict=True):
        said: set[str] = set()
        for key in catalogue.keys(sheet, entry):
            try:
                fragment = catalogue.fragment(known, sheet, entry, key)
            except LanemapError as error:
                reasons, kind = [str(error.__cause__ or error.__context__ or error)], Kind.UNREAD
                text = f"{' and '.join(entry['roles'])} of {', '.join(entry['types'])}"
            else:
                own = fragment.formula if fragment.same_as is None and not said else None
                reasons = list(slips(fragment, parse(own), key.role.lower())) if own else []
                kind, text = Kind.SLIP, str(fragment)
                yield fragment
            for reason in reasons:
                if reason not in said:
                    said.add(reason)
                    remarks.add(kind, section.place, line, text, reason)


def _merge(found: dict[Key, Fragment], fragment: Fragment, section: FragmentSection, remarks: Remarks) -> None:
    """Keep the first fragment of a key; another section that says the same of it is named, one that differs is not."""
    first = found.setdefault(fragment.key, fragment)
    if first.digest != fragment.digest:
        reason = f"section {first.section} says otherwise, and was read first"
        remarks.add(Kind.UNREAD, section.place, section.place.heading.line, str(fragment), reason)
    elif first is not fragment and fragment.section:
        found[fragment.key] = replace(first, also=", ".join(filter(None, (first.also, fragment.section))))


def slips(fragment: Fragment, formula: Formula, letter: str) -> Iterator[str]:
    """Cases without an upper bound, elements that two cases cover, and what the structural checks find."""
    count = fragment.registers * fragment.slots
    for name, cases in formula.items():
        try:
            masks = coverage(formula, name, letter, count * _BEYOND)
        except FormulaError:
            continue
        for case, mask in zip(cases, masks, strict=True):
            if ">" in case.text and mask[:, count:].all() and not mask[:, :count].all():
                yield f"a case without an upper bound: {case.text!r}"
        twice = np.sum([mask[:, :count] for mask in masks], axis=0) > 1
        if twice.any():
            first = int(np.flatnonzero(twice.any(axis=0))[0])
            yield f"two cases of {name} cover {letter}{first}, the last is {cases[-1].text!r}"
    yield from check(fragment)


_BEYOND = 2
