r"""TikZ pictures of the matrix, for papers: a box for what a lane holds there, such as ``T5: {a2,a3}``, in its colour.

Elements that follow each other along a row, or down a column of B, share a box, as do those of one window of columns.
Boxes that would cover each other, such as windows that overlap, stand below each other within their row. The matrices
of several products stand beside each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..fragment import Element, Fragment, elements
from ..instructions import WARP
from ..picture.palette import ink, shade
from . import Notation
from .digits import Array

#: Points that a character of a label takes, and a line of labels.
_CHARACTER, _LINE = 2.7, 8

#: Columns between two matrices.
_GAP = 2

_BOX = re.compile(r"\\draw\[lane \d+\] \((\S+),(\S+)\) rectangle \+\((\S+),(\S+)\) node\[midway\] \{T(\d+): (.*)\};")

_STYLES = "".join(
    f"  lane {lane}/.style={{fill=lanemap{lane}, text={'white' if ink(shade(lane)) == 'ffffff' else 'black'}}},\n"
    for lane in range(WARP)
)
_COLOURS = "".join(rf"\definecolor{{lanemap{lane}}}{{HTML}}{{{shade(lane).upper()}}}" + "\n" for lane in range(WARP))
_BEFORE = rf"""% \input this file after \usepackage{{tikz}}. A box names a lane and elements of it, as PTX counts them.

{_COLOURS}\tikzset{{
{_STYLES}}}

"""


@dataclass(frozen=True)
class _Box:
    """What a lane holds: ``count`` elements from ``first`` on, each in the next cell, or all in the window of it."""

    first: Element
    count: int
    down: bool

    @property
    def exact(self) -> bool:
        """Whether each element has a cell, not a window."""
        return self.first.col == self.first.col_last

    @property
    def width(self) -> int:
        """Columns."""
        return self.count if self.exact and not self.down else self.first.col_last - self.first.col + 1

    @property
    def height(self) -> int:
        """Rows."""
        return self.count if self.exact and self.down else 1

    def continues(self, each: Element) -> bool:
        """Whether the next element belongs into the box."""
        first, step = self.first, self.count if self.exact else 0
        down, right = (step, 0) if self.down else (0, step)
        cell = {"row": first.row + down, "col": first.col + right, "col_last": first.col_last + right}
        # As many elements as columns of a window would read as one in each.
        apart = not self.exact and self.count + 1 == self.width
        return each == first._replace(reg=each.reg, slot=each.slot, **cell) and not apart


def compose(fragment: Fragment, name: str) -> str:  # noqa: ARG001 - a picture has no name
    """A ``tikzpicture``."""
    boxes = list(_boxes(fragment))
    labels = [_label(fragment, box) for box in boxes]
    levels = _levels(boxes)
    share = 1 / (max(levels) + 1)
    x = max((len(label) * _CHARACTER + 4) / box.width for box, label in zip(boxes, labels, strict=True))
    y = max(_LINE / (box.height - 1 + share) for box in boxes)
    lines = [
        rf"\begin{{tikzpicture}}[x={x:.4g}pt, y=-{y:.4g}pt, font=\tiny\sffamily, inner sep=1pt]",
        *_numbers(fragment, boxes),
    ]
    for box, label, level in zip(boxes, labels, levels, strict=True):
        place = f"({_x(fragment, box)},{box.first.row + level * share:g})"
        size = f"({box.width},{box.height - 1 + share:g})"
        text = label.replace("{", r"\{").replace("}", r"\}")
        lines.append(rf"  \draw[lane {box.first.lane % WARP}] {place} rectangle +{size} node[midway] {{{text}}};")
    return "\n".join([*lines, r"\end{tikzpicture}"]) + "\n"


def read(text: str, fragment: Fragment) -> Array:
    """The rows that the boxes say."""
    found = []
    for x, y, width, height, lane, label in _BOX.findall(text):
        numbers = [int(number) for number in re.findall(r"\d+", label)]
        first, last = numbers[0], numbers[-1]
        product, col = divmod(int(x), fragment.dimensions[1] + _GAP)
        rows, cols = int(np.ceil(float(height))), int(width)
        exact = last - first + 1 == rows * cols
        for place, element in enumerate(range(first, last + 1)):
            row = int(np.floor(float(y))) + (place // cols if exact else 0)
            start = col + (place % cols if exact else 0)
            end = start if exact else start + cols - 1
            reg, slot = divmod(element, fragment.slots)
            found.append((int(lane), reg, slot, row, start, end, product + 1))
    return elements(dict(zip(Element._fields, np.array(found).T, strict=True)))


def _boxes(fragment: Fragment) -> Iterator[_Box]:
    box = None
    for each in fragment.records():
        if box and box.continues(each):
            box = _Box(box.first, box.count + 1, box.down)
            continue
        if box:
            yield box
        box = _Box(each, 1, fragment.role == "B")
    if box:
        yield box


def _levels(boxes: Sequence[_Box]) -> list[int]:
    """For each box, how many boxes it must stand below: those before it that cover one of its cells."""
    covered: dict[tuple[int, int, int], set[int]] = {}
    levels = []
    for box in boxes:
        cells = [
            (box.first.computation, box.first.row + down, box.first.col + right)
            for down in range(box.height)
            for right in range(box.width)
        ]
        taken = set().union(*(covered.get(cell, ()) for cell in cells))
        level = next(level for level in range(len(taken) + 1) if level not in taken)
        for cell in cells:
            covered.setdefault(cell, set()).add(level)
        levels.append(level)
    return levels


def _numbers(fragment: Fragment, boxes: Sequence[_Box]) -> Iterator[str]:
    """The numbers of rows and columns at which boxes begin."""
    for row in sorted({box.first.row for box in boxes}):
        yield rf"  \node[anchor=north east] at (0,{row}) {{{row}}};"
    for x, col in sorted({(_x(fragment, box), box.first.col) for box in boxes}):
        yield rf"  \node[anchor=south west] at ({x},0) {{{col}}};"


def _x(fragment: Fragment, box: _Box) -> int:
    return box.first.col + (box.first.computation - 1) * (fragment.dimensions[1] + _GAP)


def _label(fragment: Fragment, box: _Box) -> str:
    letter = "c" if fragment.role == "D" else fragment.role.lower()
    first = box.first.reg * fragment.slots + box.first.slot
    names = [f"{letter}{element}" for element in range(first, first + box.count)]
    several = ",".join(names) if len(names) == 2 else f"{names[0]}..{names[-1]}"
    return f"T{box.first.lane}: {names[0] if len(names) == 1 else f'{{{several}}}'}"


NOTATION = Notation(compose, read, comment="%", before=_BEFORE)
