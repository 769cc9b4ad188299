"""What a wrong layout does to a product, against the layouts' own meaning, and against what cannot change it."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lanemap
from lanemap.capture.recording import read
from lanemap.db.compare.difference import wrong_results
from lanemap.db.layout.fragment import Fragment


def changed(fragment, **columns):
    """The fragment with other numbers in some columns of its elements."""
    table = fragment.elements.copy()
    for name, values in columns.items():
        table[name] = values
    names = ("instruction", "shape", "type", "role", "registers", "slots", "major", "selector", "qualifiers")
    return Fragment(**{name: getattr(fragment, name) for name in names}, elements=table)


@pytest.fixture(scope="module")
def of(fragments):
    """The document's fragment of an operand."""
    by_key = {
        (fragment.instruction, fragment.shape, fragment.type, fragment.role, fragment.major): fragment
        for fragment in fragments
    }
    return lambda *key: by_key[key]


@pytest.fixture(scope="module")
def a(of):
    return of("mma", "m16n8k16", "f16", "A", "row")


@pytest.mark.slow
def test_a_layout_does_nothing_to_its_own_products(fragments):
    for fragment in fragments:
        assert not wrong_results(fragment, fragment).any(), fragment


@pytest.mark.parametrize(("role", "major", "axis"), [("A", "row", 1), ("B", "col", 2)])
def test_a_wrong_cell_spoils_its_row_of_d_or_its_column(of, role, major, axis):
    true = of("mma", "m16n8k16", "f16", role, major)
    for place in range(0, len(true.elements), 37):
        cells = true.elements["row" if role == "A" else "col"]
        claimed = changed(true, row=np.where(np.arange(len(cells)) == place, 99, true.elements["row"]))
        wrong = wrong_results(claimed, true)
        spoilt = np.flatnonzero(wrong.any(axis=(0, 3 - axis)))
        assert spoilt.tolist() == [cells[place]]
        assert wrong.sum() == wrong.size // wrong.shape[axis]


def test_rows_that_are_exchanged_spoil_these_rows_only(a):
    row = a.elements["row"]
    claimed = changed(a, row=np.select([row == 3, row == 12], [12, 3], row))
    assert np.flatnonzero(wrong_results(claimed, a).all(axis=(0, 2))).tolist() == [3, 12]
    assert wrong_results(claimed, a).sum() == 16


def test_it_is_a_product(a, of):
    """Multiplied here by going through every slot: what is wrong is what differs."""
    column = a.elements["col"]
    claimed = changed(a, col=np.where((column < 2) & (a.elements["row"] < 5), 1 - column, column))
    b = of("mma", "m16n8k16", "f16", "B", "col").elements
    filled = np.arange(256).reshape(16, 16) * 7 % 251
    factor = np.zeros((16, 8), int)
    factor[b["row"], b["col"]] = np.arange(128) * 11 % 127
    seen = np.zeros((16, 16), int)
    for mine, real in zip(claimed.elements.tolist(), a.elements.tolist(), strict=True):
        seen[real[3], real[4]] = filled[mine[3], mine[4]]
    assert (wrong_results(claimed, a)[0] == (seen @ factor != filled @ factor)).all()


def test_the_accumulator_is_wrong_where_it_is_elsewhere(of):
    for role in "CD":
        true = of("mma", "m16n8k16", "f32", role, None)
        col = true.elements["col"]
        claimed = changed(true, col=np.select([col == 0, col == 5], [5, 0], col))
        wrong = wrong_results(claimed, true)
        assert np.flatnonzero(wrong.all(axis=(0, 1))).tolist() == [0, 5]
        assert wrong.sum() == 32


def test_a_cell_that_no_lane_is_said_to_hold_is_wrong(of):
    """Of D, which is read: as it is of A and C, which are written."""
    for role, major in (("C", None), ("D", None), ("A", "row")):
        true = of("mma", "m16n8k16", "f16", role, major)
        claimed = changed(true)
        claimed.__dict__["_stored"] = true.elements[1:]
        wrong = wrong_results(claimed, true)
        assert wrong[0, 0].all() if role == "A" else wrong[0, 0, 0]
        assert wrong.sum() == (8 if role == "A" else 1)


@pytest.mark.parametrize(("role", "count"), [("C", 1), ("D", 2)])
def test_a_cell_that_is_claimed_twice(of, role, count):
    """C is written: the other cell gets its value. D is read: it has two values, and the other cell none."""
    true = of("mma", "m16n8k16", "f32", role, None)
    second = (true.elements["row"] == 0) & (true.elements["col"] == 1)
    claimed = changed(true, **{name: np.where(second, 0, true.elements[name]) for name in ("col", "col_last")})
    wrong = wrong_results(claimed, true)
    assert wrong[0, 0, 1]
    assert wrong.sum() == count


def test_each_of_four_products_is_by_itself(of):
    true = of("mma", "m8n8k4", "f16", "A", "row")
    third = true.elements["computation"] == 3
    claimed = changed(true, col=np.where(third, 3 - true.elements["col"], true.elements["col"]))
    assert wrong_results(claimed, true).all(axis=(1, 2)).tolist() == [False, False, True, False]
    assert not wrong_results(claimed, true)[[0, 1, 3]].any()


@pytest.mark.parametrize(("role", "name", "axis"), [("SFA", "row", 1), ("SFB", "col", 2)])
def test_a_scale_of_another_row_spoils_its_row_or_its_column(fragments, role, name, axis):
    true = next(fragment for fragment in fragments if fragment.role == role and fragment.instruction == "mma")
    values = true.elements[name]
    other = np.select([values == 2, values == 5], [5, 2], values)
    claimed = changed(true, **{name: other}, **({"col_last": other} if name == "col" else {}))
    wrong = wrong_results(claimed, true)
    assert np.flatnonzero(wrong.any(axis=(0, 3 - axis))).tolist() == [2, 5]


def test_metadata_for_other_rows_chooses_other_columns():
    measured = read(Path(lanemap.__file__).parent / "capture" / "recordings" / "h200-sm_90a.parquet").fragments
    named = ("mma.sp", "m16n8k16", "f16", "E")
    e = next(
        fragment
        for fragment in measured
        if (fragment.instruction, fragment.shape, fragment.type, fragment.role) == named
    )
    row = e.elements["row"]
    claimed = changed(e, row=np.select([row == 2, row == 9], [9, 2], row))
    wrong = wrong_results(claimed, e)
    assert np.flatnonzero(wrong.any(axis=(0, 2))).tolist() == [2, 9]


def test_of_a_move_the_cells_that_arrive_elsewhere(of):
    true = of("movmatrix", "m8n8", "b16", "D", None)
    claimed = changed(true, row=true.elements["col"], col=true.elements["row"], col_last=true.elements["row"])
    wrong = wrong_results(claimed, true)[0]
    assert (wrong == ~np.eye(8, dtype=bool)).all()


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(16)))
def test_a_renumbering_of_k_in_a_alone_is_wrong_where_it_moves(a, order):
    claimed = changed(a, col=np.array(order)[a.elements["col"]])
    assert wrong_results(claimed, a).all() == (list(order) != list(range(16)))
    both = product(range(16), range(8))
    assert wrong_results(claimed, a).sum() in (0, len(list(both)))
