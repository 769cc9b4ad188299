"""Which instructions the machine knows: what makes the step of each, and which operands and types it takes (9.7)."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
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
from .dependence import followed
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
    """How many operands an instruction takes, at least and at most, and of which types it may be."""

    least: int
    most: int
    types: Sequence[str]


#: The same by the first word of an instruction and another one, or none where it has no such.
TAKES: Mapping[tuple[str, str], Takes] = {
    (name, word): Takes(int(least), int(most), types.split())
    for names, words, least, most, types in islice(csv.reader(_TABLE.splitlines()), 1, None)
    for name in names.split()
    for word in words.split() or [""]
}


def bind(machine: Machine, instruction: Statement, function: Function) -> Step:
    """What an instruction does. Raises Unknown where it has another number of operands, or a type that it never has."""
    parts = instruction.parts
    begins = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    make = next((MAKERS[words] for words in begins if words in MAKERS), None)
    if make is None:
        raise Unknown(f"{instruction.opcode} is not known")
    named = ((parts[0], word) for word in (*parts[1:], ""))
    takes = next((TAKES[key] for key in named if key in TAKES), None)
    if takes and parts[1:2] != ("async",):
        if not takes.least <= len(instruction.operands) <= takes.most:
            raise Unknown(f"{instruction.opcode} is not known with {len(instruction.operands)} operands")
        if instruction.type not in takes.types:
            raise Unknown(f"{instruction.opcode} is not known: it is of {', '.join(takes.types)}")
    step = make(machine, instruction, function)
    return followed(machine, instruction, function, step) if make in _COMPUTES else step
