"""A fragment as a table of labels: by element (which lane, register and slot holds each cell) or by lane.

Neighbours that only count on are drawn as one: ``3:0.0-1`` is lane 3, register 0, slots 0 and 1. So the common
fragments fit into 80 columns, and nothing is left out. In a sparse operand ``3:0.0|1`` are slots of which each can
stand for any of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

Element = Mapping[str, int]


class Run(NamedTuple):
    """Elements of one lane and register, slots first to last, and the cells they hold."""

    lane: int
    reg: int
    slots: tuple[int, int]
    rows: tuple[int, int]
    cols: tuple[int, int]


@dataclass(frozen=True)
class Cell:
    """One entry of a grid: its label, and the lane that gives it its colour (None where several share it)."""

    label: str
    lane: int | None


@dataclass(frozen=True)
class Grid:
    """Labelled columns and rows of cells. ``corner`` names what runs down and across."""

    title: str
    corner: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]


def by_element(fragment: Mapping[str, Any], elements: Sequence[Element]) -> list[Grid]:
    """The matrix with, in each cell, ``lane:reg.slot``; one grid per computation."""
    grids = []
    for computation, part in groupby(sorted(elements, key=_computation), _computation):
        held: dict[tuple[int, int], list[Run]] = {}
        for each in sorted(part, key=lambda each: (each["lane"], each["reg"], each["slot"])):
            for col in range(each["col"], each["col_last"] + 1):
                held.setdefault((each["row"], col), []).append(_run(each))
        table = [
            [_joined(held.get((row, col), [])) for col in range(fragment["cols"])] for row in range(fragment["rows"])
        ]
        columns, table = _merge_columns(table)
        rows, table = _merge_rows(table)
        several = fragment["shape"] == "m8n8k4" and fragment["type"] == "f16"
        title = f"computation {computation}" if several or computation > 1 else ""
        body = [(_span(span), [_by_element(cell) for cell in line]) for span, line in zip(rows, table, strict=True)]
        grids.append(Grid(title, "row\\col", [_span(span) for span in columns], body))
    return grids


def by_lane(fragment: Mapping[str, Any], elements: Sequence[Element]) -> list[Grid]:
    """The register file: one row per lane, one column per ``reg.slot``, with ``row,col`` in each cell."""
    slots = [(reg, slot) for reg in range(fragment["registers"]) for slot in range(fragment["slots"])]
    place = {slot: index for index, slot in enumerate(slots)}
    table: list[list[list[Run]]] = [[[] for _ in slots] for _ in range(32)]
    for each in elements:
        table[each["lane"]][place[each["reg"], each["slot"]]].append(_run(each))
    computation = {each["lane"]: each["computation"] for each in elements}
    several = len(set(computation.values())) > 1
    columns, table = _merge_columns(table, within=slots)
    names = [f"{slots[first][0]}.{_span((slots[first][1], slots[last][1]))}" for first, last in columns]
    body = [
        (f"{lane} (computation {computation[lane]})" if several else str(lane), [_by_lane(cell, lane) for cell in line])
        for lane, line in enumerate(table)
        if any(line)
    ]
    return [Grid("", "lane\\reg.slot", names, body)]


def _run(each: Element) -> Run:
    cols = (each["col"], each["col_last"])
    return Run(each["lane"], each["reg"], (each["slot"], each["slot"]), (each["row"], each["row"]), cols)


def _computation(each: Element) -> int:
    return each["computation"]


Line = Sequence[Sequence[Run]]
Spans = list[tuple[int, int]]


def _merge_columns(
    table: Sequence[Line], within: Sequence[tuple[int, int]] | None = None
) -> tuple[Spans, list[list[list[Run]]]]:
    """Join neighbouring columns in which every line counts on, or holds the same; not across registers."""
    spans: Spans = []
    merged: list[list[list[Run]]] = [[] for _ in table]
    for index in range(len(table[0])):
        joined = [_next(line[-1], part[index]) for line, part in zip(merged, table, strict=True)] if spans else [None]
        if within and spans and within[index][0] != within[index - 1][0]:
            joined = [None]
        if all(cell is not None for cell in joined):
            spans[-1] = (spans[-1][0], index)
            for line, cell in zip(merged, joined, strict=True):
                line[-1] = cell or []
        else:
            spans.append((index, index))
            for line, part in zip(merged, table, strict=True):
                line.append(list(part[index]))
    return spans, merged


def _merge_rows(table: Sequence[Line]) -> tuple[Spans, list[list[list[Run]]]]:
    """The same downwards, where no columns were joined: a run goes one way."""
    turned = [list(line) for line in zip(*table, strict=True)]
    if any(run.cols[0] != run.cols[1] for line in table for cell in line for run in cell):
        return [(index, index) for index in range(len(table))], [[list(cell) for cell in line] for line in table]
    spans, merged = _merge_columns(turned)
    return spans, [list(line) for line in zip(*merged, strict=True)]


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


def _joined(runs: Iterable[Run]) -> list[Run]:
    """The slots that can stand for one cell, those of one register as one run."""
    joined: list[Run] = []
    for run in runs:
        last = joined[-1] if joined else None
        if last and (last.lane, last.reg, last.slots[1] + 1) == (run.lane, run.reg, run.slots[0]):
            joined[-1] = last._replace(slots=(last.slots[0], run.slots[1]))
        else:
            joined.append(run)
    return joined


def _by_element(cell: Sequence[Run]) -> Cell:
    return _cell(cell, lambda run: f"{run.lane}:{run.reg}.{_slots(run)}")


def _by_lane(cell: Sequence[Run], lane: int) -> Cell:
    return Cell(_cell(cell, lambda run: f"{_span(run.rows)},{_span(run.cols)}").label, lane if cell else None)


def _cell(cell: Sequence[Run], label: Callable[[Run], str]) -> Cell:
    lanes = {run.lane for run in cell}
    return Cell("+".join(map(label, cell)) or "-", lanes.pop() if len(lanes) == 1 else None)


def _slots(run: Run) -> str:
    """Slots that hold their cells one by one (0-3), or of which each can stand for any of them (0|..|3)."""
    first, last = run.slots
    window = run.cols[1] - run.cols[0] != last - first and run.cols[0] != run.cols[1]
    return (
        _span(run.slots)
        if not window or first == last
        else "|".join(map(str, (first, *[".."] * (last > first + 1), last)))
    )


def _span(span: tuple[int, int]) -> str:
    return str(span[0]) if span[0] == span[1] else f"{span[0]}-{span[1]}"
