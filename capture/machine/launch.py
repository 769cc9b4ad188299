"""What a launch is: the kernel, how it is launched, what its blocks share, and what a run leaves behind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...db.errors import LanemapError
from .memory import MappedTensor, Memory
from .order import History
from .ptx import Function, Module, SourceLine, Statement
from .values import ActiveThreads, Tape

#: What an instruction does to the threads of a group, and what makes that for a machine.
Step = Callable[[ActiveThreads], None]
Maker = Callable[[Any, Statement, Function], Step]

#: What is raised where a step is made of an instruction with operands of a kind that it cannot take.
MEANINGLESS = (ValueError, TypeError, LookupError, AttributeError, AssertionError, StopIteration)

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
class Log:
    """What a run leaves behind, of all blocks together: faults by kind and place with their number, and counts.

    ``conflicts`` has the most words that a bank has to give at once, by instruction and place. ``leapt`` is what leaps
    of time have added to what clocks count in each step.
    """

    faults: dict[tuple[str, str, str], list[Any]] = field(default_factory=dict)
    conflicts: dict[tuple[str, str], int] = field(default_factory=dict)
    steps: int = 0
    leapt: int = 0
    stopped: str = ""

    def fault(self, fault: Fault, count: int = 1, of: str = "") -> None:
        """Note a fault; of one kind at one place, and of one thing there, the first is kept."""
        self.faults.setdefault((fault.kind, str(fault.place), of), [fault, 0])[1] += count


class Job(NamedTuple):
    """What all blocks of a launch share: the program, global memory, and the record of what happens.

    ``globe`` is global memory, and ``symbols`` are the addresses of variables in it. ``bind`` makes the step of an
    instruction, for which ``layouts`` finds fragments. ``typed`` are arguments whose types instructions must read.
    """

    module: Module
    entry: Function
    launch: Launch
    globe: Memory
    symbols: Mapping[str, int]
    tape: Tape
    log: Log
    history: History
    layouts: Any
    bind: Maker
    typed: Sequence[Any] = ()
