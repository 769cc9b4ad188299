"""A fragment as arrays over (lane, element i), which is how notations see it, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..fragment import Fragment, by_rule
from . import RefusedError
from .digits import MOST_CASES, Array, Case, NotASumError, Sum, as_cases, as_sum


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
        back = inverse(self.fragment)
        if "nth" in back.extents:
            raise refusal(self.fragment, self.at(int(back.places[..., 1:].min())), _SHARED)
        return back.places

    def at(self, place: int) -> dict[str, int]:
        """Lane, reg and slot of a place."""
        return located(self.fragment, place // self.values, place % self.values)


_SHARED = "holds a cell that another slot holds too"


@dataclass(frozen=True)
class Inverse:
    """Which slots hold a cell: lane * elements per lane + element in ``places``, an array over the ``extents``.

    These are computation, from 0, where there are several, row and col, and ``nth`` where several elements are stored
    of each ``chunk`` of so many columns, of which every window is a part: then all columns of a chunk have its slots,
    in the order of their windows.
    """

    chunk: int
    extents: Mapping[str, int]
    places: Array


def inverse(fragment: Fragment) -> Inverse:
    """The slots of every cell.

    Raises:
        RefusedError: not as many are stored of one chunk of columns as of another.
    """
    values = fragment.registers * fragment.slots
    held = by_lane(fragment)
    inside(fragment, held)
    cells = held.coordinates
    rows, cols = fragment.dimensions
    products = int(cells["computation"].max()) + 1
    chunk = next(
        width
        for width in range(1, cols + 1)
        if not cols % width and not (cells["col"] // width < cells["col_last"] // width).any()
    )
    place = (held.lanes[:, None] * values + held.elements).ravel()
    block = (((cells["computation"] * rows + cells["row"]) * cols + cells["col"]) // chunk).ravel()
    order = np.lexsort((place, cells["col_last"].ravel(), cells["col"].ravel(), block))
    counts = np.bincount(block, minlength=products * rows * cols // chunk)
    if len(few := np.flatnonzero(counts < counts.max())):
        again = np.sort(place[order[1:]][np.diff(block[order]) == 0])
        if chunk == 1 and len(again):
            raise refusal(fragment, located(fragment, *divmod(int(again[0]), values)), _SHARED)
        some = "some cell" if chunk == 1 else f"as many elements of some {chunk} columns as of others"
        raise RefusedError(f"{fragment}: no slot holds {some} of row {few[0] // (cols // chunk) % rows}")
    extents = {"computation": products, "row": rows, "col": cols, "nth": int(counts.max())}
    places = np.repeat(place[order].reshape(products, rows, cols // chunk, -1), chunk, axis=2)
    several = {name: extent for name, extent in extents.items() if extent > 1 or name in ("row", "col")}
    return Inverse(chunk, several, places.reshape(tuple(several.values())))


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
    held = by_lane(fragment)
    idle = np.setdiff1d(np.arange(fragment.threads), held.lanes)
    unused = np.setdiff1d(np.arange(fragment.registers * fragment.slots), held.elements)
    if len(idle) or len(unused):
        first = (int(idle[0]), 0) if len(idle) else (0, int(unused[0]))
        raise refusal(fragment, located(fragment, *first), "holds nothing")
    extents = dict(zip(("row", "col"), fragment.dimensions, strict=True))
    cells = {name: held.coordinates[name] for name in extents}
    if (products := int(held.coordinates["computation"].max()) + 1) > 1:
        cells = {"computation": held.coordinates["computation"]} | cells
        extents = {"computation": products} | extents
    inside(fragment, held)
    return Table(fragment, cells, extents)


class HeldElements(NamedTuple):
    """The lanes that hold anything, the elements i that these hold, and what.

    ``coordinates`` are row, col, col_last and computation, from 0, as arrays over these lanes and elements.
    """

    lanes: Array
    elements: Array
    coordinates: Mapping[str, Array]


def by_lane(fragment: Fragment) -> HeldElements:
    """What the lanes of a fragment hold.

    Raises:
        RefusedError: one of them leaves out an element that another one holds, or has one twice.
    """
    rows = fragment.elements
    assert rows is not None
    element = rows["reg"].astype(np.int64) * fragment.slots + rows["slot"]
    lanes, elements = np.unique(rows["lane"]).astype(np.int64), np.unique(element)
    place = np.searchsorted(lanes, rows["lane"]) * len(elements) + np.searchsorted(elements, element)
    expected = np.arange(len(lanes) * len(elements))
    if not np.array_equal(place, expected):
        odd = np.setxor1d(place, expected)
        first = int(odd[0]) if len(odd) else int(place[np.flatnonzero(np.diff(place) == 0)[0]])
        at = located(fragment, int(lanes[first // len(elements)]), int(elements[first % len(elements)]))
        raise refusal(fragment, at, "does not hold one thing, as those of other lanes do")
    names = ("row", "col", "col_last", "computation")
    arrays = {name: rows[name].astype(np.int64).reshape(len(lanes), len(elements)) for name in names}
    arrays["computation"] -= 1
    return HeldElements(lanes, elements, arrays)


def inside(fragment: Fragment, held: HeldElements) -> None:
    """Refuse a fragment with cells outside the matrix."""
    rows, cols = fragment.dimensions
    products = int(held.coordinates["computation"].max()) + 1
    extents = {"computation": products, "row": rows, "col": cols, "col_last": cols}
    for name, extent in extents.items():
        values = held.coordinates[name]
        if values.min() < 0 or values.max() >= extent:
            lane, element = np.argwhere((values < 0) | (values >= extent))[0].tolist()
            at = located(fragment, int(held.lanes[lane]), int(held.elements[element]))
            raise refusal(fragment, at, f"has a {name} outside the matrix")


def holding(count: int, numbers: Array) -> tuple[int, int] | None:
    """The mask and value with ``number & mask == value`` for these of ``count`` numbers and no other, None if none."""
    if len(numbers) == count:
        return 0, 0
    first = int(numbers[0])
    varying = int(np.bitwise_or.reduce(numbers ^ first))
    mask = (1 << (count - 1).bit_length()) - 1 & ~varying
    return (mask, first & mask) if len(numbers) == 1 << varying.bit_count() else None


def everywhere(fragment: Fragment, held: HeldElements) -> dict[str, Array]:
    """The coordinates extended to all lanes and elements: one that holds nothing is given what a similar one holds."""
    lanes, elements = held.lanes, held.elements
    near = np.ix_(_similar(fragment.threads, lanes), _similar(fragment.registers * fragment.slots, elements))
    return {name: values[near] for name, values in held.coordinates.items()}


def _similar(count: int, numbers: Array) -> Array:
    """For each of ``count`` numbers the place in ``numbers`` of one that is like it where these vary."""
    mask, value = holding(count, numbers) or (0, 0)
    nearest = np.searchsorted(numbers, np.arange(count) & ~mask | value, side="right") - 1
    return np.maximum(nearest, 0)


def rows_of(
    fragment: Fragment, coordinates: Mapping[str, Array | int], lanes: Sequence[int] | Array | None = None
) -> Array:
    """The elements of coordinates over (lane, element), for the given lanes or all: ``by_lane`` undone.

    ``computation`` is the first, and ``col_last`` is ``col``, where they are not among the coordinates.
    """
    shape = (fragment.threads if lanes is None else len(lanes), fragment.registers * fragment.slots)
    row, col, col_last, computation = (
        np.broadcast_to(each, shape)
        for each in (
            coordinates["row"],
            coordinates["col"],
            coordinates.get("col_last", coordinates["col"]),
            coordinates.get("computation", 0),
        )
    )
    return by_rule(fragment.slots, row, col, col_last, computation + 1, lanes)


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


def cases_of(fragment: Fragment, name: str, values: Array) -> list[Case]:
    """A coordinate over (lane, element) as cases.

    Raises:
        RefusedError: it takes too many.
    """
    try:
        return as_cases(values)
    except NotASumError as error:
        why = f"has {name} {error.value}: a formula would take more than {MOST_CASES} cases"
        raise refusal(fragment, located(fragment, *error.index), why) from None


def located(fragment: Fragment, lane: int, element: int) -> dict[str, int]:
    """Lane, reg and slot of an element."""
    return {"lane": lane, "reg": element // fragment.slots, "slot": element % fragment.slots}


def refusal(fragment: Fragment, element: Any, why: str) -> RefusedError:
    """The error that names an element, by its lane, reg and slot, and what keeps it from being expressed."""
    return RefusedError(f"{fragment}: lane {element['lane']} reg {element['reg']} slot {element['slot']} {why}")
