"""The report as Markdown, for a review or an issue."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..compare import Verdict
from ..crosscheck import Check
from ..defect import Report
from ..reader import Rows
from .words import (
    NO_DEFECTS,
    Group,
    clean,
    elements,
    findings,
    groups,
    one_sided,
    origins,
    provenance,
    renumberings,
    sources,
    summary,
    verdict,
)

#: What Markdown and the HTML in it give a meaning to. An underscore has one only at the end of a word.
_SPECIAL = re.compile(r"[\\`*\[\]|~]|(?<!\w)_|_(?!\w)")

#: What highlights a notation.
_LANGUAGES = {"python": "python", "cute": "cpp", "linear": "mlir"}


def render(check: Check, *, everything: bool = False) -> str:
    """Headings and tables that every renderer of Markdown reads."""
    lines = ["# Cross-check", "", f"**{verdict(check)}**", ""]
    lines += [f"- {_text(name)}: {_text(value)}" for name, value in check.made.items()]
    if check.sources:
        lines += ["", "## Sources", "", *_table(sources(check)), ""]
    for source in check.sources:
        for each in findings(source.name, check.findings):
            known = f" (known: {_text(each.known)})" if each.known else ""
            lines.append(f"- {_text(source.name)}, {_text(each.subject)}: {_text(each.words)}{known}")
    lines += ["", "## Comparisons", "", *_table(summary(check.comparisons))]
    for kind in (Verdict.DIFFERENT, Verdict.RELABELLED, Verdict.REFINED):
        for group in groups(check, kind):
            lines += ["", *_group(group, everything)]
    only = list(one_sided(check, everything=everything))
    lines += ["", "## On one side only", ""] if only else []
    for sentence, names in only:
        lines.append(f"- {_text(sentence)}" + (f": {_text('; '.join(names))}" if names else ""))
    lines += ["", "## Provenance", ""]
    for source in check.both_sides:
        lines.append("- " + ", ".join(f"{_text(name)} {_text(value)}" for name, value in provenance(source)))
    return "\n".join(lines) + "\n"


def defects(report: Report) -> str:
    """A heading and a list of facts for each defect, and the true layout as code."""
    lines = ["# Defects", "", *(f"{_text(name)}: {_text(value)}  " for name, value in report.made.items()), ""]
    lines += _table(report.summary()) if report.defects else [NO_DEFECTS]
    for each in report.defects:
        lines += ["", f"## {_text(each.source.title)}: {_text(each.name)}", ""]
        lines += [f"- **{label}**: {_text(words)}" for label, words in each.facts]
        if each.corrected:
            name, text = each.corrected
            lines += ["", f"As it is true ({name}):", "", f"```{_LANGUAGES.get(name, 'text')}", text.strip(), "```"]
    return "\n".join(lines) + "\n"


def _group(group: Group, everything: bool) -> Iterator[str]:
    result = group.first
    yield from (f"### {_text(group.sides)}: {_text(group.name)}", "")
    yield f"**{result.verdict}**: {_text(group.words)}" + (f" (known: {_text(group.known)})" if group.known else "")
    for sentence in renumberings(group):
        yield from ("", sentence)
    if result.verdict is Verdict.DIFFERENT:
        if said := origins(group):
            yield from ("", _text("; ".join(said)))
        rows, more = elements(result, everything=everything)
        yield from ("", *_table(rows))
        if more:
            yield from ("", f"and {more} more elements")


def _table(rows: Rows) -> Iterator[str]:
    yield f"| {' | '.join(rows.columns)} |"
    yield f"|{'---|' * len(rows.columns)}"
    for row in rows.rows:
        yield f"| {' | '.join('' if value is None else _text(str(value)) for value in row)} |"


def _text(text: str) -> str:
    """Text from outside that shows as it is."""
    quoted = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\g<0>", quoted)
