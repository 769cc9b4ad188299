"""One fragment section read: what it says of each operand, in the terms of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...db.errors import LanemapError
from ...db.fragment import LANES, dimensions
from . import marks as m
from .formulas import read
from .operands import Group, Operand, Part, gather
from .registers import Held, held
from .remarks import Kind, Remark
from .sections import Place, Subject
from .words import KNOWN, bits


@dataclass(frozen=True)
class Entry:
    """What is said of some roles and types alike. ``same``: where else it is said, if not here."""

    line: int
    roles: tuple[str, ...]
    types: tuple[str, ...] = ()
    registers: int = 0
    slots: int = 0
    major: str | None = None
    figures: dict[str, str] = field(default_factory=dict)
    formula: str | None = None
    mended: str | None = None
    same: m.Same | None = None


@dataclass(frozen=True)
class Section:
    """A fragment section as read, with what there is to remark on it."""

    place: Place
    subject: Subject
    entries: tuple[Entry, ...]
    computations: tuple[tuple[int, ...], ...]
    remarks: tuple[Remark, ...]

    @property
    def types_of_a(self) -> tuple[str, ...]:
        """The types of the section's multiplicand A, which its other operands follow."""
        return tuple(dict.fromkeys(type_ for each in self.entries if "A" in each.roles for type_ in each.types))


def read_section(place: Place, subject: Subject) -> Section:
    """What a section says, and out loud whatever of it cannot be read."""
    reader = _Reader(place, subject)
    entries = tuple(reader.entries())
    reader.compare(entries)
    return Section(place, subject, entries, reader.computations, tuple(reader.remarks))


class _Reader:
    """Reads one section and gathers the remarks on it."""

    def __init__(self, place: Place, subject: Subject) -> None:
        self.place = place
        self.subject = subject
        self.remarks: list[Remark] = []
        self.computations = self._computations()

    def remark(self, kind: Kind, line: int, text: str, reason: str) -> None:
        short = " ".join(text.split())
        short = short if len(short) <= _LONGEST_EXCERPT else short[:_LONGEST_EXCERPT] + " ..."
        self.remarks.append(Remark(kind, self.place.file, line, self.place.name, short, reason))

    def entries(self) -> Iterator[Entry]:
        stray, *operands = gather(m.marks(list(self.place.blocks)))
        for formula in [piece for group in stray.groups for part in group.parts for piece in part.formula]:
            self.remark(Kind.UNREAD, formula.line, formula.text, "a formula before any operand is named")
        if not operands:
            line, title = self.place.heading.line, self.place.heading.title
            self.remark(Kind.UNREAD, line, title, "no operand is named under this heading")
        operands = self._of_one_shape(operands)
        self._unsaid(operands)
        covered = self._referred(operands)
        for operand in operands:
            for formula in operand.loose:
                self.remark(Kind.UNREAD, formula.line, formula.text, f"a second formula for {_named(operand)}")
            for cut in operand.stray:
                self.remark(
                    Kind.UNREAD,
                    cut.line,
                    cut.text,
                    f"{_named(operand)}: part of a formula or table that belongs to none",
                )
            if operand.roles == ("E",):
                yield from self._metadata(operand)
                continue
            if operand.same:
                yield Entry(operand.same.line, operand.same.roles or operand.roles, same=operand.same)
            groups = [group for group in operand.groups if not group.empty]
            if not groups and not {*operand.roles} <= covered:
                self.remark(
                    Kind.UNREAD, operand.line, operand.text, f"nothing that can be read follows for {_named(operand)}"
                )
            for group in groups:
                yield from self._group(operand, group)

    def compare(self, entries: tuple[Entry, ...]) -> None:
        """A and B come in the same types, and in both majors or in one: what is missing was lost."""
        line, title = self.place.heading.line, self.place.heading.title
        a, b = ({type_ for each in entries if role in each.roles for type_ in each.types} for role in "AB")
        if a and b and a != b:
            words = [f"{role} is for {', '.join(sorted(types))}" for role, types in (("A", a), ("B", b))]
            self.remark(Kind.SLIP, line, title, " but ".join(words))
        majors = {(role, each.major) for each in entries for role in each.roles if role in "AB" and each.major}
        for role, major in [(role, major) for role in "AB" for major in ("row", "col")]:
            if majors and (role, major) not in majors:
                self.remark(
                    Kind.UNREAD, line, title, f"no layout of {role} for {major} major, but the others are there"
                )

    def _of_one_shape(self, operands: list[Operand]) -> list[Operand]:
        """The operands up to where one comes again, which then belongs to a section whose heading was lost."""
        told: set[str] = set()
        for index, operand in enumerate(operands):
            full = operand.metadata or any(not group.empty for group in operand.groups)
            if full and told & {*operand.roles}:
                reason = (
                    f"{_named(operand)} for the second time: the heading of another section may be missing before it"
                )
                self.remark(Kind.UNREAD, operand.line, operand.text, reason)
                return operands[:index]
            told |= {*operand.roles} if full else set()
        return operands

    def _unsaid(self, operands: list[Operand]) -> None:
        """Every section says something of every operand, or has lost it on the way here."""
        told = {role for each in operands for role in each.roles} | self._referred(operands)
        query = "ABCDE" if self.subject.instruction == "mma.sp" else "ABCD"
        if operands and (missing := [role for role in query if role not in told]):
            line, title = self.place.heading.line, self.place.heading.title
            self.remark(Kind.UNREAD, line, title, f"nothing is said of {' and '.join(missing)}")

    def _referred(self, operands: list[Operand]) -> set[str]:
        return {role for each in operands if each.same for role in (each.same.roles or each.roles)}

    def _group(self, operand: Operand, group: Group) -> Iterator[Entry]:
        rows = [(row, self._held(operand, row)) for row in group.rows]
        if not rows:
            text = next((piece.text for part in group.parts for piece in part.formula), operand.text)
            self.remark(Kind.UNREAD, group.line, text, f"no table gives types and registers for {_named(operand)}")
        ways = {(found.registers, found.slots) for _, found in rows if found}
        if len(ways) > 1 and {*operand.roles} & {"A", "B"}:
            words = " and ".join(f"{registers} registers of {slots}" for registers, slots in sorted(ways))
            self.remark(Kind.SLIP, group.line, operand.text, f"one layout for types that are held differently: {words}")
        parts = [part for part in group.parts if part.figures or part.formula]
        for row, _ in rows:
            if not any(self._meant(part, row) for part in parts):
                self.remark(
                    Kind.UNREAD, row.line, row.prose, "neither a formula nor a figure says where the elements are"
                )
        for part in parts:
            alike: dict[tuple[int, int, bool], list[str]] = {}
            lines: dict[tuple[int, int, bool], int] = {}
            for row, found in rows:
                if found and self._meant(part, row):
                    types = [name for name in row.types if not part.types or name in part.types]
                    key = (found.registers, found.slots, "f64" in types)
                    alike.setdefault(key, []).extend(types)
                    lines.setdefault(key, row.line)
            if alike:
                yield from self._entries(operand, part, alike)
            elif rows and not any(self._meant(part, row) for row, _ in rows):
                text = f"{_named(operand)} of {', '.join(part.types)}"
                self.remark(Kind.UNREAD, part.line, text, "a layout that no row of the table is for")

    def _meant(self, part: Part, row: m.Registers) -> bool:
        return not part.types or bool({*part.types} & {*row.types})

    def _entries(self, operand: Operand, part: Part, alike: dict[tuple[int, int, bool], list[str]]) -> Iterator[Entry]:
        formula = mended = None
        if not part.formula:
            words = f"{_named(operand)} of {', '.join(name for types in alike.values() for name in types)}"
            figures = " and ".join(part.figures)
            self.remark(Kind.NOTE, part.line, words, f"only drawn, without a formula, in figure {figures}")
        line = part.formula[0].line if part.formula else part.line
        if part.formula:
            text = "\n".join(piece.text for piece in part.formula)
            try:
                written = read(text)
            except LanemapError as error:
                self.remark(Kind.UNREAD, line, text, f"{_named(operand)}: {error}")
                return
            formula, mended = written.text, written.mended
            if mended:
                self.remark(Kind.MENDED, line, text, f"{_named(operand)}: {mended}")
        for (registers, slots, _), types in alike.items():
            names = tuple(dict.fromkeys(types))
            yield Entry(line, operand.roles, names, registers, slots, part.major, dict(part.figures), formula, mended)

    def _held(self, operand: Operand, row: m.Registers) -> Held | None:
        if not row.types:
            self.remark(Kind.UNREAD, row.line, row.prose, f"no type stands before this row for {_named(operand)}")
            return None
        if strange := [name for name in row.types if name not in KNOWN]:
            known = bits(strange[0]) is not None
            reason = f".{strange[0]} is no type that Lanemap knows" + ("" if known else ", nor how many bits it has")
            self.remark(Kind.NOTE if known else Kind.UNREAD, row.line, row.prose, reason)
            if not known:
                return None
        found = held(row.prose, row.elements, row.types, self._expected(operand.roles[0]))
        if found is None:
            self.remark(Kind.UNREAD, row.line, row.prose, "the number of registers and elements cannot be read")
            return None
        for slip in found.slips:
            self.remark(Kind.SLIP, row.line, row.prose, slip)
        return found

    def _expected(self, role: str) -> int | None:
        """Elements of a role in each lane."""
        rows, cols = dimensions(self.subject.shape, role)
        kept = 2 if role == "A" and self.subject.instruction == "mma.sp" else 1
        cells = rows * cols * max(1, len(self.computations))
        return cells // kept // LANES or None

    def _metadata(self, operand: Operand) -> Iterator[Entry]:
        told = operand.metadata
        figures = {
            number: anchor
            for group in operand.groups
            for part in group.parts
            for number, anchor in part.figures.items()
        }
        if told is None:
            self.remark(Kind.UNREAD, operand.line, operand.text, "the number of indices in the metadata cannot be read")
            return
        if told.count * told.bits != _REGISTER_BITS:
            text = f"{told.count} {told.bits}-bit vectors"
            self.remark(
                Kind.SLIP,
                told.line,
                text,
                f"these fill {told.count * told.bits} bits of a {_REGISTER_BITS}-bit register",
            )
        yield Entry(told.line, ("E",), (), told.registers, told.count, figures=figures)

    def _computations(self) -> tuple[tuple[int, ...], ...]:
        """The lanes of each of the products that a warp does at once, where the section tells them apart."""
        text = self.place.text
        found: dict[int, tuple[int, ...]] = {}
        for row in _COMPUTATION.finditer(text):
            ranges = re.findall(r"\b(\d{1,2})\s?-\s?(\d{1,2})\b", row["lanes"])
            lanes = tuple(lane for first, last in ranges for lane in range(int(first), int(last) + 1))
            if lanes:
                found.setdefault(int(row["number"]), lanes)
        told = _SEVERAL.search(text)
        whole = sorted(lane for lanes in found.values() for lane in lanes) == list(range(LANES))
        if (found and (not whole or [*found] != [*range(1, len(found) + 1)])) or (told and int(told[1]) != len(found)):
            text = told[0] if told else f"{len(found)} computations"
            self.remark(
                Kind.UNREAD, self.place.heading.line, text, "the table that shares the lanes out to them cannot be read"
            )
            return ()
        return tuple(found.values())


def _named(operand: Operand) -> str:
    return " and ".join(operand.roles) if operand.roles else "the operand"


_LONGEST_EXCERPT = 160
_REGISTER_BITS = 32
_COMPUTATION = re.compile(r"\b[Cc]omputation (?P<number>\d)\b[\s|:]{1,9}(?P<lanes>(?:(?!omputation )[^|\n]){1,200})")
_SEVERAL = re.compile(r"\bcompute ([2-9]) MMA\b")
