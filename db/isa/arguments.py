"""The arguments of calls: names, numbers and words as people and frames have them."""

import operator
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any

from ..errors import LanemapError
from . import data
from .types import plain

#: How many characters a name has at most: a line of a kernel names hundreds of registers.
_LONGEST = 4000


def expect_names(names: Iterable[str], known: Collection[str]) -> None:
    """Refuse a keyword that a look-up does not take.

    Raises:
        LanemapError: there is one; says which is meant.
    """
    for name in names:
        if name not in known:
            from difflib import get_close_matches

            if name in ("shape", "type", "role"):
                raise LanemapError(f"there is no argument {name!r}: it is a word of the query, as in 'm16n8k16 f16 A'")
            near = " or ".join(map(repr, get_close_matches(name, known, 1) or known))
            raise LanemapError(f"there is no argument {name!r}: did you mean {near}?")


def one_or_several(argument: Any) -> list[Any]:
    """What is given, in order; nothing of None."""
    items = argument if isinstance(argument, Iterable) and not isinstance(argument, str) else [argument]
    return [item for item in items if item is not None]


def whole(name: str, number: object) -> int | None:
    """A number out of a request, as one that every database driver takes; frames and arrays hold others.

    Raises:
        LanemapError: it is no whole number; ``name`` says which.
    """
    if number is None:
        return None
    if not isinstance(number, bool):
        with suppress(TypeError):
            return operator.index(number)  # type: ignore[arg-type]
    if isinstance(number, Iterable) and not isinstance(number, str):
        raise LanemapError(f"{name} is one whole number here: find and at of a Fragment take arrays of them")
    raise LanemapError(f"{name} {number!r} is not a whole number: write it like 1")


def bit_word(value: object, what: str = "a word of metadata", bits: int = 32) -> int:
    """A word of so many bits, also as the text that people and programs write.

    >>> bit_word("0x44")
    68

    Raises:
        LanemapError: it is none; says how to write it.
    """
    number = -1
    with suppress(TypeError, ValueError):
        number = int(value, 0) if isinstance(value, str) else operator.index(value)  # type: ignore[arg-type]
    without_0x = isinstance(value, str) and re.fullmatch(rf"[0-9a-fA-F]{{{bits // 4}}}", value)
    if without_0x and (number < 0 or bits > 32):
        raise LanemapError(f"{value!r} is not {what}: write 0x{value}")
    if not 0 <= number < 1 << bits:
        raise LanemapError(f"{value!r} is not {what}: write {bits} bits, as in 0x{'44' * (bits // 8)}")
    return number


def text(name: str, value: object) -> str:
    """A token out of a request, without the spaces around it.

    Raises:
        LanemapError: it is not text, or longer than any name; ``name`` says which.
    """
    if not isinstance(value, str):
        raise LanemapError(f"{name} {value!r} is not text: write it like {data('words')['examples'][name]!r}")
    if len(value) > _LONGEST:
        raise LanemapError(f"{name} has {len(value)} characters: a name has at most {_LONGEST}, also in a line of code")
    return value.strip()


def word(name: str, value: object) -> str | None:
    """The same in small letters and without a leading dot, as PTX's tokens are in the database."""
    return None if value is None else plain(text(name, value))
