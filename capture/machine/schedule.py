"""Threads: which of them run, where they are, what they wait for, and what goes wrong on their way.

All threads of some blocks run at once, each with a program counter of its own. Those that are furthest behind go first,
so that threads that went apart meet again where their ways join.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...db.errors import LanemapError
from ...db.isa.instructions import WARP, WORD
from ...db.isa.shared import BANKS
from ...db.layout.algebra import Array
from ...db.layout.banks import degrees
from ...db.text import spans
from ..values import LINE
from .accesses import Blocks, Lanes
from .memory import LOCAL, SHARED, MappedTensor, Memory, Spaces
from .order import BULK, COPIES, OWN, Flights, Order, Race
from .parse import (
    Function,
    MemoryOperand,
    Module,
    Name,
    Number,
    Operand,
    SourceLine,
    Statement,
    Variable,
    Vector,
    bits_of,
)
from .values import UNSET, ActiveThreads, Register, Tape

#: What a thread does. One that polls waits for a phase of an object of mbarrier, one that meets for lanes of its warp.
RUNS, WAITS, ENDED, POLLS, MEETS = range(5)

#: What an instruction does to the threads of a group.
Step = Callable[[ActiveThreads], None]
Binder = Callable[["Machine", Statement, Function], Step]

#: Static shared memory begins here: address 0 is none, and sm_90 keeps the first kilobyte.
_FIRST_SHARED = 1024

#: How often the banks are watched for each instruction, which mostly repeats its pattern.
_CLOCKED = 16

#: What ends with a mask of the lanes that take part, and what has rules of its own.
_MEMBERS = ("shfl", "vote", "match", "redux", "elect", "bar", "barrier")
_BARRIERS = ("bar", "barrier")

Dimensions = tuple[int, int, int]


class Unknown(LanemapError):  # noqa: N818
    """An instruction, or a word of one, that the machine does not know."""


def known(instruction: Statement, words: str) -> None:
    """Refuse words of an instruction that change what it does in a way that the machine does not know."""
    rest = {part for part in instruction.parts[1:] if part != instruction.type} - set(words.split())
    if rest:
        raise Unknown(f"{instruction.opcode} is not known: .{' .'.join(sorted(rest))}")


class Fault(NamedTuple):
    """What went wrong at an instruction, first in this thread of this block, and how often."""

    kind: str
    place: SourceLine
    words: str
    block: int
    thread: int


class Launch(NamedTuple):
    """How a kernel is launched: grid and block, bytes of dynamic shared memory, and the bytes of the parameters."""

    grid: Dimensions
    block: Dimensions
    shared: int
    parameters: bytes
    maps: Sequence[MappedTensor] = ()


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
class Log:
    """What a run leaves behind, of all blocks together: faults by kind and place with their number, and counts.

    ``conflicts`` has the most words that a bank has to give at once, by instruction and place.
    """

    faults: dict[tuple[str, str, str], list[Any]] = field(default_factory=dict)
    conflicts: dict[tuple[str, str], int] = field(default_factory=dict)
    steps: int = 0
    stopped: str = ""

    def fault(self, fault: Fault, count: int = 1, of: str = "") -> None:
        """Note a fault; of one kind at one place, and of one thing there, the first is kept."""
        self.faults.setdefault((fault.kind, str(fault.place), of), [fault, 0])[1] += count


def aligned(instruction: Statement) -> bool:
    """Whether a barrier takes whole warps, as bar does and barrier where it says so (9.7.13.1)."""
    return "cluster" not in instruction.parts and (instruction.parts[0] == "bar" or "aligned" in instruction.parts)


class Job(NamedTuple):
    """What all blocks of a launch share: the program, global memory, and the record of what happens.

    ``globe`` is global memory, and ``symbols`` are the addresses of variables in it. ``bind`` makes the step of an
    instruction, for which ``layouts`` finds fragments. ``blocks`` watches what they do to each other, if there are more
    than one. ``typed`` are arguments whose types instructions must read.
    """

    module: Module
    entry: Function
    launch: Launch
    globe: Memory
    symbols: Mapping[str, int]
    tape: Tape
    log: Log
    layouts: Any
    bind: Binder
    blocks: Blocks | None = None
    typed: Sequence[Any] = ()


class Machine:
    """Some blocks of a launch, which run together."""

    def __init__(self, job: Job, blocks: Sequence[int]) -> None:
        module, entry = job.module, job.entry
        self.launch, self.tape, self.log, self.layouts, self.bind = job.launch, job.tape, job.log, job.layouts, job.bind
        self.blocks, self.typed_arguments = job.blocks, job.typed
        self.typed: set[tuple[int, str]] = set()  # what has been looked at
        x, y, z = self.launch.block
        self.per_block = -(-x * y * z // WARP) * WARP
        self.threads = self.per_block * len(blocks)
        thread = np.arange(self.threads) % self.per_block
        self.number = thread
        self.owner = np.arange(self.threads) // self.per_block  # which of the blocks here
        self.block = np.asarray(blocks)[self.owner]
        self.state = np.where(thread < x * y * z, RUNS, ENDED)
        self.warps = self.threads // WARP
        self.pc = np.zeros(self.threads, np.int64)
        self.patience = np.zeros(self.threads, np.int64)
        self.barrier = np.zeros((self.threads, 2), np.int64)
        self.arrived: dict[tuple[int, int], int] = {}
        self.mbarriers: dict[int, Mbarrier] = {}
        self.polled = np.full(self.threads, -1)
        self.carry = Register(1, np.zeros(self.threads, bool))
        self.reductions: dict[tuple[int, int], Callable[[Array], None]] = {}
        self.clocked: Counter[int] = Counter()
        self.alone = np.zeros(self.threads, bool)
        self.stack: list[Array] = []
        self.returned: dict[int, Callable[[Array], None]] = {}
        self.depth = np.zeros(self.threads, np.int64)
        self.special = self._special()
        functions = [entry, *(function for function in module.functions.values() if function is not entry)]
        self.functions = {function.name: function for function in functions}
        self.symbols: dict[str, int] = dict(job.symbols)
        self.own: dict[tuple[str, str], int] = {}
        self.spaces = self._spaces(module, functions, job.globe)
        size = len(self.spaces.shared.data)
        self.order, self.lanes = Order(self.warps, self.per_block // WARP, size), Lanes(self.state == RUNS, size)
        self.flights, self.loads = Flights(self.warps, "wgmma"), Flights(self.warps, "tcgen05.wait::ld")
        self.tensor: Any = None  # the Tensor Memory of the blocks, where they need it
        self.registers = {
            (function.name, name): Register.unset(type_, self.threads)
            for function in functions
            for name, type_ in function.registers.items()
        }
        self.entry_of: dict[str, int] = {}
        self.leaders: set[int] = set()
        self.program: list[tuple[Statement, Function]] = []
        for function in functions:
            self.entry_of[function.name] = len(self.program)
            self.leaders |= {len(self.program) + index for index in function.labels.values()}
            self.program += [(instruction, function) for instruction in function.body]
            self.program.append((Statement(("ret",), (), None, SourceLine(0)), function))
        self.steps: list[tuple[Step, Register | None, bool] | None] = [None] * len(self.program)
        self.at = 0

    def _special(self) -> dict[str, Any]:
        launch, found = self.launch, dict[str, Any]()
        for axis, name in enumerate("xyz"):
            below = int(np.prod(launch.block[:axis]))
            found[f"%tid.{name}"] = self.number // below % launch.block[axis]
            found[f"%ntid.{name}"] = launch.block[axis]
            found[f"%ctaid.{name}"] = self.block // int(np.prod(launch.grid[:axis])) % launch.grid[axis]
            found[f"%nctaid.{name}"] = launch.grid[axis]
            found |= {f"%cluster_ctaid.{name}": 0, f"%cluster_nctaid.{name}": 1}
            found |= {f"%clusterid.{name}": found[f"%ctaid.{name}"], f"%nclusterid.{name}": launch.grid[axis]}
        lane = self.number % WARP
        found |= {"%laneid": lane, "%warpid": self.number // WARP, "%nwarpid": self.per_block // WARP, "WARP_SZ": WARP}
        found |= {"%lanemask_eq": 1 << lane, "%lanemask_lt": (1 << lane) - 1, "%lanemask_le": (2 << lane) - 1}
        found |= {"%lanemask_gt": -(2 << lane), "%lanemask_ge": -(1 << lane), "%smid": 0, "%nsmid": 1, "%gridid": 0}
        found |= {
            "%dynamic_smem_size": launch.shared,
            "%total_smem_size": launch.shared,
            "%cluster_ctarank": 0,
            "%cluster_nctarank": 1,
        }
        return found | {"%clock": 0, "%clock64": 0, "%globaltimer": 0, "%clock_hi": 0, "%is_explicit_cluster": 0}

    def _spaces(self, module: Module, functions: Sequence[Function], globe: Memory) -> Spaces:
        """Allocate the variables of shared and local memory, and write the parameters of the entry."""
        ends = {"shared": _FIRST_SHARED, "local": 16}
        late: list[str] = []

        def allocate(variable: Variable, function: str | None) -> None:
            kind = "shared" if variable.space == ".shared" else "local"
            start = -(-ends[kind] // max(variable.align, 1)) * max(variable.align, 1)
            if kind == "shared" and not variable.size:
                late.append(variable.name)  # dynamic shared memory follows all that is static
                return
            ends[kind] = start + variable.size
            if function is None:
                self.symbols[variable.name] = start
            else:
                self.own[function, variable.name] = start

        for variable in module.variables:
            if variable.space == ".shared":
                allocate(variable, None)
        for function in functions:
            for variable in (*function.parameters, *function.returns, *function.variables):
                allocate(variable, function.name)
        dynamic = -(-ends["shared"] // 1024) * 1024 if late else ends["shared"]
        self.symbols |= dict.fromkeys(late, dynamic)
        shared = Memory("shared", SHARED, dynamic + self.launch.shared, self.threads // self.per_block, _FIRST_SHARED)
        local = Memory("local", LOCAL, ends["local"], self.threads)
        given, start = np.frombuffer(self.launch.parameters, np.uint8), 0
        for variable in functions[0].parameters:
            index = np.arange(self.threads) * local.size + self.own[functions[0].name, variable.name]
            data = np.broadcast_to(given[start : start + variable.size], (self.threads, variable.size))
            local.store(index, data, None)
            start += variable.size
        return Spaces(globe, shared, local)

    # What steps are made of.

    def register(self, operand: Operand, type_: str, function: Function) -> Register:
        """The register of an operand; for an immediate, a variable or a special register one that is constant."""
        width = bits_of(type_)
        match operand:
            case Name("_"):
                return Register.unset(type_, self.threads)
            case Name(name):
                if found := self.registers.get((function.name, name)):
                    return found
                if name in self.special:
                    every = np.broadcast_to(np.asarray(self.special[name]), (self.threads,))
                    return Register(width, every.astype(f"i{max(width // 8, 1)}").view(f"u{max(width // 8, 1)}"))
                return Register.constant(width, self.address_of(name, function), self.threads)
            case Number(number, kind):
                if kind == "f64" and type_ in ("f32", "f16", "bf16"):
                    number = int(np.float32(np.uint64(number & (1 << 64) - 1).view("f8")).view("u4"))
                if type_ == "pred":
                    return Register(1, np.full(self.threads, bool(number)))
                return Register.constant(width, number, self.threads)
            case MemoryOperand(base, offset) if base is not None:
                return Register.constant(width, self.address_of(base.name, function) + offset, self.threads)
        raise Unknown(f"{operand} is no operand of type {type_}")

    def registers_of(self, operands: Sequence[Operand], type_: str, function: Function) -> list[Register]:
        """The registers of some operands of one type."""
        return [self.register(operand, type_, function) for operand in operands]

    def predicate(self, operand: Operand, function: Function) -> tuple[Register, bool]:
        """The register of a predicate, and whether it is negated."""
        negated = isinstance(operand, Name) and operand.negated
        plain = operand._replace(negated=False) if isinstance(operand, Name) else operand
        return self.register(plain, "pred", function), negated

    def address_of(self, name: str, function: Function) -> int:
        """The address of a variable in its state space, or where a label or a function begins."""
        if (function.name, name) in self.own:
            return self.own[function.name, name]
        if name in function.labels:
            return self.entry_of[function.name] + function.labels[name]
        if name in self.symbols:
            return self.symbols[name]
        if name in self.entry_of:
            return self.entry_of[name]
        raise Unknown(f"{name} is not declared")

    def addresses(self, operand: Operand, function: Function) -> Callable[[], tuple[Array, Array | None]]:
        """What gives the address of each thread, and its origins."""
        if not isinstance(operand, MemoryOperand):
            raise Unknown("an address must stand in brackets")
        base, offset = operand.base, operand.offset
        if base is None or (function.name, base.name) not in self.registers:
            start = offset + (0 if base is None else self.address_of(base.name, function))
            constant = np.full(self.threads, start, np.int64)
            return lambda: (constant, None)
        register = self.registers[function.name, base.name]
        return lambda: (register.bits.astype(np.int64) + offset, register.origin)

    def warp_names(self, first: Array) -> Array:
        """The block and the warp in it of some threads, as an array (threads, 2)."""
        return np.stack([self.block[first], self.number[first] // WARP], axis=1)

    @property
    def opcode(self) -> str:
        """The present instruction without operands."""
        return self.program[self.at][0].opcode

    def fault(self, kind: str, threads: Array, words: str, place: SourceLine | None = None, *, of: str = "") -> None:
        """Note what goes wrong in some threads, at the present instruction if at no other place."""
        first, where = int(threads[0]), place or self.program[self.at][0].place
        fault = Fault(kind, where, words, int(self.block[first]), int(self.number[first]))
        self.log.fault(fault, len(np.unique(threads)), of)

    def access(
        self, space: str, address: Array, size: int, threads: Array, *, align: int | None = None
    ) -> list[tuple[Memory, Array, Array]]:
        """Where some threads access memory: the indices, and the threads whose access is one that hardware allows."""
        found = []
        for memory, at, who in self.spaces.reached(space, address, threads):
            good = memory.inside(at, size)
            owner = self.owner if memory is self.spaces.shared else np.arange(self.threads)
            index = at if memory is self.spaces.globe else at + owner[who] * memory.size
            if memory is self.spaces.globe and good.any():
                touched = memory.origin[np.where(good, index, 0)[:, None] + np.array([0, size - 1])]
                good &= (touched != -3).all(axis=1)
            if not good.all():
                wrong = who[~good]
                self.fault("bounds", wrong, f"{memory.name} memory at {int(at[~good][0]):#x} is out of bounds")
            off = good & (at % (align or size) != 0)
            if off.any():
                words = f"{memory.name} memory at {int(at[off][0]):#x} is not aligned to {align or size} bytes"
                self.fault("alignment", who[off], words)
                good &= ~off
            if memory is self.spaces.shared and size <= LINE and self.clocked[self.at] < _CLOCKED and good.any():
                self.clocked[self.at] += 1
                self._banks(at[good], size, who[good])
            found.append((memory, index[good], who[good]))
        return found

    def _banks(self, address: Array, size: int, threads: Array) -> None:
        """Note how many words a bank has to give at once. Lanes that do nothing name what another one does."""
        instruction = self.program[self.at][0]
        lanes = min(WARP, BANKS * WORD // 8 // size)
        nowhere = np.iinfo(np.int64).max
        of_thread = np.full(self.threads, nowhere)
        of_thread[threads] = address
        phases: Array = of_thread.reshape(-1, lanes)
        least = phases.min(axis=1)[:, None]
        phases = np.where(phases < nowhere, phases, least)[least[:, 0] < nowhere]
        degree = int(degrees(phases, size).max())
        key = instruction.parts[0], str(instruction.place)
        self.log.conflicts[key] = max(self.log.conflicts.get(key, 1), degree)

    def load(
        self, memory: Memory, index: Array, size: int, threads: Array, *, by: int = OWN, strong: bool = False
    ) -> tuple[Array, Array]:
        """What threads read, themselves or by what runs beside them; notes what races with that."""
        self.reads(memory, index, size, threads, by=by, strong=strong)
        return memory.load(index, size)

    def reads(
        self, memory: Memory, index: Array, size: int, threads: Array, *, by: int = OWN, strong: bool = False
    ) -> None:
        """Note what threads read, and what races with that. Strong accesses of several blocks do not."""
        if not len(index):
            return
        place = index[:, None] + np.arange(size)
        if memory is self.spaces.shared:
            lanes = self.lanes.reads(place, threads, self.at, notes=by == OWN)
            self._races(self.order.reads(index, size, threads, self.at, by) or lanes, threads, "reads what", "writes")
        elif memory is self.spaces.globe and self.blocks is not None and not strong:
            race = self.blocks.reads(place, self.block[threads], self.at)
            self._races(race, threads, "reads what", "writes")

    def store(
        self,
        memory: Memory,
        index: Array,
        data: Array,
        origin: Array | None,
        threads: Array,
        *,
        by: int = OWN,
        strong: bool = False,
        **of: int,
    ) -> None:
        """Write bytes (accesses, size) for threads, and note what races with that; see ``Order.writes``."""
        place = index[:, None] + np.arange(data.shape[1])
        changed = memory.data[place] != data
        memory.store(index, data, origin)
        if not len(index):
            return
        race, lost = None, memory.data[place] != data
        if memory is self.spaces.shared:
            if lost.any():
                words = f"{self.program[self.at][0].parts[0]} writes another value where another thread writes at once"
                self.fault("race", threads[lost.any(axis=1)], words)
            if by != BULK:
                groups = self.order.clock[threads // WARP, COPIES] if by == COPIES else None
                race = self.lanes.writes(place, threads, self.at, changed, groups)
            race = self.order.writes(index, data.shape[1], threads, self.at, by, **of) or race
        elif memory is self.spaces.globe and self.blocks is not None and not strong:
            race = self.blocks.writes(place, self.block[threads], self.at, changed, lost)
        self._races(race, threads, "writes what", "still uses")

    def _races(self, race: Race | None, threads: Array, does: str, other: str) -> None:
        if race is not None:
            own, there = (self.program[at][0] for at in (self.at, race.at))
            whose = f" in {race.by}" if race.by else ""
            words = (
                f"{own.parts[0]} {does} {there.parts[0]} of {there.place}{whose} {other}, and nothing orders the two"
            )
            self.fault("race", threads[race.accesses], words)

    def synchronize(
        self, memory: Memory, index: Array, threads: Array, *, hears: bool = False, tells: bool = False
    ) -> None:
        """Threads access places by atomics or strongly, which orders what they do before and after."""
        if hears:
            self.lanes.meet(np.isin(np.arange(self.threads), threads), all_lanes=True)
        if self.blocks is not None and memory is self.spaces.globe:
            self.blocks.synchronize(index, self.block[threads], hears=hears, tells=tells)

    def unset_address(self, origin: Array | None, threads: Array) -> None:
        """Note an address that nobody computed."""
        if origin is not None and (unset := (origin[threads] == UNSET).any(axis=1)).any():
            self.fault("unset", threads[unset], "an address is uninitialised")

    # How it runs.

    def step(self, at: int) -> tuple[Step, Register | None, bool]:
        """What the instruction at a place does, its guard, and whether that is negated; made once."""
        if (made := self.steps[at]) is None:
            instruction, function = self.program[at]
            guard = (None, False) if instruction.guard is None else self.predicate(instruction.guard, function)
            made = self.bind(self, instruction, function), *guard
            self.steps[at] = made
        return made

    def unknown(self) -> dict[str, str]:
        """What the machine does not know of the program, with the lines where it stands."""
        found: dict[str, list[int]] = {}
        for at, (instruction, _) in enumerate(self.program):
            try:
                self.step(at)
            except Unknown as error:
                found.setdefault(str(error), []).append(instruction.place.line)
        return {words: f"line{'s' * (len(lines) > 1)} {spans(lines)}" for words, lines in found.items()}

    def run(self, limit: int) -> None:
        """Run until every thread has ended. Stops, and says why, after ``limit`` steps, or where all wait."""
        with np.errstate(all="ignore"):
            while self.log.steps < limit and not self.log.stopped:
                runs = self.state == RUNS
                if not runs.any() and (meets := self.state == MEETS).any():
                    self.state[meets], self.alone[meets] = RUNS, True
                    continue
                if not runs.any():
                    if (self.state != ENDED).any():
                        self._stuck()
                    return
                order = self.pc + (self.patience << 32)
                first = order[runs].min()
                mask = runs & (order == first)
                self._straight(int(first & 0xFFFFFFFF), ActiveThreads.of(mask))
        if not self.log.stopped:
            self.log.stopped = f"it was still running after {limit} instructions"

    def _straight(self, at: int, group: ActiveThreads) -> None:
        """Run a group up to a branch, a wait, or a place where ways join."""
        self.pc[group.mask] = -1
        while True:
            self.at = at
            try:
                step, guard, negated = self.step(at)
            except Unknown as error:
                place = self.program[at][0].place
                warps = np.unique(np.flatnonzero(group.mask) // WARP)
                self.log.stopped = f"{place}: {error} (reached by {len(warps)} warp{'s' * (len(warps) > 1)})"
                return
            chosen = group
            if guard is not None:
                if guard.origin is not None and (guard.origin[group.mask] == UNSET).any():
                    self.fault("unset", np.flatnonzero(group.mask), "a predicate is uninitialised")
                taken = group.mask & (guard.bits ^ negated)
                chosen = ActiveThreads.of(taken)
            if not chosen.full and self._parted(chosen):
                self.pc[group.mask] = at
                return
            self.log.steps += 1
            if chosen.full or chosen.mask.any():
                for flights in (self.flights, self.loads):
                    if flights.registers:
                        self._in_flight(flights, chosen)
                together = "sync" in self.program[at][0].parts
                if together:
                    self.lanes.meet(chosen.mask)
                step(chosen)
                if together:
                    self.lanes.meet(chosen.mask)
            at += 1
            moved = self.pc[group.mask] != -1
            if moved.any() or at in self.leaders or self.log.stopped:
                stayed = group.mask & (self.pc == -1)
                self.pc[stayed] = at
                return

    def _parted(self, group: ActiveThreads) -> bool:
        """Whether lanes must wait for others of their warp before an instruction with ``.sync``, and do so now."""
        instruction, function = self.program[self.at]
        barrier = instruction.parts[0] in _BARRIERS and "warp" not in instruction.parts
        if ("sync" not in instruction.parts and not barrier) or (barrier and not aligned(instruction)):
            return False
        if (group.mask & self.alone).any():  # the others never come
            self.alone[group.mask] = False
            return False
        needed = self.state != ENDED
        if instruction.parts[0] in _MEMBERS and not barrier:
            members = self.register(instruction.operands[-1], "b32", function).bits
            needed &= (members >> (self.number % WARP).astype("u4") & 1).astype(bool)
        here = group.mask | (self.state == MEETS) & (self.pc == self.at)
        mask = group.mask.reshape(-1, WARP)
        parted = np.asarray((needed & ~group.mask).reshape(-1, WARP).any(axis=1) & mask.any(axis=1))
        if not parted.any():
            return False
        self.state[group.mask & np.repeat(parted, WARP)] = MEETS
        whole = np.repeat(parted & ~(needed & ~here).reshape(-1, WARP).any(axis=1), WARP) & here
        self.state[whole] = RUNS
        self.patience[whole] = self.patience[whole].max(initial=0)
        return True

    def _in_flight(self, flights: Flights, group: ActiveThreads) -> None:
        """Note an instruction that touches a register which another still uses. Copies of it are one with it."""
        instruction, function = self.program[self.at]
        if instruction.opcode.startswith(flights.waits):
            return
        registers = [
            found
            for operand in instruction.operands
            for item in (operand.items if isinstance(operand, Vector) else (operand,))
            if isinstance(item, Name | MemoryOperand)
            for name in [item if isinstance(item, Name) else item.base]
            if name and (found := self.registers.get((function.name, name.name)))
        ]
        touched = flights.touched(registers, np.unique(np.flatnonzero(group.mask) // WARP))
        if touched is None:
            return
        if instruction.parts[0] == "mov" and len(registers) == 2 and touched is registers[1]:
            flights.copy(touched, registers[0])
            return
        name = flights.waits.partition(".wait")[0]
        words = f"{instruction.parts[0]} touches a register that {name} of {flights.places[touched]} still uses"
        self.fault("race", np.flatnonzero(group.mask), words)

    def enter(self, group: ActiveThreads, start: int, back: int, returned: Callable[[Array], None]) -> None:
        """Threads of a group call a function, and come back to ``back``; ``returned`` is told which do."""
        for depth in np.unique(self.depth[group.mask]):
            while len(self.stack) <= depth:
                self.stack.append(np.zeros(self.threads, np.int64))
            at = group.mask & (self.depth == depth)
            self.stack[depth][at] = back
        self.returned[back] = returned
        self.depth[group.mask] += 1
        self.pc[group.mask] = start

    def end(self, group: ActiveThreads) -> None:
        """Threads return from a function, or end."""
        returning = group.mask & (self.depth > 0)
        if returning.any():
            for depth in np.unique(self.depth[returning]):
                at = returning & (self.depth == depth)
                self.pc[at] = self.stack[depth - 1][at]
            for back in np.unique(self.pc[returning]):
                self.returned[int(back)](np.flatnonzero(returning & (self.pc == back)))
            self.depth[returning] -= 1
        ending = group.mask & ~returning
        self.stop(ending)

    def stop(self, mask: Array) -> None:
        """Threads end, which may release others from a barrier."""
        self.state[mask] = ENDED
        self.pc[mask] = 0
        for owner in np.unique(self.owner[mask]):
            for number in np.unique(self.barrier[(self.owner == owner) & (self.state == WAITS), 0]):
                self._release(int(owner), int(number))

    def wait(
        self,
        group: ActiveThreads,
        number: Array,
        count: Array | None,
        *,
        arrive: bool = False,
        then: Callable[[Array], None] | None = None,
    ) -> None:
        """Threads come to a barrier of their block, of all its threads or of a number of them (9.7.13.1).

        ``then`` is told which threads go on together.
        """
        if not arrive:
            self.state[group.mask] = WAITS
            self.pc[group.mask] = self.at + 1
        self.barrier[group.mask, 0] = number[group.mask]
        self.barrier[group.mask, 1] = 0 if count is None else count[group.mask]
        for owner in np.unique(self.owner[group.mask]):
            own = group.mask & (self.owner == owner)
            for each in np.unique(number[own]):
                if then is not None:
                    self.reductions[int(owner), int(each)] = then
                if arrive:
                    key = int(owner), int(each)
                    self.arrived[key] = self.arrived.get(key, 0) + int(np.count_nonzero(own & (number == each)))
                self._release(int(owner), int(each))

    def _release(self, owner: int, number: int) -> None:
        of = slice(owner * self.per_block, (owner + 1) * self.per_block)
        state, barrier = self.state[of], self.barrier[of]
        waits = (state == WAITS) & (barrier[:, 0] == number)
        count = int(np.count_nonzero(waits))
        wanted = int(barrier[waits, 1].max(initial=0)) or np.count_nonzero(state != ENDED)
        if count and count + self.arrived.get((owner, number), 0) >= wanted:
            here = np.zeros(self.threads, bool)
            here[of] = waits
            self.state[here] = RUNS
            self.patience[here] = self.patience[here].max()
            self.order.meet(np.unique(np.flatnonzero(here) // WARP))
            self.lanes.meet(here, all_lanes=True)
            self.arrived.pop((owner, number), None)
            if then := self.reductions.pop((owner, number), None):
                then(here)

    def add_mbarrier(self, index: int, thread: int, count: int) -> None:
        """Begin an object of mbarrier at an index of shared memory, which takes so many arrivals."""
        agent = self.order.barrier(sum(at // self.spaces.shared.size == self.owner[thread] for at in self.mbarriers))
        none = np.zeros(self.order.known.shape[1], np.int32)
        self.mbarriers[index] = Mbarrier(index, count, count, agent, none.copy(), none.copy(), none, none)

    def arrive(
        self, barrier: Mbarrier, threads: Array, number: int, *, drops: bool = False, after_copies: bool = False
    ) -> None:
        """Threads arrive, so many times in all, and with them what they know."""
        warps = np.unique(threads // WARP)
        known, carried = (each[warps].max(axis=0) for each in (self.order.known, self.order.carried))
        if after_copies:
            self.order.with_copies(warps, known)
        barrier.known, barrier.carried = np.maximum(barrier.known, known), np.maximum(barrier.carried, carried)
        self.order.tick(warps)
        if number > barrier.pending:
            self.fault("barrier", threads, f"more threads arrive than the {barrier.count} of the mbarrier")
        barrier.pending -= number
        barrier.count -= number * drops
        self.turn(barrier)

    def turn(self, barrier: Mbarrier) -> None:
        """Complete the phase if nothing is missing, and let those who wait for it go on."""
        if barrier.pending > 0 or barrier.due:
            return
        barrier.phase += 1
        barrier.pending = barrier.count
        barrier.done, barrier.done_carried = barrier.known.copy(), barrier.carried.copy()
        self.state[(self.state == POLLS) & (self.polled == barrier.index)] = RUNS

    def poll(self, threads: Array, index: int) -> None:
        """Threads find the phase of an object incomplete. Who asks again goes on when it is complete."""
        again = threads[self.polled[threads] == index]
        self.state[again], self.pc[again] = POLLS, self.at
        self.polled[threads] = index

    def _stuck(self) -> None:
        waiting = np.flatnonzero((self.state == WAITS) | (self.state == POLLS))
        first = waiting[0]
        polls = self.state[first] == POLLS
        self.at = int(self.pc[first]) - (not polls)
        words = f"warps {spans(np.unique(self.number[waiting] // WARP).tolist())} wait for ever"
        if polls:
            of = self.mbarriers[int(self.polled[first])]
            words += f": phase {of.phase} of the mbarrier lacks {of.pending} arrivals and {of.due} bytes"
        self.fault("stuck", waiting, words)
