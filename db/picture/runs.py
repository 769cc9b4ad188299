"""Elements that only count on, joined into runs, so that a table of them is short and nothing is left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ..fragment import Element, Fragment


class Run(NamedTuple):
    """Elements of one lane and register, slots first to last, and the cells they hold."""

    lane: int
    reg: int
    slots: tuple[int, int]
    rows: tuple[int, int]
    cols: tuple[int, int]

    @property
    def window(self) -> bool:
        """Whether each of its slots can stand for any of its columns."""
        width = self.cols[1] - self.cols[0]
        return width > 0 and width != self.slots[1] - self.slots[0]


#: What one cell of a table holds, a line of cells, and all lines.
Held = list[Run]
Line = list[Held]
Table = list[Line]
#: First and last, of the rows or columns that were joined.
Spans = list[tuple[int, int]]


def run(each: Element) -> Run:
    """One element as a run of its own."""
    cols = (each.col, each.col_last)
    return Run(each.lane, each.reg, (each.slot, each.slot), (each.row, each.row), cols)


@lru_cache(16)
def matrices(fragment: Fragment) -> dict[int, Table]:
    """The matrix of each computation, with all elements that can stand for a cell in it. Nobody changes it."""
    rows, cols = fragment.dimensions
    held: dict[int, dict[tuple[int, int], Held]] = {}
    for lane, reg, slot, row, first, last, computation in fragment.tuples():
        mine = held.setdefault(computation, {})
        run = Run(lane, reg, (slot, slot), (row, row), (first, last))
        for col in range(first, last + 1):
            mine.setdefault((row, col), []).append(run)
    return {
        number: [[held[number].get((row, col), []) for col in range(cols)] for row in range(rows)]
        for number in sorted(held)
    }


def join_columns(tables: Sequence[Table], within: Sequence[int] | None = None) -> tuple[Spans, list[Table]]:
    """Join neighbouring columns in which every line of every table counts on, or holds the same.

    Args:
        tables: of equally many columns, which stay under each other.
        within: joins only columns of which it has the same number.
    """
    stacked = [line for table in tables for line in table]
    spans: Spans = []
    merged: Table = [[] for _ in stacked]
    for index in range(len(stacked[0])):
        beside = not within or (index > 0 and within[index] == within[index - 1])
        together = _together(merged, stacked, index) if spans and beside else None
        if together is not None:
            spans[-1] = (spans[-1][0], index)
            for line, cell in zip(merged, together, strict=True):
                line[-1] = cell
        else:
            spans.append((index, index))
            for line, part in zip(merged, stacked, strict=True):
                line.append(part[index])
    lines = iter(merged)
    return spans, [[next(lines) for _ in table] for table in tables]


def join_rows(tables: Sequence[Table]) -> tuple[Spans, list[Table]]:
    """The same downwards for tables of equally many rows, unless columns were joined: a run goes one way."""
    if any(run.cols[0] != run.cols[1] for table in tables for line in table for cell in line for run in cell):
        return [(index, index) for index in range(len(tables[0]))], list(tables)
    spans, joined = join_columns([turned(table) for table in tables])
    return spans, [turned(table) for table in joined]


def turned(table: Table) -> Table:
    """The table with its columns as lines."""
    return [list(line) for line in zip(*table, strict=True)]


def _together(merged: Table, stacked: Table, index: int) -> Line | None:
    """The last column so far and the next one as one, or None where some line does not go on."""
    column = []
    for line, part in zip(merged, stacked, strict=True):
        cell = _next(line[-1], part[index])
        if cell is None:
            return None
        column.append(cell)
    return column


def _next(left: Sequence[Run], right: Sequence[Run]) -> list[Run] | None:
    """Two neighbours as one, or None where they do not go on from each other."""
    if len(left) != len(right):
        return None
    joined = [_extend(one, other) for one, other in zip(left, right, strict=True)]
    return [run for run in joined if run] if all(joined) else None


def _extend(left: Run, right: Run) -> Run | None:
    if left == right:
        return left
    if (left.lane, left.reg, left.slots[1] + 1) != (right.lane, right.reg, right.slots[0]):
        return None
    same = (left.rows, left.cols) == (right.rows, right.cols)
    across = left.rows == right.rows and right.cols[0] == left.cols[1] + 1 and right.cols[0] == right.cols[1]
    down = left.cols == right.cols and right.rows[0] == left.rows[1] + 1
    if not (same or across or down):
        return None
    slots, rows, cols = zip(left[2:], right[2:], strict=True)
    return left._replace(slots=_ends(slots), rows=_ends(rows), cols=_ends(cols))


def _ends(spans: tuple[tuple[int, int], tuple[int, int]]) -> tuple[int, int]:
    return spans[0][0], spans[1][1]


def join_slots(runs: Iterable[Run]) -> Held:
    """The slots that can stand for one cell, those of one register as one run."""
    joined: list[Run] = []
    for run in runs:
        last = joined[-1] if joined else None
        if last and (last.lane, last.reg, last.slots[1] + 1) == (run.lane, run.reg, run.slots[0]):
            joined[-1] = last._replace(slots=(last.slots[0], run.slots[1]))
        else:
            joined.append(run)
    return joined


def span_words(span: tuple[int, int]) -> str:
    """``3``, or ``0-3``."""
    return str(span[0]) if span[0] == span[1] else f"{span[0]}-{span[1]}"
