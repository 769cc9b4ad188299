"""Operands in shared memory, against a model of memory that is filled by hand: no formula of the package is used."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lanemap
from lanemap.db.compare.verdict import Verdict, compare
from lanemap.db.isa.forms import forms
from lanemap.db.isa.instructions import INSTRUCTIONS, Key, tile
from lanemap.db.isa.shared import BOX_MODES, BoundingBox, Tile, pattern
from lanemap.db.layout.fragment import Fragment, Source
from lanemap.db.layout.shared import Swizzle, places, shared, stated, swizzle
from lanemap.db.layout.structure import check
from lanemap.ingest import catalogue

from ..forms import BOXES
from ..modes import LONG, examples
from ..shared_memory import SPANS, box, memory

BITS = {"tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "narrow"), [*((bits, 0) for bits in (1, 4, 8, 16, 32)), (8, 4), (8, 6)])
@pytest.mark.parametrize("mode", list(SPANS))
@pytest.mark.parametrize("major", ["K", "MN"])
@examples(80)
@given(mn=st.integers(1, 20 if LONG else 10), k=st.integers(1, 5 if LONG else 3))
def test_a_tile_lies_where_a_model_of_memory_puts_it(bits, narrow, mode, major, mn, k):
    of = Tile(mode, major, bits, mn * 8, k * 128 // bits, narrow)
    found, size = memory(*of)
    assert (of.size, places(of).tolist()) == (
        size,
        [[found[row, col] for col in range(of.k)] for row in range(of.mn)],
    )


def documented():
    """Every operand in shared memory that the document has, once for each layout."""
    whole = [fragment for fragment in catalogue.document("ptx-isa-9.1").fragments if tile(fragment.key)]
    fragments = [one for fragment in whole for one in (*fragment.every[:: 1 if LONG else 6], fragment)]
    return list(
        {(fragment.digest, fragment.key.role): fragment for fragment in fragments if fragment.has_rows}.values()
    )


@pytest.mark.slow
def test_each_documented_operand_is_what_the_model_holds():
    fragments = documented()
    kinds = {(fragment.instruction, fragment.type, fragment.role, fragment.qualifiers) for fragment in fragments}
    assert len(fragments) > 200
    assert {"none.K", "32B.K", "64B.K", "128B.K", "none.MN", "32B.MN", "64B.MN", "128B.MN"} == {
        kind[3] for kind in kinds
    }
    for fragment in fragments:
        m, n, k = (int(number) for number in re.findall(r"\d+", fragment.shape))
        sparse = fragment.instruction.endswith(".sp")
        mode, major = fragment.qualifiers.split(".")
        bits = BITS.get(fragment.type, 16)
        narrow = 0
        if fragment.type == "e2m1":  # packed in the products of 4-bit kinds, which are 64 deep
            bits, narrow = {64: (4, 4), 32: (8, 4)}[k]
        extent = (m, k // 2 if sparse else k) if fragment.role == "A" else (n, k)
        found, size = memory(mode, major, bits, *extent, narrow)
        assert fragment.registers * 4 == size
        assert check(fragment) == []
        held = {}
        for lane, reg, slot, row, col, last, computation in fragment.tuples():
            assert (lane, computation) == (0, 1)
            held[reg * 32 + slot * (narrow or bits)] = (row, col, last)
        for (outer, inner), bit in found.items():
            row, col, last = held.pop(bit)
            if fragment.role == "B":
                assert (row, col, last) == (inner, outer, outer)
            elif not sparse:
                assert (row, col, last) == (outer, inner, inner)
            else:  # half of the columns are stored: of each two in tf32, of each four elsewhere
                width, kept = (2, 1) if bits == 32 else (4, 2)
                assert (row, col // width, last - col) == (outer, inner // kept, width - kept)
                assert col % width == inner % kept
        assert held == {}


@pytest.mark.slow
@pytest.mark.parametrize("version", ["9.1", "9.4"])
def test_each_documented_box_is_what_the_model_holds(version):
    """Each form has one, and each byte of an element lies where the tables put it that tests have of their own."""
    fragments = {one.key: one for one in catalogue.document(f"ptx-isa-{version}").fragments if one.role == "t"}
    assert fragments.keys() == {form.key("t") for form in BOXES}
    assert {key.qualifiers for key in fragments} == {*BOX_MODES}
    for key, fragment in fragments.items():
        rows, elements = (int(number) for number in key.shape[1:].split("n"))
        width = int(key.type[1:]) // 8
        held = box(key.qualifiers, rows, elements * width, 0)
        found = np.empty((rows, elements), int)
        table = fragment.elements
        found[table["row"], table["col"]] = table["reg"].astype(int) * 4 + table["slot"] * width
        assert found.ravel().tolist() == held[::width]
        assert len(table) == rows * elements
        assert check(fragment) == []


@pytest.mark.few(3)
@pytest.mark.parametrize("mode", list(BOX_MODES))
@given(rows=st.integers(1, 20), units=st.integers(1, 8), bits=st.sampled_from([8, 16, 32]))
def test_a_box_lies_where_a_model_of_memory_puts_it(mode, rows, units, bits):
    of = BoundingBox(mode, bits, rows, units * 128 // bits)
    assume(of.fits)
    assert (places(of).ravel() // 8).tolist() == box(mode, rows, units * 16, 0)[:: bits // 8]


def test_what_the_document_leaves_open_has_no_rows():
    """A line of 32 bytes does not hold the 64 bytes along K of B of a sparse product."""
    open_ = {fragment.key for fragment in catalogue.document("ptx-isa-9.1").fragments if fragment.status == "unstated"}
    assert open_
    assert {(key.instruction, key.role, key.qualifiers) for key in open_} == {("wgmma.sp", "B", "32B.K")}


@pytest.mark.parametrize("mode", list(BOX_MODES))
def test_a_swizzle_is_the_xor_of_its_bases(mode):
    moved = swizzle(mode)
    address = np.arange(moved.period)
    spanned = np.zeros_like(address)
    for bit, basis in enumerate(moved.bases):
        spanned ^= (address >> bit & 1) * basis
    assert np.array_equal(moved(address), spanned)
    assert np.array_equal(moved(moved(address)), address)
    assert np.array_equal(moved(address + moved.period), moved(address) + moved.period)


def test_a_swizzle_of_larger_units_keeps_them():
    assert Swizzle(2, 5, 2)(np.arange(0, 512, 32)).tolist() == [
        *(0, 32, 64, 96, 160, 128, 224, 192, 320, 352, 256, 288, 480, 448, 416, 384),
    ]


def test_words_that_are_no_canonical_layout_are_refused():
    with pytest.raises(lanemap.LanemapError, match=r"is no canonical layout: write Swizzle<3,4,3> o"):
        stated("((8,m),(T,2k)):((8T,SBO),(1,T))", Tile("128B", "K", 16, 8, 16))


def test_qualifiers_name_a_mode_in_any_case():
    assert [pattern(text) for text in ("128b.k", "NONE.mn", "96B.K", "x4", None)] == [
        *(("128B", "K"), ("none", "MN"), None, None, None)
    ]
    assert INSTRUCTIONS["wgmma"].patterns(8) == ["none.K", "32B.K", "64B.K", "128B.K"]


def test_a_fragment_in_memory_is_held_by_one_thread_and_may_have_gaps():
    key = Key("wgmma", "m64n8k16", "f16", "B", qualifiers="128B.K")
    fragment = Fragment.of(key, shared(key, places(Fragment.of(key, None, "x").tile)), "documented")
    assert (fragment.threads, fragment.registers, fragment.slots) == (1, 256, 2)
    assert check(fragment) == []
    assert Fragment.of(key._replace(role="A", qualifiers=None), None, "x").threads == 128


def test_what_the_document_leaves_open_is_said_with_its_evidence(database):
    """Of an operand that a descriptor names; that in registers needs none."""
    said = database.fragment("m64n64k16 f16 A 64B.K").citation.evidence
    assert "the base offset is subtracted" in said
    assert database.fragment("m64n64k16 f16 A", source="ptx-isa-9.4+errata").citation.evidence is None


@pytest.mark.slow
def test_an_example_that_puts_two_elements_in_one_place_has_an_erratum():
    """That of K-major tf32 with 32-byte swizzle, as 9.1 prints it: four units of 16 bytes along K have no room."""
    named = Key("wgmma", "m64n16k8", "tf32", "B", qualifiers="32B.K")
    sources = {
        name: {fragment.key: fragment for fragment in catalogue.document(name).fragments}
        for name in ("ptx-isa-9.1", "ptx-isa-9.1+errata", "ptx-isa-9.4")
    }
    printed, corrected, later = (source[named] for source in sources.values())
    assert (printed.status, printed.has_rows, printed.citation.erratum) == ("impossible", False, None)
    assert len(set(stated(printed.citation.formula, tile(named)).ravel().tolist())) < 16 * 16
    assert corrected.same_layout(later)
    assert corrected.citation.formula == later.citation.formula
    assert "k is 1, not 2" in corrected.citation.erratum
    assert later.citation.erratum is None
    held = {(element.col, element.row): element.reg * 32 for element in later.records()}
    assert held == memory("32B", "K", 32, 16, 8)[0]
    unlike = [*compare([*sources["ptx-isa-9.1"].values()], [*sources["ptx-isa-9.4"].values()])]
    unlike = [result for result in unlike if result.verdict not in (Verdict.IDENTICAL, Verdict.RIGHT_ONLY)]
    assert [(result.key, result.verdict, result.words) for result in unlike] == [
        (named, Verdict.DIFFERENT, "the left puts two elements in one place")
    ]
    (other,) = compare([later], [printed])
    assert (other.disagrees, other.words) == (True, "the right puts two elements in one place")


def test_each_n_that_registers_have_has_an_operand_in_memory():
    every = [*itertools.product(("wgmma", "wgmma.sp"), ("f16", "tf32", "e4m3", "s8")), ("wgmma", "b1")]
    for name, type_ in every:
        shapes = {form.key("D").shape for form in forms(name, a=type_)}
        for role in "AB":
            keys = [key for key in catalogue.documented() if tile(key) and key[0] == name and key[2:4] == (type_, role)]
            assert {key.shape for key in keys} == shapes, (name, type_, role)


def test_a_family_is_what_each_member_is_by_itself():
    """The catalogue evaluates a member alone, too; every N of a few families."""
    families = [fragment for fragment in catalogue.document("ptx-isa-9.4+errata").fragments if fragment.members]
    assert len(families) > 100
    assert {len(family.members) for family in families} >= {31, 17, 30, 5, 11}
    for family in families[::20]:
        assert [one.shape for one in family.every] == [*family.members, family.shape]
        for one in family.every:
            alone = catalogue.documented()[one.key]
            assert (one.digest, one.registers, one.dimensions) == (alone.digest, alone.registers, alone.dimensions)
            assert one.begins(family) if one.role == "B" and one.has_rows else one.digest == family.digest


@pytest.mark.slow
def test_every_surface_answers_for_a_member(own, tmp_path):
    """And alike, also where a fragment of somebody else's is of that N alone."""
    named = "m64n24k16 f16 B 128B.MN"
    expected = catalogue.documented()[Key("wgmma", "m64n24k16", "f16", "B", None, None, "128B.MN")]
    where = "shape = 'm64n24k16' AND type = 'f16' AND role = 'B' AND qualifiers = '128B.MN' AND instruction = 'wgmma'"
    with lanemap.open(own) as database:
        one = database.fragment(named)
        assert (one.digest, one.registers, one.packed) == (expected.digest, expected.registers, expected.packed)
        rows = database.select(
            "SELECT lane, reg, slot, row, col, col_last, computation FROM layout"
            f" WHERE {where} AND source = 'ptx-isa-9.4' ORDER BY lane, reg, slot"
        ).rows
        assert [*map(tuple, rows)] == [*map(tuple, expected.tuples())]
        listed = {each["shape"] for each in database.list("fragments", "wgmma f16 B 128B.MN").records()}
        assert {"m64n8k16", "m64n24k16", "m64n120k16", "m64n128k16"} <= listed
        assert "m64n24k16" in database.names("shape")
        assert database.find(named, row=3, col=9).to_dict("list")["col"] == [9]
        file = tmp_path / "mine.csv"
        database.export(file, query=named)
        mine = lanemap.read_file(file)
        assert [each.digest for each in mine.fragments] == [expected.digest]
        assert database.diff(mine, "ptx-isa-9.4").exit_code == 0
        assert {str(result.verdict) for result in database.diff(mine).results} == {"identical"}
        exchanged = expected.table.copy()
        exchanged["col"] ^= 1
        wrong = Source("wrong", "import", "wrong", [replace(expected, elements=exchanged, status="imported")])
        assert database.diff(wrong).exit_code == database.diff(wrong, "ptx-isa-9.4").exit_code == 1
        database.add([wrong])
        found = [result for result in database.check(["wrong"]).results if result.disagrees]
        assert {result.key for result in found} == {one.key}
        reported = [operand.result for defect in database.report("wrong").defects for operand in defect.wrong]
        assert [(result.key, str(result.verdict)) for result in reported] == [(one.key, "different")]
        assert database.diff("wrong", "ptx-isa-9.4+errata", "m64n24k16").exit_code == 1
        both = database.diff("ptx-isa-9.1", "ptx-isa-9.4", "m64n24k16 B").results
        assert one.key in {result.key for result in both}


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape", ["m64n256k256 b1", "m64n24k256 b1", "m64n8k16 f16", "m64n40k16 f16", "m64n256k16 f16"]
)
def test_what_is_stored_once_is_there_as_often_as_it_repeats(whole, shape):
    """Of D, too, whose registers repeat in each lane."""
    with lanemap.open(whole) as database:
        for named in (f"{shape} B 128B.K", f"{shape} B none.K", f"{shape.replace('b1', 's32')} D"):
            one = database.fragment(f"wgmma {named}")
            where = " AND ".join(
                f"{name} = '{getattr(one, name)}'" for name in ("instruction", "shape", "type", "role")
            )
            where += f" AND qualifiers = '{one.qualifiers}'" if one.qualifiers else ""
            rows = database.select(
                "SELECT lane, reg, slot, row, col, col_last, computation FROM layout"
                f" WHERE {where} AND source = '{one.source}' ORDER BY lane, reg, slot"
            ).rows
            assert [*map(tuple, rows)] == [*map(tuple, one.tuples())], named


def test_a_comparison_counts_members_as_a_file_does(database, tmp_path):
    """A family of operands is as many fragments as it has members, whichever side comes from a file."""
    file = tmp_path / "all.parquet"
    wgmma = {"type": "tf32", "instruction": "wgmma"}
    database.export(file, query=lanemap.Query(source="ptx-isa-9.1", **wgmma))
    pairs = [(left, right) for left in ("ptx-isa-9.1", file) for right in ("ptx-isa-9.4", "ptx-isa-9.1")]
    found = [database.diff(*pair, "wgmma tf32") for pair in pairs]
    every = database.source("ptx-isa-9.1").with_rows
    families = [one for one in every if (one.instruction, one.type) == ("wgmma", "tf32")]
    assert found[1].compared == sum(len(one.every) for one in families) > 32
    verdicts = [{result.key: result.verdict for result in each.results} for each in found]
    assert verdicts[0] == verdicts[2]
    assert verdicts[1] == verdicts[3]
