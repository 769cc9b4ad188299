"""The one kind of error that users are meant to read, and what makes a text fit to be shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from unicodedata import category

if TYPE_CHECKING:
    from .instructions import Key

_PASSWORD = re.compile(r"(//?[^\s:/@]*:)\S*@|(password=)[^&\s]*", re.IGNORECASE)


class LanemapError(Exception):
    """What went wrong and what would be right, as one line.

    ``argument`` is the argument that would mend it, where there is one. The command line adds its option of that name.
    """

    def __init__(self, message: str, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class NoRowsError(LanemapError):
    """No source has rows of a fragment; ``key`` is what names it."""

    def __init__(self, message: str, key: Key) -> None:
        super().__init__(message)
        self.key = key


class UnavailableError(LanemapError):
    """The database cannot be read or written, whatever is asked of it."""


def masked(text: str) -> str:
    """A text in which the passwords of addresses are replaced by ``***``."""
    return _PASSWORD.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", text)


def printable(text: str) -> str:
    """A line in which what would act on a terminal, or change the order of what is read, is spelled out."""
    return "".join(
        each if each.isprintable() else " " if category(each) == "Zs" else ascii(each)[1:-1] for each in text
    )
