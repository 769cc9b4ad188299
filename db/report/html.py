"""The report as one HTML page that needs nothing else: no script, no network; for light, dark, phones and paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from html import escape

from ..compare import Result, Verdict
from ..crosscheck import Check
from ..defect import Report
from ..picture.compose import difference
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

#: So many fragments that differ are drawn; of the others the elements are listed.
_DRAWN = 12

#: The rules for the report, all of it in an element of class ``lanemap``.
STYLE = """
.lanemap { --line: #8886; --good: #009E73; --bad: #D55E00; font: 15px/1.5 system-ui, sans-serif; }
.lanemap table { border-collapse: collapse; margin: .5rem 0 1.5rem; font-variant-numeric: tabular-nums; }
.lanemap .wide { overflow-x: auto; max-width: 100%; } .lanemap .wide img { max-width: none; }
.lanemap th, .lanemap td { border-bottom: 1px solid var(--line); padding: .2rem .8rem .2rem 0; text-align: right; }
.lanemap th:first-child, .lanemap td:first-child, .lanemap .names :nth-child(2) { text-align: left; }
.lanemap h1 { font-size: 1.5rem; } .lanemap h2 { font-size: 1.15rem; margin-top: 2rem; }
.lanemap .verdict { font-weight: 600; border-left: .4rem solid; padding-left: .7rem; }
.lanemap .agreed { border-color: var(--good); } .lanemap .disagreed { border-color: var(--bad); }
.lanemap details { margin: .3rem 0; } .lanemap summary { cursor: pointer; overflow-wrap: anywhere; }
.lanemap .kind { display: inline-block; min-width: 6.5rem; opacity: .7; }
.lanemap .different { color: var(--bad); font-weight: 600; opacity: 1; }
.lanemap dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 .8rem; }
.lanemap dt { opacity: .7; } .lanemap dd { margin: 0; overflow-wrap: anywhere; }
@media print { .lanemap details > * { display: block; } }
"""


def render(check: Check, *, everything: bool = False) -> str:
    """A page. See ``body``."""
    return _page(f"Lanemap cross-check: {verdict(check)}", body(check, everything=everything))


def defects(report: Report) -> str:
    """A page of defects, each with both layouts as pictures beside each other, and the true one as text."""
    return _page("Defects", defects_body(report))


def defects_body(report: Report) -> str:
    """The defects as an element that a page or a notebook shows."""
    parts = [f'<div class="lanemap"><style>{STYLE}</style><h1>Defects</h1>', _facts(report.made.items())]
    parts.append(_table(report.summary(), "names") if report.defects else f"<p>{NO_DEFECTS}</p>")
    for each in report.defects:
        parts.append(f"<h2>{escape(clean(each.source.title))}: {escape(clean(each.name))}</h2>")
        parts.append(_facts((label, clean(words)) for label, words in each.facts))
        parts.append(_picture(each.result, each.source.name, each.agreeing[0][0].name if each.agreeing else ""))
        if each.corrected:
            name, text = each.corrected
            parts.append(f'<p>As it is true ({name}):</p><pre class="wide">{escape(text)}</pre>')
    return "\n".join([*parts, "</div>"])


def _page(title: str, content: str) -> str:
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    page = "body { max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }"
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head>{head}<title>{escape(title)}</title><style>{page}</style></head><body>',
            f"{content}</body></html>\n",
        ]
    )


def body(check: Check, *, everything: bool = False) -> str:
    """The report as an element that a notebook shows, with its style."""
    style = f"<style>:root {{ color-scheme: light dark; }}{STYLE}</style>"
    return f'<div class="lanemap">{style}\n{contents(check, everything=everything)}\n</div>'


def contents(check: Check, *, everything: bool = False) -> str:
    """What is in that element: counts, what differs with pictures, then the rest."""
    kind = "disagreed" if check.unexplained else "agreed"
    parts = [
        f'<h1>Lanemap cross-check</h1><p class="verdict {kind}">{escape(verdict(check))}</p>',
        _facts(check.made.items()),
        *_sources(check),
        "<h2>Comparisons</h2>",
        _table(summary(check.comparisons), "names"),
    ]
    for verdict_ in (Verdict.DIFFERENT, Verdict.RELABELLED, Verdict.REFINED):
        found = groups(check, verdict_)
        parts += [f"<h2>{verdict_.capitalize()}</h2>"] if found else []
        for number, group in enumerate(found):
            parts += _group(group, everything, number < _DRAWN)
    parts += _one_sided(check, everything)
    parts.append("<h2>Provenance</h2>")
    parts += [_facts(provenance(source)) for source in check.both_sides]
    return "\n".join(part for part in parts if part)


def _sources(check: Check) -> Iterator[str]:
    if check.sources:
        yield "<h2>Sources</h2>" + _table(sources(check))
    if check.findings:
        yield "<h2>Structure</h2><ul>"
        for source in check.sources:
            for each in findings(source.name, check.findings):
                known = f" <i>known: {escape(each.known)}</i>" if each.known else ""
                yield f"<li>{escape(f'{clean(source.name)}, {each.subject}: {each.words}')}{known}</li>"
        yield "</ul>"


def _group(group: Group, everything: bool, drawn: bool) -> Iterator[str]:
    result = group.first
    kind = "known" if group.known else str(result.verdict)
    label = f'<span class="kind {kind}">{kind}</span> {escape(group.name)}, {escape(group.sides)}'
    yield f"<details{' open' * result.disagrees}><summary>{label}</summary><p>{escape(group.words)}</p>"
    if group.known:
        yield f"<p>Known: {escape(group.known)}</p>"
    yield from (f"<p>{sentence}</p>" for sentence in renumberings(group))
    if result.verdict is Verdict.DIFFERENT:
        yield from (f"<p>{escape(each)}</p>" for each in origins(group))
        if drawn:
            yield _picture(result, group.left.name, group.rights[0].name)
        rows, more = elements(result, everything=everything)
        yield _table(rows) + (f"<p>and {more} more elements</p>" if more else "")
    yield "</details>"


def _picture(result: Result, *names: str) -> str:
    """Both sides beside each other, unless a cell is outside the matrix, which cannot be drawn."""
    if result.difference is None or result.difference.out_of_range:
        return ""
    sides = zip((result.left, result.right), names, strict=True)
    left, right = ([replace(fragment, source=name)] for fragment, name in sides if fragment is not None)
    return f'<div class="wide">{difference(left, right).image()}</div>'


def _one_sided(check: Check, everything: bool) -> Iterator[str]:
    only = list(one_sided(check, everything=everything))
    if only:
        yield "<h2>On one side only</h2>"
    for sentence, names in only:
        yield f"<p>{escape(sentence)}{':' * bool(names)} {escape('; '.join(names))}</p>"


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    said = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return f"<dl>{said}</dl>" if said else ""


def _table(rows: Rows, kind: str = "") -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in rows.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape('' if value is None else str(value))}</td>" for value in row) + "</tr>"
        for row in rows.rows
    )
    return f'<div class="wide"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
