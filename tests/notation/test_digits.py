"""The one algorithm behind every notation: a table is a sum of digits, or is none, and the first place says so."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.db.notation.arithmetic import evaluate, expression
from lanemap.db.notation.digits import Digit, NotASumError, Sum, as_sum


@st.composite
def sums(draw):
    axes = []
    for _ in range(draw(st.integers(1, 3))):
        sizes = draw(st.lists(st.integers(2, 4), max_size=3))
        steps = [math.prod(sizes[:place]) for place in range(len(sizes))]
        axes.append(tuple(Digit(step, size, draw(st.integers(0, 40))) for step, size in zip(steps, sizes, strict=True)))
    return Sum(draw(st.integers(0, 9)), tuple(axes))


def table_of(total):
    shape = [math.prod(digit.size for digit in axis) for axis in total.axes]
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


@given(sums())
def test_an_expression_is_worth_its_sum(total):
    names = ("x", "y", "z")[: len(total.axes)]
    table = table_of(total)
    indices = dict(zip(names, np.indices(table.shape, sparse=True), strict=True))
    assert np.array_equal(np.broadcast_to(evaluate(expression(total, names), indices), table.shape), table)


@pytest.mark.parametrize("text", ["x ** 2", "f(x)", "y", "x.y", "True + 'a'", "[x][0]", "x - 1", "1.5"])
def test_nothing_but_sums_of_digits_is_evaluated(text):
    with pytest.raises(ValueError, match="cannot read"):
        evaluate(text, {"x": np.arange(4)})
