"""What a tensor map writes: which place in shared memory each element of a box goes to.

The tensor holds the numbers of its own bytes, digit by digit, so that memory shows where each went. It is written to
each line at which a pattern may begin: the address alone decides the phase.
"""

import numpy as np

from ..db.isa.instructions import box
from ..db.isa.shared import BoundingBox
from ..db.layout.algebra import Array
from ..db.layout.fragment import Fragment
from ..db.layout.shared import shared, swizzle
from .device import Bench, Contradiction
from .kernels import LINE, LINES


def measure_box(bench: Bench) -> tuple[Fragment, int]:
    """The fragment of a box, and at how many more lines it was written as the phase of the pattern says.

    Raises:
        Contradiction: a byte is not written, or an element is torn, or another phase decides.
    """
    key = bench.form.key(bench.form.role)
    of = box(key)
    assert of is not None
    first, *others = _written(bench, of)
    for line, bits in enumerate(others, 1):
        if not np.array_equal(bits, at_line(of, first, line)):
            raise Contradiction(f"{key} lies in another way {line * LINE} bytes after its pattern begins")
    return Fragment.of(key, shared(key, first), "captured"), len(others)


def at_line(of: BoundingBox, bits: Array, line: int) -> Array:
    """Where elements lie that start so many lines later: the address decides the phase of the pattern."""
    moved = swizzle(of.mode)
    return (moved(moved(bits >> 3) + line * LINE) - line * LINE) << 3


def _written(bench: Bench, of: BoundingBox) -> Array:
    """The bit at which each element lies, from where the box starts: an array (lines, rows, elements)."""
    count = of.mn * of.k * of.bits // 8
    numbers = np.arange(1, count + 1)
    digits = np.stack([numbers & 0xFF, numbers >> 8]).astype(np.uint8)
    offsets = np.tile(LINE * np.arange(LINES, dtype=np.uint32)[:, None, None], bench.form.threads)
    low, high = bench.values({"tensor": digits, "offset": offsets}).astype(int).reshape(2, LINES, -1)
    shown = (low | high << 8) - 1
    at = np.full((LINES, count), -1)
    for line, row in enumerate(shown):
        place = np.flatnonzero((row >= 0) & (row < count))
        at[line, row[place]] = place - line * LINE
        if len(place) != count or (at[line] < 0).any():
            raise Contradiction(f"{len(place)} bytes of memory hold the {count} of {bench.form}")
    each = at.reshape(LINES, of.mn, of.k, of.bits // 8)
    if (each - each[..., :1] != np.arange(of.bits // 8)).any():
        raise Contradiction(f"{bench.form} tears elements apart")
    return each[..., 0] * 8
