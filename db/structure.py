"""Structural checks: what must hold for any fragment of any source, whatever its layout.

Lanes, registers, slots and cells are in range; no slot stands for two cells; and every cell of the matrix is held once
(once per computation). In a sparse operand, where an element only names the columns that it can stand for, every cell
can be held, and by as many elements as the cells of the same column in the other rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .fragment import LANES, Fragment
from .spans import spans


def check(fragment: Fragment) -> list[str]:
    """What is wrong with the fragment, each as one sentence; empty where nothing is, or where it has no elements."""
    if fragment.elements is None:
        return []
    return _out_of_range(fragment, fragment.elements) or [*_slots(fragment, fragment.elements), *_cells(fragment)]


def _out_of_range(fragment: Fragment, table: NDArray[Any]) -> list[str]:
    rows, cols = fragment.dimensions
    limits = {
        "lane": LANES,
        "reg": fragment.registers,
        "slot": fragment.slots,
        "row": rows,
        "col": cols,
        "col_last": cols,
    }
    outside = {
        name: [value for value in np.unique(table[name]).tolist() if not 0 <= value < limits[name]] for name in limits
    }
    found = [f"{name} {spans(values)} is outside 0..{limits[name] - 1}" for name, values in outside.items() if values]
    if (table["col_last"] < table["col"]).any():
        found.append("a window of columns ends before it begins")
    return found


def _slots(fragment: Fragment, table: NDArray[Any]) -> list[str]:
    count = np.zeros((LANES, fragment.registers, fragment.slots), np.int64)
    np.add.at(count, (table["lane"], table["reg"], table["slot"]), 1)
    found = []
    if (count > 1).any():
        lane, reg, slot = np.argwhere(count > 1)[0]
        found.append(f"{(count > 1).sum()} slots stand for several cells, first lane {lane} reg {reg} slot {slot}")
    # Only some lanes supply metadata, so E alone may leave slots unused.
    if fragment.role != "E" and (count == 0).any():
        lane, reg, slot = np.argwhere(count == 0)[0]
        found.append(f"{(count == 0).sum()} slots stand for no cell, first lane {lane} reg {reg} slot {slot}")
    return found


def _cells(fragment: Fragment) -> list[str]:
    table = fragment.elements
    assert table is not None
    rows, cols = fragment.dimensions
    dense = bool((table["col"] == table["col_last"]).all())
    computations = np.unique(table["computation"]).tolist()
    found = []
    for computation in computations:
        held = coverage(table[table["computation"] == computation], rows, cols)
        usual = 1 if dense else np.maximum(1, np.median(held, axis=0))
        masks = {"too often": held > usual, "never": held == 0, "too seldom": (held < usual) & (held > 0)}
        where = f"computation {computation}: " if len(computations) > 1 else ""
        found += [where + cells for how, mask in masks.items() if (cells := _in_words(mask, how))]
    return found


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
    groups: dict[str, list[int]] = {}
    for row in np.flatnonzero(mask.any(axis=1)).tolist():
        groups.setdefault(spans(np.flatnonzero(mask[row]).tolist()), []).append(row)
    cells = "; ".join(f"rows {spans(members)} cols {cols}" for cols, members in list(groups.items())[:3])
    more = f" and {len(groups) - 3} more groups" if len(groups) > 3 else ""
    return f"{int(mask.sum())} cells are held {how}: {cells}{more}"
