"""The report as JUnit XML: a suite for each two sources, a case for each fragment, for whoever runs it in CI."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ..compare import Result, Verdict
from ..crosscheck import Check, Comparison
from .columns import table
from .words import clean, elements, findings, verdict


def render(check: Check, *, everything: bool = False) -> str:
    """A fragment that differs is a failure; one that only one side has is skipped."""
    root = Element("testsuites", name=f"lanemap: {verdict(check)}")
    for source in check.sources:
        _structure(root, source.name, check)
    for comparison in check.comparisons:
        _comparison(root, comparison, everything)
    indent(root)
    return tostring(root, "unicode", xml_declaration=True) + "\n"


def _structure(root: Element, source: str, check: Check) -> None:
    found = findings(source, check.findings)
    wrong = [each for each in found if each.known is None]
    suite = _suite(root, f"structure of {clean(source)}", max(1, len(found)), len(wrong), 0)
    if not found:
        SubElement(suite, "testcase", classname=clean(source), name="every fragment", time="0")
    for each in found:
        case = SubElement(suite, "testcase", classname=clean(source), name=each.subject, time="0")
        if each.known is None:
            SubElement(case, "failure", message=each.words, type="structure")


def _comparison(root: Element, comparison: Comparison, everything: bool) -> None:
    results = comparison.results
    failed = sum(each.disagrees for each in results)
    title = f"{clean(comparison.left.name)} against {clean(comparison.right.name)}"
    suite = _suite(root, title, len(results), failed, len(results) - comparison.compared)
    for each in results:
        name = f"{each.key.instruction} {each.key.shape}"
        _case(SubElement(suite, "testcase", classname=name, name=str(each.key), time="0"), each, everything)


def _case(case: Element, result: Result, everything: bool) -> None:
    words = clean(result.words)
    if not result.compared:
        SubElement(case, "skipped", message=f"{result.verdict}: {words}")
    elif result.disagrees:
        rows, more = elements(result, everything=everything)
        failure = SubElement(case, "failure", message=words, type="different")
        failure.text = "\n" + table(rows) + (f"and {more} more elements\n" if more else "")
    elif result.verdict is not Verdict.IDENTICAL:
        SubElement(case, "system-out").text = f"{result.verdict}: {words}"


def _suite(root: Element, title: str, tests: int, failures: int, skipped: int) -> Element:
    counts = {"tests": str(tests), "failures": str(failures), "errors": "0", "skipped": str(skipped)}
    return SubElement(root, "testsuite", {"name": title, "time": "0", **counts})
