"""The reports of a check, a comparison and a list of defects: blocks for readers, JUnit XML and JSON for programs."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..compare.crosscheck import UNCONFIRMED, Check, Comparison, Finding
from ..compare.defect import Defect, Report, cell_words
from ..compare.verdict import Result, Verdict
from ..errors import LanemapError
from ..isa.instructions import Key, name_of
from ..layout.fragment import CELL, PLACE, Fragment, Source
from ..rows import Rows, table
from ..text import counted, enumerated, grouped
from . import blocks
from .blocks import Block, Details, Facts, Image, Passage, Title
from .facts import where
from .junit import TestCase, junit
from .notation import NOTATIONS, express
from .picture import compose

#: How many elements of a fragment that differs a report lists by default.
_FIRST = 8
#: Up to how many unjudged fragments of one operand are named one by one.
_FEW = 3
#: How many fragments that differ are drawn; of the others only the elements are listed.
_DRAWN = 12
#: The most characters of a report in a notebook.
_BRIEF = 64_000
#: The notations for a corrected layout where the library's own is unknown or cannot express it.
_NOTATIONS = ("python", "ptx-formula")


class Group(NamedTuple):
    """Fragments with the same finding: only their types differ, and several sources may contradict them alike."""

    left: Source
    rights: Sequence[str]
    results: Sequence[Result]

    @property
    def first(self) -> Result:
        """The result that is shown for all of them."""
        return self.results[0]

    @property
    def name(self) -> str:
        """What the fragments are called together."""
        return name_of([result.key for result in self.results])

    @property
    def sides(self) -> str:
        """The sources that are compared."""
        *most, last = self.rights
        return f"{self.left.name} against " + (f"{', '.join(most)} and {last}" if most else last)


def groups(comparisons: Iterable[Comparison], verdict: Verdict) -> list[Group]:
    """The fragments with a verdict, grouped by what is said of them; those that no erratum explains come first."""
    with_verdict = [(side, result) for side in comparisons for result in side.results if result.verdict is verdict]

    def right(comparison: Comparison, result: Result) -> str:
        judged = comparison.right.kind == "evidence" and result.right
        return str(result.right.source) if judged and result.right else comparison.right.name

    def but_for_type(pair: tuple[Comparison, Result]) -> tuple[object, ...]:
        comparison, result = pair
        return comparison.left.name, right(*pair), result.key._replace(type=""), result.words, result.known

    def but_for_right(pairs: Sequence[tuple[Comparison, Result]]) -> tuple[object, ...]:
        comparison, first = pairs[0]
        digests = ((result.key, *(side and side.digest for side in (result.left, result.right))) for _, result in pairs)
        return comparison.left.name, first.words, first.known, tuple(digests)

    merged = [
        Group(alike[0][0][0].left, [right(*pairs[0]) for pairs in alike], [result for _, result in alike[0]])
        for alike in grouped(grouped(with_verdict, but_for_type).values(), but_for_right).values()
    ]
    return sorted(merged, key=lambda group: group.first.known is not None)


def check_blocks(check: Check, *, everything: bool = False) -> Iterator[Block]:
    """The report of a check, or of a comparison.

    Args:
        check: the result of ``diff`` or ``check``.
        everything: list every element that differs, not just the first few with a count of the rest.
    """
    is_check = bool(check.sources)
    yield Title("Cross-check", 1)
    yield Passage(verdict(check), "disagreed" if check.exit_code else "agreed")
    if check.unplaced:
        count = len({key for _, key in check.unplaced})
        names = enumerated(list(dict.fromkeys(name.partition(":")[0] for name, _ in check.unplaced)))
        unclaimed = "which bits of its slot an element has"
        yield f"not compared in {counted(count, 'fragment')}: {unclaimed} (not claimed by {names})"
    if unconfirmed := [finding.source for finding in check.findings if finding.known == UNCONFIRMED]:
        yield f"not confirmed: no other source has any fragment of {enumerated(unconfirmed)}"
    if is_check:
        yield _standing(check)
        yield from _findings(check.findings, known=False)
    for comparison in check.comparisons if not is_check else ():
        numbers = Counter("known" if result.known is not None else str(result.verdict) for result in comparison.results)
        tallies = ", ".join(f"{numbers[name]} {name}" for name in _VERDICTS if numbers[name])
        yield f"{comparison.left.name} against {comparison.right.name}: {tallies}"
    differing = groups(check.comparisons, Verdict.DIFFERENT)
    for number, group in enumerate(differing):
        yield from _different(group, everything, number < _DRAWN)
    yield from _findings(check.findings, known=True)
    for kind in (Verdict.RELABELLED, Verdict.REFINED):
        if explained := groups(check.comparisons, kind):
            yield Details(str(kind).capitalize(), list(_alike(explained)), open=not is_check)
    if check.unjudged:
        yield Details("Unjudged", list(_unjudged(check, everything)), open=not is_check)
    if not is_check and (one_sided := list(_one_sided(check))):
        yield Details("On one side only", one_sided, open=True)
    sides = {side.name: side for comparison in check.comparisons for side in (comparison.left, comparison.right)}
    yield Details("Provenance", [Facts(check.made.items()), *map(Facts, map(provenance, sides.values()))])


def contents(check: Check) -> str:
    """The report of a check as elements of a page that has ``blocks.STYLE``."""
    return blocks.as_html(check_blocks(check))


def verdict(check: Check) -> str:
    """The check in one line."""
    agreed = "not all judged" if check.exit_code else "agreed" if check.compared else "nothing compared"
    agreed = "disagreed" if check.unexplained else agreed
    unjudged = sum(map(len, check.unjudged.values()))
    return f"{agreed}: {counted(check.compared, 'fragment')} compared, {check.unexplained} unexplained, " + (
        f"{check.known} known" + (f", {unjudged} unjudged" if unjudged else "")
    )


def _standing(check: Check) -> Rows:
    """One row for each library or other source: how many of its fragments agree with more trusted sources.

    A fragment that differs from any of them is different, or known if an erratum explains every difference.
    """
    compared = [(comparison.left.name, result) for comparison, result in check.pairs if result.compared]
    of_left = grouped(compared, lambda pair: (pair[0], pair[1].key))
    rows = []
    for name, sets in grouped(check.sources, lambda source: source.name.partition(":")[0]).items():
        names = {source.name for source in sets}
        results = [[result for _, result in pairs] for (left, _), pairs in of_left.items() if left in names]
        different = sum(any(result.disagrees for result in fragment_results) for fragment_results in results)
        # An edition that prints the same error does not confirm a document.
        explained = any if sets[0].kind == "document" else all
        known = sum(
            explained(result.known is not None for result in of_one) and not any(result.disagrees for result in of_one)
            for of_one in results
        )
        findings = [finding for finding in check.findings if finding.source in names]
        unsound = sum(finding.known is None for finding in findings)
        rows.append(
            (
                f"{name} ({len(sets)} sets)" if len(sets) > 1 else name,
                sum(map(check.stated.__getitem__, names)),
                *((len(results) - known - different, known, different) if results else (None, None, None)),
                sum(len(check.unjudged.get(source_name, ())) for source_name in names),
                unsound,
                len(findings) - unsound,
            )
        )
    columns = ("source", "fragments", "agree", "known", "different", "unjudged", "findings", "known findings")
    return Rows(columns, rows).only(lambda column, values: column in ("agree", "different") or any(values))


def _findings(findings: Iterable[Finding], *, known: bool) -> Iterator[Block]:
    """What is wrong in each source by itself, said once for operands that differ only in type."""
    wanted = (finding for finding in findings if (finding.known is not None) is known)

    def but_for_type(finding: Finding) -> tuple[str, Key | None, str, str | None, str | None]:
        key = finding.key and finding.key._replace(type="")
        return finding.source, key, finding.words, finding.known, finding.origin

    items: list[Block] = []
    for (source, _, words, why, origin), group in grouped(wanted, but_for_type).items():
        keys = [finding.key for finding in group if finding.key]
        subject = ", ".join(filter(None, (source, name_of(keys) if keys else "as a whole", origin)))
        items.append(Passage(f"{subject}: {words}" + (f" (known: {why})" if known else ""), "item"))
    if items and known:
        yield Details("Known findings", items)
    elif items:
        yield from (Title("Findings"), *items)


_VERDICTS = ("identical", "refined", "relabelled", "known", "different", "left only", "right only", "unjudged")


def _different(group: Group, everything: bool, drawn: bool) -> Iterator[Block]:
    result = group.first
    yield Title(f"{group.sides}: {group.name}", 3)
    yield result.words
    if result.known:
        yield f"known: {result.known}"
    if (difference := result.difference) is None:
        return
    inside: list[Block] = [
        f"{source}: {words}"
        for source, fragment in ((group.left.name, result.left), (group.rights[0], result.right))
        if fragment and (words := where(fragment))
    ]
    if drawn and difference.drawable:
        inside.append(_picture(result, group.left.name, group.rights[0]))
    elements, more = _elements(result, everything=everything)
    inside += [elements] if elements.rows else []
    inside += [Passage(f"and {more} more elements", hint=" (--all lists them)")] if more else []
    yield Details(f"{counted(difference.count, 'element')} of {difference.total}", inside, result.known is None, 4)


def _picture(result: Result, *names: str) -> Image:
    """Both sides next to each other, under the names of their sources."""
    sides = zip((result.left, result.right), names, strict=True)
    left, right = ([replace(fragment, source=name)] for fragment, name in sides if fragment is not None)
    return Image(lambda: compose.difference(left, right).image())


def _elements(result: Result, *, everything: bool) -> tuple[Rows, int]:
    """The elements that differ, all or the first few, side by side, and how many are left out."""
    every = result.difference.elements if result.difference else []
    shown = every if everything else every[:_FIRST]
    cells = [cell for _, *both in shown for cell in both if cell]
    windows, several = any(cell[1] != cell[2] for cell in cells), any(cell[3] > 1 for cell in cells)
    names = ["row", "col", *["product"] * several]
    columns = *PLACE, *(f"{side} {name}" for side in ("left", "right") for name in names)
    rows = []
    for place, *both in shown:
        row: list[Any] = [*place]
        for cell in both:
            at, col, col_last, computation = cell or (None,) * 4
            row += [at, f"{col}-{col_last}" if windows and cell else col, *[computation] * several]
        rows.append(tuple(row))
    return Rows(columns, rows), len(every) - len(shown)


def _alike(explained: Sequence[Group]) -> Iterator[Block]:
    """The fragments that are relabelled or refined, and each renumbering in full."""
    for sides, same_sides in grouped(explained, lambda group: group.sides).items():
        yield Title(sides, 3)
        yield from (Passage(f"{group.name}: {group.first.words}", "item") for group in same_sides)
        renumberings = dict.fromkeys(pair for group in same_sides for pair in group.first.permutations.items())
        for axis, to in renumberings:
            axis_ = axis if axis == "computation" else axis[0].upper() + axis[1:]
            yield f"{axis_} 0-{len(to) - 1} on the left is on the right: {' '.join(map(str, to))}"


def _unjudged(check: Check, everything: bool) -> Iterator[Block]:
    """The unjudged fragments by source, with the imports that also have those that nothing else has."""
    pairs = ((fragment.key, source.name) for source in check.sources or check.others for fragment in source.with_rows)
    having = grouped(pairs, lambda pair: pair[0])
    for name, results in check.unjudged.items():
        by_operand = grouped(results, lambda result: (result.key.instruction, result.key.role, result.words))
        for of_operand in by_operand.values():
            first = of_operand[0]
            lacking = "" if first.words == "not there" else f" ({first.words})"
            merged = list(_but_for_type(of_operand))
            shapes = counted(len({result.key.shape for result in of_operand}), "shape")
            together = f"{first.key.role} of {first.key.instruction}, {len(of_operand)} fragments of {shapes}"
            several = len(merged) > _FEW and not everything
            for named, results in (
                [(together, of_operand)] if several else [(name_of([one.key for one in of]), of) for of in merged]
            ):
                others = [pair for result in results for pair in having.get(result.key, ())]
                left_only = first.verdict is Verdict.LEFT_ONLY
                holders = dict.fromkeys(holder for _, holder in others if left_only and holder != name)
                commands = ", ".join(shlex.join(("lanemap", "diff", name, holder)) for holder in holders)
                also = f"; also in {', '.join(holders)}, which cannot judge it" if holders else ""
                yield Passage(f"{name}: {named}{lacking}{also}", "item", hint=f": {commands}" if holders else "")


def _one_sided(check: Check) -> Iterator[Block]:
    """What only the right side has."""
    for comparison in check.comparisons:
        only = [result for result in comparison.results if result.verdict is Verdict.RIGHT_ONLY]
        for words, results in grouped(only, lambda result: result.words).items():
            names = [name_of([result.key for result in alike]) for alike in _but_for_type(results)]
            place = f"{'not' if words == 'not there' else words} in {comparison.left.name}"
            count = f"{counted(len(results), 'fragment')} {'is' if len(results) == 1 else 'are'} {place}"
            yield Passage(f"{count}: {'; '.join(names)}" if len(names) <= _FIRST else count, "item")


def _but_for_type(results: Iterable[Result]) -> Iterable[list[Result]]:
    return grouped(results, lambda result: (result.key._replace(type=""), result.words)).values()


def provenance(source: Source) -> list[tuple[str, str]]:
    """What a source says about itself, as names and values; a list, such as that of instructions, as its length."""
    pairs = [("source", source.name), ("kind", source.kind), ("title", source.title)]
    for name, value in source.provenance.items():
        inside = value.items() if isinstance(value, Mapping) else [("", value)]
        for part, entry in inside:
            if entry not in (None, "", [], {}):
                shown = str(len(entry)) if isinstance(entry, list | Mapping) else str(entry)
                pairs.append((f"{name} {part}".strip().replace("_", " "), shown))
    return pairs


def defect_blocks(report: Report) -> Iterator[Block]:
    """The report of defects: those of the newest release, then those that are fixed, then the libraries examined."""
    yield Title("Defects", 1)
    yield Facts(report.made.items())
    yield report.summary() if report.defects else "Nothing wrong was found."
    for fixed, defects in grouped(report.defects, lambda defect: defect.fixed).items():
        if fixed:
            yield Title("Fixed")
        for defect in defects:
            yield Title(defect.title, 2 + fixed)
            yield Facts(defect.labelled)
            if (wrong := defect.result.difference) and wrong.drawable:
                judge = defect.first.agreeing[0][0].name if defect.first.agreeing else ""
                yield _picture(defect.result, defect.source.name, judge)
            yield from _correction(defect)
    if report.looked:
        yield Title("Libraries examined")
        rows = [(library.name, library.version, library.looked, library.found) for library in report.looked]
        yield Rows(("library", "version", "looked at by", "found"), rows)


def _correction(defect: Defect) -> Iterator[Block]:
    """The lines as they are and as they must be, or for documents and unexamined defects the true layout."""
    evidence = defect.evidence
    if evidence.after:
        yield from ("As it is:", Passage(evidence.before, "code", evidence.language))
        yield from ("As it must be:", Passage(evidence.after, "code", evidence.language))
    elif (not evidence.name or defect.source.kind == "document") and (true := corrected(defect)):
        name, text = true
        yield from (f"As it is true ({name}):", Passage(text, "code", NOTATIONS[name].language))


def issue_blocks(defect: Defect) -> Iterator[Block]:
    """A defect as the text of an issue for its library, ready to be sent."""
    evidence, by_label = defect.evidence, dict(defect.labelled)
    if evidence.name:
        by_label["where"] = "; ".join(dict.fromkeys(defect.shown(sets=False)))
    yield Title(evidence.title or defect.title, 1)
    said = ("fixed", "where", "releases", "confirmed")
    yield Facts([(label, by_label[label]) for label in said if label in by_label])
    parts = (text.strip(". ") for text in (defect.words, evidence.reason, by_label.get("effect", "")))
    yield " ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part)
    if shown := defect.examples[:_FEW]:
        columns = ("lane", "register", "slot", "as claimed", "as it is true")
        rows = [(*place, cell_words(claimed), cell_words(true)) for place, claimed, true in shown]
        proof = "; ".join(defect.proofs(lambda source: source.title))
        yield from ("For example:", Rows(columns, rows), f"True by: {proof}")
    if evidence.reproduction:
        yield from ("To reproduce:", Passage(evidence.reproduction, "code", evidence.language))
        yield from ("It prints:", Passage(evidence.prints, "code")) if evidence.prints else ()
    if "correction" in by_label:
        yield by_label["correction"]
    yield from _correction(defect)


def _issue(defect: Defect) -> str:
    """The text of an issue. Its title is no Markdown, as those of issues are none."""
    title, *rest = issue_blocks(defect)
    assert isinstance(title, Title)
    return f"# {blocks.clean(title.text)}\n\n{blocks.as_markdown(rest)}"


def corrected(defect: Defect) -> tuple[str, str] | None:
    """The name of a notation, the library's own where possible, and the true layout in it; None if none can say it."""
    true = defect.result.right
    own = "ptx-formula" if defect.source.kind == "document" else str(defect.source.provenance.get("notation"))
    for name in (own, *_NOTATIONS):
        if true is not None and name in NOTATIONS:
            try:
                return name, express(name, true)
            except LanemapError:
                continue
    return None


_ELEMENT = (*PLACE, *(f"{side}_{name}" for side in ("left", "right") for name in CELL))


def check_json(check: Check) -> str:
    """``agree``, ``exit_code``, counts, ``unplaced``, ``made``, ``sources``, ``findings``, ``comparisons``."""

    def key_json(key: Key | None) -> dict[str, Any]:
        return key._asdict() if key else dict.fromkeys(Key._fields)

    def source_json(source: Source) -> dict[str, Any]:
        short = {name: value for name, value in source.provenance.items() if name != "instructions"}
        return {**short, "kind": source.kind, "title": source.title}

    def result_json(result: Result) -> dict[str, Any]:
        difference = result.difference if result.verdict is Verdict.DIFFERENT else None
        none = (None,) * len(CELL)
        fields = ("verdict", "words", "known", "narrower", "permutations")
        return {
            **key_json(result.key),
            **{name: getattr(result, name) for name in fields},
            "elements": [
                dict(zip(_ELEMENT, (*place, *(left or none), *(right or none)), strict=True))
                for place, left, right in (difference.elements if difference else [])
            ],
        }

    report = {
        "agree": check.unexplained == 0 and not check.unjudged,
        **{name: getattr(check, name) for name in ("exit_code", "compared", "unexplained", "known")},
        "unjudged": sum(map(len, check.unjudged.values())),
        "unplaced": [{"source": name, **key._asdict()} for name, key in check.unplaced],
        "made": dict(check.made),
        "sources": check.stated,
        "findings": [
            {"source": finding.source, **key_json(finding.key), "words": finding.words, "known": finding.known}
            for finding in check.findings
        ],
        "comparisons": [
            {
                "left": comparison.left.name,
                "right": comparison.right.name,
                "provenance": {"left": source_json(comparison.left), "right": source_json(comparison.right)},
                "compared": comparison.compared,
                "fragments": [result_json(result) for result in comparison.results],
            }
            for comparison in check.comparisons
        ],
    }
    return json.dumps(report, indent=1) + "\n"


def defects_json(report: Report) -> str:
    """One object with ``made`` and a list ``defects``, each with its facts, the true layout and all its elements."""
    records = []
    for defect in report.defects:
        name, text = corrected(defect) or (None, None)
        records.append({**defect.record(), "corrected": {"notation": name, "text": text} if text else None})
    return json.dumps({"made": dict(report.made), "defects": records}, indent=1) + "\n"


def check_junit(check: Check, *, everything: bool = False) -> str:
    """JUnit XML: a suite for each source and each pair, a case for each fragment, in ``diff`` for those on the left.

    A fragment that differs is a failure; one that only the left side has is skipped.
    """
    suites: list[tuple[str, list[TestCase]]] = []
    for source in check.sources:
        findings = [finding for finding in check.findings if finding.source == source.name]
        cases = [
            TestCase(
                source.name,
                ", ".join(filter(None, (str(finding.key or "as a whole"), finding.origin))),
                failed=finding.words if finding.known is None else "",
                type="structure",
            )
            for finding in findings
        ]
        suites.append((f"structure of {source.name}", cases or [TestCase(source.name, "every fragment")]))
    for comparison in check.comparisons:
        results = [result for result in comparison.results if check.sources or result.left]
        cases = []
        for result in results:
            case = TestCase(f"{result.key.instruction} {result.key.shape}", str(result.key))
            said = f"{result.verdict}: {result.words}"
            if not result.compared:
                case = case._replace(skipped=said)
            elif result.disagrees:
                rows, more = _elements(result, everything=everything)
                text = "\n" + table(rows) + (f"and {more} more elements\n" if more else "")
                case = case._replace(failed=result.words, text=text, type="different")
            elif result.verdict is not Verdict.IDENTICAL:
                case = case._replace(said=said)
            cases.append(case)
        suites.append((f"{comparison.left.name} against {comparison.right.name}", cases))
    return junit(f"lanemap: {verdict(check)}", suites)


def check_annotations(check: Check) -> str:
    """Annotations of a workflow on GitHub: what is wrong on the left, at the function that says it."""

    def annotation(kind: str, fragment: Fragment | None, title: str, words: str) -> str:
        named = re.fullmatch(r"(.+):(\d+) .+", (fragment and fragment.citation.origin) or "")
        place = {"file": named[1], "line": named[2]} if named else {}
        return blocks.annotation(kind, words, **place, title=title)

    lines = [
        annotation("error", group.first.left, group.name, f"{group.sides}: {group.first.words}")
        for group in groups(check.comparisons, Verdict.DIFFERENT)
        if group.first.known is None
    ]
    for name, results in check.unjudged.items():
        lacking = f"nothing that {name} was compared with has rows for it"
        lines += [annotation("warning", result.left, str(result.key), result.reason or lacking) for result in results]
    return "".join(lines)


#: The formats of a check.
FORMATS = ("table", "markdown", "json", "html", "junit", "github")
_WRITERS = {"markdown": blocks.as_markdown, "html": blocks.as_page}


def _checked(check: Check, form: str = "table", *, everything: bool = False) -> str:
    """The report as text, in one of ``FORMATS``. See ``check_blocks``."""
    if form == "json":
        return check_json(check)
    if form == "junit":
        return check_junit(check, everything=everything)
    if form == "github":
        return check_annotations(check)
    report = check_blocks(check, everything=everything)
    if form == "table":
        return blocks.as_text(report, everything=everything)
    return _WRITERS[form](report)


def _reported(report: Report, form: str = "markdown") -> str:
    """The report as ``markdown``, ``html``, ``json``, or ``issue``, one text for each defect, ready to be sent.

    Raises:
        LanemapError: there is no such format.
    """
    if form == "json":
        return defects_json(report)
    if form == "issue":
        return "\n---\n\n".join(map(_issue, report.defects))
    if form not in _WRITERS:
        raise LanemapError(f"defects are reported as {', '.join(_WRITERS)}, json, issue, not as {form!r}", "format")
    return _WRITERS[form](defect_blocks(report))


# Comparing knows nothing of reports: the methods that write them are added here.
Check.report, Report.report = _checked, _reported
Check._repr_html_ = lambda check: blocks.as_element(check_blocks(check), _BRIEF, 'report("html") is all of it.')
Report._repr_html_ = lambda report: blocks.as_element(defect_blocks(report))
