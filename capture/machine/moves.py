"""What moves bytes: loads, stores, atomics, and copies by cp.async."""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from ...db.layout.algebra import Array
from . import floats
from .accesses import BLOCK, CLUSTER, COPIES, DECIDES, GRID, OWN, WEAK, Manner
from .arithmetic import extremum
from .launch import Maker, Step, Unknown, known
from .ptx import Function, Name, Number, Statement, Vector, bits_of, items_of
from .schedule import Machine
from .values import UNSET, ActiveThreads, Register, joined, spread, to_bits

#: Words of loads and stores that say how caches and other threads see them.
_CACHING = (
    "nc ca cg cs lu cv wb wt relaxed acquire release volatile weak cta cluster gpu sys unified mmio L1::evict_normal"
    " L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate L2::evict_last L2::evict_normal"
    " L2::evict_first L2::cache_hint L2::64B L2::128B L2::256B v2 v4 v8 to noftz"
)
_SPACES = {"global": "global", "shared": "shared", "local": "local", "param": "local", "const": "const"}

#: Accesses that other threads may make at once, and that order what is before and after (8.4).
_STRONG = ("acquire", "release", "volatile", "relaxed", "mmio")

#: What has no effect on one thread's view of a kernel that is free of races.
IGNORED = (
    *("prefetch", "prefetchu", "nanosleep", "pragma", "discard", "applypriority", "createpolicy", "setmaxnreg"),
    *("griddepcontrol", "pmevent"),
)


def nothing(_: Machine, __: Statement, ___: Function) -> Step:
    """Ignore an instruction."""
    return lambda _: None


def _fences(machine: Machine, instruction: Statement, _: Function) -> Step:
    """fence and membar: of the async proxy, or for others; other proxies are those of the threads here."""
    words, order = {*instruction.parts}, machine.order
    if instruction.parts[1:3] == ("proxy", "async"):
        return lambda group: order.fence_proxy(group.warps)
    if "proxy" in words:
        return lambda _: None
    scope, acquires, releases = scope_of(words), "release" not in words, "acquire" not in words
    return lambda group: order.fence(group.threads, scope, acquires=acquires, releases=releases)


def space_of(instruction: Statement, words: str) -> str:
    """The state space that an instruction names; empty where addresses are generic."""
    named = [part for part in instruction.parts[1:] if part.partition("::")[0] in _SPACES]
    known(instruction, f"{words} {' '.join(named)}")
    return _SPACES[named[0].partition("::")[0]] if named else ""


def scope_of(words: Collection[str]) -> int:
    """The scope that words of an instruction name."""
    return BLOCK if "cta" in words else CLUSTER if "cluster" in words else GRID


def _strength(words: Collection[str]) -> int:
    """The scope in which a load or a store is strong."""
    return scope_of(words) if {*words} & {*_STRONG} else WEAK


def _load(machine: Machine, instruction: Statement, function: Function) -> Step:
    space, type_ = space_of(instruction, _CACHING), instruction.type
    target, source = instruction.operands[:2]
    results = machine.registers_of(items_of(target), type_, function, loose=True)
    addresses = machine.addresses(source, function)
    width = bits_of(type_) // 8
    size = width * len(results)
    strong = _strength(instruction.parts)

    def step(group: ActiveThreads) -> None:
        threads = group.threads
        data, held = np.zeros((machine.threads, size), "u1"), np.full((machine.threads, size), UNSET, np.int32)
        for memory, index, who in machine.access(space, addresses(threads), size, threads):
            data[who], held[who] = machine.load(memory, index, size, who, Manner(strong=strong))
            if strong:
                machine.order.synchronize(memory.name, index, who, strong, instruction.parts)
        for number, result in enumerate(results):
            at = slice(number * width, (number + 1) * width)
            bits = np.ascontiguousarray(data[:, at]).view(f"u{width}").ravel()
            own = held[:, at]
            if result.width > 8 * width:
                bits = bits.view(f"i{width}" if type_[0] == "s" else f"u{width}").astype(f"i{result.width // 8}")
                bits = bits.view(f"u{result.width // 8}")
                own = np.pad(own, ((0, 0), (0, result.width // 8 - width)))
            result.put(bits, own if own.any() else None, group)

    return step


def _store(machine: Machine, instruction: Statement, function: Function) -> Step:
    space, type_ = space_of(instruction, _CACHING), instruction.type
    target, source = instruction.operands[:2]
    values = machine.registers_of(items_of(source), type_, function, loose=True)
    addresses = machine.addresses(target, function)
    width, strong = bits_of(type_) // 8, _strength(instruction.parts)
    how = Manner(strong=strong)

    def step(group: ActiveThreads) -> None:
        threads = group.threads
        parts = [each.bits if each.width == 8 * width else each.bits.astype(f"u{width}") for each in values]
        data = np.ascontiguousarray(np.stack(parts, axis=1)).view("u1").reshape(machine.threads, -1)
        held = joined(values, width)
        for memory, index, who in machine.access(space, addresses(threads), data.shape[1], threads):
            machine.store(memory, index, data[who], None if held is None else held[who], who, how)
            if strong:
                machine.order.synchronize(memory.name, index, who, strong, instruction.parts)

    return step


_ATOMIC: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": lambda old, new: old + new,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "min": extremum((), least=True),
    "max": extremum((), least=False),
    "exch": lambda _, new: new,
    "inc": lambda old, new: np.where(old >= new, 0, old + 1),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - 1),
}


#: Atomics that decide by what they find themselves.
_COMPARES = ("cas", "min", "max")


def _atomic(machine: Machine, instruction: Statement, function: Function) -> Step:
    """atom and red: threads that name one place take turns."""
    parts = instruction.parts
    type_ = instruction.type
    operation = next((part for part in parts[1:] if part in (*_ATOMIC, "cas")), "")
    space = space_of(instruction, f"{_CACHING} acq_rel {operation}")
    returns = parts[0] == "atom"
    target, place, *given = instruction.operands if returns else (Name("_"), *instruction.operands)
    if "L2::cache_hint" in parts:
        given.pop()  # a policy
    vector = isinstance(given[0], Vector)
    sources = [machine.registers_of(items_of(each), type_, function) for each in given]
    to = items_of(target) if isinstance(target, Vector) else (target,) * len(sources[0])
    results = machine.registers_of(to, type_, function)
    addresses = machine.addresses(place, function)
    width = bits_of(type_) // 8
    if not operation or (vector and operation not in ("add", "min", "max")):
        raise Unknown(f"{instruction.opcode} is not known")
    strong = scope_of(parts)
    how, by = Manner(strong=strong, passes=True), DECIDES if operation in _COMPARES else OWN

    def step(group: ActiveThreads) -> None:
        threads = group.threads
        address = addresses(threads)
        if operation == "cas":
            machine.expect_set(sources[0][0], threads, "what cas compares with")
        for number, (result, *values) in enumerate(zip(results, *sources, strict=True)):
            old_bits, old_held = result.bits.copy(), np.zeros((machine.threads, max(width, 1)), np.int32)
            for memory, index, who in machine.access(space, address + number * width, width, threads):
                machine.order.synchronize(memory.name, index, who, strong, parts)
                machine.reads(memory, index, width, who, how)
                before, _ = memory.load(index, width)
                for turn in turns(index):
                    at, chosen = index[turn], who[turn]
                    data, held = memory.load(at, width)
                    news = [each.of(chosen) for each in values]
                    old = news[0].like(data, held)
                    words = ("ftz",) if memory.name == "global" and type_ == "f32" else ()
                    memory.store(at, *combined(machine, operation, type_, old, news, words))
                    old_bits[chosen], old_held[chosen] = old.bits, held
                machine.writes(memory, index, before, who, how._replace(by=by))
            if returns:
                result.put(old_bits, old_held if old_held.any() else None, group)

    return step


def combined(
    machine: Machine, operation: str, type_: str, old: Register, news: Sequence[Register], words: Sequence[str] = ()
) -> tuple[Array, Array | None]:
    """The bytes, and their origins, that an operation makes of what memory holds and what it is given."""
    numbers, ids = old.numbers(type_), old.ids
    if operation == "cas":
        swap = numbers == news[0].numbers(type_)
        after = np.where(swap, news[1].numbers(type_), numbers)
        ids = np.where(swap, 0 if news[1].ids is None else news[1].ids, 0 if ids is None else ids)
    else:
        after = _ATOMIC[operation](*(floats.flushed(words, each) for each in (numbers, news[0].numbers(type_))))
        after = floats.clamped(words, after) if after.dtype.kind == "f" else after
        kind = "add" if operation == "add" else "mix"
        ids = news[0].ids if operation == "exch" else machine.tape.join(kind, [ids, news[0].ids])
    bits = to_bits(type_, after)
    written = None if ids is None else spread(ids, old.width)
    return np.ascontiguousarray(bits).view("u1").reshape(len(bits), old.width // 8), written


def turns(index: Array) -> list[Array]:
    """Which accesses happen together: those to one place one after the other."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    start = np.maximum.accumulate(np.where(first, np.arange(len(ordered)), 0))
    turn = np.empty(len(index), np.intp)
    turn[order] = np.arange(len(ordered)) - start
    return [np.flatnonzero(turn == number) for number in range(int(turn.max(initial=-1)) + 1)]


def _copy(machine: Machine, instruction: Statement, function: Function) -> Step:
    """cp.async: bytes from global to shared memory, zeros beyond those that the source has (9.7.10.25.3)."""
    target, source, number, *more = instruction.operands
    assert isinstance(number, Number)
    size = number.number
    to, from_ = machine.addresses(target, function), machine.addresses(source, function)
    count = (
        machine.register(more[0], "u32", function, loose=True)
        if more and "L2::cache_hint" not in instruction.parts
        else None
    )
    ignored = count is not None and count.width == 1  # a predicate, that the source is not read

    def step(group: ActiveThreads) -> None:
        threads = group.threads
        data, held = np.zeros((machine.threads, size), "u1"), np.zeros((machine.threads, size), np.int32)
        counts = np.full(machine.threads, size)
        if count is not None:
            machine.expect_set(count, threads, "what says how much is copied")
            counts = np.where(count.bits, 0, size) if ignored else np.minimum(count.bits, size)
        reading = threads[counts[threads] > 0]
        for each in np.unique(counts[reading]):
            alike = reading[counts[reading] == each]
            own = int(each)
            for memory, index, who in machine.access("global", from_(alike), own, alike, align=size):
                data[who, :own], held[who, :own] = machine.load(memory, index, own, who)
        for memory, index, who in machine.access("shared", to(threads), size, threads):
            machine.store(memory, index, data[who], held[who], who, Manner(COPIES))

    return step


def groups(by: int) -> Maker:
    """What commits copies of a kind as a group, or waits until no more than some groups are on their way."""

    def make(machine: Machine, instruction: Statement, _: Function) -> Step:
        waits, commits = "commit_group" not in instruction.parts, "wait_group" not in instruction.parts
        pending = instruction.operands[0].number if not commits else 0  # type: ignore[union-attr]

        def step(group: ActiveThreads) -> None:
            if commits:
                machine.order.commit(group.warps, by)
            if waits:
                machine.order.arrived(group.threads, pending, by)

        return step

    return make


def _own(machine: Machine, instruction: Statement, function: Function) -> Step:
    """mapa: an address in a block of the cluster, which is here the block itself."""
    result, source = (machine.register(each, instruction.type, function) for each in instruction.operands[:2])
    rank = machine.register(instruction.operands[2], "u32", function)

    def step(group: ActiveThreads) -> None:
        if (rank.bits != machine.special["%cluster_ctarank"])[group.mask].any():
            machine.log.stopped = f"{instruction.place}: memory of other blocks of the cluster is not run"
        result.put(source.bits.copy(), source.origin, group)

    return step


MAKERS: Mapping[str, Maker] = {
    **dict.fromkeys(IGNORED, nothing),
    "fence": _fences,
    "membar": _fences,
    "ld": _load,
    "ldu": _load,
    "st": _store,
    "atom": _atomic,
    "red": _atomic,
    "mapa": _own,
    "cp.async.ca": _copy,
    "cp.async.cg": _copy,
    **dict.fromkeys([f"cp.async.{name}" for name in ("commit_group", "wait_group", "wait_all")], groups(COPIES)),
}
