"""What a check makes of verdicts: errata explain no more than they do, and kinds decide what is compared."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanemap
from lanemap.db.compare import Verdict, compare
from lanemap.db.crosscheck import check, diff, named
from lanemap.db.fragment import Source
from lanemap.db.lookup import Query

from ..modes import examples
from ..shipped import corrected

FRAGMENTS = [
    each
    for each in corrected()
    if (each.instruction, each.shape) == ("mma", "m16n8k16") and each.type in ("f16", "f32")
]


def changed(fragment, by):
    """The fragment with its first elements in other columns, for each ``by`` in another way; 0 changes nothing."""
    table = fragment.elements.copy()
    table["col"][: 2 * by] ^= 1
    table["col_last"] = table["col"]
    return replace(fragment, elements=table)


layouts = st.integers(0, 3)


@given(st.sampled_from(["A", "B", "C"]), layouts, layouts, layouts, layouts, st.booleans(), st.booleans())
@examples(300)
def test_an_erratum_explains_what_it_corrects_and_nothing_else(role, printed, corrected, read, theirs, left, named):
    """Known is: the document has the printed layout, and the other side agrees with the corrected one."""
    victim = next(each for each in FRAGMENTS if each.role == role)
    rest = [each for each in FRAGMENTS if each is not victim]
    document = Source("doc", "document", "doc", [changed(victim, printed), *rest])
    errata = Source("doc+errata", "document", "doc", [replace(changed(victim, corrected), erratum="a reason"), *rest])
    again = Source("read again", "document", "doc", [changed(victim, read), *rest])
    other = Source("other", "import" if left else "capture", "other", [changed(victim, theirs), *rest])
    sources = [document, errata, again, other] if named else [errata, document, other, again]
    found = {(each.left.name, each.right.name): each.results for each in check(sources, []).comparisons}
    for name, layout in (("doc", printed), ("doc+errata", corrected), ("read again", read)):
        (result,) = (each for each in found[("other", name) if left else (name, "other")] if each.key == victim.key)
        assert (result.verdict is Verdict.IDENTICAL) == (layout == theirs)
        known = layout != theirs and layout == printed and theirs == corrected
        assert (result.known is not None) == known
        assert result.disagrees == (layout != theirs and not known)


@given(st.lists(st.sampled_from(["import", "document", "capture"]), min_size=2, max_size=5))
def test_kinds_decide_what_is_compared(kinds):
    """The more trusted one is on the right."""
    sources = [Source(f"{kind} {number}", kind, kind, FRAGMENTS) for number, kind in enumerate(kinds)]
    wanted = {
        frozenset((one.name, other.name))
        for at, one in enumerate(sources)
        for other in sources[at + 1 :]
        if one.kind != other.kind or one.kind == "capture"
    }
    if not wanted:
        with pytest.raises(lanemap.LanemapError, match="nothing to compare"):
            check(sources, [])
        return
    report = check(sources, [])
    assert wanted == {frozenset((each.left.name, each.right.name)) for each in report.comparisons}
    trust = ["import", "document", "capture"]
    assert all(trust.index(each.left.kind) <= trust.index(each.right.kind) for each in report.comparisons)
    assert (report.unexplained, report.compared) == (0, len(wanted) * len(FRAGMENTS))


def test_a_source_that_shares_nothing_is_a_finding():
    misspelt = [replace(each, type="f61") for each in FRAGMENTS]
    sources = [
        Source(name, kind, name, found)
        for name, kind, found in (
            ("doc", "document", FRAGMENTS),
            ("card", "capture", FRAGMENTS),
            ("theirs", "import", misspelt),
        )
    ]
    report = check(sources, [])
    assert [(each.source, each.known) for each in report.findings] == [("theirs", None)]
    with pytest.raises(lanemap.LanemapError, match="nothing to compare"):
        check(sources, [], ["theirs"])
    with pytest.raises(lanemap.LanemapError, match="nothing to compare.*f61"):
        diff(sources[2], sources[1])


def test_a_part_is_compared_with_all_in_view():
    """Asking for one operand does not change its verdict, and counts it alone."""
    moved = [replace(each, elements=renumbered(each)) for each in FRAGMENTS]
    sides = [Source(name, "import", name, found) for name, found in (("left", FRAGMENTS), ("right", moved))]
    whole = {each.key: each.verdict for each in compare(FRAGMENTS, moved)}
    assert Verdict.RELABELLED in whole.values()
    for role in "ABCD":
        part = diff(*sides, Query(role=role)).comparisons[0]
        assert {each.key: each.verdict for each in part.results} == {
            key: one for key, one in whole.items() if key.role == role
        }


def renumbered(fragment):
    table = fragment.elements.copy()
    name = {"A": "col", "B": "row"}.get(fragment.role)
    if name:
        table[name] = 15 - table[name]
        table["col_last"] = table["col"]
    return table


def test_wmma_of_different_architectures_is_not_compared():
    """Each may lay it out in its own way: a difference would be no fault, and agreement no proof."""
    a = FRAGMENTS[0]
    others = [replace(a, instruction="wmma", shape="m16n16k16", major=None, qualifiers="row")]

    def card(name, target, by):
        mine = [replace(changed(each, by), source=name) for each in others]
        return Source(name, "capture", name, [a, *mine], {"device": {"target": target}})

    hopper, blackwell, same = card("one", "sm_90a", 0), card("two", "sm_120a", 1), card("three", "sm_90a", 1)
    for left, right, wmma in ((hopper, blackwell, []), (hopper, same, [Verdict.DIFFERENT])):
        (found,) = check([left, right], []).comparisons
        assert [each.verdict for each in found.results if each.key.instruction == "wmma"] == wmma
        assert [each.verdict for each in found.results if each.key.instruction == "mma"] == [Verdict.IDENTICAL]
        (again,) = diff(left, right).comparisons
        assert [each.key for each in again.results] == [each.key for each in found.results]
    with pytest.raises(lanemap.LanemapError, match="no fragment of wmma"):
        diff(hopper, blackwell, Query(instruction="wmma"))


def test_a_library_stands_for_all_that_was_imported_of_it_and_for_no_other_version():
    there = [Source(name, "import", name, []) for name in ("tvm-0.2:mma", "tvm-0.2:mma.sp", "tvm-0.20:mma", "mine")]
    assert [each.name for each in named(there, ["TVM-0.2"])] == ["tvm-0.2:mma", "tvm-0.2:mma.sp"]
    assert [each.name for each in named(there, ["mine", "tvm-0.20", "mine"])] == ["mine", "tvm-0.20:mma"]
    with pytest.raises(lanemap.LanemapError, match="no source 'tvm': choose from tvm-0.2, tvm-0.20, mine"):
        named(there, ["tvm"])
