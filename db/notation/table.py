"""A fragment as arrays over (lane, element i), which is how notations see it, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LanemapError
from ..fragment import LANES, Fragment, elements
from .digits import NotASumError, Sum, as_sum

Array = NDArray[Any]


class RefusedError(LanemapError):
    """A notation cannot express a fragment: one line that names the first element that breaks it."""


@dataclass(frozen=True)
class Table:
    """Where each element of a fragment is whose slots hold one cell each.

    ``coordinates`` are arrays of shape (lanes, elements per lane): row and col, and before them computation, from 0,
    where there are several. ``extents`` says how many of each there are.
    """

    fragment: Fragment
    coordinates: Mapping[str, Array]
    extents: Mapping[str, int]

    @property
    def values(self) -> int:
        """Elements per lane."""
        return self.fragment.registers * self.fragment.slots

    def sums(self) -> dict[str, Sum]:
        """Each coordinate as a sum of digits of lane and element.

        Raises:
            RefusedError: one is none.
        """
        return {name: sum_of(self.fragment, name, values) for name, values in self.coordinates.items()}

    def places(self) -> Array:
        """The inverse: lane * elements per lane + element of each cell, an array with one axis per coordinate.

        Raises:
            RefusedError: a cell is held twice or never.
        """
        cells = tuple(values.ravel() for values in self.coordinates.values())
        shape = tuple(self.extents.values())
        flat = np.ravel_multi_index(cells, shape)
        _, first = np.unique(flat, return_index=True)
        if len(again := np.setdiff1d(np.arange(len(flat)), first)):
            raise refusal(self.fragment, self.at(int(again[0])), "holds a cell that another slot holds too")
        if len(flat) < math.prod(shape):
            row = np.setdiff1d(np.arange(math.prod(shape)), flat)[0] // shape[-1] % shape[-2]
            raise RefusedError(f"{self.fragment}: no slot holds some cell of row {row}")
        inverse = np.empty(len(flat), np.int64)
        inverse[flat] = np.arange(len(flat))
        return inverse.reshape(shape)

    def at(self, place: int) -> dict[str, int]:
        """Lane, reg and slot of a place."""
        return located(self.fragment, place // self.values, place % self.values)


def table(fragment: Fragment) -> Table:
    """The fragment as arrays.

    Raises:
        RefusedError: a slot holds nothing, or can stand for several cells.
    """
    rows = fragment.elements
    assert rows is not None
    if len(wide := rows[rows["col_last"] != rows["col"]]):
        first = wide[0]
        raise refusal(fragment, first, f"can stand for any column from {first['col']} to {first['col_last']}")
    lanes, coordinates = by_lane(fragment)
    if len(idle := np.setdiff1d(np.arange(LANES), lanes)):
        raise refusal(fragment, located(fragment, int(idle[0]), 0), "holds nothing")
    extents = dict(zip(("row", "col"), fragment.dimensions, strict=True))
    cells = {name: coordinates[name] for name in extents}
    if (products := int(coordinates["computation"].max()) + 1) > 1:
        cells = {"computation": coordinates["computation"]} | cells
        extents = {"computation": products} | extents
    for name, values in cells.items():
        if len(outside := np.argwhere((values < 0) | (values >= extents[name])).tolist()):
            raise refusal(fragment, located(fragment, *outside[0]), f"has a {name} outside the matrix")
    return Table(fragment, cells, extents)


def by_lane(fragment: Fragment) -> tuple[Array, dict[str, Array]]:
    """The lanes that hold anything, and row, col, col_last and computation, from 0, over these and all elements.

    Raises:
        RefusedError: such a lane leaves an element out, or has one twice.
    """
    rows = fragment.elements
    assert rows is not None
    values = fragment.registers * fragment.slots
    lanes = np.unique(rows["lane"]).astype(np.int64)
    place = (np.searchsorted(lanes, rows["lane"]) * fragment.registers + rows["reg"]) * fragment.slots + rows["slot"]
    expected = np.arange(len(lanes) * values)
    if len(odd := np.setxor1d(place, expected)) or len(place) != len(expected):
        first = int(odd[0]) if len(odd) else int(place[np.flatnonzero(np.diff(place) == 0)[0]])
        element = located(fragment, int(lanes[first // values % len(lanes)]), first % values)
        raise refusal(fragment, element, "does not hold one thing, as others of its lane do")
    names = ("row", "col", "col_last", "computation")
    arrays = {name: rows[name].astype(np.int64).reshape(len(lanes), values) for name in names}
    arrays["computation"] -= 1
    return lanes, arrays


def rows_of(fragment: Fragment, coordinates: Mapping[str, Array], lanes: Sequence[int] | Array = range(LANES)) -> Array:
    """The ELEMENT rows of coordinates over (lane, element), for the given lanes: ``by_lane`` undone.

    ``computation`` is the first, and ``col_last`` is ``col``, where they are not among the coordinates.
    """
    shape = (len(lanes), fragment.registers * fragment.slots)
    lane, element = np.indices(shape)
    full = {"computation": np.zeros(shape, np.int64), "col_last": coordinates["col"], **coordinates}
    columns = {name: np.broadcast_to(values, shape).ravel() for name, values in full.items()}
    columns["computation"] = columns["computation"] + 1
    places = {"lane": np.asarray(lanes)[lane], "reg": element // fragment.slots, "slot": element % fragment.slots}
    return elements(columns | {name: values.ravel() for name, values in places.items()})


def sum_of(fragment: Fragment, name: str, values: Array) -> Sum:
    """A coordinate over (lane, element) as a sum of digits.

    Raises:
        RefusedError: it is none.
    """
    try:
        return as_sum(values)
    except NotASumError as error:
        why = f"has {name} {error.value}, but the digits of lane and element add up to {error.expected}"
        raise refusal(fragment, located(fragment, *error.index), why) from None


def located(fragment: Fragment, lane: int, element: int) -> dict[str, int]:
    """Lane, reg and slot of an element."""
    return {"lane": lane, "reg": element // fragment.slots, "slot": element % fragment.slots}


def refusal(fragment: Fragment, element: Any, why: str) -> RefusedError:
    """The error that names an element, by its lane, reg and slot, and what keeps it from being expressed."""
    return RefusedError(f"{fragment}: lane {element['lane']} reg {element['reg']} slot {element['slot']} {why}")
