"""Every notation over every fragment of every source: it says just what the rows say, or refuses by name."""

import re
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lanemap
from lanemap.db.fragment import Fragment, by_rule, elements
from lanemap.db.notation import NOTATIONS, RefusedError, identifier
from lanemap.db.notation.export import express

#: What the notations refuse that have one cell for each slot: windows of columns, and what the document prints wrong.
#: Triton has no products of quad pairs either.
REFUSED = {
    **dict.fromkeys(("cute", "linear", "affine", "python"), lambda fragment: windows(fragment) or slip(fragment)),
    "triton": lambda fragment: windows(fragment) or slip(fragment) or fragment.computations > 1,
    **dict.fromkeys(("cpp", "ptx-formula", "tikz"), lambda fragment: False),
}

forms = pytest.mark.parametrize("form", NOTATIONS)


def windows(fragment):
    return (fragment.elements["col"] != fragment.elements["col_last"]).any()


def slip(fragment):
    return (fragment.source, str(fragment)) == ("ptx-isa-9.1", "A of mma m16n8k256 b1")


@forms
def test_every_operand_of_a_product_is_expressed_but_for_what_a_notation_cannot_say(everything, form):
    """Of fragments of one layout, one of each role and instruction is enough."""
    notation = NOTATIONS[form].load()
    refused = Counter()
    one = {(each.instruction, each.role, each.dimensions, each.slots, each.digest): each for _, each in everything}
    for fragment in one.values():
        try:
            express(notation, fragment)
            said = False
        except RefusedError as error:
            assert str(error).startswith(f"{fragment}: ")
            said = True
        if fragment.instruction in ("mma", "mma.sp") and fragment.role in "ABCDE":
            assert said == REFUSED[form](fragment), fragment
            refused[said] += 1
    assert refused[False] > 40


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("cute", "lane 0 reg 3 slot 0 has cell 2056, but the digits of lane and element add up to 2568"),
        ("linear", "lane 0 reg 3 slot 0 has col 128, but the XOR of the bases of its bits is 160"),
        ("triton", "lane 0 reg 1 slot 0 holds another cell than row 8 col 0 of #ttg.dot_op<.*"),
        ("affine", "lane 0 reg 3 slot 0 has col 128, but the digits of lane and element add up to 160"),
        ("python", "lane 3 reg 1 slot 0 holds a cell that another slot holds too"),
    ],
)
def test_what_the_document_prints_wrong_is_refused_at_its_first_element(everything, form, words):
    printed = next(
        each for source, each in everything if source == "ptx-isa-9.1" and str(each) == "A of mma m16n8k256 b1"
    )
    with pytest.raises(RefusedError, match=f"^A of mma m16n8k256 b1: {words}$"):
        express(NOTATIONS[form].load(), printed)


def test_a_window_is_refused_at_its_first_element(everything):
    sparse = next(each for _, each in everything if each.instruction == "mma.sp" and each.role == "A")
    for form in ("cute", "linear", "affine", "python"):
        with pytest.raises(RefusedError, match="lane 0 reg 0 slot 0 can stand for any column from 0 to 3"):
            express(NOTATIONS[form].load(), sparse)


def test_names_are_unique_within_a_source(everything):
    named = Counter((source, identifier(each)) for source, each in everything)
    assert set(named.values()) == {1}


def test_a_fragment_without_rows_is_refused(sources):
    drawn = next(each for each in sources[lanemap.DEFAULT_SOURCE].fragments if each.elements is None)
    with pytest.raises(RefusedError, match=f"{drawn} has no rows: it is figure-only"):
        express(NOTATIONS["cute"].load(), drawn)


SMALL = Fragment("mma", "m8n8k4", "f64", "C", 2, 1, None)


@st.composite
def corrupted(draw):
    """A small fragment of which elements may be wrong, out of range, of another product, missing or double."""
    rows = [[lane, reg, lane // 4, lane % 4 * 2 + reg, 0, 1] for lane in range(32) for reg in (0, 1)]
    number = st.integers(-2, 9)
    cell = st.tuples(number, number, st.integers(0, 3), st.integers(0, 4))
    for place, wrong in draw(st.dictionaries(st.integers(0, 63), cell, max_size=3)).items():
        rows[place][2:] = wrong
    rows = rows[draw(st.sampled_from([0, 0, 0, 1])) :] + rows[: draw(st.sampled_from([0, 0, 0, 1]))]
    lane, reg, row, col, window, computation = np.array(rows).T
    places = {"lane": lane, "reg": reg, "slot": np.zeros_like(lane)}
    cells = {"row": row, "col": col, "col_last": col + window, "computation": computation}
    return Fragment("mma", "m8n8k4", "f64", "C", 2, 1, elements(places | cells))


@forms
def test_the_128_threads_of_a_warpgroup_are_expressed(form):
    thread, i = np.indices((128, 8))
    row, col = thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8, thread % 4 * 2 + i % 2 + i // 4 * 8
    fragment = Fragment("wgmma", "m64n16k16", "f32", "D", 8, 1, by_rule(1, row, col))
    express(NOTATIONS[form].load(), fragment)


@forms
def test_matrices_of_which_every_lane_holds_some_are_expressed_or_refused(form):
    """Four matrices, of each of which a lane holds a register, as ldmatrix.x4 loads them."""
    lane, i = np.indices((32, 8))
    rows = by_rule(2, lane // 4, lane % 4 * 2 + i % 2, computation=i // 2 + 1)
    fragment = Fragment("ldmatrix", "m8n8", "b16", "r", 4, 2, rows, qualifiers="x4")
    if form == "triton":
        with pytest.raises(RefusedError, match="several products or matrices"):
            express(NOTATIONS[form].load(), fragment)
    else:
        assert "x4" in express(NOTATIONS[form].load(), fragment) or form in ("ptx-formula", "tikz")


@st.composite
def supplied(draw):
    """A of m16n8k16 f16, of which some lanes or all hold some elements or all."""
    lane, i = np.indices((32, 8))
    rows = by_rule(2, lane // 4 + i // 2 % 2 * 8, lane % 4 * 2 + i % 2 + i // 4 * 8)
    lanes, those = (draw(st.just(range(count)) | st.sets(st.integers(0, count - 1), min_size=1)) for count in (32, 8))
    held = np.isin(rows["lane"], list(lanes)) & np.isin(rows["reg"] * 2 + rows["slot"], list(those))
    return Fragment("mma", "m16n8k16", "f16", "A", 4, 2, rows[held])


@forms
@given(fragment=supplied())
def test_what_some_lanes_hold_in_some_elements_is_expressed_or_refused(form, fragment):
    """C++ refuses none of it, and a formula only what no bits of the numbers tell."""
    try:
        express(NOTATIONS[form].load(), fragment)
    except RefusedError as error:
        why = r"no bits of (i|%laneid) tell which of them hold something" if form == "ptx-formula" else "holds nothing"
        assert form not in ("cpp", "tikz")
        assert re.search(why, str(error))


@forms
@settings(max_examples=60)
@given(fragment=corrupted())
def test_a_corrupted_fragment_is_expressed_or_refused_in_one_line(form, fragment):
    try:
        express(NOTATIONS[form].load(), fragment)
    except RefusedError as error:
        assert "\n" not in str(error)


def test_a_text_that_reads_back_otherwise_is_refused(everything):
    fragment = next(each for _, each in everything if each.role == "A")
    right = NOTATIONS["python"].load()

    def read(text, fragment, change):
        return change(right.read(text, fragment))

    for change, words in {
        "another cell": (lambda rows: np.roll(rows, 1), "lane 0 reg 0 slot 0 reads back as another cell"),
        "fewer elements": (lambda rows: rows[1:], "elements read back"),
    }.values():
        with pytest.raises(RefusedError, match=words):
            express(replace(right, read=partial(read, change=change)), fragment)


def test_the_readme_lists_every_notation():
    rows = [f"| `{each.name}` | {each.writes} | {each.audience} |" for each in NOTATIONS.values()]
    assert "\n".join(rows) in (Path(lanemap.__file__).parent / "README.md").read_text()
