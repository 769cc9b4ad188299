"""Consecutive elements joined into runs, and repetitions in a table, of which one part can stand for all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import starmap
from operator import sub
from typing import NamedTuple, TypeVar

from ...layout.fragment import unpacked

Item = TypeVar("Item")

#: Lane, register, slot, row, first and last column, and what it is a part of.
Element = tuple[int, ...]
#: The elements of a row, a lane or another line of a table, by their places.
Line = Sequence[Element]
#: The first and last of the lines, or columns, that an element is in.
Places = Callable[[Element], tuple[int, int]]


class Run(NamedTuple):
    """Elements of one lane and register: first and last slot, and the cells that they hold."""

    lane: int
    reg: int
    slots: tuple[int, int]
    rows: tuple[int, int]
    cols: tuple[int, int]

    @classmethod
    def of(cls, first: Element, last: Element) -> Run:
        """The elements from one to another, which may be the same."""
        return cls(first[0], first[1], (first[2], last[2]), (first[3], last[3]), (first[4], last[5]))

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
Elements = list[list[list[Element]]]


@lru_cache(32)
def rows_of(packed: bytes, rows: int, cols: int) -> dict[int, tuple[list[Line], int]]:
    """The elements of each row of the matrix of each computation, and how many elements are outside.

    Operands with the same layout share the result: never change it.
    """
    tables: dict[int, list[list[Element]]] = defaultdict(lambda: [[] for _ in range(rows)])
    outside = Counter[int]()
    for element in unpacked(packed):
        _, _, _, row, first, last, computation = element
        if 0 <= row < rows and first >= 0 and last < cols:
            tables[computation][row].append(element)
        else:
            outside[computation] += 1
    return {number: ([*tables[number]], outside[number]) for number in sorted(tables)}


def parted(elements: Iterable[Element], count: int, places: Places) -> list[list[Element]]:
    """The elements at each of so many places, which are lines, or columns, or the cells of a line."""
    at: list[list[Element]] = [[] for _ in range(count)]
    for element in elements:
        first, last = places(element)
        if first == last:
            at[first].append(element)
        else:
            for line in at[first : last + 1]:
                line.append(element)
    return at


def joined_columns(tables: Sequence[Elements], within: Sequence[int] = ()) -> Spans:
    """The spans of columns that are one: in every line of every table elements continue each other or are the same.

    The tables have equally many columns, which stay aligned. If ``within`` is given, only columns with the same number
    in it are joined.
    """
    spans: list[tuple[int, int]] = []
    first: list[list[Element]] = []
    before: list[list[Element]] = []
    for index, column in enumerate(turned([line for table in tables for line in table])):
        beside = index > 0 and (not within or within[index] == within[index - 1])
        if beside and all(map(_continue, first, before, column)):
            spans[-1] = (spans[-1][0], index)
        else:
            spans.append((index, index))
            first = column
        before = column
    return spans


def joined_rows(tables: Sequence[Elements], columns: Sequence[Spans]) -> Spans:
    """The same of rows, of tables with equally many. A run has one direction: none are joined if columns were."""
    for table, spans in zip(tables, columns, strict=True):
        for line in table:
            for left, right in spans:
                for first, last in zip(line[left], line[right], strict=True):
                    if first[4] != last[5]:
                        return single(len(table))
    return joined_columns([turned(table) for table in tables])


def single(count: int) -> Spans:
    """So many rows or columns, of which none are joined."""
    return [(at, at) for at in range(count)]


def joined(table: Elements, rows: Spans, columns: Spans) -> Table:
    """The runs of elements that a table has where rows or columns are joined."""
    return [[[*map(Run.of, table[top][left], table[bottom][right])] for left, right in columns] for top, bottom in rows]


def turned(table: list[list[Item]]) -> list[list[Item]]:
    """The table with its columns as lines."""
    return [list(line) for line in zip(*table, strict=True)]


def _continue(firsts: Sequence[Element], lasts: Sequence[Element], cell: Sequence[Element]) -> bool:
    """Whether each element of a cell continues a run from one to another, or is the one of which that is."""
    return len(firsts) == len(cell) and all(map(_continues, firsts, lasts, cell))


def _continues(first: Element, last: Element, element: Element) -> bool:
    lane, reg, slot, row, col, col_last, *_ = element
    if (lane, reg, slot) != (last[0], last[1], last[2] + 1):
        return first[:6] == last[:6] == element[:6]
    if row == first[3] == last[3]:
        return (col == col_last == last[5] + 1) or (col, col_last) == (first[4], last[5])
    return row == last[3] + 1 and (col, col_last) == (first[4], last[5])


def joined_cell(cell: Iterable[Element]) -> Cells:
    """The runs of the elements of one cell that continue each other."""
    ends: list[tuple[Element, Element]] = []
    for element in cell:
        if ends and _continues(*ends[-1], element):
            ends[-1] = ends[-1][0], element
        else:
            ends.append((element, element))
    return [*starmap(Run.of, ends)]


def join_slots(runs: Iterable[Run]) -> Cells:
    """The slots that can stand for one cell, those of one register as one run."""
    joined: list[Run] = []
    for run in runs:
        before = joined[-1] if joined else run
        if (before.lane, before.reg, before.slots[1] + 1) == (run.lane, run.reg, run.slots[0]):
            joined[-1] = before._replace(slots=(before.slots[0], run.slots[1]))
        else:
            joined.append(run)
    return joined


def span_words(span: tuple[int, int]) -> str:
    """``3``, or ``0-3``."""
    return str(span[0]) if span[0] == span[1] else f"{span[0]}-{span[1]}"


#: How far lane, register, slot, row and column of every element move from one part of a table to the next.
Shift = tuple[int, int, int, int, int]


def repeat(
    tables: Sequence[Sequence[Line]], places: Places, lanes: int = 1, least: int = 1
) -> tuple[int, list[Shift]] | None:
    """After how many lines, not below ``least``, all tables repeat, and the shift in each; None if they do not.

    The tables have equally many lines. ``places`` say where in its line an element is, which no shift changes. A lane
    stays, or moves by a multiple of ``lanes``, to its place in another warp.
    """
    count = len(tables[0])
    for step in range(least, count // 2 + 1):
        if count % step == 0:
            shifts = []
            for table in tables:
                if (shift := _shift(table, step, places, lanes)) is None:
                    break
                shifts.append(shift)
            else:
                return step, shifts
    return None


def _shift(lines: Sequence[Line], step: int, places: Places, lanes: int) -> Shift | None:
    """The one shift from every element to that in its place so many lines further on."""
    pairs = [pair for pair in zip(lines, lines[step:], strict=False) if any(pair)]
    if not pairs or not all(map(all, pairs)):
        return None
    shift, *others = {tuple(map(sub, after[at], before[at])) for before, after in pairs for at in (0, -1)}
    if others or shift[0] % lanes or places(pairs[0][0][0]) != places(pairs[0][1][0]):
        return None
    fields = [[*zip(*line, strict=True)] for line in lines]
    for its, further in zip(fields, fields[step:], strict=False):
        for by, old, new in zip(shift, its, further, strict=False):
            if new != (tuple(map(by.__add__, old)) if by else old):
                return None
    lane, reg, slot, row, col, last, _ = shift
    return (lane, reg, slot, row, col) if col == last else None


def in_words(kind: str, step: int, lines: int, shift: Shift, register: str = "register") -> str:
    """What is left out when only the first ``step`` rows, columns, lanes or registers (``kind``) are shown.

    ``register`` is what its elements are in, see ``facts.unit``.

    >>> in_words("row", 16, 64, (32, 0, 0, 16, 0))
    'Rows 16-63 repeat rows 0-15: with every 16 rows the lane is 32 higher.'
    """
    first, period = (f"{kind}s 0-{step - 1}", f"{step} {kind}s") if step > 1 else (f"{kind} 0", kind)
    by_name = zip(("lane", register, "slot", "row", "column"), shift, strict=True)
    moves = [
        f"the {name} is {abs(by)} {'higher' if by > 0 else 'lower'}" for name, by in by_name if by and name != kind
    ]
    moved = " and ".join(moves) or "nothing changes"
    return f"{kind.capitalize()}s {step}-{lines - 1} repeat {first}: with every {period} {moved}."
