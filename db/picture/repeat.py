"""What repeats in a table, so that a part of it can stand for all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..instructions import WARP
from .runs import Run, Table


class Shift(NamedTuple):
    """How far what is held moves from one part of a table to the next, in every part alike."""

    lane: int
    reg: int
    slot: int
    row: int
    col: int


def repeat(tables: Sequence[Table], *, whole_warps: bool = False) -> tuple[int, list[Shift]] | None:
    """How many lines repeat in all tables, which have equally many, and the shift in each; None where nothing does.

    Args:
        tables: lines of cells.
        whole_warps: only where each lane moves to the same place of another warp, or stays.
    """
    lines = len(tables[0])
    for step in range(1, lines // 2 + 1):
        if lines % step:
            continue
        shifts = [shift for table in tables if (shift := _shift(table, step))]
        if len(shifts) == len(tables) and not (whole_warps and any(shift.lane % WARP for shift in shifts)):
            return step, shifts
    return None


def _shift(table: Table, step: int) -> Shift | None:
    """The one shift that takes every line to the line ``step`` below it."""
    first = None
    for line, below in zip(table, table[step:], strict=False):
        for one, other in zip(line, below, strict=True):
            if len(one) != len(other):
                return None
            for before, after in zip(one, other, strict=True):
                if first is None:
                    first = _between(before, after)
                if first is None or _moved(before, first) != after:
                    return None
    return first


def _between(one: Run, other: Run) -> Shift | None:
    """The shift of a run, whose slots, rows and columns stay as many."""
    (slot, last_slot), (row, last_row), (col, last_col) = (
        (after[0] - before[0], after[1] - before[1]) for before, after in zip(one[2:], other[2:], strict=True)
    )
    if (slot, row, col) != (last_slot, last_row, last_col):
        return None
    return Shift(other.lane - one.lane, other.reg - one.reg, slot, row, col)


def _moved(run: Run, shift: Shift) -> tuple[Any, ...]:
    """A run after a shift."""
    lane, reg, (slot, last_slot), (row, last_row), (col, last_col) = run
    by_lane, by_reg, by_slot, down, across = shift
    slots, rows = (slot + by_slot, last_slot + by_slot), (row + down, last_row + down)
    return lane + by_lane, reg + by_reg, slots, rows, (col + across, last_col + across)


def in_words(kind: str, step: int, lines: int, shift: Shift) -> str:
    """What is left out when only the first ``step`` lines are shown, rows, columns, lanes or registers.

    >>> in_words("row", 16, 64, Shift(lane=32, reg=0, slot=0, row=16, col=0))
    'Rows 16-63 repeat rows 0-15: with every 16 rows the lane is 32 higher.'
    """
    first, each = (f"{kind}s 0-{step - 1}", f"{step} {kind}s") if step > 1 else (f"{kind} 0", kind)
    moved = " and ".join(_moves(kind, shift)) or "nothing changes"
    return f"{kind.title()}s {step}-{lines - 1} repeat {first}: with every {each} {moved}."


def _moves(kind: str, shift: Shift) -> Iterator[str]:
    for name, by in zip(("lane", "register", "slot", "row", "column"), shift, strict=True):
        if by and name != kind:
            yield f"the {name} is {abs(by)} {'higher' if by > 0 else 'lower'}"
