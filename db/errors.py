"""The errors that users are meant to read, and values from outside that raise them."""

import re
from collections.abc import Iterable
from typing import Any

#: The types of msgspec in words.
_TYPES = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}
_TYPES |= {"array": "a list", "object": "a table", "null": "nothing"}


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
