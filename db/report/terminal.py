"""The report for a terminal, 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from ..compare import Verdict
from ..crosscheck import Check
from ..grouped import grouped
from ..reader import Rows
from .columns import table
from .words import Group, clean, elements, findings, groups, one_sided, renumberings, summary, verdict

_WIDTH = 80


def render(check: Check, *, everything: bool = False) -> str:
    """Counts, then what no erratum explains with its elements, then what one explains, then what else there is."""
    lines = [*_sources(check), *_counts(check)]
    for group in groups(check, Verdict.DIFFERENT):
        lines += ["", *_different(group, everything)]
    if everything or not check.sources:
        lines += _the_rest(check, everything)
    return "\n".join([*lines, "", *_wrapped(verdict(check))]) + "\n"


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Lines that end between words. A word that is longer than a line stays whole."""
    return wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _sources(check: Check) -> Iterator[str]:
    """Each library with its claim sets, and what is wrong in each of these."""
    libraries = grouped(check.sources, lambda source: clean(source.name.partition(":")[0]))
    width = max(map(len, libraries), default=0)
    for name, sets in libraries.items():
        found = [each for each in check.findings if each.source in {source.name for source in sets}]
        known = sum(each.known is not None for each in found)
        count = sum(len(source.with_rows) for source in sets)
        words = "sound" if not found else f"{len(found)} finding{'s' * (len(found) > 1)}"
        words += f", {known} known" if known else ""
        several = f"{len(sets)} claim sets, " if len(sets) > 1 else ""
        yield from _wrapped(f"{name:<{width}}  {several}{count} fragments with rows: {words}")
        for claim_set in sets:
            said = [each for each in findings(claim_set.name, found) if each.known is None]
            if several and said:
                yield from _wrapped(clean(claim_set.name).removeprefix(f"{name}:"), "  ")
            for each in said:
                yield from _wrapped(f"{each.subject}: {each.words}", "    " if several else "  ")
    if check.sources:
        yield ""


def _counts(check: Check) -> Sequence[str]:
    counts = summary(check.comparisons)
    lines = table(_narrow(counts)).splitlines()
    if max(map(len, lines)) <= _WIDTH:
        return lines
    # Names that are too long for columns, such as paths.
    lines = []
    for left, right, *numbers in counts.rows:
        said = ", ".join(f"{count} {name}" for name, count in zip(counts.columns[2:], numbers, strict=True) if count)
        lines += [*_wrapped(f"{left} against {right}:"), *_wrapped(said, "  ")]
    return lines


def _narrow(counts: Rows) -> Rows:
    """What only one side has in one column, and no column for what nothing is."""
    rows = [(*most, f"{left} + {right}") for *most, left, right in counts.rows]
    narrow = Rows((*counts.columns[:-2], "one side"), rows)
    return narrow.only(lambda name, values: name in ("identical", "different") or any(values))


def _different(group: Group, everything: bool) -> Iterator[str]:
    yield from _wrapped(f"{group.sides}: {group.name}")
    yield from _wrapped(group.words, "  ")
    if group.known:
        yield from _wrapped(f"known: {group.known}", "  ")
    if group.known and not everything:
        return
    rows, more = elements(group.first, everything=everything)
    yield from (f"  {line}" for line in table(rows).splitlines())
    if more:
        yield f"  and {more} more elements (--all lists them)"


def _the_rest(check: Check, everything: bool) -> Iterator[str]:
    """What is relabelled, with the numbers, what is refined, and what one side lacks."""
    for kind in (Verdict.RELABELLED, Verdict.REFINED):
        for sides, found in grouped(groups(check, kind), lambda group: group.sides).items():
            yield from ("", *_wrapped(f"{sides}, {kind}:"))
            for group in found:
                yield from _wrapped(f"{group.name}: {group.words}", "  ")
            for sentence in dict.fromkeys(each for group in found for each in renumberings(group)):
                yield from _wrapped(sentence, "  ")
    for sentence, names in one_sided(check, everything=everything):
        yield from ("", *_wrapped(sentence + (":" if names else "")))
        for name in names:
            yield from _wrapped(name, "  ")
