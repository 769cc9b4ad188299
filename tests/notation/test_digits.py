"""The one algorithm behind every notation: a table is a sum of digits, or is none, and the first place says so."""

import math
import re
from contextlib import suppress

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lanemap.db.layout.algebra import Case, NotASumError, Sum, as_cases, as_sum, as_swizzle, bits
from lanemap.db.layout.digits import Digit, quotients
from lanemap.db.layout.digits import sums as written


@st.composite
def sums(draw):
    axes = []
    for _ in range(draw(st.integers(1, 3))):
        sizes = draw(st.lists(st.integers(2, 4), max_size=3))
        steps = [math.prod(sizes[:place]) for place in range(len(sizes))]
        axes.append(
            tuple(Digit(step, size, draw(st.integers(-8, 40))) for step, size in zip(steps, sizes, strict=True))
        )
    return Sum(draw(st.integers(0, 9)), tuple(axes))


def table_of(total, shape=None):
    shape = shape or [math.prod(digit.size for digit in axis) for axis in total.axes]
    return np.broadcast_to(total(*np.indices(shape, sparse=True)), shape)


@given(sums())
def test_a_sum_is_found_in_its_table_with_no_more_digits(total):
    found = as_sum(table_of(total))
    assert np.array_equal(table_of(found), table_of(total))
    for mine, theirs in zip(found.axes, total.axes, strict=True):
        assert len(mine) <= len(theirs)
        assert math.prod(digit.size for digit in mine) == math.prod(digit.size for digit in theirs)


@given(sums(), st.data())
def test_one_wrong_place_is_no_sum_or_another_one_and_the_error_names_a_place(total, data):
    table = np.array(table_of(total))
    place = tuple(data.draw(st.integers(0, length - 1)) for length in table.shape)
    table[place] += data.draw(st.integers(1, 5))
    try:
        found = as_sum(table)
    except NotASumError as error:
        assert error.value == table[error.index] != error.expected
    else:
        assert np.array_equal(table_of(found), table)


def valued(text, indices):
    """What Python makes of an expression; C++ and PTX write the quotient of integers with one stroke."""
    return eval(re.sub("(?<!/)/(?!/)", "//", text), {}, indices)


@given(st.integers(0, 3), st.integers(2, 5), st.integers(1, 3), st.data())
def test_a_swizzle_is_found_both_ways(rows, cols, width, data):
    """The bits of the row, or of what counts rows and columns in one, that it exchanges units of a line with."""
    width = min(width, rows, cols)
    first, unit = data.draw(st.integers(0, rows - width)), data.draw(st.integers(0, cols - width))
    row, col = np.indices((1 << rows, 1 << cols))
    flips = (row >> first) % (1 << width) << unit
    for table in ((row << cols) + (col ^ flips), (col ^ flips).ravel()):
        assert len(as_swizzle(table)) == 1 + (width > 0)
        assert np.array_equal(again(table), table)


@given(st.integers(1, 3), st.integers(3, 5), st.integers(1, 90))
def test_a_swizzle_is_found_where_its_last_line_is_cut(rows, cols, length):
    """Behind the rows of a line are those of the next, and the last line ends anywhere."""
    row, col = np.indices((1 << rows, length))
    line, within = np.divmod(col, 1 << cols)
    table = ((line << rows) + row << cols) + (within ^ row)
    assert np.array_equal(again(table), table)


def again(table):
    """A table from the sums that are found in it."""
    plain, *crossed = as_swizzle(table)
    return table_of(plain, table.shape) ^ (table_of(*crossed, table.shape) if crossed else 0)


@given(sums(), st.data())
def test_what_is_no_swizzle_is_refused_or_worth_its_table(total, data):
    table = np.array(table_of(total))
    place = tuple(data.draw(st.integers(0, length - 1)) for length in table.shape)
    table[place] ^= data.draw(st.integers(0, 40))
    with suppress(NotASumError):
        assert np.array_equal(again(table), table)


@given(sums())
def test_both_expressions_are_worth_their_sum(total):
    names = ("x", "y", "z")[: len(total.axes)]
    table = table_of(total)
    indices = dict(zip(names, np.indices(table.shape, sparse=True), strict=True))
    case = Case(total, tuple(map(range, table.shape)))
    for text in (quotients(total.axes, names, total.constant), bits(case, names)):
        assert np.array_equal(np.broadcast_to(valued(text, indices), table.shape), table)


@st.composite
def swizzles(draw):
    """A box, and a number at each place: a sum, whose low bits those of the row turn, which stand higher."""
    rows, cols = draw(st.sampled_from([8, 12, 16, 24])), draw(st.sampled_from([8, 16, 64]))
    low, by, of = draw(st.integers(0, 2)), draw(st.integers(1, 3)), draw(st.integers(0, 2))
    row, col = np.indices((rows, cols))
    return row, col, (row * cols + col) ^ ((row >> of) % (1 << by) << low)


@given(swizzles(), st.integers(0, 500), st.integers(0, 3))
def test_a_swizzle_is_found_and_nothing_that_is_not_there(made, place, by):
    row, col, values = (array.ravel() for array in made)
    wrong = values.copy()
    wrong[place % len(wrong)] += by
    axes = {"row": row.tolist(), "col": col.tolist()}
    found = written(axes, [wrong.tolist()])
    if found:
        assert np.array_equal(valued(found[0], {"row": row, "col": col}) + 0 * row, wrong)
    assert found or by or row.max() in (11, 23)  # bits of the number of one of 12 rows may be no digits of it


def test_the_highest_digit_takes_no_remainder():
    total = Sum(0, ((Digit(1, 4, 1), Digit(4, 7, 8)), (Digit(1, 3, 1), Digit(3, 2, 8))))
    parts = (range(28), range(6))
    assert bits(Case(total, parts), "xy") == "(x & 0x3) + (x >> 2) * 8 + (y % 3) + (y / 3) * 8"


@st.composite
def patchworks(draw):
    """A table whose halves along any axis, and halves of these, are different sums of digits; or any small table."""
    shape = draw(st.lists(st.sampled_from([1, 2, 4, 8, 6, 3]), min_size=1, max_size=3))
    table = np.zeros(shape, int)
    if table.size <= 12 and draw(st.booleans()):
        return table + np.reshape(draw(st.lists(st.integers(0, 3), min_size=table.size, max_size=table.size)), shape)
    for axis in draw(st.lists(st.integers(0, len(shape) - 1), max_size=3)):
        index = np.indices(shape, sparse=True)[axis]
        table = np.where(index * 2 >= shape[axis], table * draw(st.integers(-1, 3)) + index, table)
    return table


@given(patchworks(), st.integers(1, 16))
def test_cases_cover_a_table_once_and_each_is_worth_its_part(table, most):
    try:
        cases = as_cases(table, most)
    except NotASumError as error:
        assert error.value == table[error.index] != error.expected
        return
    assert len(cases) <= most
    names = ("x", "y", "z")[: table.ndim]
    covered = np.zeros(table.shape, int)
    for case in cases:
        part = np.ix_(*case.parts)
        covered[part] += 1
        indices = dict(zip(names, part, strict=True))
        assert np.array_equal(np.broadcast_to(valued(bits(case, names), indices), table[part].shape), table[part])
    assert (covered == 1).all()


def test_places_that_are_no_box_have_no_sum():
    """One twice and another not at all, or one before the first."""
    assert written({"row": [0, 0, 1, 1], "col": [0, 1, 0, 1]}, [[0, 1, 2, 3]]) == ["row * 2 + col"]
    assert written({"row": [0, 0, 1, 1], "col": [0, 0, 1, 1]}, [[0, 0, 0, 0]]) is None
    assert written({"row": [-2, 1]}, [[0, 1]]) is None
