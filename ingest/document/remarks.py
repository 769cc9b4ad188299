"""What there is to say of a document besides its fragments."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
