"""The layout algebra, against the definition: recursion over nested modes, one coordinate at a time."""

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap import LanemapError
from lanemap.db.layout import algebra
from lanemap.db.layout.algebra import MAX_SIZE, parse_strided, strided
from lanemap.ingest import atom
from lanemap.ingest.atom import thread_value

LEAF = st.tuples(st.integers(1, 4), st.integers(0, 40))
NESTED = st.recursive(LEAF, lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=4)
SMALL = 500


def size(shape):
    return shape if isinstance(shape, int) else math.prod(map(size, shape))


def indices(layout):
    """The index of every coordinate, leftmost fastest."""
    return layout.table().ravel(order="F").tolist()


def split(nested):
    """(shape, stride) of nested pairs."""
    if isinstance(nested, tuple):
        return nested
    return tuple(zip(*map(split, nested), strict=True))


def at(coordinate: int, shape, stride) -> int:
    """The index of one coordinate, by the definition."""
    if isinstance(shape, int):
        return coordinate * stride
    index = 0
    for mode, step in zip(shape, stride, strict=True):
        index += at(coordinate % size(mode), mode, step)
        coordinate //= size(mode)
    return index


@given(NESTED.map(split).filter(lambda made: size(made[0]) < SMALL))
def test_every_index_is_that_of_the_definition(made):
    found = strided(*made)
    assert indices(found) == [at(coordinate, *made) for coordinate in range(size(made[0]))]


@given(NESTED.map(split))
def test_without_a_stride_a_layout_counts(made):
    assert indices(strided(made[0])) == list(range(size(made[0])))


@given(st.lists(NESTED, min_size=2, max_size=2).map(split).filter(lambda made: size(made[0]) < SMALL))
def test_threads_and_values_are_its_two_modes(made):
    (threads, values), (thread_stride, value_stride) = made
    found = thread_value(strided(*made))
    for thread in range(size(threads)):
        for value in range(size(values)):
            assert found[thread, value] == at(thread, threads, thread_stride) + at(value, values, value_stride)


def test_text():
    text = "((4,8),2):((16,1),8)"
    assert str(strided(((4, 8), 2), ((16, 1), 8))) == str(parse_strided(text)) == text


@given(NESTED.map(split).filter(lambda made: size(made[0]) < SMALL))
def test_a_layout_read_from_its_text_is_the_same(made):
    found = strided(*made)
    assert indices(parse_strided(str(found))) == indices(found)


@pytest.mark.parametrize("text", ["", "4", "(4,x):1", "(4,2.5):(1,2)", '("a",2):(1,2)', "true:1", "(4,2):(1,2):3"])
def test_what_is_no_text_of_a_layout_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - whoever reads it says what it should be
        parse_strided(text)


@pytest.mark.parametrize(
    ("shape", "stride", "words"),
    [
        ((32, 2), ((16, 8),), "not nested alike"),
        (((4, 8), 2), (1, 32), "not nested alike"),
        (4, (1,), "not nested alike"),
        ((4, 0), (1, 4), "extent below 1"),
        ((4, 2), (1, -4), "stride outside"),
        ((1 << 11, (1 << 9) + 1), None, f"more than {MAX_SIZE}"),
    ],
)
def test_what_is_no_layout_is_refused(shape, stride, words):
    with pytest.raises(LanemapError, match=words):
        strided(shape, stride)


@pytest.mark.parametrize("shape", [32, (4, 2, 2)])
def test_threads_and_values_need_two_modes(shape):
    with pytest.raises(LanemapError, match="two modes"):
        thread_value(strided(shape))


@pytest.mark.parametrize("module", [algebra, atom])
def test_examples_in_docstrings_are_true(module):
    assert doctest.testmod(module).failed == 0
