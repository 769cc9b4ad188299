"""The report as Markdown, for a review or an issue."""

from __future__ import annotations

from collections.abc import Iterator

from ...db.compare import Verdict
from ...db.crosscheck import Check
from ...db.reader import Rows
from .words import Group, elements, groups, subject, summary, verdict


def render(check: Check, *, everything: bool) -> str:
    """Headings and tables that every renderer of Markdown reads."""
    lines = ["# Cross-check", "", f"**{verdict(check)}**", ""]
    if check.fragments:
        lines += ["## Sources", "", *_table(Rows(("source", "fragments with rows"), list(check.fragments.items()))), ""]
    for each in check.findings:
        known = f" (known: {each.known})" if each.known else ""
        lines.append(f"- {each.source}, {subject(each)}: {each.words}{known}")
    lines += ["", "## Comparisons", "", *_table(summary(check.comparisons))]
    for comparison in check.comparisons:
        for group in groups(comparison, list(Verdict)):
            if group.verdict is not Verdict.IDENTICAL:
                lines += ["", *_group(f"{comparison.left} against {comparison.right}", group, everything)]
    return "\n".join(lines) + "\n"


def _group(title: str, group: Group, everything: bool) -> Iterator[str]:
    yield f"### {title}: {group.name}"
    yield ""
    yield f"**{group.verdict}**: {group.words}" + (f" (known: {group.known})" if group.known else "")
    if group.verdict is Verdict.DIFFERENT:
        rows, more = elements(group.told[0], everything=everything)
        yield ""
        yield from _table(rows)
        if more:
            yield ""
            yield f"and {more} more elements"


def _table(rows: Rows) -> Iterator[str]:
    yield f"| {' | '.join(rows.columns)} |"
    yield f"|{'---|' * len(rows.columns)}"
    for row in rows.rows:
        yield f"| {' | '.join('' if value is None else str(value).replace('|', chr(92) + '|') for value in row)} |"
