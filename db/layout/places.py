"""What each place holds and where each cell is, for whole arrays of them at once."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import LanemapError, OutsideError

Numbers = NDArray[np.int64]


class MatrixCell(NamedTuple):
    """What places hold: integers or arrays. ``col_last`` is ``col`` except in windows; ``computation`` is from 1."""

    row: Any
    col: Any
    col_last: Any
    computation: Any


class RegisterPlace(NamedTuple):
    """Where cells are: integers or arrays."""

    lane: Any
    reg: Any
    slot: Any


class Index:
    """The elements of a fragment by place and by cell.

    ``ranges`` has the range of each field by name; elements outside it are left out. Of two elements in one place only
    the first is found by place.
    """

    def __init__(self, elements: NDArray[Any], ranges: Mapping[str, range], fragment: object) -> None:
        self.ranges, self.fragment = ranges, fragment
        inside = np.all([(elements[name] >= at.start) & (elements[name] < at.stop) for name, at in ranges.items()], 0)
        # The number -1 stands for a missing element.
        self.columns: dict[str, Numbers] = {
            name: np.append(elements[name][inside].astype(np.int64), 0) for name in ranges
        }
        self._grouped = cache(self._numbered)

    def at(self, **place: ArrayLike) -> MatrixCell:
        """See ``Fragment.at``."""
        return MatrixCell(*self._held(MatrixCell._fields, place, first=True))

    def holding(self, **cell: ArrayLike) -> RegisterPlace:
        """See ``Fragment.find``."""
        return RegisterPlace(*self._held(RegisterPlace._fields, cell))

    def _held(self, fields: tuple[str, ...], named: Mapping[str, Any], *, first: bool = False) -> list[Any]:
        """Some fields of the elements at coordinates: integers or arrays; None, or masked, where there is none.

        Those of several elements are along another axis, unless only the ``first`` is wanted.
        """
        coordinates, lacking = self._checked(named)
        number = self._grouped(*named)[coordinates]
        if first or number.shape[-1] == 1:
            number, lacking = number[..., 0], lacking[..., 0]
        missing = (number < 0) | lacking
        if number.ndim == 0:
            return [None if missing else int(self.columns[field][number]) for field in fields]
        columns = [self.columns[field][number] for field in fields]
        return [np.ma.MaskedArray(values, missing) for values in columns] if missing.any() else columns

    def _numbered(self, *names: str) -> Numbers:
        """The numbers of the elements of each place or cell, in order, then -1: an array with an axis for each name."""
        widths = (self.columns["col_last"] - self.columns["col"] + 1)[:-1]
        number = np.repeat(np.arange(len(widths)), widths)
        steps = np.arange(len(number)) - np.repeat(np.cumsum(widths) - widths, widths)
        held = {name: self.columns[name][number] for name in names}
        if "col" in held:
            held["col"] = held["col"] + steps
        sizes = [self.ranges[name].stop for name in names]
        cell = np.ravel_multi_index(tuple(held.values()), sizes)
        order = np.argsort(cell, kind="stable")
        counts = np.bincount(cell, minlength=math.prod(sizes))
        nth = np.arange(len(cell)) - np.repeat(np.cumsum(counts) - counts, counts)
        table = np.full((len(counts), max(1, counts.max())), -1)
        table[cell[order], nth] = number[order]
        return table.reshape(*sizes, -1)

    def _checked(self, named: Mapping[str, Any]) -> tuple[tuple[Numbers, ...], NDArray[np.bool_]]:
        """Coordinates as arrays of one shape, and which of them are masked, with another axis for several elements."""
        try:
            masked = np.logical_or.reduce(np.broadcast_arrays(*map(np.ma.getmaskarray, named.values())))
        except ValueError:
            names = ", ".join(named)
            raise LanemapError(f"give integers for {names}, or arrays of them whose shapes broadcast") from None
        arrays = []
        for name, values in named.items():
            valid, array = self.ranges[name], np.asarray(values)
            array = array if array.size else array.astype(np.int64)
            if array.dtype.kind not in "iu":
                raise LanemapError(f"{name} must be an integer or an array of them, not {array.dtype}")
            array = np.where(np.ma.getmaskarray(values), valid.start, array)
            if array.size and (array.min() < valid.start or array.max() >= valid.stop):
                raise OutsideError(
                    name, array[(array < valid.start) | (array >= valid.stop)].flat[0], valid, self.fragment
                )
            arrays.append(array)
        return tuple(np.broadcast_arrays(*arrays)), masked[..., None]
