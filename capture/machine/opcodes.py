"""Which instructions the machine knows: what makes the step of each, and which operands and words it takes (9.7)."""

import csv
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from . import (
    arithmetic,
    barriers,
    bits,
    bulk,
    comparisons,
    control,
    convert,
    exchange,
    moves,
    tensor,
    tensor_memory,
    video,
    warpgroup,
)
from .dependence import propagate_unset
from .launch import Maker, Step, Unknown
from .ptx import Function, Statement
from .schedule import Machine

#: What computes registers of others; what only moves bytes leaves each what it is.
_COMPUTES = {
    make
    for room in (arithmetic, bits, comparisons, convert, exchange, video)
    for name, make in room.MAKERS.items()
    if name not in ("mov", "shfl")
}

_ROOMS = (arithmetic, barriers, bits, bulk, comparisons, control, convert, exchange, moves, video)

#: What makes the step of an instruction, by the words that it begins with.
MAKERS: Mapping[str, Maker] = {
    name: make for room in (*_ROOMS, tensor, tensor_memory, warpgroup) for name, make in room.MAKERS.items()
}

_TABLE = (Path(__file__).parent / "takes.csv").read_text("utf-8")


class Takes(NamedTuple):
    """How many operands an instruction has, at least and at most, of which types it is, and which words it has else.

    ``words`` are groups, of each of which one word must stand there, or in brackets may, behind a plus with one operand
    more; ``*`` is what its step knows.
    """

    least: int
    most: int
    words: str
    types: Sequence[str]

    def more(self, words: Sequence[str]) -> int | None:
        """How many operands words add; None where they are not all that must stand there, or others."""
        left, added = [*words], 0
        for group in self.words.split():
            given = [word for word in left if word in group.strip("[+]").split("|")]
            if group == "*":
                return added
            if len(given) > 1 or not (given or group.startswith("[")):
                return None
            added += len(given) if "+" in group else 0
            left = [word for word in left if word not in given]
        return None if left else added


#: What an instruction takes by its first word; those that are not named take what their steps know.
TAKES: dict[str, list[Takes]] = {}
for names, least, most, words, types in islice(csv.reader(_TABLE.splitlines()), 1, None):
    for name in names.split():
        TAKES.setdefault(name, []).append(Takes(int(least), int(most), words, types.split()))


@cache
def refused(parts: tuple[str, ...], count: int) -> str:
    """Why an instruction of these parts does not take so many operands; empty where it does."""
    opcode, rows = ".".join(parts), TAKES.get(parts[0], [])
    if not rows or parts[1:2] == ("async",):
        return ""
    *words, type_ = parts[1:] or [""]
    of_type = [row for row in rows if type_ in row.types]
    if not of_type:
        return f"{opcode} is not known: it is of {', '.join(dict.fromkeys(each for row in rows for each in row.types))}"
    counts = [(row.least + more, row.most + more) for row in of_type if (more := row.more(words)) is not None]
    if not counts:
        nearest = max((row.words for row in of_type), key=lambda row: len({*words} & {*re.findall(r"[\w:]+", row)}))
        return f"{opcode} is not known: its words for {type_} are {nearest.replace('+', '') or 'none'}"
    if not any(least <= count <= most for least, most in counts):
        return f"{opcode} is not known with {count} operands"
    return ""


def bind(machine: Machine, instruction: Statement, function: Function) -> Step:
    """What an instruction does. Raises Unknown where it has other operands, types or words than it ever takes."""
    parts = instruction.parts
    begins = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    make = next((MAKERS[words] for words in begins if words in MAKERS), None)
    if make is None:
        raise Unknown(f"{instruction.opcode} is not known")
    if words := refused(parts, len(instruction.operands)):
        raise Unknown(words)
    step = make(machine, instruction, function)
    if make not in _COMPUTES:
        return step
    return propagate_unset(machine, instruction, function, step, bitwise=make in bits.MAKERS.values())
