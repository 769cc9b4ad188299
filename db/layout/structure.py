"""Structural checks: what must hold for any fragment of any source, whatever its layout.

Lanes, registers, slots, cells and computations are in range; no slot stands for two cells; and every cell of the matrix
is held once (once per computation), or as often as the instruction holds each. Only A and E of a sparse instruction may
name windows of columns: there every cell can be held, by as many elements as the same cell of the other rows and of the
other chunks of columns.
"""

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..isa.instructions import PARTIAL_ROLES, copies
from ..isa.listing import grouped, spans
from .fragment import PLACE, Fragment


def expected(fragment: Fragment) -> Hashable:
    """All that ``check`` asks of a fragment beside its elements. Those of many types are alike in it."""
    ranges = tuple(fragment.ranges.items())
    return ranges, copies(*fragment.key[:4]), fragment.windowed, fragment.chunk, fragment.role in PARTIAL_ROLES


def check(fragment: Fragment) -> list[str]:
    """What is wrong with the fragment, each as one sentence; empty where nothing is, or where it has no elements."""
    if (table := fragment.elements) is None:
        return []
    ranges = fragment.ranges
    found = [
        f"{name} {spans(np.unique(outside).tolist())} is outside {inside.start}..{inside.stop - 1}"
        for name, inside in ranges.items()
        if len(outside := table[name][(table[name] < inside.start) | (table[name] >= inside.stop)])
    ]
    if (table["col_last"] < table["col"]).any():
        found.append("a window of columns ends before it begins")
    if found:
        return found

    often = np.zeros([ranges[name].stop for name in PLACE], np.int64)
    np.add.at(often, (table["lane"], table["reg"], table["slot"]), 1)
    for wrong, what in ((often > 1, "several cells"), ((often == 0) & (fragment.role not in PARTIAL_ROLES), "nothing")):
        if wrong.any():
            lane, reg, slot = np.argwhere(wrong)[0]
            found.append(f"{_counted(wrong, 'slot hold')} {what}, first lane {lane} reg {reg} slot {slot}")

    wide = table["col_last"] > table["col"]
    # A document may name a window of several chunks; an aligned block of columns holds the whole of it all the same.
    block = max(fragment.chunk, 1 << int((table["col_last"] - table["col"]).max(initial=0)).bit_length())
    across = table["col"] // block != table["col_last"] // block
    if wide.any() and not fragment.windowed:
        found.append(f"{wide.sum()} elements name a window of columns, which only A and E of mma.sp can")
    elif across.any():
        found.append(f"{across.sum()} windows of columns lie across two chunks")

    for computation in ranges["computation"]:
        held = coverage(table[table["computation"] == computation], ranges["row"].stop, ranges["col"].stop)
        usual = _usual(held, fragment.chunk) if wide.any() else copies(*fragment.key[:4])
        masks = {
            "held too often": held > usual,
            "never held": held == 0,
            "held too rarely": (held < usual) & (held > 0),
        }
        where = f"computation {computation}: " if len(ranges["computation"]) > 1 else ""
        found += [
            f"{where}{_counted(mask, 'cell are')} {how}: {_cells_of(mask)}" for how, mask in masks.items() if mask.any()
        ]
    return found


def _counted(mask: NDArray[np.bool_], what: str) -> str:
    """How many there are of a noun, with its verb."""
    count, (noun, verb) = int(mask.sum()), what.split()
    return f"{count} {noun}s {verb}" if count != 1 else f"1 {noun} {'is' if verb == 'are' else verb + 's'}"


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


def _cells_of(mask: NDArray[np.bool_]) -> str:
    """The cells of a mask as rows and columns, grouped where several rows share their columns."""
    rows: list[int] = np.flatnonzero(mask.any(axis=1)).tolist()
    groups = grouped(rows, lambda row: spans(np.flatnonzero(mask[row]).tolist()))
    cells = "; ".join(f"rows {spans(members)} cols {cols}" for cols, members in list(groups.items())[:3])
    more = f" and {len(groups) - 3} more groups" if len(groups) > 3 else ""
    return cells + more
