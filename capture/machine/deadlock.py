"""Who waits for ever, and for what."""

from collections import defaultdict

import numpy as np

from ...db.isa.instructions import WARP
from ...db.text import spans
from .ptx import Statement, bits_of
from .schedule import ARRIVED, ENDED, GATHERS, MEETS, RUNS, TICKS, WAITS, Machine


def note_deadlock(machine: Machine, *, last: bool) -> None:
    """Note where threads of a machine wait for ever.

    Unless these are the ``last`` blocks, those that poll global memory may do so for what others write, which have not
    begun.
    """
    polls = {place: mask for place, mask in (machine.repeated or {}).items() if _polls(machine.program[place][0])}
    globe, accessed = machine.spaces.globe, machine.accessed
    abroad = [place for place in polls if any(memory is globe for memory, *_ in accessed[place])]
    if abroad and not last:
        blocks = machine.threads // machine.per_block
        words = f"who is there waits for what none of the {blocks} blocks writes that run at once"
        machine.log.stopped = f"{machine.program[min(abroad)][0].place}: {words}"
        return
    at = np.where(np.isin(machine.state, (WAITS, GATHERS)), machine.pc - 1, machine.pc)
    waits = (machine.state != ENDED) & (machine.state != RUNS)
    found = {int(place): waits & (at == place) for place in np.unique(at[waits])}
    found |= polls
    idle = (machine.state == RUNS) & ~np.logical_or.reduce([waits, *found.values()])
    found |= {int(place): idle & (at == place) for place in np.unique(at[idle])}
    tried = ", at each time that was tried" * (machine.leap > TICKS)
    for machine.at, mask in sorted(found.items()):
        lacking = defaultdict[str, list[int]](list)
        for warp in np.unique(np.flatnonzero(mask) // WARP).tolist():
            threads = warp * WARP + np.flatnonzero(mask[warp * WARP :][:WARP])
            lacking[_lacks(machine, int(threads[0]))] += threads.tolist()
        for words, those in lacking.items():
            warps = np.unique(machine.number[those] // WARP).tolist()
            who = f"warps {spans(warps)} wait" if len(warps) > 1 else f"warp {warps[0]} waits"
            machine.fault("deadlock", np.array(those), f"{who} for ever{tried}: {words}", of=words)


def _polls(instruction: Statement) -> bool:
    """Whether an instruction reads what others may write, or asks whether a phase is complete."""
    asks = instruction.parts[0] == "mbarrier" and instruction.parts[1].endswith("wait")
    return asks or (instruction.parts[0] in ("ld", "atom") and not {"param", "const", "local"} & {*instruction.parts})


def _lacks(machine: Machine, thread: int) -> str:
    """What a thread waits for at the present instruction."""
    instruction, _ = machine.program[machine.at]
    if machine.state[thread] == WAITS:
        number = int(machine.barrier[thread, 0])
        _, there, wanted = machine.gathered(int(machine.owner[thread]), number)
        return f"barrier {number} lacks {wanted - there} of {wanted} threads"
    if machine.state[thread] == GATHERS:
        cluster = machine.owner // machine.cluster
        came = machine.of_cluster[(machine.state != ENDED) & (cluster == cluster[thread])] == ARRIVED
        return f"the barrier of the cluster lacks {np.count_nonzero(~came)} of {len(came)} threads"
    if machine.state[thread] == MEETS:
        return "lanes of its warp do not come"
    if not _polls(instruction):
        return "in a loop that reads nothing which others write"
    accessed = machine.accessed[machine.at]
    found = [(memory, index[who == thread]) for memory, index, who in accessed if thread in who]
    if not found:
        return f"{instruction.parts[0]} has a wrong address again and again"
    memory, index = found[-1]
    if instruction.parts[0] == "mbarrier":
        barrier = machine.mbarriers[int(index[0])]
        return f"phase {barrier.phase} of the mbarrier lacks {barrier.pending} arrivals and {barrier.due} bytes"
    size = bits_of(instruction.type) // 8
    value = int.from_bytes(memory.load(index, size)[0].tobytes(), "little")
    where = f"{memory.name} memory at {memory.near(int(index[0]) % memory.size)}"
    return f"{instruction.parts[0]} reads {value} in {where} again and again, and nobody writes another value"
