"""Fragments as tables of labels: by element (which lane, register and slot holds each cell), by lane, or by bank.

Consecutive neighbours are drawn as one: ``3:0.0-1`` is lane 3, register 0, slots 0 and 1. So the common fragments fit
into 80 columns, and nothing is left out. In a sparse operand ``3:0.0|1`` are slots each of which can stand for any of
the columns. Where the parts of a large operand repeat, one is drawn, and a note says what repeats it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import chain, pairwise
from operator import itemgetter
from typing import NamedTuple

from ...errors import LanemapError
from ...isa.instructions import instruction
from ...isa.shared import BANKS
from ...layout.fragment import Fragment
from ...text import grouped
from ..facts import axes, legend, unit
from . import runs
from .runs import Cells, Element, Elements, Line, Places, Run, Spans

#: More columns of labels than this are too many to see at a glance. Where they repeat, they are drawn once.
_WIDE = 16

#: So many lines of what repeats are drawn at least, as a pattern is not seen in one.
_LEAST = 8

_VALUES = re.compile(r"T(\d{1,4}):\{([^{}]+)\}")
_VALUE = re.compile(r"([a-z]+)(\d{1,4})(?:\.\.\1(\d{1,4}))?")


@dataclass(frozen=True)
class View:
    """How to draw.

    Only ``lanes`` and ``values`` (written as in PTX: ``T0:{a0,a1} T1:{a0..a3}``) keep their colour; by default all do.
    ``ptx`` writes ``T5:{a2,a3}``, the thread and its elements, instead of ``5:1.0-1``, lane, register and slots.
    ``whole`` draws all lanes and columns of a large operand, also those that repeat others. Without ``title`` nothing
    stands above and below the picture.
    """

    lanes: Sequence[int] = ()
    values: str | None = None
    ptx: bool = False
    whole: bool = False
    title: bool = True

    @property
    def picks(self) -> bool:
        """Whether only some elements keep their colour."""
        return bool(self.lanes or self.values)

    def shows(self, fragment: Fragment, run: Run) -> bool:
        """Whether one of the elements of a run keeps its colour."""
        return run.lane in self.lanes or not self._picked.isdisjoint(_named(fragment, run))

    def sees(self, seen: Sequence[tuple[Fragment, Run]]) -> bool:
        """Whether every picked lane and value is among these elements."""
        named = {name for pair in seen for name in _named(*pair)}
        return {run.lane for _, run in seen}.issuperset(self.lanes) and named.issuperset(self._picked)

    def check(self, fragments: Sequence[Fragment]) -> None:
        """Check that some fragment has every picked lane and value; the LanemapError names the valid range."""
        threads = max(fragment.threads for fragment in fragments)
        for lane in (*self.lanes, *(lane for lane, *_ in self._values)):
            if not 0 <= lane < threads:
                raise LanemapError(f"lane {lane} is outside {fragments[0]}: it goes from 0 to {threads - 1}")
        most = {fragment.role.lower(): fragment.per_thread - 1 for fragment in fragments}
        for _, name, first, last in self._values:
            if not first <= last <= most.get(name, -1):
                known = ", ".join(f"{letter}0 to {letter}{last}" for letter, last in most.items())
                raise LanemapError(f"{name}{last} is not an element of {fragments[0]}: it has {known}")

    @cached_property
    def _values(self) -> Sequence[tuple[int, str, int, int]]:
        """The lane, letter, first and last number of each range of values."""
        text = "".join((self.values or "").split()).replace(",..,", "..")
        if _VALUES.sub("", text).strip(","):
            raise LanemapError(f"cannot read the values {self.values!r}: write them like 'T0:{{a0,a1}} T1:{{a0..a3}}'")
        ranges = []
        for lane, names in _VALUES.findall(text):
            for value in names.split(","):
                if not (matched := _VALUE.fullmatch(value)):
                    raise LanemapError(f"cannot read the value {value!r}: write it like a0, or a0..a3")
                name, first, last = matched.groups()
                ranges.append((int(lane), name, int(first), int(last or first)))
        return ranges

    @cached_property
    def _picked(self) -> set[tuple[int, str, int]]:
        return {(lane, name, at) for lane, name, first, last in self._values for at in range(first, last + 1)}


#: All in colour, with a title.
PLAIN = View()


def _named(fragment: Fragment, run: Run) -> set[tuple[int, str, int]]:
    """The lane, letter and number of the elements of a run."""
    first, last = (fragment.number(0, run.reg, slot) for slot in run.slots)
    return {(run.lane, fragment.role.lower(), at) for at in range(first, last + 1)}


class Cell(NamedTuple):
    """One entry of a grid: its label, and the elements that it stands for.

    ``opens`` and ``closes``: a window, the columns of which its slots can stand for any, begins or ends there.
    ``faded``: it has no colour. ``differs``: the grid that it is compared with has something else there. In memory
    ``units`` are those of 16 bytes that it lies in, counted within 128 bytes, which all banks hold once. ``walls`` says
    whether other warps hold the cell to its left, and the one above it.
    """

    label: str
    held: Sequence[Run]
    opens: bool = False
    closes: bool = False
    faded: bool = False
    differs: bool = False
    units: Sequence[int] = ()
    walls: tuple[bool, bool] = (False, False)

    @property
    def colours(self) -> set[int]:
        """The lanes whose colours it has: those that hold it, in memory one for each unit."""
        return {4 * unit for unit in self.units} or {run.lane for run in self.held}

    @property
    def lane(self) -> int | None:
        """The lane that gives it its colour; None where several share it."""
        lanes = self.colours
        return lanes.pop() if len(lanes) == 1 and not self.faded else None

    @property
    def joined(self) -> bool:
        """Whether its slots hold its rows or columns one by one."""
        return any(run.slots[0] != run.slots[1] and not run.window for run in self.held)


@dataclass(frozen=True)
class Grid:
    """Labelled columns and rows of cells.

    ``corner`` names what runs down and across. ``notes`` say what was left out because it repeats. ``starts`` gives
    the columns at which a wide grid may be cut, the best places first, then more and more of them.
    """

    title: str
    corner: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    notes: Sequence[str] = ()
    starts: Callable[[], Iterable[Sequence[int]]] = tuple

    @property
    def cells(self) -> Iterator[Cell]:
        """Every cell."""
        return (cell for _, line in self.rows for cell in line)

    def cut(self, widths: Sequence[float], room: float) -> list[range]:
        """Cut columns of these widths into strips that fit into a room: the columns of each."""
        everywhere = range(len(widths))
        strips: list[range] = []
        for starts in chain([[0]], self.starts(), [everywhere]):
            strips = []
            for first, stop in pairwise([*starts, len(widths)]):
                if strips and sum(widths[strips[-1].start : stop]) <= room:
                    first = strips.pop().start
                strips.append(range(first, stop))
            if all(sum(widths[strip.start : strip.stop]) <= room for strip in strips):
                break
        return strips

    def compared(self, other: Grid) -> Grid:
        """The grid with the cells in which another one of the same size differs marked, and all others faded."""
        other_cells = other.cells
        marked = self._changed(lambda cell: cell._replace(differs=cell.held != next(other_cells).held))
        return marked.only(lambda cell: cell.differs)

    def only(self, shows: Callable[[Cell], bool]) -> Grid:
        """The grid with all other cells faded."""
        return self._changed(lambda cell: cell if shows(cell) else cell._replace(faded=True))

    def _changed(self, change: Callable[[Cell], Cell]) -> Grid:
        return replace(self, rows=[(name, [change(cell) for cell in line]) for name, line in self.rows])


@dataclass(frozen=True)
class _Sheet:
    """What a fragment holds on its way to a grid: elements, of which columns are joined and then rows.

    ``lines`` have ``count`` columns. ``down`` and ``across`` say in which lines and columns an element is, and
    ``kinds`` what these are. Only columns with the same number in ``within`` are joined, and ``units`` of them make up
    one such kind. ``rows`` and ``columns`` are what each line and column of the grid stands for, ``elements`` those of
    each cell. ``notes`` say what was left out. ``alike`` are all sheets that have the same columns.
    """

    fragment: Fragment
    lines: Sequence[Line]
    count: int
    down: Places = itemgetter(3, 3)
    across: Places = itemgetter(4, 5)
    kinds: tuple[str, str] = ("row", "column")
    within: Sequence[int] = ()
    units: int = 1
    rows: Spans = ()
    columns: Spans = ()
    elements: Elements = field(default_factory=list)
    notes: tuple[str, ...] = ()
    alike: Sequence[_Sheet] = ()

    def cells(self, elements: Iterable[Element]) -> list[list[Element]]:
        """Those of a line by columns, or of all lines."""
        return runs.parted(elements, self.count, self.across)

    @property
    def axes(self) -> tuple[object, object]:
        """What runs down and across. Sheets with an equal axis share its rows or columns; those of E are its own."""
        down, across = zip(axes(self.fragment), self.fragment.dimensions, [self.fragment.role == "E"] * 2, strict=True)
        return down, across


def by_element(fragments: Sequence[Fragment], view: View) -> list[list[Grid]]:
    """For each computation a grid of each fragment, which is empty where the fragment lacks that computation.

    A cell is labelled ``lane:reg.slot``, in memory without the lane. Repeated parts are drawn in full if the view picks
    something in them.
    """
    tables = [runs.rows_of(fragment.packed, *fragment.dimensions) for fragment in fragments]
    numbers = sorted(set().union(*tables))
    drawn = []
    for number, title in zip(numbers, _titles(fragments[0], numbers), strict=True):
        together = []
        for fragment, by_number in zip(fragments, tables, strict=True):
            rows, cols = fragment.dimensions
            lines, outside = by_number.get(number) or ([()] * rows, 0)
            note = f"{outside} element{'s' * (outside > 1)} outside the matrix cannot be drawn."
            together.append(_Sheet(fragment, lines, cols, notes=(note,) * bool(outside)))
        drawn.append([replace(grid, title=title) for grid in _grids(together, view)])
    return drawn


def _titles(fragment: Fragment, numbers: Sequence[int]) -> list[str]:
    """The titles of the computations; empty where the instruction has only one."""
    if fragment.computations == 1 and numbers == [1]:
        return [""]
    kind = "computation" if "D" in instruction(fragment.instruction).axes else "matrix"
    return [f"{kind} {number}" for number in numbers]


def _grids(sheets: Sequence[_Sheet], view: View) -> list[Grid]:
    folded = not view.whole and any(_large(sheet.fragment) for sheet in sheets)
    joined = _together(sheets, 0, lambda alike: _fold(alike, 0)) if folded else sheets
    joined = _together(joined, 1, lambda alike: _join_columns(alike, folded=folded))
    grids = [_grid(sheet, view) for sheet in _together(joined, 0, _join_rows)]
    if folded and view.picks:
        both = zip(sheets, grids, strict=True)
        if not view.sees([(sheet.fragment, run) for sheet, grid in both for cell in grid.cells for run in cell.held]):
            return _grids(sheets, replace(view, whole=True))
    return grids


def _large(fragment: Fragment) -> bool:
    """Whether several groups of lanes hold it, or many registers, or memory."""
    return fragment.threads > fragment.group or fragment.registers > _WIDE


def by_lane(fragment: Fragment, view: View) -> Grid:
    """The register file: one row per lane, one column per ``reg.slot``, with ``row,col`` in each cell."""
    slots = [(reg, slot) for reg in range(fragment.registers) for slot in range(fragment.slots)]
    elements, count, down = [*fragment.tuples()], fragment.slots, itemgetter(0, 0)
    lines = runs.parted(elements, max(fragment.threads, 1 + max(map(itemgetter(0), elements), default=0)), down)
    kinds, registers = ("lane", unit(fragment)), [reg for reg, _ in slots]
    places = down, lambda element: (element[1] * count + element[2],) * 2
    sheets: Sequence[_Sheet] = [_Sheet(fragment, lines, len(slots), *places, kinds, registers, count)]
    folded = _large(fragment) and not view.whole
    (sheet,) = _join_columns(_fold(sheets, 0) if folded else sheets, folded=folded)
    held = sheet.elements
    of_lane, of_register = _computations(fragment)
    names = []
    for first, last in sheet.columns:
        reg, slot = slots[first]
        names.append(f"{reg}.{runs.span_words((slot, slots[last][1]))}{of_register.get(reg, '')}")
    body = []
    for lane, line in enumerate(runs.joined(held, runs.single(len(held)), sheet.columns)):
        if any(line):
            body.append((f"{lane}{of_lane.get(lane, '')}", [Cell(_held(cell), cell) for cell in line]))
    return Grid("", "lane\\reg.slot", names, body, sheet.notes)


def by_bank(elements: Iterable[tuple[int, ...]], *, whole: bool = False) -> Grid:
    """Shared memory: one row per 128 bytes, which all banks hold once, with ``row,col`` in the word of each bank.

    ``elements`` lie in words, which are their registers, and come in the order of these. Lines that repeat others are
    left out, unless it is drawn ``whole``.
    """

    def bank(element: Element) -> tuple[int, int]:
        return (element[1] % BANKS,) * 2

    ordered, word = [*elements], itemgetter(1)
    count = 1 + word(ordered[-1]) // BANKS if ordered else 0
    starts = [bisect_left(ordered, number * BANKS, key=word) for number in range(count + 1)]
    lines = [ordered[first:stop] for first, stop in pairwise(starts)]
    notes = []
    if not whole and (found := runs.repeat([lines], bank)):
        step, (shift,) = found
        notes.append(runs.in_words("line", step, len(lines), shift, "word"))
        lines = lines[:step]
    body = []
    for at, line in enumerate(lines):
        held = map(runs.joined_cell, runs.parted(line, BANKS, bank))
        body.append((str(at), [Cell(_held(cell), cell, units=_units(cell)) for cell in held]))
    return Grid("", "line\\bank", [str(bank) for bank in range(BANKS)], body, notes)


def _units(cell: Cells) -> Sequence[int]:
    """The units of 16 bytes that words of shared memory lie in, within 128 bytes."""
    return [run.reg // 4 % 8 for run in cell]


def _held(cell: Cells) -> str:
    """The rows and columns that a place holds."""
    return "+".join(",".join(map(runs.span_words, run[3:])) for run in cell) or "-"


def _computations(fragment: Fragment) -> tuple[dict[int, str], dict[int, str]]:
    """In brackets, the computation of each lane, or of each register if that is what tells computations apart."""
    columns = fragment.columns()
    numbers = sorted({*columns["computation"]})
    if len(numbers) == 1:
        return {}, {}
    of_lane, of_register = ({*zip(columns[at], columns["computation"], strict=True)} for at in ("lane", "reg"))
    titles = dict(zip(numbers, _titles(fragment, numbers), strict=True))
    lanes, registers = (
        {at: f" ({titles[number]})" for at, number in sorted(pairs)} for pairs in (of_lane, of_register)
    )
    return (lanes, {}) if len(of_lane) == len(lanes) else ({}, registers)


def _together(
    sheets: Sequence[_Sheet], axis: int, change: Callable[[Sequence[_Sheet]], Sequence[_Sheet]]
) -> Sequence[_Sheet]:
    """The sheets in their order, after changing those that share an axis together."""
    changed: dict[int, _Sheet] = {}
    for places in grouped(range(len(sheets)), lambda at: sheets[at].axes[axis]).values():
        changed |= zip(places, change([sheets[at] for at in places]), strict=True)
    return [changed[at] for at in range(len(sheets))]


def _fold(sheets: Sequence[_Sheet], axis: int) -> Sequence[_Sheet]:
    """The sheets with only their first lines, or columns, where the others repeat these in other lanes or registers."""
    first = sheets[0]
    units = first.units if axis else 1
    tables = [sheet.cells(chain(*sheet.lines)) if axis else sheet.lines for sheet in sheets]
    repetition = runs.repeat(tables, first.down if axis else first.across, first.fragment.group, _LEAST)
    if repetition is None or repetition[0] % units:
        return sheets
    step, shifts = repetition
    counted = first.kinds[axis], step // units, len(tables[0]) // units
    folded = []
    for sheet, table, shift in zip(sheets, tables, shifts, strict=True):
        notes = *sheet.notes, runs.in_words(*counted, shift, unit(sheet.fragment))
        if axis:
            left = dict.fromkeys(chain(*table[:step]))
            lines = runs.parted(left, len(sheet.lines), sheet.down)
            folded.append(replace(sheet, lines=lines, count=step, notes=notes))
        else:
            folded.append(replace(sheet, lines=table[:step], notes=notes))
    return folded


def _join_columns(sheets: Sequence[_Sheet], *, folded: bool) -> Sequence[_Sheet]:
    for many in (1, None) if folded else (None,):  # often the first line shows that there are too many columns
        tables = [[*map(sheet.cells, sheet.lines[:many])] for sheet in sheets]
        columns = runs.joined_columns(tables, sheets[0].within)
        if folded and len(columns) > _WIDE:
            return _join_columns(_fold(sheets, 1), folded=False)
    return [
        replace(sheet, elements=table, columns=columns, alike=sheets)
        for sheet, table in zip(sheets, tables, strict=True)
    ]


def _join_rows(sheets: Sequence[_Sheet]) -> Sequence[_Sheet]:
    rows = runs.joined_rows([sheet.elements for sheet in sheets], [sheet.columns for sheet in sheets])
    return [replace(sheet, rows=rows) for sheet in sheets]


def _grid(sheet: _Sheet, view: View) -> Grid:
    fragment, columns = sheet.fragment, sheet.columns
    to_cell = partial(_cell, label=_labels(fragment, ptx=view.ptx), in_memory=fragment.tile is not None)
    lines = runs.joined(sheet.elements, sheet.rows, columns)
    body = [(runs.span_words(row), [*map(to_cell, line, columns)]) for row, line in zip(sheet.rows, lines, strict=True)]
    if fragment.atom:
        body = _walled(body, fragment.atom.threads)
    corner = "\\".join(axis for axis in axes(fragment) if axis != "1")
    names = [runs.span_words(span) for span in columns]
    notes = *sheet.notes, *legend(fragment, {cell.label for _, line in body for cell in line})
    grid = Grid("", corner, names, body, notes, partial(_starts, sheet))
    return grid.only(lambda cell: any(view.shows(fragment, run) for run in cell.held)) if view.picks else grid


def _walled(body: Sequence[tuple[str, Sequence[Cell]]], lanes: int) -> list[tuple[str, list[Cell]]]:
    """Rows of cells with walls between those of different warps, which have so many lanes."""
    warps = [[{run.lane // lanes for run in cell.held} for cell in cells] for _, cells in body]

    def walls(row: int, col: int) -> tuple[bool, bool]:
        own = warps[row][col]
        return col > 0 and warps[row][col - 1] != own, row > 0 and warps[row - 1][col] != own

    return [
        (name, [cell._replace(walls=walls(row, col)) for col, cell in enumerate(cells)])
        for row, (name, cells) in enumerate(body)
    ]


def _starts(sheet: _Sheet) -> Iterator[Sequence[int]]:
    """The columns at which a repetition begins, then those at which a chunk does."""
    repetition = runs.repeat([each.cells(chain(*each.lines)) for each in sheet.alike], sheet.down)
    for width in (repetition[0] if repetition else sheet.fragment.chunk, sheet.fragment.chunk):
        yield [at for at, (first, _) in enumerate(sheet.columns) if first % width == 0]


def _cell(cell: Cells, columns: tuple[int, int], label: Callable[[Run], str], *, in_memory: bool) -> Cell:
    words = [*map(label, runs.join_slots(cell) if len(cell) > 1 else cell)]
    units = _units(cell) if in_memory else ()
    if windows := [run.cols for run in cell if run.window]:
        opens, closes = (any(window[end] == columns[end] for window in windows) for end in (0, 1))
        return Cell("+".join(words), cell, opens, closes, units=units)
    return Cell("+".join(words) or "-", cell, units=units)


def _labels(fragment: Fragment, *, ptx: bool) -> Callable[[Run], str]:
    """The labels of slots that hold their cells one by one (0-3), or can each stand for any of them (0|..|3)."""
    if fragment.tile:
        return lambda run: f"{run.reg}.{_slots(run.slots, run.window)}"
    if not ptx:
        return lambda run: f"{run.lane}:{run.reg}.{_slots(run.slots, run.window)}"
    count, name = fragment.slots, fragment.role.lower()  # PTX names registers

    def numbers(run: Run) -> tuple[int, int]:
        return run.reg * count + run.slots[0], run.reg * count + run.slots[1]

    return lambda run: f"T{run.lane}:{{{_slots(numbers(run), run.window, name)}}}"


@lru_cache(1 << 10)
def _slots(slots: tuple[int, int], window: bool, name: str = "") -> str:
    first, last = (f"{name}{slot}" for slot in slots)
    adjoin = slots[1] <= slots[0] + 1
    between = ("|" if adjoin else "|..|") if window else "-" if not name else "," if adjoin else ".."
    return first if first == last else first + between + last
