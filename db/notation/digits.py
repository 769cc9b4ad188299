"""A table as a sum of digits: the shape that all documented layouts have, and what their closed forms are made of.

A digit of an index is ``index // step % size``. A coordinate is a constant plus, for each axis of the table (lane and
element, or row and column), weighted digits of the index along that axis. It is what CuTe calls a layout (sizes are
its shape, weights its stride) and what PTX, MLIR and Python write with shifts, quotients and remainders.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

#: More cases than this are a table, not a formula.
MOST_CASES = 16


class NotASumError(Exception):
    """``index`` is the first place that no sum of digits explains: it holds ``value``, not ``expected``."""

    def __init__(self, index: tuple[int, ...], value: int, expected: int) -> None:
        super().__init__(index, value, expected)
        self.index, self.value, self.expected = index, value, expected


@dataclass(frozen=True)
class Digit:
    """``weight * (index // step % size)``."""

    step: int
    size: int
    weight: int


@dataclass(frozen=True)
class Sum:
    """A constant plus the digits of each axis. The sizes of an axis's digits multiply to its length."""

    constant: int
    axes: tuple[tuple[Digit, ...], ...]

    def __call__(self, *indices: Array | int) -> Array:
        """The value at the given indices, one array for each axis; they broadcast."""
        total: Array = np.asarray(self.constant)
        for digits, index in zip(self.axes, indices, strict=True):
            for digit in digits:
                total = total + index // digit.step % digit.size * digit.weight
        return total


def as_sum(table: Array) -> Sum:
    """The sum of digits that a table of any dimension is, with as few digits as can be.

    >>> as_sum(np.array([0, 1, 16, 17, 8, 9, 24, 25])).axes[0]
    (Digit(step=1, size=2, weight=1), Digit(step=2, size=2, weight=16), Digit(step=4, size=2, weight=8))

    Raises:
        NotASumError: it is none.
    """
    lines = [np.moveaxis(table, axis, 0).reshape(length, -1)[:, 0] for axis, length in enumerate(table.shape)]
    found = Sum(int(table.flat[0]), tuple(_digits((line - line[0]).tolist()) for line in lines))
    expected = found(*np.indices(table.shape, sparse=True))
    if wrong := np.argwhere(expected != table).tolist():
        index = tuple(wrong[0])
        raise NotASumError(index, int(table[index]), int(expected[index]))
    return found


class Case(NamedTuple):
    """A sum, and the part of each axis that it holds for."""

    total: Sum
    parts: tuple[range, ...]


def as_cases(table: Array, most: int = MOST_CASES) -> list[Case]:
    """The sums of digits that the halves of a table are, or the halves of these; one, if the whole table is a sum.

    Halving goes along one axis after another, in the order of axes that takes the fewest cases. The length of a part
    divides its start, so that digits of an index within the part are digits of the whole index. Cases are in the order
    of their parts.

    Raises:
        NotASumError: it takes more than ``most`` cases; names the first place that one sum does not explain.
    """
    try:
        return [Case(as_sum(table), tuple(map(range, table.shape)))]
    except NotASumError:
        ways = [_halved(table, order, most) for order in permutations(range(table.ndim))]
        if found := min(filter(None, ways), key=len, default=None):
            return found
        raise


def _halved(table: Array, order: tuple[int, ...], most: int) -> list[Case] | None:
    """The cases that halving leads to, each time along the first axis of ``order`` with halves; None if too many."""
    found: list[Case] = []
    open_ = [tuple(map(range, table.shape))]
    while open_:
        parts = open_.pop()
        try:
            found.append(Case(as_sum(table[tuple(slice(part.start, part.stop) for part in parts)]), parts))
        except NotASumError:
            axis = next((axis for axis in order if len(parts[axis]) % 2 == 0), None)
            if axis is None or len(found) + len(open_) + 2 > most:
                return None
            whole = parts[axis]
            middle = whole.start + len(whole) // 2
            halves = range(middle, whole.stop), range(whole.start, middle)
            open_ += [(*parts[:axis], half, *parts[axis + 1 :]) for half in halves]
    return found


def _digits(line: list[int]) -> tuple[Digit, ...]:
    """The only digits that a line which starts at 0 can be the sum of; it need not be."""
    found = []
    step = 1
    while step < len(line):
        rest = len(line) // step
        weight = line[step]
        run = next(size for size in count(2) if size >= rest or line[step * size] != weight * size)
        size = max((size for size in range(2, run + 1) if rest % size == 0), default=rest)
        found.append(Digit(step, size, weight))
        step *= size
    return tuple(found)
