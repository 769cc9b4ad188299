"""The threads of some blocks: which they are, their registers and memory, and what goes wrong where they reach it."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...db.errors import LanemapError
from ...db.isa.instructions import WARP, WORD
from ...db.isa.shared import BANKS
from ...db.layout.algebra import Array
from ...db.layout.banks import degrees
from ..values import LINE
from .accesses import PLAIN, Accesses, Manner
from .flights import Flights
from .launch import Fault, Job, Unknown
from .memory import LOCAL, SHARED, Memory, Spaces
from .order import Order, Race
from .ptx import (
    REGISTER_BITS,
    VECTORS,
    WORKSPACE,
    Both,
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
from .values import NONE, OUTSIDE, UNSET, Register

#: Static shared memory begins here: address 0 is none, and sm_90 reserves the first kilobyte.
_FIRST_SHARED = 1024

#: Where the system has reserved shared memory (10.29), of which cooperative groups use what offset 1 leads to.
_OFFSETS = {"begin": 0, "0": 0, "1": 64, "end": _FIRST_SHARED, "cap": _FIRST_SHARED}
_RESERVED = {Name(f"%reserved_smem_offset_{name}"): offset for name, offset in _OFFSETS.items()}

#: Bytes of which a block is given shared memory.
_SHARED_UNIT = 128

#: How often the banks are watched for each instruction, which mostly repeats its pattern.
_CLOCKED = 16


class Threads:
    """The threads of some blocks, with the program that they run; ``at`` is the present instruction."""

    def __init__(self, job: Job, blocks: Sequence[int]) -> None:
        self.module, entry = job.module, job.entry
        self.launch, self.tape, self.log, self.layouts = job.launch, job.tape, job.log, job.layouts
        self.typed_arguments = job.typed
        self.typed: set[tuple[int, str]] = set()  # what has been looked at
        extent = int(np.prod(self.launch.block))
        self.per_block = -(-extent // WARP) * WARP
        self.threads = self.per_block * len(blocks)
        self.warps = self.threads // WARP
        self.number = np.arange(self.threads) % self.per_block
        self.lane = (self.number % WARP).astype("u4")
        self.owner = np.arange(self.threads) // self.per_block  # which of the blocks here
        self.block = np.asarray(blocks)[self.owner]
        self.launched = self.number < extent
        self.carry = Register(1, np.zeros(self.threads, bool))
        self.clocked: Counter[int] = Counter()
        # Which threads execute what again and again, and what they reach there.
        self.repeated: dict[int, Array] | None = None
        self.accessed = defaultdict[int, list[tuple[Memory, Array, Array]]](list)
        self.cluster = int(np.prod(entry.cluster))  # blocks, which follow each other here
        self.special = self._special(entry.cluster, job.symbols)
        self.entry_of = self.module.starts(entry)
        functions = [self.module.functions[name] for name in self.entry_of]
        self.functions = {function.name: function for function in functions}
        self.symbols: dict[str, int] = dict(job.symbols)
        self.own: dict[tuple[str, str], int] = {}
        self.spaces = self._spaces(self.module, functions, job.globe)
        self.order = Order(job.history, self.block, self.launched, len(self.spaces.shared.data))
        self.flights, self.loads = Flights(self.warps, "wgmma"), Flights(self.warps, "tcgen05.wait::ld")
        self.tensor: Any = None  # the Tensor Memory of the blocks, where they need it
        self.registers = {
            (function.name, name): Register.unset(type_, self.threads)
            for function in functions
            for name, type_ in function.registers.items()
        }
        self.program: list[tuple[Statement, Function]] = []
        for function in functions:
            self.program += [(instruction, function) for instruction in function.body]
            self.program.append((Statement(("ret",), (), None, SourceLine(0)), function))
        self.at = 0

    def _special(self, cluster: Sequence[int], symbols: Mapping[str, int]) -> dict[str, Any]:
        launch, found, rank = self.launch, dict[str, Any](), np.zeros(self.threads, np.int64)
        for axis, name in enumerate("xyz"):
            below = int(np.prod(launch.block[:axis]))
            found[f"%tid.{name}"] = self.number // below % launch.block[axis]
            found[f"%ntid.{name}"] = launch.block[axis]
            found[f"%ctaid.{name}"] = self.block // int(np.prod(launch.grid[:axis])) % launch.grid[axis]
            found[f"%nctaid.{name}"] = launch.grid[axis]
            number, within = np.divmod(found[f"%ctaid.{name}"], cluster[axis])
            found |= {f"%cluster_ctaid.{name}": within, f"%cluster_nctaid.{name}": cluster[axis]}
            found |= {f"%clusterid.{name}": number, f"%nclusterid.{name}": launch.grid[axis] // cluster[axis]}
            rank += within * int(np.prod(cluster[:axis]))
        lane = self.number % WARP
        found |= {"%laneid": lane, "%warpid": self.number // WARP, "%nwarpid": self.per_block // WARP}
        found |= {"%lanemask_eq": 1 << lane, "%lanemask_lt": (1 << lane) - 1, "%lanemask_le": (2 << lane) - 1}
        found |= {"%lanemask_gt": -(2 << lane), "%lanemask_ge": -(1 << lane), "%nsmid": 1}
        found |= {"%dynamic_smem_size": launch.shared} | {
            register.name: offset for register, offset in _RESERVED.items()
        }
        found |= {"%cluster_ctarank": rank, "%cluster_nctarank": self.cluster, "%is_explicit_cluster": self.cluster > 1}
        found |= dict.fromkeys(("%smid", "%gridid", "%clock", "%clock64", "%clock_hi", "%globaltimer"), 0)
        found |= dict.fromkeys([f"{name}.w" for name in VECTORS] + [f"%envreg{number}" for number in range(32)], 0)
        upper, lower = divmod(symbols.get(WORKSPACE.name, 0), 1 << 32)
        return found | {"%envreg1": upper, "%envreg2": lower}

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
                if variable.name not in function.registers:
                    allocate(variable, function.name)
        if ends["shared"] > 1 << 18 or ends["local"] * self.threads > 1 << 30:
            raise LanemapError("the variables of a block take more shared or local memory than there is")
        dynamic = -(-ends["shared"] // 1024) * 1024 if late else ends["shared"]
        self.symbols |= dict.fromkeys(late, dynamic)
        shared = Memory("shared", SHARED, dynamic + self.launch.shared, self.threads // self.per_block, _FIRST_SHARED)
        if any(_RESERVED.keys() & {*each.operands} for function in functions for each in function.body):
            shared.low = 0
            shared.origin.reshape(-1, shared.size)[:, :_FIRST_SHARED] = NONE
        own = -(-(shared.size - _FIRST_SHARED) // _SHARED_UNIT) * _SHARED_UNIT
        self.special |= {"%total_smem_size": own, "%aggr_smem_size": own + _FIRST_SHARED}
        local = Memory("local", LOCAL, ends["local"], self.threads)
        given, start = np.frombuffer(self.launch.parameters, np.uint8), 0
        for variable in functions[0].parameters:
            index = np.arange(self.threads) * local.size + self.own[functions[0].name, variable.name]
            data = np.broadcast_to(given[start : start + variable.size], (self.threads, variable.size))
            local.store(index, data, None)
            start += variable.size
        return Spaces(globe, shared, local)

    # What steps are made of.

    def register(self, operand: Operand, type_: str, function: Function, *, loose: bool = False) -> Register:
        """The register of an operand; for an immediate, a variable or a special register one that is constant.

        ``loose``: it may be wider than the type, or a predicate.
        """
        if (width := bits_of(type_)) not in REGISTER_BITS:
            raise Unknown(f"no register is a {type_}")
        match operand:
            case Vector((only,)):
                return self.register(only, type_, function, loose=loose)
            case Name("_"):
                return Register.unset(type_, self.threads)
            case Name(name):
                if found := self.registers.get((function.name, name)):
                    if found.width != width and (not loose or 1 < found.width < width):
                        raise Unknown(f"{name} has {found.width} bits, and {type_} has {width}")
                    return found
                if name in self.special:
                    every = np.broadcast_to(np.asarray(self.special[name]), (self.threads,))
                    return Register(width, every.astype(f"i{max(width // 8, 1)}").view(f"u{max(width // 8, 1)}"))
                return Register.constant(width, self.address_of(name, function), self.threads)
            case Number(number, kind):
                if not _written_as(kind, type_):
                    raise Unknown(f"an operand of type {type_} is no {'float' if kind else 'number'} as it is written")
                if (kind, type_) == ("f64", "f32"):
                    number = int(np.float32(np.uint64(number).view("f8")).view("u4"))
                if type_ == "pred":
                    return Register(1, np.full(self.threads, bool(number)))
                return Register.constant(width, number, self.threads)
            case MemoryOperand(base, offset) if base is not None:
                return Register.constant(width, self.address_of(base.name, function) + offset, self.threads)
        raise Unknown(f"{operand} is no operand of type {type_}")

    def registers_of(
        self, operands: Sequence[Operand], type_: str, function: Function, *, loose: bool = False
    ) -> list[Register]:
        """The registers of some operands of one type."""
        return [self.register(operand, type_, function, loose=loose) for operand in operands]

    def named(self, operands: Sequence[Operand], function: Function) -> list[Register]:
        """The registers that some operands name."""
        found = []
        for operand in operands:
            match operand:
                case Vector(items):
                    found += self.named(items, function)
                case Both():
                    found += self.named(operand, function)
                case MemoryOperand(Name(name)) | Name(name):
                    found += [self.registers[key] for key in [(function.name, name)] if key in self.registers]
        return found

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

    def addresses(self, operand: Operand, function: Function) -> Callable[[Array], Array]:
        """What gives the addresses that some threads name, and notes those that nobody computed."""
        if not isinstance(operand, MemoryOperand):
            raise Unknown("an address must stand in brackets")
        base, offset = operand.base, operand.offset
        if not -(1 << 31) <= offset < 1 << 32:
            raise Unknown(f"an offset of {offset} does not fit 32 bits")
        if base is None or (function.name, base.name) not in self.registers:
            start = offset + (0 if base is None else self.address_of(base.name, function))
            return lambda threads: np.full(threads.shape, start, np.int64)
        register = self.registers[function.name, base.name]

        def named(threads: Array) -> Array:
            self.expect_set(register, threads, "an address")
            return np.asarray(register.bits[threads].astype(np.int64) + offset)

        return named

    def expect_set(self, register: Register, threads: Array, what: str) -> None:
        """Note where nobody wrote what some threads have in a register."""
        if register.origin is not None and (unset := (register.origin[threads] <= UNSET).any(axis=-1)).any():
            self.fault("unset", threads[unset], f"{what} is uninitialised")

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
                good &= (touched != OUTSIDE).all(axis=1)
            if not good.all():
                wrong = who[~good]
                where = memory.near(int(at[~good][0]))
                self.fault("bounds", wrong, f"{memory.name} memory at {where} is out of bounds")
            off = good & (at % (align or size) != 0)
            if off.any():
                where = memory.near(int(at[off][0]))
                words = f"{memory.name} memory at {where} is not aligned to {align or size} bytes"
                self.fault("alignment", who[off], words)
                good &= ~off
            if memory is self.spaces.shared and size <= LINE and self.clocked[self.at] < _CLOCKED and good.any():
                self.clocked[self.at] += 1
                self._banks(at[good], size, who[good])
            found.append((memory, index[good], who[good]))
        if self.repeated is not None:
            self.accessed[self.at] += found
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

    def load(self, memory: Memory, index: Array, size: int, threads: Array, how: Manner = PLAIN) -> tuple[Array, Array]:
        """What threads read, themselves or by what runs beside them; notes what races with that."""
        self.reads(memory, index, size, threads, how)
        return memory.load(index, size)

    def reads(self, memory: Memory, index: Array, size: int, threads: Array, how: Manner = PLAIN) -> None:
        """Note what threads read, and what races with that; see ``Order.reads``."""
        if (accesses := self._accesses(memory)) is not None and len(index):
            place = index[:, None] + np.arange(size)
            race = self.order.reads(accesses, place, threads, how)
            self._races(race, threads, "reads what", "writes")

    def store(
        self, memory: Memory, index: Array, data: Array, origin: Array | None, threads: Array, how: Manner = PLAIN
    ) -> None:
        """Write bytes (accesses, size) for threads, and note what races with that; see ``Order.writes``."""
        before = memory.store(index, data, origin)
        self.writes(memory, index, before, threads, how, data)

    def writes(
        self, memory: Memory, index: Array, before: Array, threads: Array, how: Manner, data: Array | None = None
    ) -> None:
        """Note that threads have written bytes (accesses, size) over others, each of them ``data``; see ``Order``."""
        if (accesses := self._accesses(memory)) is not None and len(index):
            place = index[:, None] + np.arange(before.shape[1])
            after = memory.data[place]
            data = after if data is None else data
            race = self.order.writes(accesses, place, threads, before != data, after != data, how)
            self._races(race, threads, "writes what", "still uses")

    def _accesses(self, memory: Memory) -> Accesses | None:
        """The accesses that are noted of a memory; None where each thread has its own."""
        if memory is self.spaces.globe:
            return self.order.history.globe
        return self.order.shared if memory is self.spaces.shared else None

    def _races(self, race: Race | None, threads: Array, does: str, other: str) -> None:
        if race is not None:
            statements = [self.program[at][0] for at in (self.at, race.at)]
            own, there = (".".join(each.parts[: 1 + (each.parts[0] == "mbarrier")]) for each in statements)
            whose = f" in {race.by}" if race.by else ""
            orders = "no fence behind the read that tells of it" if race.told else "nothing"
            words = f"{does} {there} of {statements[1].place}{whose} {other}, and {orders} orders the two"
            if race.at_once:
                words = "writes another value where another thread writes at once"
            self.fault("race", threads[race.accesses], f"{own} {words}")


def _written_as(kind: str, type_: str) -> bool:
    """Whether an operand of a type may be an immediate: a whole number, or a float or the bits of one (4.5)."""
    if "f" in type_ or type_.endswith("x2"):
        return bool(kind) and type_ in ("f32", "f64")
    return not kind or type_ == f"b{kind[1:]}"
