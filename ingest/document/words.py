"""The words of the documentation that carry meaning: types, shapes, numbers."""

from __future__ import annotations

import re
from collections.abc import Collection

from ...db.instructions import FORMS

#: A type as documents write it. The name of a shape also begins with a dot.
TYPE = r"\.(?!m\d+n)[a-z]{1,3}\d\w{0,6}"
TYPES = rf"{TYPE}(?:\s{{0,3}}(?:/|,|and|or|,\s?and|,\s?or)\s{{0,3}}{TYPE}){{0,20}}"

_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_UNITS += " seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_VALUES = {word: value for value, word in enumerate(_UNITS.split())}
_VALUES |= dict(zip(_TENS.split(), range(20, 100, 10), strict=True))
_ONE = ("single", "a", "an")

_WORD = rf"(?:{'|'.join(sorted([*_VALUES, *_ONE], key=len, reverse=True))}|hundred)"
#: A whole number in words or digits, as in ``a single``, ``thirty two``, ``one hundred and twenty-eight`` or ``16``.
NUMBER = rf"(?:\d{{1,4}}|(?:{_WORD})(?:[\s\-](?:and\s)?(?:{_WORD})){{0,4}})\b"


def types(text: str) -> tuple[str, ...]:
    """The types that a text names, in order, without dots."""
    return tuple(dict.fromkeys(name[1:] for name in re.findall(TYPE + r"\b", text)))


def number(words: str) -> int:
    """The number that NUMBER matched.

    >>> number("thirty two")
    32
    """
    total = 0
    for word in re.findall(r"\d+|[a-z]+", words.lower()):
        if word == "hundred":
            total = max(total, 1) * 100
        elif word in _ONE:
            total = total or 1
        elif word != "and":
            total += int(word) if word.isdecimal() else _VALUES[word]
    return total


def bits(type_: str) -> int | None:
    """Width of a type by its name: ``e4m3`` has 1 + 4 + 3 bits, ``tf32`` takes 32, ``f16x2`` is a pair.

    >>> bits("e2m1"), bits("bf16"), bits("f16x2")
    (4, 16, 32)
    """
    if small := re.fullmatch(r"e(\d)m(\d)", type_):
        return 1 + int(small[1]) + int(small[2])
    if wide := re.fullmatch(r"[a-z]{1,3}(\d{1,3})(?:x(\d))?", type_):
        return int(wide[1]) * int(wide[2] or 1)
    return None


def accumulators(multiplicands: Collection[str]) -> set[str]:
    """The types of C and D that products of these types can be added to; for types that are new, all there are."""
    return {form.d for form in FORMS if form.a in multiplicands} or {form.d for form in FORMS}
