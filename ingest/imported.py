"""What an importer hands over: a source, and by name everything that it left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..db.fragment import Fragment, Source
from ..db.fragment import merge as merge_fragments


@dataclass(frozen=True)
class Skipped:
    """Something that an importer found and did not import: an atom, one of its operands, a file."""

    name: str
    reason: str


@dataclass(frozen=True)
class Imported:
    """A source, and what was left out of it. Nothing is left out silently."""

    source: Source
    skipped: Sequence[Skipped] = ()

    @property
    def rows(self) -> int:
        """How many elements the source has."""
        return sum(len(each.elements) for each in self.source.fragments if each.elements is not None)


def merge(named: Iterable[tuple[str, Fragment]]) -> tuple[list[Fragment], list[Skipped]]:
    """One fragment per key. Where two of a key disagree, the first keeps it and the other is skipped, naming both.

    Args:
        named: fragments with the name of the atom that each is from.
    """
    pairs = list(named)
    names = {id(fragment): name for name, fragment in pairs}
    kept, repeated = merge_fragments(fragment for _, fragment in pairs)
    return kept, [
        Skipped(f"{names[id(other)]} {other.role}", f"disagrees with {names[id(first)]}, which gives {first} first")
        for first, other in repeated
        if not first.same_layout(other)
    ]
