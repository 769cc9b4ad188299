"""Requests: which fragments somebody asks for, in the names that people have for instructions, shapes and types."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypedDict

from . import spelling
from .candidates import accumulators, candidates, forms
from .errors import LanemapError
from .instructions import INSTRUCTIONS, Form, Key, majors
from .spelling import Name, is_shape

if TYPE_CHECKING:
    from .forms import Move

#: What look-ups read unless another source is named: the document, corrected where it was proved wrong.
DEFAULT_SOURCE = "ptx-isa-9.1+errata"

#: In the place of a source's name: all of them.
EVERY_SOURCE = "all"

_NOTHING = Name()
_SCALE = re.compile(r"ue8m0|ue4m3|scale_vec::[124]x|(?:byte|thread)_id::[0-3]")
_PLAIN = re.compile(r"\s*[\w.:]+(?:\s+[\w.:]+)*\s*")
_ROLES = {role.lower(): role for each in INSTRUCTIONS.values() for role in each.axes}

_EXAMPLES = {
    "shape": "m16n8k16",
    "type": "f16",
    "accumulator": "f32",
    "role": "A",
    "instruction": "mma.sp",
    "major": "row",
    "qualifiers": "x4.trans",
    "source": DEFAULT_SOURCE,
    "values": "T0:{a0,a1}",
    "python": "python3.12",
}


class Which(TypedDict, total=False):
    """What tells operands of one shape, type and role apart, and the source.

    ``instruction`` is ``mma`` or ``mma.sp``; by default the dense one where both have the operand. ``major`` is ``row``
    or ``col`` where there are both (m8n8k4 with f16), ``selector`` the sparsity selector of E, and ``qualifiers`` those
    of a matrix move, as in ``x4.trans``; by default all, told apart by columns of these names. ``source`` is by default
    the corrected document, and where that has no rows, the first other source that has; ``all`` is every source.
    """

    instruction: str | None
    major: str | None
    selector: int | None
    qualifiers: str | None
    source: str | None


@dataclass(frozen=True)
class Query:
    """Which fragments: names in any case, a leading dot allowed, as in ``.F16``. None is any.

    ``shape`` may name a whole instruction instead: as a PTX mnemonic, alone or with what is around it in a kernel, an
    opcode of SASS, an atom of CuTe, or a shape with the type of A. ``type`` may be any name of a type, such as half.
    ``source`` may also be ``all``.
    """

    shape: str | None = None
    type: str | None = None
    role: str | None = None
    instruction: str | None = None
    major: str | None = None
    selector: int | None = None
    source: str | None = None
    qualifiers: str | None = None

    @cached_property
    def name(self) -> Name:
        """What shape, type and instruction name together.

        Raises:
            LanemapError: they contradict each other, or there is no such instruction; says what there is.
        """
        named = _joined(_read("instruction", self.instruction), _read("shape", self.shape))
        if self.type is not None:
            given = text("type", self.type)
            type_, modifier = spelling.type_name(given)
            named = _joined(named, Name(type=type_, modifiers=frozenset(filter(None, [modifier])), text=given))
        if named.of_a_form:
            forms(named)
        return named

    def parameters(self) -> dict[str, Any]:
        """The names as the database spells them. A name that has no role leaves the type open.

        Raises:
            LanemapError: one is not text, the selector is not a whole number, or see ``name``.
        """
        name = self.name
        role = _role(self.role, name)
        own = name.type_of(role) if role else word("type", self.type) and name.type
        if role in ("SFA", "SFB"):
            own = own or next(iter(self._scales & {"ue8m0", "ue4m3"}), None)
        layout, instruction = name.layout_of(role) if role else None, name.instruction
        if role and instruction:
            _check_role(instruction, role)
        several = len(majors(instruction or "", name.shape or "", own or "", role or "")) > 1
        return {
            "shape": name.shape,
            "type": own,
            "role": role,
            "instruction": instruction,
            "major": (layout if several else None) if self.major is None else word("major", self.major),
            "selector": whole("selector", self.selector),
            "qualifiers": None if self._scales else self._qualifiers,
            "source": self._source(),
        }

    def _source(self) -> str | None:
        name = None if self.source is None else text("source", self.source)
        return None if name is None or name.lower() == EVERY_SOURCE else name

    @cached_property
    def _qualifiers(self) -> str | None:
        """The qualifiers of the fragment: those of wmma say how A or B lies in memory."""
        if self.qualifiers is not None:
            return word("qualifiers", self.qualifiers)
        role = _role(self.role, self.name)
        in_memory = self.name.layout_of(role) if self.name.instruction == "wmma" and role in ("A", "B") else None
        return self.name.qualifiers or in_memory

    @cached_property
    def _scales(self) -> set[str]:
        """What is said of block scales: their type, how many there are, and what selects their bytes and lanes."""
        return set(filter(_SCALE.fullmatch, (*self.name.modifiers, *(self._qualifiers or "").split("."))))

    @property
    def forms(self) -> tuple[Form | Move, ...]:
        """The forms that shape, type and instruction name, a type alone being that of A; none if there is no such form.

        A whole mnemonic names one, and a name that says less may name several.
        """
        return forms(self.name) if "sync" in self.name.options else candidates(self.name)

    @cached_property
    def asked(self) -> Mapping[str, Any]:
        """What it says of the key of a fragment: the parameters without the source and what is open."""
        return {name: value for name, value in self.parameters().items() if name != "source" and value is not None}

    def matches(self, key: Key) -> bool:
        """Whether it asks for a fragment, whatever its source."""
        return all(getattr(key, name) == value for name, value in self.asked.items()) and self.includes(key)

    @property
    def from_memory(self) -> bool:
        """Whether it names an atom of CuTe that takes A from shared memory."""
        named = [each for each in (self.shape, self.instruction) if isinstance(each, str) and not is_shape(each)]
        if not named:  # as mostly
            return False
        from .spelling.cute import multiplies_from_memory

        return any(map(multiplies_from_memory, named))

    def includes(self, key: Key) -> bool:
        """Whether a fragment is of the instruction that is named as a whole. It matches ``parameters`` already."""
        if key.role in ("SFA", "SFB") and (
            (self.name.types and "block_scale" not in self.name.modifiers)
            or not self._scales <= {key.type, *(key.qualifiers or "").lower().split(".")}
        ):
            return False
        if not (self.name.types or self.name.type or self.name.layouts or self.name.modifiers):
            return True
        layout = self.name.layout_of(key.role)
        if key.instruction == "wmma" and key.role in ("A", "B") and layout not in (None, key.qualifiers):
            return False
        if self._operands is not None:
            return (key.instruction, key.role, key.type) in self._operands
        return self.name.type_of(key.role) in (None, key.type) and not (
            key.several_majors and layout not in (None, key.major)
        )

    @cached_property
    def _operands(self) -> set[tuple[str, str, str]] | None:
        """Instruction, role and type of the operands, where the name has only the type of A, or none."""
        named = self.name.type or (self.name.modifiers and not self.name.types)
        if self.type is not None or self.role is not None or not named or not self.forms:
            return None
        return {(form.name, *operand) for form in self.forms for operand in form.types.items()}

    def of_accumulator(self) -> Query | None:
        """The same for C, D or block scales where the type is that of A; None where it cannot be."""
        asked = self.parameters()
        named = replace(self, shape=asked["shape"], instruction=asked["instruction"])
        if asked["role"] in ("SFA", "SFB"):
            scaled = any(asked["role"] in form.types and asked["type"] == form.types["A"] for form in self.forms)
            return replace(named, type=None, qualifiers=".".join(self._scales) or None) if scaled else None
        if asked["role"] not in ("C", "D"):
            return None
        found = accumulators(asked["instruction"], asked["shape"], asked["type"])
        return replace(named, type=found[0]) if found else None


def operand(words: Sequence[str], **more: Any) -> Query:
    """What the words of a command or a call ask for: an instruction, or a shape and a type, and then maybe a role.

    >>> operand(["HMMA.16816.F32.BF16", "B"]).parameters()["type"]
    'bf16'

    Args:
        words: as somebody gave them. ``mma.sp m16n8k32 f16`` may be three words or one.
        more: other fields of the query, where they are said apart from the words.

    Raises:
        LanemapError: there are no words.
    """
    if not words:
        raise LanemapError("name an instruction: a mnemonic, or a shape and a type, such as m16n8k16 f16")
    *rest, last = words = _unquoted(words)
    if len(words) == 3 and (is_shape(words[0]) or spelling.read(words[0]) is None):
        return Query(words[0], words[1], words[2], **more)
    if len(words) == 2 and not last.strip():
        return Query(words[0], last, **more)
    if rest and is_role(last):
        return Query(" ".join(rest), role=last, **more)
    return Query(" ".join(words), **more)


def of_operand(shape: str, type_: str | None, role: str | None, **more: Any) -> Query:
    """What the arguments of a call ask for: the second is the role where the first names the whole instruction."""
    more = {"source": DEFAULT_SOURCE, **more}
    given = [each for each in (shape, type_, role) if each is not None]
    if len(given) in (1, 3) and all(isinstance(each, str) for each in given):
        return operand(given, **more)
    return Query(shape, None, type_, **more) if role is None and is_role(type_) else Query(shape, type_, role, **more)


def of_one_operand(shape: str, type_: str | None, role: str | None, **more: Any) -> Query:
    """The same, where it names one operand and not several.

    Raises:
        LanemapError: it does not; says what is missing.
    """
    query = of_operand(shape, type_, role, **more)
    asked = query.parameters()
    lacking = [name for name in ("shape", "role", "type") if asked[name] is None]
    if lacking := [*lacking, *["source"] * (query.source is None)]:
        raise LanemapError(f"say which {lacking[0]}: only sql and fragments go through several")
    return query


def one_or_several(given: Any) -> list[Any]:
    """What a filter takes, in order; a single None where it takes anything."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return [given]
    return list(given) or [None]


def is_role(word: object) -> bool:
    """Whether a word names a role of some instruction, in any case."""
    return isinstance(word, str) and word.lower() in _ROLES


def operands(words: Sequence[str]) -> list[list[str]]:
    """The words of several operands, one after the other: a role ends each.

    >>> operands(["m16n8k16", "f32", "D", "HMMA.16816.F32 A"])
    [['m16n8k16', 'f32', 'D'], ['HMMA.16816.F32', 'A']]
    """
    words = _unquoted(words)
    ends = [at + 1 for at, word in enumerate(words) if at and is_role(word)]
    cuts = sorted({0, *ends, len(words)})
    return [list(words[start:end]) for start, end in pairwise(cuts)]


def _unquoted(words: Sequence[str]) -> list[str]:
    """The words one by one, also where several were quoted together. Code in PTX or C++ stays in one piece."""
    return [each for word in words for each in (word.split() if _PLAIN.fullmatch(word) else [word])]


def _read(field: str, given: object) -> Name:
    """What a field of a query names. A word in none of the notations is taken as it stands: imports have their own."""
    if given is None:
        return _NOTHING
    plain: dict[str, Any] = {field: word(field, given)}
    return spelling.read(text(field, given)) or replace(_NOTHING, **plain, text=text(field, given))


def _joined(one: Name, other: Name) -> Name:
    """What two names say together.

    Raises:
        LanemapError: they contradict each other.
    """
    for each in ("instruction", "shape", "role", "type", "types", "layouts", "qualifiers"):
        first, second = getattr(one, each), getattr(other, each)
        if first == getattr(_NOTHING, each):
            one = replace(one, **{each: second})
        elif second not in (first, getattr(_NOTHING, each)):
            raise LanemapError(f"{one} and {other} are two instructions: name one")
    return replace(
        one,
        modifiers=one.modifiers | other.modifiers,
        options=one.options | other.options,
        opcode=one.opcode or other.opcode,
        text=" ".join(filter(None, (one.text, other.text))),
    )


def _role(given: object, name: Name) -> str | None:
    if given is None:
        return name.role
    role = text("role", given)
    role = _ROLES.get(role.lower(), role.upper())
    if name.role not in (None, role):
        raise LanemapError(f"{name} holds {name.role} and no {role}")
    return role


def _check_role(instruction: str, role: str) -> None:
    if instruction in INSTRUCTIONS and role not in INSTRUCTIONS[instruction].axes:
        from .missing import no_role

        raise LanemapError(no_role(instruction, role))


def whole(name: str, number: object) -> int | None:
    """A number out of a request, as one that every database driver takes; frames and arrays hold others.

    Raises:
        LanemapError: it is no whole number; ``name`` says which.
    """
    if number is None:
        return None
    if not isinstance(number, bool):
        with suppress(TypeError):
            return operator.index(number)  # type: ignore[arg-type]
    raise LanemapError(f"{name} {number!r} is not a whole number: write it like 1")


def text(name: str, value: object) -> str:
    """A word out of a request, without the spaces around it.

    Raises:
        LanemapError: it is not text; ``name`` says which.
    """
    if not isinstance(value, str):
        raise LanemapError(f"{name} {value!r} is not text: write it like {_EXAMPLES[name]!r}")
    return value.strip()


def word(name: str, value: object) -> str | None:
    """The same in small letters and without a leading dot, as PTX's words are in the database."""
    return None if value is None else text(name, value).lower().removeprefix(".")


def naturally(name: str) -> list[tuple[int, str]]:
    """Sort key that counts: m16n8k8 before m16n8k16, and what begins with a number last."""
    parts = re.split(r"(\d+)", name)
    return [(int(not parts[0]), ""), *((int(part), "") if part.isdigit() else (0, part) for part in parts)]
