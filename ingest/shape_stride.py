"""CuTe's layouts: a shape and a stride of equal nesting, which take coordinates to an index.

Coordinates count colexicographically, the leftmost fastest; the index is the sum of coordinate times stride.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..db.errors import LanemapError

IntTuple = int | tuple["IntTuple", ...]

#: The largest operand of one instruction is far smaller; a larger layout is a mistake or an attack.
MAX_SIZE = 1 << 20
#: The bits of a lane of Tensor Memory: 65536 columns of 32 bits can be addressed (9.7.16.1.1).
LANE_BITS = 1 << 21


class NoLayoutError(LanemapError):
    """What a library calls a layout is not one."""


def layout(shape: IntTuple, stride: IntTuple | None = None) -> Layout:
    """A layout; without a stride the compact one, leftmost fastest.

    Raises:
        NoLayoutError: shape and stride are not nested alike, or an extent is not positive, or a stride negative.

    >>> print(layout((4, (2, 2))))
    (4,(2,2)):(1,(4,8))
    """
    made = Layout(shape, _compact(shape, 1) if stride is None else stride)
    if not _alike(made.shape, made.stride):
        raise NoLayoutError(f"shape {_text(shape)} and stride {_text(made.stride)} are not nested alike: no layout")
    for extent, step in _modes(made.shape, made.stride):
        if extent < 1 or step < 0 or step > LANE_BITS:
            raise NoLayoutError(f"{made} has an extent below 1, or a stride outside 0..{LANE_BITS}: no layout")
    if size(made.shape) > MAX_SIZE:
        raise LanemapError(f"{made} has more than {MAX_SIZE} coordinates: no operand of an instruction is so large")
    return made


def size(shape: IntTuple) -> int:
    """How many coordinates a shape has.

    >>> size(((4, 8), 2))
    64
    """
    return shape if isinstance(shape, int) else prod(map(size, shape))


def indices(of: Layout) -> NDArray[np.int64]:
    """The index of every coordinate, in the order in which coordinates count.

    >>> indices(layout((2, 3), (10, 1))).tolist()
    [0, 10, 1, 11, 2, 12]
    """
    index = np.zeros(1, np.int64)
    for extent, step in _modes(of.shape, of.stride):
        index = (step * np.arange(extent)[:, None] + index).ravel()
    return index


def thread_value(of: Layout) -> NDArray[np.int64]:
    """The indices of a layout of two modes, threads and values, as an array (threads, values).

    Raises:
        LanemapError: the layout does not have two modes.
    """
    if isinstance(of.shape, int) or len(of.shape) != 2:
        raise LanemapError(f"{of} does not take a thread and a value: it must have two modes")
    return indices(of).reshape([size(mode) for mode in of.shape], order="F")


@dataclass(frozen=True)
class Layout:
    """A shape and a stride of equal nesting: whole numbers or tuples of them. ``layout`` makes and checks one."""

    shape: IntTuple
    stride: IntTuple

    def __str__(self) -> str:
        return f"{_text(self.shape)}:{_text(self.stride)}"


def _compact(shape: IntTuple, step: int) -> IntTuple:
    if isinstance(shape, int):
        return step
    strides = []
    for mode in shape:
        strides.append(_compact(mode, step))
        step *= size(mode)
    return tuple(strides)


def _alike(shape: IntTuple, stride: IntTuple) -> bool:
    if isinstance(shape, int) or isinstance(stride, int):
        return isinstance(shape, int) and isinstance(stride, int)
    return len(shape) == len(stride) and all(map(_alike, shape, stride))


def _modes(shape: IntTuple, stride: IntTuple) -> Iterator[tuple[int, int]]:
    if isinstance(shape, int) or isinstance(stride, int):
        assert isinstance(shape, int)
        assert isinstance(stride, int)
        yield shape, stride
        return
    for mode, step in zip(shape, stride, strict=True):
        yield from _modes(mode, step)


def _text(value: IntTuple) -> str:
    return str(value) if isinstance(value, int) else f"({','.join(map(_text, value))})"
