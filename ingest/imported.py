"""What an importer hands over: a source, and by name everything that it left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..db.isa.instructions import Key
from ..db.layout.fragment import Fragment, Source, count_elements


@dataclass(frozen=True)
class Skipped:
    """Something that an importer found and did not import: an atom, one of its operands, a file.

    ``operand`` says of which operand something wrong is claimed, and ``origin`` where, if that is the reason.
    """

    name: str
    reason: str
    operand: Key | None = None
    origin: str | None = None


@dataclass(frozen=True)
class Imported:
    """A source, and what was left out of it. Nothing is left out silently.

    ``findings`` name fragments that came in without some of their elements, and say which. It ``failed`` where what was
    left out is what somebody claims of their own.
    """

    source: Source
    skipped: Sequence[Skipped] = ()
    findings: Sequence[Skipped] = ()
    failed: bool = False

    @property
    def rows(self) -> int:
        """How many elements the source has."""
        return count_elements(self.source.fragments)


def wrong(found: Iterable[Skipped]) -> list[dict[str, Any]]:
    """Wrong claims, as the provenance of a source keeps them."""
    return [
        {"operand": list(each.operand), "origin": each.origin, "words": each.reason} for each in found if each.operand
    ]


def claim_sets(
    source: Source, units: Iterable[tuple[str, Sequence[Fragment]]], *, whole: bool = False
) -> Iterator[Source]:
    """The source with the fragments of some units, and one more for each unit that contradicts those before it.

    A unit is what a library keeps together, such as an atom. What contradicts others is compared by itself: pooled with
    them, operands that are only renumbered alike would look wrong.

    Args:
        source: without fragments.
        units: the fragments of each unit, with its name.
        whole: whether a source that a unit begins has the rest of the first one too, for units of a single operand.
    """
    groups: list[tuple[str, dict[Key, Fragment]]] = [(source.name, {})]
    for name, fragments in units:
        own = {each.key: each for each in fragments}
        for _, group in groups:
            if all(key not in group or group[key].same_layout(each) for key, each in own.items()):
                group.update({key: each for key, each in own.items() if key not in group})
                break
        else:
            groups.append((f"{source.name}:{name}", own))
    for name, group in groups:
        title = source.title + name.removeprefix(source.name).replace(":", ", ")
        kept = {**groups[0][1], **group} if whole else group
        yield replace(source, name=name, title=title, fragments=list(kept.values()))
