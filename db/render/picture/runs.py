"""Consecutive elements joined into runs, and repetitions in a table, of which one part can stand for all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import sub
from typing import NamedTuple, TypeVar

from ...layout.fragment import unpacked

Item = TypeVar("Item")


class Run(NamedTuple):
    """Elements of one lane and register: first and last slot, and the cells that they hold."""

    lane: int
    reg: int
    slots: tuple[int, int]
    rows: tuple[int, int]
    cols: tuple[int, int]

    @classmethod
    def of(cls, lane: int, reg: int, slot: int, row: int, col: int, col_last: int) -> Run:
        """One element."""
        return cls(lane, reg, (slot, slot), (row, row), (col, col_last))

    @property
    def window(self) -> bool:
        """Whether each of its slots can stand for any of its columns."""
        width = self.cols[1] - self.cols[0]
        return width > 0 and width != self.slots[1] - self.slots[0]


#: The contents of one cell; a table as lines of cells; the first and last of the rows or columns that were joined.
Cells = list[Run]
Table = list[list[Cells]]
Spans = Sequence[tuple[int, int]]

#: A table of elements, of which runs are made when what repeats is left out.
Elements = list[list[list[tuple[int, ...]]]]


@lru_cache(16)
def matrices(packed: bytes, rows: int, cols: int) -> dict[int, tuple[Elements, int]]:
    """The matrix of each computation, with the elements of each cell, and how many elements are outside.

    Operands with the same layout share the result: never change it.
    """
    tables: dict[int, Elements] = defaultdict(lambda: no_elements(rows, cols))
    outside = Counter[int]()
    for element in unpacked(packed):
        _, _, _, row, first, last, computation = element
        table = tables[computation]
        if 0 <= row < rows and first >= 0 and last < cols:
            for cell in table[row][first : last + 1]:
                cell.append(element)
        else:
            outside[computation] += 1
    return {number: (tables[number], outside[number]) for number in sorted(tables)}


def no_elements(rows: int, cols: int) -> Elements:
    """A matrix that no lane holds anything of."""
    return [[[] for _ in range(cols)] for _ in range(rows)]


def single(table: Elements) -> Table:
    """Each element as a run."""
    return [[[Run.of(*element[:6]) for element in cell] for cell in line] for line in table]


def join_columns(tables: Sequence[Table], within: Sequence[int] = ()) -> tuple[Spans, list[Table]]:
    """Join neighbouring columns where in every line of every table the elements continue or are the same.

    The tables have equally many columns, which stay aligned. If ``within`` is given, only columns with the same number
    in it are joined.
    """
    spans: list[tuple[int, int]] = []
    merged: Table = []
    for index, column in enumerate(turned([line for table in tables for line in table])):
        beside = index > 0 and (not within or within[index] == within[index - 1])
        joined = _together(merged[-1], column) if beside else None
        if joined is None:
            spans.append((index, index))
            merged.append(column)
        else:
            spans[-1] = (spans[-1][0], index)
            merged[-1] = joined
    lines = iter(turned(merged))
    return spans, [[next(lines) for _ in table] for table in tables]


def join_rows(tables: Sequence[Table]) -> tuple[Spans, list[Table]]:
    """The same for the rows of tables with equally many, unless columns were joined: a run has one direction."""
    if any(run.cols[0] != run.cols[1] for table in tables for line in table for cell in line for run in cell):
        return [(index, index) for index in range(len(tables[0]))], list(tables)
    spans, joined = join_columns([turned(table) for table in tables])
    return spans, [turned(table) for table in joined]


def turned(table: list[list[Item]]) -> list[list[Item]]:
    """The table with its columns as lines."""
    return [list(line) for line in zip(*table, strict=True)]


def _together(left: list[Cells], right: list[Cells]) -> list[Cells] | None:
    """Two columns as one, or None if some line does not continue."""
    column = []
    for before, after in zip(left, right, strict=True):
        joined = [extend(*pair) for pair in zip(before, after, strict=False)]
        column.append([run for run in joined if run])
        if not len(before) == len(after) == len(column[-1]):
            return None
    return column


def _follows(left: Run, right: Run) -> bool:
    return (left.lane, left.reg, left.slots[1] + 1) == (right.lane, right.reg, right.slots[0])


def extend(left: Run, right: Run) -> Run | None:
    """Two runs as one, or None where the second does not continue the first."""
    if left == right:
        return left
    if not _follows(left, right):
        return None
    same = (left.rows, left.cols) == (right.rows, right.cols)
    across = left.rows == right.rows and right.cols[0] == left.cols[1] + 1 and right.cols[0] == right.cols[1]
    down = left.cols == right.cols and right.rows[0] == left.rows[1] + 1
    if not (same or across or down):
        return None
    rows, cols = (left.rows[0], right.rows[1]), (left.cols[0], right.cols[1])
    return Run(left.lane, left.reg, (left.slots[0], right.slots[1]), rows, cols)


def join_slots(runs: Iterable[Run]) -> Cells:
    """The slots that can stand for one cell, those of one register as one run."""
    joined: list[Run] = []
    for run in runs:
        if joined and _follows(joined[-1], run):
            joined[-1] = joined[-1]._replace(slots=(joined[-1].slots[0], run.slots[1]))
        else:
            joined.append(run)
    return joined


def span_words(span: tuple[int, int]) -> str:
    """``3``, or ``0-3``."""
    return str(span[0]) if span[0] == span[1] else f"{span[0]}-{span[1]}"


#: How far lane, register, slot, row and column of every element move from one part of a table to the next.
Shift = tuple[int, int, int, int, int]


def repeat(tables: Sequence[Elements], lanes: int = 1) -> tuple[int, list[Shift]] | None:
    """After how many lines all tables, which have equally many, repeat, and the shift in each; None if they do not.

    A lane stays, or moves by a multiple of ``lanes``, to its place in another warp.
    """
    lines = len(tables[0])
    counts = [[len(cell) for line in table for cell in line] for table in tables]
    fields = [
        [*zip(*(element for line in table for cell in line for element in cell), strict=True)] for table in tables
    ]
    for step in range(1, lines // 2 + 1):
        if lines % step == 0:
            both = zip(counts, fields, strict=True)
            shifts = [shift for each in both if (shift := _shift(*each, step * len(each[0]) // lines, lanes))]
            if len(shifts) == len(tables):
                return step, shifts
    return None


def _shift(counts: Sequence[int], fields: Sequence[Sequence[int]], cells: int, lanes: int) -> Shift | None:
    """The one shift from every element to that in its place so many cells further on.

    ``counts`` say how many elements each cell has, and each of ``fields`` has a number of all elements.
    """
    further = sum(counts[:cells])
    if not fields or further >= len(fields[0]) or counts[cells:] != counts[:-cells]:
        return None
    lane, reg, slot, row, col, last = by = [field[further] - field[0] for field in fields[:6]]
    same = (all(map(each.__eq__, map(sub, field[further:], field))) for each, field in zip(by, fields, strict=False))
    return (lane, reg, slot, row, col) if lane % lanes == 0 and col == last and all(same) else None


def in_words(kind: str, step: int, lines: int, shift: Shift) -> str:
    """What is left out when only the first ``step`` rows, columns, lanes or registers (``kind``) are shown.

    >>> in_words("row", 16, 64, (32, 0, 0, 16, 0))
    'Rows 16-63 repeat rows 0-15: with every 16 rows the lane is 32 higher.'
    """
    first, period = (f"{kind}s 0-{step - 1}", f"{step} {kind}s") if step > 1 else (f"{kind} 0", kind)
    by_name = zip(("lane", "register", "slot", "row", "column"), shift, strict=True)
    moves = [
        f"the {name} is {abs(by)} {'higher' if by > 0 else 'lower'}" for name, by in by_name if by and name != kind
    ]
    moved = " and ".join(moves) or "nothing changes"
    return f"{kind.title()}s {step}-{lines - 1} repeat {first}: with every {period} {moved}."
