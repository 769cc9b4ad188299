"""Every form of ``mma`` and ``mma.sp::ordered_metadata`` as a row (PTX ISA 9.7.14.5.14 and 9.7.14.6.3).

A new instruction is a new row. What follows from shape and types, such as register counts, is derived.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product

from ..db.fragment import LANES, dimensions
from .metadata import Sparsity, sparsity

#: Bits that one element takes in a register; 8 for every other type, since narrower floats sit in 8-bit containers.
_BITS = {"f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16, "s4": 4, "u4": 4, "b1": 1}


@dataclass(frozen=True)
class Operand:
    """One operand of one instruction: its PTX type, its register vector, and its layout qualifier if it has one."""

    role: str
    type: str
    registers: int
    slots: int
    major: str | None = None

    @property
    def register_bits(self) -> int:
        """Width of one register: 64 for f64, else 32."""
        return 64 if self.type == "f64" else 32

    @property
    def slot_bits(self) -> int:
        """Width of one slot."""
        return self.register_bits // self.slots

    @property
    def size(self) -> int:
        """Slots of the whole warp."""
        return LANES * self.registers * self.slots


@dataclass(frozen=True)
class Instruction:
    """One form of one instruction. A and B have one type, C and D have another, the accumulator.

    ``kind`` and ``suffix`` are the qualifiers before and after the types. ``scale`` is the word of block scales that
    are all 1.0. ``target`` is the least target; one that ends in a letter stands for its family only.
    """

    name: str
    shape: str
    type: str
    accumulator: str
    target: str
    majors: tuple[str, str] = ("row", "col")
    kind: str = ""
    suffix: str = ""
    scale: int | None = None

    @property
    def sparse(self) -> bool:
        """Whether A is compressed and comes with metadata."""
        return self.name == "mma.sp"

    @property
    def mnemonic(self) -> str:
        """The instruction as PTX spells it. It is unique, and names the form everywhere."""
        name = "mma.sp::ordered_metadata" if self.sparse else self.name
        types = f"{self.accumulator}.{self.type}.{self.type}.{self.accumulator}"
        return f"{name}.sync.aligned.{self.shape}.{self.majors[0]}.{self.majors[1]}{self.kind}.{types}{self.suffix}"

    @property
    def dimensions(self) -> tuple[int, int, int]:
        """M, N and K."""
        m, k = dimensions(self.shape, "A")
        return m, dimensions(self.shape, "B")[1], k

    @property
    def computations(self) -> int:
        """Products that one warp computes."""
        return 4 if self.shape == "m8n8k4" and self.type == "f16" else 1

    @property
    def slot_bits(self) -> int:
        """Bits of one slot of A and B."""
        packed = self.type == "e2m1" and "mxf4" in self.kind
        return 4 if packed else _BITS.get(self.type, 8)

    @property
    def sparsity(self) -> Sparsity | None:
        """The rule by which A is compressed, None for a dense A."""
        return sparsity(self.slot_bits) if self.sparse else None

    @property
    def selectors(self) -> tuple[int | None, ...]:
        """Valid sparsity selectors, as many as fit: a selector takes the lanes that one product's metadata fills."""
        if self.sparsity is None:
            return (None,)
        m, _, k = self.dimensions
        return tuple(range(LANES * 8 // (m * k // self.sparsity.width)))

    def operand(self, role: str) -> Operand:
        """The operand of a role."""
        if role == "E":
            return Operand(role, self.type, 1, self.sparsity.slots if self.sparsity else 1)
        rows, columns = dimensions(self.shape, role)
        elements = self.computations * rows * columns // (2 if self.sparse and role == "A" else 1)
        of_type = self.type if role in "AB" else self.accumulator
        width = 64 if of_type == "f64" else 32
        slots = width // (self.slot_bits if role in "AB" else _BITS[of_type])
        major = dict(zip("AB", self.majors, strict=True)).get(role)
        return Operand(role, of_type, elements // LANES // slots, slots, major)

    def key(self, role: str, selector: int | None = None) -> tuple[str, str, str, str, str | None, int | None]:
        """What names the fragment of a role in any source (Fragment.key)."""
        operand = self.operand(role)
        return self.name, self.shape, operand.type, role, operand.major, selector if role == "E" else None

    def supports(self, target: str) -> bool:
        """Whether PTX allows the instruction on a target such as sm_90a."""
        mine, theirs = _number(self.target), _number(target)
        family = self.target[-1].isalpha()
        return target[-1].isalpha() and mine // 10 == theirs // 10 if family else theirs >= mine

    def __str__(self) -> str:
        return self.mnemonic


def _number(target: str) -> int:
    matched = re.fullmatch(r"sm_(\d+)[a-z]?", target)
    if matched is None:
        raise ValueError(target)
    return int(matched[1])


def _rows(
    name: str, shapes: str, types: str, accumulators: str, target: str, kind: str = "", suffix: str = ""
) -> tuple[Instruction, ...]:
    every = product(shapes.split(), types.split(), accumulators.split())
    return tuple(Instruction(name, *each, target, kind=kind, suffix=suffix) for each in every)


DENSE = (
    *(
        Instruction("mma", "m8n8k4", "f16", accumulator, "sm_70", (a, b))
        for a, b, accumulator in product(("row", "col"), ("row", "col"), ("f16", "f32"))
    ),
    *_rows("mma", "m8n8k4", "f64", "f64", "sm_80"),
    *_rows("mma", "m16n8k4 m16n8k8 m16n8k16", "f64", "f64", "sm_90"),
    *_rows("mma", "m16n8k8", "f16", "f16 f32", "sm_75"),
    *_rows("mma", "m16n8k16", "f16", "f16 f32", "sm_80"),
    *_rows("mma", "m16n8k8 m16n8k16", "bf16", "f32", "sm_80"),
    *_rows("mma", "m16n8k4 m16n8k8", "tf32", "f32", "sm_80"),
    *_rows("mma", "m8n8k16", "s8 u8", "s32", "sm_75"),
    *_rows("mma", "m16n8k16 m16n8k32", "s8 u8", "s32", "sm_80"),
    *_rows("mma", "m8n8k32", "s4 u4", "s32", "sm_75"),
    *_rows("mma", "m16n8k32 m16n8k64", "s4 u4", "s32", "sm_80"),
    *_rows("mma", "m8n8k128", "b1", "s32", "sm_75", suffix=".xor.popc"),
    *_rows("mma", "m16n8k128 m16n8k256", "b1", "s32", "sm_80", suffix=".xor.popc"),
    *_rows("mma", "m8n8k128 m16n8k128 m16n8k256", "b1", "s32", "sm_80", suffix=".and.popc"),
    *_rows("mma", "m16n8k16 m16n8k32", "e4m3 e5m2", "f16 f32", "sm_89"),
)

SPARSE = (
    *_rows("mma.sp", "m16n8k16 m16n8k32", "f16", "f16 f32", "sm_80"),
    *_rows("mma.sp", "m16n8k16 m16n8k32", "bf16", "f32", "sm_80"),
    *_rows("mma.sp", "m16n8k8 m16n8k16", "tf32", "f32", "sm_80"),
    *_rows("mma.sp", "m16n8k32 m16n8k64", "s8 u8", "s32", "sm_80"),
    *_rows("mma.sp", "m16n8k64 m16n8k128", "s4 u4", "s32", "sm_80"),
    *_rows("mma.sp", "m16n8k64", "e4m3 e5m2", "f32", "sm_89"),
)

_NARROW = "e4m3 e5m2 e3m2 e2m3 e2m1"

#: Four scales of 1.0 in each of the two types of block scales.
_UE8M0, _UE4M3 = 0x7F7F7F7F, 0x38383838
_MXF8F6F4 = ".kind::mxf8f6f4.block_scale.scale_vec::1X"
_SCALED = (
    ("mxf4.block_scale.scale_vec::2X", ".ue8m0", _UE8M0),
    ("mxf4nvf4.block_scale.scale_vec::2X", ".ue8m0", _UE8M0),
    ("mxf4nvf4.block_scale.scale_vec::4X", ".ue4m3", _UE4M3),
)

NARROW = (
    *_rows("mma", "m16n8k32", _NARROW, "f16 f32", "sm_120a", kind=".kind::f8f6f4"),
    *_rows("mma.sp", "m16n8k64", _NARROW, "f16 f32", "sm_120a", kind=".kind::f8f6f4"),
    *(
        Instruction(name, shape, "e2m1", "f32", "sm_120a", kind=f".kind::{kind}", suffix=suffix, scale=scale)
        for (name, shape), (kind, suffix, scale) in product((("mma", "m16n8k64"), ("mma.sp", "m16n8k128")), _SCALED)
    ),
    *(
        Instruction(name, shape, each, "f32", "sm_120a", kind=_MXF8F6F4, suffix=".ue8m0", scale=_UE8M0)
        for (name, shape), each in product((("mma", "m16n8k32"), ("mma.sp", "m16n8k64")), _NARROW.split())
    ),
)

#: Every form.
INSTRUCTIONS = (*DENSE, *SPARSE, *NARROW)
