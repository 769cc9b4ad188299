"""The report as JUnit XML: a suite for each two sources, a case for each fragment, for whoever runs it in CI."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ...db.compare import Verdict
from ...db.crosscheck import Check, Comparison
from ..output import table
from .words import elements, subject


def render(check: Check, *, everything: bool) -> str:
    """A fragment that differs is a failure; one that only one side has is skipped."""
    root = Element("testsuites", name="lanemap")
    _structure(root, check)
    for comparison in check.comparisons:
        _comparison(root, comparison, everything)
    indent(root)
    return tostring(root, "unicode", xml_declaration=True) + "\n"


def _structure(root: Element, check: Check) -> None:
    for source in check.fragments:
        found = [each for each in check.findings if each.source == source]
        wrong = [each for each in found if each.known is None]
        suite = _suite(root, f"structure of {source}", max(1, len(found)), len(wrong), 0)
        if not found:
            SubElement(suite, "testcase", classname=source, name="every fragment", time="0")
        for each in found:
            case = SubElement(suite, "testcase", classname=source, name=subject(each), time="0")
            if each.known is None:
                SubElement(case, "failure", message=each.words, type="structure")


def _comparison(root: Element, comparison: Comparison, everything: bool) -> None:
    only = {Verdict.LEFT_ONLY, Verdict.RIGHT_ONLY}
    skipped = sum(each.pair.verdict in only for each in comparison.told)
    failed = sum(each.disagrees for each in comparison.told)
    suite = _suite(root, f"{comparison.left} against {comparison.right}", len(comparison.told), failed, skipped)
    for each in comparison.told:
        classname = f"{each.pair.instruction} {each.pair.shape}"
        case = SubElement(suite, "testcase", classname=classname, name=str(each.pair.key), time="0")
        if each.pair.verdict in only:
            SubElement(case, "skipped", message=f"{each.pair.verdict}: {each.words}")
        elif each.disagrees:
            rows, more = elements(each, everything=everything)
            failure = SubElement(case, "failure", message=each.words, type="different")
            failure.text = "\n" + table(rows) + (f"and {more} more elements\n" if more else "")
        elif each.words:
            SubElement(case, "system-out").text = f"{each.pair.verdict}: {each.words}"


def _suite(root: Element, title: str, tests: int, failures: int, skipped: int) -> Element:
    counts = {"tests": str(tests), "failures": str(failures), "errors": "0", "skipped": str(skipped)}
    return SubElement(root, "testsuite", {"name": title, "time": "0", **counts})
