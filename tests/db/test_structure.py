"""The structural checks: quiet on every good layout, and never on a corrupted one."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemap.db.isa.instructions import PARTIAL_ROLES
from lanemap.db.layout.fragment import Fragment, by_rule
from lanemap.db.layout.structure import check, coverage
from lanemap.db.text import spans

from ..modes import examples
from ..shipped import corrected, printed

GOOD = corrected()
#: Those that fill their registers; of a tile in memory an instruction may read a part.
WHOLE = [fragment for fragment in GOOD if fragment.role not in PARTIAL_ROLES and fragment.threads > 1]
DENSE = [fragment for fragment in GOOD if fragment.instruction == "mma" and fragment.role not in PARTIAL_ROLES]


def corrupted(fragment, index, **values):
    table = fragment.elements.copy()
    for name, value in values.items():
        table[name][index] = value
    return replace(fragment, elements=table)


@given(st.sampled_from(DENSE), st.data())
@examples(300)
def test_any_one_element_elsewhere_is_found(fragment, data):
    rows, cols = fragment.dimensions
    index = data.draw(st.integers(0, len(fragment.elements) - 1))
    row, col = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, cols - 1))
    broken = corrupted(fragment, index, row=row, col=col, col_last=col)
    moved = (row, col) != tuple(fragment.elements[["row", "col"]][index])
    assert bool(check(broken)) == moved


@given(st.sampled_from(GOOD), st.data())
@examples(300)
def test_any_value_out_of_range_is_found(fragment, data):
    rows, cols = fragment.dimensions
    limits = {"lane": fragment.threads, "reg": fragment.registers, "slot": fragment.slots}
    limits |= {"row": rows, "col": cols, "col_last": cols}
    name = data.draw(st.sampled_from(sorted(limits)))
    value = data.draw(st.one_of(st.integers(-300, -1), st.integers(limits[name], 30_000)))
    found = check(corrupted(fragment, data.draw(st.integers(0, len(fragment.elements) - 1)), **{name: value}))
    assert f"{name} {value} is outside 0..{limits[name] - 1}" in found


@given(st.sampled_from(WHOLE), st.data())
@settings(max_examples=100)
def test_a_slot_left_out_or_used_twice_is_found(fragment, data):
    one, other = data.draw(st.lists(st.integers(0, len(fragment.elements) - 1), min_size=2, max_size=2, unique=True))
    left_out = replace(fragment, elements=np.delete(fragment.elements, one))
    assert any("1 slot holds nothing" in words for words in check(left_out))
    table = fragment.elements.copy()
    for name in ("lane", "reg", "slot"):
        table[name][one] = table[name][other]
    assert any("1 slot holds several cells" in words for words in check(replace(fragment, elements=table)))


@given(st.sampled_from(GOOD), st.data())
@settings(max_examples=100)
def test_a_computation_that_there_is_not_is_found(fragment, data):
    last = max(fragment.elements["computation"])
    value = data.draw(st.one_of(st.integers(-9, 0), st.integers(last + 1, 9)))
    assert f"computation {value} is outside 1..{last}" in check(corrupted(fragment, slice(None), computation=value))


@given(st.sampled_from(DENSE), st.data())
@settings(max_examples=100)
def test_a_window_in_a_dense_operand_is_found(fragment, data):
    cols = fragment.dimensions[1]
    index = data.draw(st.one_of(st.just(slice(None)), st.integers(0, len(fragment.elements) - 1)))
    broken = corrupted(fragment, index, col=0, col_last=cols - 1)
    assert any("which only A and E of mma.sp can" in words for words in check(broken))


SPARSE = [fragment for fragment in GOOD if fragment.instruction == "mma.sp" and fragment.role == "A"]


@given(st.sampled_from(SPARSE), st.data())
@examples(200)
def test_a_window_that_is_off_in_every_row_alike_is_found(fragment, data):
    """One slot's window moved or resized wherever it stands: cells of a column agree, those of the chunks do not."""
    table = fragment.elements
    at = table[data.draw(st.integers(0, len(table) - 1))]
    alike = (table["col"] == at["col"]) & (table["slot"] == at["slot"])
    first = data.draw(st.integers(0, int(at["col_last"])))
    last = data.draw(st.integers(first, fragment.dimensions[1] - 1))
    broken = corrupted(fragment, alike, col=first, col_last=last)
    assert bool(check(broken)) == ((first, last) != (at["col"], at["col_last"]))


def test_a_finding_names_the_cells_as_a_person_would():
    b1 = next(fragment for fragment in printed() if fragment.shape == "m16n8k256" and fragment.role == "A")
    assert check(b1) == [
        "256 cells are held too often: rows 8-15 cols 128-159",
        "256 cells are never held: rows 8-15 cols 0-31",
    ]


def test_a_computation_of_its_own_is_named():
    quads = next(
        fragment for fragment in GOOD if fragment.shape == "m8n8k4" and fragment.type == "f16" and fragment.role == "C"
    )
    assert check(corrupted(quads, 0, row=1))[0].startswith("computation 1: 1 cell is held too often: rows 1 cols 0")


@given(st.sampled_from(GOOD))
def test_coverage_counts_what_a_loop_counts(fragment):
    rows, cols = fragment.dimensions
    counted = np.zeros((rows, cols), int)
    for element in fragment.elements:
        counted[element["row"], element["col"] : element["col_last"] + 1] += 1
    assert (coverage(fragment.elements, rows, cols) == counted).all()


@given(st.sets(st.integers(0, 40)))
def test_spans_name_just_the_numbers(numbers):
    named = set()
    for run in filter(None, spans(numbers).split(", ")):
        first, _, last = run.partition("-")
        named |= set(range(int(first), int(last or first) + 1))
    assert named == numbers


@pytest.mark.parametrize(("shape", "role"), [("m16n8", "A"), ("16816", "B"), ("m16n8k16 ", "C"), ("", "D")])
def test_a_shape_that_is_none_is_refused(shape, role):
    from lanemap import LanemapError
    from lanemap.db.isa.instructions import dimensions

    with pytest.raises(LanemapError, match="write m16n8k16"):
        dimensions(shape, role)


@given(
    st.sampled_from([fragment for fragment in GOOD if fragment.role == "A" and fragment.instruction == "mma.sp"]),
    st.data(),
)
@settings(max_examples=100)
def test_only_the_cells_that_differ_from_most_are_named(fragment, data):
    """A window in the place of another one: its cells are held too often, those of the other one too rarely."""
    table = fragment.elements
    one, other = data.draw(st.lists(st.integers(0, len(table) - 1), min_size=2, max_size=2))
    cells = {name: table[name][other] for name in ("row", "col", "col_last")}
    same = all(table[name][one] == value for name, value in cells.items())
    found = check(corrupted(fragment, one, **cells))
    width = int(table["col_last"][one] - table["col"][one]) + 1
    named = {words.partition(":")[0] for words in found}
    often, seldom = f"{width} cells are held too often", rf"{width} cells are (held too rarely|never held)"
    assert named == set() if same else often in named and len(named) == 2
    assert same or any(re.fullmatch(seldom, words) for words in named)
    lost = check(replace(fragment, elements=np.delete(table, one)))
    assert [words.partition(":")[0] for words in lost if re.fullmatch(seldom, words.partition(":")[0])]
    assert not any("too often" in words for words in lost)


def test_one_window_across_two_chunks_is_named_though_all_others_are_right():
    fragment = next(fragment for fragment in GOOD if fragment.windowed and fragment.chunk == 4)
    first = fragment.elements[0]
    found = check(corrupted(fragment, 0, col=first["col"] + 2, col_last=first["col_last"] + 2))
    assert "1 windows of columns lie across two chunks" in found


@pytest.mark.parametrize("fragment", GOOD[::9], ids=str)
def test_a_fragment_without_any_element_holds_none_of_its_cells(fragment):
    rows, cols = fragment.dimensions
    found = check(replace(fragment, elements=fragment.elements[:0]))
    assert any(f"{rows * cols} cells are never held" in words for words in found)


def test_every_element_of_a_wmma_operand_is_held_as_often_as_every_other():
    """A of f16 has 512 slots for 256 elements (9.7.14.4.1)."""
    lane, i = np.indices((32, 16))
    cell = (16 * lane + i) % 256
    whole = Fragment("wmma", "m16n16k16", "f16", "A", 8, 2, by_rule(2, cell // 16, cell % 16), qualifiers="row")
    assert check(whole) == []
    assert check(corrupted(whole, 0, row=5)) == [
        "1 cell is held too often: rows 5 cols 0",
        "1 cell is held too rarely: rows 0 cols 0",
    ]


def test_an_instruction_that_nobody_knows_has_the_lanes_and_the_products_of_its_rows():
    """Two of AMD's of 64 lanes: 32 x 32 x 8, and 4 x 4 x 4 in sixteen blocks. Nothing of them is found wrong."""
    lane, i = np.indices((64, 4))
    whole = Fragment("v_mfma_f32_32x32x8_f16", "m32n32k8", "f16", "A", 2, 2, by_rule(2, lane % 32, lane // 32 * 4 + i))
    blocks = Fragment(
        *("v_mfma_f32_4x4x4_16b_f16", "m4n4k4", "f16", "A", 2, 2), by_rule(2, lane % 4, i, computation=lane // 4 + 1)
    )
    for fragment, computations in ((whole, 1), (blocks, 16)):
        assert (fragment.threads, fragment.computations) == (64, computations)
        assert check(fragment) == []
        assert replace(fragment, elements=fragment.elements[:128]).threads == 64
        assert any(
            "64 slots hold nothing" in words for words in check(replace(fragment, elements=fragment.elements[:-64]))
        )
    # Whatever the group of its vendor: the next power of two of the lanes of its rows.
    table = whole.elements[whole.elements["lane"] < 40]
    assert [Fragment("x", "m32n32k8", "f16", "A", 2, 2, table[:count]).threads for count in (4, 128, 129)] == [
        1,
        32,
        64,
    ]
    assert Fragment("x", "m32n32k8", "f16", "A", 2, 2, None).threads == 32
