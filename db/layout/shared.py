"""Where each element of a tile in shared memory lies: strides, and a swizzle over them.

A swizzle is an XOR of some bits of an address onto lower ones, so that each bit of the address has a basis vector, as
in every linear layout.
"""

import re
from typing import Any, NamedTuple

import numpy as np

from ..errors import LanemapError
from ..isa.instructions import WORD, Key, box, instruction, operand, sparsity, tile
from ..isa.shared import LINES, BoundingBox, Fields, Tile
from .algebra import Array, Sum, parse_strided
from .digits import Digit
from .fragment import elements

#: The bits of a unit, which swizzles keep, and which the document calls normalized elements.
UNIT = 128


class Swizzle(NamedTuple):
    """For each bit of an address that has an effect on others, these: CuTe's ``Swizzle<bits, first, shift>``.

    ``also`` is another one that the same bits have, on others.
    """

    bits: int
    first: int = 4
    shift: int = 3
    also: "Swizzle | None" = None

    @property
    def bases(self) -> tuple[int, ...]:
        """The basis vector of each bit of an address up to the last that has an effect."""
        return tuple(int(self(np.asarray(1 << bit))) for bit in range(self.first + self.shift + self.bits))

    @property
    def period(self) -> int:
        """After how many bytes the pattern repeats."""
        return 1 << self.first + self.shift + self.bits

    def __call__(self, address: Array, rows: int = 0) -> Array:
        """The addresses with their bits added by XOR.

        The pattern begins where an address is a multiple of its period, or so many ``rows`` later: each is as long as
        the lowest bit that has an effect.
        """
        row = address - (rows << self.first + self.shift)
        moved = np.asarray(address ^ (row >> self.shift & ((1 << self.bits) - 1) << self.first))
        return moved if self.also is None else moved ^ address ^ self.also(address, rows)

    def __str__(self) -> str:
        return f"Swizzle<{self.bits},{self.first},{self.shift}>"


_SWIZZLES = {
    "none": Swizzle(0),
    "32B": Swizzle(1),
    "64B": Swizzle(2),
    "128B": Swizzle(3),
    "128B.atom32": Swizzle(2, 5, 2),
    "128B.atom32.flip8": Swizzle(2, 5, 2, Swizzle(1, 3, 4)),
    "128B.atom64": Swizzle(1, 6, 1),
}


def swizzle(mode: str) -> Swizzle:
    """The swizzle of a mode: of units, mostly of 16 bytes, by the number of their 128-byte row (5.5.7).

    >>> str(swizzle("128B"))
    'Swizzle<3,4,3>'
    """
    return _SWIZZLES[mode]


def strides(of: Tile | BoundingBox, offsets: tuple[int, int] | None = None) -> Sum:
    """The bit at which each element of a tile or a box begins, over (mn, k), before its bytes are swizzled.

    ``offsets`` are the leading and the stride byte offset of a descriptor, by default those of the tile.
    """
    if isinstance(of, BoundingBox):
        return Sum(0, ((Digit(1, of.mn, of.span * 8),), (Digit(1, of.k, of.bits),)))
    along_mn, along_k = of.strides
    if offsets is not None:
        leading, stride = offsets
        along_mn, along_k = (leading, stride) if (of.major == "MN" and of.mode != "none") else (stride, leading)
    line = of.span * 8 // of.bits
    unit = UNIT // of.bits
    across = (Digit(1, LINES, of.span * 8),)
    along = (Digit(1, unit, of.step), Digit(unit, line // unit, UNIT)) if of.narrow else (Digit(1, line, of.bits),)
    atoms_mn, atoms_k = of.atoms
    mn, k = (across, along) if of.major == "K" else (along, across)
    return Sum(0, ((*mn, Digit(of.atom[0], atoms_mn, along_mn * 8)), (*k, Digit(of.atom[1], atoms_k, along_k * 8))))


def places(of: Tile | BoundingBox) -> Array:
    """The bit of shared memory at which each element lies, counted from its start: an array (mn, k)."""
    bits = strides(of)(*np.indices((of.mn, of.k), sparse=True))
    return swizzle(of.mode)(bits >> 3) << 3 | bits & 7


def read(of: Tile, fields: Fields) -> Array:
    """The bit at which each element of a product is read by a descriptor: an array (mn, k).

    What the document leaves open is as an H100 reads it: the address decides the phase of the pattern, wherever a tile
    starts, the base offset is taken from its rows of 128 bytes, and B of a sparse product, twice as deep as a line of
    32 bytes, goes on at the leading offset.
    """
    bits = strides(of, (fields.leading, fields.stride))(*np.indices((of.mn, of.k), sparse=True)) + fields.start * 8
    return swizzle(of.mode)(bits >> 3, fields.base) << 3 | bits & 7


_STATED = re.compile(r"Swizzle<(\d),\s*(\d),\s*(\d)> o (.+)")


def stated(text: str, of: Tile) -> Array:
    """The same by a canonical layout as documents state it, with T, m, k, LBO and SBO for numbers (9.7.17.5.1.2.1.3).

    An example of one has numbers alone, and as many elements as they say.

    >>> stated("Swizzle<1,4,3> o ((8,m),(T,2k)):((2T,SBO),(1,T))", Tile("32B", "K", 32, 8, 8))[4, :5].tolist()
    [1152, 1184, 1216, 1248, 1024]

    Raises:
        LanemapError: it is not one.
    """
    if not (parts := _STATED.fullmatch(text)):
        raise LanemapError(f"{text!r} is no canonical layout: write Swizzle<3,4,3> o ((8,m),(T,2k)):((8T,SBO),(1,T))")
    units = of.k * of.bits // UNIT // 2 if of.major == "K" else of.atoms[1]
    leading, stride = (offset * 8 // of.bits for offset in of.offsets)
    numbers = {"T": UNIT // of.bits, "m": of.atoms[0], "k": units, "LBO": leading, "SBO": stride}
    spelt = re.sub(r"(\d*)(LBO|SBO|T|m|k)", lambda term: str(int(term[1] or 1) * numbers[term[2]]), parts[4])
    layout = parse_strided(spelt)
    extents = layout.lengths if spelt == parts[4] else (of.mn, of.k)
    unit, within = np.divmod(layout(*np.indices(extents, sparse=True)), UNIT // of.bits)
    bits: Array = unit * UNIT + within * of.step
    count, first, shift = map(int, parts.groups()[:3])
    return Swizzle(count, first, shift)(bits >> 3) << 3 | bits & 7


def tabled(text: str, of: BoundingBox) -> Array:
    """The same of a box by a table as documents print it: which unit of a line of 128 bytes lies at each (5.5.7).

    >>> tabled("0 1 2 3 4 5 6 7\n1 0 3 2 5 4 7 6", BoundingBox("32B", 32, 5, 4))[4].tolist()
    [1152, 1184, 1216, 1248]
    """
    units = np.argsort([list(map(int, line.split())) for line in text.strip().splitlines()], axis=1)
    unit = 128 // units.shape[1]
    bits = strides(of)(*np.indices((of.mn, of.k), sparse=True))
    line, byte = np.divmod(bits >> 3, 128)
    moved = line * 128 + units[line % len(units), byte // unit] * unit + byte % unit
    return np.asarray(moved << 3 | bits & 7)


def shared(key: Key, bits: Array) -> Array:
    """The elements of an operand of which each lies at a bit of shared memory: an array (mn, k).

    A stored element of a sparse A stands for a window of columns.
    """
    of = tile(key) or box(key)
    assert of is not None
    mn, k = np.indices(bits.shape)
    if key.role == "B":
        columns: dict[str, Any] = {"row": k, "col": mn}
    else:
        first, last = sparsity(*key[:3]).window(k) if instruction(key.instruction).sparse else (k, k)
        columns = {"row": mn, "col": first, "col_last": last}
    step = WORD // operand(key).slots
    columns |= {"lane": 0 * bits, "reg": bits // WORD, "slot": bits % WORD // step}
    return elements({name: values.ravel() for name, values in columns.items()})
