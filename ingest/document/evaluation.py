"""The sheets of a document evaluated: fragments with their elements, and a remark where one cannot be had."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ...db.errors import LanemapError
from ...db.fragment import Fragment
from .. import catalogue
from .assembly import Assembly
from .formulas import read
from .fragments import Section
from .remarks import Kind, Remark
from .slips import slips


@dataclass
class Evaluated:
    """Fragments, the first of each key; by name of the sheet, how many there are and how many rows; remarks."""

    fragments: dict[object, Fragment] = field(default_factory=dict)
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)


def evaluate(assembly: Assembly) -> Evaluated:
    """Every fragment of every sheet. A formula that leaves an element without a place costs only its own fragments."""
    made = Evaluated()
    for name, section in assembly.sections.items():
        fragments = list(_fragments(assembly, name, section, made.remarks))
        rows = sum(len(each.elements) for each in fragments if each.elements is not None)
        made.counts[name] = (len(fragments), rows)
        for fragment in fragments:
            _merge(made, fragment, section)
    return made


def _fragments(assembly: Assembly, name: str, section: Section, remarks: list[Remark]) -> Iterator[Fragment]:
    sheet = assembly.sheets[name]
    sheets = {**assembly.borrowed, **assembly.sheets}
    for index, entry in enumerate(sheet["fragment"]):
        line = assembly.lines[name, index]
        said: set[str] = set()
        for role in entry["roles"]:
            for type_ in entry["types"]:
                for selector in entry.get("selectors", [None]):
                    try:
                        fragment = catalogue.fragment(sheets, sheet, entry, role, type_, selector)
                    except LanemapError as error:
                        if (reason := str(error.__cause__ or error.__context__ or error)) not in said:
                            said.add(reason)
                            text = f"{' and '.join(entry['roles'])} of {', '.join(entry['types'])}"
                            remarks.append(_remark(Kind.UNREAD, section, line, text, reason))
                        continue
                    if fragment.formula and fragment.same_as is None and not said and role != "D":
                        for reason in slips(fragment, read(fragment.formula).formula, role.lower()):
                            if reason not in said:
                                said.add(reason)
                                remarks.append(_remark(Kind.SLIP, section, line, str(fragment), reason))
                    yield fragment


def _merge(made: Evaluated, fragment: Fragment, section: Section) -> None:
    """Keep the first fragment of a key; another section that says the same of it is named, one that differs is not."""
    first = made.fragments.setdefault(fragment.key, fragment)
    if first is fragment:
        return
    if first.digest != fragment.digest:
        reason = f"section {first.section} says otherwise, and was read first"
        made.remarks.append(_remark(Kind.UNREAD, section, section.place.heading.line, str(fragment), reason))
    elif fragment.section:
        also = ", ".join(filter(None, (first.also, fragment.section)))
        made.fragments[fragment.key] = replace(first, also=also)


def _remark(kind: Kind, section: Section, line: int, text: str, reason: str) -> Remark:
    return Remark(kind, section.place.file, line, section.place.name, text, reason)
