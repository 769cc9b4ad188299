"""Which bits of its slot an element has: claimed, stored, compared, and used by whatever follows from a layout."""

import csv
import json
import shutil
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanemap
from lanemap.capture import recording
from lanemap.capture.values import encode
from lanemap.db.compare.crosscheck import check, diff, judge
from lanemap.db.compare.defect import Report, defects
from lanemap.db.compare.summary import verdicts
from lanemap.db.compare.verdict import Verdict, compare
from lanemap.db.flow.recipe import pairs, recipe
from lanemap.db.isa.instructions import element_bits, in_tensor_memory, occupied_bits
from lanemap.db.isa.types import TYPES
from lanemap.db.layout.codes import table as code_table
from lanemap.db.layout.fragment import Source
from lanemap.db.lookup import Query
from lanemap.db.render.facts import facts
from lanemap.db.render.notation import express
from lanemap.db.render.report import FORMATS
from lanemap.ingest.python import load as read_mapping
from lanemap.ingest.table import load as read_table

from ..modes import examples
from ..shipped import corrected, documents, recorded

#: Those that a slot of 8 bits has room for (9.7.14.5.14).
NARROW = {"e2m1": 2, "e3m2": 0, "e2m3": 0}
OPERANDS = {
    (fragment.type, fragment.role): fragment
    for fragment in corrected()
    if fragment.key[:2] == ("mma", "m16n8k32") and fragment.type in ("e2m1", "e3m2", "e4m3", "s4", "f32")
}
SPARSE = next(fragment for fragment in corrected() if fragment.key[:4] == ("mma.sp", "m16n8k64", "e2m1", "A"))


def source(name, *fragments, kind="import"):
    return Source(name, kind, name, [replace(fragment, source=name) for fragment in fragments])


def test_every_document_claims_what_the_instruction_reads():
    """By the table of types, which the probes of a capture write by; and no capture leaves it open."""
    narrow = set()
    for fragment in (one for document in (*documents().values(), recorded()) for one in document.fragments):
        if in_tensor_memory(fragment.key):  # of narrow floats the document draws the bits
            width = 32 if fragment.role == "D" else element_bits(*fragment.key[:3])  # a column has one element of D
            assert fragment.role == "E" or fragment.slot_bits == width
            assert fragment.first_bit == (
                None if fragment.type in NARROW and width == 8 and fragment.role == "A" else 0
            )
            continue
        assert fragment.first_bit == occupied_bits(fragment.instruction, fragment.type, fragment.slot_bits).start, (
            fragment
        )
        if len(fragment.occupied_bits) < fragment.slot_bits:
            assert fragment.first_bit == NARROW[fragment.type]
            narrow.add((*fragment.key[:2], fragment.role, fragment.type))
        elif fragment.role not in ("E", "p"):
            assert fragment.slot_bits <= TYPES[fragment.type].bits
    shapes = (("mma", "m16n8k32"), ("mma.sp", "m16n8k64"))
    assert narrow == {(*shape, role, type_) for shape, role, type_ in product(shapes, "AB", NARROW)}


def test_what_fits_a_slot_in_one_way_is_there_and_what_does_not_is_refused():
    for operand in OPERANDS.values():
        room = operand.slot_bits - len(operand.occupied_bits)
        assert replace(operand, first_bit=None).first_bit == (None if room else 0)
        for wrong in (-1, room + 1):
            with pytest.raises(lanemap.LanemapError, match=f"first_bit {wrong} is outside 0..{room}"):
                replace(operand, first_bit=wrong)


@pytest.mark.parametrize("type_", NARROW)
def test_a_probe_tells_bits_from_any_others(type_):
    """Numbers that are written have the products that come out only where both factors are read from these bits."""
    numbers = np.arange(-2, 3)
    codes = {other: encode(other, 8, numbers).astype(int) for other in NARROW}

    def read(of, bit):
        width = TYPES[of].bits
        return code_table(of, width)[codes[of] >> bit & (1 << width) - 1]

    for other in NARROW:
        for bits in product(range(9 - TYPES[type_].bits), range(9 - TYPES[other].bits)):
            same = np.array_equal(np.outer(read(type_, bits[0]), read(other, bits[1])), np.outer(numbers, numbers))
            assert same == (bits == (NARROW[type_], NARROW[other]))


claims = st.sampled_from([None, 0, 1, 2, 4])


@pytest.mark.slow
@given(claims, claims, claims, claims, st.sampled_from([None, "k", "wrong"]), st.booleans())
@examples(200)
def test_two_claims_that_differ_are_different_and_one_alone_is_not_compared(a, other_a, b, other_b, change, turned):
    """Whatever else is the same, refined or renumbered; and the other operand keeps its verdict."""
    mine = {role: replace(OPERANDS["e2m1", role], first_bit=bit) for role, bit in (("A", a), ("B", b))}
    theirs = {role: replace(OPERANDS["e2m1", role], first_bit=bit) for role, bit in (("A", other_a), ("B", other_b))}
    for role, fragment in list(theirs.items()) if change else []:
        table = fragment.elements.copy()
        axis = "col" if role == "A" else "row"
        table[axis] = 31 - table[axis]
        if change == "wrong" and role == "A":
            table[axis] = table[axis] ^ (table["row"] & 1)
        table["col_last"] = table["col"]
        theirs[role] = replace(fragment, elements=table)
    sides = [
        source("mine", *mine.values(), OPERANDS["f32", "D"]),
        source("theirs", *theirs.values(), OPERANDS["f32", "D"]),
    ]
    if turned:
        sides.reverse()
    found = diff([sides[0]], [sides[1]])
    expected = {None: Verdict.IDENTICAL, "k": Verdict.RELABELLED, "wrong": Verdict.DIFFERENT}[change]
    for result in found.results:
        one, other = {"A": (a, other_a), "B": (b, other_b), "D": (0, 0)}[result.key.role]
        apart = None not in (one, other) and one != other
        cells = Verdict.IDENTICAL if result.key.role == "D" else expected
        assert result.verdict is (Verdict.DIFFERENT if apart else cells)
        assert result.same_as is None, "it is itself, in other bits"
        ends = [f"{bit}-{bit + 3}" for bit in (other, one)[:: 1 if turned else -1]] if apart else []
        assert ("elements have bits" in result.words) == apart
        if apart:
            assert f"elements have bits {ends[0]} of each slot on the left, and {ends[1]} on the right" in result.words
    open_ = {("mine", "A"): a, ("mine", "B"): b, ("theirs", "A"): other_a, ("theirs", "B"): other_b}
    assert {(name, key.role) for name, key in found.unplaced} == {pair for pair, bit in open_.items() if bit is None}
    assert ("not compared in" in found.report()) == bool(found.unplaced)
    told = json.loads(found.report("json"))
    assert [(fragment["source"], fragment["role"]) for fragment in told["unplaced"]] == [
        (name, key.role) for name, key in found.unplaced
    ]
    assert told["agree"] == (found.unexplained == 0)


def test_bits_of_what_was_not_compared_are_not_missed():
    """Neither what one side has alone, nor what claims nothing, was compared but for its bits."""
    silent = replace(OPERANDS["e2m1", "A"], first_bit=None)
    both = OPERANDS["f32", "D"]
    found = diff([source("mine", silent, both)], [source("theirs", both)])
    assert found.pairs[0][1].verdict is Verdict.LEFT_ONLY
    assert not found.unplaced
    assert "not compared in" not in found.report()


def test_what_refines_a_window_in_other_bits_is_different():
    table = SPARSE.elements.copy()
    table["col"] += table["slot"] // 2 * 4
    table["col_last"] = table["col"] + 3
    for bit, verdict in ((2, Verdict.REFINED), (None, Verdict.REFINED), (0, Verdict.DIFFERENT)):
        narrower = replace(SPARSE, elements=table, first_bit=bit)
        (found,) = compare([narrower], [SPARSE])
        assert found.verdict is verdict
        assert ("elements have bits" in found.words) == (bit == 0)


def test_operands_with_the_same_cells_have_bits_of_their_own():
    true = [OPERANDS["e4m3", "A"], OPERANDS["e2m1", "A"]]
    table = true[0].elements.copy()
    table["row"] ^= (table["col"] & 1) << 1
    mine = [replace(true[0], elements=table), replace(true[1], elements=table, first_bit=0)]
    for order in (mine, mine[::-1]):
        found = {result.key.type: "elements have bits" in result.words for result in compare(order, true)}
        assert found == {"e4m3": False, "e2m1": True}


def test_every_verdict_sees_it():
    """Those of pages, of the best evidence, of a check, and of a report on a library."""
    true = OPERANDS["e2m1", "A"]
    wrong, silent = replace(true, first_bit=0), replace(true, first_bit=None)
    document = source("document", true, OPERANDS["f32", "D"], kind="document")
    for fragment, verdict in ((wrong, "different"), (silent, "identical"), (true, "identical")):
        assert (
            verdicts({fragment.key: true}, [replace(fragment, source="theirs")])[fragment.key]["theirs"].verdict
            == verdict
        )
        mine = source("theirs", fragment)
        found = [judge([mine], [document, mine]), check([document, mine], [])]
        assert [one.unexplained for one in found] == [verdict == "different"] * 2
        assert [[name for name, _ in one.unplaced] for one in found] == [["theirs"] * (fragment is silent)] * 2
        assert len(defects([mine], [document, mine])) == (verdict == "different")
    (defect,) = defects([source("theirs", wrong)], [document])
    assert "bits 0-3 of each slot in the claim, and 2-5 in truth" in defect.words
    assert defect.effect == "all 128 elements of D are wrong"
    assert "elements have bits" in Report([defect]).report("html")
    for form in FORMATS:
        assert "elements have bits 0-3" in diff([source("theirs", wrong)], [document]).report(form)


def test_an_erratum_of_cells_does_not_explain_other_bits():
    true = OPERANDS["e2m1", "A"]
    table = true.elements.copy()
    table["row"] ^= 1
    citation = true.citation._replace(erratum="rows are exchanged")
    sides = [
        source("doc", replace(true, elements=table), kind="document"),
        source("doc+errata", replace(true, citation=citation), kind="document"),
    ]
    for bit, against in product((0, None, 2), ([], ["doc"])):
        found = check([*sides, source("theirs", replace(true, first_bit=bit))], [], against)
        (result,) = (
            result for one in found.comparisons for result in one.results if one.right.name == "doc" != one.left.name
        )
        assert (result.known is None) == (bit == 0)


@pytest.mark.slow
def test_it_is_asked_for_like_every_column(database, run):
    asked = (
        "SELECT DISTINCT type, first_bit FROM layout WHERE instruction = 'mma' AND shape = 'm16n8k32' AND role = 'A'"
    )
    found = dict(database.sql(f"{asked} AND source = 'ptx-isa-9.1'").itertuples(index=False))
    assert found == {type_: NARROW.get(type_, 0) for type_ in found}
    assert {*NARROW, "e4m3", "s4"} <= {*found}
    assert set(database.find("m16n8k32", "e2m1", "A", row=3, col=5).first_bit) == {2}
    wide, narrow = (run("find", "m16n8k32", type_, "A", "--row", "3", "--col", "5").out for type_ in ("e4m3", "e2m1"))
    assert ("first_bit" in narrow, "first_bit" in wide) == (True, False)
    listed = json.loads(run("list", "--shape", "m16n8k32", "--type", "e2m1", "--role", "A", "-f", "json").out)
    assert listed
    assert {record["first_bit"] for record in database.list("fragments", Query("m16n8k32", "e2m1", "A")).records()} == {
        2
    }


def test_what_follows_from_a_layout_takes_the_bits_that_it_claims(database):
    """Recipes, headers and what is said at the head of a fragment."""
    widening = pairs(database.reader, Query("m8n16", "b8x16", "r", "ldmatrix"))
    for bit in range(5):
        claimed = replace(OPERANDS["e2m1", "A"], first_bit=bit)
        assert recipe(widening, claimed, "row").shift == bit
        assert f"first_bit = {bit}, element_bits = 4" in express("cpp", claimed)
        assert f"e2m1 has bits {bit}-{bit + 3}" in facts(claimed)["per lane"]
    assert "e2m1 has bits 2-5" in facts(replace(OPERANDS["e2m1", "A"], first_bit=None))["per lane"]


def test_a_capture_keeps_it(tmp_path):
    claimed = [replace(operand, source=None) for operand in OPERANDS.values()]
    recording.write(Source("card", "capture", "A card", claimed), tmp_path / "card.parquet")
    again = {fragment.key: fragment.first_bit for fragment in recording.read(tmp_path / "card.parquet").fragments}
    assert again == {fragment.key: fragment.first_bit for fragment in claimed}
    assert set(again.values()) == {0, 2}


def written(path, fragment, bits):
    """A table of a fragment; ``bits`` gives the first bit of each row in turn. Where it is None there is no column."""
    names = ["shape", "type", "role", "lane", "reg", "slot", "row", "col", *([] if bits is None else ["first_bit"])]
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(names)
        for at, element in enumerate(fragment.records()):
            more = [] if bits is None else [bits[at % len(bits)]]
            table.writerow([fragment.shape, fragment.type, fragment.role, *element[:5], *more])
    return path


@given(st.sampled_from(sorted(OPERANDS)), st.none() | st.lists(st.none() | st.integers(-2, 9), min_size=1, max_size=3))
@examples(60)
def test_a_column_claims_one_number_that_fits_the_slot_or_is_refused(tmp_path_factory, which, bits):
    fragment = OPERANDS[which]
    path = written(tmp_path_factory.mktemp("table") / "mine.csv", fragment, bits)
    room = fragment.slot_bits - len(fragment.occupied_bits)
    said = set(bits or [None])
    right = len(said) == 1 and (said == {None} or said <= {*range(room + 1)})
    try:
        ((imported,),) = (imported.source.fragments for imported in read_table(path))
    except lanemap.LanemapError as error:
        assert not right
        assert "first_bit" in str(error)
    else:
        assert right
        (claim,) = said
        assert imported.first_bit == (claim if claim is not None or room else 0)


def test_a_type_of_an_instruction_that_nobody_knows_is_as_wide_as_its_column_says(tmp_path):
    header = "shape,type,role,lane,reg,slot,row,col,instruction,bits,first_bit\n"
    for width, bit, expected in (
        (6, "", None),
        (6, "2", 2),
        (6, "3", "refused"),
        (8, "", 0),
        (8, "1", 1),
        (8, "25", "refused"),
    ):
        path = tmp_path / "mine.csv"
        path.write_text(f"{header}m16n16k16,x6,A,0,0,0,0,0,v_x,{width},{bit}\n")
        try:
            ((found,),) = (imported.source.fragments for imported in read_table(path))
        except lanemap.LanemapError as error:
            assert "first_bit" in str(error)
            assert expected == "refused"
        else:
            assert found.first_bit == expected


@pytest.mark.slow
def test_a_wrong_column_fails_and_none_is_said_aloud(run, built_for_a_warp, tmp_path):
    """In ``diff`` and ``check``; of elements that fill their slots nothing is said."""
    database = shutil.copy2(built_for_a_warp, tmp_path / "own.db")
    a, full = OPERANDS["e2m1", "A"], OPERANDS["e4m3", "A"]
    for fragment, bits, code, said in ((a, [0], 1, ""), (a, [2], 0, ""), (a, None, 0, "mine"), (full, None, 0, "")):
        path = written(tmp_path / "mine.csv", fragment, bits)
        told = run("diff", path, db=database)
        assert run("import", "table", path, db=database).code == 0
        checked = run("check", "--against", "mine", db=database)
        for result in (told, checked):
            text = " ".join(result.out.split())
            assert result.code == code, result
            assert ("elements have bits 0-3 of each slot on the left, and 2-5 on the right" in text) == (code == 1)
            assert text.count("not compared in") == text.count("(not claimed by ") == bool(said)


def test_a_claim_of_a_mapping_may_say_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.py").write_text(
        "def a(lane, i):\n    return lane // 4 + i // 4 % 2 * 8, lane % 4 * 4 + i % 4 + i // 8 * 16\n"
    )
    head = 'library = "mine"\npackage = "mine"\n\n[[entry]]\nmodule = "kernels"\nname = "a"\nform = "place"\n'
    for said, expected in (("", None), (", first_bit = 2", 2), (", first_bit = 5", "refused")):
        claim = f'claims = [{{ shape = "m16n8k32", types = "e2m1", role = "A"{said} }}]\n'
        (tmp_path / "kernels.toml").write_text(head + claim)
        try:
            (made,) = read_mapping("kernels.toml")
        except lanemap.LanemapError as error:
            assert "first_bit 5 is outside 0..4" in str(error)
            assert expected == "refused"
        else:
            (found,) = made.source.fragments
            assert found.first_bit == expected
            assert found.digest == OPERANDS["e2m1", "A"].digest
