"""Triton's linear layouts, and its encodings of the operands of mma."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...isa.instructions import WARP, dimensions
from ...layout.algebra import Array, span
from ...layout.fragment import Fragment
from ..facts import group
from .table import RefusedError, Writer, cells, refusal


def linear(fragment: Fragment, name: str) -> str:
    """An alias of a ``#ttg.linear`` attribute: each bit of register, lane and warp adds, by XOR, its basis to the cell.

    ``register`` counts the elements i, ``lane`` the threads of a warp. A layout is linear where the cell of a place is
    the XOR of those of its bits.
    """
    coordinates = cells(fragment)
    threads, values = coordinates["row"].shape
    for count, what in ((values, "elements per lane"), (threads, "lanes")):
        if count & (count - 1):
            raise RefusedError(f"{fragment}: {count} {what} are not counted by bits")
    every = np.stack(list(coordinates.values()), axis=-1)
    lanes, registers = (
        along[[1 << bit for bit in range(len(along).bit_length() - 1)]] for along in (every[:, 0], every[0])
    )
    again = span(lanes, len(coordinates))[:, None] ^ span(registers, len(coordinates))
    if len(wrong := np.argwhere(again != every).tolist()):
        lane, element, axis = wrong[0]
        which, value, expected = list(coordinates)[axis], every[lane, element, axis], again[lane, element, axis]
        why = f"has {which} {value}, but the XOR of the bases of its bits is {expected}"
        raise refusal(fragment, lane, element, why)
    within = group(fragment).bit_length() - 1
    bases = {"register": registers, "lane": lanes[:within], "warp": lanes[within:]}
    parts = [f"{part} = {vectors.tolist()}" for part, vectors in bases.items()]
    return f"#{name} = #ttg.linear<{{{', '.join([*parts, 'block = []'])}}}>\n"


class _Encoding(NamedTuple):
    """An encoding of a tensor, here of the operand's matrix: ``#ttg.nvidia_mma`` of C and D, ``#ttg.dot_op`` of A, B.

    Along the inner axis (columns, or rows of B) a lane holds ``width`` elements, two in C and D, and the four lanes of
    a quad follow each other; along the outer axis eight quads do. A lane counts its elements along the inner axis, then
    through the blocks of eight within the height of the instruction, then through the blocks of the inner axis, then
    through what is left of the outer one. The warps of version 3, which is wgmma, follow each other down the rows.
    ``shape`` is that of the instruction, ``operand`` 0 for A, 1 for B and None for C and D.
    """

    warps: int
    shape: tuple[int, ...]
    operand: int | None = None
    width: int = 2

    def __str__(self) -> str:
        version, shape = 2 if len(self.shape) == 2 else 3, list(self.shape)
        warps = f"warpsPerCTA = [{self.warps}, 1]"
        mma = f"#ttg.nvidia_mma<{{versionMajor = {version}, versionMinor = 0, {warps}, instrShape = {shape}}}>"
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
        warp, lane = np.divmod(np.arange(WARP * self.warps)[:, None], WARP)
        element = np.arange(rows * cols // len(lane))
        sizes = (self.width, height // 8, inner // (4 * self.width), outer // (height * self.warps))
        near, high, block, tile = np.unravel_index(element, sizes, order="F")
        along = (block * 4 + lane % 4) * self.width + near
        across = ((tile * self.warps + warp) * (height // 8) + high) * 8 + lane // 4
        return dict(zip(names, (along, across), strict=True))


def encoding(fragment: Fragment, name: str) -> str:
    """An alias of the encoding that equals the layout."""
    coordinates = cells(fragment)
    if "computation" in coordinates:
        raise RefusedError(f"{fragment}: Triton has no encoding of several products or matrices")
    if any(extent & (extent - 1) for extent in fragment.dimensions):
        raise RefusedError(f"{fragment}: Triton has no tensor of {' x '.join(map(str, fragment.dimensions))}")
    nearest = None
    for each in _encodings(fragment):
        said = each.cells(*fragment.dimensions)
        if said is None or said["row"].shape != coordinates["row"].shape:
            continue
        different = np.any([said[axis] != coordinates[axis] for axis in said], axis=0)
        if not different.any():
            return f"#{name} = {each}\n"
        nearest = nearest or (each, said, np.argwhere(different)[0].tolist())
    if nearest is None:
        raise RefusedError(f"{fragment}: Triton has no encoding of it")
    each, said, (lane, element) = nearest
    why = f"holds another cell than row {said['row'][lane, element]} col {said['col'][lane, element]} of {each}"
    raise refusal(fragment, lane, element, why)


def _encodings(fragment: Fragment) -> Iterator[_Encoding]:
    """Those that are made for the role of the fragment and the threads that hold it."""
    warps = fragment.threads // WARP
    if group(fragment) != WARP or fragment.role not in "ABCD" or (warps > 1 and fragment.role == "B"):
        return
    shapes: list[tuple[int, ...]] = [(16, 8), (8, 8)]
    if warps > 1:
        (_, n), (_, k) = (dimensions(fragment.shape, role, fragment.instruction) for role in "DA")
        shapes = [(16, n, k)]
    if fragment.role in "CD":
        yield from (_Encoding(warps, shape) for shape in shapes)
        return
    # A register is as wide as what a lane holds of a row, unless somebody has another idea.
    widths = sorted((1, 2, 4, 8, 16, 32), key=lambda width: width != fragment.slots)
    yield from (_Encoding(warps, shape, "AB".index(fragment.role), width) for width in widths for shape in shapes)


LINEAR = Writer(linear, before="// From bits of register, which counts the elements i, and of lane to row and col.\n\n")
TRITON = Writer(encoding, before="// Encodings of tensors of the shape of the operand's matrix.\n\n")
