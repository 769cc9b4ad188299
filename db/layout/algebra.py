"""Closed forms of tables: shapes with strides, bases that add by XOR, and their text.

A digit of an index is ``index // step % size``. A coordinate is a constant plus, for each axis of the table (lane and
element, or row and column), weighted digits of the index along that axis. That is what CuTe calls a layout (sizes are
its shape, weights its stride) and what PTX, MLIR, C++ and Python write with shifts, quotients and remainders. If bits
are combined by XOR, as in Triton's linear layouts, each bit of an index has a basis vector.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache, reduce
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import LanemapError
from .digits import Digit, added, digits, factor, flipped, quotient

Array = NDArray[Any]
IntTuple = int | tuple["IntTuple", ...]

#: More cases than this are a table, not a formula.
MOST_CASES = 16
#: The largest operand of one instruction is far smaller; a larger layout is a mistake or an attack.
MAX_SIZE = 1 << 20
#: The bits of a lane of Tensor Memory: 65536 columns of 32 bits can be addressed (9.7.18.1.1).
LANE_BITS = 1 << 21


class NotASumError(Exception):
    """``index`` is the first place that no sum of digits explains: it holds ``value``, not ``expected``."""

    def __init__(self, index: tuple[int, ...], value: int, expected: int) -> None:
        super().__init__(index, value, expected)
        self.index, self.value, self.expected = index, value, expected


class NoLayoutError(LanemapError):
    """Something that a library calls a layout is not one."""


@dataclass(frozen=True)
class Sum:
    """A constant plus the digits of each axis. The sizes of an axis's digits multiply to its length.

    Without a constant it is a layout of CuTe, with an axis for each mode; as text it is written like one.

    >>> print(as_sum(np.array([[0, 16, 8, 24], [1, 17, 9, 25]])))
    (2,(2,2)):(1,(16,8))
    """

    constant: int
    axes: tuple[tuple[Digit, ...], ...]

    def __call__(self, *indices: Array | int) -> Array:
        """The value at the given indices, one array for each axis; they broadcast."""
        total: Array = np.asarray(self.constant)
        for of_axis, index in zip(self.axes, indices, strict=True):
            for digit in of_axis:
                total = total + index // digit.step % digit.size * digit.weight
        return total

    def __str__(self) -> str:
        modes = [axis or (Digit(1, 1, 0),) for axis in self.axes]
        return ":".join(_text([[digit[field] for digit in mode] for mode in modes]) for field in (1, 2))

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many indices each axis has."""
        return tuple(math.prod(digit.size for digit in axis) for axis in self.axes)

    def table(self) -> Array:
        """The values at all indices: an array with these axes."""
        return np.broadcast_to(self(*np.indices(self.lengths, sparse=True)), self.lengths)


def strided(shape: IntTuple, stride: IntTuple | None = None) -> Sum:
    """The layout of a shape and a stride of equal nesting; without a stride the compact one, leftmost fastest.

    Each mode is an axis, and everything nested in it, however deep, makes its digits.

    Raises:
        NoLayoutError: shape and stride are not nested alike, an extent is not positive, or a stride is negative.
        LanemapError: it is larger than any operand of an instruction.

    >>> print(strided((4, (2, 2))))
    (4,(2,2)):(1,(4,8))
    """

    def pairs(mode: IntTuple, step: IntTuple | None) -> list[tuple[IntTuple, IntTuple | None]]:
        if isinstance(mode, tuple) and step is None:
            return [(part, None) for part in mode]
        if not (isinstance(mode, tuple) and isinstance(step, tuple) and len(step) == len(mode)):
            raise NoLayoutError(f"shape {_text(shape)} and stride {_text(stride)} are not nested alike: no layout")
        return [*zip(mode, step, strict=True)]

    def leaves(mode: IntTuple, step: IntTuple | None) -> Iterator[tuple[int, int | None]]:
        if isinstance(mode, int) and (step is None or isinstance(step, int)):
            yield mode, step
        else:
            for pair in pairs(mode, step):
                yield from leaves(*pair)

    axes, reached = [], 1
    for mode in [(shape, stride)] if isinstance(shape, int) else pairs(shape, stride):
        digits, step = [], 1
        for size, weight in leaves(*mode):
            digits.append(Digit(step, size, reached if weight is None else weight))
            step, reached = step * size, reached * size
        axes.append(tuple(digits))
    layout = Sum(0, tuple(axes))
    if any(digit.size < 1 or not 0 <= digit.weight <= LANE_BITS for axis in axes for digit in axis):
        raise NoLayoutError(f"{layout} has an extent below 1, or a stride outside 0..{LANE_BITS}: no layout")
    if reached > MAX_SIZE:
        raise LanemapError(f"{layout} has more than {MAX_SIZE} coordinates: no operand of an instruction is so large")
    return layout


def parse_strided(text: str) -> Sum:
    """The layout that a text such as ``((4,8),2):((16,1),8)`` describes.

    Raises:
        ValueError: it describes none.
        LanemapError: see ``strided``.
    """

    def nested(value: Any) -> IntTuple:
        if isinstance(value, list):
            return tuple(map(nested, value))
        return int(str(value))

    shape, _, stride = text.replace("(", "[").replace(")", "]").partition(":")
    try:
        return strided(nested(json.loads(shape)), nested(json.loads(stride)))
    except RecursionError:
        raise ValueError(f"{text[:40]}... is nested too deeply") from None


def _text(nested: Any) -> str:
    """Nested numbers as CuTe writes them. A single one in a list, but not in a tuple, has no brackets."""
    if isinstance(nested, list) and len(nested) == 1:
        return _text(nested[0])
    return f"({','.join(map(_text, nested))})" if isinstance(nested, list | tuple) else str(nested)


def as_sum(table: Array, *, cut: bool = False) -> Sum:
    """A table of any dimension as a sum of digits, with as few digits as possible.

    Each axis of one that is ``cut`` may end before its last digit has had all its values.

    >>> as_sum(np.array([0, 1, 16, 17, 8, 9, 24, 25])).axes[0]
    (Digit(step=1, size=2, weight=1), Digit(step=2, size=2, weight=16), Digit(step=4, size=2, weight=8))

    Raises:
        NotASumError: it is not one.
    """
    first = (0,) * table.ndim
    total = Sum(int(table[first]), tuple(digits((line - line[0]).tolist(), cut=cut) for line in _lines(table)))
    expected = total(*np.indices(table.shape, sparse=True))
    wrong = expected != table
    if wrong.any():
        index = tuple(int(at) for at in np.unravel_index(wrong.argmax(), table.shape))
        raise NotASumError(index, int(table[index]), int(expected[index]))
    return total


def as_swizzle(table: Array) -> list[Sum]:
    """A table of any dimension as a sum of digits, or the two whose exclusive or it is: the second has what is flipped.

    Axes may be cut.

    >>> [total.axes[0] for total in as_swizzle(np.array([[0, 1, 2, 3], [5, 4, 7, 6]]))]
    [(Digit(step=1, size=2, weight=4),), (Digit(step=1, size=2, weight=1),)]

    Raises:
        NotASumError: it is neither.
    """
    with suppress(NotASumError):
        return [as_sum(table, cut=True)]
    crossed: Array = reduce(np.bitwise_xor.outer, [*map(np.array, flipped(line.tolist() for line in _lines(table)))])
    return [as_sum(table ^ crossed, cut=True), as_sum(crossed, cut=True)]


def _lines(table: Array) -> list[Array]:
    """The values along each axis, from the first place of a table on."""
    first: tuple[Any, ...] = (0,) * table.ndim
    return [table[(*first[:axis], slice(None), *first[axis + 1 :])] for axis in range(table.ndim)]


class Case(NamedTuple):
    """A sum, and the part of each axis for which it holds."""

    total: Sum
    parts: tuple[range, ...]


def as_cases(table: Array, most: int = MOST_CASES) -> list[Case]:
    """A table as sums of digits of its halves, or of their halves; as one, if the whole table is a sum.

    Axes are halved one after another, in the order that takes the fewest cases. The length of a part divides its start,
    so that digits of an index within the part are digits of the whole index. Cases are in the order of their parts.

    Raises:
        NotASumError: it takes more than ``most`` cases; names the first place where one sum fails.
    """
    cases = _cases(table.tobytes(), table.dtype, table.shape, most)
    if isinstance(cases, NotASumError):
        raise cases.with_traceback(None)
    return cases


@lru_cache(256)
def _cases(data: bytes, kind: Any, shape: tuple[int, ...], most: int) -> list[Case] | NotASumError:
    """The cases, or why there are none. Operands of one layout have the same tables."""
    table: Array = np.frombuffer(data, kind).reshape(shape)

    @cache
    def total(*parts: range) -> Sum | None:
        """The sum of a part, which several ways of halving come to."""
        try:
            return as_sum(table[tuple(slice(part.start, part.stop) for part in parts)])
        except NotASumError:
            return None

    try:
        return [Case(as_sum(table), tuple(map(range, shape)))]
    except NotASumError as error:
        ways = [_halved(total, shape, order, most) for order in permutations(range(table.ndim))]
        return min(filter(None, ways), key=len, default=None) or error


def _halved(
    total: Callable[..., Sum | None], shape: tuple[int, ...], order: tuple[int, ...], most: int
) -> list[Case] | None:
    """The cases from halving, each time along the first axis of ``order`` with an even length; None if too many."""
    cases: list[Case] = []
    open_ = [tuple(map(range, shape))]
    while open_:
        parts = open_.pop()
        if (found := total(*parts)) is not None:
            cases.append(Case(found, parts))
            continue
        axis = next((axis for axis in order if len(parts[axis]) % 2 == 0), None)
        if axis is None or len(cases) + len(open_) + 2 > most:
            return None
        part = parts[axis]
        middle = part.start + len(part) // 2
        halves = range(middle, part.stop), range(part.start, middle)
        open_ += [(*parts[:axis], half, *parts[axis + 1 :]) for half in halves]
    return cases


def span(bases: Iterable[Sequence[int]], dimensions: int = 2) -> NDArray[np.int64]:
    """For every index the XOR of the vectors of its bits that are set: an array (indices, dimensions).

    >>> span([(0, 1), (0, 2), (4, 1)]).tolist()
    [[0, 0], [0, 1], [0, 2], [0, 3], [4, 1], [4, 0], [4, 3], [4, 2]]
    """
    points = np.zeros((1, dimensions), np.int64)
    for basis in bases:
        points = np.concatenate([points, points ^ np.asarray(basis, np.int64)])
    return points


def bits(case: Case, names: Sequence[str], words: Mapping[tuple[str, int, int], str] | None = None) -> str:
    """The sum of a case as text with bit fields; ``names`` are the indices of its axes.

    ``words`` has terms for fields of whole axes, by name, step and size.

    >>> total = Sum(1, ((Digit(1, 4, 2), Digit(4, 8, 1)), (Digit(1, 2, 0), Digit(2, 2, 8))))
    >>> bits(Case(total, (range(32), range(4))), ("lane", "i"))
    '(lane & 0x3) * 2 + (lane >> 2) + (i >> 1) * 8 + 1'
    """
    fields = [
        _field(name, digit, part, words or {})
        for name, of_axis, part in zip(names, case.total.axes, case.parts, strict=True)
        for digit in of_axis
        if digit.weight
    ]
    if len(fields) == 1 and fields[0][1] == 1 and not case.total.constant:
        return re.sub(r"^\(([^()]*)\)$", r"\1", fields[0][0])  # without brackets around all of it
    return added([field + factor(weight) for field, weight in fields], case.total.constant)


def _field(name: str, digit: Digit, part: range, words: Mapping[tuple[str, int, int], str]) -> tuple[str, int]:
    """The field of an index that runs over ``part``, in brackets if a sum needs them, and its remaining weight.

    The weight is 1 if the bits are already where they count.
    """
    top = digit.step * digit.size >= part.stop
    if (name, digit.step, digit.size) in words:
        return words[name, digit.step, digit.size], digit.weight
    if not _power_of_two(digit.step) or not (top or _power_of_two(digit.size)):
        return f"({quotient(digit, name, part.stop, '/')})", digit.weight
    if digit.weight == digit.step > 1 and _power_of_two(digit.size):
        return f"({name} & 0x{(digit.size - 1) * digit.step:X})", 1
    shift = digit.step.bit_length() - 1
    shifted = f"({name} >> {shift})" if shift else name
    return (shifted if top else f"({shifted} & 0x{digit.size - 1:X})"), digit.weight


def _power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
