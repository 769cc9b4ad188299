"""Sections become entries of the catalogue: what each says of every operand, in the catalogue's terms.

How many registers and slots an operand has follows from its matrix and its type, whatever a table says in words.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from ...db.isa.instructions import instruction
from ...db.isa.types import TYPES
from ...db.layout.formula import FormulaError
from .. import catalogue
from .blocks import types
from .formulas import read
from .sections import Kind, Remarks, Section, Subject
from .statements import Registers, RegisterTable, StatedLayout, StatedOperand, operands


class FragmentSection:
    """A fragment section as read, with a remark on whatever of it cannot be read.

    ``entries`` have the form of the catalogue's, and beside it the ``line`` where each is stated, or the ``reference``
    to where it is, if that is elsewhere.
    """

    def __init__(self, place: Section, subject: Subject, mendings: Iterator[int]) -> None:
        """Read a section.

        ``mendings`` yields a number for each formula that may be mended: to try all ways takes long.
        """
        self.place = place
        self.subject = subject
        self.remarks = Remarks()
        self.mendings = mendings
        self.entries = list(self._entries())
        self._compare()

    def types(self, role: str) -> list[str]:
        """The types that the section gives a role in, in order."""
        types = (type_ for record in self.entries if role in record["roles"] for type_ in record["types"])
        return list(dict.fromkeys(types))

    def _unread(self, line: int, text: str, reason: str) -> None:
        self.remarks.add(Kind.UNREAD, self.place, line, text, reason)

    def _untitled(self, reason: str) -> None:
        """Remark on the section as a whole."""
        self._unread(self.place.heading.line, self.place.heading.title, reason)

    def _entries(self) -> Iterator[catalogue.Entry]:
        before, *stated = operands(self.place.blocks)
        for formula in chain.from_iterable(layout.formula for layout in before.layouts):
            self._unread(formula.line, formula.text, "a formula before any operand is named")
        if not stated:
            self._untitled("no operand is named under this heading")
        # Where an operand comes again, it belongs to a section whose heading was lost.
        named: set[str] = set()
        for index, operand in enumerate(stated):
            if any(not group.empty for group in operand.groups):
                if named & {*operand.roles}:
                    reason = f"{operand} for the second time: the heading of another section may be missing before it"
                    self._unread(operand.line, operand.text, reason)
                    stated = stated[:index]
                    break
                named |= {*operand.roles}
        referred = {
            role for operand in stated if operand.reference for role in (operand.reference.roles or operand.roles)
        }
        expected = "ABCDE" if instruction(self.subject.instruction).sparse else "ABCD"
        known = referred.union(*(operand.roles for operand in stated))
        if stated and (missing := [role for role in expected if role not in known]):
            self._untitled(f"nothing is said of {' and '.join(missing)}")
        for operand in stated:
            for formula in operand.second:
                self._unread(formula.line, formula.text, f"a second formula for {operand}")
            for cut in operand.stray:
                self._unread(cut.line, cut.text, f"{operand}: part of a formula or table that belongs to none")
            if reference := operand.reference:
                yield {"roles": list(reference.roles or operand.roles), "types": [], "reference": reference}
            groups = [group for group in operand.groups if not group.empty]
            if not groups and not {*operand.roles} <= referred:
                self._unread(operand.line, operand.text, f"nothing that can be read follows for {operand}")
            if groups and operand.roles == ("E",):
                figures = {number: anchor for layout in operand.layouts for number, anchor in layout.figures.items()}
                yield {"line": operand.line, "roles": ["E"], "types": [], "figures": figures}
                continue
            for group in groups:
                yield from self._group(operand, group)

    def _compare(self) -> None:
        """A and B come in the same types, and in both majors or in one: what is missing was lost."""
        a, b = ({*self.types(role)} for role in "AB")
        if a and b and a != b:
            reason = " but ".join(f"{role} is for {', '.join(sorted(types))}" for role, types in (("A", a), ("B", b)))
            self.remarks.add(Kind.SLIP, self.place, self.place.heading.line, self.place.heading.title, reason)
        majors = {
            (role, record["major"])
            for record in self.entries
            for role in record["roles"]
            if role in "AB" and "major" in record
        }
        for role, major in [(role, major) for role in "AB" for major in ("row", "col")]:
            if majors and (role, major) not in majors:
                self._untitled(f"no layout of {role} for {major} major, but the others are there")

    def _group(self, operand: StatedOperand, group: RegisterTable) -> Iterator[catalogue.Entry]:
        rows = [(row, self._types(operand, row)) for row in group.rows]
        if not rows:
            text = next((piece.text for layout in group.layouts for piece in layout.formula), operand.text)
            self._unread(group.line, text, f"no table gives types for {operand}")
        layouts = [layout for layout in group.layouts if layout.figures or layout.formula]
        for row, _ in rows:
            if not any(layout.is_for(row) for layout in layouts):
                self._unread(row.line, row.prose, "neither a formula nor a figure says where the elements are")
        for layout in layouts:
            known = chain.from_iterable(types for _, types in rows)
            types = [name for name in dict.fromkeys(known) if not layout.types or name in layout.types]
            if types:
                yield from self._layout(operand, layout, types)
            elif rows and not any(layout.is_for(row) for row, _ in rows):
                text = f"{operand} of {', '.join(layout.types)}"
                self._unread(layout.line, text, "a layout that no row of the table is for")

    def _layout(self, operand: StatedOperand, layout: StatedLayout, types: list[str]) -> Iterator[catalogue.Entry]:
        line = layout.formula[0].line if layout.formula else layout.line
        stated: dict[str, Any] = {"line": line, "roles": list(operand.roles), "types": types, "major": layout.major}
        stated["figures"] = layout.figures
        if layout.formula:
            text = "\n".join(piece.text for piece in layout.formula)
            try:
                stated["formula"], stated["mended"] = read(text, self.mendings)
            except FormulaError as error:
                self._unread(line, text, f"{operand}: {error}")
                return
            if stated["mended"]:
                self.remarks.add(Kind.MENDED, self.place, line, text, f"{operand}: {stated['mended']}")
        else:
            words = f"{operand} of {', '.join(types)}"
            reason = f"only drawn, without a formula, in figure {' and '.join(layout.figures)}"
            self.remarks.add(Kind.NOTE, self.place, line, words, reason)
        yield {key: value for key, value in stated.items() if value is not None}

    def _types(self, operand: StatedOperand, row: Registers) -> list[str]:
        """The types of a row that are known."""
        if not row.types:
            self._unread(row.line, row.prose, f"no type stands before this row for {operand}")
        for name in row.types:
            if name not in TYPES:
                self._unread(row.line, row.prose, f".{name} is not a type that Lanemap knows")
        if others := {*types(row.prose)} - {*row.types} - _OF_ANY_TYPE:
            reason = f"the row is for {', '.join(row.types)}, but speaks of {', '.join(sorted(others))}"
            self.remarks.add(Kind.SLIP, self.place, row.line, row.prose, reason)
        return [name for name in row.types if name in TYPES]


#: Registers that hold elements of other types than their own.
_OF_ANY_TYPE = {"b32", "f16x2", "bf16x2", "b64"}
