"""Sections become entries of the catalogue: what each says of every operand, in the catalogue's terms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ....db.formula import FormulaError
from ....db.instructions import TYPES, WARP, dimensions
from ... import catalogue
from ..report import Kind, Remarks
from ..sections import Section, Subject
from ..words import bits
from .formulas import read
from .operands import Reference, Registers, RegisterTable, StatedLayout, StatedOperand, operands
from .registers import LaneElements, held


@dataclass(frozen=True)
class StatedEntry:
    """What is said of some roles and types alike, as the catalogue has it.

    ``reference`` is where it is said, if not here.
    """

    line: int
    stated: catalogue.Entry
    reference: Reference | None = None


@dataclass(frozen=True)
class FragmentSection:
    """A fragment section as read."""

    place: Section
    subject: Subject
    entries: tuple[StatedEntry, ...]
    computations: tuple[tuple[int, ...], ...]
    remarks: Remarks

    def types(self, role: str) -> list[str]:
        """The types that the section gives a role in, in order."""
        of_role = (each.stated["types"] for each in self.entries if role in each.stated["roles"])
        return list(dict.fromkeys(type_ for types in of_role for type_ in types))


def read_section(place: Section, subject: Subject, mendings: Iterator[int]) -> FragmentSection:
    """What a section says, with a remark on whatever of it cannot be read.

    ``mendings`` yields a number for each formula that may be mended: to try all ways takes long.

    Raises:
        LanemapError: it says more than any section of PTX.
    """
    reader = _Reader(place, subject, mendings)
    section = FragmentSection(place, subject, tuple(reader.entries()), reader.computations, reader.remarks)
    reader.compare(section)
    return section


class _Reader:
    """Reads one section."""

    def __init__(self, place: Section, subject: Subject, mendings: Iterator[int]) -> None:
        self.place = place
        self.subject = subject
        self.remarks = Remarks()
        self.mendings = mendings
        self.computations = self._computations()

    def unread(self, line: int, text: str, reason: str) -> None:
        self.remarks.add(Kind.UNREAD, self.place, line, text, reason)

    def untitled(self, reason: str) -> None:
        """Remark on the section as a whole."""
        self.unread(self.place.heading.line, self.place.heading.title, reason)

    def entries(self) -> Iterator[StatedEntry]:
        before, *found = operands(self.place.blocks)
        for formula in chain.from_iterable(layout.formula for layout in before.layouts):
            self.unread(formula.line, formula.text, "a formula before any operand is named")
        if not found:
            self.untitled("no operand is named under this heading")
        found = self._of_one_shape(found)
        referred = {role for each in found if each.reference for role in (each.reference.roles or each.roles)}
        expected = "ABCDE" if self.subject.instruction == "mma.sp" else "ABCD"
        known = referred.union(*(each.roles for each in found))
        if found and (missing := [role for role in expected if role not in known]):
            self.untitled(f"nothing is said of {' and '.join(missing)}")
        for operand in found:
            yield from self._operand(operand, referred)

    def compare(self, section: FragmentSection) -> None:
        """A and B come in the same types, and in both majors or in one: what is missing was lost."""
        a, b = ({*section.types(role)} for role in "AB")
        if a and b and a != b:
            reason = " but ".join(f"{role} is for {', '.join(sorted(types))}" for role, types in (("A", a), ("B", b)))
            self.remarks.add(Kind.SLIP, self.place, self.place.heading.line, self.place.heading.title, reason)
        majors = {
            (role, each.stated["major"])
            for each in section.entries
            for role in each.stated["roles"]
            if role in "AB" and "major" in each.stated
        }
        for role, major in [(role, major) for role in "AB" for major in ("row", "col")]:
            if majors and (role, major) not in majors:
                self.untitled(f"no layout of {role} for {major} major, but the others are there")

    def _of_one_shape(self, found: list[StatedOperand]) -> list[StatedOperand]:
        """The operands up to where one comes again, which then belongs to a section whose heading was lost."""
        known: set[str] = set()
        for index, operand in enumerate(found):
            full = operand.metadata or any(not group.empty for group in operand.groups)
            if full and known & {*operand.roles}:
                reason = f"{operand} for the second time: the heading of another section may be missing before it"
                self.unread(operand.line, operand.text, reason)
                return found[:index]
            known |= {*operand.roles} if full else set()
        return found

    def _operand(self, operand: StatedOperand, referred: set[str]) -> Iterator[StatedEntry]:
        for formula in operand.second:
            self.unread(formula.line, formula.text, f"a second formula for {operand}")
        for cut in operand.stray:
            self.unread(cut.line, cut.text, f"{operand}: part of a formula or table that belongs to none")
        if operand.roles == ("E",):
            yield from self._metadata(operand)
            return
        if operand.reference:
            stated = {"roles": list(operand.reference.roles or operand.roles), "types": []}
            yield StatedEntry(operand.reference.line, stated, operand.reference)
        groups = [group for group in operand.groups if not group.empty]
        if not groups and not {*operand.roles} <= referred:
            self.unread(operand.line, operand.text, f"nothing that can be read follows for {operand}")
        for group in groups:
            yield from self._group(operand, group)

    def _group(self, operand: StatedOperand, group: RegisterTable) -> Iterator[StatedEntry]:
        rows = [(row, self._held(operand, row)) for row in group.rows]
        if not rows:
            text = next((piece.text for layout in group.layouts for piece in layout.formula), operand.text)
            self.unread(group.line, text, f"no table gives types and registers for {operand}")
        ways = sorted({(found.registers, found.slots) for _, found in rows if found})
        if len(ways) > 1 and {*operand.roles} & {"A", "B"}:
            words = " and ".join(f"{registers} registers of {slots}" for registers, slots in ways)
            reason = f"one layout for types that are held differently: {words}"
            self.remarks.add(Kind.SLIP, self.place, group.line, operand.text, reason)
        layouts = [layout for layout in group.layouts if layout.figures or layout.formula]
        for row, _ in rows:
            if not any(layout.is_for(row) for layout in layouts):
                self.unread(row.line, row.prose, "neither a formula nor a figure says where the elements are")
        for layout in layouts:
            alike: dict[tuple[int, int], list[str]] = {}
            for row, found in rows:
                if found and layout.is_for(row):
                    types = [name for name in row.types if not layout.types or name in layout.types]
                    alike.setdefault((found.registers, found.slots), []).extend(types)
            if alike:
                yield from self._layout(operand, layout, alike)
            elif rows and not any(layout.is_for(row) for row, _ in rows):
                text = f"{operand} of {', '.join(layout.types)}"
                self.unread(layout.line, text, "a layout that no row of the table is for")

    def _layout(
        self, operand: StatedOperand, layout: StatedLayout, alike: dict[tuple[int, int], list[str]]
    ) -> Iterator[StatedEntry]:
        line = layout.formula[0].line if layout.formula else layout.line
        common: dict[str, Any] = {"major": layout.major, "figures": layout.figures}
        if layout.formula:
            text = "\n".join(piece.text for piece in layout.formula)
            try:
                written = read(text, self.mendings)
            except FormulaError as error:
                self.unread(line, text, f"{operand}: {error}")
                return
            common |= {"formula": written.text, "mended": written.mended}
            if written.mended:
                self.remarks.add(Kind.MENDED, self.place, line, text, f"{operand}: {written.mended}")
        else:
            words = f"{operand} of {', '.join(name for types in alike.values() for name in types)}"
            reason = f"only drawn, without a formula, in figure {' and '.join(layout.figures)}"
            self.remarks.add(Kind.NOTE, self.place, line, words, reason)
        common = {key: value for key, value in common.items() if value is not None}
        for (registers, slots), types in alike.items():
            stated = {"roles": list(operand.roles), "types": list(dict.fromkeys(types))}
            yield StatedEntry(line, stated | {"registers": registers, "slots": slots} | common)

    def _held(self, operand: StatedOperand, row: Registers) -> LaneElements | None:
        if not row.types:
            self.unread(row.line, row.prose, f"no type stands before this row for {operand}")
            return None
        for strange in [name for name in row.types if name not in TYPES]:
            if bits(strange) is None:
                reason = f".{strange} is not a type that Lanemap knows, nor how many bits it has"
                self.unread(row.line, row.prose, reason)
                return None
            self.remarks.add(Kind.NOTE, self.place, row.line, row.prose, f".{strange} is not a type that Lanemap knows")
        found = held(row.prose, row.elements, row.types, self._expected(operand.roles[0]))
        if found is None:
            self.unread(row.line, row.prose, "the number of registers and elements cannot be read")
            return None
        for slip in found.slips:
            self.remarks.add(Kind.SLIP, self.place, row.line, row.prose, slip)
        return found

    def _expected(self, role: str) -> int | None:
        """Elements of a role in each lane."""
        rows, cols = dimensions(self.subject.shape, role)
        kept = 2 if role == "A" and self.subject.instruction == "mma.sp" else 1
        return rows * cols * max(1, len(self.computations)) // kept // WARP or None

    def _metadata(self, operand: StatedOperand) -> Iterator[StatedEntry]:
        said = operand.metadata
        if said is None:
            self.unread(operand.line, operand.text, "the number of indices in the metadata cannot be read")
            return
        if (filled := said.count * said.bits) != _REGISTER_BITS:
            reason = f"these fill {filled} bits of a {_REGISTER_BITS}-bit register"
            self.remarks.add(Kind.SLIP, self.place, said.line, f"{said.count} {said.bits}-bit vectors", reason)
        stated = {"roles": ["E"], "types": [], "registers": said.registers, "slots": said.count}
        figures = {number: anchor for layout in operand.layouts for number, anchor in layout.figures.items()}
        yield StatedEntry(said.line, stated | {"figures": figures})

    def _computations(self) -> tuple[tuple[int, ...], ...]:
        """The lanes of each of the products that a warp does at once, where the section gives several."""
        text = self.place.text
        found: dict[int, tuple[int, ...]] = {}
        for row in _COMPUTATION.finditer(text):
            ranges = re.findall(r"\b(\d{1,2})\s?-\s?(\d{1,2})\b", row["lanes"])
            lanes = tuple(lane for first, last in ranges for lane in range(int(first), int(last) + 1))
            if lanes:
                found.setdefault(int(row["number"]), lanes)
        several = _SEVERAL.search(text)
        count = int(several[1]) if several else len(found)
        shared = sorted(lane for lanes in found.values() for lane in lanes)
        if (found and shared != [*range(WARP)]) or [*found] != [*range(1, count + 1)]:
            words = several[0] if several else f"{len(found)} computations"
            reason = "the table that shares the lanes out to them cannot be read"
            self.unread(self.place.heading.line, words, reason)
            return ()
        return tuple(found.values())


_REGISTER_BITS = 32
_COMPUTATION = re.compile(r"\b[Cc]omputation (?P<number>\d)\b[\s|:]{1,9}(?P<lanes>(?:(?!omputation )[^|\n]){1,200})")
_SEVERAL = re.compile(r"\bcompute ([2-9]) MMA\b")
