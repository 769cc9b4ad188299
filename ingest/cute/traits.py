"""CuTe's traits: which layouts each operation has, evaluated from the structs and aliases of its headers.

An operation is a struct with registers, and an instruction in its assembly; ``MMA_Traits<Operation>``, or the base that
it names, has the layouts, for a copy ``Copy_Traits<Operation>``. All may be templates, and one may serve many
operations.
"""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ...db.errors import LanemapError
from ...db.layout.algebra import IntTuple, Sum, strided
from .header import Alias, Header, Struct, Term, TypeName, parse_parameters, parse_type

_NUMBER = re.compile(r"_(\d+)")
_TRAITS = ("MMA_Traits", "Copy_Traits")
_NOTHING = Struct(TypeName(""), (), None, "", {}, [], [], {})
_MAX_NESTED = 60


@dataclass(frozen=True)
class Traits:
    """One specialisation of the traits, and the values of its template parameters."""

    struct: Struct
    bound: Mapping[str, Value]


Value = int | Sum | TypeName | Traits | tuple["Value", ...]


class Library:
    """The structs and aliases of some headers, and the values of the types that they name."""

    def __init__(self) -> None:
        """Start empty; ``add`` headers, those that declare an alias before those that use it."""
        self._aliases: dict[str, set[Alias]] = {}
        self._operations: dict[str, list[tuple[TypeName, Struct]]] = {}
        self._traits: dict[str, list[tuple[TypeName, Struct]]] = {}
        self._open: list[object] = []

    def add(self, header: Header) -> None:
        """Add the declarations of a header."""
        for alias in header.aliases:
            self._aliases.setdefault(alias.name, set()).add(alias)
        for struct in header.structs:
            pattern = self.pattern(struct)
            if pattern is not None:
                # Traits for a single operation come before those with template parameters.
                known_traits = self._traits.setdefault(pattern.name, [])
                insort(known_traits, (pattern, struct), key=lambda candidate: bool(candidate[1].parameters))
            elif "DRegisters" in struct.members:
                # A template has the name of its own instance, which a pattern of all its instances matches.
                instance = struct.name
                if struct.parameters and instance.arguments is None:
                    instance = TypeName(instance.name, tuple(map(TypeName, struct.parameters)))
                name = self._canonical(instance)
                self._operations.setdefault(name.name, []).append((name, struct))

    def pattern(self, struct: Struct) -> TypeName | None:
        """The X of ``MMA_Traits<X>``: an operation, or a pattern of operations; None for any other struct."""
        operation = (struct.name.arguments or [None])[0]
        if struct.name.name not in _TRAITS or not isinstance(operation, TypeName):
            return None
        return self._canonical(operation)

    def operations(self, traits: Struct) -> list[tuple[TypeName, Struct]]:
        """The operations whose traits these are, with their names."""
        pattern = self.pattern(traits)
        candidates = self._operations.get(pattern.name, []) if pattern else []
        return [(name, struct) for name, struct in candidates if (found := self._of(name)) and found.struct is traits]

    def lonely(self) -> list[TypeName]:
        """The operations that have no traits."""
        return [name for group in self._operations.values() for name, _ in group if self._of(name) is None]

    def traits(self, operation: TypeName) -> Traits:
        """The traits of an operation, preferably those for it alone, not those with template parameters.

        Raises:
            LanemapError: it has none.
        """
        traits = self._of(operation)
        if traits is None:
            raise LanemapError(f"there is no MMA_Traits<{operation}>")
        return traits

    def has(self, traits: Traits, member: str) -> bool:
        """Whether the traits or their bases have a member."""
        return any(member in level.struct.members for level in self._lineage(traits))

    def member(self, traits: Traits, member: str) -> Value:
        """The value of a member of the traits or of their bases.

        Raises:
            LanemapError: there is none, it is defined in terms of itself, or it is malformed.
        """
        for level in self._lineage(traits):
            if member in level.struct.members:
                with self._opened((id(level.struct), member), member):
                    return self.value(parse_type(level.struct.members[member]), level)
        raise LanemapError(f"it has no {member}")

    def value(self, term: Term, within: Traits | None = None) -> Value:
        """The value of a type: a number, a tuple, a layout, traits, or a type without another value.

        Raises:
            LanemapError: it is defined in terms of itself, or it is malformed.
        """
        if isinstance(term, int):
            return term
        within = within or Traits(_NOTHING, {})
        if term.scope and (term.scope.name in _TRAITS or self.has(within, term.scope.name)):
            owner = self.value(term.scope, within)
            if isinstance(owner, Traits):  # so the scope is not a namespace
                return self.member(owner, term.name)
        name = term.name
        if term.arguments is None:
            if matched := _NUMBER.fullmatch(name):
                return int(matched[1])
            if name in within.bound:
                return within.bound[name]
            if self.has(within, name):
                return self.member(within, name)
            return self._alias(name, ()) if name in self._aliases else replace(term, scope=None)
        arguments = tuple(self.value(argument, within) for argument in term.arguments)
        match name, arguments:
            case (("Int" | "C"), (int(number),)) | ("constant", (_, int(number))):
                return number
            case (("Shape" | "Stride"), _):
                return arguments
            case "Layout", (shape,):
                return strided(_numbers(shape))
            case "Layout", (shape, stride):
                return strided(_numbers(shape), _numbers(stride))
            case "quotient", (int(number), int(divisor)) if divisor:
                return number // divisor
            case name, (TypeName() as operation,) if name in _TRAITS:
                return self.traits(operation)
            case name, _ if name in self._aliases:
                return self._alias(name, arguments)
        terms = (part if isinstance(part, TypeName | int) else TypeName(str(part)) for part in arguments)
        return TypeName(name, tuple(terms))

    def _of(self, operation: TypeName) -> Traits | None:
        for pattern, struct in self._traits.get(operation.name, []):
            bound: dict[str, Value] = {}
            if _matches(pattern, operation, struct.parameters, bound):
                return Traits(struct, bound)
        return None

    def _canonical(self, name: TypeName) -> TypeName:
        """A type without namespaces and aliases, so that different spellings of one type are equal."""
        value = self.value(name)
        return value if isinstance(value, TypeName) else name

    def _alias(self, name: str, arguments: tuple[Value, ...]) -> Value:
        alias, *others = self._aliases[name]
        if others:
            raise LanemapError(f"{name} means different types in different places")
        with self._opened((name, arguments), name):
            bound = dict(zip(parse_parameters(alias.template), arguments, strict=False))
            return self.value(parse_type(alias.text), Traits(_NOTHING, bound))

    def _lineage(self, traits: Traits) -> Iterator[Traits]:
        """The traits and their bases, nearest first."""
        seen: list[Struct] = []
        while traits.struct not in seen:
            yield traits
            seen.append(traits.struct)
            base = traits.struct.base
            if base is None or base.name not in _TRAITS:
                return
            base_traits = self.value(base, Traits(_NOTHING, traits.bound))
            if not isinstance(base_traits, Traits):
                raise LanemapError(f"its base {base} is not a type")
            traits = base_traits
        raise LanemapError(f"{traits.struct.name} is its own base")

    @contextmanager
    def _opened(self, key: object, name: str) -> Iterator[None]:
        if key in self._open or len(self._open) == _MAX_NESTED:
            raise LanemapError(f"{name} is defined in terms of itself, or through too many others")
        self._open.append(key)
        try:
            yield
        finally:
            self._open.pop()


def written(traits: Struct) -> str:
    """The name of the traits' operation, without namespaces."""
    operation = traits.name.arguments[0] if traits.name.arguments else replace(traits.name, scope=None)
    return str(replace(operation, scope=None) if isinstance(operation, TypeName) else operation)


def _matches(pattern: Term, operation: Value, parameters: Sequence[str], bound: dict[str, Value]) -> bool:
    """Whether an operation matches the pattern; binds the template parameters."""
    if isinstance(pattern, TypeName) and pattern.name in parameters and pattern.arguments is None:
        return bound.setdefault(pattern.name, operation) == operation
    if not isinstance(pattern, TypeName) or not isinstance(operation, TypeName):
        return pattern == operation
    left, right = pattern.arguments, operation.arguments
    if pattern.name != operation.name or left is None or right is None or len(left) != len(right):
        return pattern.name == operation.name and left == right
    return all(_matches(*pair, parameters, bound) for pair in zip(left, right, strict=True))


def _numbers(value: Value) -> IntTuple:
    if isinstance(value, tuple):
        return tuple(map(_numbers, value))
    if isinstance(value, int):
        return value
    raise LanemapError(f"{value} in a layout is not a number")
