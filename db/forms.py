"""Forms of the instructions that today's kernels use, and forms of mma whose operands differ in type, as rows.

They are apart from the other rows because a look-up needs none of them. Sources: PTX ISA 9.7.14.4 (wmma),
9.7.14.5.14 (mma), 9.7.14.5.15 to 9.7.14.5.17 (matrix moves), 9.7.14.6.3 (mma.sp), 9.7.15.2 (wgmma), 9.7.16.8.3 and
9.7.16.8.4 (Tensor Memory).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import permutations, product
from typing import ClassVar

from .errors import LanemapError
from .instructions import FORMS, INSTRUCTIONS, VERSION, WARPGROUP, Form, Key, onwards, operand, supports
from .names import one_or_several, word
from .spelling import type_name

_BOTH = ("row", "col")
_NARROW = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")


@dataclass(frozen=True)
class Move:
    """One form of an instruction that moves matrices between memory and the registers of a warp.

    ``role`` is the register operand in memory's terms: ``r``, or the matrix that wmma loads or stores; ``D`` of
    ``movmatrix``, which moves from registers to registers. ``qualifiers`` are those of its fragment, and ``layout``
    is how wmma's matrix lies in memory, which is no property of the fragment of C and D. ``packed`` is the 4- or 6-bit
    format in memory from which bytes are made.
    """

    name: str
    shape: str
    type: str
    role: str
    target: str
    qualifiers: str | None = None
    layout: str | None = None
    packed: str = ""
    version: ClassVar[tuple[int, int]] = VERSION

    @property
    def stores(self) -> bool:
        """Whether it moves from registers to memory."""
        return self.name == "stmatrix" or (self.name == "wmma" and self.role == "D")

    @property
    def mnemonic(self) -> str:
        """The instruction as PTX spells it. It is unique, and names the form everywhere."""
        if self.name == "wmma":
            verb = "store" if self.stores else "load"
            return f"wmma.{verb}.{self.role.lower()}.sync.aligned.{self.layout}.{self.shape}.shared.{self.type}"
        space = ".shared" if self.name in ("ldmatrix", "stmatrix") else ""
        return f"{self.name}.sync.aligned.{self.shape}.{self.qualifiers}{space}.{self.type}{self.packed}"

    @property
    def types(self) -> Mapping[str, str]:
        """The type of each role: of wmma of the one matrix that is moved."""
        return dict.fromkeys([self.role] if self.name == "wmma" else INSTRUCTIONS[self.name].axes, self.type)

    def key(self, role: str) -> Key:
        """What names the fragment of a role in any source."""
        return Key(self.name, self.shape, self.type, role, qualifiers=self.qualifiers)

    def supports(self, target: str) -> bool:
        """Whether PTX allows the form on a target such as sm_90a."""
        return supports(self.target, target)

    @property
    def targets(self) -> str:
        """The targets that have the form, in short: ``sm_80+`` is every later one, too."""
        return onwards(self.target)

    def __str__(self) -> str:
        return self.mnemonic


def _mixed(name: str, shapes: str, types: str, accumulators: str, target: str) -> list[Form]:
    every = product(shapes.split(), permutations(types.split()), accumulators.split())
    return [Form(name, shape, a, b, acc, acc, target) for shape, (a, b), acc in every]


@cache
def mixed() -> tuple[Form, ...]:
    """Forms of mma and mma.sp whose A and B, or C and D, have different types."""
    layouts = product(_BOTH, _BOTH)
    ue8m0 = ".kind::mxf8f6f4.block_scale.scale_vec::1X"
    narrow = list(product((("mma", "m16n8k32"), ("mma.sp", "m16n8k64")), permutations(_NARROW, 2)))
    return (
        *(Form("mma", "m8n8k4", "f16", "f16", "f16", "f32", "sm_70", each) for each in layouts),
        *_mixed("mma", "m8n8k16", "s8 u8", "s32", "sm_75"),
        *_mixed("mma", "m16n8k16 m16n8k32", "s8 u8", "s32", "sm_80"),
        *_mixed("mma", "m8n8k32", "s4 u4", "s32", "sm_75"),
        *_mixed("mma", "m16n8k32 m16n8k64", "s4 u4", "s32", "sm_80"),
        *_mixed("mma", "m16n8k16 m16n8k32", "e4m3 e5m2", "f16 f32", "sm_89"),
        *_mixed("mma.sp", "m16n8k32 m16n8k64", "s8 u8", "s32", "sm_80"),
        *_mixed("mma.sp", "m16n8k64 m16n8k128", "s4 u4", "s32", "sm_80"),
        *_mixed("mma.sp", "m16n8k64", "e4m3 e5m2", "f32", "sm_89"),
        *(
            Form(name, shape, a, b, each, each, "sm_120a", kind=".kind::f8f6f4")
            for ((name, shape), (a, b)), each in product(narrow, ("f16", "f32"))
        ),
        *(
            Form(name, shape, a, b, "f32", "f32", "sm_120a", kind=ue8m0, suffix=".ue8m0", scale=0x7F7F7F7F)
            for (name, shape), (a, b) in narrow
        ),
    )


@cache
def warpgroup() -> tuple[Form, ...]:
    """Forms of wgmma and wgmma.sp. B is never in registers, so its type adds no fragment: it is that of A."""
    wide = range(8, 257, 8)
    integer = [n for n in wide if n <= 32 or n % 16 == 0]
    rows = (
        ("f16", 16, ("f16", "f32"), wide),
        ("bf16", 16, ("f32",), wide),
        ("tf32", 8, ("f32",), wide),
        ("e4m3", 32, ("f16", "f32"), wide),
        ("e5m2", 32, ("f16", "f32"), wide),
        ("s8", 32, ("s32",), integer),
        ("u8", 32, ("s32",), integer),
        ("b1", 256, ("s32",), integer),
    )
    return tuple(
        Form(name, f"m64n{n}k{k * depth}", a, a, d, d, "sm_90a", suffix=".and.popc" if a == "b1" else "")
        for name, depth in (("wgmma", 1), ("wgmma.sp", 2))
        for a, k, accumulators, widths in rows
        if depth == 1 or a != "b1"
        for d, n in product(accumulators, widths)
    )


_WIDE = ("m16n16k16", "m8n32k16", "m32n8k16")
_MATRICES = (("ldmatrix", "sm_75"), ("stmatrix", "sm_90"))

#: Of wmma, for each type of A and B: shapes, layouts of A and of B, accumulators, and the least target.
_WMMA = (
    ("f16", _WIDE, _BOTH, _BOTH, ("f16", "f32"), "sm_70"),
    ("bf16", _WIDE, _BOTH, _BOTH, ("f32",), "sm_80"),
    ("tf32", ("m16n16k8",), _BOTH, _BOTH, ("f32",), "sm_80"),
    ("f64", ("m8n8k4",), _BOTH, _BOTH, ("f64",), "sm_80"),
    ("s8", _WIDE, _BOTH, _BOTH, ("s32",), "sm_72"),
    ("u8", _WIDE, _BOTH, _BOTH, ("s32",), "sm_72"),
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
        for shape, one, other, c, d, (suffix, least) in every:
            forms.append(Form("wmma", shape, a, a, c, d, least, (one, other), suffix=suffix))
    return tuple(forms)


@cache
def moves() -> tuple[Move, ...]:
    """Forms of ldmatrix, stmatrix, movmatrix, wmma.load and wmma.store."""
    counts = [f"x{count}{trans}" for count, trans in product((1, 2, 4), ("", ".trans"))]
    found = [Move(name, "m8n8", "b16", "r", least, each) for name, least in _MATRICES for each in counts]
    found.append(Move("movmatrix", "m8n8", "b16", "D", "sm_75", "trans"))
    for a, shapes, of_a, of_b, accumulators, target in _WMMA:
        for shape in shapes:
            found += [Move("wmma", shape, a, "A", target, each, each) for each in of_a]
            found += [Move("wmma", shape, a, "B", target, each, each) for each in of_b]
            every = product(accumulators, "CD", _BOTH)
            found += [Move("wmma", shape, each, role, target, None, layout) for each, role, layout in every]
    # Several types of A and B share C and D: the first of them has the least target.
    return tuple({each.mnemonic: each for each in reversed(found)}.values())[::-1]


@cache
def mixed_warpgroup() -> tuple[Form, ...]:
    """Forms of wgmma and wgmma.sp whose A and B have different types. B of another type adds no fragment."""
    pairs = (("s8", "u8"), ("e4m3", "e5m2"))
    return tuple(
        replace(form, b=b) for form, pair in product(warpgroup(), pairs) if form.a in pair for b in pair if form.a != b
    )


@cache
def later_moves() -> tuple[Move, ...]:
    """Forms of ldmatrix, stmatrix, tcgen05.ld and tcgen05.st that need a later target than any that was measured.

    No more than 128 registers of a thread move to or from Tensor Memory (9.7.16.8.3).
    """
    counts = [f"x{1 << log}" for log in range(8)]
    memory = (
        Move(name, shape, "b32", "r", "sm_100a", f"{count}{packed}")
        for name, pack in (("tcgen05.ld", ".pack::16b"), ("tcgen05.st", ".unpack::16b"))
        for shape, packed, count in product(("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"), ("", pack), counts)
    )
    narrow = [("b8x16", each) for each in (".b6x16_p32", ".b4x16_p64")]
    return (
        *(
            Move("ldmatrix", "m16n16", type_, "r", "sm_100a", f"{count}.trans", packed=packed)
            for (type_, packed), count in product((("b8", ""), *narrow), ("x1", "x2"))
        ),
        *(
            Move("ldmatrix", "m8n16", type_, "r", "sm_100a", count, packed=packed)
            for (type_, packed), count in product(narrow, ("x1", "x2", "x4"))
        ),
        *(Move("stmatrix", "m16n8", "b8", "r", "sm_100a", f"{count}.trans") for count in ("x1", "x2", "x4")),
        *(each for each in memory if operand(each.key("r")).registers <= _MOST_REGISTERS),
    )


_MOST_REGISTERS = 128

_INTEGERS = ("s8", "u8", "s4", "u4")
_SPACES = ("shared", "shared::cta")


def options(form: Form | Move) -> frozenset[str]:
    """The words that its mnemonic may have or leave out, and that tell no layouts apart."""
    words = ["sync", "aligned"]
    if isinstance(form, Move):
        words += _SPACES if form.name in ("ldmatrix", "stmatrix") else ()
        words += (*_SPACES, "global", "store" if form.stores else "load") if form.name == "wmma" else ()
    else:
        words += ["satfinite"] if form.a in _INTEGERS else ["rn", "rz", "rm", "rp"] if form.a == "f64" else []
        words += ["mma"] if form.name == "wmma" else ["mma_async"] if form.threads == WARPGROUP else []
        words += ["sp"] if form.sparse and not form.kind else []
        words += ["sp::ordered_metadata"] if form.name == "mma.sp" else []
    return frozenset(words)


#: What makes the forms that are not in FORMS, by the first words of their instructions: products, then moves.
FAMILIES: Sequence[Mapping[Callable[[], Sequence[Form | Move]], Sequence[str]]] = (
    {mixed: ["mma"], warpgroup: ["wgmma"], wmma: ["wmma"], mixed_warpgroup: ["wgmma"]},
    {moves: ["ldmatrix", "stmatrix", "movmatrix", "wmma"], later_moves: ["ldmatrix", "stmatrix", "tcgen05"]},
)


@cache
def every() -> tuple[Form | Move, ...]:
    """All forms that a capture can measure, what others build on first."""
    return (*FORMS, *mixed(), *warpgroup(), *moves(), *wmma())


def select(
    pattern: str | None = None,
    shape: str | None = None,
    type: str | Sequence[str] | None = None,  # noqa: A002
) -> list[Form | Move]:
    """The forms that match.

    Args:
        pattern: an instruction, or a pattern of whole mnemonics such as ``*.b1.*``.
        shape: as in ``m16n8k16``.
        type: of A, or of what is moved, by any of its names; one or several.

    Raises:
        LanemapError: none matches, or none has one of the types.
    """
    shape = None if shape is None else word("shape", shape)
    found = [
        form
        for form in every()
        if (pattern is None or form.name == pattern or fnmatchcase(form.mnemonic, pattern))
        and (shape is None or shape == form.shape)
    ]
    names = {each: None if each is None else type_name(each)[0] for each in one_or_several(type)}
    there = {None, *map(_type, found)} if found else ()
    for each, name in names.items():
        if name not in there:
            asked = {"instruction": pattern, "shape": shape, "type": each}
            given = " ".join(f"{name} {value!r}" for name, value in asked.items() if value is not None)
            raise LanemapError(f"no instruction matches {given}: lanemap capture --list says what there is")
    return [form for form in found if not {None, _type(form)}.isdisjoint(names.values())]


def _type(form: Form | Move) -> str:
    return form.type if isinstance(form, Move) else form.a
