"""The marks of a section put together: operands, the groups of types in each, and the layouts of each group."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import marks as m


@dataclass
class Part:
    """One layout: figures by number with their anchors, and the pieces of its formula."""

    line: int
    major: str | None = None
    types: tuple[str, ...] = ()
    figures: dict[str, str] = field(default_factory=dict)
    formula: list[m.Formula] = field(default_factory=list)


@dataclass
class Group:
    """The rows of a table, and the layouts that they share or that are told apart by type or major."""

    line: int
    rows: list[m.Registers] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Nothing has been said of it."""
        return not self.rows and not any(part.figures or part.formula for part in self.parts)


@dataclass
class Operand:
    """What a section says of some roles. ``loose`` formulas had no place, ``stray`` conditions no formula."""

    line: int
    roles: tuple[str, ...]
    text: str = ""
    groups: list[Group] = field(default_factory=list)
    metadata: m.Metadata | None = None
    same: m.Same | None = None
    loose: list[m.Formula] = field(default_factory=list)
    stray: list[m.Stray] = field(default_factory=list)


def gather(found: Iterable[m.Mark]) -> list[Operand]:
    """The operands of a section, in order. One without roles holds what was said before any was named."""
    operands = [Operand(0, ())]
    for mark in found:
        current = operands[-1]
        match mark:
            case m.Operand():
                operands.append(Operand(mark.line, mark.roles, mark.text))
            case m.Same():
                if mark.roles and mark.roles != current.roles:
                    operands.append(Operand(mark.line, mark.roles, mark.text))
                operands[-1].same = mark
            case m.Stray():
                current.stray.append(mark)
            case m.Metadata():
                current.metadata = current.metadata or mark
            case _:
                _add(current, mark)
    return operands


def _add(operand: Operand, mark: m.Group | m.Layout | m.Figure | m.Registers | m.Formula) -> None:
    group = operand.groups[-1] if operand.groups else None
    described = group is not None and any(part.formula or part.figures for part in group.parts)
    ends = isinstance(mark, m.Group) and group is not None and not group.empty
    if group is None or ends or (isinstance(mark, m.Registers) and described):
        group = Group(mark.line)
        operand.groups.append(group)
    match mark:
        case m.Registers():
            group.rows.append(mark)
        case m.Layout():
            _part(group, mark)
        case m.Figure():
            part = _part(group, mark.layout or m.Layout(mark.line, None, ()))
            part.figures[mark.number] = part.figures.get(mark.number) or mark.anchor
        case m.Formula():
            part = _part(group, m.Layout(mark.line, None, ()))
            if names(mark.text) & {name for piece in part.formula for name in names(piece.text)}:
                operand.loose.append(mark)
            else:
                part.formula.append(mark)


def _part(group: Group, told: m.Layout) -> Part:
    """The layout that something belongs to: the last one, unless it is told to be of another major or type."""
    if not group.parts:
        group.parts.append(Part(told.line))
    part = group.parts[-1]
    other = (told.major and part.major and told.major != part.major) or (
        told.types and part.types and told.types != part.types
    )
    begun = (told.major and not part.major) or (told.types and not part.types)
    if other or (begun and part.formula):
        part = Part(told.line)
        group.parts.append(part)
    part.major = told.major or part.major
    part.types = told.types or part.types
    return part


def names(formula: str) -> set[str]:
    """The names that a formula defines."""
    return set(re.findall(r"\b([A-Za-z_]\w{0,60})[ \t]{0,40}=(?!=)", formula)) - {"i"}
