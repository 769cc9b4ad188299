"""What is wrong or doubtful in a text is said, whether it can be read or not; what cannot be read is not guessed."""

import pytest

from lanemap.db.layout.formula import FormulaError, parse
from lanemap.ingest.document import formulas
from lanemap.ingest.document.sections import Kind

from . import pages

INTEGER = pages.markdown(pages.INTEGER)
HALF = pages.markdown(pages.HALF)
SPARSE = pages.markdown(pages.FLOAT + pages.STORAGE + pages.SPARSE)


def said(found, kind):
    return [remark.reason for remark in found.remarks if remark.kind is kind]


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("c0, c1, c2, c3", "c0, c1, c1, c2", "c1 is listed twice"),
        ("c0, c1, c2, c3", "c0, c1, c1, c2", "c3 is missing"),
        ("c0, c1, c2, c3", "c1, c2, c3", "c0 is missing"),
        ("b0, b1, b2, b3", "b0, b1. b2. b3", "a comma is missing"),
        ("b0, b1, b2, b3", "b0, b1, a2, b3", "a2 stands among b0, b1"),
        ("b0, b1, b2, b3", "b0, b1", "1 registers hold 4 elements, but 2 are listed"),
        ("Four `.s32` registers.", "Five `.s32` registers.", "5 registers hold 5 elements, but 4 are listed"),
        ("each holding four `.u8` / `.s8`", "each holding four `.u8` / `.u4`", "but speaks of u4, u8"),
        (
            "for ai where i >= 4",
            "for ai where i >= 4",
            "a case without an upper bound: 'groupID + 8 for ai where i >= 4'",
        ),
        ("for ai where i < 4", "for ai where i < 8", "two cases of row disagree for a4-7"),
        ("col = groupID", "col = groupID for bi where i < 3 groupID for bi where i > 1", "two cases of col cover b2"),
        ("groupID + 8   ", "groupID + 9   ", "row 16 is outside 0..15"),
        ("* 4) + (i & 0x3)", "* 4) + (i & 0x2)", "cells are held too often"),
    ],
)
def test_a_slip_is_listed(right, wrong, words, reading):
    assert right in INTEGER
    found = reading(INTEGER.replace(right, wrong))
    listed = said(found, Kind.SLIP) + said(found, Kind.UNREAD)
    assert any(words in reason for reason in listed), listed


@pytest.mark.parametrize(
    ("right", "wrong", "said_twice"),
    [
        ("each holding four `.u8` / `.s8`", "each holding two `.u8` / `.s8`", "hold 4 elements, but 8 are listed"),
        ("a0, a1, a2, …, a6, a7", "a0, a1, a2, a3", "hold 8 elements, but 4 are listed"),
    ],
)
def test_of_words_and_list_the_one_that_fills_the_matrix_is_believed(right, wrong, said_twice, reading, printed):
    assert right in INTEGER
    found = reading(INTEGER.replace(right, wrong))
    assert any(said_twice in reason for reason in said(found, Kind.SLIP))
    of_integers = [
        fragment for fragment in found.source.fragments if fragment.role == "A" and fragment.type in ("s8", "u8")
    ]
    assert len(of_integers) == 2
    for fragment in of_integers:
        assert (fragment.registers, fragment.slots, fragment.digest) == (2, 4, printed[fragment.key].digest)


@pytest.mark.parametrize(
    ("right", "wrong", "words", "lost"),
    [
        ("for ai where i < 4", "for ai where i < 3", "no case of row covers a3", "A"),
        ("for ai where i >= 4", "for ai where i >= 3", "two cases of row disagree for a3", "A"),
        ("(threadID_in_group * 4) + (i & 0x3)", "(threadID * 4) + (i & 0x3)", "threadID is not defined", "A"),
        ("(threadID_in_group * 4) + (i & 0x3)", "(threadID_in_group * 4 + (i & 0x3)", "col", "A"),
        ("groupID + 8                          for ai", "groupID + 8                          fro ai", "fro", "A"),
        ("col = groupID", "col = groupID << 40", "a shift of", "B"),
        ("col = groupID", "col = groupID + 65536", "outside -32767..32767", "B"),
        ("A single `.b32` register, holding four", "Some `.b32` registers, holding four", "cannot be read", "B"),
        ("A single `.b32` register, holding four", "900 `.b32` registers, holding four", "cannot be read", "B"),
        ("for ci where i >= 2", "", "two cases of row disagree", "C"),
        ("Multiplicand B:", "The other one:", "nothing is said of B", "B"),
        ("| `.s32` | Four", "| | A vector expression of four", "no type stands before this row for C and D", ""),
    ],
)
def test_what_cannot_be_read_is_said_and_costs_only_itself(right, wrong, words, lost, reading):
    assert right in INTEGER
    found = reading(INTEGER.replace(right, wrong))
    assert not found.complete
    assert any(words in reason for reason in said(found, Kind.UNREAD)), said(found, Kind.UNREAD)
    roles = {fragment.role for fragment in found.source.fragments}
    assert not lost or lost not in roles
    assert roles & {"A", "C"}


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("Where\n  firstcol = ", "Where\n  other = ", "firstcol is not defined"),
        ("8 4-bit vectors", "some vectors", "the number of indices in the metadata cannot be read"),
        ("in [Matrix Fragments for mma.m16n8k8](#warp", "in [Notes on mma.m16n8k9](#old", "neither this document nor"),
        ("Metadata: A", "Rest: A", "nothing is said of E"),
    ],
)
def test_what_is_sparse_can_be_unreadable_too(right, wrong, words, reading):
    assert right in SPARSE
    reasons = said(reading(SPARSE.replace(right, wrong)), Kind.UNREAD)
    assert any(words in reason for reason in reasons), reasons


def test_metadata_that_does_not_fill_its_register_is_a_slip(reading):
    found = reading(SPARSE.replace("8 4-bit vectors", "8 2-bit vectors"))
    assert "these fill 16 bits of a 32-bit register" in said(found, Kind.SLIP)


@pytest.mark.parametrize(
    ("right", "wrong", "mended"),
    [
        ("(i & 0x3)    for ai", "(i & 0x3    for ai", None),
        ("groupID + 8                          for ai", "(groupID + 8 for ai", "added the closing bracket after 8"),
        (
            "groupID + 8                          for ai",
            "8 + (groupID for ai",
            "added the closing bracket after groupID",
        ),
        ("where i = {0,..,7}", "where i = {0,..,7", "added the closing bracket after 7"),
        ("(i & 0x3)    for ai", "(i & 0x3))    for ai", "dropped the closing bracket after"),
    ],
)
def test_a_bracket_that_is_missing_is_mended_where_there_is_one_way(right, wrong, mended, reading, printed):
    assert right in INTEGER
    found = reading(INTEGER.replace(right, wrong))
    assert found.complete == (mended is not None)
    if mended is None:
        return
    (reason,) = said(found, Kind.MENDED)
    assert reason.startswith(f"A: {mended}")
    fragments = [fragment for fragment in found.source.fragments if fragment.role == "A"]
    assert all(
        fragment.digest == printed[fragment.key].digest and fragment.citation.mended.startswith(mended)
        for fragment in fragments
    )


@pytest.mark.parametrize(
    "broken",
    [
        "row = (i % 4) * (l + 2 * (i >> 1) for ai where i = {0,..,7} col = 0",
        "row = (i % 4) * l) + 2 * (i >> 1) for ai where i = {0,..,7} col = 0",
        "row = (i & {1, 2) for ai where i = {0,..,7} col = 0",
        "row = [(i & 1) ... 3 for ai where i = {0,..,7}] col = [0 ... 1]]",
    ],
)
def test_every_way_to_mend_a_bracket_that_can_be_read_is_tried(broken):
    """The ways are all those that add or drop one closing bracket and give a formula."""

    def is_formula(text):
        try:
            return bool(parse(text))
        except FormulaError:
            return False

    changed = {broken[:at] + sign + broken[at:] for sign in ")]}" for at in range(len(broken) + 1)}
    changed |= {broken[:at] + broken[at + 1 :] for at, sign in enumerate(broken) if sign in ")]}"}
    expected = {"".join(text.split()) for text in changed if is_formula(text)}
    assert {"".join(text.split()) for _, text in formulas._mendings(broken) if is_formula(text)} == expected


def test_a_layout_of_types_that_no_table_has_is_said(reading):
    found = reading(HALF.replace("C when `.ctype` is `.f16`", "C when `.ctype` is `.bf16`"))
    reasons = said(found, Kind.UNREAD)
    assert "a layout that no row of the table is for" in reasons
    assert "neither a formula nor a figure says where the elements are" in reasons


def test_an_operand_without_anything_is_said(reading):
    found = reading(INTEGER.replace("Multiplicand B:", "Multiplicand B:\n\n* Multiplicand A:\n\n* Multiplicand B:"))
    assert "nothing that can be read follows for B" in said(found, Kind.UNREAD)


def test_an_operand_that_comes_again_belongs_to_a_section_whose_heading_is_lost(reading):
    found = reading(INTEGER + pages.markdown(pages.FLOAT[1:]))
    assert any("A for the second time" in reason for reason in said(found, Kind.UNREAD))
    assert [fragment.key for fragment in found.source.fragments] == [
        fragment.key for fragment in reading(INTEGER).source.fragments
    ]


def test_one_layout_for_types_that_are_held_differently_is_a_slip(reading):
    found = reading(
        INTEGER.replace(
            "Two `.b32` registers, each holding four `.e4m3`", "Four `.b32` registers, each holding two `.e4m3`"
        )
    )
    assert any("held differently: 2 registers of 4 and 4 registers of 2" in remark for remark in said(found, Kind.SLIP))


def test_of_two_formulas_for_one_layout_the_first_counts(reading, printed):
    formula = next(part for part in pages.INTEGER if isinstance(part, pages.Formula))
    parts = [block for part in pages.INTEGER for block in ((part, part) if part is formula else (part,))]
    found = reading(pages.markdown(parts))
    assert "a second formula for A" in said(found, Kind.UNREAD)
    assert all(fragment.digest == printed[fragment.key].digest for fragment in found.source.fragments)
    assert "A" in {fragment.role for fragment in found.source.fragments}


def test_a_layout_that_is_missing_beside_its_like_is_said(reading):
    found = reading(HALF.replace("A, Column Major", "A, again").replace("A when it is Column Major", "A"))
    assert any("second formula" in reason or "for col major" in reason for reason in said(found, Kind.UNREAD))


def test_a_row_that_says_nothing_is_said(reading):
    found = reading(INTEGER.replace("| `.s32` | Four `.s32` registers.", "| s.32 | Four of them."))
    assert "C and D: part of a formula or table that belongs to none" in said(found, Kind.UNREAD)


def test_a_type_that_is_new_is_read_and_noted(reading):
    found = reading(INTEGER.replace("e5m2", "e6m1"))
    assert found.complete
    assert ".e6m1 is not a type that Lanemap knows" in said(found, Kind.NOTE)
    assert ("mma", "m16n8k16", "e6m1", "A", "row", None, None) in {fragment.key for fragment in found.source.fragments}


def test_rows_that_are_missing_in_b_are_a_slip(reading):
    found = reading(INTEGER.replace("| `.u8` / `.s8` | A single", "| `.u8` | A single"))
    assert "A is for e4m3, e5m2, s8, u8 but B is for e4m3, e5m2, u8" in said(found, Kind.SLIP)


def test_a_formula_under_another_heading_is_said(reading):
    found = reading(INTEGER.replace("Matrix Fragments for `mma.m16n8k16`", "Layouts of a shape"))
    assert said(found, Kind.UNREAD) == ["formulas under a heading that names no shape of mma"]


def test_sections_that_contradict_each_other_are_said(reading):
    other = (
        INTEGER.replace("7.3.1", "7.3.9").replace("-i8-f8", "-other").replace("(i & 0x3)", "((3 - (i & 0x3)) & 0x3)")
    )
    found = reading(INTEGER + other)
    assert "section 7.3.1, which was read first, disagrees" in said(found, Kind.UNREAD)


def test_an_empty_heading_is_said_unless_it_stands_elsewhere(reading):
    bare = "##### 7.3.1. Matrix Fragments for mma.m16n8k16 with integer type\n\n"
    assert reading(bare + INTEGER).complete
    assert said(reading(bare.replace("7.3.1", "7.3.8") + INTEGER), Kind.UNREAD) == [
        "no operand is named under this heading"
    ]
