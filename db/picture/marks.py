"""Lines drawn into boxes, as points: the ends of a window of columns, and the frame of a cell that differs."""

from __future__ import annotations

from collections.abc import Iterator

from .layout import Box

Line = list[tuple[float, float]]


def brackets(box: Box) -> Iterator[Line]:
    """A bracket where a window opens and where it closes."""
    top, bottom = box.y + 3.5, box.y + box.height - 3.5
    if box.cell.opens:
        x = box.x + 3.5
        yield [(x + 3, top), (x, top), (x, bottom), (x + 3, bottom)]
    if box.cell.closes:
        x = box.x + box.width - 3.5
        yield [(x - 3, top), (x, top), (x, bottom), (x - 3, bottom)]


def frame(box: Box) -> Iterator[Line]:
    """A frame inside the edges."""
    if box.cell.differs:
        left, top, right, bottom = box.x + 2, box.y + 2, box.x + box.width - 2, box.y + box.height - 2
        yield [(left, top), (right, top), (right, bottom), (left, bottom), (left, top), (right, top)]
