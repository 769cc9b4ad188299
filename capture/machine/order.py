"""What happens before what in shared memory: vector clocks of warps, and of what runs beside them.

Each warp counts what it has done, and knows of each other agent how far that was when both last met. An access races
with an earlier one of another agent that its warp does not know of, if one of the two writes. What goes through the
async proxy sees of other writes only those that a fence has carried there (8.5, 9.7.13.4). For lanes of one warp see
``accesses``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...db.isa.instructions import WARP, WARPGROUP
from ...db.layout.algebra import Array
from .parse import SourceLine
from .values import Register


class Race(NamedTuple):
    """Which of some accesses race, the instruction that the first of them races with, and who executed that."""

    accesses: Array
    at: int
    by: str = ""


#: The agents of a block: its warps, then for each warp its copies by cp.async, the reads of its warpgroup's wgmma, and
#: the reads of its bulk copies. What bulk copies and st.async write belongs to the mbarrier that they complete on,
#: numbered after.
OWN, COPIES, WGMMA, BULK, STORES = range(5)
_KINDS = 4

#: Objects of mbarrier in a block whose copies are told apart.
_BARRIERS = 64


class Order:
    """The clocks of some blocks, and for each byte of their shared memory who wrote and who read it last.

    ``known`` (warps, agents) is what a warp knows of each agent of its block, and ``carried`` what of it the async
    proxy sees. ``fenced`` are both behind its last fence, and ``told`` what one knows who reads a place, by block.
    """

    def __init__(self, warps: int, per_block: int, size: int) -> None:
        self.per_block = per_block
        self.clock = np.ones((warps, _KINDS), np.int32)
        self.known = np.zeros((warps, _KINDS * per_block + _BARRIERS), np.int32)
        self.carried = np.zeros_like(self.known)
        self.fenced = np.zeros((2, *self.known.shape), np.int32)
        self.told: dict[tuple[str, int, int], Array] = {}
        self.writer = np.zeros(size, np.int16)
        self.written = np.zeros(size, np.int32)
        self.written_at = np.zeros(size, np.int32)
        self.read = np.zeros((size, per_block), np.int32)
        self.read_at = np.zeros(size, np.int32)
        self._see(np.arange(warps))

    def _see(self, warps: Array) -> None:
        """Warps know what they have done themselves."""
        self.known[warps, warps % self.per_block] = self.clock[warps, OWN]

    def _agent(self, warps: Array, by: int) -> Array:
        """The agent of each warp, or of its warpgroup."""
        own = warps % self.per_block
        return by * self.per_block + (own - own % (WARPGROUP // WARP) if by == WGMMA else own)

    def barrier(self, number: int) -> int:
        """The agent of the copies that complete on a mbarrier of a block."""
        return _KINDS * self.per_block + number % _BARRIERS

    def reads(
        self, index: Array, size: int, threads: Array, at: int, by: int = OWN, *, notes: bool = True
    ) -> Race | None:
        """Note reads at an instruction; the threads that race with a write, and the instruction of that.

        What reads strongly leaves no note, as it may be written strongly at any time.
        """
        place = index[:, None] + np.arange(size)
        warp = (threads // WARP)[:, None]
        agent = self._agent(warp, by)
        if by != OWN and self.read.shape[1] == self.per_block:
            self.read = np.pad(self.read, ((0, 0), (0, (_KINDS - 1) * self.per_block)))
        race = self._race(self._unseen(place, warp, self.known if by == OWN else self.carried), self.written_at, place)
        if not notes:
            return race
        self.read[place, agent] = self.clock[warp, by]
        self.read_at[place] = at
        return race

    def _unseen(self, place: Array, warp: Array, seen: Array) -> Array:
        """Whether warps do not know of the write of a byte."""
        return np.asarray(self.written[place] > seen[warp, self.writer[place]])

    @staticmethod
    def _race(late: Array, instructions: Array, place: Array) -> Race | None:
        """The race of the accesses (n, bytes) that come too late after those of some instructions, by byte."""
        if not late.any():
            return None
        return Race(np.flatnonzero(late.any(axis=1)), int(instructions[place[late][0]]))

    def writes(
        self,
        index: Array,
        changed: Array,
        threads: Array,
        at: int,
        by: int = OWN,
        *,
        agent: int = 0,
        clock: int = 0,
    ) -> Race | None:
        """Note writes, of the warps or of their copies; the threads that race, and with which instruction.

        A byte that a write has not ``changed`` (n, bytes) may be read or written at any time. What a bulk copy or
        st.async writes is that of the ``agent`` of a mbarrier, at its ``clock``.
        """
        place = index[:, None] + np.arange(changed.shape[1])
        warp = (threads // WARP)[:, None]
        seen = self.carried if by == BULK else self.known
        race = self._race(self._unseen(place, warp, seen) & changed, self.written_at, place)
        if race is None:
            late = (self.read[place] > self.known[warp, : self.read.shape[1]]).any(axis=2)
            race = self._race(late & changed, self.read_at, place)
        self.writer[place] = agent if by in (BULK, STORES) else self._agent(warp, by)
        self.written[place] = clock if by in (BULK, STORES) else self.clock[warp, by]
        self.written_at[place] = at
        return race

    def learn(self, warps: Array, known: Array, carried: Array) -> None:
        """Warps come to know what others did before they gave notice of it."""
        self.known[warps] = np.maximum(self.known[warps], known)
        self.carried[warps] = np.maximum(self.carried[warps], carried)
        self.carried[warps, WGMMA * self.per_block :] = self.known[warps, WGMMA * self.per_block :]

    def tick(self, warps: Array) -> None:
        """What warps do from now on is later than what others know of them."""
        self.clock[warps, OWN] += 1
        self._see(warps)

    def with_copies(self, warps: Array, known: Array) -> None:
        """Add to what is known that the copies which warps have begun are there."""
        known[self._agent(warps, COPIES)] = self.clock[warps, COPIES]

    def meet(self, warps: Array) -> None:
        """Warps of one block wait for each other: all know what each knows."""
        self.learn(warps, self.known[warps].max(axis=0), self.carried[warps].max(axis=0))
        self.tick(warps)

    def fence(self, warps: Array) -> None:
        """Warps carry what they know of to the async proxy."""
        self.carried[warps] = self.known[warps]
        self.tick(warps)

    def publish(self, warps: Array) -> None:
        """What warps know is there for whom they give notice from now on."""
        self.fenced[:, warps] = self.known[warps], self.carried[warps]
        self.tick(warps)

    def synchronize(self, memory: str, index: Array, warps: Array, *, hears: bool, tells: bool) -> None:
        """Warps access places strongly: they know what was told there, and tell what is behind their fences."""
        if not self.fenced.any():
            return
        for place, warp in dict.fromkeys(zip(index.tolist(), warps.tolist(), strict=True)):
            key = memory, place, warp // self.per_block
            if hears and key in self.told:
                self.learn(np.array([warp]), *self.told[key])
            if tells:
                self.told[key] = np.maximum(self.told.get(key, 0), self.fenced[:, warp])

    def commit(self, warps: Array, by: int = COPIES) -> None:
        """What warps have begun beside them is a group."""
        self.clock[warps, by] += 1

    def groups(self, warps: Array, by: int) -> Array:
        """How many groups warps have committed."""
        return np.asarray(self.clock[warps, by] - 1)

    def arrived(self, warps: Array, pending: Array | int, by: int = COPIES) -> None:
        """Warps have waited until no more than some of their groups are on their way."""
        agent = self._agent(warps, by)
        self.known[warps, agent] = np.maximum(self.known[warps, agent], self.groups(warps, by) - pending)


@dataclass
class Mbarrier:
    """An object of mbarrier (9.7.13.15): arrivals of each phase, those that it lacks, and bytes that are due.

    ``known`` and ``carried`` are what those who arrived knew, as in ``Order``, and ``done`` that of past phases.
    """

    index: int
    count: int
    pending: int
    agent: int
    known: Array
    carried: Array
    done: Array
    done_carried: Array
    due: int = 0
    phase: int = 0
    clock: int = 0


@dataclass
class Flights:
    """Registers that what runs beside warps still reads or writes, until they wait (9.7.17.4, 9.7.18.8).

    Of ``waits`` are the instructions that may name them before. ``watched`` are those whose changes since the last
    fence count, and ``fenced`` the warps that have ever fenced.
    """

    warps: int
    waits: str
    registers: dict[Register, Array] = field(default_factory=dict)
    places: dict[Register, SourceLine] = field(default_factory=dict)
    watched: list[Register] = field(default_factory=list)
    fenced: set[int] = field(default_factory=set)

    def watch(self, registers: list[Register]) -> None:
        """Note changes of registers from now on."""
        for register in registers:
            if register.changed is None:
                register.changed = np.zeros(len(register.bits), bool)
                self.watched.append(register)

    def fence(self, warps: Array) -> None:
        """What warps have written to registers is there for wgmma."""
        self.fenced |= {*warps.tolist()}
        for register in self.watched:
            self.settle(register, warps)

    def settle(self, register: Register, warps: Array) -> None:
        """Forget changes of a register of warps."""
        if register.changed is not None:
            register.changed.reshape(-1, WARP)[warps] = False

    def unfenced(self, registers: list[Register], warps: Array) -> Array:
        """Those of some warps that have changed registers, or never fenced, since they last did."""
        late = np.array([warp not in self.fenced for warp in warps.tolist()])
        for register in registers:
            if register.changed is not None:
                late |= register.changed.reshape(-1, WARP)[warps].any(axis=1)
        return np.asarray(warps[late])

    def start(self, registers: list[Register], warps: Array, group: Array, place: SourceLine) -> None:
        """wgmma uses registers of warps, until it has waited for a group of each."""
        for register in registers:
            of = self.registers.setdefault(register, np.zeros(self.warps, np.int64))
            of[warps] = group
            self.places[register] = place

    def land(self, warps: Array, group: Array) -> None:
        """Warps have waited for a group and those before it."""
        for register, of in [*self.registers.items()]:
            of[warps] = np.where(of[warps] <= group, 0, of[warps])
            if not of.any():
                del self.registers[register], self.places[register]

    def touched(self, registers: list[Register], warps: Array) -> Register | None:
        """One of some registers that is still in flight in some warps."""
        return next((each for each in registers if each in self.registers and self.registers[each][warps].any()), None)

    def copy(self, source: Register, target: Register) -> None:
        """A register that holds a copy of another one is in flight like it: both are one when they are allocated."""
        self.registers[target], self.places[target] = self.registers[source].copy(), self.places[source]
