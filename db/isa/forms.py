"""The table of forms: one row for each mnemonic of an instruction, with its shape, types and least target.

A new form is a new row. Most look-ups need none of them, and most others only ``FORMS``: the rest, of what today's
kernels use and of mixed types, takes time to make. Sources: PTX ISA 9.7.14.4 (wmma), 9.7.14.5.14 (mma), 9.7.14.5.15 to
9.7.14.5.17 (matrix moves), 9.7.14.6.3 (mma.sp), 9.7.15.2 (wgmma), 9.7.16.8.3 and 9.7.16.8.4 (Tensor Memory).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import Any

from . import instructions
from .instructions import INSTRUCTIONS, Instruction, Key, Operand, Sparsity
from .listing import grouped
from .vendors import onwards

#: PTX ISA version that forms need, but for the few that say which later one has them.
VERSION = (8, 7)

_ROW_COL = ("row", "col")
_NARROW = "e4m3 e5m2 e3m2 e2m3 e2m1"


@dataclass(frozen=True)
class Form:
    """One form of an instruction: a mnemonic. It multiplies, or moves one matrix.

    ``a``, ``b``, ``c`` and ``d`` are the types of a product; what is moved has the type ``a``. ``target`` is the least
    target; one that ends in a letter stands for its family only, and ``also`` names other families that have the form.
    ``version`` is the PTX ISA version that it needs. ``majors`` are those of A and B, ``kind`` and ``suffix`` the
    qualifiers before and after the types, and ``scale`` is the word of block scales that are all 1.0.

    ``role`` is the register operand of a move: ``r``, the matrix that wmma loads or stores, or D of ``movmatrix``,
    which moves from registers to registers. ``qualifiers`` are those of its fragment, and ``layout`` is how wmma's
    matrix lies in memory, which is no property of the fragment of C and D. ``packed`` is the 4- or 6-bit format in
    memory from which bytes are made.
    """

    name: str
    shape: str
    a: str
    b: str
    c: str
    d: str
    target: str
    majors: tuple[str, ...] = _ROW_COL
    kind: str = ""
    suffix: str = ""
    scale: int | None = None
    version: tuple[int, int] = VERSION
    role: str = ""
    qualifiers: str | None = None
    layout: str | None = None
    packed: str = ""
    also: tuple[str, ...] = ()

    @property
    def instruction(self) -> Instruction:
        """The row of its instruction."""
        return INSTRUCTIONS[self.name]

    @property
    def moves(self) -> str:
        """How it moves a matrix: ``load``, ``store`` or ``transpose``; nothing where it multiplies."""
        return (self.instruction.moves or ("store" if self.role == "D" else "load")) if self.role else ""

    @property
    def stores(self) -> bool:
        """Whether it moves from registers to memory."""
        return self.moves == "store"

    @property
    def sparse(self) -> bool:
        """Whether A is compressed and comes with metadata."""
        return self.instruction.sparse

    @property
    def threads(self) -> int:
        """The threads that execute it together: WARP or WARPGROUP."""
        return self.instruction.threads

    @cached_property
    def types(self) -> Mapping[str, str]:
        """The type of each role; that of E is the type of the A that it belongs to, of wmma's moves of the one matrix.

        The first is that of A, or of what is moved.
        """
        if self.role:
            return dict.fromkeys([self.role] if self.instruction.multiplies else self.instruction.axes, self.a)
        types = {"A": self.a, "B": self.b, "C": self.c, "D": self.d} | ({"E": self.a} if self.sparse else {})
        return types if self.scale is None else types | dict.fromkeys(("SFA", "SFB"), self.suffix.removeprefix("."))

    @property
    def named_types(self) -> tuple[str, ...]:
        """The types that its mnemonic names, in this order."""
        row = self.instruction
        return tuple(self.types[role] for role in row.types if role not in row.implied.get(self.a, ""))

    @cached_property
    def mnemonic(self) -> str:
        """The instruction as its vendor spells it. It is unique, and names the form everywhere."""
        fields = {"majors": ".".join(self.majors), "types": self.a if self.role else ".".join(self.named_types)}
        fields |= {"move": self.moves, "role": self.role.lower()}
        spelling = self.instruction.move_spelling if self.role else self.instruction.spelling
        return spelling.format_map(vars(self) | fields)

    @property
    def block_scales(self) -> tuple[int, str] | None:
        """How many block scales a row or a column has, and their type; None where it has none."""
        return None if self.scale is None else (int(self.kind[-2]), self.suffix.removeprefix("."))

    @property
    def dimensions(self) -> tuple[int, int, int]:
        """M, N and K of a product."""
        (m, k), (_, n) = (instructions.dimensions(self.shape, role, self.name) for role in "AD")
        return m, n, k

    @property
    def computations(self) -> int:
        """Products that one execution computes."""
        return instructions.computations(self.name, self.shape, self.a)

    @property
    def sparsity(self) -> Sparsity:
        """The rule by which A is stored."""
        return instructions.sparsity(self.name, self.shape, self.a)

    @property
    def selectors(self) -> tuple[int | None, ...]:
        """Valid sparsity selectors; None alone where nothing is sparse."""
        return instructions.selectors(self.name, self.shape, self.a) if self.sparse else (None,)

    def operand(self, role: str) -> Operand:
        """The operand of a role."""
        return instructions.operand(self.key(role))

    def key(self, role: str, selector: int | None = None) -> Key:
        """What names the fragment of a role in any source."""
        layout = dict(zip("AB", self.majors, strict=False)).get(role)
        major = layout if self.instruction.layouts == "major" else None
        qualifiers = layout if self.instruction.layouts == "qualifiers" else None
        selector = selector if role == "E" else None
        return Key(self.name, self.shape, self.types[role], role, major, selector, self.qualifiers or qualifiers)

    def supports(self, target: str) -> bool:
        """Whether its vendor allows the form on a target such as sm_90a."""
        return any(self.instruction.vendor.supports(own, target) for own in (self.target, *self.also))

    @property
    def targets(self) -> str:
        """The targets that have the form, in short: ``sm_80+`` is every later one, too."""
        return " ".join([onwards(self.target), *self.also])

    def __str__(self) -> str:
        return self.mnemonic


def _rows(name: str, shapes: str, types: str, accumulators: str, target: str, **more: Any) -> tuple[Form, ...]:
    """Forms whose A and B have one type, and C and D another."""
    every = product(shapes.split(), types.split(), accumulators.split())
    return tuple(Form(name, shape, t, t, acc, acc, target, **more) for shape, t, acc in every)


DENSE_FORMS = (
    *(
        Form("mma", "m8n8k4", "f16", "f16", accumulator, accumulator, "sm_70", (a, b))
        for a, b, accumulator in product(_ROW_COL, _ROW_COL, ("f16", "f32"))
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

#: Four scales of 1.0 in each of the two types of block scales.
_UE8M0, _UE4M3 = 0x7F7F7F7F, 0x38383838

_MXF8F6F4 = {"kind": ".kind::mxf8f6f4.block_scale.scale_vec::1X", "suffix": ".ue8m0", "scale": _UE8M0}
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
        Form(name, shape, "e2m1", "e2m1", "f32", "f32", "sm_120a", _ROW_COL, *scaled)
        for (name, shape), scaled in product((("mma", "m16n8k64"), ("mma.sp", "m16n8k128")), _SCALED)
    ),
    *_rows("mma", "m16n8k32", _NARROW, "f32", "sm_120a", **_MXF8F6F4),
    *_rows("mma.sp", "m16n8k64", _NARROW, "f32", "sm_120a", **_MXF8F6F4),
)

#: Every form.
FORMS = (*DENSE_FORMS, *SPARSE_FORMS, *NARROW_FORMS)

#: Types that A and B of one form may have in any combination (9.7.14.5.14).
_MIXED = ({"s8", "u8"}, {"s4", "u4"}, {*_NARROW.split()})


def _with_another_b(forms: Sequence[Form]) -> tuple[Form, ...]:
    """The forms whose A is of one of these, and whose B is of another that has all else in common with it."""

    def rest(form: Form) -> tuple[str, ...]:
        return form.name, form.shape, form.kind, form.suffix, form.d

    alike = grouped(forms, rest)
    every = [(one, other) for one in forms for other in alike[rest(one)] if one.a != other.a]
    return tuple(replace(one, b=other.b) for one, other in every if any({one.a, other.a} <= pair for pair in _MIXED))


@cache
def mixed() -> tuple[Form, ...]:
    """Forms of mma and mma.sp whose A and B, or C and D, have different types."""
    accumulators = (
        Form("mma", "m8n8k4", "f16", "f16", "f16", "f32", "sm_70", majors) for majors in product(_ROW_COL, _ROW_COL)
    )
    return (*accumulators, *_with_another_b(FORMS))


@cache
def warpgroup() -> tuple[Form, ...]:
    """Forms of wgmma and wgmma.sp. B is never in registers, so its type adds no fragment: it is that of A."""
    rows = (
        ("f16", 16, "f16 f32"),
        ("bf16", 16, "f32"),
        ("tf32", 8, "f32"),
        ("e4m3 e5m2", 32, "f16 f32"),
        ("s8 u8", 32, "s32"),
        ("b1", 256, "s32"),
    )
    return tuple(
        Form(name, f"m64n{n}k{k * depth}", a, a, d, d, "sm_90a", suffix=".and.popc" if a == "b1" else "")
        for name, depth in (("wgmma", 1), ("wgmma.sp", 2))
        for types, k, accumulators in rows
        for a, d, n in product(types.split(), accumulators.split(), range(8, 257, 8))
        if (depth == 1 or a != "b1") and (d != "s32" or n <= 32 or n % 16 == 0)
    )


_WIDE = ("m16n16k16", "m8n32k16", "m32n8k16")

#: Of wmma, for each type of A and B: shapes, layouts of A and of B, accumulators, and the least target.
_WMMA = (
    ("f16", _WIDE, _ROW_COL, _ROW_COL, ("f16", "f32"), "sm_70"),
    ("bf16", _WIDE, _ROW_COL, _ROW_COL, ("f32",), "sm_80"),
    ("tf32", ("m16n16k8",), _ROW_COL, _ROW_COL, ("f32",), "sm_80"),
    ("f64", ("m8n8k4",), _ROW_COL, _ROW_COL, ("f64",), "sm_80"),
    ("s8", _WIDE, _ROW_COL, _ROW_COL, ("s32",), "sm_72"),
    ("u8", _WIDE, _ROW_COL, _ROW_COL, ("s32",), "sm_72"),
    ("s4", ("m8n8k32",), ("row",), ("col",), ("s32",), "sm_75"),
    ("u4", ("m8n8k32",), ("row",), ("col",), ("s32",), "sm_75"),
    ("b1", ("m8n8k128",), ("row",), ("col",), ("s32",), "sm_75"),
)


@cache
def wmma() -> tuple[Form, ...]:
    """Forms of wmma.mma."""
    forms = []
    for a, shapes, of_a, of_b, accumulators, target in _WMMA:
        suffixes = ((".xor.popc", "sm_75"), (".and.popc", "sm_80")) if a == "b1" else (("", target),)
        every = product(shapes, of_a, of_b, accumulators, accumulators, suffixes)
        for shape, major_a, major_b, c, d, (suffix, least) in every:
            forms.append(Form("wmma", shape, a, a, c, d, least, (major_a, major_b), suffix=suffix))
    return tuple(forms)


def move_form(name: str, shape: str, type: str, role: str, target: str, **more: Any) -> Form:
    """A form that moves a matrix of one type, with further fields."""
    return Form(name, shape, type, "", "", "", target, (), role=role, **more)


@cache
def moves() -> tuple[Form, ...]:
    """Forms of ldmatrix, stmatrix, movmatrix, wmma.load and wmma.store."""
    counts = [f"x{count}{trans}" for count, trans in product((1, 2, 4), ("", ".trans"))]
    matrices = product((("ldmatrix", "sm_75"), ("stmatrix", "sm_90")), counts)
    listed = [move_form(name, "m8n8", "b16", "r", least, qualifiers=words) for (name, least), words in matrices]
    listed.append(move_form("movmatrix", "m8n8", "b16", "D", "sm_75", qualifiers="trans"))
    for a, shapes, of_a, of_b, accumulators, target in _WMMA:
        operands = [("A", a, type_) for type_ in of_a] + [("B", a, type_) for type_ in of_b]
        operands += [(role, type_, qualifiers) for type_, role, qualifiers in product(accumulators, "CD", _ROW_COL)]
        for shape, (role, type_, layout) in product(shapes, operands):
            qualifiers = layout if role in "AB" else None
            listed.append(move_form("wmma", shape, type_, role, target, qualifiers=qualifiers, layout=layout))
    # Several types of A and B share C and D: the first of them has the least target.
    return tuple({form.mnemonic: form for form in reversed(listed)}.values())[::-1]


@cache
def mixed_warpgroup() -> tuple[Form, ...]:
    """Forms of wgmma and wgmma.sp whose A and B have different types. B of another type adds no fragment."""
    return _with_another_b(warpgroup())


@cache
def later_moves() -> tuple[Form, ...]:
    """Forms of ldmatrix, stmatrix, tcgen05.ld and tcgen05.st that need a later target than any that was measured.

    No more than 128 registers of a thread move to or from Tensor Memory (9.7.16.8.3).
    """
    narrow = [("b8x16", qualifiers) for qualifiers in (".b6x16_p32", ".b4x16_p64")]
    matrices = [
        *product(["ldmatrix"], ["m16n16"], [("b8", ""), *narrow], ["x1.trans", "x2.trans"]),
        *product(["ldmatrix"], ["m8n16"], narrow, ["x1", "x2", "x4"]),
        *product(["stmatrix"], ["m16n8"], [("b8", "")], ["x1.trans", "x2.trans", "x4.trans"]),
    ]
    forms = [
        move_form(name, shape, type_, "r", "sm_100a", qualifiers=qualifiers, packed=packed, also=("sm_110a", "sm_120a"))
        for name, shape, (type_, packed), qualifiers in matrices
    ]
    shapes = ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
    for (name, pack), shape in product((("tcgen05.ld", ".pack::16b"), ("tcgen05.st", ".unpack::16b")), shapes):
        every = [f"x{1 << log}{packed}" for packed, log in product(("", pack), range(8))]
        built = [move_form(name, shape, "b32", "r", "sm_100a", qualifiers=word, also=("sm_110a",)) for word in every]
        forms += [form for form in built if form.operand("r").registers <= _MOST_REGISTERS]
    return tuple(forms)


_MOST_REGISTERS = 128

#: What makes the forms, by the first words of their instructions: those that most requests mean, products, then moves.
FAMILIES: Sequence[Mapping[Callable[[], Sequence[Form]], Sequence[str]]] = (
    {lambda: FORMS: []},
    {mixed: ["mma"], warpgroup: ["wgmma"], wmma: ["wmma"], mixed_warpgroup: ["wgmma"]},
    {moves: ["ldmatrix", "stmatrix", "movmatrix", "wmma"], later_moves: ["ldmatrix", "stmatrix", "tcgen05"]},
)


@cache
def every() -> tuple[Form, ...]:
    """All forms that a capture can measure, what others build on first."""
    return (*FORMS, *mixed(), *warpgroup(), *moves(), *wmma())
