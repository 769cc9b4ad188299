"""Reports of defects: each fact follows from the layouts, and nothing that is right is reported."""

import json
from dataclasses import replace

import numpy as np
import pytest

from lanemap.db.compare.crosscheck import Finding, judge
from lanemap.db.compare.defect import Report, defects
from lanemap.db.errors import LanemapError
from lanemap.db.layout.fragment import Citation, Source
from lanemap.db.layout.structure import check
from lanemap.db.lookup import Query
from lanemap.db.render.report import corrected

KEYS = [("m16n8k16", "f16", role) for role in "AB"] + [("m16n8k16", "f32", role) for role in "CD"]


@pytest.fixture(scope="module")
def trusted(sources):
    return sources["ptx-isa-9.4+errata"]


@pytest.fixture(scope="module")
def library(trusted):
    """A function that makes a source of the operands of m16n8k16, some of them changed."""

    def library(version="2", set_="maps", changes=None, **provenance):
        kept = [
            replace(fragment, source=None, citation=Citation(origin=f"mine/maps.py:{line} map_{fragment.role.lower()}"))
            for line, fragment in enumerate(trusted.fragments)
            if fragment.instruction == "mma" and (fragment.shape, fragment.type, fragment.role) in KEYS
        ]
        made = [changed(fragment, (changes or {}).get(fragment.role)) for fragment in kept]
        said = {"library": "Mine", "package": "mine", "version": version, "set": set_, "notation": "cute"}
        return Source(f"mine-{version}:{set_}", "import", f"Mine {version} {set_}", made, said | provenance)

    return library


def changed(fragment, change):
    if change is None:
        return fragment
    table = fragment.elements.copy()
    change(table)
    return replace(fragment, elements=table)


def exchange(name, one, other):
    def change(table):
        values = table[name].copy()
        table[name] = np.select([values == one, values == other], [other, one], values)
        table["col_last"] = table["col"]

    return change


def reported(asked, *others, trusted, **more):
    found = [
        Finding(source.name, fragment.key, words)
        for source in (asked, *others)
        for fragment in source.fragments
        for words in check(fragment)
    ]
    return defects([asked], [trusted, asked, *others], found, **more)


def test_what_is_right_has_no_defects(library, trusted):
    assert reported(library(), trusted=trusted) == []


def test_what_is_only_renumbered_has_none(library, trusted):
    """K alike in A and B."""
    source = library(changes={"A": exchange("col", 1, 6), "B": exchange("row", 1, 6)})
    assert reported(source, trusted=trusted) == []


def test_registers_that_are_exchanged(library, trusted):
    """Registers 1 and 2 of A stand for the halves of M and of K."""

    def change(table):
        first, second = (table["reg"] == reg for reg in (1, 2))
        for name in ("row", "col", "col_last"):
            one, other = table[name][first].copy(), table[name][second].copy()
            table[name][first], table[name][second] = other, one

    (found,) = reported(library(changes={"A": change}), trusted=trusted)
    facts = dict(found.labelled)
    assert found.name == "A of mma m16n8k16 f16"
    assert facts["where"].startswith("mine 2, mine/maps.py:")
    assert facts["claim set"] == "maps"
    assert facts["wrong"] == "regs 1 and 2 are exchanged"
    assert facts["example"] == (
        "lane 0, register 1, slot 0 is claimed to hold row 0, column 8, but holds row 8, column 0"
    )
    assert "section 9.7.16.5.8 (#warp-level-matrix-fragment-mma-16816-float) of ptx-isa-9.4+errata" in facts["proof"]
    assert facts["not a renumbering"] == "claimed M 0 is M 0 in one place and 8 in another"
    assert found.effect == "all 128 elements of D are wrong"
    assert "effect" not in facts  # nobody has found out what the map reaches
    assert "in detail" not in facts
    assert "use" not in facts


def test_the_effect_names_the_rows(library, trusted):
    """Columns 1 and 6 of row 5 alone."""

    def change(table):
        row = table["row"] == 5
        table["col"][row] = np.select([table["col"][row] == 1, table["col"][row] == 6], [6, 1], table["col"][row])
        table["col_last"] = table["col"]

    (found,) = reported(library(changes={"A": change}), trusted=trusted)
    facts = dict(found.labelled)
    assert found.effect == "8 of 128 elements of D are wrong, in rows 5"
    assert facts["not a renumbering"] == "claimed K 6 is K 6 in one place and 1 in another"


def test_what_is_renumbered_in_one_operand_alone(library, trusted):
    (found,) = reported(library(changes={"A": exchange("col", 1, 6)}), trusted=trusted)
    assert dict(found.labelled)["agreement"] == "K is renumbered, but not in the same way in B of mma m16n8k16 f16"
    assert "not a renumbering" not in dict(found.labelled)


def test_only_operands_of_the_same_instruction_agree_or_not(library, trusted):
    """K alike in A and B, C renumbered: what else the library has of another shape is another product."""
    changes = {"A": exchange("col", 1, 6), "B": exchange("row", 1, 6), "C": exchange("row", 1, 9)}
    source = library(changes=changes)
    other = next(fragment for fragment in trusted.fragments if fragment.key[:4] == ("mma", "m16n8k8", "f16", "A"))
    source = replace(source, fragments=[*source.fragments, replace(other, source=None)])
    (found,) = reported(source, trusted=trusted)
    assert found.name == "C of mma m16n8k16 f32"
    others = "A of mma m16n8k16 f16, D of mma m16n8k16 f32"
    assert found.agreement == f"M is renumbered, but not in the same way in {others}"


def test_slots_that_hold_nothing(library, trusted):
    source = library()
    a = source.fragments[0]
    source = replace(source, fragments=[replace(a, elements=a.elements[a.elements["reg"] < 3]), *source.fragments[1:]])
    (found,) = reported(source, trusted=trusted)
    facts = dict(found.labelled)
    assert facts["wrong"] == "absent in the claim: reg 3"
    assert facts["in detail"] == (
        "64 slots hold nothing, first lane 0 reg 3 slot 0; 64 cells are never held: rows 8-15 cols 8-15"
    )
    assert facts["example"].endswith("register 3, slot 0 is claimed to hold nothing, but holds row 8, column 8")
    assert facts["not a renumbering"] == "a renumbering moves cells, but here some slots hold none"
    assert found.effect == "64 of 128 elements of D are wrong, in rows 8-15"


def test_what_could_not_be_made_a_fragment(library, trusted):
    key = next(fragment.key for fragment in library().fragments if fragment.role == "B")
    wrong = [{"operand": list(key), "origin": "mine/maps.py:7 map_b", "words": "cell (8, 0) is elsewhere"}]
    source = library(wrong=wrong)
    (found,) = reported(source, trusted=trusted)
    assert dict(found.labelled)["wrong"] == "one part of the tile is right, and others are not where they should be"
    source = replace(source, fragments=[fragment for fragment in source.fragments if fragment.role != "B"])
    (found,) = reported(source, trusted=trusted)
    assert found.labelled[0] == ("where", "mine 2, mine/maps.py:7 map_b")
    assert dict(found.labelled)["wrong"] == "none of its elements is where it should be"
    assert dict(found.labelled)["in detail"] == "cell (8, 0) is elsewhere"


def test_a_function_is_one_defect_whatever_operands_it_has_wrong(library, trusted):
    """A and C by one function, in two claim sets; what is wrong is said of each."""
    changes = {"A": exchange("col", 1, 6), "C": exchange("row", 1, 9)}
    one = library(changes=changes)
    cited = Citation(origin="mine/maps.py:1 map_all")
    one = replace(one, fragments=[replace(fragment, citation=cited) for fragment in one.fragments])
    (found,) = reported(one, trusted=trusted)
    assert [operand.key.role for operand in found.wrong] == ["A", "C"]
    assert found.words.startswith("A of mma m16n8k16 f16: ")
    assert "; C of mma m16n8k16 f32: " in found.words
    two = library(changes=changes, set_="emitter")
    two = replace(two, fragments=[replace(fragment, citation=cited) for fragment in two.fragments])
    (found,) = defects([one, two], [trusted, one, two])
    assert len(found.wrong) == 4
    assert dict(found.labelled)["claim set"] == "maps, emitter"


def test_an_operand_that_ptx_does_not_have(library, trusted):
    source = library()
    odd = replace(source.fragments[0], type="e4m3", shape="m16n8k64")
    (found,) = reported(replace(source, fragments=[*source.fragments, odd]), trusted=trusted)
    assert (found.name, found.words) == ("A of mma m16n8k64 e4m3", "there is no form with A of e4m3")


def test_only_the_operand_that_is_asked_for(library, trusted):
    source = library(changes={"C": exchange("col", 0, 5), "D": exchange("row", 0, 5)})
    assert [defect.name for defect in reported(source, trusted=trusted, query=Query("m16n8k16", "f32", "D"))] == [
        "D of mma m16n8k16 f32"
    ]
    assert len(reported(source, trusted=trusted)) == 2
    assert reported(source, trusted=trusted, query=Query("m16n8k16", "f16", "A")) == []
    with pytest.raises(LanemapError, match="mine-2:maps: no operand matches m16n8k8 f16 A"):
        reported(source, trusted=trusted, query=Query("m16n8k8", "f16", "A"))


def test_the_true_layout_is_in_the_notation_of_the_library(library, trusted):
    wrong = {"C": exchange("col", 0, 5)}
    (found,) = reported(library(changes=wrong), trusted=trusted)
    name, text = corrected(found)
    assert name == "cute"
    assert "Stride<Stride<_32,_1>,Stride<_16,_8>>" in text
    (found,) = reported(library(changes=wrong, notation="python"), trusted=trusted)
    name, text = corrected(found)
    assert name == "python"
    functions = {}
    exec(text, functions)
    place = next(function for function in functions.values() if callable(function) and "to_shared" in function.__name__)
    for element in found.result.right.elements.tolist():
        assert place(element[0], element[1]) == (element[3], element[4])


def test_alike_in_two_types_is_one_defect(trusted):
    kept = [
        fragment
        for fragment in trusted.fragments
        if (fragment.instruction, fragment.shape, fragment.role) == ("mma", "m16n8k16", "A")
    ]
    kept = [
        replace(changed(fragment, exchange("row", 1, 9)), source=None, citation=Citation(origin="mine.py:1 map_a"))
        for fragment in kept
        if fragment.type in ("f16", "bf16")
    ]
    (found,) = reported(Source("mine", "import", "Mine", kept, {"library": "Mine"}), trusted=trusted)
    assert found.name == "A of mma m16n8k16 f16 bf16"


def test_the_formats(library, trusted):
    (found,) = reported(library(changes={"C": exchange("col", 0, 5)}), trusted=trusted)
    report = Report([found], {"Made by": "a <test>"})
    text = report.report()
    assert "- **Made by**: a &lt;test&gt;" in text
    assert "| Mine 2 maps | C of mma m16n8k16 f32 |" in text
    assert "## Mine 2 maps: C of mma m16n8k16 f32\n" in text
    assert "\n```cpp\nusing mma_m16n8k16_f32_c = Layout<" in text
    page = report.report("html")
    assert page.count("<img") == 1
    assert "a &lt;test&gt;" in page
    assert report._repr_html_() in page
    (record,) = json.loads(report.report("json"))["defects"]
    assert record["corrected"]["notation"] == "cute"
    assert len(record["elements"]) == found.result.difference.count == 32
    assert record["elements"][0]["claimed"][:2] == [0, 5]
    assert record["elements"][0]["true"][:2] == [0, 0]
    assert report.frame().operand.tolist() == ["C of mma m16n8k16 f32"]
    with pytest.raises(Exception, match="defects are reported as markdown, html, json, issue, not as 'junit'"):
        report.report("junit")


def test_windows_that_no_renumbering_takes_along_are_told(trusted):
    """Sparse A whose windows begin where they did, in one row a column longer and in another one shorter."""
    sparse = next(
        fragment
        for fragment in trusted.fragments
        if fragment.key[:2] == ("mma.sp", "m16n8k16") and fragment.role == "A"
    )
    sparse = replace(sparse, source=None)

    def change(table):
        table["col_last"] += (table["row"] == 3).astype("i2") - (table["row"] == 4)

    source = Source("mine", "import", "Mine", [changed(sparse, change)], {"library": "Mine"})
    (found,) = reported(source, trusted=trusted)
    words = "K 0-3 is claimed to be K 0-3 in one place and 0-4 in another"
    assert dict(found.labelled)["not a renumbering"] == words


def test_of_an_instruction_that_nobody_else_has_ptx_is_not_the_judge(library, trusted):
    """Another vendor's, a part of which is missing: it is unsound by itself."""
    a = replace(library().fragments[0], instruction="v_product", type="f32", role="D", shape="m16n16k16")
    source = Source("theirs", "import", "Theirs", [replace(a, elements=a.elements[:-1])], {"library": "Theirs"})
    (found,) = reported(source, trusted=trusted)
    assert found.words == "it is inconsistent by itself, and no other source can judge it"
    assert "PTX" not in Report([found]).report()


def test_what_only_another_import_has_is_pointed_to_it(library):
    """It judges nothing, but can be compared."""
    a = replace(library().fragments[0], instruction="v_product", shape="m16n16k16")
    mine, theirs = (Source(name, "import", name, [a], {"library": name}) for name in ("mine", "their own"))
    found = judge([mine], [mine, theirs])
    assert found.compared == 0
    said = " ".join(found.report().split())
    assert "; also in their own, which cannot judge it: lanemap diff mine 'their own'" in said
