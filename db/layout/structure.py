"""Structural checks: what must hold for any fragment of any source, whatever its layout.

Lanes, registers, slots, cells and computations are in range; no slot stands for two cells; and every cell of the matrix
is held once (once per computation), or as often as the instruction makes copies. Only A and E of a sparse instruction
may name windows of columns: then every cell can be held by as many elements as the same cell of other rows and of other
chunks of columns.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LanemapError
from ..isa.instructions import instruction
from ..text import grouped, spans
from .fragment import PLACE, Fragment, by_field, chosen


def check(fragment: Fragment) -> list[str]:
    """What is wrong with the fragment, one sentence each; empty if nothing is, or if it has no elements."""
    if (table := fragment.elements) is None:
        return []
    if findings := check_ranges(fragment):
        return findings

    ranges = fragment.ranges
    sizes = [ranges[name].stop for name in PLACE]
    number = np.ravel_multi_index([table[name].astype(np.intp) for name in PLACE], sizes)
    often = np.bincount(number, minlength=math.prod(sizes)).reshape(sizes)
    never = (often == 0) & (not fragment.partial)
    for wrong, contents in ((often > 1, "several cells"), (never, "nothing")):
        if wrong.any():
            lane, reg, slot = np.argwhere(wrong)[0]
            findings.append(f"{_counted(wrong, 'slot hold')} {contents}, first lane {lane} reg {reg} slot {slot}")

    further = table["col_last"] - table["col"]
    if (wide := further > 0).any():
        # A document may name a window of several chunks; even then an aligned block of columns holds all of it.
        block = max(fragment.chunk, 1 << int(further.max()).bit_length())
        across = table["col"] // block != table["col_last"] // block
        if not fragment.windowed:
            findings.append(f"{wide.sum()} elements name a window of columns, which only A and E of mma.sp can")
        elif across.any():
            findings.append(f"{across.sum()} windows of columns lie across two chunks")

    for computation in ranges["computation"]:
        held = coverage(chosen(table, table["computation"] == computation), ranges["row"].stop, ranges["col"].stop)
        usual = _usual(held, fragment.chunk) if wide.any() else _copies(fragment, held)
        masks = {
            "held too often": held > usual,
            "never held": held == 0,
            "held too rarely": (held < usual) & (held > 0),
        }
        where = f"computation {computation}: " if len(ranges["computation"]) > 1 else ""
        findings += [
            f"{where}{_counted(mask, 'cell are')} {how}: {_cells_of(mask)}" for how, mask in masks.items() if mask.any()
        ]
    return findings


def check_ranges(fragment: Fragment) -> list[str]:
    """What is wrong with single elements: coordinates that the fragment does not have, and windows the wrong way."""
    table = fragment.table
    numbers = by_field(table)
    least, most = numbers.min(axis=1, initial=1), numbers.max(axis=1, initial=0)
    findings = [
        f"{name} {spans(np.unique(outside).tolist())} is outside {inside.start}..{inside.stop - 1}"
        for (name, inside), values, low, high in zip(fragment.ranges.items(), numbers, least, most, strict=True)
        if low < inside.start or high >= inside.stop
        if len(outside := values[(values < inside.start) | (values >= inside.stop)])
    ]
    return findings + ["a window of columns ends before it begins"] * bool((table["col_last"] < table["col"]).any())


def expect_ranges(fragment: Fragment) -> None:
    """Refuse a fragment in which single elements are wrong.

    Raises:
        LanemapError: says the first that is wrong.
    """
    if wrong := check_ranges(fragment):
        raise LanemapError(f"{fragment}: {wrong[0]}")


def _counted(mask: NDArray[np.bool_], words: str) -> str:
    """A count with a noun and its verb: ``3 slots hold``."""
    count, (noun, verb) = int(mask.sum()), words.split()
    return f"{count} {noun}s {verb}" if count != 1 else f"1 {noun} {'is' if verb == 'are' else verb + 's'}"


def _usual(held: NDArray[np.int64], width: int) -> NDArray[Any]:
    """For each column, how often most cells at the same place in a chunk are held."""
    width = width if held.shape[1] % width == 0 else held.shape[1]
    chunks = held.reshape(len(held), -1, width)
    return np.tile(np.maximum(1, np.median(chunks, axis=(0, 1))), held.shape[1] // width)


def _copies(fragment: Fragment, held: NDArray[np.int64]) -> int:
    """How often each cell should be held; in a table of an unknown instruction, as often as most are."""
    if instruction(fragment.instruction).known:
        return fragment.copies
    return max(1, int(np.median(held)))


def coverage(table: NDArray[Any], rows: int, cols: int) -> NDArray[np.int64]:
    """How many elements can stand for each cell: an array of shape (rows, cols)."""
    line, size = table["row"].astype(np.intp) * (cols + 1), rows * (cols + 1)
    first = np.bincount(line + table["col"], minlength=size).reshape(rows, cols + 1)
    if (table["col"] == table["col_last"]).all():
        return first[:, :cols]
    end = np.bincount(line + table["col_last"] + 1, minlength=size).reshape(rows, cols + 1)
    return (first - end).cumsum(axis=1)[:, :cols]


def _cells_of(mask: NDArray[np.bool_]) -> str:
    """The cells of a mask as rows and columns, grouping rows with the same columns."""
    rows: list[int] = np.flatnonzero(mask.any(axis=1)).tolist()
    groups = grouped(rows, lambda row: spans(np.flatnonzero(mask[row]).tolist()))
    cells = "; ".join(f"rows {spans(members)} cols {cols}" for cols, members in list(groups.items())[:3])
    rest = f" and {len(groups) - 3} more groups" if len(groups) > 3 else ""
    return cells + rest
