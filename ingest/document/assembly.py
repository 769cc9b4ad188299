"""The sections of a document brought into the form of the catalogue: references resolved, selectors filled in.

What a document refers to and does not hold itself is taken from the shipped catalogue, and said so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import catalogue
from ..catalogue import Entry as Stated
from ..catalogue import Section as Sheet
from .fragments import Entry, Section
from .marks import Same
from .remarks import Kind, Remark
from .sections import Subject, subject
from .selectors import Selectors
from .words import accumulators

PREFIX = "warp-level-matrix-fragment-"


@dataclass
class Assembly:
    """Sheets in the form of the catalogue's, by name, and the sections that they come from.

    ``borrowed`` ones are the shipped catalogue's, referred to but not read. ``lines`` says where each entry stands.
    """

    sections: dict[str, Section] = field(default_factory=dict)
    sheets: dict[str, Sheet] = field(default_factory=dict)
    borrowed: dict[str, Sheet] = field(default_factory=dict)
    lines: dict[tuple[str, int], int] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)


def assemble(sections: Sequence[Section], selectors: Selectors) -> Assembly:
    """The sheets of the sections, with a remark on everything that is not as the document alone has it."""
    assembler = _Assembler(sections, selectors)
    assembler.made.sections = assembler.sections
    for name, section in assembler.sections.items():
        assembler.add(name, section)
    return assembler.made


def stem(section: Section) -> str:
    """The name of a section's sheet: the end of its anchor, which is stable; without one, its number or title."""
    head = section.place.heading
    if head.anchor:
        return head.anchor.removeprefix(PREFIX)
    words = f"section-{head.number}" if head.number else head.title.lower()
    return re.sub(r"[^\w.\-]+", "-", words).strip("-.")


class _Assembler:
    def __init__(self, sections: Sequence[Section], selectors: Selectors) -> None:
        self.made = Assembly()
        self.selectors = selectors
        self.sections: dict[str, Section] = {}
        for section in sections:
            self._keep(section)

    def _keep(self, section: Section) -> None:
        """Keep a section once. Given again with the same contents, the one with anchors stays."""
        head = section.place.heading
        for name, kept in self.sections.items():
            other = kept.place.heading
            if (head.number or head.anchor) and head.number == other.number and kept.subject == section.subject:
                if _contents(kept) != _contents(section):
                    reason = f"another text of this section stands in {kept.place.file}, line {other.line}, and differs"
                    self._remark(Kind.UNREAD, section, head.line, head.title, reason)
                elif head.anchor and not other.anchor:
                    self.sections = {
                        (stem(section) if key == name else key): (section if key == name else each)
                        for key, each in self.sections.items()
                    }
                return
        name = stem(section)
        while name in self.sections:
            name += "-again"
        self.sections[name] = section

    def add(self, name: str, section: Section) -> None:
        """Add the sheet of a section."""
        stated: list[Stated] = []
        for entry in section.entries:
            for each in self._stated(section, entry):
                self.made.lines[name, len(stated)] = entry.line
                stated.append(each)
        head = section.place.heading
        sheet: Sheet = {key: value for key, value in (("section", head.number), ("anchor", head.anchor)) if value}
        sheet |= {"instruction": section.subject.instruction, "shape": section.subject.shape}
        if section.computations:
            sheet["computations"] = [list(lanes) for lanes in section.computations]
        self.made.sheets[name] = sheet | {"fragment": stated}

    def _stated(self, section: Section, entry: Entry) -> Iterable[Stated]:
        if entry.same:
            yield from self._referred(section, entry, entry.same)
            return
        stated: Stated = {"roles": list(entry.roles), "types": list(entry.types)}
        stated |= {"registers": entry.registers, "slots": entry.slots}
        stated |= {name: value for name in ("major", "mended") if (value := getattr(entry, name))}
        stated |= {"figures": dict(entry.figures)}
        if entry.formula:
            stated["formula"] = entry.formula
        if entry.roles == ("E",):
            yield from self._selected(section, entry, stated)
        else:
            yield stated

    def _selected(self, section: Section, entry: Entry, stated: Stated) -> Iterable[Stated]:
        """The metadata operand: one fragment for each type of A and each selector."""
        alike: dict[tuple[int, ...], list[str]] = {}
        for type_ in section.types_of_a:
            alike.setdefault(self._selectors(section, entry, type_), []).append(type_)
        for values, types in alike.items():
            yield stated | {"types": types} | ({"selectors": list(values)} if values else {})

    def _selectors(self, section: Section, entry: Entry, type_: str) -> tuple[int, ...]:
        shape = section.subject.shape
        if found := self.selectors.get((shape, type_)):
            return found
        what = f"sparsity selectors of {shape} {type_}"
        for source, sheets in _shipped().items():
            for sheet in sheets.values():
                for other in sheet["fragment"]:
                    if sheet["shape"] == shape and other["roles"] == ["E"] and type_ in other["types"]:
                        self._remark(Kind.NOTE, section, entry.line, what, f"not said in what was read: as in {source}")
                        return tuple(other["selectors"])
        self._remark(Kind.UNREAD, section, entry.line, what, "neither what was read nor the catalogue gives them")
        return ()

    def _referred(self, section: Section, entry: Entry, same: Same) -> Iterable[Stated]:
        """The roles that are laid out as elsewhere, with the types of their own that are said there."""
        roles = [role for role in entry.roles if role != "E"]
        for group in (["A"], ["B"], ["C", "D"]):
            if query := [role for role in group if role in roles]:
                types = section.types_of_a
                allowed = {*types} if group != ["C", "D"] else accumulators(types)
                name = self._target(section, same, query[0], allowed)
                if name is None:
                    reason = f"{' and '.join(query)}: neither what was read nor the catalogue has what this refers to"
                    self._remark(Kind.UNREAD, section, same.line, same.text, reason)
                    continue
                there = (
                    _types(self.sections[name].entries, query[0])
                    if name in self.sections
                    else [
                        type_
                        for each in self.made.borrowed[name]["fragment"]
                        if query[0] in each["roles"]
                        for type_ in each["types"]
                    ]
                )
                yield {"roles": query, "types": [type_ for type_ in there if type_ in allowed], "same_as": name}

    def _target(self, section: Section, same: Same, role: str, allowed: set[str]) -> str | None:
        """The name of the sheet that is referred to: in what was read, else in the catalogue."""
        having = {
            name: each
            for name, each in self.sections.items()
            if each is not section and {*_types(each.entries, role)} & allowed
        }
        heads = {name: each.place.heading for name, each in having.items()}
        linked = [name for name, head in heads.items() if same.anchor and head.anchor == same.anchor]
        about = subject(same.title)
        if likely := linked or [name for name, each in having.items() if each.subject == about]:
            return _closest(likely, [heads[name].title for name in likely], same.title)
        for source, sheets in _shipped().items():
            fitting = {name: sheet for name, sheet in sheets.items() if _has(sheet, role, allowed)}
            linked = [name for name, sheet in fitting.items() if same.anchor and sheet["anchor"] == same.anchor]
            titled = [name for name, sheet in fitting.items() if about == Subject(sheet["instruction"], sheet["shape"])]
            if likely := linked or titled:
                name = _closest(likely, likely, same.title)
                self.made.borrowed[name] = {**fitting[name], "section": f"{source} {fitting[name]['section']}"}
                reason = f"{role}: not in what was read: as in {self.made.borrowed[name]['section']}"
                self._remark(Kind.NOTE, section, same.line, same.text, reason)
                return name
        return None

    def _remark(self, kind: Kind, section: Section, line: int, text: str, reason: str) -> None:
        self.made.remarks.append(Remark(kind, section.place.file, line, section.place.name, text, reason))


def _contents(section: Section) -> list[tuple[Any, ...]]:
    """What a section says, without anchors and lines, which not every conversion keeps."""
    return [
        (each.roles, each.types, each.registers, each.slots, each.major, tuple(each.figures), each.formula)
        for each in section.entries
    ]


def _types(entries: Iterable[Entry], role: str) -> list[str]:
    return [type_ for each in entries if role in each.roles for type_ in each.types]


def _has(sheet: Sheet, role: str, allowed: set[str]) -> bool:
    return any(role in each["roles"] and {*each["types"]} & allowed for each in sheet["fragment"])


def _closest(names: list[str], titles: list[str], query: str) -> str:
    """The name whose title shares most words with the query one, whole or shortened."""
    words = re.findall(r"[a-z]{3,}", query.lower())

    def shared(title: str) -> int:
        return sum(any(word.startswith(part) for word in words) for part in re.findall(r"[a-z]{3,}", title.lower()))

    return max(zip(names, titles, strict=True), key=lambda pair: shared(pair[1]))[0]


def _shipped() -> dict[str, dict[str, Sheet]]:
    return catalogue.sheets()
