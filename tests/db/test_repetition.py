"""Which rows of a layout are stored, against all that it has."""

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemap.db.layout.fragment import by_element, by_field, element_type, first_columns, packed
from lanemap.db.store.repetition import extents, lenders, whole


def sorted_table(rows):
    return np.array(sorted(rows), element_type())


def taken(table, extent):
    """The elements that the view has: those that are stored, each time further on."""
    return {
        (lane, reg + n * extent.registers, slot, row, col + n * extent.width, last + n * extent.width, computation)
        for n in range(extent.times)
        for lane, reg, slot, row, col, last, computation in extent.within(table).tolist()
    }


def tile(lanes, rows, columns, times, slots):
    """Columns that are there several times, the last one of each time first."""
    apart = -(-columns * rows // slots)
    return [
        (lane, n * apart + place // slots, place % slots, lane * rows + row, n * columns + col, n * columns + col, 1)
        for lane in range(lanes)
        for n in range(times)
        for col in range(columns)
        for row in range(rows)
        for place in ((columns - 1 - col) * rows + row,)
    ]


@pytest.mark.slow
@given(st.integers(1, 3), st.integers(1, 100), st.integers(1, 2), st.integers(1, 8), st.integers(1, 64), st.data())
@settings(max_examples=50)
def test_what_is_stored_gives_all_elements(lanes, rows, slots, columns, times, data):
    every = tile(lanes, rows, columns, times, slots)
    if data.draw(st.booleans()):  # one element is elsewhere
        at = data.draw(st.integers(0, len(every) - 1))
        field = data.draw(st.integers(3, 6))
        every[at] = tuple(value + (n == field) for n, value in enumerate(every[at]))
    table = sorted_table(every)
    cols = data.draw(st.lists(st.integers(1, times * columns), max_size=3))
    tables = {"all": table} | {str(col): table[table["col"] < col] for col in cols}
    wholes = {digest: whole(each) for digest, each in tables.items()}
    families = dict.fromkeys(map(str, cols), "all") if data.draw(st.booleans()) else {}
    shared = lenders(tables, families, wholes)
    for digest, extent in extents(tables, shared, wholes).items():
        lender = tables[shared.get(digest, digest)]
        assert taken(lender, extent) == set(map(tuple, tables[digest].tolist())), digest
        registers, width = extent.registers * extent.times, extent.cols + (extent.times - 1) * extent.width
        assert min(extent.width, 0) <= table["col"].min(), digest
        part = lender[(lender["reg"] < registers) & (lender["col"] < width)]
        assert part.tobytes() == tables[digest].tobytes()


@pytest.mark.parametrize(("registers", "cols"), [(65, 16), (127, 16), (128, 16), (192, 20), (192, 24)])
def test_a_part_may_end_within_a_repetition(registers, cols):
    table = sorted_table(tile(8, 16, 8, 32, 2))
    part = table[(table["reg"] < registers) & (table["col"] < cols)]
    tables = {"all": table, "part": part}
    wholes = {digest: whole(each) for digest, each in tables.items()}
    shared = lenders(tables, {}, wholes)
    assert shared == {"part": "all"}
    assert taken(table, extents(tables, shared, wholes)["part"]) == set(map(tuple, part.tolist()))


def test_a_member_of_a_family_that_is_part_of_another_layout_is_part_of_that():
    table = sorted_table(tile(8, 16, 8, 4, 2))
    tables = {"all": table} | {name: table[table["col"] < cols] for name, cols in {"family": 16, "member": 8}.items()}
    wholes = {digest: whole(each) for digest, each in tables.items()}
    assert lenders(tables, {"member": "family"}, wholes) == {"family": "all", "member": "all"}


@pytest.mark.parametrize(("columns", "times", "stored"), [(8, 32, 8), (8, 64, 16), (8, 31, 8), (4, 2, 8), (1, 256, 8)])
def test_the_smallest_repetition_is_stored(columns, times, stored):
    """No more than 32 times, and of few elements all."""
    table = sorted_table(tile(8, 16, columns, times, 2))
    assert extents({"all": table}, {}, {"all": whole(table)})["all"].cols == stored


@given(st.lists(st.integers(0, 9), max_size=12), st.booleans(), st.lists(st.integers(0, 11), max_size=6))
@settings(max_examples=30)
def test_first_columns_are_those_of_the_table(columns, ascending, counts):
    columns = sorted(columns) if ascending else columns
    table = sorted_table([(0, reg, 0, 0, col, col, 1) for reg, col in enumerate(columns)])
    found = first_columns(packed(table), counts)
    assert found.keys() == {*counts}
    for count, cells in found.items():
        expected = b"".join(element.tobytes() for element in table if element["col"] < count)
        assert cells.data == cells.array.tobytes() == expected
        assert cells.digest == sha256(expected).hexdigest()


@given(st.lists(st.tuples(*[st.integers(-(1 << 15), (1 << 15) - 1)] * 7), max_size=9))
@settings(max_examples=30)
def test_numbers_by_field_are_put_back_by_element(rows):
    table = np.array(rows, element_type())
    assert by_field(table).tolist() == [table[name].tolist() for name in table.dtype.names]
    assert by_element(by_field(table).tobytes()) == table.tobytes()
