"""Closed forms in PTX's notation: short, readable, and what PTX's own evaluator makes of them."""

import re
from dataclasses import replace

import numpy as np
import pytest

from lanemap.db.layout.formula import evaluate_at, parse
from lanemap.db.layout.fragment import Fragment, elements
from lanemap.db.render.notation import express
from lanemap.db.render.notation.table import RefusedError

from ..shipped import CORRECTED
from .readers import READERS


def formula(everything, source, *key):
    found = [fragment for name, fragment in everything if name == source and str(fragment) == " ".join(key)]
    return express("ptx-formula", found[0]).splitlines()


def test_a_dense_layout_is_two_sums_of_the_fields_that_ptx_names(everything):
    assert formula(everything, CORRECTED, "A of mma m16n8k16 f16") == [
        "groupID = %laneid >> 2",
        "threadID_in_group = %laneid % 4",
        "row = groupID + ((i >> 1) & 0x1) * 8",
        "col = threadID_in_group * 2 + (i & 0x1) + (i >> 2) * 8",
    ]


def test_what_is_no_sum_comes_in_cases(everything):
    """The slip of the document: its own formula comes out again."""
    assert formula(everything, "ptx-isa-9.4", "A of mma m16n8k256 b1")[-2:] == [
        "col = threadID_in_group * 32 + i                 for ai where i < 64",
        "      threadID_in_group * 32 + (i & 0x1F) + 128  for ai where i >= 64",
    ]


def test_measured_metadata_gets_the_formula_that_the_document_only_draws(everything):
    assert formula(everything, "h200-sm_90a", "E of mma.sp m16n8k32 f16 selector 1") == [
        "groupID = %laneid >> 2",
        "row = groupID + (i & 0x8)  if (%laneid & 0x2) = 2",
        "col = [firstcol ... lastcol]",
        "firstcol = (%laneid & 0x1) * 16 + (i & 0x1) + ((i >> 1) & 0x3) * 4",
        "lastcol = firstcol + 2",
    ]


def test_measured_b_of_a_sparse_shape_gets_the_formula_that_the_document_only_draws(everything):
    assert formula(everything, "h200-sm_90a", "B of mma.sp m16n8k64 s8") == [
        "groupID = %laneid >> 2",
        "threadID_in_group = %laneid % 4",
        "row = threadID_in_group * 4 + (i & 0x3) + (i >> 2) * 16",
        "col = groupID",
    ]


def test_several_products_have_a_computation_too(everything):
    assert formula(everything, CORRECTED, "C of mma m8n8k4 f32") == [
        "row = (%laneid & 0x1) + (%laneid >> 4) * 4 + (i & 0x2)",
        "col = (%laneid & 0x2) + (i & 0x1) + (i & 0x4)",
        "computation = ((%laneid >> 2) & 0x3) + 1",
    ]


@pytest.mark.parametrize(
    ("words", "definition", "spelt"),
    [
        ("m64n8k16 f32 D", "thread = %tid.x % 128  // in a block of one dimension", "thread"),
        ("tcgen05.mma m64n64k16 f32 D ws", None, "lane"),
        ("tcgen05.mma m128n16k16 f32 D cta_group::2", None, "lane"),
        ("tcgen05.ld 16x256b x1 r", None, "%laneid"),
        ("m16n8k16 f16 A", None, "%laneid"),
    ],
)
def test_a_thread_is_named_as_its_group_names_it(database, words, definition, spelt):
    """``%laneid`` ends at 31: the thread of a warpgroup is of ``%tid``, and a lane of Tensor Memory is neither."""
    (fragment,) = database.operand(words)
    lines = express("ptx-formula", fragment).splitlines()
    assert lines[:1] == [definition] or definition is None
    assert {*re.findall(r"%?\b(?:laneid|lane|thread|tid)\b", "\n".join(lines[definition is not None :]))} == {spelt}
    assert np.array_equal(READERS["ptx-formula"]("\n".join(lines), fragment), fragment.elements)


def test_threads_of_the_warps_of_a_tile_are_those_of_their_block(database):
    (fragment,) = database.operand("m16n8k16 f16 A", tile="m32n32k16", warps="2x2")
    text = express("ptx-formula", fragment)
    assert text.startswith("thread = %tid.x % 128  // in a block of one dimension\n")
    assert np.array_equal(READERS["ptx-formula"](text, fragment), fragment.elements)


def test_what_is_called_lane_is_the_lane_where_a_formula_does_not_define_it():
    lanes, element = np.arange(8), np.zeros(8, int)
    for text, expected in ("row = lane\ncol = 0", lanes), ("lane = %laneid % 4\nrow = lane\ncol = 0", lanes % 4):
        assert np.array_equal(evaluate_at(parse(text), "a", lanes, element).row, expected)


@pytest.mark.slow
def test_ptx_evaluates_every_form_of_a_whole_fragment_as_the_catalogue_does(everything):
    letters = {"A": "a", "B": "b", "C": "c", "D": "c"}
    for _, fragment in everything:
        if fragment.role not in letters or fragment.memory:
            continue
        values = fragment.registers * fragment.slots
        places = np.indices((fragment.threads, values)).reshape(2, -1)
        cells = evaluate_at(parse(express("ptx-formula", fragment)), letters[fragment.role], *places)
        for name, said in cells._asdict().items():
            assert np.array_equal(said.ravel(), fragment.elements[name])


def made(registers, slots, row, col):
    lane, element = np.indices((32, registers * slots))
    places = {"lane": lane, "reg": element // slots, "slot": element % slots}
    cells = {"row": row(lane, element), "col": col(lane, element), "col_last": col(lane, element)}
    columns = {name: np.broadcast_to(column, lane.shape).ravel() for name, column in (places | cells).items()}
    columns["computation"] = np.ones(lane.size, np.int64)
    return Fragment("mma", "m16n8k64", "s8", "A", registers, slots, elements(columns))


@pytest.mark.parametrize(
    ("fragment", "expected"),
    [
        (made(1, 4, lambda lane, _: lane // 8, lambda lane, i: np.where(lane < 16, i, 3 - i)), "if %laneid < 16"),
        (made(3, 1, lambda lane, _: lane // 4, lambda lane, i: lane % 4 + i * 4), "row = groupID"),
        (made(6, 2, lambda _, i: i // 2 % 3, lambda _, i: i % 2 + i // 6 * 2), "row = i / 2 % 3"),
        (made(1, 2, lambda lane, _: lane // 4, lambda lane, i: np.where(i, lane // 4, lane % 4)), "for a1"),
        (made(2, 4, lambda _, i: 7 - i, lambda lane, _: lane), "row = i * -1 + 7"),
    ],
    ids=["by lane", "three registers", "no power of two", "by element", "descending"],
)
def test_layouts_that_nobody_has_yet(fragment, expected):
    assert expected in express("ptx-formula", fragment)


def test_cases_are_of_the_elements_that_lanes_hold_and_of_no_other():
    whole = made(1, 4, lambda lane, i: np.where(i % 2, lane // 4, lane % 4), lambda lane, _: lane)
    held = replace(whole, elements=whole.elements[whole.elements["slot"] >= 2])
    assert " threadID_in_group  for ai where i = 2 && (i & 0x2) = 2" in express("ptx-formula", held)


def test_a_layout_without_rule_is_refused_where_a_sum_first_fails():
    order = np.random.default_rng(1).permutation(64)
    fragment = made(2, 4, lambda lane, _: lane % 16, lambda lane, i: order[lane // 4 * 8 + i])
    with pytest.raises(RefusedError, match=r"lane \d+ reg \d slot \d has col \d+: a formula would need more than 16"):
        express("ptx-formula", fragment)
