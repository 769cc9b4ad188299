"""Fragments as tables of labels: by element (which lane, register and slot holds each cell) or by lane.

Neighbours that only count on are drawn as one: ``3:0.0-1`` is lane 3, register 0, slots 0 and 1. So the common
fragments fit into 80 columns, and nothing is left out. In a sparse operand ``3:0.0|1`` are slots of which each can
stand for any of the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..fragment import Fragment
from .runs import Held, Run, Spans, Table, join_columns, join_rows, join_slots, matrices, run, span_words


@dataclass(frozen=True)
class Cell:
    """One entry of a grid: its label, and the lane that gives it its colour (None where several share it).

    ``opens`` and ``closes``: a window of columns, of which its slots can stand for any, begins or ends there.
    ``differs``: it is not what the grid that it is compared with has there.
    """

    label: str
    lane: int | None
    opens: bool = False
    closes: bool = False
    differs: bool = False


@dataclass(frozen=True)
class Grid:
    """Labelled columns and rows of cells. ``corner`` names what runs down and across."""

    title: str
    corner: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]


def by_element(fragment: Fragment) -> list[Grid]:
    """The matrix with, in each cell, ``lane:reg.slot``; one grid per computation."""
    grids = []
    for computation, table in matrices(fragment).items():
        columns, joined = join_columns([table])
        rows, joined = join_rows(joined)
        grids.append(_grid(_title(fragment, computation), rows, columns, joined[0]))
    return grids


def in_product(a: Fragment, b: Fragment, d: Fragment) -> list[tuple[Grid, Grid, Grid]]:
    """A, B and D of each computation, where A and D have the same rows, and B and D the same columns."""
    tables = [matrices(operand) for operand in (a, b, d)]
    grids = []
    for computation in tables[0]:
        left, above, crossing = (table[computation] for table in tables)
        depth, (left,) = join_columns([left])
        columns, (above, crossing) = join_columns([above, crossing])
        rows, (left, crossing) = join_rows([left, crossing])
        depth_down, (above,) = join_rows([above])
        title = _title(a, computation)
        grids.append(
            (
                _grid(title, rows, depth, left),
                _grid(title, depth_down, columns, above),
                _grid(title, rows, columns, crossing),
            )
        )
    return grids


def side_by_side(left: Fragment, right: Fragment) -> list[tuple[Grid, Grid]]:
    """The same operand in two sources, with the same rows and columns, and what differs marked in both."""
    tables = [matrices(operand) for operand in (left, right)]
    rows, cols = left.dimensions
    empty: Table = [[[] for _ in range(cols)] for _ in range(rows)]
    grids = []
    for computation in sorted({*tables[0], *tables[1]}):
        columns, pair = join_columns([table.get(computation, empty) for table in tables])
        down, pair = join_rows(pair)
        title = _title(left, computation)
        one, other = (_grid(title, down, columns, *order) for order in (pair, pair[::-1]))
        grids.append((one, other))
    return grids


def by_lane(fragment: Fragment) -> list[Grid]:
    """The register file: one row per lane, one column per ``reg.slot``, with ``row,col`` in each cell."""
    slots = [(reg, slot) for reg in range(fragment.registers) for slot in range(fragment.slots)]
    place = {slot: index for index, slot in enumerate(slots)}
    table: Table = [[[] for _ in slots] for _ in range(fragment.threads)]
    elements = fragment.records()
    for each in elements:
        table[each.lane][place[each.reg, each.slot]].append(run(each))
    computation = {each.lane: each.computation for each in elements}
    several = len(set(computation.values())) > 1
    columns, (table,) = join_columns([table], within=[reg for reg, _ in slots])
    names = [f"{slots[first][0]}.{span_words((slots[first][1], slots[last][1]))}" for first, last in columns]
    body = [
        (f"{lane} (computation {computation[lane]})" if several else str(lane), [_by_lane(cell, lane) for cell in line])
        for lane, line in enumerate(table)
        if any(line)
    ]
    return [Grid("", "lane\\reg.slot", names, body)]


def _title(fragment: Fragment, computation: int) -> str:
    return f"computation {computation}" if fragment.computations > 1 or computation > 1 else ""


def _grid(title: str, rows: Spans, columns: Spans, table: Table, other: Table | None = None) -> Grid:
    beside = other or table
    body = [
        (span_words(row), [_by_element(*cell) for cell in zip(line, against, columns, strict=True)])
        for row, line, against in zip(rows, table, beside, strict=True)
    ]
    return Grid(title, "row\\col", [span_words(span) for span in columns], body)


def _by_element(cell: Held, beside: Held, columns: tuple[int, int]) -> Cell:
    labels = "+".join(f"{run.lane}:{run.reg}.{_slots(run)}" for run in join_slots(cell))
    windows = [run.cols for run in cell if _window(run)]
    opens, closes = (any(window[end] == columns[end] for window in windows) for end in (0, 1))
    return Cell(labels or "-", _lane(cell), opens, closes, cell != beside)


def _by_lane(cell: Held, lane: int) -> Cell:
    labels = "+".join(f"{span_words(run.rows)},{span_words(run.cols)}" for run in cell)
    return Cell(labels or "-", lane if cell else None)


def _lane(cell: Held) -> int | None:
    lanes = {run.lane for run in cell}
    return lanes.pop() if len(lanes) == 1 else None


def _slots(run: Run) -> str:
    """Slots that hold their cells one by one (0-3), or of which each can stand for any of them (0|..|3)."""
    first, last = run.slots
    if first == last or not _window(run):
        return span_words(run.slots)
    return "|".join(map(str, (first, *[".."] * (last > first + 1), last)))


def _window(run: Run) -> bool:
    width = run.cols[1] - run.cols[0]
    return width > 0 and width != run.slots[1] - run.slots[0]
