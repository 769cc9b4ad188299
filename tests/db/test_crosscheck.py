"""What a check makes of verdicts: errata explain no more than they do, and kinds decide what is compared."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanemap
from lanemap.db.compare.crosscheck import Finding, check, diff, judge, named
from lanemap.db.compare.verdict import Verdict, compare
from lanemap.db.layout.fragment import IMPOSSIBLE, Citation, Source
from lanemap.db.lookup import Query
from lanemap.db.render.report import FORMATS

from ..modes import examples
from ..shipped import corrected

FRAGMENTS = [
    fragment
    for fragment in corrected()
    if (fragment.instruction, fragment.shape) == ("mma", "m16n8k16") and fragment.type in ("f16", "f32")
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
    victim = next(fragment for fragment in FRAGMENTS if fragment.role == role)
    rest = [fragment for fragment in FRAGMENTS if fragment is not victim]
    document = Source("doc", "document", "doc", [changed(victim, printed), *rest])
    errata = Source(
        "doc+errata",
        "document",
        "doc",
        [replace(changed(victim, corrected), citation=Citation(erratum="a reason")), *rest],
    )
    again = Source("read again", "document", "doc", [changed(victim, read), *rest])
    other = Source("other", "import" if left else "capture", "other", [changed(victim, theirs), *rest])
    sources = [document, errata, again, other] if named else [errata, document, other, again]
    found = {
        (comparison.left.name, comparison.right.name): comparison.results
        for comparison in check(sources, []).comparisons
    }
    for name, layout in (("doc", printed), ("doc+errata", corrected), ("read again", read)):
        pair = ("other", name) if left else (name, "other")
        (result,) = (result for result in found[pair] if result.key == victim.key)
        assert (result.verdict is Verdict.IDENTICAL) == (layout == theirs)
        known = layout != theirs and layout == printed and theirs == corrected
        assert (result.known is not None) == known
        assert result.disagrees == (layout != theirs and not known)
        if name == "doc":  # where the corrected document is not asked for, it explains the same
            alone = [
                one for one in check(sources, [], ["doc"]).comparisons if "other" in (one.left.name, one.right.name)
            ]
            assert [result.known for result in alone[0].results if result.key == victim.key] == [result.known]


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
    assert wanted == {frozenset((comparison.left.name, comparison.right.name)) for comparison in report.comparisons}
    trust = ["import", "document", "capture"]
    assert all(
        trust.index(comparison.left.kind) <= trust.index(comparison.right.kind) for comparison in report.comparisons
    )
    assert (report.unexplained, report.compared) == (0, len(wanted) * len(FRAGMENTS))


def test_a_source_that_shares_nothing_is_a_finding():
    misspelt = [replace(fragment, type="f61") for fragment in FRAGMENTS]
    sources = [
        Source(name, kind, name, found)
        for name, kind, found in (
            ("doc", "document", FRAGMENTS),
            ("card", "capture", FRAGMENTS),
            ("theirs", "import", misspelt),
        )
    ]
    report = check(sources, [])
    assert [(finding.source, finding.known) for finding in report.findings] == [("theirs", None)]
    assert [finding.words for finding in check(sources, [], ["theirs"]).findings] == [report.findings[0].words]
    with pytest.raises(lanemap.LanemapError, match="nothing to compare.*f61"):
        diff([sources[2]], [sources[1]])


def test_a_part_is_compared_with_all_in_view():
    """Asking for one operand does not change its verdict, and counts it alone."""
    moved = [replace(fragment, elements=renumbered(fragment)) for fragment in FRAGMENTS]
    sides = [Source(name, "import", name, found) for name, found in (("left", FRAGMENTS), ("right", moved))]
    whole = {result.key: result.verdict for result in compare(FRAGMENTS, moved)}
    assert Verdict.RELABELLED in whole.values()
    for role in "ABCD":
        part = diff([sides[0]], [sides[1]], Query(role=role)).comparisons[0]
        assert {result.key: result.verdict for result in part.results} == {
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
        mine = [replace(changed(fragment, by), source=name) for fragment in others]
        return Source(name, "capture", name, [a, *mine], {"device": {"target": target}})

    hopper, blackwell, same = card("one", "sm_90a", 0), card("two", "sm_120a", 1), card("three", "sm_90a", 1)
    for left, right, wmma in ((hopper, blackwell, []), (hopper, same, [Verdict.DIFFERENT])):
        (found,) = check([left, right], []).comparisons
        assert [result.verdict for result in found.results if result.key.instruction == "wmma"] == wmma
        assert [result.verdict for result in found.results if result.key.instruction == "mma"] == [Verdict.IDENTICAL]
        (again,) = diff([left], [right]).comparisons
        assert [result.key for result in again.results] == [result.key for result in found.results]
    with pytest.raises(lanemap.LanemapError, match="no fragment of wmma"):
        diff([hopper], [blackwell], Query(instruction="wmma"))


def test_a_library_stands_for_all_that_was_imported_of_it_and_a_version_for_no_other():
    names = ("tvm-0.2:mma", "tvm-0.2:mma.sp", "tvm-0.20:mma", "tvm-extra-1:mma", "mine")
    there = [Source(name, "import", name, []) for name in names]
    assert [source.name for source in named(there, ["TVM-0.2"])] == ["tvm-0.2:mma", "tvm-0.2:mma.sp"]
    assert [source.name for source in named(there, ["mine", "tvm-0.20", "mine"])] == ["mine", "tvm-0.20:mma"]
    assert [source.name for source in named(there, ["tvm"])] == [*names[:3]]
    with pytest.raises(lanemap.LanemapError, match="no source 'tvm-0': choose from tvm-0.2, tvm-0.20, tvm-extra-1"):
        named(there, ["tvm-0"])


@pytest.mark.parametrize("left", [True, False])
def test_a_finding_is_known_only_where_the_corrected_layout_has_none(left):
    """What an erratum leaves as it was is no less wrong for it."""
    victim = FRAGMENTS[0]
    corrected = replace(changed(victim, 2), citation=victim.citation._replace(erratum="a reason"))
    sources = [
        Source("doc", "document", "doc", [changed(victim, 1), *FRAGMENTS[1:]]),
        Source("doc+errata", "document", "doc", [corrected, *FRAGMENTS[1:]]),
        Source("card", "capture", "card", FRAGMENTS),
    ]
    findings = [Finding(name, victim.key, "a cell is held twice") for name in ["doc", "doc+errata"][: 1 + left]]
    known = {finding.source: finding.known for finding in check(sources, findings).findings}
    assert known == ({"doc": None, "doc+errata": None} if left else {"doc": "a reason"})


def test_the_best_evidence_judges_each_fragment_and_what_it_lacks_is_named():
    """The corrected document first, then captures; never the source itself, a document as printed, or an import."""
    a, b, c, d = FRAGMENTS[:4]
    drawn = replace(b, elements=None, status="figure-only")
    document = Source("doc", "document", "doc", [changed(a, 1), drawn])
    errata = Source("doc+errata", "document", "doc", [a, drawn])
    card = Source("card", "capture", "card", [a, b])
    copy = Source("copy", "import", "copy", [changed(a, 3), changed(b, 1), changed(c, 1)])
    kernels = Source("kernels", "import", "kernels", [changed(a, 3), changed(b, 1), changed(c, 1)])
    sources = [copy, document, errata, card, kernels]
    found = judge([kernels], sources)
    told = {result.key: result for result in found.comparisons[0].results}
    assert [(told[fragment.key].verdict, told[fragment.key].right) for fragment in (a, b, c)] == [
        (Verdict.DIFFERENT, a),
        (Verdict.DIFFERENT, b),
        (Verdict.LEFT_ONLY, None),
    ]
    assert [result.key for result in found.unjudged["kernels"]] == [c.key]
    assert d.key not in told
    assert judge([replace(card, fragments=[changed(a, 2), b])], sources).unexplained == 1
    assert judge([errata], sources).comparisons[0].results[0].right is card.fragments[0]
    assert not judge([Source("kernels", "import", "kernels", [a, b])], sources).unjudged
    with pytest.raises(lanemap.LanemapError, match="kernels has no elements of D"):
        judge([kernels], sources, Query(role="D"))
    checked = check(sources, [])
    assert {name: [result.key for result in there] for name, there in checked.unjudged.items()} == {
        "copy": [c.key],
        "kernels": [c.key],
    }


def test_a_capture_that_contradicts_the_document_judges_nothing_of_its_instruction():
    """Its labels may be other ones throughout: what it has beyond the document stays unjudged."""
    a, b = FRAGMENTS[:2]
    document = Source("doc", "document", "doc", [a, replace(b, elements=None)])
    kernels = Source("kernels", "import", "kernels", [a, b])
    for by, expected in ((0, [Verdict.IDENTICAL, Verdict.IDENTICAL]), (2, [Verdict.IDENTICAL, Verdict.LEFT_ONLY])):
        card = Source("card", "capture", "card", [changed(a, by), b])
        found = judge([kernels], [card, document])
        assert [result.verdict for result in found.results] == expected
        assert bool(found.unjudged) == (by > 0)


@pytest.mark.parametrize("backwards", [False, True])
def test_of_two_architectures_one_judges_all_operands_of_wmma(backwards):
    """An A of one card beside the B of another is right on no card."""
    a, b = (
        replace(fragment, instruction="wmma", shape="m16n16k16", major=None, qualifiers="row")
        for fragment in FRAGMENTS[:2]
    )
    cards = [
        Source(name, "capture", name, [changed(a, by), changed(b, by)], {"device": {"target": name}})
        for name, by in (("sm_90a", 0), ("sm_120a", 1))
    ]
    cards = cards[::-1] if backwards else cards
    for first, second in ((0, 0), (1, 1), (0, 1), (1, 0)):
        mine = Source("mine", "import", "mine", [changed(a, first), changed(b, second)])
        verdicts = [result.verdict for result in judge([mine], cards).results]
        assert (verdicts == [Verdict.IDENTICAL] * 2) == (first == second)
        assert verdicts.count(Verdict.IDENTICAL) == 1 + (first == second)


@pytest.mark.parametrize("name", ["mma", "wmma", "dot8"])
def test_no_two_sources_judge_operands_whose_pairing_neither_has(name):
    """One has A and the other B, each with a K of its own: what is identical to both is right by neither."""
    fragments = {one.role: replace(one, instruction=name) for one in FRAGMENTS if one.type == "f16"}
    if name == "wmma":
        qualified = {"shape": "m16n16k16", "major": None, "qualifiers": "row"}
        fragments = {role: replace(one, **qualified) for role, one in fragments.items()}
    a, b, d = (fragments[role] for role in "ABD")
    mine = Source("mine", "import", "mine", [a, b, d])
    for first, second, judged in (
        ([a], [b], "A"),
        ([a, d], [b], "AD"),
        ([d], [a], "D"),
        ([a, b], [d], "AB"),
        ([a, d], [b, d], "AD"),
        ([a, b, d], [b], "ABD"),
        ([a, b], [a, b, d], "ABD"),
    ):
        sides = [Source(word, "capture", word, side) for word, side in (("first", first), ("second", second))]
        one = max(sides, key=lambda side: len(side.fragments))
        told = {result.key.role for result in judge([mine], sides).results if result.compared}
        assert told == ({part.role for part in one.fragments} if name == "wmma" else {*judged})


def test_scales_in_common_pair_blocks_of_k_and_not_the_elements_in_them():
    scaled = [one for one in corrected() if one.key[:2] == ("mma", "m16n8k64") and one.type in ("e2m1", "ue8m0")]
    a, b, sfa, sfb = (next(one for one in scaled if one.role == role) for role in ("A", "B", "SFA", "SFB"))
    mine = Source("mine", "import", "mine", [a, b, sfa, sfb])
    for first, second, judged in (
        ([a, sfa], [b, sfa], ["A", "SFA"]),
        ([sfa], [a, b, sfa], ["A", "B", "SFA"]),
        ([a, sfb], [b, sfb], ["A", "SFB"]),
    ):
        sides = [Source(word, "capture", word, side) for word, side in (("first", first), ("second", second))]
        told = {result.key.role for result in judge([mine], sides).results if result.compared}
        assert sorted(told) == judged


def test_one_capture_judges_all_shapes_of_what_is_of_its_architecture():
    """An import that has one shape of each card is right on neither."""
    of_shape = {
        shape: replace(FRAGMENTS[0], instruction="wmma", shape=shape, major=None, qualifiers="row")
        for shape in ("m16n16k16", "m32n8k16")
    }
    cards = [
        Source(name, "capture", name, [changed(one, by) for one in of_shape.values()], {"device": {"target": name}})
        for name, by in (("sm_90a", 0), ("sm_120a", 1))
    ]
    mixed = [changed(one, by) for by, one in enumerate(of_shape.values())]
    verdicts = [result.verdict for result in judge([Source("mine", "import", "mine", mixed)], cards).results]
    assert sorted(verdicts) == [Verdict.DIFFERENT, Verdict.IDENTICAL]


def test_what_is_not_asked_about_is_not_unjudged_and_an_import_judges_nothing():
    """Where one source is asked about, another import that has the same does not judge it, and is not judged itself."""
    a, b = FRAGMENTS[:2]
    document = Source("doc", "document", "doc", [a])
    kernels, copy = (Source(name, "import", name, [a, b]) for name in ("kernels", "copy"))
    for sources in ([document, kernels, copy], [document, copy, kernels]):
        found = check(sources, [], ["kernels"]).unjudged
        assert {name: [result.key for result in there] for name, there in found.items()} == {"kernels": [b.key]}
        assert {*check(sources, []).unjudged} == {*check(sources, [], ["doc"]).unjudged} == {"kernels", "copy"}


def test_what_one_architecture_alone_has_is_judged_by_any():
    """An import of wmma agrees where one of the captures has its layout; a capture is not judged by another one."""
    a = replace(FRAGMENTS[0], instruction="wmma", shape="m16n16k16", major=None, qualifiers="row")

    def card(name, target, by):
        return Source(name, "capture", name, [replace(changed(a, by), source=name)], {"device": {"target": target}})

    cards = [card("one", "sm_90a", 0), card("two", "sm_120a", 1)]
    for by, verdict in ((0, Verdict.IDENTICAL), (1, Verdict.IDENTICAL), (2, Verdict.DIFFERENT)):
        mine = Source("mine", "import", "mine", [changed(a, by)])
        assert [result.verdict for result in judge([mine], cards).comparisons[0].results] == [verdict]
    assert [result.verdict for result in judge(cards[:1], cards).comparisons[0].results] == [Verdict.LEFT_ONLY]


def test_sources_of_other_instructions_are_not_compared_and_not_misspelt():
    """Another vendor's, which nobody else knows: there is nothing to compare, and nothing wrong with it."""
    theirs = [replace(fragment, instruction="v_product") for fragment in FRAGMENTS]
    sources = [
        Source("doc", "document", "doc", FRAGMENTS),
        Source("card", "capture", "card", FRAGMENTS),
        Source("theirs", "import", "theirs", theirs),
    ]
    found = check(sources, [])
    assert ([*found.findings], len(found.comparisons)) == ([], 1)
    assert [result.key for result in found.unjudged["theirs"]] == [fragment.key for fragment in theirs]
    assert check(sources, [], ["theirs"]).findings == []


def test_what_ships_is_nobodys_claim_and_what_is_only_drawn_is_not_misspelt():
    a, b = FRAGMENTS[:2]
    document = Source("doc", "document", "doc", [a, replace(b, elements=None, status="figure-only")])
    ships = Source("ships", "import", "ships", [b])
    sources = [document, Source("card", "capture", "card", [a]), ships]
    assert [*check(sources, []).unjudged] == [*check(sources, [], ["ships"], {"ships"}).unjudged] == ["ships"]
    found = check(sources, [], shipped={"ships"})
    assert (found.findings, dict(found.unjudged)) == ([], {})
    sources[2] = replace(ships, fragments=[replace(b, shape="m16n8k17")])
    assert [finding.source for finding in check(sources, []).findings] == ["ships"]


def test_a_document_that_is_alone_is_noted_and_fails_nothing():
    """As the first document of a vendor is; an import that nothing else knows may be misspelt."""
    for kind, code in ("document", 0), ("import", 1):
        found = check([Source("alone", kind, "alone", FRAGMENTS)], [], ["alone"])
        (finding,) = found.findings
        assert (finding.source, finding.known is not None, found.exit_code) == ("alone", code == 0, code)
        for form in FORMATS[:2]:
            assert ("not confirmed: no other source has any fragment of alone" in found.report(form)) is (code == 0)


def test_a_check_counts_what_a_comparison_counts_also_what_puts_two_elements_in_one_place():
    broken = replace(FRAGMENTS[0], elements=None, status=IMPOSSIBLE)
    left = Source("ptx-isa-9.8", "document", "", [broken, *FRAGMENTS[1:]])
    right = Source("a card", "capture", "", FRAGMENTS)
    found = check([left, right], [])
    assert found.stated == {"ptx-isa-9.8": len(FRAGMENTS), "a card": len(FRAGMENTS)}
    assert set(found.stated.values()) == {found.compared, diff([left], [right]).compared}
    assert found.report().count(str(len(FRAGMENTS))) >= 2
