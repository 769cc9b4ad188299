"""Structural checks: what must hold for any fragment of any source, whatever its layout.

Lanes, registers, slots, cells and computations are in range; no slot stands for two cells; and every cell of the matrix
is held once (once per computation), or as often as the instruction holds each. Only A and E of a sparse instruction may
name windows of columns: there every cell can be held, by as many elements as the same cell of the other rows and of the
other chunks of columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .fragment import Fragment
from .grouped import grouped
from .instructions import SUPPLIED, copies
from .spans import spans


class Expected(NamedTuple):
    """What must hold for the layout of a fragment. Fragments of many types have the same, and the same layout.

    ``ranges`` are those of the fields of an element. A cell is held ``copies`` times. ``windowed`` elements may name
    several columns, of one ``chunk``. All slots of a ``whole`` operand stand for a cell.
    """

    ranges: tuple[tuple[str, range], ...]
    copies: int
    windowed: bool
    chunk: int
    whole: bool


def expected(fragment: Fragment) -> Expected:
    """What must hold for the layout of a fragment."""
    often = copies(*fragment.key[:4])
    return Expected(
        tuple(fragment.ranges.items()), often, fragment.windowed, fragment.chunk, fragment.role not in SUPPLIED
    )


def check(fragment: Fragment) -> list[str]:
    """What is wrong with the fragment, each as one sentence; empty where nothing is, or where it has no elements."""
    if (table := fragment.elements) is None:
        return []
    known = expected(fragment)
    return _out_of_range(table, known) or [*_slots(table, known), *_windows(table, known), *_cells(table, known)]


def _out_of_range(table: NDArray[Any], known: Expected) -> list[str]:
    found = [
        f"{name} {spans(np.unique(outside).tolist())} is outside {inside.start}..{inside.stop - 1}"
        for name, inside in known.ranges
        if len(outside := table[name][(table[name] < inside.start) | (table[name] >= inside.stop)])
    ]
    if (table["col_last"] < table["col"]).any():
        found.append("a window of columns ends before it begins")
    return found


def _slots(table: NDArray[Any], known: Expected) -> list[str]:
    count = np.zeros([inside.stop for _, inside in known.ranges[:3]], np.int64)
    np.add.at(count, (table["lane"], table["reg"], table["slot"]), 1)
    found = []
    if (count > 1).any():
        lane, reg, slot = np.argwhere(count > 1)[0]
        found.append(f"{(count > 1).sum()} slots stand for several cells, first lane {lane} reg {reg} slot {slot}")
    if known.whole and (count == 0).any():
        lane, reg, slot = np.argwhere(count == 0)[0]
        found.append(f"{(count == 0).sum()} slots stand for no cell, first lane {lane} reg {reg} slot {slot}")
    return found


def _windows(table: NDArray[Any], known: Expected) -> list[str]:
    wide = table["col_last"] > table["col"]
    if wide.any() and not known.windowed:
        return [f"{wide.sum()} elements name a window of columns, which only A and E of mma.sp can"]
    # A document may name a window of several chunks; an aligned block of columns holds the whole of it all the same.
    block = max(known.chunk, 1 << int((table["col_last"] - table["col"]).max(initial=0)).bit_length())
    across = table["col"] // block != table["col_last"] // block
    return [f"{across.sum()} windows of columns lie across two chunks"] if across.any() else []


def _cells(table: NDArray[Any], known: Expected) -> list[str]:
    ranges = dict(known.ranges)
    rows, cols, computations = ranges["row"].stop, ranges["col"].stop, ranges["computation"]
    dense = bool((table["col"] == table["col_last"]).all())
    found = []
    for computation in computations:
        held = coverage(table[table["computation"] == computation], rows, cols)
        usual = known.copies if dense else _usual(held, known.chunk)
        masks = {"too often": held > usual, "never": held == 0, "too seldom": (held < usual) & (held > 0)}
        where = f"computation {computation}: " if len(computations) > 1 else ""
        found += [where + cells for how, mask in masks.items() if (cells := _in_words(mask, how))]
    return found


def _usual(held: NDArray[np.int64], width: int) -> NDArray[Any]:
    """How often most cells of the same place in a chunk are held, for each column."""
    width = width if held.shape[1] % width == 0 else held.shape[1]
    chunks = held.reshape(len(held), -1, width)
    return np.tile(np.maximum(1, np.median(chunks, axis=(0, 1))), held.shape[1] // width)


def coverage(table: NDArray[Any], rows: int, cols: int) -> NDArray[np.int64]:
    """How many elements can stand for each cell: an array of shape (rows, cols)."""
    edges = np.zeros((rows, cols + 1), np.int64)
    np.add.at(edges, (table["row"], table["col"]), 1)
    np.add.at(edges, (table["row"], table["col_last"].astype(np.int64) + 1), -1)
    return edges.cumsum(axis=1)[:, :cols]


def _in_words(mask: NDArray[np.bool_], how: str) -> str:
    """The cells of a mask as rows and columns, grouped where several rows share their columns."""
    if not mask.any():
        return ""
    rows: list[int] = np.flatnonzero(mask.any(axis=1)).tolist()
    groups = grouped(rows, lambda row: spans(np.flatnonzero(mask[row]).tolist()))
    cells = "; ".join(f"rows {spans(members)} cols {cols}" for cols, members in list(groups.items())[:3])
    more = f" and {len(groups) - 3} more groups" if len(groups) > 3 else ""
    return f"{int(mask.sum())} cells are held {how}: {cells}{more}"
