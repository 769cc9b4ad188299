"""Sections become entries of the catalogue: what each says of every operand, in the catalogue's terms.

What a row of a fragment table says in words, the list of its elements and the size of the matrix say the same thing
three times. Where they differ, the one of the first two that fills the matrix counts, and what the other says is a slip
of the document.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from ...db.errors import LanemapError
from ...db.isa.forms import Form, forms
from ...db.isa.instructions import WARP, computations, dimensions, instruction
from ...db.isa.types import TYPES
from ...db.layout.formula import FormulaError
from ...db.text import grouped
from .. import catalogue
from .addresses import by_four, by_row, is_transposed, rows_addressed
from .blocks import NUMBER, bits, number, types
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

    def _named(self) -> list[Form]:
        """The forms of a move whose shape and type the section names."""
        text, named = self.place.text, types(self.place.text)
        return [form for form in forms(self.subject.instruction) if f".{form.shape}" in text and form.a in named]

    def _moved(self) -> Iterator[catalogue.Entry]:
        """What threads hold of each matrix that a move has in the types that the section names, where words say it."""
        text = self.place.text
        alike = grouped(self._named(), lambda form: (form.shape, form.a, "trans" in (form.qualifiers or "")))
        for (shape, type_, turned), of in alike.items():
            if (count := by_row(text, shape)) and (not turned or is_transposed(text)):
                yield self._in_fours("r", shape, type_, count, of, turned=turned)

    def _turned(self) -> Iterator[catalogue.Entry]:
        """What threads hold of the matrix that movmatrix turns, and of the result."""
        held = by_four(self.place.text)
        for role in sorted({"A", "D"} - {*held}):
            self._untitled(f"the words do not say what threads hold of {role}")
        for form in forms(self.subject.instruction):
            for role, turned in held.items():
                count = dimensions(form.shape, role, form.name)[not turned] // 4
                yield self._in_fours(role, form.shape, form.a, count, [form], turned=turned)

    def _in_fours(
        self, role: str, shape: str, type_: str, count: int, of: Iterable[Form], *, turned: bool
    ) -> catalogue.Entry:
        """A layout of which four threads share a row, or a column, each with so many elements next to each other."""
        axes = ("col", "row") if turned else ("row", "col")
        formula = f"{axes[0]} = %laneid / 4\n{axes[1]} = (%laneid % 4) * {count} + i % {count}\n"
        stated = {"line": self.place.heading.line, "roles": [role], "types": [type_], "shape": shape}
        stated["qualifiers"] = [*dict.fromkeys(form.qualifiers or "" for form in of)]
        stated["formula"] = formula + f"computation = (i / {count}) + 1"
        return stated | {"mended": "put into a formula: the section says it in words"}

    def _addresses(self) -> Iterator[catalogue.Entry]:
        """The addresses of the rows of each matrix that a move has in the types that the section names."""
        text = self.place.text
        try:
            rows, matrices = rows_addressed(text)
        except LanemapError as error:
            self._untitled(str(error))
            return
        line = next(block.line for block in self.place.blocks if "addr0" in block.text)
        fit = (form for form in self._named() if dimensions(form.shape, "D")[0] == rows)
        for (shape, type_), of in grouped(fit, lambda form: (form.shape, form.a)).items():
            qualifiers = dict.fromkeys(form.qualifiers or "" for form in of)
            if lost := {name.partition(".")[0] for name in qualifiers} - matrices:
                self._unread(line, f"p of {shape} {type_}", f"the table has no row for {', '.join(sorted(lost))}")
            stated = {"line": line, "roles": ["p"], "types": [type_], "shape": shape, "lanes": rows}
            stated["qualifiers"] = [name for name in qualifiers if name.partition(".")[0] in matrices]
            formula = f"row = %laneid % {rows}\ncol = 0\ncomputation = (%laneid / {rows}) + 1"
            yield stated | {"formula": formula, "mended": "put into a formula: the section says it in a table"}

    def _entries(self) -> Iterator[catalogue.Entry]:
        if not instruction(self.subject.instruction).multiplies:
            if self.subject.instruction == "movmatrix":
                yield from self._turned()
            else:
                yield from self._moved()
                yield from self._addresses()
            return
        before, *stated = operands(self.place.blocks)
        for formula in chain.from_iterable(layout.formula for layout in before.layouts):
            self._unread(formula.line, formula.text, "a formula before any operand is named")
        if not stated:
            self._untitled("no operand is named under this heading")
        # Where an operand comes again, it belongs to a section whose heading was lost.
        named: set[str] = set()
        for index, operand in enumerate(stated):
            if operand.metadata or any(not group.empty for group in operand.groups):
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
            if operand.roles == ("E",):
                yield from self._metadata(operand)
                continue
            if reference := operand.reference:
                yield {"roles": list(reference.roles or operand.roles), "types": [], "reference": reference}
            groups = [group for group in operand.groups if not group.empty]
            if not groups and not {*operand.roles} <= referred:
                self._unread(operand.line, operand.text, f"nothing that can be read follows for {operand}")
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
        rows = [(row, self._held(operand, row)) for row in group.rows]
        if not rows:
            text = next((piece.text for layout in group.layouts for piece in layout.formula), operand.text)
            self._unread(group.line, text, f"no table gives types and registers for {operand}")
        ways = sorted({held for _, held in rows if held})
        if len(ways) > 1 and {*operand.roles} & {"A", "B"}:
            words = " and ".join(f"{registers} registers of {slots}" for registers, slots in ways)
            reason = f"one layout for types that are held differently: {words}"
            self.remarks.add(Kind.SLIP, self.place, group.line, operand.text, reason)
        layouts = [layout for layout in group.layouts if layout.figures or layout.formula]
        for row, _ in rows:
            if not any(layout.is_for(row) for layout in layouts):
                self._unread(row.line, row.prose, "neither a formula nor a figure says where the elements are")
        for layout in layouts:
            by_size: dict[tuple[int, int], list[str]] = {}
            for row, held in rows:
                if held and layout.is_for(row):
                    types = [name for name in row.types if not layout.types or name in layout.types]
                    by_size.setdefault(held, []).extend(types)
            if by_size:
                yield from self._layout(operand, layout, by_size)
            elif rows and not any(layout.is_for(row) for row, _ in rows):
                text = f"{operand} of {', '.join(layout.types)}"
                self._unread(layout.line, text, "a layout that no row of the table is for")

    def _layout(
        self, operand: StatedOperand, layout: StatedLayout, by_size: dict[tuple[int, int], list[str]]
    ) -> Iterator[catalogue.Entry]:
        line = layout.formula[0].line if layout.formula else layout.line
        common: dict[str, Any] = {"major": layout.major, "figures": layout.figures}
        if layout.formula:
            text = "\n".join(piece.text for piece in layout.formula)
            try:
                common["formula"], common["mended"] = read(text, self.mendings)
            except FormulaError as error:
                self._unread(line, text, f"{operand}: {error}")
                return
            if common["mended"]:
                self.remarks.add(Kind.MENDED, self.place, line, text, f"{operand}: {common['mended']}")
        else:
            words = f"{operand} of {', '.join(chain.from_iterable(by_size.values()))}"
            reason = f"figure-only: no formula beside figure {' and '.join(layout.figures)}"
            self.remarks.add(Kind.NOTE, self.place, line, words, reason)
        common = {key: value for key, value in common.items() if value is not None}
        for (registers, slots), alike_types in by_size.items():
            stated = {"line": line, "roles": list(operand.roles), "types": list(dict.fromkeys(alike_types))}
            yield stated | {"registers": registers, "slots": slots} | common

    def _held(self, operand: StatedOperand, row: Registers) -> tuple[int, int] | None:
        if not row.types:
            self._unread(row.line, row.prose, f"no type stands before this row for {operand}")
            return None
        for strange in [name for name in row.types if name not in TYPES]:
            if bits(strange) is None:
                reason = f".{strange} is not a type that Lanemap knows, nor how many bits it has"
                self._unread(row.line, row.prose, reason)
                return None
            self.remarks.add(Kind.NOTE, self.place, row.line, row.prose, f".{strange} is not a type that Lanemap knows")
        # Elements in each lane that fill the matrix; then as in "two .b32 registers, each holding four .s8 elements".
        role = operand.roles[0]
        rows, cols = dimensions(self.subject.shape, role)
        stored = 2 if role == "A" and instruction(self.subject.instruction).sparse else 1
        several = computations(*self.subject, row.types[0])
        expected = rows * cols * several // stored // WARP or None
        counted = _REGISTERS.search(row.prose)
        registers = number(counted["number"]) if counted else 0
        slots, slips = 0, list[str]()
        if counted and 0 < registers <= _MOST_REGISTERS:
            slots, slips = _slots(row, counted, registers, expected)
        if not slots:
            self._unread(row.line, row.prose, "the number of registers and elements cannot be read")
            return None
        for slip in slips:
            self.remarks.add(Kind.SLIP, self.place, row.line, row.prose, slip)
        return registers, slots

    def _metadata(self, operand: StatedOperand) -> Iterator[catalogue.Entry]:
        metadata = operand.metadata
        if metadata is None:
            self._unread(operand.line, operand.text, "the number of indices in the metadata cannot be read")
            return
        if (filled := metadata.vectors * metadata.bits) != _REGISTER_BITS:
            reason = f"these fill {filled} bits of a {_REGISTER_BITS}-bit register"
            text = f"{metadata.vectors} {metadata.bits}-bit vectors"
            self.remarks.add(Kind.SLIP, self.place, metadata.line, text, reason)
        figures = {number: anchor for layout in operand.layouts for number, anchor in layout.figures.items()}
        stated = {"line": metadata.line, "roles": ["E"], "types": []}
        yield stated | {"registers": metadata.registers, "slots": metadata.vectors, "figures": figures}


def _slots(row: Registers, counted: re.Match[str], registers: int, expected: int | None) -> tuple[int, list[str]]:
    """Slots of each register from the words of a row and its list of elements, and what in them cannot be so.

    0 where they do not fit. ``expected`` are the elements per lane that fill the matrix, if that is known.
    """
    in_words = registers if counted["type"] in row.types else None
    if per_register := _EACH.search(row.prose, counted.end()):
        in_words = number(per_register["number"]) * registers
    elif together := _TOGETHER.search(row.prose, counted.end()):
        in_words = number(together["number"])
    count, slips = elements(row.elements)
    named, speaks_of = {*row.types}, {*types(row.prose)} - (_OF_ANY_TYPE - {*row.types})
    consistent = speaks_of <= named and (not speaks_of - {counted["type"]} or speaks_of == named)
    if not consistent or not (speaks_of or counted["type"] in _OF_ANY_TYPE):
        slips.append(f"the row is for {', '.join(row.types)}, but speaks of {', '.join(sorted(speaks_of))}")
    choices = [total for total in (in_words, count) if total and total % registers == 0]
    total = next((choice for choice in choices if choice == expected), [*choices, expected or 0][0])
    if in_words and count and in_words != count:
        slips.append(f"{registers} registers hold {in_words} elements, but {count} are listed: {row.elements}")
    elif choices and expected and total != expected:
        slips.append(f"{total} elements in each lane, but the matrix has {expected}")
    slots, width = total // registers, bits(counted["type"]) or 32
    return (0 if any((bits(name) or 1) * slots > width for name in row.types) else slots), slips


def elements(listed: str) -> tuple[int, list[str]]:
    """How many elements a list names, and what is wrong with it.

    >>> elements("c0, c1, c1, c2")
    (4, ['c1 is listed twice: c0, c1, c1, c2', 'c3 is missing: c0, c1, c1, c2'])
    """
    names = re.findall(r"([abcd])(\d{1,3})\b|(\.{2,3})", listed)
    indices = [int(index) for _, index, _ in names if index]
    if not indices:
        return 0, []
    text = " ".join(listed.split())
    letter = names[0][0]
    slips = []
    if wrong := [wrong_letter + index for wrong_letter, index, _ in names if index and wrong_letter != letter]:
        slips.append(f"{wrong[0]} stands among {letter}0, {letter}1, ...: {text}")
    if re.search(r"\d\s?[.;]\s?[abcd]\d", listed):
        slips.append(f"a comma is missing: {text}")
    slips += [f"{letter}{index} is listed twice: {text}" for index in sorted({*indices}) if indices.count(index) > 1]
    count = max(max(indices) + 1, len(indices))
    skipped = any(dots for _, _, dots in names)
    missing = sorted({*range(count)} - {*indices}) if not skipped else [] if indices[0] == 0 else [0]
    slips += [f"{letter}{index} is missing: {text}" for index in missing[:3]]
    return count, slips


#: Registers that hold elements of other types than their own.
_OF_ANY_TYPE = {"b32", "f16x2", "bf16x2", "b64"}
#: PTX vectors of registers are far shorter; an absurd one is no reason to fill the memory.
_MOST_REGISTERS = 256
_REGISTERS = re.compile(rf"\b(?i:(?P<number>{NUMBER}))\s\.(?P<type>\w{{1,6}})\s{{1,2}}registers?\b")
_EACH = re.compile(rf"\beach(?:\sregister|\sof\s\w+)?\s(?:contain|hold)\w*\s(?P<number>{NUMBER})")
_TOGETHER = re.compile(rf"(?:contain|hold)\w*\s(?P<number>{NUMBER})\s(?!\d)")
_REGISTER_BITS = 32
