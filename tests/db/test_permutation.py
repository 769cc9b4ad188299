"""Permutations: found from what they move, and told in few words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.db.permutation import describe, find


@given(st.permutations(range(16)))
def test_a_permutation_is_found_from_exact_pairs(permutation):
    pairs = [((i, i), (p, p)) for i, p in enumerate(permutation)]
    assert find(16, pairs) == tuple(permutation)
    assert find(16, [*pairs, ((0, 0), (permutation[1],) * 2)]) is None


@given(st.permutations(range(4)), st.integers(1, 4))
def test_a_permutation_is_found_from_windows(chunks, width):
    """Whole windows move; within one, indices keep their order."""
    size = 4 * width
    pairs = [((i * width, i * width + width - 1), (c * width, c * width + width - 1)) for i, c in enumerate(chunks)]
    assert find(size, pairs) == tuple(chunks[i // width] * width + i % width for i in range(size))


def test_windows_keep_their_order():
    assert find(4, [((0, 2), (0, 2)), ((1, 3), (1, 3))]) == (0, 1, 2, 3)
    assert find(6, [((0, 2), (3, 5)), ((1, 2), (4, 5))]) == (3, 4, 5, 0, 1, 2)
    assert find(4, [((0, 2), (1, 3)), ((1, 3), (0, 2))]) is None
    assert find(4, [((0, 2), (0, 1))]) is None
    assert find(2, [((0, 0), (2, 2))]) is None


@pytest.mark.parametrize(
    ("permutation", "words"),
    [
        ((0, 1, 2, 3), "nothing moves"),
        ((0, 2, 1, 3), "swap bits 0 and 1"),
        (tuple(i ^ 8 for i in range(16)), "flip bit 3"),
        (tuple((i & 5) | (i & 2) << 2 | (i & 8) >> 2 for i in range(16)), "swap bits 1 and 3"),
        (tuple((i << 1 & 7) | i >> 2 for i in range(8)), "bits 0 to 1 to 2 to 0"),
        (tuple(((i & 1) << 1 | i >> 1) ^ 3 for i in range(4)), "swap bits 0 and 1, flip bits 0 and 1"),
        ((1, 2, 0, 3), "0 to 1 to 2 to 0"),
        ((1, 0, 2), "0 and 1 swap"),
    ],
)
def test_a_permutation_is_told_in_few_words(permutation, words):
    assert describe(permutation) == words


@given(st.integers(1, 5).flatmap(lambda width: st.tuples(st.permutations(range(width)), st.integers(0, 2**width - 1))))
def test_permutations_of_bits_are_told_by_bits(case):
    order, flipped = case
    permutation = tuple(
        sum(1 << order[bit] for bit in range(len(order)) if index >> bit & 1) ^ flipped
        for index in range(2 ** len(order))
    )
    words = describe(permutation)
    assert "cycles" not in words
    moved = [bit for bit, target in enumerate(order) if bit != target]
    assert ("bits" in words or "bit" in words) == bool(moved or flipped)
