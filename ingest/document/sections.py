"""The sections of a document: which are about fragments, of which instruction and shape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .blocks import Block, Code, Heading, Row, Text, plain


@dataclass(frozen=True)
class Place:
    """A section as it stands in a document: its heading, and the blocks up to the next one."""

    file: str
    heading: Heading
    blocks: tuple[Block, ...]

    @property
    def name(self) -> str:
        """How messages call the section: by its number, else by its title."""
        return self.heading.number or self.heading.title

    @property
    def text(self) -> str:
        """All words of the section."""
        return "\n\n".join(filter(None, map(_words, self.blocks)))


def sections(file: str, blocks: Iterable[Block]) -> list[Place]:
    """The sections of a document. A heading that is given twice in a row, as some conversions do, counts once."""
    found: list[Place] = []
    heading, held = Heading(1, ""), list[Block]()
    for block in [*blocks, Heading(0, "")]:
        if not isinstance(block, Heading):
            held.append(block)
            continue
        if held or heading.title:
            found.append(Place(file, heading, tuple(held)))
        heading, held = block, []
    return list(_once(found))


def _once(places: list[Place]) -> Iterator[Place]:
    """Without headings over nothing whose section stands elsewhere: repeated ones, parents, tables of contents."""
    filled = {name for place in places if place.blocks for name in _names(place)}
    numbers = {number for place in places if (number := place.heading.number)}
    parents = {number.rpartition(".")[0] for number in numbers}
    for place in places:
        if place.blocks or not ({*_names(place)} & filled or place.heading.number in parents):
            yield place


def _names(place: Place) -> list[str]:
    head = place.heading
    return list(filter(None, (head.number, head.anchor))) or [head.title]


@dataclass(frozen=True)
class Subject:
    """What a fragment section is about."""

    instruction: str
    shape: str


def subject(title: str) -> Subject | None:
    """The instruction and shape in the title of a fragment section of mma or mma.sp; None for any other title."""
    matched = _FRAGMENTS.search(title)
    if not matched:
        return None
    return Subject("mma.sp" if matched["sparse"] or matched["sp"] else "mma", matched["shape"].lower())


def is_later(title: str) -> bool:
    """True for the instructions whose fragments Lanemap does not read yet."""
    return bool(_LATER.search(title))


def is_storage(place: Place) -> bool:
    """True for the section that says which sparsity selectors mma.sp has."""
    return bool(_STORAGE.search(place.heading.title)) and "mma.sp" in place.text


def is_read(title: str) -> bool:
    """True for the titles of sections whose words are read, and not only looked through."""
    return bool(subject(title) or _STORAGE.search(title))


def _words(block: Block) -> str:
    match block:
        case Text() | Code():
            return block.text
        case Row():
            return " | ".join(block.cells)
    return ""


def title(place: Place) -> str:
    """The heading as a document prints it."""
    return plain(f"{place.heading.number}. {place.heading.title}" if place.heading.number else place.heading.title)


_FRAGMENTS = re.compile(
    r"fragments?\s+(?:for|of)\s+(?:the\s+)?(?P<sparse>sparse\s+)?\W{0,3}\bmma(?:\.sync)?(?P<sp>\.sp(?:::\w+)?)?"
    r"(?:\.sync)?\W{0,6}(?P<shape>m\d{1,3}n\d{1,3}k\d{1,3})\b",
    re.IGNORECASE,
)
_STORAGE = re.compile("sparse matrix storage", re.IGNORECASE)
_LATER = re.compile(
    r"\b(?:wmma|wgmma|ldmatrix|stmatrix|movmatrix|tcgen05)|warpgroup|matrix fragments?\b", re.IGNORECASE
)
