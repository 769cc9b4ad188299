"""Fragments as tables of labels: by element (which lane, register and slot holds each cell) or by lane.

Neighbours that only count on are drawn as one: ``3:0.0-1`` is lane 3, register 0, slots 0 and 1. So the common
fragments fit into 80 columns, and nothing is left out. In a sparse operand ``3:0.0|1`` are slots of which each can
stand for any of the columns. Of an operand of several warps only what repeats is drawn, and what repeats is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from ..fragment import Fragment
from ..instructions import WARP, axis_name, instruction
from .repeat import in_words, repeat
from .runs import Held, Run, Spans, Table, join_columns, join_rows, join_slots, matrices, run, span_words, turned
from .view import View, letter

#: More columns of labels than these are too many to see at a glance. Where they repeat, they are drawn once.
_WIDE = 16


@dataclass(frozen=True)
class Cell:
    """One entry of a grid: its label, and the elements that it stands for.

    ``opens`` and ``closes``: a window of columns, of which its slots can stand for any, begins or ends there.
    ``faded``: it has no colour. ``differs``: it is not what the grid that it is compared with has there.
    """

    label: str
    held: Held
    opens: bool = False
    closes: bool = False
    faded: bool = False
    differs: bool = False

    @property
    def lane(self) -> int | None:
        """The lane that gives it its colour; None where several share it."""
        lanes = {run.lane for run in self.held}
        return lanes.pop() if len(lanes) == 1 and not self.faded else None

    @property
    def joined(self) -> bool:
        """Whether its slots hold its rows or columns in turn."""
        return any(run.slots[0] != run.slots[1] and not run.window for run in self.held)


@dataclass(frozen=True)
class Grid:
    """Labelled columns and rows of cells.

    ``corner`` names what runs down and across. ``notes`` say what was left out, because it repeats. ``starts`` are
    the columns at which a wide grid may be cut, in the best places and in more and more of them.
    """

    title: str
    corner: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    notes: Sequence[str] = ()
    starts: Sequence[Sequence[int]] = ()

    @property
    def cells(self) -> Iterator[Cell]:
        """Every cell."""
        return (cell for _, line in self.rows for cell in line)

    def cut(self, widths: Sequence[float], room: float) -> list[range]:
        """The columns of each strip, where a strip has so much room and the columns have these widths."""
        everywhere = range(len(widths))
        strips: list[range] = []
        for starts in (*self.starts, everywhere):
            strips = []
            for first, stop in pairwise([*starts, len(widths)]):
                if strips and sum(widths[strips[-1].start : stop]) <= room:
                    first = strips.pop().start
                strips.append(range(first, stop))
            if all(sum(widths[strip.start : strip.stop]) <= room for strip in strips):
                break
        return strips

    def compared(self, other: Grid) -> Grid:
        """The grid with its cells marked that the other one, of the same rows and columns, has otherwise."""
        theirs = other.cells
        return self._changed(lambda cell: replace(cell, differs=cell.held != next(theirs).held))

    def only(self, shows: Callable[[Cell], bool]) -> Grid:
        """The grid with all other cells faded."""
        return self._changed(lambda cell: cell if shows(cell) else replace(cell, faded=True))

    def _changed(self, change: Callable[[Cell], Cell]) -> Grid:
        return replace(self, rows=[(name, [change(cell) for cell in line]) for name, line in self.rows])


@dataclass(frozen=True)
class Sheet:
    """The matrix of one computation of a fragment, on its way to a grid.

    ``rows`` and ``columns`` are those that each line and cell of the table stands for. ``notes`` say what was left
    out. Its columns are best cut after multiples of ``step``.
    """

    fragment: Fragment
    title: str
    table: Table
    rows: Spans | None = None
    columns: Spans | None = None
    notes: tuple[str, ...] = ()
    step: int = 1

    @property
    def axes(self) -> tuple[str, str]:
        """What goes down and across. Sheets have the same rows, or columns, where these are alike; E has its own."""
        apart = "E" if self.fragment.role == "E" else ""
        return axes(self.fragment)[0] + apart, axes(self.fragment)[1] + apart


def sheets(fragments: Sequence[Fragment]) -> list[list[Sheet]]:
    """For each computation the matrix of each fragment, which is empty where it has no such computation."""
    tables = [matrices(each) for each in fragments]
    numbers = sorted(set().union(*tables))
    return [
        [
            Sheet(each, title, mine.get(number) or _empty(each), notes=_outside(each, number))
            for each, mine in zip(fragments, tables, strict=True)
        ]
        for number, title in zip(numbers, _titles(fragments[0], numbers), strict=True)
    ]


def _outside(fragment: Fragment, computation: int) -> tuple[str, ...]:
    """What no grid can show."""
    rows, cols = fragment.dimensions
    count = sum(
        number == computation and not (0 <= row < rows and col >= 0 and last < cols)
        for _, _, _, row, col, last, number in fragment.tuples()
    )
    return (f"{count} element{'s' * (count > 1)} outside the matrix cannot be drawn.",) if count else ()


def axes(fragment: Fragment) -> list[str]:
    """What the rows and the columns of the matrix count: M, N or K; lanes and columns of Tensor Memory."""
    return [axis_name(axis) for axis in instruction(fragment.instruction).axes[fragment.role]]


def heading(fragment: Fragment) -> str:
    """The line that names a fragment, with its size."""
    major = f"{fragment.major} major" if fragment.major else ""
    parts = f"{name(fragment)}: {size(fragment)}", major, selector(fragment)
    return ", ".join(filter(None, parts))


def selector(fragment: Fragment) -> str:
    """The sparsity selector in words; empty where there is none."""
    return "" if fragment.selector is None else f"selector {fragment.selector}"


def size(fragment: Fragment) -> str:
    """Rows and columns, with what they count."""
    counted = zip(fragment.dimensions, axes(fragment), strict=True)
    return " x ".join(f"{extent} ({axis})" if axis != "1" else str(extent) for extent, axis in counted)


def name(fragment: Fragment) -> str:
    """The operand that a fragment belongs to, whatever its major and selector."""
    return str(fragment.key._replace(major=None, selector=None))


def _titles(fragment: Fragment, numbers: Sequence[int]) -> list[str]:
    """What tells computations apart; nothing where the instruction has only one."""
    if fragment.computations == 1 and numbers == [1]:
        return [""]
    kind = "computation" if "D" in instruction(fragment.instruction).axes else "matrix"
    return [f"{kind} {number}" for number in numbers]


def _empty(fragment: Fragment) -> Table:
    rows, cols = fragment.dimensions
    return [[[] for _ in range(cols)] for _ in range(rows)]


def by_element(drawn: Sequence[Sheet], view: View) -> list[Grid]:
    """A grid of each sheet with, in each cell, ``lane:reg.slot``, in full if the view picks what would be left out."""
    grids = _by_element(drawn, view)
    both = zip(drawn, grids, strict=True)
    seen = ((sheet.fragment, run) for sheet, grid in both for cell in grid.cells for run in cell.held)
    if any(grid.notes for grid in grids) and view.picks and not view.sees(seen):
        return _by_element(drawn, replace(view, whole=True))
    return grids


def _by_element(drawn: Sequence[Sheet], view: View) -> list[Grid]:
    folded = not view.whole and any(sheet.fragment.threads > WARP for sheet in drawn)
    if folded:
        drawn = _together(drawn, 0, partial(_fold_sheets, kind="row"))
    drawn = _together(drawn, 1, partial(_join_columns, folded=folded))
    drawn = _together(drawn, 0, _join_rows)
    return [_grid(sheet, view) for sheet in drawn]


def by_lane(fragment: Fragment, view: View) -> Grid:
    """The register file: one row per lane, one column per ``reg.slot``, with ``row,col`` in each cell."""
    slots = [(reg, slot) for reg in range(fragment.registers) for slot in range(fragment.slots)]
    place = {slot: index for index, slot in enumerate(slots)}
    elements = fragment.records()
    lanes = max(fragment.threads, 1 + max((each.lane for each in elements), default=0))
    table: Table = [[[] for _ in slots] for _ in range(lanes)]
    for each in elements:
        table[each.lane][place[each.reg, each.slot]].append(run(each))
    within = [reg for reg, _ in slots]
    repeats: tuple[str, ...] = ()
    folded = fragment.threads > WARP and not view.whole
    if folded:
        (table,), (repeats,) = _fold([table], "lane")
    columns, (joined,) = join_columns([table], within)
    if folded and len(columns) > _WIDE:
        (across,), (more,) = _fold([turned(table)], "register", fragment.slots)
        columns, (joined,) = join_columns([turned(across)], within)
        repeats = (*repeats, *more)
    of_lane, of_register = _computations(fragment)
    names = [f"{slots[first][0]}.{span_words((slots[first][1], slots[last][1]))}" for first, last in columns]
    names = [name + of_register.get(slots[first][0], "") for name, (first, _) in zip(names, columns, strict=True)]
    body = [
        (f"{lane}{of_lane.get(lane, '')}", [_by_lane(cell) for cell in line])
        for lane, line in enumerate(joined)
        if any(line)
    ]
    return Grid("", "lane\\reg.slot", names, body, repeats)


def _computations(fragment: Fragment) -> tuple[dict[int, str], dict[int, str]]:
    """In brackets, what each lane takes part in, or each register if that is what tells computations apart."""
    numbers = sorted({number for *_, number in fragment.tuples()})
    if len(numbers) == 1:
        return {}, {}
    elements, titles = fragment.records(), dict(zip(numbers, _titles(fragment, numbers), strict=True))
    of_lane = {(each.lane, each.computation) for each in elements}
    of_register = {(each.reg, each.computation) for each in elements}
    lanes, registers = (
        {at: f" ({titles[number]})" for at, number in sorted(pairs)} for pairs in (of_lane, of_register)
    )
    return (lanes, {}) if len(of_lane) == len(lanes) else ({}, registers)


def _together(
    drawn: Sequence[Sheet], axis: int, change: Callable[[Sequence[Sheet]], Sequence[Sheet]]
) -> Sequence[Sheet]:
    """The sheets in their order, those that share an axis changed together."""
    changed: dict[int, Sheet] = {}
    for name in {sheet.axes[axis] for sheet in drawn}:
        places = [at for at, sheet in enumerate(drawn) if sheet.axes[axis] == name]
        changed |= zip(places, change([drawn[at] for at in places]), strict=True)
    return [changed[at] for at in range(len(drawn))]


def _fold_sheets(drawn: Sequence[Sheet], kind: str) -> Sequence[Sheet]:
    """The sheets with their first rows, or columns, where the others repeat them."""
    turn = turned if kind == "column" else list
    tables, words = _fold([turn(sheet.table) for sheet in drawn], kind)
    return [
        replace(sheet, table=turn(table), notes=(*sheet.notes, *more))
        for sheet, table, more in zip(drawn, tables, words, strict=True)
    ]


def _fold(tables: Sequence[Table], kind: str, unit: int = 1) -> tuple[list[Table], list[tuple[str, ...]]]:
    """The first lines where the others repeat them, in other warps or registers, and what each table leaves out.

    ``kind`` is what ``unit`` lines are.
    """
    found = repeat(tables, whole_warps=True)
    if found is None or found[0] % unit:
        return list(tables), [()] * len(tables)
    step, shifts = found
    total = len(tables[0]) // unit
    return [table[:step] for table in tables], [(in_words(kind, step // unit, total, shift),) for shift in shifts]


def _join_columns(drawn: Sequence[Sheet], *, folded: bool) -> Sequence[Sheet]:
    columns, tables = join_columns([sheet.table for sheet in drawn])
    if folded and len(columns) > _WIDE:
        return _join_columns(_fold_sheets(drawn, "column"), folded=False)
    found = repeat([turned(sheet.table) for sheet in drawn])
    step = found[0] if found else drawn[0].fragment.chunk
    return [replace(sheet, table=table, columns=columns, step=step) for sheet, table in zip(drawn, tables, strict=True)]


def _join_rows(drawn: Sequence[Sheet]) -> Sequence[Sheet]:
    rows, tables = join_rows([sheet.table for sheet in drawn])
    return [replace(sheet, table=table, rows=rows) for sheet, table in zip(drawn, tables, strict=True)]


def _grid(sheet: Sheet, view: View) -> Grid:
    fragment, rows, columns = sheet.fragment, sheet.rows or (), sheet.columns or ()
    body = [
        (span_words(row), [_cell(cell, span, fragment, view) for cell, span in zip(line, columns, strict=True)])
        for row, line in zip(rows, sheet.table, strict=True)
    ]
    starts = [
        [at for at, (first, _) in enumerate(columns) if first % unit == 0] for unit in (sheet.step, fragment.chunk)
    ]
    corner = "\\".join(axis for axis in axes(fragment) if axis != "1")
    grid = Grid(sheet.title, corner, [span_words(span) for span in columns], body, sheet.notes, starts)
    return grid.only(lambda cell: any(view.shows(fragment, each) for each in cell.held)) if view.picks else grid


def _cell(cell: Held, columns: tuple[int, int], fragment: Fragment, view: View) -> Cell:
    word = _ptx if view.ptx else _plain
    label = "+".join(word(run, fragment) for run in join_slots(cell))
    windows = [run.cols for run in cell if run.window]
    opens, closes = (any(window[end] == columns[end] for window in windows) for end in (0, 1))
    return Cell(label or "-", cell, opens, closes)


def _by_lane(cell: Held) -> Cell:
    return Cell("+".join(f"{span_words(run.rows)},{span_words(run.cols)}" for run in cell) or "-", cell)


def _plain(run: Run, _: Fragment) -> str:
    return f"{run.lane}:{run.reg}.{_slots(run, str, '-')}"


def _ptx(run: Run, fragment: Fragment) -> str:
    first = run.reg * fragment.slots
    between = ".." if run.slots[1] > run.slots[0] + 1 else ","
    return f"T{run.lane}:{{{_slots(run, lambda slot: f'{letter(fragment)}{first + slot}', between)}}}"


def _slots(run: Run, name: Callable[[int], str], between: str) -> str:
    """Slots that hold their cells one by one (0-3), or of which each can stand for any of them (0|..|3)."""
    first, last = run.slots
    if first == last:
        return name(first)
    if run.window:
        return "|".join((name(first), *[".."] * (last > first + 1), name(last)))
    return f"{name(first)}{between}{name(last)}"
