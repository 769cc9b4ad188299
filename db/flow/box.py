"""What a tensor map writes to shared memory, for a box of any extents (5.5.7)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import LanemapError
from ..isa.instructions import INSTRUCTIONS, dimensions
from ..isa.names import Query
from ..isa.shared import BOX_MODES, LARGEST, LONGEST, BoundingBox
from ..isa.types import type_bits
from ..layout.shared import places
from ..rows import Rows, Told
from .descriptor import TensorMap

_EXTENTS = re.compile(r"(?a:m(\d{1,5})n(\d{1,5})|(\d{1,5})x(\d{1,5}))")


@dataclass(frozen=True)
class Written(Told):
    """A box of rows M of elements N, and where each of them lies."""

    type: str
    box: BoundingBox

    @property
    def tensor_map(self) -> TensorMap:
        """The tensor map that writes it."""
        return TensorMap((self.box.k, self.box.mn), ("n", "m"), f"CU_TENSOR_MAP_SWIZZLE_{BOX_MODES[self.box.mode]}")

    def rows(self) -> Rows:
        """The byte at which each element lies."""
        at = (places(self.box) >> 3).tolist()
        return Rows(("m", "n", "byte"), [(m, n, byte) for m, row in enumerate(at) for n, byte in enumerate(row)])

    def parts(self) -> Iterator[str | Rows]:
        """Its facts, and the byte of each unit of 16 bytes of the first rows."""
        of, step = self.box, 128 // self.box.bits
        yield f"box of {of.mn} rows of {of.k} {self.type} in {of.mode}"
        yield f"size: {of.size} bytes from a multiple of {of.alignment}"
        yield f"rows: {of.k * of.bits // 8} bytes each, {of.span} apart"
        yield f"tensor map: box {of.k} (n), {of.mn} (m), element strides 1, {self.tensor_map.swizzle}"
        yield "elsewhere: the address decides the phase of the pattern, wherever the box starts"
        yield ""
        yield "bytes of the first rows:"
        first = (places(of)[:8, ::step] >> 3).tolist()
        yield Rows(("m", *(f"n {n}" for n in range(0, of.k, step))), [(m, *row) for m, row in enumerate(first)])


def writes(query: Query) -> bool:
    """Whether a query names what a tensor map writes."""
    row = INSTRUCTIONS.get(query.token("instruction") or "")
    return row is not None and "t" in row.axes


def describe(query: Query, extents: str | None = None) -> Written:
    """What a tensor map writes.

    Args:
        query: the type and the swizzling mode, and the shape where ``extents`` has none.
        extents: the box, such as m64n32: rows M of elements N.

    Raises:
        LanemapError: there is no such mode or box; says what would be right.
    """
    asked = query.parameters()
    named, type_, shape = asked["qualifiers"], asked["type"] or query.token("type"), asked["shape"]
    mode = next((mode for mode in BOX_MODES if mode.lower() == named), None)
    if mode is None:
        said = f"there is no {named}" if named else "say how it is swizzled"
        raise LanemapError(f"{said}: choose from {', '.join(BOX_MODES)}")
    if type_ is None:
        raise LanemapError("say the type of its elements: b8, b16 or b32")
    if extents is not None:
        if not (parts := _EXTENTS.fullmatch(extents.lower())):
            raise LanemapError(f"{extents!r} is no box: write m64n32 for 64 rows of 32 elements")
        m, n = (int(number) for number in parts.groups() if number)
    elif shape:
        m, n = dimensions(shape, "t", str(asked["instruction"]))
    else:
        raise LanemapError("say the box: write m64n32 for 64 rows of 32 elements")
    of = BoundingBox(mode, type_bits(type_), m, n)
    if not 0 < m <= LONGEST or not 0 < n <= LONGEST:
        raise LanemapError(f"m{m}n{n} is no box: it has 1 to {LONGEST} rows and elements")
    unit, most = 128 // of.bits, of.span * 8 // of.bits
    if n % unit:
        near = min(-(-n // unit) * unit, most)
        raise LanemapError(f"{n} elements of {of.bits} bits are no multiple of 16 bytes: write n{near}")
    if not of.fits:
        least = n * of.bits // 8
        raise LanemapError(f"a row of {least} bytes is wider than the span of {mode}: write n{most}, or none")
    if of.size > LARGEST:
        raise LanemapError(f"a box of m{m}n{n} has {of.size} bytes: a block has at most {LARGEST} of shared memory")
    return Written(type_, of)
