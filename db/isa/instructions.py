"""The table of instructions: what is true of an instruction, whoever reports its layouts.

An ``Instruction`` is a row for each name, with the threads that execute it and what its operands are. What follows
from it and from a shape and a type, such as register counts, is derived. Its forms are rows of their own. Sources: PTX
ISA 9.7.16 (mma, mma.sp, wmma, matrix moves), 9.7.17 (wgmma), 9.7.18.8 (Tensor Memory).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

from ..errors import LanemapError
from ..text import spans
from . import data
from .shared import BOX_MODES, MODES, BoundingBox, Tile, pattern
from .types import LARGEST, TYPES, is_shape, shape_name, type_bits
from .vendors import NVIDIA, VENDORS, Vendor, vendor_of

#: Threads of a warp.
WARP = 32

#: Bits of a word of shared memory.
WORD = 32

#: Threads of a warpgroup.
WARPGROUP = 128

#: What the axes of Tensor Memory (9.7.18.1) and of vectors of threads (9.7.10.30) are called, with a shape that has
#: them: those of matrices are called by their letters.
_NAMED = {"l": ("memory lane", "16x256b"), "c": ("column", "16x256b"), "t": ("thread", "2:4"), "e": ("element", "2:4")}

#: Lanes and bits of each, and whether there are two of it (9.7.18.8.3).
_TENSOR_MEMORY = re.compile(r"(16|32)x(32|64|128|256)b(x2)?")
AXES = re.compile(r"([mnk])([0-9]+)")
_SCALES = re.compile(r"scale_vec::([1-8])X", re.IGNORECASE)
_BYTE = re.compile(r"byte_id::([0-3])")
_COUNT = re.compile(r"x([0-9]{1,3})")

#: How many elements of a group are kept, and of how many.
_KEPT = re.compile(r"([0-9]+):([0-9]+)")

#: Bits of an index of metadata.
_INDEX = re.compile(r"x[0-9]+\.b([24])")


@dataclass(frozen=True)
class Instruction:
    """One instruction, as its vendor spells its name.

    ``axes`` says for each role which dimensions of the shape its rows and columns count: ``mk`` is M x K, ``m1`` is one
    column, ``s`` counts block scales, ``lc`` lanes and columns of Tensor Memory, and ``te`` threads and elements of the
    vector that each of them has. ``threads`` execute it together. Elements of the roles in ``windowed`` may stand for a
    window of columns. ``repeated`` is how many bits of a thread's vector are repeated: by default a group of the shape.

    ``spelling`` is the mnemonic of its products, with what a form has, or the numbers of its shape, in braces, and
    ``move_spelling`` that of its moves; ``others`` are spelt likewise, in other places, and A or B
    alone ``of_operand``. ``types`` are the roles whose
    types a mnemonic names, in this order, and ``implied`` those that it leaves out for a type of A. ``moves`` is how it
    moves a matrix: it loads or stores it, or both sides are registers.

    ``layouts`` says what ``row`` and ``col`` are in a mnemonic: the ``major`` of A and B, or their order in memory,
    which is one of the ``qualifiers`` of a fragment. ``opcode`` is its name in SASS, if it has one of its own, and
    ``atom`` that in CuTe, if that differs. ``absent`` says for roles that no register holds what to ask for instead,
    and for a type of A and for selectors why there are none. A and B of each shape, or its K, and type of ``packed``
    have elements of 4 bits that are packed, and those of ``quad_pairs`` are four products, one in each group of eight
    lanes, of which A and B have both majors. ``registers`` are as many as the operand has whatever its shape, by type
    and role. Layouts that are ``per_architecture`` differ between them. A descriptor may name the roles ``in_memory``,
    of which no register holds those in ``memory_only``: their fragments have a layout in shared memory as qualifiers.
    Without one those in ``tensor_memory`` lie there, where lanes and registers are those and the columns of it, and
    ``threads`` are all lanes of a block. D is ``folded`` where so many of its columns lie beside each other, in lanes
    that its rows leave free. Lines may run along M or N where elements have as many bits as ``mn_major`` lists, and
    ``constant`` is what a field without meaning has in their descriptors. Types that are ``drawn`` lie along M or N in
    a mode of which only a figure tells where. The ``fixed`` axes, or ``computation``, are those that an operand in
    memory counts: what registers hold cannot be renumbered along them.
    """

    name: str
    vendor: Vendor
    axes: Mapping[str, str]
    threads: int = WARP
    windowed: Sequence[str] = ()
    repeated: int = 0
    spelling: str = ""
    move_spelling: str = ""
    others: Sequence[str] = ()
    of_operand: str = ""
    types: str = "DABC"
    implied: Mapping[str, str] = field(default_factory=dict)
    moves: str = ""
    layouts: str = ""
    opcode: str = ""
    atom: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)
    packed: Sequence[str] = ()
    quad_pairs: Sequence[str] = ()
    registers: Mapping[str, int] = field(default_factory=dict)
    per_architecture: bool = False
    in_memory: str = ""
    memory_only: Sequence[str] = ""
    tensor_memory: Sequence[str] = ""
    folded: Mapping[str, int] = field(default_factory=dict)
    mn_major: Sequence[int] = (16,)
    constant: int = 0
    drawn: Mapping[str, str] = field(default_factory=dict)
    fixed: Sequence[str] = ()

    @property
    def register_roles(self) -> tuple[str, ...]:
        """The roles that registers may hold."""
        return tuple(role for role in self.axes if role not in self.memory_only)

    @property
    def multiplies(self) -> bool:
        """Whether it multiplies, and does not only move a matrix."""
        return "k" in "".join(self.axes.values())

    @property
    def sparse(self) -> bool:
        """Whether A is compressed and comes with metadata E."""
        return "E" in self.windowed

    @property
    def has_forms(self) -> bool:
        """Whether its mnemonics name shapes and types."""
        return bool(self.spelling or self.move_spelling)

    def patterns(self, bits: int) -> list[str]:
        """The qualifiers of operands in shared memory whose elements have so many bits."""
        return [f"{mode}.{major}" for major in ("K", "MN")[: 1 + (bits in self.mn_major)] for mode in MODES]

    @property
    def known(self) -> bool:
        """Whether it has a row."""
        return self.name in INSTRUCTIONS


#: The roles of products.
PRODUCT_ROLES = ("A", "B", "C", "D", "E", "SFA", "SFB")

#: Operands that only some lanes supply, in some of their slots.
PARTIAL_ROLES = ("E", "p", "SFA", "SFB", "mdata", "cdata")

INSTRUCTIONS: Mapping[str, Instruction] = {
    row["name"]: Instruction(**row | {"vendor": VENDORS[row["vendor"]]}) for row in data("instructions")
}

#: What an instruction is taken for that has no row.
_UNKNOWN_AXES = {"A": "mk", "B": "kn", "C": "mn", "D": "mn", "E": "mk"}

#: Every role, those of products first.
ROLES = tuple(dict.fromkeys((*PRODUCT_ROLES, *(role for row in INSTRUCTIONS.values() for role in row.axes))))


@lru_cache(1 << 10)
def instruction(name: str) -> Instruction:
    """The row of an instruction. One that has none is taken for a product of a group of its vendor's."""
    vendor = vendor_of(name)
    return INSTRUCTIONS.get(name) or Instruction(name, vendor, _UNKNOWN_AXES, vendor.group)


def axis_name(axis: str) -> str:
    """What one of the axes of an instruction is called.

    >>> axis_name("m"), axis_name("l")
    ('M', 'memory lane')
    """
    return _NAMED[axis][0] if axis in _NAMED else axis.upper()


@lru_cache(1 << 14)
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
        _, example = _NAMED.get(lacking, ("", "m16n8k16"))
        raise LanemapError(f"shape {shape} of {name} has no {axis_name(lacking)}: write {example}")
    if not all(0 < extent <= LARGEST for extent in extents.values()):
        raise LanemapError(f"invalid shape {shape}: each dimension is 1 to {LARGEST}")
    return extents[axes[role][0]], extents[axes[role][1]]


def _extents(shape: str, qualifiers: str) -> dict[str, int]:
    """The extent of each axis that a shape has: two 16-bit columns of Tensor Memory may be packed into one of 32."""
    extents = {"1": 1} | {axis: int(count) for axis, count in zip("s", _SCALES.findall(qualifiers), strict=False)}
    if memory := _TENSOR_MEMORY.fullmatch(shape):
        count = _COUNT.match(qualifiers)
        columns = int(memory[2]) // 32 * (int(count[1]) if count else 1) * (2 if "pack::16b" in qualifiers else 1)
        return extents | {"l": int(memory[1]), "c": columns}
    if vector := _KEPT.fullmatch(shape):
        return extents | {"t": WARP, "e": int(vector[2])}
    if is_shape(shape) and shape_name(shape) == shape:
        return extents | {axis: int(number) for axis, number in AXES.findall(shape)}
    raise LanemapError(f"{shape!r} is not a shape: write m16n8k16 for M=16, N=8, K=16")


def computations(name: str, shape: str, type: str, qualifiers: str | None = None) -> int:
    """How many products or matrices one execution handles: four in m8n8k4 with f16, two in ldmatrix.x2, mostly one.

    A move of Tensor Memory handles one whatever it repeats, or two that are apart (16x32bx2).
    """
    if memory := _TENSOR_MEMORY.fullmatch(shape):
        return 2 if memory[3] else 1
    counted, row = _COUNT.match(qualifiers or ""), instruction(name)
    if row.repeated and (vector := _KEPT.fullmatch(shape)) and counted:
        return int(counted[1]) * row.repeated // (int(vector[2]) * type_bits(type))
    return 4 if f"{shape} {type}" in row.quad_pairs else int(counted[1]) if counted else 1


def copies(name: str, shape: str, type: str, role: str) -> int:
    """How often an instruction holds each element of an operand.

    A and B of wmma with f16 have eight registers whatever the shape (9.7.16.4.1), and block scales in Tensor Memory are
    in each of its 32 lanes again (9.7.18.10.7); everything else is held once.
    """
    row, held = instruction(name), f"{type} {role}"
    if held not in row.registers:
        return row.threads // WARP if role.startswith("SF") and role in row.tensor_memory else 1
    slots = row.registers[held] * row.vendor.register_bits // type_bits(type)
    return row.threads * slots // prod(dimensions(shape, role, name))


def computation(name: str, shape: str, type: str, lane: Any) -> Any:
    """The product that a lane takes part in: where a warp does four, lanes 0-3 and 16-19 do the first."""
    return (lane // 4 % 4 if f"{shape} {type}" in instruction(name).quad_pairs else 0 * lane) + 1


def majors(name: str, shape: str, type: str, role: str) -> tuple[str, ...]:
    """The layout qualifiers that A and B of an instruction come in; none where they do not tell fragments apart."""
    row = instruction(name)
    if role not in ("A", "B") or row.layouts != "major":
        return ()
    return ("row", "col") if f"{shape} {type}" in row.quad_pairs else ("row",) if role == "A" else ("col",)


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

    @property
    def vendor(self) -> str:
        """The name of the vendor whose instruction it is."""
        return instruction(self.instruction).vendor.name

    @property
    def axes(self) -> str:
        """What its rows and columns count, as in ``MK``."""
        return instruction(self.instruction).axes[self.role]

    @property
    def operand(self) -> "Key":
        """The operand that the fragment belongs to, whatever its major, selector and qualifiers."""
        return self._replace(major=None, selector=None, qualifiers=None)

    @property
    def identifier(self) -> str:
        """A name for the fragment that is valid in C++, Python and MLIR and unique within a source.

        >>> Key("mma.sp", "m16n8k16", "f16", "E", selector=2).identifier
        'mma_sp_m16n8k16_f16_e_selector2'
        """
        parts = [self.instruction, self.shape, self.type, self.qualifiers, self.role.lower()]
        parts += [self.major] if self.several_majors else []
        parts += [f"selector{self.selector}"] if self.selector is not None else []
        return re.sub(r"\W+", "_", "_".join(filter(None, parts)), flags=re.ASCII)

    def __str__(self) -> str:
        return name_of([self])


def name_of(keys: Iterable[Key]) -> str:
    """The name of fragments that differ only in type.

    >>> name_of([Key("mma", "m8n8k16", type, "B") for type in ("s8", "u8")])
    'B of mma m8n8k16 s8 u8'
    """
    keys = list(keys)
    first = keys[0]
    shape = "x".join(re.findall(r"\d+", first.shape)) if first.role == "t" else first.shape  # as a box is written
    parts = [first.role, "of", first.instruction, shape, " ".join(key.type for key in keys)]
    parts += [first.qualifiers] if first.qualifiers else []
    parts += [f"{first.major} major"] if first.several_majors and first.major else []
    parts += [f"selector {first.selector}"] if first.selector is not None else []
    return " ".join(parts)


def undecided(qualifiers: str | None) -> str | None:
    """Qualifiers without the numbers that select block scales.

    >>> undecided("scale_vec::2X.byte_id::2.thread_id::1")
    'scale_vec::2X.byte_id.thread_id'
    """
    return qualifiers and re.sub(r"(?<=_id)::\d", "", qualifiers)


def choices(qualifiers: Iterable[str | None]) -> str | None:
    """Qualifiers that differ only in such numbers, as words.

    >>> choices([f"scale_vec::1X.byte_id::{byte}" for byte in range(4)])
    'scale_vec::1X byte_id::0-3'
    """
    given = [qualifier for qualifier in dict.fromkeys(qualifiers) if qualifier]
    if not given or "_id::" not in given[0]:
        return next(iter(given), None)
    merged = []
    for words in zip(*(qualifier.split(".") for qualifier in given), strict=True):
        numbers = spans(int(word[-1]) for word in words if "_id::" in word)
        merged.append(words[0][:-1] + numbers.replace(" ", "") if numbers else words[0])
    return " ".join(merged)


def register_bits(name: str, type: str) -> int:
    """Width of the registers in which an instruction holds a type: its vendor's, or that of a type that is wider."""
    return max(instruction(name).vendor.register_bits, TYPES[type].bits if type in TYPES else 0)


def element_bits(name: str, shape: str, type: str) -> int:
    """Bits that an element of A, B, C or D takes in its register.

    Raises:
        LanemapError: the type is not known; names those that are.
    """
    return 4 if f"{shape} {type}".endswith(tuple(instruction(name).packed)) else type_bits(type)


def element_width(type: str, role: str, slot_bits: int) -> int | None:
    """Bits that an element has of a slot; None where the type is not known. What is no element fills its slot."""
    if role in PARTIAL_ROLES:
        return slot_bits
    return min(TYPES[type].bits, slot_bits) if type in TYPES else None


def occupied_bits(name: str, type: str, slot_bits: int) -> range:
    """The bits of its slot that an element has: all of them, but for narrow floats in 8 bits (9.7.16.5.14, 9.7.16.6.3).

    >>> occupied_bits("mma", "e2m1", 8)
    range(2, 6)
    """
    row = TYPES.get(type)
    if row is None or instruction(name).vendor is not NVIDIA or slot_bits != row.container:
        return range(slot_bits)
    return range(row.below, row.below + row.bits)


class Sparsity(NamedTuple):
    """How a chunk of columns is stored: ``width`` columns, of which indices select runs of ``group`` columns.

    ``indices`` gives, for each valid 4-bit vector of metadata, the index in each of its fields, low bits first
    (9.7.16.6.1).
    """

    title: str
    width: int
    group: int
    indices: Mapping[int, tuple[int, ...]]

    @property
    def fields(self) -> int:
        """Fields in one 4-bit vector of metadata."""
        return len(next(iter(self.indices.values())))

    def window(self, place: Any) -> tuple[Any, Any]:
        """The first and the last column that a stored element of a row can stand for, by its place in the row.

        >>> TWO_OF_FOUR.window(3)
        (5, 7)
        """
        stored = self.fields * self.group
        first = place // stored * self.width + place % stored
        return first, first + self.width - stored

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
        return 8 * self.fields


_ASCENDING = {vector: (vector & 3, vector >> 2) for vector in (0x4, 0x8, 0x9, 0xC, 0xD, 0xE)}
TWO_OF_FOUR = Sparsity("2:4", width=4, group=1, indices=_ASCENDING)
PAIRWISE = Sparsity("pairwise 4:8", width=8, group=2, indices=_ASCENDING)
ONE_OF_TWO = Sparsity("1:2", width=2, group=1, indices={0x4: (0,), 0xE: (1,)})
DENSE = Sparsity("dense", width=1, group=1, indices={0x0: (0,)})


def sparsity(name: str, shape: str, type: str) -> Sparsity:
    """The rule by which an instruction stores an A of a type: DENSE where all of it is stored."""
    if not instruction(name).sparse:
        return DENSE
    return {4: PAIRWISE, 32: ONE_OF_TWO}.get(element_bits(name, shape, type), TWO_OF_FOUR)


def chunk(name: str, shape: str, type: str) -> int:
    """The columns that metadata chooses from together: 1 where nothing is compressed."""
    if vector := _KEPT.fullmatch(shape):
        return int(vector[2])
    row = instruction(name)
    return TWO_OF_FOUR.width if row.windowed and not row.sparse else sparsity(name, shape, type).width


def selectors(name: str, shape: str, type: str) -> tuple[int, ...]:
    """Valid sparsity selectors, as many as fit: a selector takes the lanes that one product's metadata fills.

    There are none for metadata in Tensor Memory, of which the document draws what each selects.
    """
    if "E" in instruction(name).tensor_memory:
        return ()
    rows, cols = dimensions(shape, "E", name)
    return tuple(range(instruction(name).threads * 8 // (rows * cols // sparsity(name, shape, type).width)))


class Slots:
    """Slots of the registers of threads. They are numbered thread by thread, in a register low bits first."""

    registers: int
    slots: int
    register_bits: int

    @property
    def slot_bits(self) -> int:
        """Width of one slot. Wider than the type for 4- and 6-bit types that sit in an 8-bit container."""
        return self.register_bits // self.slots

    @property
    def per_thread(self) -> int:
        """Slots of one thread."""
        return self.registers * self.slots

    def number(self, lane: Any, reg: Any, slot: Any) -> Any:
        """The number of a slot, or of several, of which one part at least is wide enough for it."""
        return lane * self.per_thread + reg * self.slots + slot

    def place(self, number: Any) -> tuple[Any, Any, Any]:
        """Lane, register and slot in the register of a number, or of several."""
        lane, element = divmod(number, self.per_thread)
        return lane, *divmod(element, self.slots)


@dataclass(frozen=True)
class Operand(Slots):
    """One operand of a form: its type, its register vector, and the threads that hold it."""

    role: str
    type: str
    registers: int
    slots: int
    threads: int
    register_bits: int

    @property
    def size(self) -> int:
        """Slots of all threads."""
        return self.threads * self.per_thread


@lru_cache(1 << 14)
def tile(key: Key) -> Tile | None:
    """The smallest tile in shared memory that holds an operand, of a sparse A what is stored; None in registers."""
    if key.role not in instruction(key.instruction).in_memory or (named := pattern(key.qualifiers)) is None:
        return None
    rows, cols = dimensions(key.shape, key.role, key.instruction)
    mn, k = (cols, rows) if key.role == "B" else (rows, cols // (2 if instruction(key.instruction).sparse else 1))
    bits, own = element_bits(*key[:3]), TYPES[key.type].bits
    return Tile(*named, bits, mn, k, own if own < bits else 0)


def box(key: Key) -> BoundingBox | None:
    """The box that a tensor map writes to shared memory; None of any other operand."""
    mode = key.qualifiers or ""
    if key.role != "t" or mode not in BOX_MODES:
        return None
    return BoundingBox(mode, type_bits(key.type), *dimensions(key.shape, key.role, key.instruction))


def in_tensor_memory(key: Key) -> bool:
    """Whether lanes and registers of an operand are those and the columns of Tensor Memory."""
    return key.role in instruction(key.instruction).tensor_memory and not tile(key)


def threads(key: Key) -> int:
    """How many threads hold the operand that a key names: 1 stands for shared memory."""
    if tile(key) or box(key):
        return 1
    of_both = in_tensor_memory(key) and "cta_group::2" in (key.qualifiers or "")
    return instruction(key.instruction).threads * (2 if of_both else 1)  # lanes from 128 on are the second block's


def fold(key: Key) -> int:
    """How many columns of an operand in Tensor Memory lie beside each other, in lanes that its rows leave free."""
    m = key.shape.partition("n")[0]
    return instruction(key.instruction).folded.get(f"{m} {key.qualifiers}", 1) if key.role == "D" else 1


def _in_columns(key: Key) -> Operand:
    """An operand in Tensor Memory: D has an element in a column, whatever its width (9.7.18.10.4.1), others are packed.

    Scales begin at a byte of a word, and those of 32 rows or columns are one below the other (9.7.18.10.7.2).
    """
    row, qualifiers = instruction(key.instruction), key.qualifiers or ""
    rows, cols = dimensions(key.shape, key.role, key.instruction, qualifiers)
    slots = 1
    if key.role == "D":
        columns = cols // fold(key)
    elif key.role == "E":
        rule = sparsity(*key[:3])
        slots, columns = rule.slots, cols // rule.width * 4 // WORD
    elif key.role == "A":
        slots = WORD // element_bits(*key[:3])
        columns = cols // (2 if row.sparse else 1) // slots
    else:
        slots, first = 4, int((_BYTE.search(qualifiers) or ("", 0))[1])
        lines, scales = (rows, cols) if key.role == "SFA" else (cols, rows)
        columns = -(-lines // 32) * -(-(first + scales) // slots)
    return Operand(key.role, key.type, columns, slots, threads(key), WORD)


@lru_cache(1 << 14)
def operand(key: Key) -> Operand:
    """The operand that a key names, with the registers that it takes; those in shared memory are words."""
    if of := tile(key) or box(key):
        step = of.step if isinstance(of, Tile) else of.bits
        return Operand(key.role, key.type, of.size * 8 // WORD, WORD // step, 1, WORD)
    if in_tensor_memory(key):
        return _in_columns(key)
    name, shape, type_, role, _, _, qualifiers = key
    row, width = INSTRUCTIONS[name], register_bits(name, type_)
    slots = width // (16 if "pack::16b" in (qualifiers or "") else element_bits(name, shape, type_))
    if index := _INDEX.fullmatch(qualifiers or ""):
        slots = width // int(index[1]) if role == "mdata" else slots
    elif role in PARTIAL_ROLES:
        slots = {"p": 1, "E": sparsity(name, shape, type_).slots}.get(role, slots)
        return Operand(role, type_, 1, slots, row.threads, width)
    cells = computations(name, shape, type_, qualifiers) * prod(dimensions(shape, role, name, qualifiers))
    kept, group = map(int, vector.groups()) if (vector := _KEPT.fullmatch(shape)) else (1, 2)
    stored = cells * kept // group if role in row.windowed else cells
    elements = copies(name, shape, type_, role) * stored // row.threads
    return Operand(role, type_, -(-elements // slots), slots, row.threads, width)
