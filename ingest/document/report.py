"""What there is to say of a document besides its fragments."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .sections import Section


class Kind(StrEnum):
    """The kinds of remarks."""

    UNREAD = "unread"
    MENDED = "mended"
    SLIP = "slip"
    NOTE = "note"
    LATER = "not covered yet"


@dataclass(frozen=True)
class Remark:
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
        short = short if len(short) <= _LONGEST_EXCERPT else short[:_LONGEST_EXCERPT] + " ..."
        self.append(Remark(kind, section.file, line, section.name, short, reason))


_LONGEST_EXCERPT = 160
