"""What happens before what in shared memory: vector clocks of warps, and of the copies that run beside them.

Each warp counts what it has done, and knows of each other one how far that was when both last met. An access races with
an earlier one of another warp that it does not know of, if one of the two writes. Lanes of a warp are in step.
"""

from __future__ import annotations

import numpy as np

from ...db.isa.instructions import WARP
from ...db.layout.algebra import Array

_Race = tuple[Array, int]


class Order:
    """The clocks of some blocks, and for each byte of their shared memory who wrote and who read it last.

    Agents of a block are its warps, then for each warp what it copies asynchronously.
    """

    def __init__(self, warps: int, per_block: int, size: int) -> None:
        self.per_block = per_block
        self.clock = np.ones((warps, 2), np.int32)  # of each warp, and of the copies that it has begun
        self.known = np.zeros((warps, 2 * per_block), np.int32)
        self.writer = np.zeros(size, np.int16)
        self.written = np.zeros(size, np.int32)
        self.written_at = np.zeros(size, np.int32)
        self.read = np.zeros((size, per_block), np.int32)
        self.read_at = np.zeros(size, np.int32)
        self._see(np.arange(warps))

    def _see(self, warps: Array) -> None:
        """Warps know what they have done themselves."""
        self.known[warps, warps % self.per_block] = self.clock[warps, 0]

    def reads(self, index: Array, size: int, threads: Array, at: int) -> _Race | None:
        """Note reads at an instruction; the threads that race with a write, and the instruction of that."""
        place = index[:, None] + np.arange(size)
        warp = (threads // WARP)[:, None]
        race = self._unseen(place, warp)
        self.read[place, warp % self.per_block] = self.clock[warp, 0]
        self.read_at[place] = at
        return race

    def _unseen(self, place: Array, warp: Array) -> _Race | None:
        """Writes that the warps do not know of."""
        unseen = self.written[place] > self.known[warp, self.writer[place]]
        if not unseen.any():
            return None
        return np.flatnonzero(unseen.any(axis=1)), int(self.written_at[place[unseen][0]])

    def writes(self, index: Array, size: int, threads: Array, at: int, *, copies: bool = False) -> _Race | None:
        """Note writes, of the warps or of their copies; the threads that race, and with which instruction."""
        place = index[:, None] + np.arange(size)
        warp = (threads // WARP)[:, None]
        own = warp % self.per_block
        race = self._unseen(place, warp)
        if race is None:
            late = self.read[place] > self.known[warp, : self.per_block]
            if late.any():
                race = np.flatnonzero(late.any(axis=(1, 2))), int(self.read_at[place[late.any(axis=2)][0]])
        self.writer[place] = own + self.per_block * copies
        self.written[place] = self.clock[warp, int(copies)]
        self.written_at[place] = at
        return race

    def meet(self, warps: Array) -> None:
        """Warps of one block wait for each other: all know what each knows."""
        self.known[warps] = self.known[warps].max(axis=0)
        self.clock[warps, 0] += 1
        self._see(warps)

    def commit(self, warps: Array) -> None:
        """The copies that warps have begun are a group."""
        self.clock[warps, 1] += 1

    def arrived(self, warps: Array, pending: Array | int) -> None:
        """Warps have waited until no more than some groups of their copies are on their way."""
        copies = self.per_block + warps % self.per_block
        self.known[warps, copies] = np.maximum(self.known[warps, copies], self.clock[warps, 1] - 1 - pending)
