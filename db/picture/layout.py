"""Where everything stands in a picture: boxes for cells, and words. Lengths are CSS pixels, y goes down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate

from .grid import Cell, Grid

_HEIGHT = 22.0
_PADDING = 12.0
_MARGIN = 20.0
_GAP = 28.0
#: Wider grids are cut into strips, and wider pairs of blocks stand below each other.
_WIDEST = 1500.0
_LINE = 1.45
_NARROW = ".,:;|-'()[] il"


class Style(StrEnum):
    """What words are."""

    TITLE = "title"
    NAME = "name"
    LABEL = "label"
    AXIS = "axis"
    NOTE = "note"


class Anchor(StrEnum):
    """Which part of words stands at their x."""

    START = "start"
    MIDDLE = "middle"
    END = "end"


SIZES = {Style.TITLE: 16.0, Style.NAME: 13.0, Style.LABEL: 12.0, Style.AXIS: 11.0, Style.NOTE: 11.0}


@dataclass(frozen=True)
class Box:
    """A cell of a grid."""

    x: float
    y: float
    width: float
    height: float
    cell: Cell

    @property
    def baseline(self) -> float:
        """Where its label stands."""
        return self.y + self.height / 2 + 0.35 * SIZES[Style.LABEL]


@dataclass(frozen=True)
class Words:
    """A line of text; ``y`` is its baseline."""

    x: float
    y: float
    words: str
    style: Style
    anchor: Anchor = Anchor.START


@dataclass(frozen=True)
class Block:
    """A part of a picture, or all of it."""

    width: float
    height: float
    boxes: tuple[Box, ...] = ()
    words: tuple[Words, ...] = ()


def picture(heading: Sequence[str], blocks: Sequence[Block], notes: Sequence[str]) -> Block:
    """A whole picture: a title and what else is said above, the blocks, what is said below."""
    above = _below([_lines(heading[:1], Style.TITLE), _lines(heading[1:], Style.NOTE)], 2)
    parts = [above, _flow(blocks), _lines(notes, Style.NOTE)]
    whole = _below([part for part in parts if part.boxes or part.words], 16)
    return _moved(replace(whole, width=whole.width + _MARGIN, height=whole.height + _MARGIN), _MARGIN, _MARGIN)


def panels(grids: Sequence[Grid], names: Sequence[str]) -> list[Block]:
    """Each grid under its name; their columns are alike if there are as many."""
    widths, axis = _widths(grids), _axis(grids)
    return [_panel(grid, name, widths, axis) for grid, name in zip(grids, names, strict=True)]


def product(blocks: Mapping[str, Block]) -> Block:
    """A to the left of D and B above it, so that a row of A and a column of B meet in their cell of D.

    C stands to the right of D, and E below. Any of them may be missing. Of a move, the addresses of rows stand to the
    left of the rows.
    """

    def far(size: str, roles: str) -> float:
        return max((getattr(blocks[role], size) + _GAP for role in roles if role in blocks), default=0)

    left, top = far("width", "Ap"), far("height", "B")
    places = {
        "A": (0, top),
        "B": (left, 0),
        "C": (left + far("width", "D"), top),
        "D": (left, top),
        "E": (0, top + far("height", "ACD")),
        "p": (0, 0),
        "r": (left, 0),
    }
    return _union(_moved(block, *places[role]) for role, block in blocks.items())


def beside(blocks: Sequence[Block], title: str) -> Block:
    """Two blocks next to each other where there is room, under a title if they have one."""
    return titled(_flow(blocks), title)


def titled(block: Block, title: str) -> Block:
    """The block under a title, if it has one."""
    return _below([_lines([title], Style.NAME), block], 0) if title else block


def _panel(grid: Grid, name: str, widths: Sequence[float], axis: float) -> Block:
    strips = [_strip(grid, columns, widths, axis) for columns in grid.cut(widths, _WIDEST - axis)]
    notes = [_lines(grid.notes, Style.NOTE)] if grid.notes else []
    return titled(_below([*strips, *notes], _GAP / 2), name)


def _strip(grid: Grid, columns: range, widths: Sequence[float], axis: float) -> Block:
    top = SIZES[Style.AXIS] * _LINE
    lefts = list(accumulate((widths[at] for at in columns), initial=axis))
    places = list(zip(columns, lefts, strict=False))
    words = [Words(axis - 6, top - 5, grid.corner, Style.AXIS, Anchor.END)]
    words += [Words(x + widths[at] / 2, top - 5, grid.columns[at], Style.AXIS, Anchor.MIDDLE) for at, x in places]
    boxes = []
    for index, (label, cells) in enumerate(grid.rows):
        y = top + index * _HEIGHT
        words.append(Words(axis - 6, y + _HEIGHT / 2 + 0.35 * SIZES[Style.AXIS], label, Style.AXIS, Anchor.END))
        boxes += [Box(x, y, widths[at], _HEIGHT, cells[at]) for at, x in places]
    return Block(lefts[-1], top + len(grid.rows) * _HEIGHT, tuple(boxes), tuple(words))


def _widths(grids: Sequence[Grid]) -> list[float]:
    """Alike, so that a matrix looks like one; only a cell that several lanes hold makes its column wider."""
    columns = [
        [label for grid in grids for label in (grid.columns[at], *(cells[at].label for _, cells in grid.rows))]
        for at in range(len(grids[0].columns))
    ]
    plain = max(_width(label, Style.LABEL) for labels in columns for label in labels if "+" not in label)
    bracketed = any(cell.opens or cell.closes for grid in grids for cell in grid.cells)
    padding = _PADDING + 8 * bracketed
    return [float(round(padding + max(plain, *(_width(label, Style.LABEL) for label in labels)))) for labels in columns]


def _axis(grids: Sequence[Grid]) -> float:
    labels = [label for grid in grids for label in (grid.corner, *(name for name, _ in grid.rows))]
    return float(round(8 + max(_width(label, Style.AXIS) for label in labels)))


def _width(words: str, style: Style) -> float:
    """About the most that the words take in any sans-serif font."""
    return SIZES[style] * sum(0.34 if each in _NARROW else 0.64 if each.isdigit() else 0.56 for each in words)


def _lines(lines: Sequence[str], style: Style) -> Block:
    step = SIZES[style] * _LINE
    words = tuple(Words(0, SIZES[style] + index * step, line, style) for index, line in enumerate(lines))
    return Block(max((_width(line, style) for line in lines), default=0), len(lines) * step, words=words)


def _flow(blocks: Sequence[Block]) -> Block:
    """Two by two where there is room for it, else one below the other."""
    across = 2 if max(block.width for block in blocks) <= (_WIDEST - _GAP) / 2 else 1
    return _below([_beside(blocks[at : at + across]) for at in range(0, len(blocks), across)], _GAP)


def _beside(blocks: Sequence[Block]) -> Block:
    starts = accumulate((block.width + _GAP for block in blocks), initial=0.0)
    return _union(_moved(block, x, 0) for block, x in zip(blocks, starts, strict=False))


def _below(blocks: Sequence[Block], gap: float) -> Block:
    starts = accumulate((block.height + gap for block in blocks), initial=0.0)
    return _union(_moved(block, 0, y) for block, y in zip(blocks, starts, strict=False))


def _moved(block: Block, x: float, y: float) -> Block:
    boxes = tuple(replace(box, x=box.x + x, y=box.y + y) for box in block.boxes)
    words = tuple(replace(each, x=each.x + x, y=each.y + y) for each in block.words)
    return replace(block, width=block.width + x, height=block.height + y, boxes=boxes, words=words)


def _union(blocks: Iterable[Block]) -> Block:
    parts = list(blocks)
    boxes = tuple(box for part in parts for box in part.boxes)
    words = tuple(each for part in parts for each in part.words)
    return Block(max(part.width for part in parts), max(part.height for part in parts), boxes, words)
