"""Coordinates as sums of digits of other coordinates, without numpy: a look-up shows them.

A digit of an index is ``index // step % size``.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, count
from operator import floordiv, xor
from typing import NamedTuple


class Digit(NamedTuple):
    """``weight * (index // step % size)``."""

    step: int
    size: int
    weight: int


def digits(line: Sequence[int], *, cut: bool = False) -> tuple[Digit, ...]:
    """The only digits whose sum can be this line, which starts at 0. Their sum may differ.

    If the line is ``cut``, it may end before its last digit has had all its values.
    """
    whole = _digits(line, cut=False)
    if cut and valued(whole, len(line)) != line:
        return _digits(line, cut=True)
    return whole


def _digits(line: Sequence[int], *, cut: bool) -> tuple[Digit, ...]:
    found = []
    step = 1
    while step < len(line):
        rest = -(-len(line) // step)
        weight = line[step]
        run = next(size for size in count(2) if size >= rest or line[step * size] != weight * size)
        size = run if cut else max((size for size in range(2, run + 1) if rest % size == 0), default=rest)
        found.append(Digit(step, size, weight))
        step *= size
    return tuple(found)


def sums(axes: Mapping[str, Sequence[int]], values: Iterable[Sequence[int]]) -> list[str] | None:
    """Each of several values as a sum of digits of the coordinates that they stand at; None where one is no such sum.

    ``axes`` are the coordinates, as many as there are values, which must fill a box from 0 on. What is swizzled is the
    exclusive or of two sums.

    >>> sums({"row": [0, 0, 1, 1], "col": [0, 1, 0, 1]}, [[0, 4, 1, 5], [0, 1, 3, 2]])
    ['row + col * 4', '(row * 2 + col) ^ row']
    """
    extents = [1 + max(column) for column in axes.values()]
    places, *others = axes.values()
    for column, extent in zip(others, extents[1:], strict=True):
        places = [place * extent + number for place, number in zip(places, column, strict=True)]
    size = math.prod(extents)
    if len(places) != size or any(min(column) < 0 for column in axes.values()):
        return None
    in_order = [-1] * size
    for number, place in enumerate(places):
        in_order[place] = number
    if -1 in in_order:  # as another place is there twice
        return None
    texts = []
    for column in values:
        at = [column[number] for number in in_order]
        text = _sum(at, extents, [*axes])
        if text is None:
            crossed = _crossed(at, extents)
            plain = _sum([*map(xor, at, crossed)], extents, [*axes])
            turned = _sum(crossed, extents, [*axes])
            if plain is None or turned is None:
                return None
            text = " ^ ".join(f"({each})" if " + " in each else each for each in (plain, turned))
        texts.append(text)
    return texts


def _sum(at: Sequence[int], extents: Sequence[int], names: Sequence[str]) -> str | None:
    """A value at every place of a box as a sum of digits; None where it is none."""
    first, step, totals, line, found = at[0], len(at), [0], [at[0]], []
    for extent in extents:
        step //= extent
        totals = [total + number for total in totals for number in line]
        line = [at[place * step] - first for place in range(extent)]
        found.append(digits(line, cut=True))
        if valued(found[-1], extent) != line:
            return None
    parts = zip(range(0, len(at), len(line)), totals, strict=True)
    is_sum = all(at[start : start + len(line)] == [total + number for number in line] for start, total in parts)
    return quotients(found, names, first) if is_sum else None


def _crossed(at: Sequence[int], extents: Sequence[int]) -> list[int]:
    """The part of a value that a swizzle flips, at every place of a box."""
    steps = accumulate(extents, floordiv, initial=len(at))
    lines = [[at[place * step] for place in range(extent)] for extent, step in zip(extents, [*steps][1:], strict=True)]
    crossed = [0]
    for own in flipped(lines):
        crossed = [total ^ number for total in crossed for number in own]
    return crossed


def flipped(lines: Iterable[Sequence[int]]) -> list[list[int]]:
    """Of lines through one place, along a coordinate each, what a swizzle flips in their values.

    Each bit of an index flips some bits of the value. The highest is the sum's own, unless it is that of a bit before;
    all others are the swizzle's.
    """
    found, taken = [], 0
    for line in lines:
        own = [0]
        while len(own) < len(line):
            turned = line[len(own)] ^ line[0]
            top = 1 << turned.bit_length() >> 1 & ~taken
            taken |= top
            own += [by ^ turned ^ top for by in own]
        found.append(own[: len(line)])
    return found


def valued(of: Iterable[Digit], extent: int) -> list[int]:
    """The sum of these digits, which follow each other from the lowest on, of each index below an extent."""
    line = [0]
    for _, size, weight in of:
        line = [number + high * weight for high in range(size) for number in line]
    return line[:extent]


def quotients(axes: Sequence[Sequence[Digit]], names: Sequence[str], constant: int = 0) -> str:
    """The digits of each axis, and a constant, as text with quotients and remainders; ``names`` are those of the axes.

    >>> quotients(((Digit(1, 4, 0), Digit(4, 8, 1)), (Digit(1, 2, 0), Digit(2, 2, 8))), ("lane", "value"))
    'lane // 4 + value // 2 * 8'
    """
    terms = [
        quotient(digit, name, math.prod(digit.size for digit in of_axis), "//") + factor(digit.weight)
        for name, of_axis in zip(names, axes, strict=True)
        for digit in of_axis
        if digit.weight
    ]
    return added(terms, constant)


def quotient(digit: Digit, name: str, length: int, sign: str) -> str:
    """A digit of an index below ``length``, without its weight."""
    divided = f" {sign} {digit.step}" if digit.step > 1 else ""
    remainder = f" % {digit.size}" if digit.step * digit.size < length else ""
    return name + divided + remainder


def factor(weight: int) -> str:
    """A weight behind what it multiplies."""
    return f" * {weight}" if weight != 1 else ""


def added(terms: Sequence[str], constant: int) -> str:
    """Terms and a constant as a sum."""
    return " + ".join([*terms, *([str(constant)] if constant or not terms else [])])
