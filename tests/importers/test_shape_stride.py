"""The layout algebra, against the definition: recursion over nested modes, one coordinate at a time."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap import LanemapError
from lanemap.ingest import mnemonic, shape_stride
from lanemap.ingest.shape_stride import MAX_SIZE, indices, layout, size, thread_value

LEAF = st.tuples(st.integers(1, 4), st.integers(0, 40))
NESTED = st.recursive(LEAF, lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=4)
SMALL = 500


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
    found = layout(*made)
    assert indices(found).tolist() == [at(coordinate, *made) for coordinate in range(size(made[0]))]


@given(NESTED.map(split))
def test_without_a_stride_a_layout_counts(made):
    assert indices(layout(made[0])).tolist() == list(range(size(made[0])))


@given(st.lists(NESTED, min_size=2, max_size=2).map(split).filter(lambda made: size(made[0]) < SMALL))
def test_threads_and_values_are_its_two_modes(made):
    (threads, values), (thread_stride, value_stride) = made
    found = thread_value(layout(*made))
    for thread in range(size(threads)):
        for value in range(size(values)):
            assert found[thread, value] == at(thread, threads, thread_stride) + at(value, values, value_stride)


def test_text():
    assert str(layout(((4, 8), 2), ((16, 1), 8))) == "((4,8),2):((16,1),8)"


@pytest.mark.parametrize(
    ("shape", "stride", "words"),
    [
        ((32, 2), ((16, 8),), "not nested alike"),
        (((4, 8), 2), (1, 32), "not nested alike"),
        (4, (1,), "not nested alike"),
        ((4, 0), (1, 4), "extent below 1"),
        ((4, 2), (1, -4), "stride outside"),
        ((1 << 11, 1 << 11), None, f"more than {MAX_SIZE}"),
    ],
)
def test_what_is_no_layout_is_refused(shape, stride, words):
    with pytest.raises(LanemapError, match=words):
        layout(shape, stride)


@pytest.mark.parametrize("shape", [32, (4, 2, 2)])
def test_threads_and_values_need_two_modes(shape):
    with pytest.raises(LanemapError, match="two modes"):
        thread_value(layout(shape))


@pytest.mark.parametrize("module", [shape_stride, mnemonic])
def test_examples_in_docstrings_are_true(module):
    assert doctest.testmod(module).failed == 0
