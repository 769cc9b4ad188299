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
    """An alias of a ``#ttg.linear`` attribute: the cell is the XOR of a basis for each bit of register, lane and warp.

    ``register`` counts the elements i, ``lane`` the threads of a warp.
    """
    coordinates = cells(fragment)
    threads, values = coordinates["row"].shape
    for count, unit in ((values, "elements per lane"), (threads, "lanes")):
        if count & (count - 1):
            raise RefusedError(f"{fragment}: {count} {unit} are not a power of two")
    every = np.stack(list(coordinates.values()), axis=-1)
    lanes, registers = (
        along[[1 << bit for bit in range(len(along).bit_length() - 1)]] for along in (every[:, 0], every[0])
    )
    recomputed = span(lanes, len(coordinates))[:, None] ^ span(registers, len(coordinates))
    if len(wrong := np.argwhere(recomputed != every).tolist()):
        lane, element, axis = wrong[0]
        held = f"{list(coordinates)[axis]} {every[lane, element, axis]}"
        why = f"has {held}, but the XOR of the bases of its bits is {recomputed[lane, element, axis]}"
        raise refusal(fragment, lane, element, why)
    within = group(fragment).bit_length() - 1
    bases = {"register": registers, "lane": lanes[:within], "warp": lanes[within:]}
    parts = [f"{part} = {vectors.tolist()}" for part, vectors in bases.items()]
    return f"#{name} = #ttg.linear<{{{', '.join([*parts, 'block = []'])}}}>\n"


class _Encoding(NamedTuple):
    """The encoding of an operand's matrix as a tensor: ``#ttg.nvidia_mma`` for C and D, ``#ttg.dot_op`` for A and B.

    Along the inner axis (columns, or rows of B) a lane holds ``width`` elements, two in C and D, and the four lanes of
    a quad follow each other; along the outer axis eight quads do. A lane counts its elements along the inner axis, then
    through the blocks of eight within the height of the instruction, then through the blocks of the inner axis, then
    through the rest of the outer one. The warps of version 3, which is wgmma, follow each other down the rows.
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
        """Row and col over (thread, element) in a tensor, None where instructions do not tile it."""
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
    for candidate in _encodings(fragment):
        encoded = candidate.cells(*fragment.dimensions)
        if encoded is None or encoded["row"].shape != coordinates["row"].shape:
            continue
        different = np.any([encoded[axis] != coordinates[axis] for axis in encoded], axis=0)
        if not different.any():
            return f"#{name} = {candidate}\n"
        nearest = nearest or (candidate, encoded, np.argwhere(different)[0].tolist())
    if nearest is None:
        raise RefusedError(f"{fragment}: Triton has no encoding of it")
    candidate, encoded, (lane, element) = nearest
    row, col = encoded["row"][lane, element], encoded["col"][lane, element]
    why = f"does not hold row {row} col {col}, as it does in {candidate}"
    raise refusal(fragment, lane, element, why)


def _encodings(fragment: Fragment) -> Iterator[_Encoding]:
    """The encodings for the role of the fragment and the threads that hold it."""
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
    # Usually a register holds all that a lane has of a row, so that width is tried first.
    widths = sorted((1, 2, 4, 8, 16, 32), key=lambda width: width != fragment.slots)
    yield from (_Encoding(warps, shape, "AB".index(fragment.role), width) for width in widths for shape in shapes)


LINEAR = Writer(linear, before="// From bits of register, which counts the elements i, and of lane to row and col.\n\n")
TRITON = Writer(encoding, before="// Encodings of tensors of the shape of the operand's matrix.\n\n")
