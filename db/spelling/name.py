"""What a spelling says, whatever its notation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Name:
    """What a name says of an instruction; what it does not say is None or empty.

    ``types`` has the types by role, where the name tells them apart, and ``type`` is the only type it names.
    ``layouts`` are ``row`` or ``col``, of A and of B, or of the one matrix that is moved. ``qualifiers`` are those of a
    matrix move, ``modifiers`` all other words that tell instructions apart, and ``options`` those that do not.
    ``opcode`` has the words of an opcode of SASS, and ``text`` is the name as somebody wrote it.
    """

    instruction: str | None = None
    shape: str | None = None
    role: str | None = None
    type: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    layouts: tuple[str, ...] = ()
    qualifiers: str | None = None
    modifiers: frozenset[str] = frozenset()
    options: frozenset[str] = field(default=frozenset(), compare=False)
    opcode: tuple[str, ...] = field(default=(), compare=False)
    text: str = field(default="", compare=False)

    @property
    def of_a_form(self) -> bool:
        """Whether it says more than an instruction, a shape and a type, so that there must be a form of all of it."""
        return bool(self.types or self.layouts or self.modifiers or self.options or self.opcode or self.qualifiers)

    def type_of(self, role: str) -> str | None:
        """The type of an operand; that of E is the type of A."""
        return self.types.get("A" if role == "E" else role, None if self.types else self.type)

    def layout_of(self, role: str) -> str | None:
        """``row`` or ``col``, where the name says so of an operand."""
        roles = "AB" if len(self.layouts) == 2 else [self.role]
        return dict(zip(roles, self.layouts, strict=False)).get(role)

    def __str__(self) -> str:
        return self.text
