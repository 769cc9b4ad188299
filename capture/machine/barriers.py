"""What threads wait for: barriers of a block, and objects of mbarrier with their phases (9.7.13)."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...db.isa.instructions import WARP
from ...db.layout.algebra import Array
from .accesses import BLOCK, PLAIN, WEAK, Manner
from .exchange import named_by
from .launch import Maker, Step, Unknown, known
from .moves import space_of
from .order import Mbarrier, latest
from .ptx import Function, Name, Operand, Statement
from .schedule import ABSENT, ARRIVED, COMPLETE, ENDED, GATHERS, POLLS, RUNS, Machine, aligned
from .values import UNSET, ActiveThreads

#: Bytes of an object of mbarrier.
_OBJECT = 8

#: A token has the phase, and from this bit on how many arrivals that lacked.
_PENDING = 32

#: How threads use an object, at once with others.
_USES = Manner(strong=BLOCK)

_WORDS = "sync arrive aligned cta release acquire relaxed cluster parity expect_tx complete_tx noComplete noinc"


def _barrier(machine: Machine, instruction: Statement, function: Function) -> Step:
    """bar.sync, bar.arrive, and barrier with its words (9.7.13.1)."""
    words = {*instruction.parts[1:]}
    operation = next((word for word in ("popc", "and", "or") if word in words), None)
    others = words - {"sync", "arrive", "aligned", "cta", "red", operation, "u32", "pred"}
    if others or ("red" in words) != bool(operation):
        raise Unknown(f"{instruction.opcode} is not known")
    operands = [*instruction.operands]
    then = _counted(machine, operands.pop(0), operands.pop(), operation, function) if operation else None
    number, *count = machine.registers_of(operands, "u32", function)

    def step(group: ActiveThreads) -> None:
        expected = count[0].bits if count else None
        _expect_whole(machine, group)
        machine.wait(group, number.bits, expected, arrive="arrive" in words, then=then and then(group))

    return step


def _of_cluster(machine: Machine, instruction: Statement, _: Function) -> Step:
    """barrier.cluster, where each thread arrives and then waits for all that have not ended (9.7.13.4)."""
    known(instruction, "cluster arrive wait release acquire relaxed aligned")
    arrives = "arrive" in instruction.parts
    tells = {"red", "relaxed" if "relaxed" in instruction.parts else "release"}

    def step(group: ActiveThreads) -> None:
        _expect_whole(machine, group)
        if (wrong := group.mask & ((machine.of_cluster == ABSENT) != arrives)).any():
            words = "arrives again without a wait" if arrives else "waits without an arrive"
            machine.fault("barrier", np.flatnonzero(wrong), f"who executes {machine.opcode} {words}")
        if arrives:
            machine.of_cluster[group.mask] = ARRIVED
            machine.order.meet_cluster(group.threads, tells)
            machine.gather()
            return
        waits = group.mask & (machine.of_cluster == ARRIVED)
        machine.state[waits], machine.pc[waits] = GATHERS, machine.at + 1
        machine.leave(group.mask & (machine.of_cluster == COMPLETE))

    return step


def _warp(machine: Machine, instruction: Statement, function: Function) -> Step:
    """bar.warp.sync, which lanes may also reach at several places: then each knows of all.

    Those that came apart from others may have ended when these come.
    """
    members = machine.register(instruction.operands[0], "b32", function)

    def step(group: ActiveThreads) -> None:
        named_by(machine, group)
        for mask in machine.together(group.mask):
            named = members.bits[mask.argmax()] >> machine.lane & 1
            absent = named.astype(bool) & ~mask & ((machine.state != ENDED) | machine.apart)
            lacks = np.repeat(absent.reshape(-1, WARP).any(axis=1), WARP) & mask
            machine.order.meet_lanes(lacks, all_lanes=True)
            machine.apart |= lacks

    return step


def _expect_whole(machine: Machine, group: ActiveThreads) -> None:
    """Note warps of which only some threads come to a barrier that takes whole ones."""
    instruction, _ = machine.program[machine.at]
    mask, live = (each.reshape(-1, WARP) for each in (group.mask, machine.state != ENDED))
    parted = mask.any(axis=1) & (live & ~mask).any(axis=1)
    if aligned(instruction) and parted.any():
        name = ".".join(instruction.parts[: 2 + ("cluster" in instruction.parts)])
        words = f"only some threads of a warp execute {name}"
        machine.fault("divergence", np.flatnonzero(group.mask & np.repeat(parted, WARP)), words)


def _counted(
    machine: Machine, target: Operand, source: Operand, operation: str, function: Function
) -> Callable[[ActiveThreads], Callable[[Array], None]]:
    """bar.red: how many of those that meet have a predicate, or whether all or any has it."""
    type_ = "u32" if operation == "popc" else "pred"
    result = machine.register(target, type_, function)
    value, negated = machine.predicate(source, function)
    votes, unwritten = np.zeros((2, machine.threads), bool)

    counts: Mapping[str, Callable[[Array], Any]] = {"popc": np.count_nonzero, "and": np.all, "or": np.any}
    count = counts[operation]

    def meet(here: Array) -> None:
        found = count(votes[here])
        unset = any(count(np.where(unwritten[here], each, votes[here])) != found for each in (False, True))
        result.put_numbers(
            type_,
            np.full(machine.threads, found),
            np.full(machine.threads, UNSET, np.int32) if unset else None,
            ActiveThreads.of(here),
        )

    def vote(group: ActiveThreads) -> Callable[[Array], None]:
        votes[group.mask] = (value.bits ^ negated)[group.mask]
        unwritten[group.mask] = value.origins[group.mask, 0] <= UNSET
        return meet

    return vote


def _arrive(
    machine: Machine, barrier: Mbarrier, threads: Array, number: int, notice: Array, *, drops: bool = False
) -> None:
    """Threads arrive, so many times in all, and with them a notice of what they know."""
    barrier.known = latest(barrier.known, notice)
    if number > barrier.pending:
        machine.fault("barrier", threads, f"more threads arrive than the {barrier.count} of the mbarrier")
    barrier.pending -= number
    barrier.count -= number * drops
    turn(machine, barrier)


def turn(machine: Machine, barrier: Mbarrier) -> None:
    """Complete the phase if nothing is missing, and let those who wait for it go on."""
    if barrier.pending > 0 or barrier.due:
        return
    barrier.phase += 1
    barrier.pending = barrier.count
    barrier.done = barrier.known
    machine.state[(machine.state == POLLS) & (machine.polled == barrier.index)] = RUNS


def _init(machine: Machine, instruction: Statement, function: Function) -> Step:
    """mbarrier.init and inval."""
    space, addresses = space_of(instruction, "init inval"), machine.addresses(instruction.operands[0], function)
    starts, size = instruction.parts[1] == "init", machine.spaces.shared.size
    count = machine.register(instruction.operands[1], "u32", function) if starts else None

    def step(group: ActiveThreads) -> None:
        threads = group.threads
        for memory, index, who in machine.access(space, addresses(threads), _OBJECT, threads):
            # Nobody says what its bytes are: all are taken for changed.
            machine.writes(memory, index, ~memory.load(index, _OBJECT)[0], who, PLAIN)
            for at, thread in zip(index.tolist(), who.tolist(), strict=True):
                if count is None:
                    machine.mbarriers.pop(at, None)
                else:
                    number = sum(each // size == at // size for each in machine.mbarriers)
                    machine.mbarriers[at] = machine.order.mbarrier(at, int(count.bits[thread]), number)

    return step


def reached(machine: Machine, space: str, address: Array, threads: Array) -> list[tuple[Mbarrier, Array]]:
    """The objects at some addresses, each with the threads that name it, which must know of where they begin.

    Notes where there is none.
    """
    found = []
    for memory, index, who in machine.access(space, address, _OBJECT, threads):
        machine.reads(memory, index, _OBJECT, who, _USES)
        for at in np.unique(index).tolist():
            here = who[index == at]
            if at in machine.mbarriers:
                found.append((machine.mbarriers[at], here))
            else:
                machine.fault("unset", here, f"{machine.opcode} of a mbarrier that nobody has initialised")
    return found


def _signal(machine: Machine, instruction: Statement, function: Function) -> Step:
    """mbarrier.arrive, arrive_drop, expect_tx and complete_tx, and arrive with expect_tx (9.7.13.15)."""
    kind = instruction.parts[1]
    expects = "expect_tx" in instruction.parts
    arrives = kind.startswith("arrive")
    space = space_of(instruction, f"{_WORDS} {kind}")
    operands = [*instruction.operands]
    token = operands.pop(0) if arrives and isinstance(operands[0], Name) else Name("_")
    result = machine.register(token, "b64", function)
    addresses = machine.addresses(operands[0], function)
    amount = machine.register(operands[1], "u32", function) if operands[1:] else None

    def step(group: ActiveThreads) -> None:
        threads, tokens = group.threads, result.bits.copy()
        for barrier, who in reached(machine, space, addresses(threads), threads):
            counts = np.ones(len(who), np.int64) if expects or amount is None else amount.bits[who].astype("i8")
            tokens[who] = barrier.phase | barrier.pending - counts.cumsum() + counts << _PENDING
            number = len(who) if amount is None else int(amount.bits[who].sum())
            if expects or kind == "complete_tx":
                barrier.due += number if expects else -number
            if arrives:
                notice = machine.order.notice(np.unique(who // WARP), relaxed="relaxed" in instruction.parts)
                _arrive(machine, barrier, who, len(who) if expects else number, notice, drops=kind == "arrive_drop")
            else:
                turn(machine, barrier)
        result.put(tokens, None, group)

    return step


def _pending(machine: Machine, instruction: Statement, function: Function) -> Step:
    """mbarrier.pending_count: how many arrivals the phase of a token lacked."""
    result = machine.register(instruction.operands[0], "u32", function)
    token = machine.register(instruction.operands[1], "b64", function)
    return lambda group: result.put((token.bits >> np.uint64(_PENDING)).astype("u4"), None, group)


def _after_copies(machine: Machine, instruction: Statement, function: Function) -> Step:
    """cp.async.mbarrier.arrive: threads arrive when all copies that they have begun are there (9.7.13.15.16)."""
    space = space_of(instruction, f"{_WORDS} async mbarrier")
    addresses = machine.addresses(instruction.operands[0], function)

    def step(group: ActiveThreads) -> None:
        threads = group.threads
        for barrier, who in reached(machine, space, addresses(threads), threads):
            if "noinc" not in instruction.parts:
                barrier.pending += len(who)
            notice = machine.order.notice(np.unique(who // WARP), with_copies=True)
            _arrive(machine, barrier, who, len(who), notice)

    return step


def _wait(machine: Machine, instruction: Statement, function: Function) -> Step:
    """mbarrier.test_wait and try_wait, which here waits as long as it takes (9.7.13.15.16)."""
    space = space_of(instruction, f"{_WORDS} test_wait try_wait")
    target, place, phase = instruction.operands[:3]
    parity, tries = "parity" in instruction.parts, instruction.parts[1] == "try_wait"
    relaxed = BLOCK if "relaxed" in instruction.parts else WEAK
    result = machine.register(target, "pred", function)
    given = machine.register(phase, "u32" if parity else "b64", function)
    addresses = machine.addresses(place, function)

    def step(group: ActiveThreads) -> None:
        threads, done = group.threads, np.zeros(machine.threads, bool)
        lost = group.mask.copy()
        for barrier, who in reached(machine, space, addresses(threads), threads):
            own = given.bits[who] & np.array(1, given.bits.dtype)
            over = own != barrier.phase & 1
            done[who] = over
            machine.polled[who[over]] = -1
            if over.any():
                machine.order.learn(who[over], barrier.done, relaxed)
                machine.order.meet_lanes(group.mask & done, all_lanes=True)
            if tries:  # who finds the phase incomplete and asks again goes on when it is complete
                again = who[~over & (machine.polled[who] == barrier.index)]
                machine.state[again], machine.pc[again] = POLLS, machine.at
                machine.polled[who[~over]] = barrier.index
            lost[who] = False
        result.put(done, None, group)
        if lost.any():
            machine.stop(lost)  # nothing ever wakes who waits for what is no mbarrier

    return step


MAKERS: Mapping[str, Maker] = {
    "bar": _barrier,
    "barrier": _barrier,
    "bar.warp": _warp,
    "barrier.cluster": _of_cluster,
    "cp.async.mbarrier": _after_copies,
    "mbarrier.test_wait": _wait,
    "mbarrier.try_wait": _wait,
    "mbarrier.pending_count": _pending,
    "mbarrier.init": _init,
    "mbarrier.inval": _init,
} | dict.fromkeys([f"mbarrier.{name}" for name in ("arrive", "arrive_drop", "expect_tx", "complete_tx")], _signal)
