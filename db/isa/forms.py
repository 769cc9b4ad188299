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

from . import facts, instructions
from .instructions import INSTRUCTIONS, Instruction, Key, Operand, Sparsity
from .listing import grouped
from .vendors import onwards

#: PTX ISA version that forms need, but for the few that say which later one has them.
VERSION = (8, 7)

_ROW_COL = ("row", "col")

#: Four scales of 1.0, by the suffix that names their type.
_ONES = {".ue8m0": 0x7F7F7F7F, ".ue4m3": 0x38383838}


@dataclass(frozen=True)
class Form:
    """One form of an instruction: a mnemonic. It multiplies, or moves one matrix.

    ``a``, ``b``, ``c`` and ``d`` are the types of a product; what is moved has the type ``a``. ``target`` is the least
    target; one that ends in a letter stands for its family only, and ``also`` names other families that have the form.
    ``version`` is the PTX ISA version that it needs. ``majors`` are those of A and B, ``kind`` and ``suffix`` the
    qualifiers before and after the types.

    ``role`` is the register operand of a move: ``r``, the matrix that wmma loads or stores, or D of ``movmatrix``,
    which moves from registers to registers. ``qualifiers`` are those of its fragment, and ``layout`` is how wmma's
    matrix lies in memory, which is no property of the fragment of C and D. ``packed`` is the 4- or 6-bit format in
    memory from which bytes are made.
    """

    name: str
    shape: str
    a: str
    b: str = ""
    c: str = ""
    d: str = ""
    target: str = ""
    majors: tuple[str, ...] = ()
    kind: str = ""
    suffix: str = ""
    version: tuple[int, ...] = VERSION
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
    def scale(self) -> int | None:
        """The word of block scales that are all 1.0; None where it has none."""
        return _ONES.get(self.suffix)

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


def _family(name: str) -> tuple[Form, ...]:
    """The forms of a family. Each field of a row lists what there is, and the first one varies slowest.

    B has the type of A, and C that of D, where the row does not say otherwise.
    """
    forms = []
    for row in _FACTS[name]:
        for values in product(*map(str.split, row.values())):
            fields: dict[str, Any] = dict(zip(row, values, strict=True))
            if "d" in fields:
                fields = {"b": fields["a"], "c": fields["d"], **fields}
            for several in fields.keys() & {"majors", "also", "version"}:
                parts = fields[several].split(".")
                fields[several] = tuple(int(part) if part.isdecimal() else part for part in parts)
            fields["shape"] = fields["shape"].format(n=fields.pop("n", None))
            forms.append(Form(**fields))
    return tuple(forms)


_FACTS = facts("forms")

DENSE_FORMS, SPARSE_FORMS, NARROW_FORMS = map(_family, ("dense", "sparse", "narrow"))

#: Every form.
FORMS = (*DENSE_FORMS, *SPARSE_FORMS, *NARROW_FORMS)

#: Types that A and B of one form may have in any combination (9.7.14.5.14).
_MIXED = ({"s8", "u8"}, {"s4", "u4"}, {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1"})


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
    return (*_family("mixed"), *_with_another_b(FORMS))


@cache
def warpgroup() -> tuple[Form, ...]:
    """Forms of wgmma and wgmma.sp. B is never in registers, so its type adds no fragment: it is that of A."""
    return _family("warpgroup")


@cache
def wmma() -> tuple[Form, ...]:
    """Forms of wmma.mma."""
    return _family("wmma")


@cache
def moves() -> tuple[Form, ...]:
    """Forms of ldmatrix, stmatrix, movmatrix, wmma.load and wmma.store."""
    listed = [*_family("moves")]
    for form in wmma():
        layouts = {"A": form.majors[:1], "B": form.majors[1:], "C": _ROW_COL, "D": _ROW_COL}
        for role, layout in ((role, layout) for role, every in layouts.items() for layout in every):
            qualifiers = layout if role in "AB" else None
            moved = form.shape, form.types[role]
            listed.append(Form("wmma", *moved, target=form.target, role=role, qualifiers=qualifiers, layout=layout))
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
    return _family("later_moves")


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
