"""JUnit XML, which every CI shows: suites of cases that pass, fail or are skipped."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from .blocks import clean


class TestCase(NamedTuple):
    """One case of a suite. It ``failed`` if it says why, or was ``skipped``, or else passed; ``said`` is a remark.

    ``text`` says more of a failure, in lines, and ``type`` of which kind it is.
    """

    classname: str
    name: str
    failed: str = ""
    text: str = ""
    type: str = ""
    skipped: str = ""
    said: str = ""


def junit(title: str, suites: Iterable[tuple[str, Sequence[TestCase]]]) -> str:
    """A document of suites by their names."""
    root = Element("testsuites", name=title)
    for name, cases in suites:
        failures, skipped = (sum(bool(getattr(case, kind)) for case in cases) for kind in ("failed", "skipped"))
        counts = {"name": clean(name), "tests": len(cases), "failures": failures, "errors": 0, "skipped": skipped}
        suite = SubElement(root, "testsuite", {key: str(value) for key, value in counts.items()})
        for case in cases:
            shown = SubElement(suite, "testcase", classname=clean(case.classname), name=clean(case.name))
            if case.failed:
                failure = SubElement(shown, "failure", message=clean(case.failed), type=case.type)
                failure.text = case.text or None
            elif case.skipped:
                SubElement(shown, "skipped", message=clean(case.skipped))
            elif case.said:
                SubElement(shown, "system-out").text = clean(case.said)
    indent(root)
    return tostring(root, "unicode", xml_declaration=True) + "\n"
