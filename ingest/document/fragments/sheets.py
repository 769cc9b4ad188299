"""Sections become sheets, in the form of the catalogue's files: references resolved, selectors filled in.

What a document refers to and does not hold itself is taken from the shipped catalogue, with a remark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ....db.grouped import grouped
from ... import catalogue
from ...catalogue import Section as Sheet
from ..entries import FragmentSection, StatedEntry
from ..entries.operands import Reference
from ..entries.selectors import Selectors
from ..report import Kind, Remarks
from ..sections import Subject, subject
from ..words import accumulators

PREFIX = "warp-level-matrix-fragment-"


class Sheets:
    """The sheets of a document by name, and the sections that they come from.

    ``borrowed`` ones are the shipped catalogue's, referred to but not read. ``lines`` says where each entry stands.
    """

    def __init__(self, sections: Sequence[FragmentSection], selectors: Selectors, remarks: Remarks) -> None:
        """Bring sections into the form of the catalogue, with a remark on what is not as the document alone has it."""
        self.selectors = selectors
        self.remarks = remarks
        self.sections = self._once(sections)
        self.borrowed: dict[str, Sheet] = {}
        self.lines: dict[str, list[int]] = {}
        self.sheets = {name: self._sheet(name, section) for name, section in self.sections.items()}

    def _once(self, sections: Iterable[FragmentSection]) -> dict[str, FragmentSection]:
        """Each section once. Given again with the same contents, the one with anchors stays."""
        found: list[FragmentSection] = []
        for section in sections:
            head = section.place.heading
            for index, kept in enumerate(found):
                other = kept.place.heading
                if (head.number or head.anchor) and (head.number, section.subject) == (other.number, kept.subject):
                    if _contents(kept) != _contents(section):
                        where = f"{kept.place.file}, line {other.line}"
                        reason = f"another text of this section stands in {where}, and differs"
                        self.remarks.add(Kind.UNREAD, section.place, head.line, head.title, reason)
                    elif head.anchor and not other.anchor:
                        found[index] = section
                    break
            else:
                found.append(section)
        names: dict[str, FragmentSection] = {}
        for section in found:
            name = _name(section)
            while name in names:
                name += "-again"
            names[name] = section
        return names

    def _sheet(self, name: str, section: FragmentSection) -> Sheet:
        stated = [(entry.line, each) for entry in section.entries for each in self._stated(section, entry)]
        self.lines[name] = [line for line, _ in stated]
        head = section.place.heading
        sheet: Sheet = {key: value for key, value in (("section", head.number), ("anchor", head.anchor)) if value}
        sheet |= section.subject._asdict()
        if section.computations:
            sheet["computations"] = [list(lanes) for lanes in section.computations]
        return sheet | {"fragment": [each for _, each in stated]}

    def _stated(self, section: FragmentSection, entry: StatedEntry) -> Iterator[catalogue.Entry]:
        if entry.reference:
            yield from self._referred(section, entry, entry.reference)
        elif entry.stated["roles"] == ["E"]:
            # One fragment for each type of A and each selector.
            alike = grouped(section.types("A"), lambda type_: self._selectors(section, entry, type_))
            for values, types in alike.items():
                yield entry.stated | {"types": types} | ({"selectors": list(values)} if values else {})
        else:
            yield entry.stated

    def _selectors(self, section: FragmentSection, entry: StatedEntry, type_: str) -> tuple[int, ...]:
        shape = section.subject.shape
        if found := self.selectors.get((shape, type_)):
            return found
        what = f"sparsity selectors of {shape} {type_}"
        for source, sheet in _shipped():
            for other in sheet["fragment"]:
                if sheet["shape"] == shape and other["roles"] == ["E"] and type_ in other["types"]:
                    reason = f"not said in what was read: as in {source}"
                    self.remarks.add(Kind.NOTE, section.place, entry.line, what, reason)
                    return tuple(other["selectors"])
        reason = "neither what was read nor the catalogue gives them"
        self.remarks.add(Kind.UNREAD, section.place, entry.line, what, reason)
        return ()

    def _referred(
        self, section: FragmentSection, entry: StatedEntry, reference: Reference
    ) -> Iterator[catalogue.Entry]:
        """The roles that are laid out as elsewhere, with the types of their own that are given there."""
        for group in (["A"], ["B"], ["C", "D"]):
            roles = [role for role in group if role in entry.stated["roles"]]
            if not roles:
                continue
            types = section.types("A")
            allowed = {*types} if group != ["C", "D"] else accumulators(types)
            name, there = self._target(section, reference, roles[0], allowed)
            if name:
                yield {"roles": roles, "types": [type_ for type_ in there if type_ in allowed], "same_as": name}
            else:
                reason = f"{' and '.join(roles)}: neither what was read nor the catalogue has what this refers to"
                self.remarks.add(Kind.UNREAD, section.place, reference.line, reference.text, reason)

    def _target(
        self, section: FragmentSection, reference: Reference, role: str, allowed: set[str]
    ) -> tuple[str | None, list[str]]:
        """The name of the sheet that is referred to, in what was read or else in the catalogue, and its types."""
        read = {
            name: (each.place.heading.anchor, each.subject, each.place.heading.title)
            for name, each in self.sections.items()
            if each is not section and {*each.types(role)} & allowed
        }
        if name := _closest(read, reference):
            return name, self.sections[name].types(role)
        for source, sheets in catalogue.sheets().items():
            shipped = {
                name: (sheet["anchor"], Subject(sheet["instruction"], sheet["shape"]), name)
                for name, sheet in sheets.items()
                if {*_types(sheet, role)} & allowed
            }
            if name := _closest(shipped, reference):
                where = f"{source} {sheets[name]['section']}"
                self.borrowed[name] = {**sheets[name], "section": where}
                reason = f"{role}: not in what was read: as in {where}"
                self.remarks.add(Kind.NOTE, section.place, reference.line, reference.text, reason)
                return name, _types(sheets[name], role)
        return None, []


def _name(section: FragmentSection) -> str:
    """The name of a section's sheet: the end of its anchor, which is stable; without one, its number or title."""
    head = section.place.heading
    if head.anchor:
        return head.anchor.removeprefix(PREFIX)
    words = f"section-{head.number}" if head.number else head.title.lower()
    return re.sub(r"[^\w.\-]+", "-", words).strip("-.")


def _contents(section: FragmentSection) -> list[dict[str, object]]:
    """What a section says, without anchors and lines, which not every conversion keeps."""
    return [each.stated | {"figures": [*each.stated.get("figures", ())]} for each in section.entries]


def _types(sheet: Sheet, role: str) -> list[str]:
    return [type_ for each in sheet["fragment"] if role in each["roles"] for type_ in each["types"]]


def _closest(there: Mapping[str, tuple[str | None, Subject, str]], reference: Reference) -> str | None:
    """The section that has the anchor of a reference, else the one of its subject whose title is nearest to it."""
    linked = [name for name, (anchor, _, _) in there.items() if reference.anchor and anchor == reference.anchor]
    about = subject(reference.title)
    likely = linked or [name for name, (_, of, _) in there.items() if of == about]
    words = re.findall(r"[a-z]{3,}", reference.title.lower())

    def nearness(name: str) -> tuple[int, int]:
        """How many words of the title stand in the reference, whole or shortened; and how few do not."""
        parts = re.findall(r"[a-z]{3,}", there[name][2].lower())
        shared = sum(any(word.startswith(part) for word in words) for part in parts)
        return shared, shared - len(parts)

    return max(likely, key=nearness, default=None)


def _shipped() -> Iterator[tuple[str, Sheet]]:
    return ((source, sheet) for source, sheets in catalogue.sheets().items() for sheet in sheets.values())
