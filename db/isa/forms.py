"""The table of forms: one row for each mnemonic of an instruction, with its shape, types and targets.

A new form is a new row. A row of the file stands for several: the words of a text are choices, and a list is one value.
Most look-ups need few forms, so that only the rows are expanded that may have them. Sources: PTX ISA 9.7.16.4 (wmma),
9.7.16.5.14 (mma), 9.7.16.5.15 to 9.7.16.5.17 (matrix moves), 9.7.16.6.3 (mma.sp), 9.7.17.2 (wgmma), 9.7.18.8.3 and
9.7.18.8.4 (Tensor Memory).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property, lru_cache
from itertools import product
from typing import Any

from ..errors import LanemapError
from . import data, instructions
from .arguments import one_or_several, word
from .instructions import INSTRUCTIONS, Instruction, Key, Operand, Sparsity
from .types import type_name

#: Four scales of 1.0, by the suffix that names their type.
_ONES = {".ue8m0": 0x7F7F7F7F, ".ue4m3": 0x38383838}


@dataclass(frozen=True)
class Form:
    """One form of an instruction: a mnemonic. It multiplies, or moves one matrix.

    ``a``, ``b``, ``c`` and ``d`` are the types of a product; what is moved has the type ``a``. ``targets`` have the
    form, as do those that have all that one of them has; the first is the one that it came with. ``version`` is
    that of its vendor's instruction set which it needs. ``majors`` are those of A and B, ``kind`` and ``suffix``
    the qualifiers before and after the types. Where a name may mean several, those of the first ``tier`` are meant.
    ``captured`` is whether a capture can measure it.

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
    targets: tuple[str, ...] = ()
    majors: tuple[str, ...] = ()
    kind: str = ""
    suffix: str = ""
    version: tuple[int, ...] = ()
    role: str = ""
    qualifiers: str | None = None
    layout: str | None = None
    packed: str = ""
    tier: int = 1
    captured: bool = False

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
        if self.role:
            return (self.a,)
        row = self.instruction
        return tuple(self.types[role] for role in row.types if role not in row.implied.get(self.a, ""))

    @cached_property
    def mnemonic(self) -> str:
        """The instruction as its vendor spells it. It is unique, and names the form everywhere."""
        return self.written(self.instruction.move_spelling if self.role else self.instruction.spelling)

    def written(self, spelling: str, **more: object) -> str:
        """A spelling of its instruction, with what the form has, or ``more``, in the place of what is in braces."""
        fields = {"majors": ".".join(self.majors), "types": ".".join(self.named_types)}
        fields |= {"move": self.moves, "role": self.role.lower(), **dict(instructions.AXES.findall(self.shape))}
        fields |= zip(("count", "index"), (self.qualifiers or "").split("."), strict=False)
        return spelling.format_map(vars(self) | fields | more)

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
        layout = dict(zip("AB", self.majors or (self.layout,) * 2, strict=False)).get(role)
        major = layout if self.instruction.layouts == "major" else None
        qualifiers = layout if self.instruction.layouts == "qualifiers" else None
        selector = selector if role == "E" else None
        return Key(self.name, self.shape, self.types[role], role, major, selector, self.qualifiers or qualifiers)

    @property
    def target(self) -> str:
        """The target that came with it: the least of those that are no family's."""
        return self.targets[0]

    @property
    def needs(self) -> str:
        """The targets that have it, in short: ``sm_80+`` is every later one, too."""
        vendor, others = self.instruction.vendor, self.targets[1:]
        own = [] if any(vendor.supports(other, self.target) for other in others) else [self.target]
        return " ".join(map(vendor.onwards, [*own, *others]))

    @property
    def listed(self) -> str:
        """The same for searches in text: each member of a family, but of what all later targets have only the least."""
        return _listed(self.name, self.targets)

    def supports(self, target: str) -> bool:
        """Whether its vendor allows the form on a target such as sm_90a."""
        return any(self.instruction.vendor.supports(own, target) for own in self.targets)

    def __str__(self) -> str:
        return self.mnemonic


@cache
def _listed(name: str, targets: tuple[str, ...]) -> str:
    vendor, ever_since = instructions.instruction(name).vendor, [one for one in targets if one[-1].isdecimal()]
    every = (target for target in vendor.targets if any(vendor.supports(own, target) for own in targets))
    return " ".join(ever_since or every)


_ROWS = data("forms")


@cache
def _words(row: int) -> set[str | int]:
    """What may be said of forms of a row: instruction, tier, shapes and types of A."""
    said = _ROWS[row]
    shapes = product(said["shape"].split(), said.get("n", "").split() or [""])
    tiers = {said.get("tier", Form.tier)} | ({Form.tier} if "b" in said else set())
    return {said["name"], *tiers, *said["a"].split(), *(shape.format(n=n) for shape, n in shapes)}


@cache
def _of_row(row: int) -> Sequence[Form]:
    """The forms of a row: the words of its first field vary slowest.

    B has the type of A, and C that of D, where the row does not say otherwise. Few names mean a B of another type.
    """
    said = _ROWS[row]
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
    fields = {"version": INSTRUCTIONS[said["name"]].vendor.version} | fields
    choices = {name: value.split() for name, value in fields.items() if isinstance(value, str)}
    forms = []
    for values in product(*choices.values()):
        chosen: dict[str, Any] = fields | dict(zip(choices, values, strict=True))
        if "d" in chosen:
            chosen = {"b": chosen["a"], "c": chosen["d"]} | chosen
        if chosen.get("b", chosen["a"]) != chosen["a"]:
            chosen["tier"] = Form.tier
        if "majors" in chosen:
            chosen["majors"] = tuple(chosen["majors"].split("."))
        chosen["shape"] = chosen["shape"].format(n=chosen.pop("n", None))
        forms.append(Form(**chosen))
    return forms


@lru_cache(1 << 10)
def forms(
    name: str | None = None, shape: str | None = None, a: str | None = None, tier: int | None = None
) -> tuple[Form, ...]:
    """All forms, or those of an instruction, of a shape, with a type of A or of what is moved, of a tier.

    >>> len(forms("mma", "m16n8k16", "f16"))
    2
    """
    asked = {name, shape, a, tier} - {None}
    every = (form for row in range(len(_ROWS)) if asked <= _words(row) for form in _of_row(row))
    return tuple(form for form in every if asked <= {form.name, form.shape, form.a, form.tier})


def select(pattern: str | None = None, shape: str | None = None, type: str | Sequence[str] | None = None) -> list[Form]:
    """The forms that a capture can measure and that match.

    Args:
        pattern: an instruction, or a pattern of whole mnemonics such as ``*.b1.*``.
        shape: as in ``m16n8k16``.
        type: of A, or of what is moved, by any of its names; one or several.

    Raises:
        LanemapError: none matches, or none has one of the types.
    """
    selected = [form for form in forms(shape=word("shape", shape)) if form.captured]
    if pattern is not None:
        selected = [form for form in selected if form.name == pattern or fnmatchcase(form.mnemonic, pattern)]
    having = {form.a for form in selected}
    types = {type_: type_name(type_)[0] for type_ in one_or_several(type)}
    lacking = next((option for option, name in types.items() if name not in having), None)
    if lacking is not None or not selected:
        request = {"instruction": pattern, "shape": shape, "type": lacking}
        named = " ".join(f"{name} {value!r}" for name, value in request.items() if value is not None)
        raise LanemapError(f"no instruction matches {named}: lanemap capture --list says what there is")
    return [form for form in selected if not types or form.a in types.values()]
