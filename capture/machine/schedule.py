"""How threads run: where they are, what they wait for, and where they meet.

All threads of some blocks run at once, each with a program counter of its own. Those that are furthest behind go first,
so that threads that went apart meet again where their ways join; but who has gone round a loop more often than others
lets them go first, as it may wait for what they do.
"""

from collections.abc import Callable, Sequence
from itertools import starmap, zip_longest
from typing import Any

import numpy as np

from ...db.errors import LanemapError
from ...db.isa.instructions import WARP
from ...db.layout.algebra import Array
from ...db.text import counted, spans
from .flights import Flights
from .launch import MEANINGLESS, Job, Step, Unknown
from .order import Mbarrier, latest
from .ptx import Statement
from .threads import Threads
from .values import ActiveThreads, Register

#: What a thread does. One that waits is at a barrier of its block, one that gathers at that of its cluster, one that
#: polls waits for a phase of an object of mbarrier, and one that meets for lanes of its warp.
RUNS, WAITS, GATHERS, ENDED, POLLS, MEETS = range(6)

#: What a thread has done at the barrier of its cluster: it has arrived, and then so have all others.
ABSENT, ARRIVED, COMPLETE = range(3)

#: How often threads go round loops before others go first that have done so less.
_ROUNDS = 16

#: Steps after which a first state is remembered.
_REMEMBERS = 64

#: What a clock counts in a step: as much as a slow load takes, so that a loop that waits for a time soon ends.
TICKS = 1000

#: The longest leap of time, in what a clock counts.
_LONGEST = 1 << 61

#: Steps after which it is said again how many blocks have ended.
_SAID = 1000

#: What ends with a mask of the lanes that take part, and what has rules of its own.
_MEMBERS = ("shfl", "vote", "match", "redux", "elect", "bar.warp")
_BARRIERS = ("bar", "barrier")


def aligned(instruction: Statement) -> bool:
    """Whether a barrier takes whole warps, as bar does and barrier where it says so (9.7.13.1)."""
    return instruction.parts[0] == "bar" or "aligned" in instruction.parts


class Machine(Threads):
    """Some blocks of a launch, which run together."""

    def __init__(self, job: Job, blocks: Sequence[int]) -> None:
        super().__init__(job, blocks)
        self.bind = job.bind
        self.state = np.where(self.launched, RUNS, ENDED)
        self.pc = np.zeros(self.threads, np.int64)
        self.rounds = np.zeros(self.threads, np.int64)
        self.barrier = np.zeros((self.threads, 2), np.int64)
        self.arrived: dict[tuple[int, int], tuple[int, Array]] = {}  # how many, and what they knew
        self.of_cluster = np.full(self.threads, ABSENT)
        self.mbarriers: dict[int, Mbarrier] = {}
        self.polled = np.full(self.threads, -1)
        self.reductions: dict[tuple[int, int], Callable[[Array], None]] = {}
        self.alone, self.apart = np.zeros((2, self.threads), bool)
        self.stack: list[Array] = []
        self.returned: dict[tuple[int, int], Callable[[Array], None]] = {}
        self.depth = np.zeros(self.threads, np.int64)
        self.leaders = {
            self.entry_of[name] + index
            for name, function in self.functions.items()
            for index in function.labels.values()
        }
        self.steps: list[tuple[Step, Register | None, bool] | None] = [None] * len(self.program)
        # A state that may come again: how often each memory had changed, the rounds of threads, and what all held; None
        # where it cannot come again, as registers hold what a clock said that went on. And the step of the next.
        self.changes, self.since = list[int](), self.rounds
        self.held: list[Any] | None = None
        self.remembers = _REMEMBERS
        self.lap = _ROUNDS  # rounds after which it is looked for
        self.stands: int | None = None  # what clocks say while they stand still
        self.timed = False  # whether a clock was read since the past state
        self.leap = TICKS  # the next leap of time

    def step(self, at: int) -> tuple[Step, Register | None, bool]:
        """What the instruction at a place does, its guard, and whether that is negated; made once.

        Raises Unknown where it has operands that it cannot take. What it does with those that it can raises no more.
        """
        if (made := self.steps[at]) is None:
            instruction, function = self.program[at]
            guard = (None, False) if instruction.guard is None else self.predicate(instruction.guard, function)
            try:
                made = self.bind(self, instruction, function), *guard
            except MEANINGLESS as error:
                raise Unknown(f"{instruction.opcode} is not known with these operands") from error
            self.steps[at] = made
        return made

    def unknown(self) -> dict[str, str]:
        """What the machine does not know of the program, with the lines where it stands."""
        found: dict[str, list[int]] = {}
        for at, (instruction, _) in enumerate(self.program):
            try:
                self.step(at)
            except LanemapError as error:
                found.setdefault(str(error), []).append(instruction.place.line)
        return {words: f"line{'s' * (len(lines) > 1)} {spans(lines)}" for words, lines in found.items()}

    def run(self, limit: int, progress: Callable[[int], object]) -> bool:
        """Run until every thread has ended, and say whether some wait for ever. Stops after ``limit`` steps.

        ``progress`` is told now and then how many blocks have ended.
        """
        said = self.log.steps
        with np.errstate(all="ignore"):
            while self.log.steps < limit and not self.log.stopped:
                if self.log.steps - said >= _SAID:
                    said = self.log.steps
                    progress(int((self.state == ENDED).reshape(-1, self.per_block).all(axis=1).sum()))
                runs = self.state == RUNS
                if not (runs | (self.state == POLLS) | (self.state == MEETS)).any():
                    return bool((self.state != ENDED).any())
                if (repeats := self._repeats(runs)) or not runs.any():
                    # Who meets others that wait, too, goes on: they have come to another place.
                    meets = (self.state == MEETS) & ~runs.reshape(-1, WARP).any(axis=1).repeat(WARP)
                    if meets.any():
                        self.state[meets], self.alone[meets] = RUNS, True
                        continue
                    if repeats and not self._go_on():
                        return True
                    self.polled[self.state == POLLS] = -1  # they may give up
                    self.state[self.state == POLLS] = RUNS
                    continue
                order = self.pc + (self.rounds // _ROUNDS << 32)
                first = order[runs].min()
                mask = runs & (order == first)
                self._straight(int(first & 0xFFFFFFFF), ActiveThreads.of(mask))
        if not self.log.stopped:
            self.log.stopped = f"it was still running after {limit} instructions"
        return False

    def _repeats(self, runs: Array) -> bool:
        """Whether threads are where they were, and so are registers and memory, so that they do the same for ever.

        That is asked after each lap from a past state on: memory has not changed, and each thread that runs has gone
        round a loop. A lap is of ``_ROUNDS`` rounds, as what repeats after some also does after so many times as many;
        and where a state has come again, of as many as that took. Clocks stand still meanwhile, where memory does.
        """
        memories = [*self.spaces, *([self.tensor.memory] if self.tensor else [])]
        changes = [memory.changes for memory in memories]
        unchanged, rounds = changes == self.changes, (self.rounds - self.since)[runs]
        lap = unchanged and (not len(rounds) or (rounds.min() and not rounds[0] % self.lap))
        if lap and self.held and all(starmap(np.array_equal, zip_longest(self._now(), self.held))):
            self.lap = int(rounds[0]) if len(rounds) else self.lap
            self._remember(changes, self.held)
            return True
        if lap and (not self.held or self.repeated is not None):
            if self.held:  # who was let go on did something else
                self.repeated = None
            self._remember(changes, self._now())
            self.timed = False
        elif not len(rounds) or self.log.steps >= self.remembers:  # it has not come again: another one may
            self._remember(changes, None if self.timed else self._now())
            self.stands = self._time() if unchanged else None
            self.timed, self.leap, self.repeated, self.lap = False, TICKS, None, _ROUNDS
        return False

    def _remember(self, changes: list[int], held: list[Any] | None) -> None:
        """Take the present state for the past one, until there are a quarter more steps."""
        self.changes, self.since, self.held = changes, self.rounds.copy(), held
        self.remembers = self.log.steps * 5 // 4 + _REMEMBERS

    def _time(self) -> int:
        """What clocks say that go on."""
        return self.log.steps * TICKS + self.log.leapt

    def ticks(self) -> int:
        """What clocks say, which is asked."""
        self.timed = True
        return self._time() if self.stands is None else self.stands

    def _go_on(self) -> bool:
        """Let threads go on that repeat themselves; False where they have been seen to do so for ever.

        Time leaps, each time further, where that hangs on a clock. Then it is recorded what they execute, until they
        repeat themselves again: also what is behind the last leap, where who counts time between two looks looks again.
        """
        if self.repeated is not None:
            return False
        if self.timed:
            self.log.leapt += self.leap
            self.stands, self.timed, self.held = self._time(), False, None
            if (longer := 8 * self.leap + 1) <= _LONGEST:
                self.leap = longer
                return True
        self.repeated = {}
        self.accessed.clear()
        return True

    def _now(self) -> list[Any]:
        """Where threads are, and what they and what they wait for hold."""
        phases = [(each.pending, each.count, each.due, each.phase) for each in self.mbarriers.values()]
        arrived = [count for count, _ in self.arrived.values()]
        where = [self.pc, self.state, self.polled, self.depth, *self.stack, self.alone, self.apart, self.of_cluster]
        held = [*self.registers.values(), self.carry]
        return [phases, arrived, *map(np.copy, where), *(each.bits for each in held)]

    def _straight(self, at: int, group: ActiveThreads) -> None:
        """Run a group up to a branch, a wait, or a place where ways join."""
        self.pc[group.mask] = -1
        self.rounds[group.mask] = self.rounds[group.mask].max()
        while True:
            self.at = at
            try:
                if not self._execute(at, group):
                    self.pc[group.mask] = at
                    return
            except LanemapError as error:
                reached = f"(reached by {counted(len(group.warps), 'warp')})"
                self.log.stopped = f"{self.program[at][0].place}: {error} {reached}"
                return
            at += 1
            moved = self.pc[group.mask] != -1
            if moved.any() or at in self.leaders or self.log.stopped:
                stayed = group.mask & (self.pc == -1)
                self.pc[stayed] = at
                self.rounds += group.mask & (self.pc < at)
                return

    def _execute(self, at: int, group: ActiveThreads) -> bool:
        """Execute the instruction at a place; False where threads must wait before it for others of their warps."""
        step, guard, negated = self.step(at)
        chosen = group
        if guard is not None:
            if guard.origin is not None:
                self.expect_set(guard, group.threads, "a predicate")
            chosen = ActiveThreads.of(group.mask & (guard.bits ^ negated))
        if not chosen.full and self._parted(chosen):
            return False
        self.log.steps += 1
        self.order.begin(at)
        if chosen.full or chosen.mask.any():
            for flights in (self.flights, self.loads):
                if flights.registers:
                    self._in_flight(flights, chosen)
            if self.repeated is not None:
                self.repeated[at] = self.repeated.get(at, False) | chosen.mask
            meet = self.together(chosen.mask) if "sync" in self.program[at][0].parts else []
            for mask in meet:
                self.order.meet_lanes(mask)
            step(chosen)
            for mask in meet:
                self.order.meet_lanes(mask)
        return True

    def members(self) -> Array | None:
        """The mask of lanes that each thread gives the present instruction; None where that takes none."""
        instruction, function = self.program[self.at]
        if "sync" not in instruction.parts or not instruction.opcode.startswith(_MEMBERS):
            return None
        return self.register(instruction.operands[-1], "b32", function).bits

    def together(self, mask: Array) -> list[Array]:
        """Threads that execute the present instruction, apart where they give it different masks of lanes."""
        members = self.members()
        return [mask] if members is None else [mask & (members == each) for each in np.unique(members[mask])]

    def _parted(self, group: ActiveThreads) -> bool:
        """Whether lanes must wait for others of their warp before an instruction with ``.sync``, and do so now."""
        instruction, _ = self.program[self.at]
        barrier = instruction.parts[0] in _BARRIERS and "warp" not in instruction.parts
        if ("sync" not in instruction.parts and not barrier) or (barrier and not aligned(instruction)):
            return False
        if (group.mask & self.alone).any():  # the others never come
            self.alone[group.mask] = False
            return False
        needed = self.state != ENDED
        if (members := self.members()) is not None:
            named = np.bitwise_or.reduce(np.where(group.mask, members, 0).reshape(-1, WARP), axis=1).repeat(WARP)
            needed &= (named >> self.lane & 1).astype(bool)
        here = group.mask | (self.state == MEETS) & (self.pc == self.at)
        mask = group.mask.reshape(-1, WARP)
        parted = np.asarray((needed & ~group.mask).reshape(-1, WARP).any(axis=1) & mask.any(axis=1))
        if not parted.any():
            return False
        self.state[group.mask & np.repeat(parted, WARP)] = MEETS
        whole = np.repeat(parted & ~(needed & ~here).reshape(-1, WARP).any(axis=1), WARP) & here
        self.state[whole] = RUNS
        self.rounds[whole] = self.rounds[whole].max(initial=0)
        return True

    def _in_flight(self, flights: Flights, group: ActiveThreads) -> None:
        """Note an instruction that touches a register which another still uses. Copies of it are one with it."""
        instruction, function = self.program[self.at]
        if instruction.opcode.startswith(flights.waits):
            return
        registers = self.named(instruction.operands, function)
        touched = flights.touched(registers, group.warps)
        if touched is None:
            return
        if instruction.parts[0] == "mov" and len(registers) == 2 and touched is registers[1]:
            flights.copy(touched, registers[0])
            return
        name = flights.waits.partition(".wait")[0]
        words = f"{instruction.parts[0]} touches a register that {name} of {flights.places[touched]} still uses"
        self.fault("race", group.threads, words)

    def enter(self, group: ActiveThreads, start: int, back: int, returned: Callable[[Array], None]) -> None:
        """Threads of a group call a function, and come back to ``back``; ``returned`` is told which do."""
        for depth in np.unique(self.depth[group.mask]):
            while len(self.stack) <= depth:
                self.stack.append(np.zeros(self.threads, np.int64))
            at = group.mask & (self.depth == depth)
            self.stack[depth][at] = back
        self.returned[start, back] = returned
        self.depth[group.mask] += 1
        self.pc[group.mask] = start

    def within(self, mask: Array, start: int) -> bool:
        """Whether one of some threads has not yet returned from the function that begins at a place."""
        backs = [back[mask & (self.depth > depth)] for depth, back in enumerate(self.stack)]
        called = {
            self.program[back - 1][1].name for back in np.unique(np.concatenate([[self.at + 1], *backs])).tolist()
        }
        return self.program[start][1].name in called

    def end(self, group: ActiveThreads) -> None:
        """Threads return from a function, or end."""
        returning = group.mask & (self.depth > 0)
        if returning.any():
            for depth in np.unique(self.depth[returning]):
                at = returning & (self.depth == depth)
                self.pc[at] = self.stack[depth - 1][at]
            start = self.entry_of[self.program[self.at][1].name]
            for back in np.unique(self.pc[returning]):
                self.returned[start, int(back)](np.flatnonzero(returning & (self.pc == back)))
            self.depth[returning] -= 1
        self.stop(group.mask & ~returning)

    def stop(self, mask: Array) -> None:
        """Threads end, which may release others from a barrier."""
        self.state[mask] = ENDED
        self.pc[mask] = 0
        waits = (self.state == WAITS) & np.isin(self.owner, self.owner[mask])
        for owner, number in sorted({*zip(self.owner[waits].tolist(), self.barrier[waits, 0].tolist(), strict=True)}):
            self._release(owner, number)
        self.gather()

    def wait(
        self,
        group: ActiveThreads,
        number: Array,
        count: Array | None,
        *,
        arrive: bool = False,
        then: Callable[[Array], None] | None = None,
    ) -> None:
        """Threads come to a barrier of their block, of all its threads or some (9.7.13.1).

        ``then`` is told which threads go on together.
        """
        if not arrive:
            self.state[group.mask] = WAITS
            self.pc[group.mask] = self.at + 1
        self.barrier[group.mask, 0] = number[group.mask]
        self.barrier[group.mask, 1] = 0 if count is None else count[group.mask]
        for owner in np.unique(self.owner[group.mask]).tolist():
            own = group.mask & (self.owner == owner)
            for each in np.unique(number[own]).tolist():
                if then is not None:
                    self.reductions[owner, each] = then
                if arrive:
                    here = np.flatnonzero(own & (number == each))
                    before, known = self.arrived.get((owner, each), (0, None))
                    known = latest(known, self.order.notice(np.unique(here // WARP)))
                    self.arrived[owner, each] = before + len(here), known
                self._release(owner, each)

    def gather(self) -> None:
        """Complete the barrier of each cluster at which all threads have arrived that have not ended (9.7.13.4)."""
        lacking = (self.state != ENDED) & (self.of_cluster != ARRIVED)
        size = self.cluster * self.per_block
        whole = ~np.repeat(lacking.reshape(-1, size).any(axis=1), size)
        self.of_cluster[whole & (self.of_cluster == ARRIVED)] = COMPLETE
        self.leave(whole & (self.state == GATHERS))

    def leave(self, mask: Array) -> None:
        """Threads go on from the barrier of their cluster."""
        self.state[mask], self.of_cluster[mask] = RUNS, ABSENT
        self.rounds[mask] = self.rounds[mask].max(initial=0)
        self.order.meet_cluster(np.flatnonzero(mask), {"ld", "acquire"})

    def gathered(self, owner: int, number: int) -> tuple[Array, int, int]:
        """Who waits at a barrier of a block, how many have come to it, and how many it takes."""
        first = owner * self.per_block
        of = slice(first, first + self.per_block)
        waits = first + np.flatnonzero((self.state[of] == WAITS) & (self.barrier[of, 0] == number))
        wanted = int(self.barrier[waits, 1].max(initial=0)) or int(np.count_nonzero(self.state[of] != ENDED))
        return waits, len(waits) + self.arrived.get((owner, number), (0,))[0], wanted

    def _release(self, owner: int, number: int) -> None:
        """Let threads go on that wait at a barrier of a block, if all that it takes are there."""
        waits, there, wanted = self.gathered(owner, number)
        if there < wanted or not len(waits):
            return
        self.state[waits] = RUNS
        self.rounds[waits] = self.rounds[waits].max()
        here = np.zeros(self.threads, bool)
        here[waits] = True
        if (arrived := self.arrived.pop((owner, number), None)) is not None:
            self.order.learn(waits, arrived[1])
        self.order.meet(here)
        if then := self.reductions.pop((owner, number), None):
            then(here)
