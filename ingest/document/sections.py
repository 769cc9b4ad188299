"""Blocks become sections: which of them are about fragments, of which instruction and shape; and remarks on them."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from .blocks import TYPES, Block, Heading, Paragraph, plain


class Subject(NamedTuple):
    """What a fragment section is about."""

    instruction: str
    shape: str


class Section(NamedTuple):
    """A section as it stands in a document: its heading, and the blocks up to the next section."""

    file: str
    heading: Heading
    blocks: tuple[Block, ...]

    @property
    def name(self) -> str:
        """How messages call the section: by its number, else by its title."""
        return self.heading.number or self.heading.title

    @property
    def names(self) -> set[str]:
        """What tells the section from others: its number and anchor, else its title."""
        return {*filter(None, (self.heading.number, self.heading.anchor))} or {self.heading.title}

    @property
    def title(self) -> str:
        """The heading as a document prints it."""
        head = self.heading
        return plain(f"{head.number}. {head.title}" if head.number else head.title)

    @property
    def text(self) -> str:
        """All words of the section."""
        return "\n\n".join(filter(None, (block.text for block in self.blocks)))


def sections(file: str, blocks: Iterable[Block]) -> list[Section]:
    """The sections of a document."""
    sections: list[Section] = []
    head, held = Heading(1, ""), list[Block]()
    for block in [*blocks, Heading(0, "", level=0)]:
        if not isinstance(block, Heading):
            held.append(block)
        elif is_part(block, head):
            held.append(Paragraph(block.line, block.title.rstrip(": ") + ":"))
        else:
            sections += [Section(file, head, tuple(held))] if held or head.title else []
            head, held = block, []
    return sections


def is_part(inner: Heading, outer: Heading) -> bool:
    """True for a heading inside a section that is read, such as one of an operand or of some types of it."""
    if inner.number or not subject(outer.title) or subject(inner.title) or draws(inner.title):
        return False
    return inner.level > outer.level or bool(_PART.match(inner.title))


def subject(title: str) -> Subject | None:
    """The instruction and shape in the title of a section that is read; None for any other title.

    These are the fragment sections of mma and mma.sp, and those of the moves whose addresses stand in a table: the
    titles of moves give no shape.
    """
    if move := _MOVE.search(title):
        return Subject(move[1], "")
    matched = _FRAGMENTS.search(title)
    if not matched:
        return None
    return Subject("mma.sp" if matched["sparse"] or matched["sp"] else "mma", matched["shape"].lower())


def draws(title: str) -> bool:
    """True for sections about instructions whose fragments are figure-only."""
    return bool(_DRAWING.search(title)) and not _FRAGMENTS.search(title)


class Kind(StrEnum):
    """The kinds of remarks."""

    UNREAD = "unread"
    MENDED = "mended"
    SLIP = "slip"
    NOTE = "note"
    DRAWN = "figure-only"
    COUNTED = "registers"


class Remark(NamedTuple):
    """Something about a place in a document: its text, and the reason for the remark."""

    kind: Kind
    file: str
    line: int
    section: str
    text: str
    reason: str


class Remarks(list[Remark]):
    """The remarks on a document, as they come up."""

    def add(self, kind: Kind, section: Section, line: int, text: str, reason: str) -> None:
        """Remark on a line of a section; a long text is cut."""
        short = " ".join(text.split())
        if len(short) > _LONGEST_EXCERPT:
            short = short[:_LONGEST_EXCERPT] + " ..."
        self.append(Remark(kind, section.file, line, section.name, short, reason))


_LONGEST_EXCERPT = 160
_FRAGMENTS = re.compile(
    r"fragments?\s+(?:for|of)\s+(?:the\s+)?(?P<sparse>sparse\s+)?\W{0,3}\bmma(?:\.sync)?(?P<sp>\.sp(?:::\w+)?)?"
    r"(?:\.sync)?\W{0,6}(?P<shape>m\d{1,3}n\d{1,3}k\d{1,3})\b",
    re.IGNORECASE,
)
_MOVE = re.compile(r"\binstruction\W{1,4}(ldmatrix|stmatrix|movmatrix)\W{0,3}$")
_DRAWING = re.compile(
    r"\b(?:wmma|wgmma|ldmatrix|stmatrix|movmatrix|tcgen05)|warpgroup|matrix fragments?\b|block scaling\b", re.IGNORECASE
)
_PART = re.compile(rf"\W{{0,3}}(?:(?:Multiplicand|Accumulator|Metadata)|{TYPES}\W{{0,3}}$)")
