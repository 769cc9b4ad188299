"""The formulas of a layout, both ways, against every element; and where there is none."""

from dataclasses import replace

import numpy as np
import pytest

from lanemap import Query
from lanemap.db.render.formulas import in_cases, to_cell, to_slot

from .test_digits import valued


@pytest.fixture(scope="module")
def layouts(database):
    """A fragment of each layout that look-ups show; in shared memory those of the least and of the largest N."""
    every = [each for each in database.matching(Query(source="best")) if each.has_rows]
    ends = {}
    for each in sorted(every, key=lambda each: each.dimensions):
        of = each.key._replace(shape="", type=""), each.slots, each.dimensions[each.role == "B"]
        ends.setdefault(of if each.tile else each.digest, []).append(each)
    return list({each.digest: each for alike in ends.values() for each in (alike[0], alike[-1])}.values())


def agrees(fragment, lines):
    """Whether formulas give of each element what the table has."""
    columns = {name: fragment.table[name].astype(int) for name in fragment.table.dtype.names}
    columns["word"] = columns["reg"]
    return all(
        (columns[name] == valued(text, columns)).all() for name, _, text in (line.partition(" = ") for line in lines)
    )


@pytest.mark.parametrize("part", [pytest.param(at, marks=[pytest.mark.slow] * (at > 0)) for at in range(4)])
def test_every_formula_is_true_of_every_element(layouts, part):
    assert len(layouts) > 100
    for fragment in layouts[part::4]:
        for lines in (to_cell(fragment), to_slot(fragment)):
            assert agrees(fragment, lines), fragment


@pytest.mark.slow
def test_what_is_dense_has_both(layouts):
    """Of what fills lanes and registers, and of metadata, there is one from a slot; only windows have none back."""
    for fragment in layouts:
        places = fragment.threads * fragment.registers * fragment.slots
        assert (
            in_cases(fragment)
            or fragment.role == "t"
            or getattr(fragment.tile, "narrow", 0)
            or (fragment.role != "E" and len(fragment.table) < places)
        ), fragment
        held = [*zip(*(fragment.table[name].tolist() for name in ("computation", "row", "col")), strict=True)]
        assert bool(to_slot(fragment)) == (not fragment.windowed and len({*held}) == len(held)), fragment


def test_one_wrong_element_is_no_formula_or_another_one(layouts):
    """With two cells exchanged, no formula of the right layout is said of it."""
    for fragment in layouts[::15]:
        table = fragment.elements.copy()
        one, other = 0, len(table) // 2
        for name in ("row", "col", "col_last"):
            table[name][[one, other]] = table[name][[other, one]]
        wrong = replace(fragment, elements=table)
        if np.array_equal(table, fragment.elements):
            continue
        for lines in (to_cell(wrong), to_slot(wrong)):
            assert agrees(wrong, lines)
        assert to_cell(wrong) != to_cell(fragment) or not to_cell(wrong)


def test_a_swizzled_word_is_an_exclusive_or_of_sums(run):
    shown = run("show", *"wgmma m64n128k16 f16 B 128B.K".split()).out
    assert "    word = (row // 2 + col * 32) ^ col % 8 * 4\n    slot = row % 2\n" in shown


@pytest.mark.parametrize(
    ("words", "canonical"),
    [
        ("wgmma m64n64k16 f16 B 128B.K", "Swizzle<3,4,3> o ((8,8),(64,1)):((64,512),(1,512))"),
        (
            "wgmma.sp m64n64k64 e4m3 A 64B.K",
            "// k counts what is stored, 2 of 4 columns\n    Swizzle<2,4,3> o ((8,8),(64,1)):((64,512),(1,512))",
        ),
    ],
)
def test_what_is_measured_in_swizzled_memory_has_the_canonical_layout(run, words, canonical):
    assert f"\nsource:   h200-sm_90a\n\n    {canonical}\n" in run("show", *words.split(), "--source", "h200-sm_90a").out


def test_a_measured_operand_shows_both_ways_and_marks_are_explained(run):
    shown = run("show", *"wgmma m64n8k16 f16 D".split()).out
    assert "    row = lane // 4 % 8 + lane // 32 * 16 + reg * 8\n    col = lane % 4 * 2 + slot\n" in shown
    assert "    lane = row % 8 * 4 + row // 16 * 32 + col // 2\n    reg = row // 8 % 2\n    slot = col % 2\n" in shown
    assert "slots:    0 is the low half of a register, 1 the high\n" in shown
    shown = run("show", *"mma.sp m16n8k32 f16 E --selector 1".split()).out
    assert "    row = groupID + (i & 0x8)  if (%laneid & 0x2) = 2\n    col = [firstcol ... lastcol]\n" in shown
    assert "\n0|1: either slot may hold the cell" in run("show", *"mma.sp m16n8k32 f16 A".split()).out
    assert "\n+: each of these slots holds the cell." in run("show", *"wmma m16n16k16 f16 A".split()).out
    scales = run("show", *"m16n8k64.scale_vec::2X.byte_id::0.thread_id::0 ue8m0 SFA".split()).out
    assert scales.endswith("\nS counts the blocks along K, each of which has a scale of its own.\n")
