"""What the blocks of a fragment section say of each operand, as structure or as running text.

A conversion may keep tables and formulas apart or lose every line between them. So all blocks are searched, in the
order of the document, for the words that carry meaning (``_STATEMENTS``), and what they say is put where it belongs.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from .blocks import ANCHOR, NUMBER, TYPES, Block, Heading, Paragraph, Row, number, plain, types
from .formulas import START, defined, end_of_formula


class Excerpt(NamedTuple):
    """A formula, a part of one, or a part of something that was cut."""

    line: int
    text: str


class Registers(NamedTuple):
    """A row of the table: the types, what holds them, and the elements as listed."""

    line: int
    types: tuple[str, ...]
    prose: str
    elements: str


class StatedMetadata(NamedTuple):
    """How many registers hold the sparsity metadata, and how many indices of how many bits each."""

    line: int
    registers: int
    vectors: int
    bits: int


class Reference(NamedTuple):
    """The roles are laid out as another section says: its anchor where there is a link, and its title."""

    line: int
    roles: tuple[str, ...]
    anchor: str | None
    title: str
    text: str


@dataclass
class StatedLayout:
    """One of the layouts of an operand: figures by number with their anchors, and the pieces of its formula."""

    line: int
    major: str | None = None
    types: tuple[str, ...] = ()
    figures: dict[str, str] = field(default_factory=dict)
    formula: list[Excerpt] = field(default_factory=list)
    defined: set[str] = field(default_factory=set)

    def is_for(self, row: Registers) -> bool:
        """True where it is the layout of some types of a row."""
        return not self.types or bool({*self.types} & {*row.types})


@dataclass
class RegisterTable:
    """The rows of a table, and the layouts that they share or that differ by type or major."""

    line: int
    rows: list[Registers] = field(default_factory=list)
    layouts: list[StatedLayout] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """True where nothing has been said of it."""
        return not self.rows and not any(layout.figures or layout.formula for layout in self.layouts)


@dataclass
class StatedOperand:
    """What a section says of some roles. ``second`` formulas had no place, ``stray`` conditions no formula."""

    line: int
    roles: tuple[str, ...]
    text: str = ""
    groups: list[RegisterTable] = field(default_factory=list)
    metadata: StatedMetadata | None = None
    reference: Reference | None = None
    second: list[Excerpt] = field(default_factory=list)
    stray: list[Excerpt] = field(default_factory=list)

    def __str__(self) -> str:
        return " and ".join(self.roles) if self.roles else "the operand"

    @property
    def layouts(self) -> Iterator[StatedLayout]:
        """The layouts of all its groups."""
        return chain.from_iterable(group.layouts for group in self.groups)

    def group(self, line: int, *, new: bool = False) -> RegisterTable:
        """The last group, or a new one."""
        if new or not self.groups:
            self.groups.append(RegisterTable(line))
        return self.groups[-1]

    def layout(self, line: int, major: str | None = None, types: tuple[str, ...] = ()) -> StatedLayout:
        """The layout that something belongs to: the last one, unless that is of another major or type."""
        layouts = self.group(line).layouts
        last = layouts[-1] if layouts else StatedLayout(line)
        pairs = ((major, last.major), (types, last.types))
        differs = any(given and known and given != known for given, known in pairs)
        if not layouts or differs:
            last = StatedLayout(line)
            layouts.append(last)
        last.major, last.types = major or last.major, types or last.types
        return last

    def add_row(self, row: Registers) -> None:
        """Add a row to the last group, or to a new one where that has been described already."""
        last = self.groups[-1] if self.groups else RegisterTable(row.line)
        described = any(layout.formula or (layout.figures and last.rows) for layout in last.layouts)
        self.group(row.line, new=described).rows.append(row)

    def add_formula(self, formula: Excerpt) -> None:
        """Add a formula to the last layout, unless that has one that defines the same."""
        layout, names = self.layout(formula.line), defined(formula.text)
        (self.second if names & layout.defined else layout.formula).append(formula)
        layout.defined |= names


def operands(blocks: Iterable[Block]) -> list[StatedOperand]:
    """The operands of a section, in order. The first, without roles, holds what was said before any was named."""
    stated = [StatedOperand(0, ())]
    for block in _rejoined(blocks):
        says = _read(block, stated)
        if isinstance(block, Row) and not says and len(block.cells) > 1 and not _HEAD.search(block.text):
            stated[-1].stray.append(Excerpt(block.line, plain(block.text)))
    return stated


def _rejoined(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks, and whole again what conversions have cut: formulas, and rows whose cells became paragraphs."""
    held: Block | None = None
    for block in blocks:
        match held, block:
            case Paragraph(), Paragraph() if _ONLY_TYPES.fullmatch(plain(held.text)) and "register" in block.text:
                held = Row(held.line, (held.text, block.text))
            case Row(cells=(_, _)), Paragraph() if listed := _LIST.match(block.text):
                yield Row(held.line, (*held.cells, listed[0]))
                held = Paragraph(block.line, block.text[listed.end() :])
            case None | Row() | Heading(), _:
                yield from [held] if held else []
                held = block
            case _, Row() | Heading():
                yield held
                held = block
            case _ if _is_cut(held.text, block.text):
                held = Paragraph(held.line, f"{held.text.rstrip()}\n{block.text.strip()}")
            case _:
                yield held
                held = block
    yield from [held] if held else []


def _is_cut(text: str, behind: str) -> bool:
    """True where a text ends in the middle of a formula that goes on behind it."""
    if not _START.search(text):
        return False
    if _BROKEN.search(text[-_LONGEST_CELL:]) or _CONTINUED.match(behind):
        return True
    start = _START.search(behind)
    case = _CASE.search(behind, 0, start.start() if start else len(behind))
    words = {*re.findall(r"[A-Za-z_]\w*", behind[: case.start()])} if case else set()
    return case is not None and words <= defined(text) | defined(behind) | {"i", "laneid"}


def _read(block: Block, stated: list[StatedOperand]) -> bool:
    """Put what a block says where it belongs; whether it says anything."""
    text = _SPACES.sub(" ", block.text)
    names = defined(text)
    line, counted, at, formula_end = block.line, 0, 0, 0
    while match := _STATEMENT.search(text, at):
        line += text.count("\n", counted, match.start())
        counted, at, operand = match.start(), match.end(), stated[-1]
        match match.lastgroup:
            case "formula":
                at = formula_end = max(at, end_of_formula(text, match.start(), names))
                operand.add_formula(Excerpt(line, text[match.start() : at]))
            case "row":
                # The cells of the row may have run into the text.
                ended = _ROW_END.search(text, at, at + _LONGEST_CELL)
                end = ended.start() if ended else min(len(text), at + _LONGEST_CELL)
                listed = _LIST.search(text, at, end)
                named = match["names"] or match["cell"] or ""
                prose = text[match.start() + len(named) : listed.start() if listed else end]
                prose = plain(prose.lstrip(" |\n").partition("|")[0])
                operand.add_row(Registers(line, types(named), prose, listed[0].rstrip() if listed else ""))
                at = listed.end() if listed else at
            case "reference":
                # Which roles it is for stands before, which section it refers to behind.
                first = max(formula_end, match.start() - _LONGEST_CELL)
                begun = max(text.rfind(sign, first, match.start()) for sign in (". ", ".\n", ":", "|", "\n\n"))
                before, behind = text[max(begun, first) : match.start()], text[at : at + _LONGEST_CELL]
                linked = _ANCHOR.search(behind)
                title = _ANCHOR.sub("", behind[: linked.start()] if linked else behind.partition("\n\n")[0])
                roles, words = _roles(before), plain(before + match[0] + title)
                if roles and roles != operand.roles:
                    stated.append(StatedOperand(line, roles, words))
                stated[-1].reference = Reference(line, roles, linked[1] if linked else None, plain(title), words)
            case "operand":
                stated.append(StatedOperand(line, _roles(match[0]), match[0]))
            case "metadata":
                stated.append(StatedOperand(line, ("E",), match[0]))
            case "vectors":
                registers = number(match["held"] or "one")
                operand.metadata = StatedMetadata(line, registers, number(match["count"]), int(match["bits"]))
            case "figure":
                anchor, caption = _ANCHOR.match(text, at), ""
                # Where it is no reference but begins a line, its caption follows, which ends with the anchor.
                if not anchor and not text[: match.start()].rpartition("\n")[2].strip():
                    caption = text[at : at + _LONGEST_CAPTION].partition("\n")[0]
                    anchor = _ANCHOR.search(caption)
                variant = _VARIANT.search(caption)
                figures = operand.layout(line, *_variant(variant[0] if variant else "")).figures
                figures[match["number"]] = figures.get(match["number"]) or (anchor[1] if anchor else "")
            case "types":
                operand.group(line, new=bool(operand.groups) and not operand.groups[-1].empty)
            case "stray":
                operand.stray.append(Excerpt(line, text[match.start() : match.start() + _LONGEST_EXCERPT]))
            case "major" | "ctype":
                operand.layout(line, *_variant(match[0]))
    return at > 0


def _variant(words: str) -> tuple[str | None, tuple[str, ...]]:
    """The major or the types by which words single out one of several layouts."""
    major = re.search(r"(row|col)(?:umn)?[ \-]major", words, re.IGNORECASE)
    return (major[1].lower(), ()) if major else (None, types(words.partition("type")[2]))


def _roles(words: str) -> tuple[str, ...]:
    """The roles that a phrase such as ``accumulators C and D`` names, or the word alone stands for."""
    named = tuple(dict.fromkeys(re.findall(r"(?<![\w.])[A-D](?!\w)", re.sub(r"^\s*A\s", "", words))))
    kinds = {"ccumulator": ("C", "D"), "ultiplicand": ("A", "B")}
    missing = [role for kind, roles in kinds.items() if kind in words and not {*roles} & {*named} for role in roles]
    return tuple(sorted({*named, *missing}))


_LONGEST_CELL = 500
_LONGEST_EXCERPT = 60
_LONGEST_CAPTION = 400
_ANCHOR = re.compile(ANCHOR)
_SPACES = re.compile(r"[ \t]+")
_START = re.compile(START)
_ONLY_TYPES = re.compile(rf"{TYPES}\W{{0,3}}")
#: How a line begins that can only go on with a formula, and how one ends that must go on.
_CONTINUED = re.compile(
    r"\s{0,200}(?:[Ww]here\s+(?:i\b|\d|%|\w{1,60}\s*=)|[Ff]or\s+[abcd](?:i\b|\d)|if\s+%|[Oo]therwise\b|\{\s?\d|\d+\s*(?:\n|$)|"
    r"[<>=&|%*/]{1,2}\s)"
)
_CASE = re.compile(r"\b(?:for\s+[abcd](?:i\b|\d)|otherwise\b|if\s+%)", re.IGNORECASE)
_BROKEN = re.compile(r"(?:[-+*/%=<>&|^,({\[]|\b(?:where|for|and|or|if))\s{0,200}$")
_ELEMENT = r"[abcd]\d{1,3}\b"
_LIST = re.compile(rf"(?<![\w.]){_ELEMENT}(?:[\s,.;]{{1,8}}(?:{_ELEMENT}|\.{{2,3}})?)*")
_HEAD = re.compile(r"\.[abcd]type\b")
_LETTERS = r"(?:[\s,/(]{1,3}(?:(?:and|or)\s)?\(?(?:or\s)?[A-D]\b\)?){0,4}"
_MAJOR = r"\b(?:[Rr]ow|[Cc]ol(?:umn)?)[ \-][Mm]ajor\b"
_CTYPE = rf"\.[cd]type\s(?:is|=)\s{TYPES}"
_VARIANT = re.compile(rf"{_MAJOR}|{_CTYPE}")
#: What can be said, and the words that begin it. Of two that begin at one place, the first counts.
_STATEMENTS = {
    "formula": START,
    # Conditions that no formula stands before: a part of one that was cut.
    "stray": r"\bfor\s[abcd](?:i\b|\d)|\b[Ww]here\s(?:\d{1,4}\s?<=?\s?)?i\s?[<>=%!]"
    r"|[\d)]\s[Oo]therwise\b|\bif\s%laneid",
    # ".f16 | A vector expression of two .f16x2 registers", or only its first cell, or only its words.
    "row": rf"(?P<names>{TYPES})[\s|]{{1,9}}(?:[A-Z][^|.]{{0,60}}?\s)?(?i:{NUMBER})\s\.\w{{1,6}}\s{{1,2}}registers?\b"
    rf"|(?P<cell>{TYPES})\s?\||\bvector\sexpression\b",
    "reference": r"\b(?:same\s(?:way\s)?as|identical\sto)\b",
    # "Multiplicand A", "Accumulators (C or D)", "Multiplicand A and multiplicand B".
    "operand": rf"(?:Multiplicand|Accumulator)s?\b(?:\smatri(?:x|ces))?{_LETTERS}"
    rf"(?:,?\s(?:and\s)?(?:multiplicand|accumulator)s?\b{_LETTERS}){{0,2}}",
    "metadata": r"Metadata\b",
    # "a .b32 register containing 16 2-bit vectors".
    "vectors": rf"\b(?:(?P<held>(?i:{NUMBER}))\s\.\w{{1,6}}\sregisters?,?\s(?:each\s)?containing\s)?"
    rf"(?P<count>{NUMBER})\s(?P<bits>\d{{1,2}})-bit\svectors",
    "figure": r"\bFigure\s{1,3}(?P<number>\d{1,4})",
    "types": rf"{TYPES}\s?:",
    "major": _MAJOR,
    "ctype": _CTYPE,
}
_STATEMENT = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _STATEMENTS.items()))
_ROW_END = re.compile(
    rf"{TYPES}(?:\s?\||[\s|]{{1,9}}A\svector)|vector\sexpression|\bThe\s|Figure|"
    rf"Multiplicand|Accumulator|Metadata|\n\n|{START}"
)
