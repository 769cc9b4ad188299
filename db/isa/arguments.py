"""The arguments of calls: names, numbers and words as people and frames have them, and the forms that some select."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ..errors import LanemapError
from . import data
from .types import plain, type_name

if TYPE_CHECKING:
    from .forms import Form

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
    raise LanemapError(f"{name} {number!r} is not a whole number: write it like 1")


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


def select(pattern: str | None = None, shape: str | None = None, type: str | Sequence[str] | None = None) -> list[Form]:
    """The forms that a capture can measure and that match.

    Args:
        pattern: an instruction, or a pattern of whole mnemonics such as ``*.b1.*``.
        shape: as in ``m16n8k16``.
        type: of A, or of what is moved, by any of its names; one or several.

    Raises:
        LanemapError: none matches, or none has one of the types.
    """
    from .forms import forms

    selected = [form for form in forms(shape=word("shape", shape)) if form.captured]
    if pattern is not None:
        selected = [form for form in selected if form.name == pattern or fnmatchcase(form.mnemonic, pattern)]
    having = {form.a for form in selected}
    types = {type_: type_name(type_)[0] for type_ in one_or_several(type)}
    lacking = next((option for option, name in types.items() if name not in having), None)
    if lacking is not None or not selected:
        request = {"instruction": pattern, "shape": shape, "type": lacking}
        named = " ".join(f"{name} {value!r}" for name, value in request.items() if value is not None)
        raise LanemapError(f"no instruction matches {named}: lanemap capture --list says what there is")
    return [form for form in selected if not types or form.a in types.values()]
