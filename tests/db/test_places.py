"""``find`` and ``at`` of fragments, against a search through all elements, for every coordinate there is."""

from collections import defaultdict
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemap import LanemapError
from lanemap.db.errors import OutsideError
from lanemap.db.layout.fragment import Element, Fragment, address_lanes, elements
from lanemap.db.layout.places import MatrixCell, RegisterPlace

from ..modes import SOME_OR_ALL
from ..shipped import recorded


def families(sources):
    """Every distinct layout of each operand of each instruction, but for those that repeat others many times."""
    kept = {}
    for fragment in [*sources["ptx-isa-9.4+errata"].fragments, *recorded().fragments]:
        if fragment.has_rows and len(fragment.elements) <= 512:
            kept.setdefault((fragment.instruction, fragment.role, fragment.digest, *fragment.dimensions), fragment)
    return list(kept.values())


def by_hand(fragment):
    """The cell of each place, the places of each cell, and of each cell with its computation, in lists."""
    at, find, of_computation = {}, defaultdict(list), defaultdict(list)
    for element in map(Element._make, fragment.elements.tolist()):
        if not all(value in fragment.ranges[name] for name, value in element._asdict().items()):
            continue
        at.setdefault(element[:3], element[3:])
        for col in range(element.col, element.col_last + 1):
            find[element.row, col].append(element[:3])
            of_computation[element.row, col, element.computation].append(element[:3])
    return at, find, of_computation


def listed(found, count):
    """For each coordinate a list of tuples, without what is masked. ``count``: how many coordinates there are."""
    columns = [np.ma.asarray(column).reshape(count, -1).tolist() for column in found]
    return [[one for one in zip(*several, strict=True) if None not in one] for several in zip(*columns, strict=True)]


def check(fragment):
    """Each coordinate in arrays, and the first few by themselves."""
    ranges = fragment.ranges
    at, find, of_computation = by_hand(fragment)
    places = list(product(*(ranges[name] for name in RegisterPlace._fields)))
    found = fragment.at(*np.array(places).T)
    assert listed(found, len(places)) == [[at[place]] if place in at else [] for place in places]
    cells = list(product(ranges["row"], ranges["col"]))
    assert listed(fragment.find(*np.array(cells).T), len(cells)) == [find[cell] for cell in cells]
    every_cell = list(product(*(ranges[name] for name in ("row", "col", "computation"))))
    found = fragment.find(*np.array(every_cell).T[:2], computation=np.array(every_cell).T[2])
    assert listed(found, len(every_cell)) == [of_computation[cell] for cell in every_cell]
    for place in places[:: max(1, len(places) // 20)]:
        assert fragment.at(*place) == at.get(place, (None,) * 4)
    for cell in cells[:: max(1, len(cells) // 20)]:
        found = fragment.find(*cell)
        assert listed(found, 1)[0] == find[cell]
        assert all(column is None or isinstance(column, int | np.ndarray) for column in found)


@SOME_OR_ALL
def test_every_coordinate_of_every_family(sources, step):
    there = families(sources)
    assert {fragment.instruction for fragment in there} >= {
        "mma",
        "mma.sp",
        "wgmma",
        "wgmma.sp",
        "wmma",
        "ldmatrix",
        "movmatrix",
    }
    assert {fragment.role for fragment in there} >= {*"ABCDErp", "SFA", "SFB"}
    for fragment in there[::step]:
        check(fragment)


@st.composite
def fragments(draw):
    """Layouts right or wrong: places with nothing, two elements, or outside; cells in many places; windows."""
    field = {"lane": 2, "reg": 1, "slot": 2, "row": 9, "col": 5}
    table = {name: [] for name in (*field, "col_last", "computation")}
    for _ in range(draw(st.integers(0, 12))):
        for name, stop in field.items():
            table[name].append(draw(st.integers(0, stop)) + 31 * (name == "lane" and draw(st.booleans())))
        table["col_last"].append(table["col"][-1] + draw(st.sampled_from([0, 0, 1, 3])))
        table["computation"].append(draw(st.integers(1, 3)))
    columns = {name: np.array(values, int) for name, values in table.items()}
    name = draw(st.sampled_from(["mma", "v_mfma_f32_8x8x4_f16"]))
    return Fragment(name, "m8n8k4", "f64", "A", 2, 2, elements(columns))


@pytest.mark.slow
@given(fragments())
@settings(max_examples=100)
def test_layouts_that_are_wrong(fragment):
    check(fragment)


@pytest.fixture(scope="module")
def a(sources):
    return next(
        fragment for fragment in sources["ptx-isa-9.4"].fragments if fragment.key[:4] == ("mma", "m16n8k16", "f16", "A")
    )


def test_of_two_elements_in_one_place_the_first_is_found(a):
    table = a.elements.copy()
    for name in RegisterPlace._fields:
        table[name][1] = table[name][0]
    twice = replace(a, elements=table)
    assert (twice.at(0, 0, 0), twice.at(0, 0, 1)) == (MatrixCell(0, 0, 0, 1), MatrixCell(None, None, None, None))
    assert twice.find(0, 0) == twice.find(0, 1) == RegisterPlace(0, 0, 0)


def test_arguments_broadcast_and_keep_their_shape(a):
    assert a.find(9, 3) == RegisterPlace(5, 1, 1)
    assert a.at(5, 1, 1) == MatrixCell(9, 3, 3, 1)
    found = a.find(np.arange(16)[:, None], range(16))
    assert found.lane.shape == (16, 16)
    assert a.at(*found).row.tolist() == [[row] * 16 for row in range(16)]
    assert a.at([], 0, 0).row.tolist() == []
    assert a.at(np.uint8(5), 1, 1).row == 9


def test_what_is_masked_stays_masked():
    """The places of a cell lead back to it, also where some cells have fewer of them than others."""
    e = next(fragment for fragment in recorded().fragments if fragment.role == "E")
    rows, cols = np.indices(e.dimensions)
    lane, reg, slot = e.find(rows, cols)
    lane = np.ma.MaskedArray(lane, np.broadcast_to(rows[..., None] == 0, lane.shape))
    back = e.at(lane, reg, slot)
    assert back.row.mask[0].all()
    assert not back.row.mask[1:].all(axis=-1).any()
    assert (back.row == rows[..., None]).all()
    assert ((back.col <= cols[..., None]) & (cols[..., None] <= back.col_last)).all()
    assert e.find(np.ma.MaskedArray([0, 1], [True, False]), 0).lane.mask[:, 0].tolist() == [True, False]


def test_what_stands_behind_a_mask_may_be_any_number(a):
    found = a.find(np.ma.MaskedArray([-1, 9, 1 << 40], [True, False, True]), 3)
    assert found.lane.tolist() == [None, 5, None]


@pytest.mark.parametrize(
    ("row", "col"), [([1, 2], [1, 2, 3]), ([1, [2]], 0), (np.ma.MaskedArray([1, 2], True), np.ma.MaskedArray([0] * 3))]
)
def test_arrays_that_do_not_go_together_are_refused(a, row, col):
    with pytest.raises(LanemapError, match="^give integers for row, col, or arrays of them whose shapes"):
        a.find(row, col)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a: a.find(16, 0), "row 16 is outside A of mma m16n8k16 f16: it goes from 0 to 15"),
        (lambda a: a.find([0, 1], [0, -1]), "col -1 is outside .* 0 to 15"),
        (lambda a: a.find(0, 0, 2), "computation 2 is outside .*: there is only 1"),
        (lambda a: a.at(32, 0, 0), "lane 32 is outside .* 0 to 31"),
        (lambda a: a.at([[31], [99]], 0, 0), "lane 99 is outside"),
        (lambda a: a.at(0, 4, 0), "reg 4 is outside .* 0 to 3"),
        (lambda a: a.at(0, 0, np.array([2], np.uint64)), "slot 2 is outside .* 0 to 1"),
    ],
)
def test_what_is_outside_is_refused(a, call, words):
    with pytest.raises(OutsideError, match=f"^{words}"):
        call(a)


@pytest.mark.parametrize("wrong", [1.0, "1", [0.5], True, None, [None]])
def test_what_is_no_integer_is_refused(a, wrong):
    with pytest.raises(LanemapError, match="^row must be an integer or an array of them"):
        a.find(wrong, 0)


def test_a_fragment_without_rows_says_so(a):
    with pytest.raises(LanemapError, match="has no rows for A of mma m16n8k16 f16: figure-only"):
        replace(a, elements=None, status="figure-only", source="x").find(0, 0)


def test_the_address_of_each_register_is_that_of_its_row(sources):
    """Of every load and store of matrices: the lane whose address is that of the row and the matrix."""
    known = {
        fragment.key: fragment
        for fragment in sources["ptx-isa-9.4+errata"].fragments
        if fragment.role in "rp" and fragment.has_rows
    }
    moves = [(fragment, known.get(key._replace(role="p"))) for key, fragment in known.items() if key.role == "r"]
    moves = [(r, p) for r, p in moves if p]
    assert {r.instruction for r, _ in moves} == {"ldmatrix", "stmatrix"}
    for r, p in moves:
        given_by = {(element.row, element.computation): element.lane for element in p.records()}
        assert address_lanes(r, p).tolist() == [given_by[element.row, element.computation] for element in r.records()]


def test_a_number_that_16_bits_cannot_hold_is_refused():
    of = {"lane": [0], "reg": [0], "slot": [0], "col": [0]}
    assert elements(of | {"row": [32767]})["row"].tolist() == [32767]
    with pytest.raises(LanemapError, match="row 32768 is outside -32767..32767"):
        elements(of | {"row": [32768]})
