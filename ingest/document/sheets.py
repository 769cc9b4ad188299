"""Sections become sheets, in the form of the catalogue's files, with references resolved.

What a document refers to but does not contain is taken from the shipped catalogue, from the same version of the
document where that is shipped, with a remark. Sheets become fragments with their elements, with a remark on each that
fails or looks wrong.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...db.errors import LanemapError
from ...db.isa.forms import forms
from ...db.isa.instructions import Key
from ...db.layout.formula import Formula, FormulaError, coverage, parse
from ...db.layout.fragment import Fragment, count_elements
from ...db.layout.structure import check
from .. import catalogue
from ..catalogue import Section as Sheet
from .blocks import at_most
from .entries import FragmentSection
from .sections import Kind, Remarks, subject
from .statements import Reference

PREFIX = "warp-level-matrix-fragment-"
#: Over all fragments, the elements in each lane. The manual has 1,700.
MAX_ELEMENTS = 20_000


class Sheets:
    """The sheets of a document by name, and the sections that they come from."""

    def __init__(self, sections: Sequence[FragmentSection], remarks: Remarks, version: str | None) -> None:
        """Bring sections into the form of the catalogue, with a remark on everything added to the document."""
        self.remarks = remarks
        # Of the shipped versions, the document's own comes first, then the newest.
        self.shipped = sorted(catalogue.sheets().items(), key=lambda known: known[0] != f"ptx-isa-{version}")
        self.sections = self._once(sections)
        self.said = {name: self._sheet(section, section.entries) for name, section in self.sections.items()}
        self.sheets = {
            name: self._sheet(section, [made for record in section.entries for made in self._stated(section, record)])
            for name, section in self.sections.items()
        }

    def _once(self, sections: Sequence[FragmentSection]) -> dict[str, FragmentSection]:
        """Each section once, by name. Of two with the same contents, the one with anchors is kept."""
        distinct: dict[object, FragmentSection] = {}
        for section in sections:
            head = section.place.heading
            told = (head.number, section.subject) if head.number or head.anchor else id(section)
            earlier = distinct.setdefault(told, section)
            other = earlier.place.heading
            if _contents(earlier) != _contents(section):
                where = f"{earlier.place.file}, line {other.line}"
                reason = f"another text of this section, in {where}, differs"
                self.remarks.add(Kind.UNREAD, section.place, head.line, head.title, reason)
            elif head.anchor and not other.anchor:
                distinct[told] = section
        names: dict[str, FragmentSection] = {}
        for section in distinct.values():
            # The end of its anchor, which is stable; without one, its number or title.
            head = section.place.heading
            words = f"section-{head.number}" if head.number else head.title.lower()
            name = (head.anchor or "").removeprefix(PREFIX) or re.sub(r"[^\w.\-]+", "-", words).strip("-.")
            while name in names:
                name += "-again"
            names[name] = section
        return names

    def _sheet(self, section: FragmentSection, entries: list[catalogue.Entry]) -> Sheet:
        head = section.place.heading
        sheet = {"section": head.number, "anchor": head.anchor, "heading": head.title, **section.subject._asdict()}
        sheet["fragment"] = entries
        return {key: value for key, value in sheet.items() if value or key == "fragment"}

    def _stated(self, section: FragmentSection, entry: catalogue.Entry) -> Iterator[catalogue.Entry]:
        if "reference" in entry:
            yield from self._referred(section, entry)
        elif entry["roles"] == ["E"]:
            yield entry | {"types": section.types("A")}
        else:
            yield entry

    def _referred(self, section: FragmentSection, entry: catalogue.Entry) -> Iterator[catalogue.Entry]:
        """The roles that refer to another section, with those of their types that it has."""
        reference: Reference = entry["reference"]
        of_a = {*section.types("A")}
        # What products of these types can be added to; for types that are new, all there is.
        added = {form.d for type_ in of_a for form in forms(a=type_)} or {form.d for form in forms() if of_a}
        for group, allowed in (("A", of_a), ("B", of_a), ("CD", added)):
            roles = [role for role in group if role in entry["roles"]]
            if roles:
                yield from self._target(section, reference, roles, allowed)

    def _target(
        self, section: FragmentSection, reference: Reference, roles: list[str], allowed: set[str]
    ) -> Iterator[catalogue.Entry]:
        """Roles as the sheet has them that is referred to, in this document or else in the catalogue."""
        own_sheets = {name: sheet for name, sheet in self.said.items() if self.sections[name] is not section}
        for source, sheets in [("", own_sheets), *self.shipped]:
            types = {name: [of for of in _types(sheet, roles[0]) if of in allowed] for name, sheet in sheets.items()}
            name = _closest({name: sheet for name, sheet in sheets.items() if types[name]}, reference)
            if name is None:
                continue
            stated = {"line": reference.line, "roles": roles}
            if not source:
                yield stated | {"types": types[name], "same_as": name}
                return
            where = f"{source} {sheets[name]['section']}"
            reason = f"{roles[0]}: not in this document: taken from {where}"
            self.remarks.add(Kind.NOTE, section.place, reference.line, reference.text, reason)
            for entry in sheets[name]["fragment"]:
                shared = [type_ for type_ in types[name] if type_ in entry["types"]]
                if shared and {*roles} <= {*entry["roles"]}:
                    yield entry | stated | {"types": shared, "as_in": where}
            return
        reason = f"{' and '.join(roles)}: neither this document nor the catalogue has what this refers to"
        self.remarks.add(Kind.UNREAD, section.place, reference.line, reference.text, reason)


def _contents(section: FragmentSection) -> list[dict[str, object]]:
    """The contents of a section, without anchors and lines, which not every conversion keeps."""
    lost = {"line": 0, "reference": None}
    return [record | lost | {"figures": [*record.get("figures", ())]} for record in section.entries]


def _types(sheet: Sheet, role: str) -> list[str]:
    return [type_ for entry in sheet["fragment"] if role in entry["roles"] for type_ in entry["types"]]


def _closest(sheets: Mapping[str, Sheet], reference: Reference) -> str | None:
    """The sheet with the anchor of a reference, else the one of its subject with the most similar title."""
    linked = [name for name, sheet in sheets.items() if reference.anchor and sheet.get("anchor") == reference.anchor]
    about = subject(reference.title)
    likely = linked or [name for name, sheet in sheets.items() if (sheet["instruction"], sheet["shape"]) == about]
    words = re.findall(r"[a-z]{3,}", reference.title.lower())

    def nearness(name: str) -> tuple[int, int]:
        """How many words of the title are in the reference, whole or shortened, and then how few are not."""
        parts = re.findall(r"[a-z]{3,}", sheets[name].get("heading", name).lower())
        shared = sum(any(word.startswith(part) for word in words) for part in parts)
        return shared, shared - len(parts)

    return max(likely, key=nearness, default=None)


def evaluate(sheets: Sheets) -> tuple[list[Fragment], dict[str, tuple[int, int]]]:
    """The first fragment of each key, and for each sheet the number of its fragments and rows.

    A formula that leaves an element without a place costs only its own fragments. If two sections agree on a fragment,
    the first names the second; one that disagrees is left out, with a remark.

    Raises:
        LanemapError: there are more elements than in any document of PTX.
    """
    by_key: dict[Key, Fragment] = {}
    counts: dict[str, tuple[int, int]] = {}
    elements = 0
    for name, section in sheets.sections.items():
        evaluated = []
        for fragment in _fragments(sheets, name):
            elements += fragment.per_thread
            at_most(MAX_ELEMENTS, elements, "elements in each lane")
            evaluated.append(fragment)
            first = by_key.setdefault(fragment.key, fragment)
            if first.digest != fragment.digest:
                reason = f"section {first.citation.section}, which was read first, disagrees"
                sheets.remarks.add(Kind.UNREAD, section.place, section.place.heading.line, str(fragment), reason)
            elif first is not fragment and fragment.citation.section:
                also = ", ".join(filter(None, (first.citation.also, fragment.citation.section)))
                by_key[fragment.key] = replace(first, citation=first.citation._replace(also=also))
        counts[name] = len(evaluated), count_elements(evaluated)
    return list(by_key.values()), counts


def _fragments(sheets: Sheets, name: str) -> Iterator[Fragment]:
    sheet = sheets.sheets[name]
    for entry in sheet["fragment"]:
        reported: set[str] = set()
        for key in catalogue.keys(sheet, entry):
            try:
                fragment = catalogue.fragment(sheets.sheets, sheet, entry, key)
            except LanemapError as error:
                reasons, kind = [str(error.__cause__ or error.__context__ or error)], Kind.UNREAD
                text = f"{' and '.join(entry['roles'])} of {', '.join(entry['types'])}"
            else:
                formula = fragment.citation.formula if fragment.citation.same_as is None and not reported else None
                reasons = list(slips(fragment, parse(formula), key.role.lower())) if formula else []
                kind, text = Kind.SLIP, str(fragment)
                yield fragment
            for reason in [reason for reason in dict.fromkeys(reasons) if reason not in reported]:
                reported.add(reason)
                sheets.remarks.add(kind, sheets.sections[name].place, entry["line"], text, reason)


def slips(fragment: Fragment, formula: Formula, letter: str) -> Iterator[str]:
    """Cases without an upper bound, elements that two cases cover, and what the structural checks find."""
    count = fragment.per_thread
    for name, cases in formula.items():
        try:
            masks = coverage(formula, name, letter, 2 * count)  # as far again as there are elements
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
