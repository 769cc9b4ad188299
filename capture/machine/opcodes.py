"""Which instructions the machine knows: what makes the step of each, and which operands and types it takes (9.7)."""

from __future__ import annotations

from collections.abc import Mapping
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
    warpgroup,
)
from .launch import Maker, Step, Unknown
from .ptx import Function, Statement
from .schedule import Machine

_ROOMS = (arithmetic, barriers, bits, bulk, comparisons, control, convert, exchange, moves)

#: What makes the step of an instruction, by the words that it begins with.
MAKERS: Mapping[str, Maker] = {
    name: make for room in (*_ROOMS, tensor, tensor_memory, warpgroup) for name, make in room.MAKERS.items()
}

_BITS, _WHOLE = "b16 b32 b64", "u16 u32 u64 s16 s32 s64"
_FLOAT, _LONG = "f16 f16x2 bf16 bf16x2 f32 f64", "u32 u64 s32 s64"
_PLAIN = f"{_BITS} {_WHOLE} f32 f64"


class Takes(NamedTuple):
    """How many operands an instruction takes, at least and at most, and of which types it may be."""

    least: int
    most: int
    types: str


#: The same by the first word of an instruction, where all that begin with it are alike.
TAKES: Mapping[str, Takes] = {
    name: Takes(least, most, types)
    for names, least, most, types in (
        ("abs neg", 2, 2, f"s16 s32 s64 {_FLOAT}"),
        ("add", 3, 3, f"{_WHOLE} {_FLOAT} f32x2 u16x2 s16x2"),
        ("sub mul", 3, 3, f"{_WHOLE} {_FLOAT} f32x2"),
        ("fma", 4, 4, f"{_FLOAT} f32x2"),
        ("min max", 3, 4, f"{_WHOLE} {_FLOAT} u16x2 s16x2"),
        ("div", 3, 3, f"{_WHOLE} f32 f64"),
        ("mad", 4, 4, f"{_WHOLE} f32 f64"),
        ("rem", 3, 3, _WHOLE),
        ("sad", 4, 4, _WHOLE),
        ("mul24", 3, 3, "u32 s32"),
        ("mad24", 4, 4, "u32 s32"),
        ("addc subc", 3, 3, _LONG),
        ("madc", 4, 4, _LONG),
        ("dp2a dp4a", 4, 4, "u32 s32"),
        ("sqrt rsqrt rcp", 2, 2, "f32 f64"),
        ("copysign", 3, 3, "f32 f64"),
        ("testp", 2, 2, "f32 f64"),
        ("lg2 sin cos", 2, 2, "f32"),
        ("ex2 tanh", 2, 2, "f16 f16x2 bf16 bf16x2 f32"),
        ("popc clz brev", 2, 2, "b32 b64"),
        ("bfind", 2, 2, _LONG),
        ("cnot", 2, 2, _BITS),
        ("not", 2, 2, f"pred {_BITS}"),
        ("and or xor", 3, 3, f"pred {_BITS}"),
        ("lop3", 5, 6, "b32"),
        ("shl", 3, 3, _BITS),
        ("shr", 3, 3, f"{_BITS} {_WHOLE}"),
        ("shf prmt", 4, 4, "b32"),
        ("bmsk", 3, 3, "b32"),
        ("szext", 3, 3, "u32 s32"),
        ("bfe", 4, 4, _LONG),
        ("bfi", 5, 5, "b32 b64"),
        ("mov", 2, 2, f"pred {_PLAIN}"),
        ("cvta", 2, 2, "u32 u64"),
        ("mapa", 3, 3, "u32 u64"),
        ("setp set", 3, 4, f"{_PLAIN} f16 f16x2 bf16 bf16x2"),
        ("selp", 4, 4, _PLAIN),
        ("slct", 4, 4, "s32 f32"),
        ("ld ldu st", 2, 3, f"b8 u8 s8 {_PLAIN}"),
        ("atom", 3, 5, f"{_BITS} {_LONG} {_FLOAT}"),
        ("red", 2, 4, f"{_BITS} {_LONG} {_FLOAT}"),
        ("shfl", 5, 5, "b32"),
        ("match", 3, 3, "b32 b64"),
        ("redux", 3, 3, "b32 u32 s32 f32"),
    )
    for name in names.split()
}


def bind(machine: Machine, instruction: Statement, function: Function) -> Step:
    """What an instruction does. Raises Unknown where it has another number of operands, or a type that it never has."""
    parts = instruction.parts
    begins = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    make = next((MAKERS[words] for words in begins if words in MAKERS), None)
    if make is None:
        raise Unknown(f"{instruction.opcode} is not known")
    takes = TAKES.get(parts[0])
    if takes and parts[1:2] != ("async",):
        if not takes.least <= len(instruction.operands) <= takes.most:
            raise Unknown(f"{instruction.opcode} is not known with {len(instruction.operands)} operands")
        if instruction.type not in takes.types.split():
            raise Unknown(f"{instruction.opcode} is not known: {parts[0]} is of {takes.types.replace(' ', ', ')}")
    return make(machine, instruction, function)
