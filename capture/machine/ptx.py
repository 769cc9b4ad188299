"""What PTX consists of: functions with variables, registers and statements, and statements with operands (4, 5)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from ...db.errors import LanemapError
from ...db.isa.not_found import choose_from

#: State spaces of variables.
SPACES = (".global", ".const", ".shared", ".local", ".param")

#: Bits of a fundamental type (5.2.1), by its letters and number.
TYPE = re.compile(r"(?:[busf]|bf|tf)(\d+)(x2)?|pred")

#: Bits that a register may have.
REGISTER_BITS = (1, 8, 16, 32, 64, 128)


def bits_of(type_: str) -> int:
    """Bits of a type such as ``u32`` or ``f16x2``; 1 of ``pred``.

    >>> bits_of("bf16x2")
    32
    """
    matched = TYPE.fullmatch(type_)
    if matched is None:
        raise LanemapError(f"{type_} is not a type of PTX")
    return int(matched[1] or 1) * (2 if matched[2] else 1)


class Name(NamedTuple):
    """A register, a variable, a label, a function or a special register; as an operand it may be negated."""

    name: str
    negated: bool = False


class Number(NamedTuple):
    """An immediate. ``type`` is ``f32`` or ``f64`` where the number is the bits of such a float, else empty."""

    number: int
    type: str = ""


class Vector(NamedTuple):
    """Operands in braces or parentheses."""

    items: tuple[Operand, ...]


def items_of(operand: Operand) -> tuple[Operand, ...]:
    """The operands of a vector, or the one that stands alone."""
    return operand.items if isinstance(operand, Vector) else (operand,)


class MemoryOperand(NamedTuple):
    """``[base + offset]``, or of a tensor ``[base, {coordinates}]``."""

    base: Name | None
    offset: int
    more: tuple[Operand, ...] = ()


class Both(NamedTuple):
    """``%r|%p``: a result and a predicate."""

    first: Operand
    second: Operand


Operand = Name | Number | Vector | MemoryOperand | Both


class Link(NamedTuple):
    """An address in what a variable begins with: at ``offset``, of ``size`` bytes, that of a name and ``more``.

    Of the address only the bits of ``mask`` are there, moved down.
    """

    offset: int
    size: int
    name: str
    more: int
    mask: int


class Variable(NamedTuple):
    """A variable in a state space, or a parameter, of ``size`` bytes. It begins with ``data``, and ``links`` in it."""

    name: str
    space: str
    type: str
    size: int
    align: int
    data: bytes | None = None
    pointer: bool = False
    links: tuple[Link, ...] = ()


#: Special registers that are vectors of four, by their names.
VECTORS = {
    name: Vector(tuple(Name(f"{name}.{letter}") for letter in "xyzw"))
    for of in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
    for name in [f"%{of}"]
}

#: What the driver gives a cooperative launch, where its blocks wait for each other: a size, and a count.
WORKSPACE = Variable("%envreg", ".global", "b32", 8, 8)


class SourceLine(NamedTuple):
    """The line of the PTX, and the one of the source that it came from, where that is known.

    ``via`` is the line of another file that was inlined there.
    """

    line: int
    source: str = ""
    via: str = ""

    @property
    def named(self) -> str:
        """The line that its author knows: of the source, else of the PTX."""
        return self.source or f"line {self.line}"

    def __str__(self) -> str:
        return self.named + f" via {self.via}" * bool(self.via)


class Statement(NamedTuple):
    """One instruction. ``parts`` are its words between dots, the first of them the operation."""

    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Name | None
    place: SourceLine

    @property
    def opcode(self) -> str:
        """The instruction without operands."""
        return ".".join(self.parts)

    @property
    def type(self) -> str:
        """The last part that is a type."""
        return _type(self.parts)


@cache
def _type(parts: tuple[str, ...]) -> str:
    return next((part for part in reversed(parts) if TYPE.fullmatch(part)), "")


@dataclass
class Function:
    """An entry, or a function that is called. ``registers`` are types by name, ``labels`` indices of the body.

    ``targets`` are the labels that a branch may choose from, and ``cluster`` the blocks of a cluster along each axis.
    """

    name: str
    entry: bool
    parameters: list[Variable] = field(default_factory=list)
    returns: list[Variable] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    targets: dict[str, list[str]] = field(default_factory=dict)
    body: list[Statement] = field(default_factory=list)
    cluster: tuple[int, int, int] = (1, 1, 1)


@dataclass
class Module:
    """All functions with a body and the variables of a text."""

    functions: dict[str, Function] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)

    def reached(self, function: Function) -> list[Function]:
        """The functions that one calls or takes the address of, also through others."""
        return self._reached([function], {})

    def starts(self, entry: Function) -> dict[str, int]:
        """Where an entry and all that it may call begin, one behind the other, and behind each a ``ret``.

        What variables have the address of may be called, too.
        """
        links = {each.name: [link.name for link in each.links] for each in self.variables}
        found, end = dict[str, int](), 0
        for function in [entry, *(each for each in self._reached([entry], links) if each is not entry)]:
            found[function.name] = end
            end += len(function.body) + 1
        return found

    def _reached(self, open_: list[Function], links: dict[str, list[str]]) -> list[Function]:
        found: dict[str, Function] = {}
        while open_:
            operands = [operand for statement in open_.pop().body for operand in statement.operands]
            bases = [each.base if isinstance(each, MemoryOperand) else each for each in operands]
            names = [each.name for each in bases if isinstance(each, Name)]
            while names:
                name = names.pop()
                names += links.pop(name, [])
                if name in self.functions and name not in found:
                    found[name] = self.functions[name]
                    open_.append(found[name])
        return [*found.values()]

    def entry(self, name: str | None = None) -> Function:
        """The entry of this name, or the only one. Raises LanemapError, which names those that there are."""
        entries = [function for function in self.functions.values() if function.entry]
        named = [function for function in entries if name is None or function.name == name]
        if len(named) == 1:
            return named[0]
        if not entries:
            raise LanemapError("no entry in it: is it PTX?")
        words = f"no entry {name}" if name else f"name one of {len(entries)} entries with --entry"
        raise LanemapError(f"{words}: {choose_from(name or '', [one.name for one in entries], 'grep .entry lists')}")
