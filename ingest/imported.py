"""What an importer hands over: a source, and by name everything that it left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..db.fragment import Fragment, Source


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
    first: dict[object, tuple[str, Fragment]] = {}
    skipped = []
    for name, fragment in named:
        kept_name, kept = first.setdefault(fragment.key, (name, fragment))
        if (kept.digest, kept.registers, kept.slots) != (fragment.digest, fragment.registers, fragment.slots):
            skipped.append(Skipped(f"{name} {fragment.role}", f"disagrees with {kept_name}, which gives {kept} first"))
    return [fragment for _, fragment in first.values()], skipped
