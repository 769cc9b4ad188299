"""What happens before what: among threads, what runs beside them, and blocks of a grid (8.8, 8.9).

The time of an access is the number of its step. Each warp knows up to which time each agent is done, and each lane
knows it of the lanes of its warp. They come to know it where they meet, where they wait for what others signal, and
where they acquire what others have released (8.9): a strong write tells what is behind a fence of its scope, or is a
release itself, and who reads it strongly knows that behind a fence of their own, or where the read is an acquire. An
access races with an earlier one that is not known to who executes it, if one of the two writes, and not both are strong
for each other. What goes through the async proxy sees of other writes only those that a fence has carried there
(9.7.13.4).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...db.isa.instructions import WARP, WARPGROUP
from ...db.layout.algebra import Array
from .accesses import (
    BLOCK,
    BULK,
    CLUSTER,
    COMPLETES,
    COPIES,
    DECIDES,
    GRID,
    OWN,
    PLAIN,
    WEAK,
    WGMMA,
    Accesses,
    Manner,
    after,
    may_race,
    numbers,
    parts,
    strength,
)

#: Agents of each warp.
_KINDS = 4

#: Objects of mbarrier in a block whose copies are told apart.
_BARRIERS = 64

#: Columns of reads of global memory at most, and how many bytes they may have in all.
_COLUMNS, _READS = 16, 1 << 22

#: What warps know themselves, and what of it the async proxy sees.
_KNOWN, _CARRIED = range(2)

#: What warps tell of it, as it is behind their fences, and what they were told and may use behind their next one.
_TELLS, _TOLD = range(2)


class Race(NamedTuple):
    """Which of some accesses race, the instruction that the first of them races with, and who executed that.

    ``at_once``: both write at once, and only one of them stays. ``told``: it was told of, and no fence has followed.
    """

    accesses: Array
    at: int
    by: str = ""
    at_once: bool = False
    told: bool = False


class History:
    """What the blocks of a grid leave behind for those that run after them.

    ``steps`` has the instruction of each step, ``clusters`` the cluster of each block, ``told`` what one is told who
    reads a place, and ``tellers`` number the blocks that have told others anything, from 1.
    """

    def __init__(self, clusters: Array, size: int) -> None:
        self.steps = [0]
        self.globe = Accesses(size, max(min(_COLUMNS, _READS // max(size, 1)), 1))
        self.clusters, self.tellers = clusters, np.zeros(len(clusters), np.int32)
        self.told: dict[tuple[object, ...], Array] = {}


class Order:
    """What the warps and lanes of some blocks know.

    ``known`` (2, warps, agents) are the times that a warp, and the async proxy for it, knows of the agents of its block
    and of the warps of blocks that have told. ``notices`` (2, scopes, ...) is what they tell, and were told, in each
    scope, ``seen`` (threads, 2, lanes) what a thread knows of the lanes of its warp and of their copies. Up to
    ``settled`` a warp knows of all that threads of its block did, and ``news`` are warps whose lanes did something
    since all of them met.
    """

    def __init__(self, history: History, blocks: Array, launched: Array, size: int) -> None:
        self.history, self.launched = history, launched.reshape(-1, WARP)
        self.block, warps = blocks[::WARP], len(self.launched)
        self.per_block = warps // len(np.unique(blocks))
        self.near = _KINDS * self.per_block + _BARRIERS
        agents = self.near + (1 + int(history.tellers.max())) * self.per_block
        self.known = np.zeros((2, warps, agents), np.int32)
        self.notices = np.zeros((2, GRID, *self.known.shape), np.int32)
        self.seen = np.zeros((launched.size, 2, WARP), np.int32)
        self.settled = np.zeros(warps, np.int64)
        self.news = np.zeros(warps, bool)
        self.released: dict[tuple[object, ...], Array] = {}
        self.committed: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0])
        self.shared = Accesses(size, self.per_block)

    def begin(self, at: int) -> None:
        """A step begins, of an instruction."""
        self.history.steps.append(at)

    @property
    def now(self) -> int:
        """The time of the present step."""
        return len(self.history.steps) - 1

    def _see(self, threads: Array) -> None:
        """Threads know what they have done themselves."""
        warps = threads // WARP
        self.known[_KNOWN, warps, warps % self.per_block] = self.now
        self.seen[threads, OWN, threads % WARP] = self.now

    def _agent(self, warps: Array, by: int) -> Array:
        """The agent of each warp, or of its warpgroup."""
        own = warps % self.per_block
        return by * self.per_block + (own - own % (WARPGROUP // WARP) if by == WGMMA else own)

    # Accesses.

    def reads(self, memory: Accesses, place: Array, threads: Array, how: Manner = PLAIN) -> Race | None:
        """Note reads (n, bytes) of threads, or of what runs beside them, and find a write that one races with."""
        self._see(threads)
        written = memory.writer[place]
        race = self._race(self._late(memory, written, threads, how), written, threads, how.by)
        if not how.passes:
            warps, last = threads // WARP, memory.reads.shape[1] - 1
            column = (self.block[warps] * self.per_block + warps % self.per_block) % last
            column = np.full_like(column, last) if how.strong else column
            memory.note_reads(place, column, self._numbers(threads, how), self._settled(memory, threads))
            self.news[threads // WARP] |= how.by == OWN
        return race

    def writes(
        self, memory: Accesses, place: Array, threads: Array, changed: Array, lost: Array, how: Manner = PLAIN
    ) -> Race | None:
        """Note writes (n, bytes), and find an access that one races with, also one at once that has ``lost``.

        A byte that a write has not ``changed`` may be read or written at any time. With what ``DECIDES`` nothing races.
        """
        if how.by == DECIDES:
            memory.writer[place] = self._numbers(threads, how)
            return None
        self._see(threads)
        written, noted = memory.writer[place], memory.noted(place, self._settled(memory, threads))
        races = [self._race(self._late(memory, written, threads, how) & changed, written, threads, how.by)]
        by_threads = how._replace(by=OWN)
        for slot, accesses in noted:
            late = self._late(memory, accesses, threads, by_threads)
            # Who knows of the write knows of the reads that it knows of, and of those of what it has changed.
            slot[place] = np.where(late & ~changed, accesses, 0)
            late = late & changed
            if memory is not self.shared and late.any():
                late &= ~self._together([reads for _, reads in noted], accesses, threads)
            races.append(self._race(late, accesses, threads, how.by))
        memory.writer[place] = self._numbers(threads, how)
        self.news[threads // WARP] |= how.by in (OWN, COPIES)
        if lost.any():
            stays = memory.writer[place]
            race = self._race(self._late(memory, stays, threads, by_threads) & lost, stays, threads, how.by)
            races.append(race and race._replace(at_once=not race.by.startswith("block")))
        found = [race for race in races if race]
        every = [race.accesses for race in found]
        return found[0]._replace(accesses=np.unique(np.concatenate(every))) if found else None

    def unawaited(self) -> tuple[Array, Array]:
        """The instructions of bulk copies that may still read shared memory, and the threads that have not waited."""
        least, most = (numbers(kind, 0, np.array(0)) for kind in (BULK, COMPLETES))
        slots = self.shared.reads.reshape(-1, self.shared.reads.shape[-1])
        reads = np.unique(np.concatenate([slot[(slot >= least) & (slot < most)] for slot in slots]))
        block, thread = self._who(reads)
        threads = (self.block[:, None] == block).argmax(axis=0) * WARP + thread
        late = self._unseen(self.known[_KNOWN], reads, threads)
        return np.array(self.history.steps)[parts(reads).time[late]], threads[late]

    def _together(self, reads: list[Array], accesses: Array, threads: Array) -> Array:
        """Whether accesses are at once with one of the ``reads`` that the same thread has made which writes now.

        So compilers load from global memory, for all threads, what one of them alone uses.
        """
        size, own = self.per_block * WARP, parts(self._numbers(threads, PLAIN)).who
        mine = np.max([np.where(each.who == own, each.time, 0) for each in map(parts, reads)], axis=0)
        _, time, who = parts(accesses)
        return np.asarray((time == mine) & (who // size == own // size))

    def _numbers(self, threads: Array, how: Manner) -> Array:
        """Accesses of now as numbers."""
        who = self.block[threads // WARP].astype(np.int64) * self.per_block * WARP + threads % (self.per_block * WARP)
        kind = how.by
        if how.mbarrier is not None:
            kind, who = COMPLETES, self.block[threads // WARP] * _BARRIERS + how.mbarrier
        return numbers(kind, self.now, who, strong=how.strong)[:, None]

    def _late(self, memory: Accesses, accesses: Array, threads: Array, how: Manner) -> Array:
        """Which of some accesses (n, bytes) are not known to threads, or to what runs beside them."""
        seen = self.known[_CARRIED if how.by in (WGMMA, BULK) else _KNOWN]
        shape = accesses.shape
        if (accesses == accesses[:, :1]).all():  # as of what was written together
            accesses = accesses[:, :1]
        late = np.asarray(accesses >= self._settled(memory, threads, how.by)) & may_race(accesses)
        if how.strong:
            apart = self._apart(self._who(accesses)[0], self.block[threads // WARP][:, None])
            late &= np.minimum(strength(accesses), how.strong) < apart
        if late.any():
            own = np.broadcast_to(threads[:, None], late.shape)[late]
            late[late] = self._unseen(seen, accesses[late], own)
        return np.broadcast_to(late, shape)

    def _settled(self, memory: Accesses, threads: Array, by: int = OWN) -> Array:
        """The number below which are the accesses that threads, or what runs beside them, surely know of."""
        settles = memory is self.shared and by in (OWN, COPIES)
        return after(self.settled[threads // WARP] * settles)[:, None]

    def _unseen(self, seen: Array, accesses: Array, threads: Array) -> Array:
        """Whether threads do not know of accesses, by what their warps have seen."""
        warp, (kind, time, _) = threads // WARP, parts(accesses)
        block, thread = self._who(accesses)
        agent = kind * self.per_block + np.where(kind == COMPLETES, thread, thread // WARP)
        abroad = block != self.block[warp]
        if abroad.any():
            far = self.near + self.history.tellers[block] * self.per_block + thread // WARP
            agent = np.where(abroad, far, agent)
        unseen = np.asarray(seen[warp, agent] < time)
        beside = ~abroad & (kind <= COPIES) & self._beside(thread, threads)
        if beside.any():
            by_lane = self.seen[threads[beside], kind[beside], thread[beside] % WARP]
            unseen[beside] |= by_lane < time[beside]
        return unseen

    def _apart(self, block: Any, other: Any) -> Any:
        """The least scope that two blocks have in common."""
        clusters = self.history.clusters
        return BLOCK + (block != other).astype(np.int64) * (1 + (clusters[block] != clusters[other]))

    def _who(self, accesses: Array) -> tuple[Array, Array]:
        """The block of each access, and its thread or mbarrier there."""
        kind, _, who = parts(accesses)
        return divmod(who, np.where(kind == COMPLETES, _BARRIERS, self.per_block * WARP))

    def _race(self, late: Array, accesses: Array, threads: Array, by: int) -> Race | None:
        if not late.any():
            return None
        rows, first = np.flatnonzero(late.any(axis=1)), accesses[late][:1]
        (kind, time, _), (block, thread) = (
            [int(each[0]) for each in found] for found in (parts(first), self._who(first))
        )
        own, name = int(threads[rows[0]]), ""
        if block != self.block[own // WARP]:
            name = f"block {block}"
        elif by == OWN and kind <= COPIES and self._beside(thread, own):
            name = f"lane {thread % WARP}" * (thread % WARP != own % WARP)
        reader, known = threads[rows[:1]], self.known[_KNOWN]
        informed = np.maximum(known, self.notices[_TOLD, :, _KNOWN].max(axis=0))
        told = self._unseen(known, first, reader)[0] and not self._unseen(informed, first, reader)[0]
        return Race(rows, self.history.steps[time], name, told=bool(told))

    def _beside(self, thread: Any, own: Any) -> Any:
        """Whether a thread of a block is of the warp of another one."""
        return thread // WARP == own // WARP % self.per_block

    # What makes order.

    def notice(self, warps: Array, *, with_copies: bool = False, relaxed: bool = False) -> Array:
        """What some warps know, for others; ``with_copies``: also that the copies which they have begun are there.

        ``relaxed``: no more than what is behind their fences.
        """
        self.known[_KNOWN, warps, warps % self.per_block] = self.now
        notice: Array = (self.notices[_TELLS, 0] if relaxed else self.known)[:, warps].max(axis=1)
        if with_copies:
            notice[:, self._agent(warps, COPIES)] = self.now
        return notice

    def learn(self, threads: Array, notice: Array, relaxed: int = WEAK) -> None:
        """Threads come to know what others did before they gave notice of it, and their warps what other warps did.

        Where it was read ``relaxed`` in a scope, they do so behind their next fence of that scope.
        """
        warps, which = np.unique(threads // WARP, return_inverse=True)
        agents = notice.shape[-1]
        notice = np.broadcast_to(notice.reshape(2, -1, agents), (2, len(warps), agents))
        knows = self.notices[_TOLD, relaxed - BLOCK] if relaxed else self.known
        knows[:, warps, :agents] = np.maximum(knows[:, warps, :agents], notice)
        if not relaxed:
            own, copies = (notice[_KNOWN, np.arange(len(warps)), self._agent(warps, by)] for by in (OWN, COPIES))
            self.seen[threads, OWN] = np.maximum(self.seen[threads, OWN], own[which, None])
            seen = self.seen.reshape(-1, WARP, 2, WARP)
            seen[warps, :, COPIES] = np.maximum(seen[warps, :, COPIES], copies[:, None, None])

    def meet(self, mask: Array) -> None:
        """Threads of one block wait for each other: all know what each knows."""
        warps = np.unique(np.flatnonzero(mask) // WARP)
        self.known[:, warps] = self.notice(warps)[:, None]
        self.notices[..., warps, :] = self.notices[..., warps, :].max(axis=-2, keepdims=True)
        if len(warps) == self.per_block:
            self.settled[warps] = self.now
        self.meet_lanes(mask, all_lanes=True)

    def meet_cluster(self, threads: Array, words: Collection[str]) -> None:
        """Threads arrive at the barrier of their cluster, or go on from there: it is like a place of global memory."""
        self.synchronize("global", np.full(len(threads), -1), threads, CLUSTER, words)

    def meet_lanes(self, mask: Array, *, all_lanes: bool = False) -> None:
        """Lanes of each warp come to know what they, or all of it, have done until now."""
        news = np.flatnonzero(self.news & mask.reshape(-1, WARP).any(axis=1))
        if not len(news):
            return
        own = mask.reshape(-1, WARP)[news]
        threads = news[:, None] * WARP + np.arange(WARP)
        self.seen[threads, OWN, np.arange(WARP)] = self.now
        before = self.seen[threads]
        known = (before if all_lanes else np.where(own[:, :, None, None], before, 0)).max(axis=1)
        self.seen[threads] = np.where(own[:, :, None, None], known[:, None], before)
        self.news[news] = (self.launched[news] & ~own).any(axis=1)

    def fence_proxy(self, warps: Array) -> None:
        """Warps carry what they know of to the async proxy."""
        self.notice(warps)
        self.known[_CARRIED, warps] = self.known[_KNOWN, warps]

    def fence(self, threads: Array, scope: int, *, acquires: bool = True, releases: bool = True) -> None:
        """Threads know from now on what they were told in a scope, and tell there what their warps know."""
        warps = np.unique(threads // WARP)
        if acquires:
            self.learn(threads, self.notices[_TOLD, :scope][..., warps, :].max(axis=0))
        if releases:
            self.notice(warps)
            self.notices[_TELLS][:scope, :, warps] = self.known[:, warps]

    def synchronize(self, memory: str, index: Array, threads: Array, scope: int, words: Collection[str]) -> None:
        """Threads access places strongly in a scope, as the words of an instruction say.

        They are told what was told there, and tell others. Who releases tells all that it knows, also by what it writes
        there later. Who reads what an atomic writes is also told what was told before; a store puts an end to that.
        """
        abroad = memory == "global" and len(self.history.clusters) > 1
        groups = defaultdict[tuple[int, int], list[int]](list)
        for place, thread in zip(index.tolist(), threads.tolist(), strict=True):
            groups[place, thread // WARP].append(thread)
        for (place, warp), those in groups.items():
            block = int(self.block[warp])
            of = (block, int(self.history.clusters[block]), 0)[: scope if abroad else BLOCK]
            for within, each in enumerate(of, BLOCK):
                key = memory, place, within, each
                if len(those) == 1:
                    self._hear(key, those, words)
                self._tell(key, warp, words)
                if len(those) > 1:  # they take turns, and are told by each other
                    self._hear(key, those, words)

    def _hear(self, key: tuple[str, int, int, int], threads: Sequence[int], words: Collection[str]) -> None:
        """Threads of a warp are told what was told at a place."""
        if key in self.history.told and not {"st", "red"} & {*words}:
            told = self._told(threads[0] // WARP, self.history.told[key])
            self.learn(np.array(threads), told, WEAK if {"acquire", "acq_rel"} & {*words} else key[2])

    def _tell(self, key: tuple[str, int, int, int], warp: int, words: Collection[str]) -> None:
        """A warp tells at a place what is behind its fences, or what it knows where it releases or has released."""
        told, within = self.history.told, key[2]
        if "st" in words:
            told.pop(key, None)
        if {"release", "acq_rel"} & {*words}:
            self.released[*key, warp] = self._notice(warp, within, releases=True)
        if "ld" in words:
            return
        if (released := self.released.get((*key, warp))) is not None:
            told[key] = latest(told.get(key), released)
        if self.notices[_TELLS, within - BLOCK, :, warp].any():
            told[key] = latest(told.get(key), self._notice(warp, within))

    def _told(self, warp: int, notice: Array) -> Array:
        """What a notice tells a warp, also of warps of its own block."""
        notice, own = notice.copy(), notice[:, self._abroad(int(self.block[warp]))]
        notice[:, : own.shape[1]] = np.maximum(notice[:, : own.shape[1]], own)
        return notice

    def _notice(self, warp: int, scope: int, *, releases: bool = False) -> Array:
        """What a warp tells warps of a scope: what is behind its fences, or all that it knows where it releases."""
        block, tellers, abroad = int(self.block[warp]), self.history.tellers, scope > BLOCK
        if abroad and not tellers[block]:
            tellers[block] = tellers.max() + 1
            more = [(0, 0), (0, 0), (0, self.per_block)]
            self.known, self.notices = np.pad(self.known, more), np.pad(self.notices, [(0, 0), (0, 0), *more])
        notice: Array = (self.known if releases else self.notices[_TELLS, scope - BLOCK])[:, warp].copy()
        if abroad:
            own = self._abroad(block)
            notice[:, own] = np.maximum(notice[:, own], notice[:, : self.per_block])
            notice[:, : self.near] = 0
        return notice

    def _abroad(self, block: int) -> slice:
        """The agents that stand for warps of a block in what others know."""
        first = self.near + int(self.history.tellers[block]) * self.per_block
        return slice(first, first + self.per_block)

    # What runs beside warps.

    def mbarrier(self, index: int, count: int, number: int) -> Mbarrier:
        """An object of mbarrier at an index of shared memory, the ``number``-th of its block."""
        none = np.zeros((2, self.near), np.int32)
        return Mbarrier(index, count, count, number % _BARRIERS, none, none)

    def complete(self, mbarrier: Mbarrier) -> None:
        """What has completed on a mbarrier until now is there for who waits for it."""
        mbarrier.known = mbarrier.known.copy()  # that of a past phase may be the same
        mbarrier.known[:, _KINDS * self.per_block + mbarrier.number] = self.now

    def commit(self, warps: Array, by: int = COPIES) -> None:
        """What warps have begun beside them is a group."""
        for warp in warps.tolist():
            self.committed[by, warp].append(self.now)

    def groups(self, warps: Array, by: int) -> Array:
        """How many groups warps have committed."""
        return np.array([len(self.committed[by, warp]) - 1 for warp in warps.tolist()])

    def arrived(self, threads: Array, pending: int, by: int = COPIES) -> None:
        """Threads have waited until no more than some of the groups of their warps are on their way."""
        warps, which = np.unique(threads // WARP, return_inverse=True)
        over = np.maximum(self.groups(warps, by) - pending, 0)
        times = np.array([self.committed[by, warp][at] for warp, at in zip(warps.tolist(), over.tolist(), strict=True)])
        agent, knows = self._agent(warps, by), slice(_KNOWN, _CARRIED if by == COPIES else None)
        self.known[knows, warps, agent] = np.maximum(self.known[knows, warps, agent], times)
        if by == COPIES:
            self.seen[threads, COPIES, threads % WARP] = times[which]
            self.news[warps] = True


def latest(one: Array | None, other: Array) -> Array:
    """The later of the times that two know of agents, of which either may know more."""
    if one is None:
        return other.copy()
    agents = max(one.shape[-1], other.shape[-1])
    one, other = (np.pad(each, [(0, 0), (0, agents - each.shape[-1])]) for each in (one, other))
    return np.asarray(np.maximum(one, other))


@dataclass
class Mbarrier:
    """An object of mbarrier (9.7.13.15): arrivals of each phase, those that it lacks, and bytes that are due.

    ``number`` is its own in its block, ``known`` what those who arrived knew, as in ``Order``, and ``done`` that of
    past phases.
    """

    index: int
    count: int
    pending: int
    number: int
    known: Array
    done: Array
    due: int = 0
    phase: int = 0
