"""Reports of a check, a comparison and a judgement, on small sources of their own, in every format."""

import re
from dataclasses import replace

import numpy as np
import pytest

from lanemap.db.compare.crosscheck import Finding, check, diff, judge
from lanemap.db.layout.fragment import Citation, Source
from lanemap.db.layout.structure import check as unsound
from lanemap.db.render.blocks import (
    Details,
    Facts,
    Image,
    Passage,
    Title,
    as_html,
    as_markdown,
    as_text,
)
from lanemap.db.render.report import FORMATS
from lanemap.db.rows import Rows

from ..shipped import corrected

TYPES = {"A": "f16", "B": "f16", "C": "f32", "D": "f32"}
OPERANDS = {
    fragment.role: replace(fragment, citation=Citation(section="1.2", anchor="here"))
    for fragment in corrected()
    if fragment.key[:2] == ("mma", "m16n8k16") and fragment.type == TYPES.get(fragment.role)
}
SPARSE = next(
    fragment for fragment in corrected() if fragment.key[:2] == ("mma.sp", "m16n8k32") and fragment.role == "A"
)
SWAP = np.array([1, 0, *range(2, 16)])


def changed(fragment, **columns):
    table = fragment.elements.copy()
    for name, change in columns.items():
        table[name] = change(table[name])
    table["col_last"] = table["col"] if "col" in columns else table["col_last"]
    return replace(fragment, elements=table, citation=fragment.citation._replace(erratum=None))


@pytest.fixture(scope="module")
def small():
    """A document with a mistake in C and its correction, a card, and a library of two claim sets."""
    a, b, c, d = OPERANDS.values()
    mended = replace(c, citation=Citation(erratum="rows are exchanged"))
    wrong = changed(c, row=lambda row: row ^ 1)
    library = {"library": "theirs", "version": "1"}
    exact = SPARSE.elements.copy()
    exact["col"] += exact["slot"] % 2 * 2
    exact["col_last"] = exact["col"]
    return [
        Source("doc", "document", "A document", [a, b, wrong, d], {"version": "1"}),
        Source(
            "doc+errata",
            "document",
            "A document, corrected",
            [a, b, mended, d],
        ),
        Source("card", "capture", "A card", [a, b, c, d, SPARSE], {"device": {"name": "A card", "target": "sm_1"}}),
        Source(
            "theirs-1:atoms",
            "import",
            "Theirs 1 atoms",
            [
                changed(a, col=SWAP.__getitem__),
                changed(b, row=SWAP.__getitem__),
                replace(c, citation=Citation(origin="theirs.py:3")),
                replace(d, citation=Citation(origin="theirs.py:4")),
            ],
            library,
        ),
        Source(
            "theirs-1:maps",
            "import",
            "Theirs 1 maps",
            [changed(d, col=lambda col: col ^ (col >> 1 & 1)), replace(SPARSE, elements=exact), replace(a, type="b8")],
            library,
        ),
    ]


def checked(sources, *against):
    findings = [
        Finding(source.name, one.key, words) for source in sources for one in source.fragments for words in unsound(one)
    ]
    return replace(check(sources, findings, against), made={"command": "lanemap check"})


def without_pictures(text):
    return re.sub(r"<(style).*?</\1>|base64,[^\"]*", r"<\1/>", text, flags=re.DOTALL)


@pytest.mark.parametrize("form", ["table", "markdown", "junit"])
def test_a_check(small, snapshot, form):
    found = checked(small)
    assert without_pictures(found.report(form)) == snapshot


def test_everything_where_it_is_asked_for(small, snapshot):
    assert checked(small).report(everything=True) == snapshot


@pytest.mark.parametrize("form", FORMATS)
def test_a_comparison(small, snapshot, form):
    text = without_pictures(diff([small[4]], [small[2]]).report(form))
    assert re.sub(r'"elements": \[\s+\{.*?\}\s+\]', '"elements": [...]', text, flags=re.DOTALL) == snapshot


def test_a_library_is_judged_by_the_best_evidence(small, snapshot):
    found = judge(small[3:], small)
    assert found.report() == snapshot
    assert {name: [str(fragment.key) for fragment in there] for name, there in found.unjudged.items()} == {
        "theirs-1:maps": ["A of mma m16n8k16 b8"]
    }


def test_blocks_are_written_as_they_are_said():
    blocks = [
        Title("A *report*", 1),
        Passage("agreed", "agreed"),
        Title("Part"),
        Passage("one", "item"),
        Passage("two", "item"),
        Facts([("name", "<value>")]),
        Rows(("a", "b"), [(1, None)]),
        Image(lambda: "<img>"),
        Passage("x = 1\ny = 2", "code", "python"),
        Details("More", ["inside"]),
        Details("Shown", ["inside"], open=True),
    ]
    assert as_text(blocks) == (
        "Part\n\none\ntwo\nname: <value>\na  b\n1\n\nx = 1\ny = 2\n\nShown:\n  inside\n\nagreed\n"
    )
    assert "More:\n  inside" in as_text(blocks, everything=True)
    assert as_markdown(blocks) == (
        "# A \\*report\\*\n\n**agreed**\n\n## Part\n\n- one\n- two\n- **name**: &lt;value&gt;\n\n| a | b |\n|---|---|\n"
        "| 1 |  |\n\n```python\nx = 1\ny = 2\n```\n\n## More\n\ninside\n\n## Shown\n\ninside\n"
    )
    page = as_html(blocks)
    assert '<p class="verdict agreed">agreed</p>' in page
    assert "<dt>name</dt><dd>&lt;value&gt;</dd>" in page
    assert "<details><summary>More</summary>" in page
    assert "<details open><summary>Shown</summary>" in page
    assert "<img>" in page
