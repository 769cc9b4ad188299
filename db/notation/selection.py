"""Several fragments of one source as one text: each under a comment that says what it is and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..fragment import Fragment
from . import Notation, express
from .table import RefusedError


@dataclass(frozen=True)
class Selection:
    """What a notation makes of fragments: those that it expresses, each with its text, and why it refuses the rest."""

    notation: Notation
    expressed: list[tuple[Fragment, str]]
    refused: list[RefusedError]

    def text(self, source: str, version: str, more: Iterable[str] = ()) -> str:
        """The whole file. ``more`` are texts in the same notation that go to its end."""
        parts = [self._headed(fragment, text, source, version) for fragment, text in self.expressed]
        return self.notation.before + self.notation.between.join([*parts, *more]) + self.notation.after

    def _headed(self, fragment: Fragment, text: str, source: str, version: str) -> str:
        lines = describe(fragment, source, version)
        return "".join(f"{self.notation.comment} {line}\n" for line in lines) + text


def select(notation: Notation, fragments: Iterable[Fragment]) -> Selection:
    """The fragments in a notation, each evaluated again and found equal to its rows."""
    found = Selection(notation, [], [])
    for fragment in fragments:
        try:
            found.expressed.append((fragment, express(notation, fragment)))
        except RefusedError as error:
            found.refused.append(error)
    return found


def describe(fragment: Fragment, source: str, version: str) -> Iterator[str]:
    """What the fragment is, its source, section, anchor and the version of Lanemap, as lines."""
    rows, cols = fragment.dimensions
    registers = f"{fragment.registers} register{'s' * (fragment.registers > 1)} of {fragment.register_bits} bits"
    slots = f"{fragment.slots} slot{'s' * (fragment.slots > 1)}"
    yield f"{fragment}: {rows} x {cols}; per lane {registers} with {slots}{' each' * (fragment.registers > 1)}"
    section = f", section {fragment.section} #{fragment.anchor}" if fragment.section else ""
    yield f"{source}{section}, Lanemap {version}"
    if fragment.erratum:
        yield f"corrected: {' '.join(fragment.erratum.split())}"
