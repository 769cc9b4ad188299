"""What every report says, whatever its format: names, counts, and fragments of which the same is said together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..compare import Result, Verdict
from ..crosscheck import Check, Comparison, Finding
from ..difference import Cell
from ..errors import printable
from ..fragment import Source
from ..grouped import grouped
from ..instructions import name_of
from ..reader import Rows

#: How many elements of a fragment that differs a report lists, unless it is asked for all.
FIRST = 8
#: How many fragments of one side it names, unless it is asked for all.
_NAMED = 8

SUMMARY = (
    *("left", "right", "identical", "refined", "relabelled", "known", "different"),
    *("left only", "right only"),
)


@dataclass(frozen=True)
class Group:
    """Fragments of which the same is said: they differ in type alone, and may differ alike from several sources."""

    left: Source
    rights: Sequence[Source]
    results: Sequence[Result]

    @property
    def first(self) -> Result:
        """One of them, to show."""
        return self.results[0]

    @property
    def name(self) -> str:
        """The fragments."""
        return clean(name_of([each.key for each in self.results]))

    @property
    def sides(self) -> str:
        """What is compared."""
        return f"{clean(self.left.name)} against {listed(clean(each.name) for each in self.rights)}"

    @property
    def words(self) -> str:
        """What is said of them."""
        return clean(self.first.words)

    @property
    def known(self) -> str | None:
        """The erratum that explains them."""
        return self.first.known and clean(self.first.known)


#: What a report of the defects of sources says that have none.
NO_DEFECTS = "Nothing wrong was found."


def clean(text: str) -> str:
    """Text from outside as one line that cannot steer what shows it."""
    return printable(" ".join(text.split()))


def listed(names: Iterable[str]) -> str:
    """Names as in ``a, b and c``."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


@dataclass(frozen=True)
class Found:
    """Findings of which the same is said, in operands that differ in type alone, and what they are about."""

    subject: str
    words: str
    known: str | None


def findings(source: str, every: Iterable[Finding]) -> list[Found]:
    """What is wrong in a source by itself, with where an import found it."""
    mine = (each for each in every if each.source == source)
    alike = grouped(mine, lambda each: (each.key and each.key._replace(type=""), each.words, each.known, each.origin))
    return [
        Found(
            clean(", ".join(filter(None, (name_of(keys) if keys else "as a whole", group[0].origin)))),
            clean(group[0].words),
            group[0].known and clean(group[0].known),
        )
        for group in alike.values()
        for keys in [[each.key for each in group if each.key]]
    ]


def sources(check: Check) -> Rows:
    """One row for each source: how many of its fragments have rows."""
    return Rows(("source", "fragments with rows"), [(clean(each.name), len(each.with_rows)) for each in check.sources])


def summary(comparisons: Sequence[Comparison]) -> Rows:
    """One row for two sources: how many fragments have each verdict."""
    rows = []
    for each in comparisons:
        counts = [each.count(verdict) for verdict in (Verdict.IDENTICAL, Verdict.REFINED, Verdict.RELABELLED)]
        differ = [each.count(Verdict.DIFFERENT, known=True), each.count(Verdict.DIFFERENT)]
        only = [each.count(verdict) for verdict in (Verdict.LEFT_ONLY, Verdict.RIGHT_ONLY)]
        rows.append((clean(each.left.name), clean(each.right.name), *counts, *differ, *only))
    return Rows(SUMMARY, rows)


def groups(check: Check, verdict: Verdict) -> list[Group]:
    """The fragments of a verdict, those of which the same is said together; what no erratum explains first."""
    there = [(each, result) for each in check.comparisons for result in each.results if result.verdict is verdict]

    def but_for_type(pair: tuple[Comparison, Result]) -> tuple[object, ...]:
        comparison, each = pair
        return comparison.left.name, comparison.right.name, each.key._replace(type=""), each.words, each.known

    def but_for_right(pairs: Sequence[tuple[Comparison, Result]]) -> tuple[object, ...]:
        comparison, first = pairs[0]
        digests = ((each.key, each.left and each.left.digest, each.right and each.right.digest) for _, each in pairs)
        return comparison.left.name, first.words, first.known, tuple(digests)

    found = []
    for alike in grouped(grouped(there, but_for_type).values(), but_for_right).values():
        comparisons = [pairs[0][0] for pairs in alike]
        rights, results = [each.right for each in comparisons], [each for _, each in alike[0]]
        found.append(Group(comparisons[0].left, rights, results))
    return sorted(found, key=lambda group: group.known is not None)


def one_sided(check: Check, *, everything: bool) -> Iterator[tuple[str, list[str]]]:
    """What only one side has: a sentence that counts, and the names where they are few or all are asked for."""
    for comparison in check.comparisons:
        for verdict, lacking in ((Verdict.LEFT_ONLY, comparison.right), (Verdict.RIGHT_ONLY, comparison.left)):
            only = Check([comparison])
            for words in dict.fromkeys(each.words for each in comparison.results if each.verdict is verdict):
                found = [each for each in groups(only, verdict) if each.first.words == words]
                count = sum(len(each.results) for each in found)
                verb = "is" if count == 1 else "are"
                where = (
                    f"not in {clean(lacking.name)}"
                    if words == "not there"
                    else f"{clean(words)} in {clean(lacking.name)}"
                )
                short = everything or len(found) <= _NAMED
                yield (
                    f"{count} fragment{'s' * (count > 1)} {verb} {where}",
                    [each.name for each in found] if short else [],
                )


def renumberings(group: Group) -> list[str]:
    """How each dimension of a relabelled group is renumbered, a sentence for each."""
    return [
        f"{axis if axis == 'computation' else axis[0].upper() + axis[1:]} 0-{len(to) - 1} of the left is on the right: "
        + " ".join(map(str, to))
        for axis, to in group.first.permutations.items()
    ]


def elements(result: Result, *, everything: bool) -> tuple[Rows, int]:
    """The elements that differ, the first few or all, side by side; and how many are left out."""
    every = result.difference.elements if result.difference else []
    shown = every if everything else every[:FIRST]
    windows = any(cell and cell[1] != cell[2] for _, *cells in shown for cell in cells)
    several = any(cell and cell[3] > 1 for _, *cells in shown for cell in cells)
    columns = ["lane", "reg", "slot"]
    columns += [f"{side} {name}" for side in ("left", "right") for name in ("row", "col", *(["product"] * several))]
    rows = [(*place, *_cell(left, windows, several), *_cell(right, windows, several)) for place, left, right in shown]
    return Rows(tuple(columns), rows), len(every) - len(shown)


def _cell(cell: Cell | None, windows: bool, several: bool) -> tuple[Any, ...]:
    if cell is None:
        return (None,) * (2 + several)
    row, col, col_last, computation = cell
    return (row, f"{col}-{col_last}" if windows else col, *([computation] * several))


def verdict(check: Check) -> str:
    """The whole check in one line."""
    agreed = "agreed" if not check.unexplained else "disagreed"
    fragments = f"{check.compared} fragment{'s' * (check.compared != 1)} compared"
    return f"{agreed}: {fragments}, {check.unexplained} unexplained, {check.known} known"


def provenance(source: Source) -> list[tuple[str, str]]:
    """What a source says of itself, as names and values; of a list, such as all instructions, the length."""
    facts = [("source", source.name), ("kind", source.kind), ("title", source.title)]
    for name, value in source.provenance.items():
        inside = value.items() if isinstance(value, Mapping) else [("", value)]
        for part, each in inside:
            if each not in (None, "", [], {}):
                said = str(len(each)) if isinstance(each, list | Mapping) else str(each)
                facts.append((f"{name} {part}".strip().replace("_", " "), said))
    return [(clean(name), clean(value)) for name, value in facts]


def origins(group: Group) -> list[str]:
    """Where each side says it: the section of a document, or the file and line of an import."""
    said = []
    for source, fragment in ((group.left, group.first.left), (group.rights[0], group.first.right)):
        if fragment is None:
            continue
        parts = [f"section {fragment.section}" if fragment.section else "", fragment.anchor and f"#{fragment.anchor}"]
        parts += [fragment.figures and f"figure {fragment.figures}", fragment.origin]
        if text := " ".join(part for part in parts if part):
            said.append(f"{clean(source.name)}: {clean(text)}")
    return said
