"""What lanes of a warp do to shared memory, and blocks of a grid to global memory, in an order that nothing makes.

Lanes go on by themselves. What one has done is known to another after both have executed the same ``.sync``
instruction, or after a barrier, an object of mbarrier or an atomic. A block gives notice by an atomic or a strong store
behind a fence, and another has it by reading the same place with an atomic or a strong load (8.8, 8.9).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict

import numpy as np

from ...db.isa.instructions import WARP
from ...db.layout.algebra import Array
from .order import Race

#: An access is one number: when it was, who it is by, counted from 1, and at which instruction. 0 is none.
_TIME, _BY = 39, 18


class _Accesses(ABC):
    """The last write of each byte, and two of its last reads, by different ones where there are several."""

    def __init__(self, size: int) -> None:
        self.writer, self.first, self.last = (np.zeros(size, np.int64) for _ in range(3))

    def _settled(self, who: Array) -> Array:
        """The number from which on some of those who may race do not know of an access."""
        return np.ones_like(who)

    @abstractmethod
    def _unseen(self, who: Array, by: Array, time: Array) -> Array:
        """Whether those do not know what others did at a time."""

    @abstractmethod
    def _name(self, who: int) -> str:
        """What one of those is called."""

    def _late(self, who: Array, accesses: Array) -> Array:
        """Which of some accesses (n, bytes) are of others, who have not met those of ``who`` since."""
        late = np.asarray(accesses >= self._settled(who)[:, None])
        if late.any():
            recent, own = accesses[late], np.broadcast_to(who[:, None], late.shape)[late]
            by = (recent >> _BY & (1 << _TIME - _BY) - 1) - 1
            late[late] = (by != own) & self._unseen(own, by, recent >> _TIME)
        return late

    def _race(self, late: Array, accesses: Array) -> Race | None:
        if not late.any():
            return None
        first, rows = int(accesses[late][0]), np.flatnonzero(late.any(axis=1))
        return Race(rows, first & (1 << _BY) - 1, self._name((first >> _BY & (1 << _TIME - _BY) - 1) - 1))

    def _numbers(self, who: Array, time: Array, at: int) -> Array:
        return (time.astype(np.int64) << _TIME | who + 1 << _BY | at)[:, None]

    def note_reads(self, place: Array, who: Array, time: Array, at: int, *, alone: bool = False) -> Race | None:
        """Note reads of bytes (n, bytes), and find a write that one races with; none where all before is known."""
        first = last = np.broadcast_to(self._numbers(who, time, at), place.shape)
        race = None
        if not alone:
            written, *before = self.writer[place], self.first[place], self.last[place]
            race = self._race(self._late(who, written), written)
            apart = self._late(who, before[0])
            first = np.where(apart, before[0], first)
            last = np.where(~apart & self._late(who, before[1]), before[1], last)
        # Of those who read a byte at once, the first keeps it as the first, and the last as the last. Copies, as numpy
        # writes views that run backwards from their lowest address.
        self.first[place[::-1].copy()] = first[::-1].copy()
        self.last[place] = last
        return race

    def note_writes(self, place: Array, who: Array, time: Array, at: int, changed: Array) -> Race | None:
        """Note writes, and find what one races with, where it has ``changed`` a byte."""
        for accesses in (self.writer[place], self.first[place], self.last[place]):
            if race := self._race(self._late(who, accesses) & changed, accesses):
                break
        self.writer[place] = self._numbers(who, time, at)
        self.first[place[changed]] = self.last[place[changed]] = 0
        return race


#: What a lane knows of another one: what that has done, and which of its copies by cp.async it has waited for. The time
#: of a copy is its group, behind a bit that tells both apart.
_DONE, _COPIED = range(2)
_COPY = 1 << 23


class Lanes(_Accesses):
    """Accesses of lanes of one warp to shared memory.

    ``time`` counts for each warp how often lanes of it have met, and ``seen`` (threads, 2, lanes) is what a thread
    knows of each lane of its warp. ``news`` are warps whose lanes did something since all of them met, at ``settled``.
    """

    def __init__(self, launched: Array, size: int) -> None:
        super().__init__(size)
        self.launched = launched.reshape(-1, WARP)
        self.time = np.ones(len(self.launched), np.int64)
        self.seen = np.zeros((launched.size, 2, WARP), np.int64)
        self.settled = np.zeros(len(self.launched), np.int64)
        self.news = np.zeros(len(self.launched), bool)

    def _settled(self, who: Array) -> Array:
        return np.asarray(self.settled[who // WARP] + 1 << _TIME)

    def _unseen(self, who: Array, by: Array, time: Array) -> Array:
        known = self.seen[who, time // _COPY, by % WARP]
        return np.asarray((who // WARP == by // WARP) & (known < time % _COPY))

    def _name(self, who: int) -> str:
        return f"lane {who % WARP}"

    def reads(self, place: Array, threads: Array, at: int, *, notes: bool = True) -> Race | None:
        """Note reads of threads, and find one that races; what runs beside threads reads without a note."""
        warps = threads // WARP
        alone = not self.news[warps].any()
        if notes:
            self.news[warps] = True
            return self.note_reads(place, threads, self.time[warps], at, alone=alone)
        written = self.writer[place]
        return None if alone else self._race(self._late(threads, written), written)

    def writes(self, place: Array, threads: Array, at: int, changed: Array, groups: Array | None) -> Race | None:
        """Note writes of threads, or of copies that belong to ``groups`` of theirs, and find one that races."""
        self.news[threads // WARP] = True
        time = self.time[threads // WARP] if groups is None else groups | _COPY
        return self.note_writes(place, threads, time, at, changed)

    def copied(self, threads: Array, groups: Array) -> None:
        """Threads have waited for their copies up to some groups."""
        self.seen[threads, _COPIED, threads % WARP] = groups
        self.news[threads // WARP] = True

    def meet(self, mask: Array, *, all_lanes: bool = False) -> None:
        """Lanes of each warp come to know what they, or all of it, have done until now."""
        news = np.flatnonzero(self.news & mask.reshape(-1, WARP).any(axis=1))
        if not len(news):
            return
        own = mask.reshape(-1, WARP)[news]
        threads = news[:, None] * WARP + np.arange(WARP)
        self.seen[threads, _DONE, np.arange(WARP)] = self.time[news][:, None]
        before = self.seen[threads]
        known = (before if all_lanes else np.where(own[:, :, None, None], before, 0)).max(axis=1)
        self.seen[threads] = np.where(own[:, :, None, None], known[:, None], before)
        whole = ~(self.launched[news] & ~own).any(axis=1)
        self.settled[news[whole]] = self.time[news[whole]]
        self.time[news] += 1
        self.news[news] = ~whole


class Blocks(_Accesses):
    """Accesses of blocks of a grid to global memory.

    ``clock`` counts the fences of each block, ``fenced`` is what is behind them, ``known`` what each knows of others,
    and ``told`` what one knows who reads a place.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.clock: defaultdict[int, int] = defaultdict(lambda: 1)
        self.fenced: dict[int, int] = {}
        self.known: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self.told: defaultdict[int, dict[int, int]] = defaultdict(dict)

    def _unseen(self, who: Array, by: Array, time: Array) -> Array:
        if not self.known:
            return np.ones(len(who), bool)
        pairs, which = np.unique(np.stack([who, by]), axis=1, return_inverse=True)
        known = np.array([self.known.get(one, {}).get(other, 0) for one, other in pairs.T.tolist()])
        return np.asarray(known[which.reshape(-1)] < time)

    def _name(self, who: int) -> str:
        return f"block {who}"

    def _clocks(self, blocks: Array) -> Array:
        every, which = np.unique(blocks, return_inverse=True)
        return np.array([self.clock[block] for block in every.tolist()])[which]

    def reads(self, place: Array, blocks: Array, at: int) -> Race | None:
        """Note reads of blocks, and find one that races."""
        return self.note_reads(place, blocks, self._clocks(blocks), at)

    def writes(self, place: Array, blocks: Array, at: int, changed: Array, lost: Array) -> Race | None:
        """Note writes of blocks, and find one that races, also with one at once whose value stays: it has ``lost``."""
        race = self.note_writes(place, blocks, self._clocks(blocks), at, changed)
        stays = self.writer[place]
        return race or self._race(self._late(blocks, stays) & lost, stays)

    def fence(self, blocks: Array) -> None:
        """What blocks have done is there for whom they give notice from now on."""
        for block in np.unique(blocks).tolist():
            self.fenced[block] = self.clock[block]
            self.clock[block] += 1

    def synchronize(self, index: Array, blocks: Array, *, hears: bool, tells: bool) -> None:
        """Blocks access places strongly: they have what was told there, and tell what is behind their fences."""
        if not ((hears and self.told) or (tells and self.fenced)):
            return
        for at, block in zip(index.tolist(), blocks.tolist(), strict=True):
            if hears and at in self.told:
                _add(self.known[block], self.told[at])
            if tells and block in self.fenced:
                _add(self.told[at], self.known[block] | {block: self.fenced[block]})


def _add(known: dict[int, int], more: dict[int, int]) -> None:
    for block, time in more.items():
        known[block] = max(known.get(block, 0), time)
