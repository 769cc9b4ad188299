"""A table as a sum of digits: the shape that all documented layouts have, and what their closed forms are made of.

A digit of an index is ``index // step % size``. A coordinate is a constant plus, for each axis of the table (lane and
element, or row and column), weighted digits of the index along that axis. It is what CuTe calls a layout (sizes are
its shape, weights its stride) and what PTX, MLIR and Python write with shifts, quotients and remainders.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


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
