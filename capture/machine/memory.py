"""Memory of simulated threads: bytes with their origins, in state spaces that generic addresses reach, too (5.1)."""

from collections.abc import Iterable, Iterator
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from ...db.isa.shared import BoundingBox
from ...db.layout.algebra import Array
from .values import OUTSIDE, UNSET

#: Where the windows of state spaces begin in the generic address space. The low 32 bits of an address in shared memory
#: are its offset. The last window has no end.
SHARED, LOCAL, GLOBAL = 1 << 40, 1 << 41, 1 << 44

#: Bytes between two allocations, and what allocations are aligned to.
_GAP, _ALIGNMENT = 4096, 256


class Memory:
    """A state space. Each owner, a thread or a block, has ``size`` bytes of its own, the first of them at ``low``.

    ``changes`` counts the stores that have left other bytes than were there. ``allocated`` has what lies in it by name.
    """

    def __init__(self, name: str, window: int, size: int, owners: int = 1, low: int = 0) -> None:
        self.name, self.window, self.size, self.low = name, window, size, low
        self.data = np.zeros(size * owners, np.uint8)
        self.origin = np.full(size * owners, UNSET, np.int32)
        self.changes = 0
        self.allocated: dict[str, Allocated] = {}

    def near(self, address: int) -> str:
        """The name of an address without the window: its distance from the nearest allocation, if that is near.

        Another one is said as the kernel has it: in global memory with the window.
        """
        offsets = {name: address + self.window - each.address for name, each in self.allocated.items()}
        away = {name: max(-at, at - self.allocated[name].size) for name, at in offsets.items()}
        name = min(away, key=away.__getitem__, default="")
        if not name or away[name] > _GAP:
            return f"{(address + self.window * (self.window == GLOBAL)) % (1 << 64):#x}"
        return f"{name}{offsets[name]:+} of {self.allocated[name].size} bytes"

    def inside(self, address: Array, size: int) -> Array:
        """Whether all bytes of an access are in it, for addresses without the window."""
        return (address >= self.low) & (address <= self.size - size)

    def load(self, index: Array, size: int) -> tuple[Array, Array]:
        """Bytes (accesses, size) with their origins, from indices of their first bytes."""
        at = index[:, None] + np.arange(size)
        return self.data[at], self.origin[at]

    def store(self, index: Array, data: Array, origin: Array | None) -> Array:
        """Write bytes (accesses, size), and return what was there. Of several that write a byte, the last one stays."""
        at = index[:, None] + np.arange(data.shape[1])
        before = self.data[at]
        self.changes += bool((before != data).any())
        self.data[at] = data
        self.origin[at] = 0 if origin is None else origin
        return before


class Allocated(NamedTuple):
    """Where an argument lies in global memory: its generic address and its bytes."""

    address: int
    size: int

    @property
    def bytes(self) -> slice:
        """Its bytes in global memory."""
        return slice(self.address - GLOBAL, self.address - GLOBAL + self.size)


def lay_out(sizes: Iterable[int]) -> tuple[Memory, list[Allocated]]:
    """Global memory with an allocation of each size, apart from each other."""
    places, end = [], _GAP
    for size in sizes:
        places.append(Allocated(GLOBAL + end, size))
        end += -(-size // _ALIGNMENT) * _ALIGNMENT + _GAP
    memory = Memory("global", GLOBAL, end)
    memory.origin[:] = OUTSIDE
    for place in places:
        memory.origin[place.bytes] = UNSET
    return memory, places


#: Bytes of which a bulk copy is made.
UNIT = 16

_MAGIC = b"tensor map".ljust(UNIT)


class MappedTensor(NamedTuple):
    """A tensor in global memory and the box that is copied of it, extents and strides outermost first (5.5).

    ``address`` is generic, ``strides`` are elements from one to the next of each dimension, ``swizzle`` is the mode in
    which the box lies in shared memory, ``type`` that of its elements. ``box`` counts elements that are copied, each
    so many behind the last as ``every`` says. What is outside of the tensor is ``fill``, the bytes of an element.
    A map of im2col (5.5.4) has ``corners``: where pixels begin and end in each dimension between the outermost and the
    innermost; its box is so many pixels, and channels of each.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    bits: int
    box: tuple[int, ...]
    every: tuple[int, ...]
    swizzle: str
    type: str
    fill: bytes
    corners: tuple[tuple[int, int], ...] = ()

    @property
    def lies(self) -> BoundingBox:
        """How the units of a box lie in shared memory: parts of a line of which the tensor has all or nothing."""
        unit = gcd(8 * UNIT, self.shape[-1] * self.bits)
        return BoundingBox(self.swizzle, unit, prod(self.box[:-1]), self.box[-1] * self.bits // unit)

    def units(self, start: Array, offsets: Array | int = 0) -> tuple[Array, Array]:
        """The bytes from the address to each unit of a box, and whether the tensor has it, in the order of the box.

        ``start`` is the place of the first element, outermost first, to which pixels of im2col add ``offsets``.
        """
        first, steps = start[:-1, None], np.array(self.every)[:-1, None]
        if self.corners:
            lines = self._pixels(start)
            lines[1:] += offsets
        else:
            lines = first + steps * np.indices(self.box[:-1]).reshape(len(first), -1 if len(first) else 1)
        line = start[-1] + self.lies.bits // self.bits * np.arange(self.lies.k)
        place = np.vstack([np.repeat(lines, len(line), axis=1), np.tile(line, lines.shape[1])])
        inside = np.all((place >= 0) & (place < np.array(self.shape)[:, None]), axis=0)
        return np.asarray(np.array(self.strides) @ place * self.bits // 8), np.asarray(inside)

    def _pixels(self, start: Array) -> Array:
        """The place of each pixel, without its channel: from the first one on, line by line between the corners."""
        count = np.arange(self.box[0])
        place = np.empty((len(self.corners) + 1, len(count)), int)
        for axis in range(len(self.corners), 0, -1):
            (low, end), step = self.corners[axis - 1], self.every[axis]
            first, each = -((start[axis] - end) // step), -((low - end) // step)
            later = count - first
            place[axis] = np.where(later < 0, start[axis] + count * step, low + later % each * step)
            count = np.where(later < 0, 0, 1 + later // each)
        place[0] = start[0] + count
        return place


#: Bytes of a tensor map.
MAP_SIZE = 128


def map_bytes(number: int) -> bytes:
    """What stands for the tensor map of a launch with this number: its own bytes are nobody's business."""
    return (_MAGIC + number.to_bytes(8, "little")).ljust(MAP_SIZE, b"\0")


def map_number(data: bytes) -> int | None:
    """The number of the tensor map that bytes stand for; None where they are of none."""
    return int.from_bytes(data[UNIT : UNIT + 8], "little") if data.startswith(_MAGIC) else None


class Spaces(NamedTuple):
    """The memories of a launch; ``shared`` has a part for each block, ``local`` one for each thread."""

    globe: Memory
    shared: Memory
    local: Memory

    def reached(self, space: str, address: Array, threads: Array) -> Iterator[tuple[Memory, Array, Array]]:
        """The memories that threads reach: each with the addresses in it and the threads that have them.

        ``space`` is empty for generic addresses. Raises KeyError for a state space that there is not.
        """
        if space:
            memory = {"global": self.globe, "shared": self.shared, "local": self.local, "const": self.globe}[space]
            yield memory, address - (GLOBAL if memory is self.globe else 0), threads
            return
        window = np.where(address >= GLOBAL, 0, np.where(address >= LOCAL, 2, np.where(address >= SHARED, 1, 0)))
        for number, memory in enumerate(self):
            if (at := window == number).any():
                yield memory, address[at] - memory.window, threads[at]
