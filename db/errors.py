"""The one kind of error that users are meant to read, and what makes a text fit to be shown."""

import re
from collections.abc import Iterable
from typing import Any
from unicodedata import category

#: Types as msgspec calls them, in words.
_TYPES = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}
_TYPES |= {"array": "a list", "object": "a table", "null": "nothing"}
_LONGEST = 500
_PASSWORD = re.compile(r"(//?)[^\s:/@]*(?::.*)?@|(password\s*=\s*)[^&\s]*", re.IGNORECASE)


class LanemapError(Exception):
    """What went wrong and what would be right, as one line.

    ``argument`` is the argument that would mend it, where there is one. The command line adds its option of that name.
    """

    def __init__(self, message: str, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class OutsideError(LanemapError):
    """A coordinate is outside the range that a fragment has for it."""

    def __init__(self, name: str, value: object, known: range, fragment: object) -> None:
        goes = f"it goes from {known[0]} to {known[-1]}" if len(known) > 1 else f"there is only {known[0]}"
        super().__init__(f"{name} {value} is outside {fragment}: {goes}")


class AbsentError(LanemapError):
    """What was asked for is not there."""


class NoRowsError(AbsentError):
    """No source has rows of a fragment; ``key`` is the ``Key`` that names it."""

    def __init__(self, message: str, key: Any) -> None:
        super().__init__(message)
        self.key = key


class UnavailableError(LanemapError):
    """The database cannot be read or written, whatever is asked of it."""


class DamagedError(UnavailableError):
    """What was read is not what was written."""


def refusal(error: LanemapError) -> str:
    """What is wrong with a request, in words. That the database cannot be read is no matter of the request.

    Raises:
        UnavailableError: it is that.
    """
    if isinstance(error, UnavailableError):
        raise error
    return str(error)


def validated(value: object, type: Any, known: Iterable[str] = ()) -> Any:
    """A value from outside as one of a type of msgspec's.

    Raises:
        LanemapError: says where what is wrong with it; of an unknown key also which of ``known`` is meant.

    >>> validated([1, "a"], list[int])
    Traceback (most recent call last):
    lanemap.db.errors.LanemapError: [1]: expected a whole number, got text
    """
    import msgspec  # a look-up does without

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
    """The message of somebody else's error."""
    return " ".join(str(error).replace("\0", " ").split())[:_LONGEST]


def masked(text: str) -> str:
    """A text in which the users and passwords of addresses are replaced by ``***``."""
    return _PASSWORD.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", text)


def shortened(text: str) -> str:
    """A message without the middle of what somebody gave that is too long to read; its end says what would be right.

    >>> shortened("no type " + "x" * 5000 + ": choose from f16, bf16")[100:140]
    'xxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxxxxx'
    """
    text = re.sub(r"(\S{100})\S{100,}(\S{100})", r"\1...\2", text)
    return text if len(text) <= 5000 else f"{text[:1000]}...{text[-1000:]}"


def printable(text: str) -> str:
    """A line in which what would act on a terminal, or change the order of what is read, is spelled out."""
    return "".join(
        character if character.isprintable() else " " if category(character) == "Zs" else ascii(character)[1:-1]
        for character in text
    )
