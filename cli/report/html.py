"""The report as one HTML page that needs nothing else: no script, no network; for light, dark and paper."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ...db.compare import Verdict
from ...db.crosscheck import Check
from ...db.reader import Rows
from .words import Group, elements, groups, subject, summary, verdict

_STYLE = """
:root { color-scheme: light dark; --line: #8888; --good: #009E73; --bad: #D55E00; --dim: #777; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .8rem .2rem 0; text-align: right; }
th:first-child, td:first-child, .names td:nth-child(2), .names th:nth-child(2) { text-align: left; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.verdict { font-weight: 600; border-left: .4rem solid; padding-left: .7rem; }
.agreed { border-color: var(--good); } .disagreed { border-color: var(--bad); }
details { margin: .3rem 0; } summary { cursor: pointer; }
.kind { display: inline-block; min-width: 6.5rem; color: var(--dim); }
.different { color: var(--bad); font-weight: 600; }
@media print { body { max-width: none; } details > * { display: block; } }
"""


def render(check: Check, *, everything: bool) -> str:
    """A page with the counts first and every fragment that is not identical below, folded."""
    kind = "disagreed" if check.unexplained else "agreed"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>Lanemap cross-check: {escape(verdict(check))}</title><style>{_STYLE}</style></head><body>",
        f'<h1>Lanemap cross-check</h1><p class="verdict {kind}">{escape(verdict(check))}</p>',
    ]
    if check.fragments:
        parts += ["<h2>Sources</h2>", _table(Rows(("source", "fragments with rows"), list(check.fragments.items())))]
    if check.findings:
        parts += ["<h2>Structure</h2><ul>", *(f"<li>{_finding(check, at)}</li>" for at in range(len(check.findings)))]
        parts.append("</ul>")
    parts += ["<h2>Comparisons</h2>", _table(summary(check.comparisons), "names")]
    for comparison in check.comparisons:
        parts.append(f"<h2>{escape(comparison.left)} against {escape(comparison.right)}</h2>")
        told = [each for each in groups(comparison, list(Verdict)) if each.verdict is not Verdict.IDENTICAL]
        parts += [part for group in told for part in _group(group, everything)] or ["<p>All are identical.</p>"]
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _finding(check: Check, at: int) -> str:
    each = check.findings[at]
    known = f" <i>known: {escape(each.known)}</i>" if each.known else ""
    return f"{escape(each.source)}, {escape(subject(each))}: {escape(each.words)}{known}"


def _group(group: Group, everything: bool) -> Iterator[str]:
    kind = "known" if group.known else str(group.verdict)
    label = f'<span class="kind {kind}">{kind}</span> {escape(group.name)}'
    if group.verdict is not Verdict.DIFFERENT:
        yield f"<details><summary>{label}</summary><p>{escape(group.words)}</p></details>"
        return
    rows, more = elements(group.told[0], everything=everything)
    yield f"<details{' open' * (group.known is None)}><summary>{label}</summary><p>{escape(group.words)}</p>"
    if group.known:
        yield f"<p>Known: {escape(group.known)}</p>"
    yield _table(rows)
    yield (f"<p>and {more} more elements</p>" if more else "") + "</details>"


def _table(rows: Rows, kind: str = "") -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in rows.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape('' if value is None else str(value))}</td>" for value in row) + "</tr>"
        for row in rows.rows
    )
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
