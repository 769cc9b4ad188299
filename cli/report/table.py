"""The report for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from ...db.compare import Verdict
from ...db.crosscheck import Check, Comparison
from ...db.reader import Rows
from ..output import table
from .words import Group, elements, groups, subject, summary, verdict


def render(check: Check, *, everything: bool) -> str:
    """Counts first, then what no erratum explains with its elements, then what one does."""
    lines = [*_sources(check), *table(_narrow(summary(check.comparisons))).splitlines()]
    for comparison in check.comparisons:
        for group in groups(comparison, [Verdict.DIFFERENT]):
            lines += ["", *_different(comparison, group, everything)]
    if everything or not check.fragments:
        lines += [line for comparison in check.comparisons for line in _the_rest(comparison)]
    return "\n".join([*lines, "", verdict(check)]) + "\n"


def _narrow(counts: Rows) -> Rows:
    """The counts in 80 columns: what only one side has in one column, and no column for what nothing is."""
    columns = dict(zip(counts.columns, zip(*counts.rows, strict=True), strict=True))
    only = zip(columns.pop("left only"), columns.pop("right only"), strict=True)
    columns["one side"] = tuple(f"{left} + {right}" for left, right in only)
    kept = [name for name, values in columns.items() if name in ("identical", "different") or any(values)]
    return Rows(tuple(kept), list(zip(*(columns[name] for name in kept), strict=True)))


def _sources(check: Check) -> Iterator[str]:
    width = max(map(len, check.fragments), default=0)
    for source, count in check.fragments.items():
        found = [each for each in check.findings if each.source == source]
        known = sum(each.known is not None for each in found)
        words = "sound" if not found else f"{len(found)} findings" + (f", {known} known" if known else "")
        yield f"{source:<{width}}  {count} fragments with rows: {words}"
        for each in found:
            if each.known is None:
                yield f"{'':<{width}}  {subject(each)}: {each.words}"
    if check.fragments:
        yield ""


def _different(comparison: Comparison, group: Group, everything: bool) -> Iterator[str]:
    yield f"{comparison.left} against {comparison.right}: {group.name}"
    yield f"  {group.words}"
    if group.known:
        yield f"  known: {group.known}"
    if group.known and not everything:
        return
    rows, more = elements(group.told[0], everything=everything)
    yield from (f"  {line}" for line in table(rows).splitlines())
    if more:
        yield f"  and {more} more elements (--all lists them)"


def _the_rest(comparison: Comparison) -> Iterator[str]:
    """What there is to say besides: what is relabelled, refined, or on one side only."""
    for kind in (Verdict.RELABELLED, Verdict.REFINED, Verdict.LEFT_ONLY, Verdict.RIGHT_ONLY):
        listed = groups(comparison, [kind])
        if listed:
            yield ""
            yield f"{comparison.left} against {comparison.right}, {kind}:"
            yield from (f"  {group.name}: {group.words}" for group in listed)
