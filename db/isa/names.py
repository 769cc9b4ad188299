"""Requests: which fragments somebody asks for, in the names that people have for instructions, shapes and types.

A request is taken apart into tokens, tokens mean forms, and forms have operands. Most look-ups name a shape, a type and
a role, and need no form for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

from ..errors import LanemapError
from .arguments import expect_names, text, whole, word
from .instructions import INSTRUCTIONS, ROLES, Key, instruction, majors
from .shared import pattern
from .types import SCALE_TYPES, is_shape, plain, same_name, shape_name, type_bits, type_name, types_named
from .vendors import VENDORS

if TYPE_CHECKING:
    from .forms import Form

#: In the place of a source's name: the best evidence of each fragment, and all sources.
DEFAULT_SOURCE, EVERY_SOURCE = "best", "all"

#: The kinds of tokens of which a request has one.
_KINDS = {"instruction", "shape", "role", "type", "types", "layouts", "qualifiers", "memory"}
#: What else may be said of an operand of an instruction whose mnemonics name neither shape nor types.
_UNSPELT = ("memory", "qualifiers", "scale_vec", "byte_id", "scale_type", "one_block")
_SCALE = re.compile(r"ue8m0|ue4m3|ue5m3|(?:scale_vec|byte_id|thread_id)::\w+")
_PLAIN = re.compile(r"[\s;]*[\w.:]+(?:[\s;]+[\w.:]+)*[\s;]*")
_ROLES = {role.lower(): role for role in ROLES}


class Tiles(TypedDict, total=False):
    """What describes a tile: its shape, how many warps make it, their numbers, and where their instructions are.

    ``tile`` is as in ``m64n64k32``, ``warps`` along M and N, as in ``2x2``, ``order`` the axis along which warps are
    numbered first, m or n, and ``contiguous`` says that the instructions of a warp are neighbours. See ``Tiling``.
    """

    tile: str | None
    warps: str | None
    order: str | None
    contiguous: bool | None


class Which(Tiles, total=False):
    """What tells operands of one shape, type and role apart, and the source.

    ``instruction`` is ``mma`` or ``mma.sp``; by default the dense one where both have the operand. ``vendor`` is
    ``nvidia`` or ``amd``, where both have it. ``major`` is ``row`` or ``col`` where there are both (m8n8k4 with f16),
    ``selector`` the sparsity selector of E, and ``qualifiers`` those of a matrix move, as in ``x4.trans``; by default
    all, told apart by columns of these names. ``source`` is by default ``best``: of each fragment the best evidence,
    see ``lookup.choose``; ``all`` is every source. For the tile of many instructions see ``Tiles``.
    """

    instruction: str | None
    major: str | None
    selector: int | None
    qualifiers: str | None
    source: str | None
    vendor: str | None


class Chaining(Tiles, total=False):
    """How one operand becomes another, or is loaded or stored; see ``Database.chain``."""

    transpose: bool
    relabel: bool
    major: Annotated[str | None, "row or col: of A or B that has both, or of the tile in memory."]
    count: int | None
    pitch: int | None
    swizzle: str | None
    through: str | None
    vendor: str | None


@dataclass(frozen=True)
class Query:
    """Which fragments: names in any case, a leading dot allowed, as in ``.F16``. None is any.

    ``shape`` may name a whole instruction instead: as a PTX mnemonic, alone or with what is around it in a kernel, an
    opcode of SASS, an atom of CuTe, or a shape with the type of A. ``type`` may be any name of a type, such as half.
    An instruction that is not in the table is one of an import. ``source`` may also be ``best`` or ``all``.
    """

    shape: str | None = None
    type: str | None = None
    role: str | None = None
    instruction: str | None = None
    major: str | None = None
    selector: int | None = None
    source: str | None = None
    qualifiers: str | None = None
    vendor: str | None = None
    tile: str | None = None
    warps: str | None = None
    order: str | None = None
    contiguous: bool | None = None

    @classmethod
    def parse(cls, tokens: str | Sequence[str], **more: Any) -> Query:
        """What the tokens of a command or a call ask for: an instruction, or a shape and a type, and then maybe a role.

        >>> Query.parse("HMMA.16816.F32.BF16 B").parameters()["type"]
        'bf16'

        Args:
            tokens: as somebody gave them, in any order. ``mma.sp m16n8k32 f16`` may be three tokens or one. One may be
                the vendor.
            more: other fields of the query, where they are said apart from the tokens.

        Raises:
            LanemapError: there are no tokens.
        """
        parts = _unquoted(tokens)
        if vendors := [part for part in parts if part and part.lower() in VENDORS]:
            named = dict.fromkeys(vendor.lower() for vendor in (*vendors, more.get("vendor")) if vendor)
            if len(named) > 1:
                raise LanemapError(f"{' and '.join(named)} are several vendors: name one")
            parts, more["vendor"] = [part for part in parts if part not in vendors], vendors[0]
        if not parts:
            if vendors and not (vendor := VENDORS[vendors[0].lower()]).document:
                listed = f"lanemap list --vendor {vendor.name} names what there is"
                raise LanemapError(f"Lanemap ships nothing of {vendor.title}: import a table or a mapping; {listed}")
            raise LanemapError("name an instruction: a mnemonic, or a shape and a type, such as m16n8k16 f16")
        parts = sorted(parts, key=lambda part: (is_role(part), plain(part) not in INSTRUCTIONS))
        if types_named(parts[0]):
            parts.sort(key=is_shape, reverse=True)
        *rest, last = parts
        if not all(map(str.strip, parts)) or (len(parts) == 3 and is_shape(parts[0]) and not _modifies(last)):
            return cls(**more | dict(zip(("shape", "type", "role"), parts, strict=False)))
        if rest and is_role(last):
            return cls(" ".join(rest), role=last, **more)
        return cls(" ".join(parts), **more)

    @classmethod
    def of(cls, shape: str, type: str | None = None, role: str | None = None, **which: Unpack[Which]) -> Query:
        """What the arguments of a call ask for: the second is the role where the first names the whole instruction."""
        expect_names(which, Which.__annotations__)
        more: Any = {"source": DEFAULT_SOURCE, **which}
        parts = [part for part in (shape, type, role) if part is not None]
        tokens = all(isinstance(part, str) for part in parts) and (len(parts) != 2 or is_role(parts[1]))
        return cls.parse(parts, **more) if tokens else cls(shape, type, role, **more)

    @classmethod
    def begins(cls, token: str) -> bool:
        """Whether a token can begin the name of an operand, as that of a source does not.

        >>> Query.begins("m16n8k16"), Query.begins("h200-sm_90a")
        (True, False)
        """
        try:
            tokens = cls.parse(token).tokens
        except LanemapError:  # a vendor, or an opcode that is misspelt
            return True
        known = {*tokens.values()} != {"instruction"} or not tokens.keys().isdisjoint(INSTRUCTIONS)
        return known or is_role(token) or token.isdigit()

    @classmethod
    def compared(cls, tokens: str | Sequence[str]) -> Query:
        """What the tokens of a comparison ask for, where a role or a vendor alone is that of every instruction.

        >>> Query.compared("A").parameters()["role"], Query.compared("amd").parameters()["vendor"]
        ('A', 'amd')
        """
        if not all(tokens):
            raise LanemapError("a word of the operand is empty: leave it out")
        parts = _unquoted(tokens)
        if len(parts) == 1 and parts[0].lower() in VENDORS:
            return cls(vendor=parts[0])
        query = cls.parse(tokens)
        alone = query.role is None and is_role(query.shape)
        return replace(query, shape=None, role=query.shape) if alone else query

    @staticmethod
    def split(tokens: Sequence[str]) -> list[list[str]]:
        """The tokens of several operands, one after the other: a role ends each, or begins each.

        >>> Query.split(["m16n8k16", "f32", "D", "HMMA.16816.F32 A"])
        [['m16n8k16', 'f32', 'D'], ['HMMA.16816.F32', 'A']]

        A move of registers needs none: of two the second begins an operand, and so does what follows an ldmatrix.

        >>> Query.split(["tcgen05.ld", "16x256b", "x1", "stmatrix"])
        [['tcgen05.ld', '16x256b', 'x1'], ['stmatrix']]
        """
        tokens = _unquoted(tokens)
        after = not is_role(tokens[0])
        ends = {at + after for at, token in enumerate(tokens) if at and is_role(token)}
        moves = [at for at, token in enumerate(tokens) if _is_one(token, _REGISTER_MOVES)]
        ends |= {at for at in moves[1:] if at - 1 + after not in ends}
        pieces = [tokens[start:end] for start, end in pairwise(sorted({0, *ends, len(tokens)}))]
        move, *rest = pieces[0]
        bare = rest and _is_one(move, [*MATRIX_MOVES, *PLAIN_MOVES]) and rest[-1].lower() != "r"
        for operand, others in pairwise(pieces):
            while others and _modifies(others[0]):
                operand.append(others.pop(0))  # what else is said of an operand may stand behind its role
        pieces = [*filter(None, pieces)]
        return [[move], pieces[0][1:], *pieces[1:]] if bare else pieces

    @cached_property
    def tokens(self) -> dict[str, str]:
        """The tokens that shape, type and instruction name together, each with its kind.

        Raises:
            LanemapError: they contradict each other, or there is no such instruction; says what there is.
        """
        tokens: dict[str, str] = {}
        for field, given in self._given.items():
            more = _parsed_type(given, tokens) if field == "type" else _parsed(given, field)
            for kind in {*more.values()} & _KINDS:
                if any(tag == kind != more.get(token) for token, tag in tokens.items()):
                    named = [token for token, tag in {**tokens, **more}.items() if tag == "instruction"]
                    for unknown in (token for token in named if token not in INSTRUCTIONS):
                        raise LanemapError(f"no shape or instruction {unknown}")
                    raise LanemapError(f"{self.title} is the name of two instructions: name one")
            tokens = {**more, **tokens}
        known = [instruction(token) for token, kind in tokens.items() if kind == "instruction"]
        # Without a name it may be one whose mnemonics have no patterns of memory.
        unspelt = ("memory",) if not known else _UNSPELT if any(not row.has_forms for row in known) else ()
        if not {*tokens.values()} <= {"instruction", "shape", "type", *unspelt}:
            from .spelling import candidates

            if not candidates(tokens):
                from .not_found import no_form

                raise LanemapError(no_form(tokens, self.title, self.role and str(self.role).upper()))
        return tokens

    @property
    def title(self) -> str:
        """What to call it in a message: the names as somebody wrote them."""
        from .parse import title

        return " ".join(filter(None, map(title, self._given.values())))

    @cached_property
    def _given(self) -> Mapping[str, str]:
        fields = {"instruction": self.instruction, "shape": self.shape, "type": self.type}
        return {name: text(name, value) for name, value in fields.items() if value is not None}

    def token(self, kind: str) -> str | None:
        """The token of a kind, such as the shape, or the only type that is named."""
        return self._of_kind.get(kind)

    @cached_property
    def _of_kind(self) -> Mapping[str, str]:
        return {kind: token for token, kind in reversed(self.tokens.items())}

    @cached_property
    def forms(self) -> Sequence[Form]:
        """The forms that shape, type and instruction name, a type alone being that of A; none if there is no such form.

        A whole mnemonic names one, and a name that says less may name several.
        """
        from .spelling import candidates, exact

        forms = candidates(self.tokens, word("vendor", self.vendor))
        return exact(self.tokens, forms) if "sync" in self.tokens else forms

    def parameters(self) -> dict[str, Any]:
        """The names as the database spells them. A name that has no role leaves the type open.

        Raises:
            LanemapError: one is not text, the selector is not a whole number, or see ``tokens``.
        """
        return dict(self._parameters)

    @cached_property
    def _parameters(self) -> Mapping[str, Any]:
        held, shape, name = (self.token(kind) for kind in ("role", "shape", "instruction"))
        role = held if self.role is None else text("role", self.role)
        role = role and _ROLES.get(role.lower(), role.upper())
        if held and role != _ROLES[held]:
            raise LanemapError(f"{self.title} holds {held.upper()} and no {role}")
        if shape is None and "factor" in self.tokens.values():  # where it is a part of a mnemonic, it is the shape
            shape = self.forms[0].shape
        if role and (row := INSTRUCTIONS.get(name or "")) and role not in row.axes:
            raise LanemapError(row.absent.get(role) or f"{name} has no {role}: it has {', '.join(row.axes)}")
        type_ = self._type_of(role) if role else self.token("type") if self.type is not None else None
        if role in ("SFA", "SFB"):
            type_ = type_ or next(iter(self._scales & {*SCALE_TYPES}), None)
        layout = self.layout_of(role) if role else None
        has_majors = len(majors(name or "", shape or "", type_ or "", role or "")) > 1
        in_memory = layout if role in ("A", "B") and instruction(name or "").layouts == "qualifiers" else None
        named = self.token("qualifiers") or self.token("memory") or in_memory
        qualifiers = named if self.qualifiers is None else word("qualifiers", self.qualifiers)
        if named not in (None, qualifiers):
            raise LanemapError(f"{self.title} has {named} and not {qualifiers}", "qualifiers")
        source = None if self.source is None else text("source", self.source)
        vendor = word("vendor", self.vendor)
        return {
            "shape": shape,
            "type": type_,
            "role": role,
            "instruction": name,
            "major": (layout if has_majors else None) if self.major is None else word("major", self.major),
            "selector": whole("selector", self.selector),
            "qualifiers": None if self._scales else qualifiers,
            "source": None if source is None or source.lower() == EVERY_SOURCE else source,
            "vendor": vendor,
        }

    @cached_property
    def asked(self) -> dict[str, Any]:
        """What it says of the key of a fragment: the parameters without the source and what is open."""
        return {name: value for name, value in self.parameters().items() if name != "source" and value is not None}

    def matches(self, key: Key) -> bool:
        """Whether it asks for a fragment, whatever its source."""
        # Without a generator, which would take most of the time. Most keys are of another role.
        for name, value in reversed(self.asked.items()):
            if (own := getattr(key, name)) != value and not same_name(own, value):
                return False
        return self.includes(key)

    def includes(self, key: Key) -> bool:
        """Whether a fragment is of the instruction that is named as a whole. It matches ``parameters`` already."""
        if key.role in ("SFA", "SFB") and (
            (self.spells_types and "block_scale" not in self.tokens)
            or not self._scales <= {key.type, *(key.qualifiers or "").lower().split(".")}
        ):
            return False
        row = instruction(key.instruction)
        either = pattern(key.qualifiers) and (key.role in row.tensor_memory or key.role not in row.memory_only)
        if either and self.asked.get("role") and not pattern(self.asked.get("qualifiers")):
            return False  # one operand, named without where it lies, is that in registers or Tensor Memory
        if {*self.tokens.values()} <= {"instruction", "shape"}:
            return True
        if (row.has_forms and {"scale_vec", "kind"} & {*self.tokens.values()}) and key[:2] not in {
            (form.name, form.shape) for form in self.forms
        }:
            return False
        layout = self.layout_of(key.role)
        held = key.qualifiers if row.layouts == "qualifiers" else key.major
        if layout not in (None, held) and (key.several_majors or held is key.qualifiers) and key.role in ("A", "B"):
            return False
        one_type = not self.spells_types and (self.type is not None or self.role is not None)
        if one_type or not self._operands:
            return self._type_of(key.role) in (None, key.type)
        return key[:4] in self._operands

    @property
    def spells_types(self) -> bool:
        """Whether the types of all operands are named."""
        return not {"types", "spelling"}.isdisjoint(self.tokens.values())

    def layout_of(self, role: str) -> str | None:
        """``row`` or ``col``, where the name says so of an operand: of A, of B, or of the matrix that is moved."""
        layouts = (self.token("layouts") or "").split(".")
        roles = "AB" if len(layouts) == 2 else [(self.token("role") or self.role or "").upper()]
        return dict(zip(roles, layouts, strict=False)).get(role) or None

    @property
    def tiles(self) -> Tiles:
        """The tile that it asks for."""
        return {"tile": self.tile, "warps": self.warps, "order": self.order, "contiguous": self.contiguous}

    def type_named(self, role: str) -> str | None:
        """The type of an operand, where the name has those of all operands; that of E is the type of A."""
        types = {form.types.get("A" if role == "E" else role) for form in self.forms} if self.spells_types else set()
        return types.pop() if len(types) == 1 else None

    def of_registers(self) -> Query:
        """The same; of a move such as ldmatrix or tcgen05.ld without a role its registers, r."""
        bare = self.role is None and self.token("instruction") in _REGISTER_MOVES
        return replace(self, role="r") if bare else self

    def matching(self, keys: Iterable[Key]) -> set[Key]:
        """Those that it asks for. Of each vendor, C, D and block scales match by the type of A if not by their own."""
        keys = [*keys]
        found = {key for key in keys if self.matches(key)}
        matched = {key.vendor for key in found}
        if "" not in matched:  # what is of no known vendor may be of any
            vendors = {instruction(name).vendor.name for name in {key.instruction for key in keys}} - {""}
            for vendor in (vendors or {""}) - matched:
                if of_accumulator := self.of_accumulator(vendor):
                    found |= {key for key in keys if key.vendor in (vendor, "") and of_accumulator.matches(key)}
        if not self.asked.get("role") or "qualifiers" in self.asked:
            return found
        # Without qualifiers it is the operand that has none, if there is one: D of one block, and not of ``.ws``.
        return {key for key in found if key.qualifiers is None or key._replace(qualifiers=None) not in found}

    def of_accumulator(self, vendor: str | None = None) -> Query | None:
        """The same for C, D or block scales where the type is that of A; None where a vendor has no such form."""
        asked = self.parameters()
        named = replace(self, shape=asked["shape"], instruction=asked["instruction"])
        if asked["role"] in ("SFA", "SFB"):
            scaled = any(asked["role"] in form.types and asked["type"] == form.types["A"] for form in self.forms)
            return replace(named, type=None, qualifiers=".".join(self._scales) or self.qualifiers) if scaled else None
        if asked["role"] not in ("C", "D"):
            return None
        accumulating = accumulators(asked["instruction"], asked["shape"], asked["type"], vendor or asked["vendor"])
        return replace(named, type=accumulating[0]) if accumulating else None

    def _type_of(self, role: str) -> str | None:
        return self.type_named(role) if self.spells_types else self.token("type")

    @cached_property
    def _scales(self) -> set[str]:
        """What is said of block scales: their type, how many there are, and what selects their bytes and lanes."""
        given = (word("qualifiers", self.qualifiers) or "").split(".")
        scales = {*filter(_SCALE.fullmatch, self.tokens), *(given if any(map(_SCALE.fullmatch, given)) else ())}
        counts = {form.block_scales for form in self.forms} if "block_scale" in self.tokens else set()
        return scales | {f"scale_vec::{each[0]}x" for each in counts if each and len(counts) == 1}

    @cached_property
    def _operands(self) -> set[tuple[str, str, str, str]]:
        """Instruction, shape, type and role of the operands of the forms that are named."""
        from .spelling import exact

        forms = exact(self.tokens, self.forms) if self.spells_types else self.forms
        return {(form.name, form.shape, type_, role) for form in forms for role, type_ in form.types.items()}


def _parsed(spelt: str, field: str) -> Mapping[str, str]:
    """The tokens of a name. In none of the notations, it is an instruction of an import, with a shape and a type."""
    if is_shape(spelt):
        return {shape_name(spelt): "shape"}
    if plain(spelt) in INSTRUCTIONS or plain(spelt) in PLAIN_MOVES:
        return {plain(spelt): "instruction"}
    if types_named(spelt):
        return _parsed_type(spelt, {})
    from .parse import parse

    if (parsed := parse(spelt)) is not None:
        return parsed
    if not spelt:
        return {"": field}
    head, *rest = spelt.split()
    return {plain(head): "instruction"} | {shape_name(part): "shape" if is_shape(part) else "type" for part in rest}


def _parsed_type(spelt: str, named: Mapping[str, str]) -> Mapping[str, str]:
    """A type by any of its names, and what the name says besides. An instruction of an import has types of its own."""
    if any(kind == "instruction" and token not in INSTRUCTIONS for token, kind in named.items()):
        return {plain(spelt): "type"}
    type_, modifier = type_name(spelt)
    return {type_: "type"} | ({modifier: modifier.partition("::")[0]} if modifier else {})


@lru_cache(1 << 10)
def accumulators(instruction: str | None, shape: str, a: str, vendor: str | None = None) -> tuple[str, ...]:
    """The types of D for a type of A, most exact first."""
    if not shape or not a:
        return ()
    from .spelling import candidates

    tokens = {shape: "shape", a: "type"} | ({instruction: "instruction"} if instruction else {})
    types = {form.types.get("D", "") for form in candidates(tokens, vendor)} - {""}
    return tuple(sorted(types, key=type_bits, reverse=True))


def is_role(token: object) -> bool:
    """Whether a token names a role of some instruction, in any case."""
    return isinstance(token, str) and token.lower() in _ROLES


def _modifies(token: str) -> bool:
    """Whether a token says more of an instruction than shape, type and role, as ``xor.popc`` does."""
    from .spelling import kind_of

    return not is_role(token) and {"", "shape", "verb"}.isdisjoint(map(kind_of, plain(token).split(".")))


#: The moves between an operand and shared memory, of which lanes give addresses: a load and a store.
MATRIX_MOVES = [name for name, row in INSTRUCTIONS.items() if "p" in row.axes]
#: Those of which each lane moves what lies at its own address, a load and a store, which are no matrix moves.
PLAIN_MOVES = ("ld.shared", "st.shared")
#: All moves between registers and a memory.
_REGISTER_MOVES = [*(name for name, row in INSTRUCTIONS.items() if "r" in row.axes), *PLAIN_MOVES]


def _is_one(token: str, names: Iterable[str]) -> bool:
    """Whether a token is one of these instructions, maybe with what follows it in a mnemonic."""
    return f"{token.lower()}.".startswith(tuple(f"{name}." for name in names))


def _unquoted(tokens: str | Sequence[str]) -> list[str]:
    """The tokens one by one, also where several were quoted together. Code in PTX or C++ stays in one piece."""
    given = filter(str.strip, [tokens]) if isinstance(tokens, str) else tokens
    return [part for each in given for part in (each.replace(";", " ").split() if _PLAIN.fullmatch(each) else [each])]
