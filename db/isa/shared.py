"""Operands in shared memory: the tile that a matrix descriptor reads, and the box that a tensor map writes.

For a descriptor memory is cut into lines as long as the span of the mode, 16 bytes where nothing is swizzled, and eight
lines are an atom. A line runs along K (``K``) or along M or N (``MN``). Atoms follow each other without gaps, first
along K (9.7.17.5.1.2). A tensor map writes the rows of a box one after the other, each into a line of its own, however
narrow it is, and leaves the rest of the line as it is (5.5.7, and measured on an H200).
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..errors import LanemapError
from ..text import spans

#: The bytes of a line by the name of the mode.
MODES: Mapping[str, int] = {"none": 16, "32B": 32, "64B": 64, "128B": 128}


def mode_named(name: str, argument: str) -> str:
    """The swizzling mode of a name in any case, which was given for an argument.

    Raises:
        LanemapError: it is none.
    """
    if (found := {mode.lower(): mode for mode in MODES}.get(name.lower())) is None:
        raise LanemapError(f"invalid swizzle {name!r}: choose from {', '.join(MODES)}", argument)
    return found


#: Bytes of shared memory that a block can have on sm_90 and sm_100.
LARGEST = 227 << 10

#: The most elements along one dimension of a box.
LONGEST = 256

#: Banks of shared memory, each of which gives one word in a cycle.
BANKS = 32

#: Lines of an atom.
LINES = 8

_QUALIFIERS = re.compile(r"(none|32b|64b|128b)\.(k|mn)", re.IGNORECASE)


class Tile(NamedTuple):
    """A matrix in shared memory of ``mn`` rows of A or columns of B and a depth of ``k``, both in elements.

    Where elements are ``narrow``, 16 of so many bits begin each unit of 16 bytes, and the rest of it is padding
    (5.5.1.1.1, 9.7.18.10.4.4): they take ``bits`` on average.
    """

    mode: str
    major: str
    bits: int
    mn: int
    k: int
    narrow: int = 0

    @property
    def step(self) -> int:
        """Bits from an element to the next one in a unit of 16 bytes."""
        return self.narrow or self.bits

    @property
    def span(self) -> int:
        """Bytes of a line."""
        return MODES[self.mode]

    @property
    def atom(self) -> tuple[int, int]:
        """The extents of an atom along M or N and along K, in elements."""
        along = self.span * 8 // self.bits
        return (LINES, along) if self.major == "K" else (along, LINES)

    @property
    def atoms(self) -> tuple[int, int]:
        """How many atoms it takes along M or N and along K."""
        return -(-self.mn // self.atom[0]), -(-self.k // self.atom[1])

    @property
    def strides(self) -> tuple[int, int]:
        """Bytes from an atom to the next one along M or N, and along K."""
        return LINES * self.span * self.atoms[1], LINES * self.span

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return self.atoms[0] * self.strides[0]

    @property
    def alignment(self) -> int:
        """Where it must start, so that the pattern begins with it: a multiple of so many bytes."""
        return LINES * self.span if self.span > MODES["none"] else self.span

    @property
    def offsets(self) -> tuple[int, int]:
        """The leading and the stride dimension byte offset of a descriptor that reads it (9.7.17.5.1.2.1).

        Along K is the leading one where lines of 16 bytes run along either axis, or swizzled ones run along K, which
        a single product does not leave.
        """
        along_mn, along_k = self.strides
        return (along_mn, along_k) if self.major == "MN" and self.mode != "none" else (along_k, along_mn)


#: The swizzling modes of tensor maps as ``CUtensorMapSwizzle`` spells them, each with the number of its place (5.5.7).
#: Those with ``atom`` keep units of as many bytes, and ``flip8`` swaps the halves of 16 bytes in every other line.
BOX_MODES: Mapping[str, str] = {
    "none": "NONE",
    "32B": "32B",
    "64B": "64B",
    "128B": "128B",
    "128B.atom32": "128B_ATOM_32B",
    "128B.atom32.flip8": "128B_ATOM_32B_FLIP_8B",
    "128B.atom64": "128B_ATOM_64B",
}


class BoundingBox(NamedTuple):
    """A matrix of ``mn`` rows of ``k`` elements, as a tensor map with this swizzling mode writes it."""

    mode: str
    bits: int
    mn: int
    k: int

    @property
    def span(self) -> int:
        """Bytes from a row to the next one."""
        return self.k * self.bits // 8 if self.mode == "none" else MODES[self.mode.partition(".")[0]]

    def __str__(self) -> str:
        return f"{self.mn} rows of {self.k} elements of {self.bits} bits in {self.mode}"

    @property
    def fits(self) -> bool:
        """Whether a row has whole units of 16 bytes, and no more than the span."""
        return self.k * self.bits % 128 == 0 and self.k * self.bits // 8 <= self.span

    @property
    def size(self) -> int:
        """Bytes from the first to the end of the last row."""
        return self.mn * self.span

    @property
    def alignment(self) -> int:
        """Where it must start, so that the pattern begins with it: a multiple of so many bytes."""
        return 128 if self.mode == "none" else 8 * MODES[self.mode.partition(".")[0]]


def pattern(qualifiers: str | None) -> tuple[str, str] | None:
    """The mode and the major-ness that qualifiers name; None where they name none.

    >>> pattern("128b.k")
    ('128B', 'K')
    """
    if not (found := _QUALIFIERS.fullmatch(qualifiers or "")):
        return None
    mode, major = found.groups()
    return next(name for name in MODES if name.lower() == mode.lower()), major.upper()


#: What the swizzling modes are called in a matrix descriptor of wgmma (9.7.17.5.1.2.2). In one of tcgen05.mma the field
#: has a bit more, which is 0 for these (9.7.18.4.1).
_CODES = ("none", "128B", "64B", "32B")

#: Its bits that no field has, but for the constant from bit 46 on.
_RESERVED = (14, 15, 30, 31, 46, 47, 48, *range(52, 62))


class Fields(NamedTuple):
    """The fields of a matrix descriptor: offsets and the start address in bytes (9.7.17.5.1.2.2, 9.7.18.4.1).

    The ``constant`` has no meaning, and is 0 for wgmma.
    """

    mode: str
    leading: int
    stride: int
    start: int = 0
    base: int = 0
    constant: int = 0

    @classmethod
    def of(cls, word: int) -> "Fields":
        """The fields of a word.

        >>> Fields.of(0x4000004000400000)
        Fields(mode='128B', leading=1024, stride=1024, start=0, base=0, constant=0)
        """
        start, leading, stride = ((word >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
        return cls(_CODES[word >> 62], leading, stride, start, word >> 49 & 7, word >> 46 & 7)


def wrong_bits(word: int, constant: int = 0) -> str:
    """Which bits without a meaning are not what they are in every descriptor; empty where there is none.

    >>> wrong_bits(0x4000004000404000, 1)
    'bit 14 must be 0; bit 46 must be 1'
    """
    said = []
    for right in (0, 1):
        odd = [bit for bit in _RESERVED if constant << 46 >> bit & 1 == right != word >> bit & 1]
        said += [f"bit{'s' * (len(odd) > 1)} {spans(odd)} must be {right}"] if odd else []
    return "; ".join(said)


def descriptor(fields: Fields) -> int:
    """The word with these fields.

    >>> hex(descriptor(Fields("128B", 1024, 1024)))
    '0x4000004000400000'
    """
    start, leading, stride = (number >> 4 & 0x3FFF for number in (fields.start, fields.leading, fields.stride))
    upper = fields.constant << 46 | fields.base << 49 | _CODES.index(fields.mode) << 62
    return start | leading << 16 | stride << 32 | upper
