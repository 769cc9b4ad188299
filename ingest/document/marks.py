"""What the blocks of a fragment section say, one mark after the other, whether as structure or as running text.

A conversion may keep tables and formulas apart or lose every line between them; the marks come out alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .blocks import ANCHOR, Block, Code, Row, Text, plain
from .formulas import START, defined, end_of_formula
from .words import NUMBER, TYPES, number, types


@dataclass(frozen=True)
class Operand:
    """Here begins what is said of these roles: A, B, C, D, or E for the metadata."""

    line: int
    roles: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Group:
    """Here begins what is said of some types of the operand."""

    line: int


@dataclass(frozen=True)
class Layout:
    """Here begins one of several layouts of the operand: by major, or by type."""

    line: int
    major: str | None
    types: tuple[str, ...]


@dataclass(frozen=True)
class Figure:
    """A figure that is referred to or shown; ``layout`` is what its caption says of the layout."""

    line: int
    number: str
    anchor: str
    layout: Layout | None = None


@dataclass(frozen=True)
class Registers:
    """A row of the table: the types, what holds them, and the elements as listed."""

    line: int
    types: tuple[str, ...]
    prose: str
    elements: str


@dataclass(frozen=True)
class Metadata:
    """How many registers hold the sparsity metadata, and how many indices of how many bits each."""

    line: int
    registers: int
    count: int
    bits: int


@dataclass(frozen=True)
class Formula:
    """The text of a formula, or of a part of one."""

    line: int
    text: str


@dataclass(frozen=True)
class Same:
    """The roles are laid out as another section says: its anchor where there is a link, and its title."""

    line: int
    roles: tuple[str, ...]
    anchor: str | None
    title: str
    text: str = field(compare=False, default="")


@dataclass(frozen=True)
class Stray:
    """A condition outside any formula, so that one must have been cut, or a row of a table that says nothing."""

    line: int
    text: str


Mark = Stray | Operand | Group | Layout | Figure | Registers | Metadata | Formula | Same


def marks(blocks: list[Block]) -> Iterator[Mark]:
    """The marks of a section in the order of the document."""
    for block in _rejoined(blocks):
        match block:
            case Row():
                yield from _row(block)
            case Text() | Code():
                yield from _text(block)


def _rejoined(blocks: Iterable[Block]) -> Iterator[Block]:
    """What conversions have cut off a formula by breaking its lines is put back behind it."""
    held: Code | Text | None = None
    for block in blocks:
        if not isinstance(block, Code | Text):
            yield from [held] if held else []
            yield block
            held = None
        elif (
            held
            and _START.search(held.text)
            and (_BROKEN.search(held.text) or _goes_on(block.text, defined(held.text) | defined(block.text)))
        ):
            held = Text(held.line, f"{held.text.rstrip()}\n{block.text.strip()}")
        else:
            yield from [held] if held else []
            held = block
    yield from [held] if held else []


def _goes_on(text: str, names: frozenset[str]) -> bool:
    """True for text that can only go on with a formula: by its first words, or by a case in front of a definition."""
    if _CONTINUED.match(text):
        return True
    start = _START.search(text)
    case = _CASE.search(text, 0, start.start() if start else len(text))
    return case is not None and {*re.findall(r"[A-Za-z_]\w*", text[: case.start()])} <= names | {"i", "laneid"}


def _row(block: Row) -> Iterator[Mark]:
    cells = [cell for cell in block.cells if cell]
    names = next((cell for cell in cells if re.fullmatch(rf"{TYPES}\W{{0,3}}", plain(cell))), "")
    prose = next((cell for cell in cells if re.search(r"\bregisters?\b", cell)), " ".join(cells) if names else None)
    if prose is None:
        # Text right behind a table counts as its last row in some dialects.
        yield from _text(Text(block.line, "\n".join(cells)))
        if len(cells) > 1 and not re.search(r"\.[abcd]type\b", " ".join(cells)):
            yield Stray(block.line, plain(" | ".join(cells)))
        return
    listed = next((cell for cell in cells if _LISTED.match(cell)), "")
    yield Registers(block.line, types(names), plain(prose), listed)


def _text(block: Text | Code) -> Iterator[Mark]:
    text = _SPACES.sub(" ", block.text)
    names = defined(text)
    line, counted, at, formula_end = block.line, 0, 0, 0
    while found := _MARK.search(text, at):
        line += text.count("\n", counted, found.start())
        counted, at = found.start(), found.end()
        match found.lastgroup:
            case "formula":
                at = max(at, end_of_formula(text, found.start(), names))
                formula_end = at
                yield Formula(line, text[found.start() : at])
            case "row":
                mark, at = _running_row(text, found, line)
                yield mark
            case "same":
                yield _same(text, found, line, formula_end)
            case "operand":
                yield Operand(line, _roles(found[0]), found[0])
            case "metadata":
                yield Operand(line, ("E",), found[0])
            case "vectors":
                yield Metadata(line, number(found["held"] or "one"), number(found["count"]), int(found["bits"]))
            case "figure":
                yield _figure(text, found, line)
            case "types":
                yield Group(line)
            case "stray":
                yield Stray(line, text[found.start() : found.start() + _LONGEST_EXCERPT])
            case "major" | "ctype":
                yield _layout(found[0], line)


def _layout(words: str, line: int) -> Layout:
    major = re.search(r"(row|col)(?:umn)?[ \-]major", words, re.IGNORECASE)
    return Layout(line, major[1].lower() if major else None, () if major else types(words.partition("type")[2]))


def _figure(text: str, found: re.Match[str], line: int) -> Figure:
    """A reference, or a caption: that begins its line, and its own link stands at the end."""
    linked = re.compile(ANCHOR).match(text, found.end())
    if linked:
        return Figure(line, found["number"], linked[1])
    if text[: found.start()].rpartition("\n")[2].strip():
        return Figure(line, found["number"], "")
    end = text.find("\n", found.end())
    caption = text[found.end() : len(text) if end < 0 else end][:_LONGEST_CAPTION]
    own = re.search(ANCHOR, caption)
    told = _LAYOUT.search(caption)
    return Figure(line, found["number"], own[1] if own else "", _layout(told[0], line) if told else None)


def _running_row(text: str, found: re.Match[str], line: int) -> tuple[Registers, int]:
    """A row of a table whose cells have run into the text."""
    limit = min(len(text), found.end() + _LONGEST_CELL)
    ended = _ROW_END.search(text, found.end(), limit)
    end = ended.start() if ended else limit
    listed = _LIST.search(text, found.end(), end)
    named = found["names"] or found["cell"] or ""
    begun = found.start() + len(named)
    prose = text[begun : listed.start() if listed else end].lstrip(" |\n").partition("|")[0]
    row = Registers(line, types(named), plain(prose), listed[0] if listed else "")
    return row, listed.end() if listed else found.end()


def _same(text: str, found: re.Match[str], line: int, first: int) -> Same:
    """A reference to another section: which roles it is for stands before, which section it is behind."""
    first = max(first, found.start() - _LONGEST_CELL)
    begun = max(text.rfind(sign, first, found.start()) for sign in (". ", ".\n", ":", "|", "\n\n"))
    before = text[max(begun, first) : found.start()]
    behind = text[found.end() : found.end() + _LONGEST_CELL]
    linked = re.search(ANCHOR, behind)
    title = re.sub(ANCHOR, "", behind[: linked.start()] if linked else behind.partition("\n\n")[0])
    return Same(line, _roles(before), linked[1] if linked else None, plain(title), plain(before + found[0] + title))


def _roles(words: str) -> tuple[str, ...]:
    """The roles that a phrase such as ``accumulators C and D`` names, or the word alone stands for."""
    named = tuple(dict.fromkeys(re.findall(r"(?<![\w.])[A-D](?!\w)", re.sub(r"^\s*A\s", "", words))))
    kinds = {"ccumulator": ("C", "D"), "ultiplicand": ("A", "B")}
    missing = [role for kind, roles in kinds.items() if kind in words and not {*roles} & {*named} for role in roles]
    return tuple(sorted({*named, *missing}))


_LONGEST_CELL = 500
_LONGEST_EXCERPT = 60
_LONGEST_CAPTION = 400
_SPACES = re.compile(r"[ \t]+")
_START = re.compile(START)
#: How a line begins that can only go on with a formula, and how one ends that must go on.
_CONTINUED = re.compile(
    r"\s{0,200}(?:[Ww]here\s+(?:i\b|\d|%|\w{1,60}\s*=)|[Ff]or\s+[abcd](?:i\b|\d)|if\s+%|[Oo]therwise\b|\{\s?\d|\d+\s*(?:\n|$)|"
    r"[<>=&|%*/]{1,2}\s)"
)
_CASE = re.compile(r"\b(?:for\s+[abcd](?:i\b|\d)|otherwise\b|if\s+%)", re.IGNORECASE)
_BROKEN = re.compile(r"(?:[-+*/%=<>&|^,({\[]|\b(?:where|for|and|or|if))\s{0,200}$")
_ELEMENT = r"[abcd]\d{1,3}\b"
_LIST = re.compile(rf"(?<![\w.]){_ELEMENT}(?:[\s,.;]{{1,8}}(?:{_ELEMENT}|\.{{2,3}})?)*")
_LISTED = re.compile(rf"[^\w.]*{_ELEMENT}")
_LETTERS = r"(?:[\s,/(]{1,3}(?:(?:and|or)\s)?\(?(?:or\s)?[A-D]\b\)?){0,4}"
_LAYOUT = re.compile(rf"\b(?:[Rr]ow|[Cc]ol(?:umn)?)[ \-][Mm]ajor\b|\.[cd]type\s(?:is|=)\s{TYPES}")
_MARK = re.compile(
    "|".join(
        f"(?P<{name}>{pattern})"
        for name, pattern in {
            "formula": START,
            "stray": r"\bfor\s[abcd](?:i\b|\d)|\b[Ww]here\s(?:\d{1,4}\s?<=?\s?)?i\s?[<>=%!]"
            r"|[\d)]\s[Oo]therwise\b|\bif\s%laneid",
            "row": rf"(?P<names>{TYPES})[\s|]{{1,9}}(?:[A-Z][^|.]{{0,60}}?\s)?"
            rf"(?i:{NUMBER})\s\.\w{{1,6}}\s{{1,2}}registers?\b"
            rf"|(?P<cell>{TYPES})\s?\||\bvector\sexpression\b",
            "same": r"\b(?:same\s(?:way\s)?as|identical\sto)\b",
            "operand": rf"(?:Multiplicand|Accumulator)s?\b(?:\smatri(?:x|ces))?{_LETTERS}"
            rf"(?:,?\s(?:and\s)?(?:multiplicand|accumulator)s?\b{_LETTERS}){{0,2}}",
            "metadata": r"Metadata\b",
            "vectors": rf"\b(?:(?P<held>(?i:{NUMBER}))\s\.\w{{1,6}}\sregisters?,?\s(?:each\s)?containing\s)?"
            rf"(?P<count>{NUMBER})\s(?P<bits>\d{{1,2}})-bit\svectors",
            "figure": r"\bFigure\s{1,3}(?P<number>\d{1,4})",
            "types": rf"{TYPES}\s?:",
            "major": r"\b(?:[Rr]ow|[Cc]ol(?:umn)?)[ \-][Mm]ajor\b",
            "ctype": rf"\.[cd]type\s(?:is|=)\s{TYPES}",
        }.items()
    )
)
_ROW_END = re.compile(
    rf"{TYPES}(?:\s?\||[\s|]{{1,9}}A\svector)|vector\sexpression|\bThe\s|Figure|"
    rf"Multiplicand|Accumulator|Metadata|\n\n|{START}"
)
