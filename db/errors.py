"""The errors that users are meant to read, and functions that make text fit to be shown."""

import re
from collections.abc import Iterable
from typing import Any
from unicodedata import category

#: The types of msgspec in words.
_TYPES = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}
_TYPES |= {"array": "a list", "object": "a table", "null": "nothing"}
_LONGEST = 500
_PASSWORD = re.compile(r"(//?)[^\s:/@]*(?::.*)?@|(password\s*=\s*)[^&\s]*", re.IGNORECASE)


class LanemapError(Exception):
    """What went wrong and what would be right, as one line.

    ``argument`` names the argument that would help, if any. The command line adds its option of that name.
    """

    def __init__(self, message: str, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class OutsideError(LanemapError):
    """A coordinate is outside the range that a fragment has for it."""

    def __init__(self, name: str, value: object, valid: range, fragment: object) -> None:
        goes = f"it goes from {valid[0]} to {valid[-1]}" if len(valid) > 1 else f"there is only {valid[0]}"
        super().__init__(f"{name} {value} is outside {fragment}: {goes}")


class AbsentError(LanemapError):
    """What was requested does not exist."""


class NoRowsError(AbsentError):
    """No source has rows of a fragment; ``key`` is the ``Key`` that names it."""

    def __init__(self, message: str, key: Any) -> None:
        super().__init__(message)
        self.key = key


class UnavailableError(LanemapError):
    """The database cannot be read or written, whatever the request."""


class DamagedError(UnavailableError):
    """The data is not as it was written."""


def refusal(error: LanemapError) -> str:
    """What is wrong with a request, in words.

    Raises:
        UnavailableError: the database cannot be read, which is not the fault of the request.
    """
    if isinstance(error, UnavailableError):
        raise error
    return str(error)


def validated(value: object, type: Any, known: Iterable[str] = ()) -> Any:
    """A value from outside, converted to a type by msgspec.

    Raises:
        LanemapError: says what is wrong and where; for an unknown key also which of ``known`` may be meant.

    >>> validated([1, "a"], list[int])
    Traceback (most recent call last):
    lanemap.db.errors.LanemapError: [1]: expected a whole number, got text
    """
    import msgspec  # not needed by a look-up

    try:
        return msgspec.convert(value, type)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
    if " unknown field " in reason:
        from difflib import get_close_matches

        near = get_close_matches(reason.split("`")[1], [*known], 1)
        reason += f": did you mean {near[0]!r}?" if near else ""
    reason = re.sub("`([^`]*)`", lambda name: " or ".join(_TYPES.get(x, repr(x)) for x in name[1].split(" | ")), reason)
    reason = reason.replace("Object missing required field", "it has no")
    reason = reason.replace("Object contains unknown field", "unknown key")
    raise LanemapError((place and f"{place[:-1].removeprefix('.')}: ") + reason[0].lower() + reason[1:])


def in_one_line(error: BaseException) -> str:
    """The message of a library's error in one line."""
    return " ".join(str(error).replace("\0", " ").split())[:_LONGEST]


def masked(text: str) -> str:
    """A text in which the users and passwords of addresses are replaced by ``***``."""
    return _PASSWORD.sub(lambda match: f"{match[1]}***@" if match[1] else f"{match[2]}***", text)


def shortened(text: str) -> str:
    """A message without the middle of words that are too long to read; its end says what would be right.

    >>> shortened("no type " + "x" * 5000 + ": choose from f16, bf16")[100:140]
    'xxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxxxxx'
    """
    text = re.sub(r"(\S{100})\S{100,}(\S{100})", r"\1...\2", text)
    return text if len(text) <= 5000 else f"{text[:1000]}...{text[-1000:]}"


def printable(text: str) -> str:
    """A line in which characters that would control a terminal or reorder text are escaped."""
    return "".join(
        character if character.isprintable() else " " if category(character) == "Zs" else ascii(character)[1:-1]
        for character in text
    )
