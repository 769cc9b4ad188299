"""Triton's encodings of the operands of mma: ``#ttg.nvidia_mma`` of C and D, ``#ttg.dot_op`` of A and B.

An encoding is of a tensor, here of the operand's matrix. Along the inner axis (columns, or rows of B) a lane holds
``kWidth`` elements, two in C and D, and the four lanes of a quad follow each other; along the outer axis eight quads
do. A lane counts its elements along the inner axis, then through the blocks of eight within the height of the
instruction, then through the blocks of the inner axis, then through what is left of the outer one. The warps of
version 3, which is wgmma, follow each other down the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..fragment import Fragment
from ..instructions import WARP, dimensions
from . import Notation, RefusedError
from .digits import Array
from .table import located, refusal, rows_of, table

_MMA = re.compile(r"warpsPerCTA = \[(\d+), 1\], instrShape = \[(\d+), (\d+)(?:, (\d+))?\]")
_DOT = re.compile(r"opIdx = ([01]), .*, kWidth = (\d+)")


@dataclass(frozen=True)
class _Encoding:
    """``shape`` is that of the instruction, ``operand`` 0 for A, 1 for B and None for C and D."""

    warps: int
    shape: tuple[int, ...]
    operand: int | None = None
    width: int = 2

    def __str__(self) -> str:
        parts = {
            "versionMajor": 2 if len(self.shape) == 2 else 3,
            "versionMinor": 0,
            "warpsPerCTA": [self.warps, 1],
            "instrShape": list(self.shape),
        }
        mma = f"#ttg.nvidia_mma<{{{', '.join(f'{name} = {value}' for name, value in parts.items())}}}>"
        if self.operand is None:
            return mma
        return f"#ttg.dot_op<{{opIdx = {self.operand}, parent = {mma}, kWidth = {self.width}}}>"

    def cells(self, rows: int, cols: int) -> dict[str, Array] | None:
        """Row and col over (thread, element) in a tensor, None where it is not made of whole instructions."""
        names = ("row", "col") if self.operand == 1 else ("col", "row")
        inner, outer = (rows, cols) if self.operand == 1 else (cols, rows)
        height = 8 if self.operand == 1 else self.shape[0]
        length = self.shape[1] if self.operand is None else self.width * self.shape[0] // 2
        if inner % length or outer % (height * self.warps):
            return None
        lane, warp = np.arange(WARP * self.warps)[:, None] % WARP, np.arange(WARP * self.warps)[:, None] // WARP
        element = np.arange(rows * cols // len(lane))
        sizes = (self.width, height // 8, inner // (4 * self.width), outer // (height * self.warps))
        near, high, block, tile = np.unravel_index(element, sizes, order="F")
        along = (block * 4 + lane % 4) * self.width + near
        return dict(
            zip(names, (along, ((tile * self.warps + warp) * (height // 8) + high) * 8 + lane // 4), strict=True)
        )


def compose(fragment: Fragment, name: str) -> str:
    """An alias of the encoding that equals the layout."""
    held = table(fragment)
    if "computation" in held.extents:
        raise RefusedError(f"{fragment}: Triton has no encoding of several products or matrices")
    if any(extent & (extent - 1) for extent in fragment.dimensions):
        raise RefusedError(f"{fragment}: Triton has no tensor of {' x '.join(map(str, fragment.dimensions))}")
    nearest = None
    for each in _encodings(fragment):
        cells = each.cells(*fragment.dimensions)
        if cells is None or cells["row"].shape != held.coordinates["row"].shape:
            continue
        different = np.any([cells[axis] != held.coordinates[axis] for axis in cells], axis=0)
        if not different.any():
            return f"#{name} = {each}\n"
        nearest = nearest or (each, cells, np.argwhere(different)[0].tolist())
    if nearest is None:
        raise RefusedError(f"{fragment}: Triton has no encoding of it")
    each, cells, (lane, element) = nearest
    why = f"holds another cell than row {cells['row'][lane, element]} col {cells['col'][lane, element]} of {each}"
    raise refusal(fragment, located(fragment, lane, element), why)


def read(text: str, fragment: Fragment) -> Array:
    """The rows that the encoding says."""
    warps, *shape = (int(number) for number in _MMA.findall(text)[0] if number)
    operand = _DOT.search(text)
    more = (int(operand[1]), int(operand[2])) if operand else ()
    cells = _Encoding(warps, tuple(shape), *more).cells(*fragment.dimensions)
    assert cells is not None
    return rows_of(fragment, cells)


def _encodings(fragment: Fragment) -> Iterator[_Encoding]:
    """Those that are made for the role of the fragment and the threads that hold it."""
    warps = fragment.threads // WARP
    if fragment.role not in "ABCD" or (warps > 1 and fragment.role == "B"):
        return
    if warps == 1:
        shapes: list[tuple[int, ...]] = [(16, 8), (8, 8)]
    else:
        (_, n), (_, k) = (dimensions(fragment.shape, role, fragment.instruction) for role in "DA")
        shapes = [(16, n, k)]
    if fragment.role in "CD":
        yield from (_Encoding(warps, shape) for shape in shapes)
        return
    # A register is as wide as what a lane holds of a row, unless somebody has another idea.
    widths = sorted((1, 2, 4, 8, 16, 32), key=lambda width: width != fragment.slots)
    yield from (_Encoding(warps, shape, "AB".index(fragment.role), width) for width in widths for shape in shapes)


NOTATION = Notation(compose, read, before="// Encodings of tensors of the shape of the operand's matrix.\n\n")
