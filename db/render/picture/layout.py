"""Where everything is in a picture: boxes for cells, lines in them, and captions.

Lengths are CSS pixels, y goes down.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from .grid import Cell, Grid

_HEIGHT = 22.0
_PADDING = 12.0
_MARGIN = 20.0
_GAP = 28.0
#: Wider grids are cut into strips, and wider pairs of blocks are put below each other.
_WIDEST = 1500.0
_LINE = 1.45
_NARROW = ".,:;|-'()[] il"

#: The styles of captions, and their sizes.
SIZES = {"title": 16.0, "name": 13.0, "label": 12.0, "axis": 11.0, "note": 11.0}


class Box(NamedTuple):
    """A cell of a grid."""

    x: float
    y: float
    width: float
    height: float
    cell: Cell

    @property
    def baseline(self) -> float:
        """The y of its label."""
        return self.y + self.height / 2 + 0.35 * SIZES["label"]


Line = list[tuple[float, float]]


def brackets(box: Box) -> Iterator[Line]:
    """The brackets where a window opens and closes."""
    top, bottom = box.y + 3.5, box.y + box.height - 3.5
    if box.cell.opens:
        x = box.x + 3.5
        yield [(x + 3, top), (x, top), (x, bottom), (x + 3, bottom)]
    if box.cell.closes:
        x = box.x + box.width - 3.5
        yield [(x - 3, top), (x, top), (x, bottom), (x - 3, bottom)]


def frame(box: Box) -> Iterator[Line]:
    """A frame inside the edges, and the edges on which other warps border."""
    for there, x, y in zip(box.cell.walls, (box.x, box.x + box.width), (box.y + box.height, box.y), strict=True):
        if there:
            yield [(box.x, box.y), (x, y)]
    if box.cell.differs:
        left, top, right, bottom = box.x + 2, box.y + 2, box.x + box.width - 2, box.y + box.height - 2
        yield [(left, top), (right, top), (right, bottom), (left, bottom), (left, top), (right, top)]


class Caption(NamedTuple):
    """A line of text; ``y`` is its baseline, and its ``anchor`` (start, middle or end) is at ``x``."""

    x: float
    y: float
    text: str
    style: str
    anchor: str = "start"


class Block(NamedTuple):
    """A part of a picture, or all of it."""

    width: float
    height: float
    boxes: Sequence[Box] = ()
    captions: Sequence[Caption] = ()


def picture(heading: Sequence[str], blocks: Sequence[Block], notes: Sequence[str]) -> Block:
    """A whole picture: the title and other lines above, the blocks, the notes below."""
    above = _below([_lines(heading[:1], "title"), _lines(heading[1:], "note")], 2)
    content = _below([part for part in (above, flow(blocks), _lines(notes, "note")) if part.boxes or part.captions], 16)
    width, height, boxes, captions = _union([(content, _MARGIN, _MARGIN)])
    return Block(width + _MARGIN, height + _MARGIN, boxes, captions)


def panels(grids: Sequence[Grid], names: Sequence[str]) -> list[Block]:
    """Each grid under its name; their columns, of which all have equally many, have equal widths."""
    widths = _widths(grids)
    named = [label for grid in grids for label in (grid.corner, *(row for row, _ in grid.rows))]
    axis = float(round(8 + max(_width(label, "axis") for label in named)))
    blocks = []
    for grid, name in zip(grids, names, strict=True):
        strips = [_strip(grid, columns, widths, axis) for columns in grid.cut(widths, _WIDEST - axis)]
        notes = [_lines(grid.notes, "note")] if grid.notes else []
        blocks.append(titled(_below([*strips, *notes], _GAP / 2), name))
    return blocks


def product(blocks: Mapping[str, Block]) -> Block:
    """A to the left of D and B above it, so that a row of A and a column of B meet in their cell of D.

    C is to the right of D, and E below. Any of them may be missing. In a move, the addresses of rows are to the left of
    the rows.
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
    return _union((block, *places[role]) for role, block in blocks.items())


def titled(block: Block, title: str) -> Block:
    """The block under a title, if it has one."""
    return _below([_lines([title], "name"), block], 0) if title else block


def _strip(grid: Grid, columns: range, widths: Sequence[float], axis: float) -> Block:
    top = SIZES["axis"] * _LINE
    lefts = list(accumulate((widths[at] for at in columns), initial=axis))
    places = list(zip(columns, lefts, strict=False))
    captions = [Caption(axis - 6, top - 5, grid.corner, "axis", "end")]
    captions += [Caption(x + widths[at] / 2, top - 5, grid.columns[at], "axis", "middle") for at, x in places]
    boxes = []
    for index, (label, cells) in enumerate(grid.rows):
        y = top + index * _HEIGHT
        captions.append(Caption(axis - 6, y + _HEIGHT / 2 + 0.35 * SIZES["axis"], label, "axis", "end"))
        boxes += [Box(x, y, widths[at], _HEIGHT, cells[at]) for at, x in places]
    return Block(lefts[-1], top + len(grid.rows) * _HEIGHT, boxes, captions)


def _widths(grids: Sequence[Grid]) -> list[float]:
    """Equal widths, so that a matrix looks like one; only a cell that several lanes hold makes its column wider."""
    labels = [
        [label for grid in grids for label in (grid.columns[at], *(cells[at].label for _, cells in grid.rows))]
        for at in range(len(grids[0].columns))
    ]
    plain = max(_width(label, "label") for column in labels for label in column if "+" not in label)
    padding = _PADDING + 8 * any(cell.opens or cell.closes for grid in grids for cell in grid.cells)
    return [float(round(padding + max(plain, *(_width(label, "label") for label in column)))) for column in labels]


def _width(text: str, style: str) -> float:
    """An upper estimate of the width of a text in any sans-serif font."""
    return SIZES[style] * sum(0.34 if letter in _NARROW else 0.64 if letter.isdigit() else 0.56 for letter in text)


def _lines(lines: Sequence[str], style: str) -> Block:
    step = SIZES[style] * _LINE
    captions = [Caption(0, SIZES[style] + index * step, line, style) for index, line in enumerate(lines)]
    return Block(max((_width(line, style) for line in lines), default=0), len(lines) * step, captions=captions)


def flow(blocks: Sequence[Block]) -> Block:
    """Two in a row where there is room, else one below the other."""
    across = 2 if max(block.width for block in blocks) <= (_WIDEST - _GAP) / 2 else 1
    rows = []
    for at in range(0, len(blocks), across):
        places = zip(blocks[at : at + across], (0, blocks[at].width + _GAP), strict=False)
        rows.append(_union((block, x, 0) for block, x in places))
    return _below(rows, _GAP)


def _below(blocks: Sequence[Block], gap: float) -> Block:
    starts = accumulate((block.height + gap for block in blocks), initial=0.0)
    return _union((block, 0, y) for block, y in zip(blocks, starts, strict=False))


def _union(blocks: Iterable[tuple[Block, float, float]]) -> Block:
    """Blocks, each moved right and down by its offset, as one."""
    boxes, captions, right, bottom = [], [], 0.0, 0.0
    for (width, height, cells, lines), x, y in blocks:
        boxes += [Box(box.x + x, box.y + y, *box[2:]) for box in cells]
        captions += [Caption(line.x + x, line.y + y, *line[2:]) for line in lines]
        right, bottom = max(right, width + x), max(bottom, height + y)
    return Block(right, bottom, boxes, captions)
