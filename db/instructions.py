"""The table of instructions: what is true of an instruction, whoever reports its layouts.

An ``Instruction`` is a row for each name, with the threads that execute it and what its operands are. A ``Form`` is a
row for each mnemonic: shape, types, targets. What follows from them, such as register counts, is derived. A new
instruction is a new row. Sources: PTX ISA 9.7.14 (mma, mma.sp).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from math import prod
from typing import Any, NamedTuple

from .errors import LanemapError
from .spans import spans

#: Threads of a warp.
WARP = 32

#: PTX ISA version that forms need, but for the few that say which later one has them.
VERSION = (8, 7)

#: Threads of a warpgroup.
WARPGROUP = 128

#: Bits that one element takes in a register. Floats narrower than 8 bits sit in 8-bit containers, but see _PACKED.
_BITS = {
    **dict.fromkeys(("f64",), 64),
    **dict.fromkeys(("f32", "s32", "tf32", "b32"), 32),
    **dict.fromkeys(("f16", "bf16", "b16"), 16),
    **dict.fromkeys(("s4", "u4"), 4),
    "b1": 1,
}

#: Where e2m1 is packed, two to a byte (``.kind::mxf4`` and ``.kind::mxf4nvf4``, 9.7.14.3).
_PACKED = {("mma", "m16n8k64", "e2m1"), ("mma.sp", "m16n8k128", "e2m1")}

#: Where each quad pair, a group of eight lanes, computes a product of its own (9.7.14.5.1). A and B have both majors.
_QUAD_PAIRS = {("mma", "m8n8k4", "f16"), ("mma", "m8n8k4", "f32")}

#: What the axes of Tensor Memory are called (9.7.16.1): unlike those of matrices, not by their letters.
_MEMORY = {"l": "memory lane", "c": "column"}

_SHAPE = re.compile(r"m([0-9]{1,5})n([0-9]{1,5})(?:k([0-9]{1,5}))?")
#: Lanes and bits of each, and whether there are two of it (9.7.16.8.3).
_TENSOR_MEMORY = re.compile(r"(16|32)x(32|64|128|256)b(x2)?")
_SCALES = re.compile(r"scale_vec::([124])X", re.IGNORECASE)
_COUNT = re.compile(r"x([0-9]{1,3})")
_LARGEST = (1 << 15) - 1


@dataclass(frozen=True)
class Instruction:
    """One instruction, as PTX spells its name.

    ``axes`` says for each role which dimensions of the shape its rows and columns count: ``mk`` is M x K, ``m1`` is one
    column, ``s`` counts block scales, and ``lc`` lanes and columns of Tensor Memory. ``threads`` execute it together.
    Elements of the roles in ``windowed`` may stand for a window of columns. ``mnemonic`` is how mnemonics begin, where
    not with the name.
    """

    name: str
    axes: Mapping[str, str]
    threads: int = WARP
    windowed: str = ""
    mnemonic: str = ""

    @property
    def multiplies(self) -> bool:
        """Whether it multiplies, and does not only move a matrix."""
        return "k" in "".join(self.axes.values())

    @property
    def sparse(self) -> bool:
        """Whether A is compressed and comes with metadata E."""
        return "E" in self.windowed


_PRODUCT = {"A": "mk", "B": "kn", "C": "mn", "D": "mn"}
_SPARSE = {**_PRODUCT, "E": "mk"}
_BLOCK_SCALES = {"SFA": "ms", "SFB": "sn"}

#: Operands that only some lanes supply, in some of their slots.
SUPPLIED = ("E", "p", *_BLOCK_SCALES)

INSTRUCTIONS: Mapping[str, Instruction] = {
    each.name: each
    for each in (
        Instruction("mma", _PRODUCT | _BLOCK_SCALES),
        Instruction("mma.sp", _SPARSE | _BLOCK_SCALES, windowed="AE", mnemonic="mma.sp::ordered_metadata"),
        Instruction("wgmma", {"A": "mk", "D": "mn"}, WARPGROUP, mnemonic="wgmma.mma_async"),
        Instruction("wgmma.sp", {"A": "mk", "D": "mn", "E": "mk"}, WARPGROUP, "AE", "wgmma.mma_async.sp"),
        Instruction("wmma", _PRODUCT),
        Instruction("ldmatrix", {"r": "mn", "p": "m1"}),
        Instruction("stmatrix", {"r": "mn", "p": "m1"}),
        Instruction("movmatrix", {"A": "mn", "D": "nm"}),
        Instruction("tcgen05.ld", {"r": "lc"}),
        Instruction("tcgen05.st", {"r": "lc"}),
    )
}


def instruction(name: str) -> Instruction:
    """The row of an instruction. One that is not in the table is taken for a product that a warp computes."""
    return INSTRUCTIONS.get(name) or Instruction(name, _SPARSE)


def axis_name(axis: str) -> str:
    """What one of the axes of an instruction is called.

    >>> axis_name("m"), axis_name("l")
    ('M', 'memory lane')
    """
    return _MEMORY.get(axis, axis.upper())


@cache
def dimensions(shape: str, role: str, name: str = "mma.sp", qualifiers: str | None = None) -> tuple[int, int]:
    """Rows and columns of the matrix that a role holds; those of Tensor Memory are its lanes and 32-bit columns.

    >>> dimensions("m16n8k32", "B")
    (32, 8)
    >>> dimensions("16x256b", "r", "tcgen05.ld", "x2")
    (16, 16)

    Raises:
        LanemapError: the shape or the role is invalid.
    """
    extents = _extents(shape, qualifiers or "")
    axes = instruction(name).axes
    if role not in axes:
        raise LanemapError(f"invalid role {role!r}: {name} has {', '.join(axes)}")
    if missing := set(axes[role]) - set(extents):
        lacking = missing.pop()
        if lacking == "s":
            raise LanemapError(f"{role} of {name} {shape} needs its number of scales: write scale_vec::2X")
        example = "16x256b" if lacking in _MEMORY else "m16n8k16"
        raise LanemapError(f"shape {shape} of {name} has no {axis_name(lacking)}: write {example}")
    if not all(0 < extent <= _LARGEST for extent in extents.values()):
        raise LanemapError(f"invalid shape {shape}: each dimension is 1 to {_LARGEST}")
    return extents[axes[role][0]], extents[axes[role][1]]


def _extents(shape: str, qualifiers: str) -> dict[str, int]:
    """The extent of each axis that a shape has: two 16-bit columns of Tensor Memory may be packed into one of 32."""
    scales = _SCALES.match(qualifiers)
    known = {"1": 1} | ({"s": int(scales[1])} if scales else {})
    if memory := _TENSOR_MEMORY.fullmatch(shape):
        count = _COUNT.match(qualifiers)
        columns = int(memory[2]) // 32 * (int(count[1]) if count else 1) * (2 if "pack::16b" in qualifiers else 1)
        return known | {"l": int(memory[1]), "c": columns}
    if matched := _SHAPE.fullmatch(shape):
        return known | {axis: int(each) for axis, each in zip("mnk", matched.groups(), strict=True) if each}
    raise LanemapError(f"{shape!r} is not a shape: write m16n8k16 for M=16, N=8, K=16")


def computations(name: str, shape: str, type: str, qualifiers: str | None = None) -> int:  # noqa: A002 - PTX's word
    """How many products or matrices one execution handles: four in m8n8k4 with f16, two in ldmatrix.x2, mostly one.

    A move of Tensor Memory handles one whatever it repeats, or two that are apart (16x32bx2).
    """
    if memory := _TENSOR_MEMORY.fullmatch(shape):
        return 2 if memory[3] else 1
    counted = _COUNT.match(qualifiers or "")
    return 4 if (name, shape, type) in _QUAD_PAIRS else int(counted[1]) if counted else 1


def copies(name: str, shape: str, type: str, role: str) -> int:  # noqa: A002 - PTX's word
    """How often an instruction holds each element of an operand.

    A and B of wmma with f16 have eight registers whatever the shape (9.7.14.4.1); everything else is held once.
    """
    if (name, type) != ("wmma", "f16") or role not in ("A", "B"):
        return 1
    return 8 * 2 * WARP // prod(dimensions(shape, role, name))


def quad_pair(lane: Any) -> Any:
    """The computation that a lane takes part in where a warp does four: lanes 0-3 and 16-19 do the first."""
    return lane // 4 % 4 + 1


def majors(name: str, shape: str, type: str, role: str) -> tuple[str, ...]:  # noqa: A002 - PTX's word
    """The layout qualifiers that A and B of mma and mma.sp come in; none for other roles and instructions.

    Those of wmma name layouts in memory and are among the qualifiers of a key.
    """
    if role not in ("A", "B") or name not in ("mma", "mma.sp"):
        return ()
    return ("row", "col") if (name, shape, type) in _QUAD_PAIRS else ("row",) if role == "A" else ("col",)


class Key(NamedTuple):
    """What names a fragment within its source. As text it is the fragment's name in words."""

    instruction: str
    shape: str
    type: str
    role: str
    major: str | None = None
    selector: int | None = None
    qualifiers: str | None = None

    @property
    def several_majors(self) -> bool:
        """Whether the operand comes in both majors, so that a name must say which."""
        return len(majors(self.instruction, self.shape, self.type, self.role)) > 1

    def __str__(self) -> str:
        return name_of([self])


def name_of(keys: Iterable[Key]) -> str:
    """The name of fragments that differ only in type.

    >>> name_of([Key("mma", "m8n8k16", type, "B") for type in ("s8", "u8")])
    'B of mma m8n8k16 s8 u8'
    """
    keys = list(keys)
    first = keys[0]
    parts = [first.role, "of", first.instruction, first.shape, " ".join(key.type for key in keys)]
    parts += [first.qualifiers] if first.qualifiers else []
    parts += [f"{first.major} major"] if first.several_majors and first.major else []
    parts += [f"selector {first.selector}"] if first.selector is not None else []
    return " ".join(parts)


def undecided(qualifiers: str | None) -> str | None:
    """Qualifiers without the numbers that select block scales.

    >>> undecided("scale_vec::2X.byte_id::2.thread_id::1")
    'scale_vec::2X.byte_id::.thread_id::'
    """
    return qualifiers and re.sub(r"(?<=_id::)\d", "", qualifiers)


def choices(qualifiers: Iterable[str | None]) -> str | None:
    """Qualifiers that differ only in such numbers, as words.

    >>> choices([f"scale_vec::1X.byte_id::{byte}" for byte in range(4)])
    'scale_vec::1X byte_id::0-3'
    """
    known = [each for each in dict.fromkeys(qualifiers) if each]
    if not known or "_id::" not in known[0]:
        return next(iter(known), None)
    merged = []
    for words in zip(*(each.split(".") for each in known), strict=True):
        numbers = spans(int(word[-1]) for word in words if "_id::" in word)
        merged.append(words[0][:-1] + numbers.replace(" ", "") if numbers else words[0])
    return " ".join(merged)


def register_bits(type: str) -> int:  # noqa: A002 - PTX's word
    """Width of the registers that hold a type: 64 for f64, else 32."""
    return 64 if type == "f64" else 32


def element_bits(name: str, shape: str, type: str) -> int:  # noqa: A002 - PTX's word
    """Bits that an element of A, B, C or D takes in its register."""
    return 4 if (name, shape, type) in _PACKED else _BITS.get(type, 8)


@dataclass(frozen=True)
class Sparsity:
    """How a chunk of columns is stored: ``width`` columns, of which indices select runs of ``group`` columns.

    ``indices`` gives, for each valid 4-bit vector of metadata, the index in each of its fields, low bits first
    (9.7.14.6.1).
    """

    title: str
    width: int
    group: int
    indices: Mapping[int, tuple[int, ...]]

    @property
    def fields(self) -> int:
        """Fields in one 4-bit vector of metadata."""
        return len(next(iter(self.indices.values())))

    @property
    def field_bits(self) -> int:
        """Bits of one field."""
        return 4 // self.fields

    @property
    def steps(self) -> tuple[tuple[int, int], ...]:
        """For each field, two valid vectors: the second has a higher index in that field and is otherwise the same."""

        def moved(pair: tuple[int, int]) -> list[int]:
            before, after = (self.indices[vector] for vector in pair)
            return [place for place in range(self.fields) if before[place] != after[place]]

        pairs = list(combinations(self.indices, 2))
        return tuple(next(pair for pair in pairs if moved(pair) == [place]) for place in range(self.fields))

    @property
    def slots(self) -> int:
        """Fields in one 32-bit register of metadata."""
        return 32 // self.field_bits


_ASCENDING = {vector: (vector & 3, vector >> 2) for vector in (0x4, 0x8, 0x9, 0xC, 0xD, 0xE)}
TWO_OF_FOUR = Sparsity("2:4", width=4, group=1, indices=_ASCENDING)
PAIRWISE = Sparsity("pairwise 4:8", width=8, group=2, indices=_ASCENDING)
ONE_OF_TWO = Sparsity("1:2", width=2, group=1, indices={0x4: (0,), 0xE: (1,)})
DENSE = Sparsity("dense", width=1, group=1, indices={0x0: (0,)})


def sparsity(name: str, shape: str, type: str) -> Sparsity:  # noqa: A002 - PTX's word
    """The rule by which an instruction stores an A of a type: DENSE where all of it is stored."""
    if not instruction(name).sparse:
        return DENSE
    return {4: PAIRWISE, 32: ONE_OF_TWO}.get(element_bits(name, shape, type), TWO_OF_FOUR)


@dataclass(frozen=True)
class Operand:
    """One operand of a form: its PTX type, its register vector, its layout qualifier, and the threads that hold it."""

    role: str
    type: str
    registers: int
    slots: int
    major: str | None = None
    threads: int = WARP

    @property
    def register_bits(self) -> int:
        """Width of one register."""
        return register_bits(self.type)

    @property
    def slot_bits(self) -> int:
        """Width of one slot."""
        return self.register_bits // self.slots

    @property
    def size(self) -> int:
        """Slots of all threads."""
        return self.threads * self.registers * self.slots


def operand(key: Key) -> Operand:
    """The operand that a key names, with the registers that it takes."""
    name, shape, type_, role, major, _, qualifiers = key
    threads = INSTRUCTIONS[name].threads
    slots = register_bits(type_) // (16 if "pack::16b" in (qualifiers or "") else element_bits(name, shape, type_))
    if role in SUPPLIED:
        slots = {"p": 1, "E": sparsity(name, shape, type_).slots}.get(role, slots)
        return Operand(role, type_, 1, slots, major, threads)
    cells = computations(name, shape, type_, qualifiers) * prod(dimensions(shape, role, name, qualifiers))
    stored = 2 if role == "A" and INSTRUCTIONS[name].sparse else 1
    elements = copies(name, shape, type_, role) * cells // stored // threads
    return Operand(role, type_, elements // slots, slots, major, threads)


def supports(target: str, other: str) -> bool:
    """Whether what needs ``target`` runs on another, such as sm_90a. One with a letter stands for its family only."""
    mine, theirs = _number(target), _number(other)
    return other[-1].isalpha() and mine // 10 == theirs // 10 if target[-1].isalpha() else theirs >= mine


def onwards(target: str) -> str:
    """A target and those that have all that it has, in short.

    >>> onwards("sm_80"), onwards("sm_90a")
    ('sm_80+', 'sm_90a')
    """
    return target if target[-1].isalpha() else f"{target}+"


@dataclass(frozen=True)
class Form:
    """One form of an instruction: a mnemonic, with the types of A, B, C and D.

    ``kind`` and ``suffix`` are the qualifiers before and after the types. ``scale`` is the word of block scales that
    are all 1.0. ``target`` is the least target; one that ends in a letter stands for its family only. ``version`` is
    the PTX ISA version that it needs.
    """

    name: str
    shape: str
    a: str
    b: str
    c: str
    d: str
    target: str
    majors: tuple[str, str] = ("row", "col")
    kind: str = ""
    suffix: str = ""
    scale: int | None = None
    version: tuple[int, int] = VERSION

    @property
    def sparse(self) -> bool:
        """Whether A is compressed and comes with metadata."""
        return INSTRUCTIONS[self.name].sparse

    @property
    def threads(self) -> int:
        """The threads that execute it together: WARP or WARPGROUP."""
        return INSTRUCTIONS[self.name].threads

    @property
    def roles(self) -> str:
        """The operands that threads hold, but for E: that depends on the selector."""
        return "".join(role for role in INSTRUCTIONS[self.name].axes if role not in SUPPLIED)

    @property
    def types(self) -> Mapping[str, str]:
        """The type of each role; that of E is the type of the A that it belongs to."""
        types = {"A": self.a, "B": self.b, "C": self.c, "D": self.d} | ({"E": self.a} if self.sparse else {})
        return types if self.scale is None else types | dict.fromkeys(_BLOCK_SCALES, self.suffix.removeprefix("."))

    @property
    def mnemonic(self) -> str:
        """The instruction as PTX spells it. It is unique, and names the form everywhere."""
        name, layouts = INSTRUCTIONS[self.name].mnemonic or self.name, ".".join(self.majors)
        if self.name == "wmma":
            types = (self.d, self.c) if self.a == "f16" else (self.d, self.a, self.b, self.c)
            return f"wmma.mma{self.suffix}.sync.aligned.{layouts}.{self.shape}.{'.'.join(types)}"
        if self.threads == WARPGROUP:
            return f"{name}.sync.aligned.{self.shape}.{self.d}.{self.a}.{self.b}{self.suffix}"
        types = (self.d, self.a, self.b, self.c)
        return f"{name}.sync.aligned.{self.shape}.{layouts}{self.kind}.{'.'.join(types)}{self.suffix}"

    @property
    def dimensions(self) -> tuple[int, int, int]:
        """M, N and K."""
        (m, k), (_, n) = (dimensions(self.shape, role, self.name) for role in "AD")
        return m, n, k

    @property
    def computations(self) -> int:
        """Products that one execution computes."""
        return computations(self.name, self.shape, self.a)

    @property
    def sparsity(self) -> Sparsity | None:
        """The rule by which A is compressed, None for a dense A."""
        return sparsity(self.name, self.shape, self.a) if self.sparse else None

    @property
    def selectors(self) -> tuple[int | None, ...]:
        """Valid sparsity selectors, as many as fit: a selector takes the lanes that one product's metadata fills."""
        if self.sparsity is None:
            return (None,)
        m, _, k = self.dimensions
        return tuple(range(self.threads * 8 // (m * k // self.sparsity.width)))

    def operand(self, role: str) -> Operand:
        """The operand of a role."""
        return operand(self.key(role))

    def key(self, role: str, selector: int | None = None) -> Key:
        """What names the fragment of a role in any source."""
        layout = dict(zip("AB", self.majors, strict=True)).get(role)
        moved = self.name == "wmma"
        major, qualifiers = (None, layout) if moved else (layout if self.name.startswith("mma") else None, None)
        return Key(self.name, self.shape, self.types[role], role, major, selector if role == "E" else None, qualifiers)

    def supports(self, target: str) -> bool:
        """Whether PTX allows the form on a target such as sm_90a."""
        return supports(self.target, target)

    @property
    def targets(self) -> str:
        """The targets that have the form, in short: ``sm_80+`` is every later one, too."""
        return onwards(self.target)

    def __str__(self) -> str:
        return self.mnemonic


def _number(target: str) -> int:
    matched = re.fullmatch(r"sm_(\d+)[a-z]?", target)
    if matched is None:
        raise ValueError(target)
    return int(matched[1])


def _rows(
    name: str, shapes: str, types: str, accumulators: str, target: str, kind: str = "", suffix: str = ""
) -> tuple[Form, ...]:
    """Forms whose A and B have one type, and C and D another."""
    every = product(shapes.split(), types.split(), accumulators.split())
    return tuple(Form(name, shape, t, t, acc, acc, target, kind=kind, suffix=suffix) for shape, t, acc in every)


DENSE_FORMS = (
    *(
        Form("mma", "m8n8k4", "f16", "f16", accumulator, accumulator, "sm_70", (a, b))
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

SPARSE_FORMS = (
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
    (".kind::mxf4.block_scale.scale_vec::2X", ".ue8m0", _UE8M0, VERSION),
    (".kind::mxf4nvf4.block_scale.scale_vec::2X", ".ue8m0", _UE8M0, VERSION),
    (".kind::mxf4nvf4.block_scale.scale_vec::4X", ".ue4m3", _UE4M3, VERSION),
    (".kind::mxf4nvf4.block_scale.scale_vec::4X", ".ue8m0", _UE8M0, (9, 1)),
)

NARROW_FORMS = (
    *_rows("mma", "m16n8k32", _NARROW, "f16 f32", "sm_120a", kind=".kind::f8f6f4"),
    *_rows("mma.sp", "m16n8k64", _NARROW, "f16 f32", "sm_120a", kind=".kind::f8f6f4"),
    *(
        Form(name, shape, "e2m1", "e2m1", "f32", "f32", "sm_120a", ("row", "col"), *scaled)
        for (name, shape), scaled in product((("mma", "m16n8k64"), ("mma.sp", "m16n8k128")), _SCALED)
    ),
    *(
        Form(name, shape, each, each, "f32", "f32", "sm_120a", kind=_MXF8F6F4, suffix=".ue8m0", scale=_UE8M0)
        for (name, shape), each in product((("mma", "m16n8k32"), ("mma.sp", "m16n8k64")), _NARROW.split())
    ),
)

#: Every form.
FORMS = (*DENSE_FORMS, *SPARSE_FORMS, *NARROW_FORMS)

#: The types of their operands.
TYPES = frozenset(type_ for form in FORMS for type_ in form.types.values())

#: Types that A and B of one form may have in any combination (9.7.14.5.14).
_MIXED = (("s8", "u8"), ("s4", "u4"), ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"))


@cache
def products(name: str, shape: str) -> tuple[Mapping[str, str], ...]:
    """The type of each role in every product that an instruction of a shape can compute, also of mixed types."""
    rows = [form for form in FORMS if (form.name, form.shape) == (name, shape)]
    types = [
        {**one.types, "B": other.b}
        for one, other in product(rows, rows)
        if (one.kind, one.c, one.d) == (other.kind, other.c, other.d)
        and (one.b == other.b or any({one.b, other.b} <= {*mixed} for mixed in _MIXED))
    ]
    return tuple(map(dict, dict.fromkeys(tuple(each.items()) for each in types)))
