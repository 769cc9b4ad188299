"""Where everything stands in a picture: boxes for cells, and words. Lengths are CSS pixels, y goes down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ..grid import Cell, Grid

_HEIGHT = 22.0
_PADDING = 12.0
_MARGIN = 20.0
_GAP = 28.0
_LINE = 1.45


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


def picture(heading: Sequence[str], blocks: Sequence[Block], notes: Sequence[str], across: int) -> Block:
    """A whole picture: a title and what else is said above, rows of ``across`` blocks, what is said below."""
    title = _lines(heading[:1], Style.TITLE), _lines(heading[1:], Style.NOTE)
    body = _below([_beside(blocks[at : at + across]) for at in range(0, len(blocks), across)], _GAP)
    whole = _below([_below([part for part in title if part.words], 2), body, _lines(notes, Style.NOTE)], 16)
    return _moved(replace(whole, width=whole.width + 2 * _MARGIN, height=whole.height + 2 * _MARGIN), _MARGIN, _MARGIN)


def panel(grid: Grid, name: str) -> Block:
    """One grid under its name."""
    return _panel(grid, name, _widths([grid]), _axis([grid]))


def product(a: Grid, b: Grid, d: Grid, names: Sequence[str]) -> Block:
    """A to the left of D and B above it, so that a row of A and a column of B meet in their cell of D."""
    widths, axis = _widths([b, d]), _axis([b, d])
    left, above, crossing = (
        _panel(a, names[0], _widths([a]), _axis([a])),
        _panel(b, names[1], widths, axis),
        _panel(d, names[2], widths, axis),
    )
    below = above.height + _GAP
    parts = [_moved(left, 0, below), _moved(above, left.width + _GAP, 0), _moved(crossing, left.width + _GAP, below)]
    return _union(parts)


def beside(blocks: Sequence[Block], title: str) -> Block:
    """Blocks next to each other, under a title if they have one."""
    return titled(_beside(blocks), title)


def titled(block: Block, title: str) -> Block:
    """The block under a title, if it has one."""
    return _below([_lines([title], Style.NAME), block], 6) if title else block


def _panel(grid: Grid, name: str, widths: Sequence[float], axis: float) -> Block:
    named = _lines([name], Style.NAME) if name else Block(0, 0)
    top = named.height + SIZES[Style.AXIS] * _LINE
    words, boxes = list(named.words), []
    lefts = [axis + sum(widths[:index]) for index in range(len(widths))]
    for label, x, width in zip(grid.columns, lefts, widths, strict=True):
        words.append(Words(x + width / 2, top - 5, label, Style.AXIS, Anchor.MIDDLE))
    for index, (label, cells) in enumerate(grid.rows):
        y = top + index * _HEIGHT
        words.append(Words(axis - 6, y + _HEIGHT / 2 + 0.35 * SIZES[Style.AXIS], label, Style.AXIS, Anchor.END))
        boxes += [Box(x, y, width, _HEIGHT, cell) for cell, x, width in zip(cells, lefts, widths, strict=True)]
    width = max(axis + sum(widths), named.width)
    return Block(width, top + len(grid.rows) * _HEIGHT, tuple(boxes), tuple(words))


def _widths(grids: Sequence[Grid]) -> list[float]:
    """As wide as the widest cell, all alike, so that a matrix looks like one."""
    labels = [cell.label for grid in grids for _, cells in grid.rows for cell in cells]
    names = [name for grid in grids for name in grid.columns]
    widest = max(_width(label, Style.LABEL) for label in labels)
    width = _PADDING + max(widest, *(_width(name, Style.AXIS) for name in names))
    return [float(round(width))] * len(grids[0].columns)


def _axis(grids: Sequence[Grid]) -> float:
    return float(round(8 + max(_width(label, Style.AXIS) for grid in grids for label, _ in grid.rows)))


def _width(words: str, style: Style) -> float:
    """At most what the words take in any sans-serif font."""
    return SIZES[style] * sum(0.34 if each in ".,:;|-'()[] il" else 0.64 for each in words)


def _lines(lines: Sequence[str], style: Style) -> Block:
    step = SIZES[style] * _LINE
    words = tuple(Words(0, SIZES[style] + index * step, line, style) for index, line in enumerate(lines))
    return Block(max((_width(line, style) for line in lines), default=0), len(lines) * step, words=words)


def _beside(blocks: Sequence[Block]) -> Block:
    placed, x = [], 0.0
    for block in blocks:
        placed.append(_moved(block, x, 0))
        x += block.width + _GAP
    return _union(placed)


def _below(blocks: Sequence[Block], gap: float) -> Block:
    placed, y = [], 0.0
    for block in blocks:
        placed.append(_moved(block, 0, y))
        y += block.height + gap
    return _union(placed)


def _moved(block: Block, x: float, y: float) -> Block:
    boxes = tuple(replace(box, x=box.x + x, y=box.y + y) for box in block.boxes)
    words = tuple(replace(each, x=each.x + x, y=each.y + y) for each in block.words)
    return replace(block, width=block.width + x, height=block.height + y, boxes=boxes, words=words)


def _union(blocks: Iterable[Block]) -> Block:
    parts = list(blocks)
    boxes = tuple(box for part in parts for box in part.boxes)
    words = tuple(each for part in parts for each in part.words)
    return Block(max(part.width for part in parts), max(part.height for part in parts), boxes, words)
