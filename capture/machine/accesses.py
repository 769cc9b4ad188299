"""Who has accessed each byte of a memory last: its last write, and its first and last reads since."""

from typing import NamedTuple

import numpy as np

from ...db.layout.algebra import Array

#: Who accesses memory: threads themselves, their copies by cp.async, the reads of the wgmma of their warpgroup, and
#: those of their bulk copies. What bulk copies and st.async write belongs to the mbarrier that they complete on. What
#: an atomic writes that decides by what it finds, others may read plainly, as before a loop of cas.
OWN, COPIES, WGMMA, BULK, COMPLETES, DECIDES = range(6)

#: Scopes, in which an access is strong or a fence orders: none, the block, its cluster, or all (8.5).
WEAK, BLOCK, CLUSTER, GRID = range(4)


class Manner(NamedTuple):
    """How memory is accessed: by whom, and for whom that is strong.

    What belongs to a ``mbarrier`` is there when that says so. A read that ``passes`` leaves no note, as what follows it
    stands for it.
    """

    by: int = OWN
    strong: int = WEAK
    mbarrier: int | None = None
    passes: bool = False


PLAIN = Manner()

#: An access is a number: its kind, its time, for whom it is strong, and the thread or mbarrier of the grid. 0 is none.
_KIND, _TIME, _STRONG = 60, 32, 30


def numbers(kind: int, time: int, who: Array, *, strong: int = WEAK) -> Array:
    """Accesses of a kind and a time, by threads or mbarriers of the grid."""
    return np.asarray(who | kind << _KIND | time << _TIME | strong << _STRONG)


def after(time: Array) -> Array:
    """The least number that an access after a time can have, which is one of threads themselves."""
    return np.asarray(time + 1 << _TIME)


def may_race(accesses: Array) -> Array:
    """Whether others may not access the same plainly at any time."""
    return np.asarray(accesses < DECIDES << _KIND)


def strength(accesses: Array) -> Array:
    """For whom they are strong: with others that are so for each other they may happen at once."""
    return np.asarray(accesses >> _STRONG & 3)


class AccessParts(NamedTuple):
    """What the numbers of accesses say."""

    kind: Array
    time: Array
    who: Array


def parts(accesses: Array) -> AccessParts:
    """Their kinds, times, and threads or mbarriers.

    >>> [int(part) for part in parts(numbers(COPIES, 7, np.array(3), strong=GRID))]
    [1, 7, 3]
    """
    return AccessParts(accesses >> _KIND, accesses >> _TIME & (1 << _KIND - _TIME) - 1, accesses & (1 << _STRONG) - 1)


class Accesses:
    """The last write of each byte of a memory, and the first and the last of its reads by the warps of each column.

    All that are strong are in the last column, so that they hide no other.

    The first counts from a write that knows of all reads before, or from where all of a block have met. No read that is
    kept is above ``newest``.
    """

    def __init__(self, size: int, columns: int = 1) -> None:
        self.writer, self.newest = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.reads = np.zeros((2, columns + 1, size), np.int64)

    def note_reads(self, place: Array, column: Array, numbers: Array, settled: Array) -> None:
        """Note reads (n, bytes) in a column for each, whose threads know of all below ``settled``."""
        at, (reads, latest) = place + column[:, None] * len(self.writer), self.reads.reshape(2, -1)
        first, last = reads[at], latest[at]
        stays = first >= settled
        # Of those who read a byte at once, the first keeps it as the first, and the last as the last. Copies, as numpy
        # writes views that run backwards from their lowest address.
        reads[at[::-1].copy()] = np.where(stays, first, numbers)[::-1].copy()
        latest[at] = np.where(~stays & (last >= settled), last, numbers)
        self.newest[place] = np.maximum(self.newest[place], numbers)

    def noted(self, place: Array, settled: Array) -> list[tuple[Array, Array]]:
        """The tables that keep reads of these bytes, each with the reads; none where all are below ``settled``."""
        if not (self.newest[place] >= settled).any():
            return []
        slots = self.reads.reshape(-1, len(self.writer))
        return [(slot, kept) for slot in slots if (kept := slot[place]).any()]
