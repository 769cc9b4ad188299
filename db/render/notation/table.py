"""A fragment as arrays over (lane, element i), and what else the notations share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from ...errors import LanemapError
from ...isa.instructions import WORD
from ...isa.shared import Tile
from ...layout.algebra import Array, NotASumError, Sum, as_sum
from ...layout.fragment import CELL, Fragment
from ...layout.shared import UNIT, places

#: How many fragments are cached as arrays, since one is often written in several notations. Never change the arrays.
_FEW = 4


class RefusedError(LanemapError):
    """A notation cannot express a fragment: one line that names the first element that prevents it."""


class Writer(NamedTuple):
    """How a notation is written.

    ``compose`` writes a fragment under a name, or raises RefusedError. ``instruction``, if present, writes what a
    toolchain must know of a whole instruction, from its operands by role and CuTe's name of the instruction; this
    follows their texts. ``joined`` writes fragments that differ only in the numbers that select block scales as one
    text, or returns None. ``comment`` starts a comment; ``before``, ``between`` and ``after`` make a file of several
    texts.
    """

    compose: Callable[[Fragment, str], str]
    instruction: Callable[[str, Mapping[str, Fragment], str], str] | None = None
    joined: Callable[[Sequence[Fragment], str], str | None] | None = None
    comment: str = "//"
    before: str = ""
    between: str = "\n"
    after: str = ""


def refusal(fragment: Fragment, lane: int, element: int, why: str) -> RefusedError:
    """The error for an element, named by its lane, reg and slot, that cannot be expressed."""
    _, reg, slot = fragment.place(element)
    return RefusedError(f"{fragment}: lane {lane} reg {reg} slot {slot} {why}")


@dataclass(frozen=True, eq=False)
class Table:
    """Which lanes of a fragment hold anything, which elements i they hold, and where these are in the matrix.

    ``coordinates`` are row, col, col_last and computation, from 0, as arrays over these lanes and elements.
    """

    fragment: Fragment
    lanes: Array
    elements: Array
    coordinates: Mapping[str, Array]

    @property
    def products(self) -> int:
        """How many products or matrices its elements belong to."""
        return int(self.coordinates["computation"].max()) + 1

    def check_inside(self) -> None:
        """Refuse cells outside the matrix.

        Raises:
            RefusedError: names the first.
        """
        rows, cols = self.fragment.dimensions
        for name, extent in {"computation": self.products, "row": rows, "col": cols, "col_last": cols}.items():
            values = self.coordinates[name]
            if len(wrong := np.argwhere((values < 0) | (values >= extent)).tolist()):
                lane, element = int(self.lanes[wrong[0][0]]), int(self.elements[wrong[0][1]])
                raise refusal(self.fragment, lane, element, f"has a {name} outside the matrix")

    @cached_property
    def everywhere(self) -> Mapping[str, Array]:
        """The coordinates for all lanes and elements; where nothing is held, those of a similar lane or element.

        In lines of shared memory that are held in part, rows or columns go on to the end of a line.
        """
        if whole := self.lines():
            return whole
        counts = (self.fragment.threads, self.fragment.per_thread)
        near = []
        for count, numbers in zip(counts, (self.lanes, self.elements), strict=True):
            mask, value = bits_of(count, numbers) or (0, 0)
            place = np.searchsorted(numbers, np.arange(count) & ~mask | value, side="right") - 1
            near.append(np.maximum(place, 0))
        return {name: values[np.ix_(*near)] for name, values in self.coordinates.items()}

    def lines(self) -> dict[str, Array]:
        """The coordinates in all of a tile of shared memory; empty where all is held, or lies otherwise."""
        of, size = self.fragment.tile, self.fragment.per_thread
        if of is None or len(self.elements) == size:
            return {}
        if isinstance(of, Tile):
            extents = [count * atom for count, atom in zip(of.atoms, of.atom, strict=True)]
        else:
            extents = [of.mn, of.span * 8 // of.bits]
        number = places(of._replace(mn=extents[0], k=extents[1])).ravel() * self.fragment.slots // WORD
        slots, place = np.arange(size), np.full(1 + number.max(initial=size), -1)
        place[number] = np.arange(len(number))
        padding = slots & (UNIT // of.bits if isinstance(of, Tile) and of.narrow else 0)
        slots -= padding  # which is written like the elements before it, but beyond the last of a line
        if (place[slots] < 0).any():
            return {}
        mn, k = np.unravel_index(place[slots], extents)
        k = np.where(padding, k + extents[1], k)
        window = self.fragment.sparsity.window(k) if self.fragment.windowed else (k, k)
        row, col, last = (k, mn, mn) if self.fragment.role == "B" else (mn, *window)
        whole = {"row": row[None], "col": col[None], "col_last": last[None], "computation": np.zeros_like(row[None])}
        held = np.ix_(self.lanes, self.elements)
        return whole if all(np.array_equal(whole[name][held], self.coordinates[name]) for name in CELL) else {}


@lru_cache(_FEW)
def table(fragment: Fragment) -> Table:
    """The contents of a fragment.

    Raises:
        RefusedError: a lane lacks an element that another lane holds, or holds one twice.
    """
    rows = fragment.table
    element = rows["reg"].astype(np.int64) * fragment.slots + rows["slot"]
    lanes, elements = (np.flatnonzero(np.bincount(held)) for held in (rows["lane"], element))
    place = np.searchsorted(lanes, rows["lane"]) * len(elements) + np.searchsorted(elements, element)
    expected = np.arange(len(lanes) * len(elements))
    if not np.array_equal(place, expected):
        odd = np.setxor1d(place, expected)
        first = int(odd[0]) if len(odd) else int(place[np.flatnonzero(np.diff(place) == 0)[0]])
        lane, at = int(lanes[first // len(elements)]), int(elements[first % len(elements)])
        raise refusal(fragment, lane, at, "does not hold exactly one element, as it does in other lanes")
    arrays = {name: rows[name].astype(np.int64).reshape(len(lanes), len(elements)) for name in CELL}
    arrays["computation"] -= 1
    return Table(fragment, lanes, elements, arrays)


@lru_cache(_FEW)
def cells(fragment: Fragment) -> dict[str, Array]:
    """Row and col of each element as arrays (lanes, elements), after computation, from 0, where there are several.

    Raises:
        RefusedError: a slot holds nothing, can stand for several cells, or has a cell outside the matrix.
    """
    rows = fragment.table
    if len(wide := rows[rows["col_last"] != rows["col"]]):
        lane, reg, slot, _, col, last, _ = wide[0].tolist()
        raise refusal(fragment, lane, fragment.number(0, reg, slot), f"can stand for any column from {col} to {last}")
    held = table(fragment)
    idle = np.setdiff1d(np.arange(fragment.threads), held.lanes, assume_unique=True)
    unused = np.setdiff1d(np.arange(fragment.per_thread), held.elements, assume_unique=True)
    if len(idle) or len(unused):
        raise refusal(fragment, *((int(idle[0]), 0) if len(idle) else (0, int(unused[0]))), "holds nothing")
    held.check_inside()
    names = ("computation", "row", "col") if held.products > 1 else ("row", "col")
    return {name: held.coordinates[name] for name in names}


class Inverse(NamedTuple):
    """Which slots hold a cell: lane * elements per lane + element in ``places``, an array over the ``extents``.

    The extents are computation, from 0, where there are several, row and col. In a sparse operand, where several
    elements are stored of each ``chunk`` of columns, ``nth`` counts them: all columns of a chunk have the same slots,
    in the order of their windows, each of which lies within the chunk.
    """

    chunk: int
    extents: Mapping[str, int]
    places: Array


def inverse(fragment: Fragment, *, unique: bool = False) -> Inverse:
    """The slots of every cell.

    Raises:
        RefusedError: chunks of columns have different numbers of elements, or a cell several where ``unique``.
    """
    values = fragment.per_thread
    held = table(fragment)
    held.check_inside()
    cells = held.coordinates
    rows, cols = fragment.dimensions
    chunk = next(
        width
        for width in range(1, cols + 1)
        if not cols % width and not (cells["col"] // width < cells["col_last"] // width).any()
    )
    place = (held.lanes[:, None] * values + held.elements).ravel()
    block = (((cells["computation"] * rows + cells["row"]) * cols + cells["col"]) // chunk).ravel()
    order = np.lexsort((place, cells["col_last"].ravel(), cells["col"].ravel(), block))
    counts = np.bincount(block, minlength=held.products * rows * cols // chunk)
    repeated = np.sort(place[order[1:]][np.diff(block[order]) == 0]).tolist()
    few = np.flatnonzero(counts < counts.max()).tolist()
    if repeated and (unique or (few and chunk == 1)):
        lane, element = divmod(repeated[0], values)
        raise refusal(fragment, lane, element, "holds a cell that another slot also holds")
    if few:
        missing = "some cell" if chunk == 1 else f"as many elements of some {chunk} columns as of others"
        raise RefusedError(f"{fragment}: no slot holds {missing} of row {few[0] // (cols // chunk) % rows}")
    extents = {"computation": held.products, "row": rows, "col": cols, "nth": int(counts.max())}
    places = np.repeat(place[order].reshape(held.products, rows, cols // chunk, -1), chunk, axis=2)
    present = {name: extent for name, extent in extents.items() if extent > 1 or name in ("row", "col")}
    return Inverse(chunk, present, places.reshape(tuple(present.values())))


def bits_of(count: int, numbers: Array) -> tuple[int, int] | None:
    """The mask and value for which ``number & mask == value`` picks just these of ``count`` numbers, None if none."""
    if len(numbers) == count:
        return 0, 0
    first = int(numbers[0])
    mask = (1 << (count - 1).bit_length()) - 1 & ~int(np.bitwise_or.reduce(numbers ^ first))
    matching = np.flatnonzero(np.arange(count) & mask == first & mask)
    return (mask, first & mask) if np.array_equal(matching, numbers) else None


def sum_of(fragment: Fragment, name: str, values: Array) -> Sum:
    """A coordinate over (lane, element) as a sum of digits.

    Raises:
        RefusedError: it is not one.
    """
    try:
        return as_sum(values)
    except NotASumError as error:
        lane, element = error.index
        why = f"has {name} {error.value}, but the digits of lane and element add up to {error.expected}"
        raise refusal(fragment, lane, element, why) from None
