"""Permutations: found from what they move, and told in few words."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.db.layout.permutation import describe, fitting, keeps


@given(st.permutations(range(16)))
def test_a_permutation_is_found_from_exact_pairs(permutation):
    pairs = [((i, i), (p, p)) for i, p in enumerate(permutation)]
    assert fitting(16, pairs) == tuple(permutation)
    assert fitting(16, [*pairs, ((0, 0), (permutation[1],) * 2)]) is None


@given(st.permutations(range(4)), st.integers(1, 4))
def test_a_permutation_is_found_from_windows(chunks, width):
    """Whole windows move; within one, indices keep their order."""
    size = 4 * width
    pairs = [((i * width, i * width + width - 1), (c * width, c * width + width - 1)) for i, c in enumerate(chunks)]
    assert fitting(size, pairs) == tuple(chunks[i // width] * width + i % width for i in range(size))


def test_windows_keep_their_order():
    assert fitting(4, [((0, 2), (0, 2)), ((1, 3), (1, 3))]) == (0, 1, 2, 3)
    assert fitting(6, [((0, 2), (3, 5)), ((1, 2), (4, 5))]) == (3, 4, 5, 0, 1, 2)
    assert fitting(4, [((0, 2), (1, 3)), ((1, 3), (0, 2))]) is None
    assert fitting(4, [((0, 2), (0, 1))]) is None
    assert fitting(2, [((0, 0), (2, 2))]) is None


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


@given(st.integers(2, 24).flatmap(lambda size: st.permutations(range(size))), st.integers(0, 1))
def test_cycles_read_back_are_those_of_the_permutation(permutation, first):
    """The first four by their numbers, the rest by their count."""
    words = describe(tuple(permutation), first)
    if "bit" in words or words == "nothing moves":
        return
    named = {}
    for cycle in re.findall(r"\d+(?: to \d+)+", words):
        numbers = [int(number) - first for number in cycle.split(" to ")]
        assert numbers[0] == numbers[-1]
        named |= dict(pairwise(numbers))
    for one, other in re.findall(r"(\d+) and (\d+) swap", words):
        named |= {int(one) - first: int(other) - first, int(other) - first: int(one) - first}
    assert all(permutation[one] == other for one, other in named.items())
    left = {index for index, to in enumerate(permutation) if index != to and index not in named}
    more = 0
    while left:
        more, index = more + 1, min(left)
        while index in left:
            left.remove(index)
            index = permutation[index]
    said = re.search(r"and (\d+) more cycles", words)
    assert (int(said[1]) if said else 0) == more


windows = st.tuples(st.integers(0, 11), st.integers(0, 11)).map(sorted).map(tuple)


@given(
    st.permutations(range(4)), st.permutations(range(3)), st.lists(st.tuples(windows, windows), min_size=1, max_size=3)
)
def test_windows_are_kept_in_order_within_the_wider_ones(chunks, inside, pairs):
    permutation = tuple(3 * chunks[index // 3] + inside[index % 3] for index in range(12))

    def narrower(to, narrow, wide):
        moved = [to[index] for index in range(narrow[0], narrow[1] + 1)]
        return all(b == a + 1 for a, b in pairwise(moved)) and {*moved} <= {*range(wide[0], wide[1] + 1)}

    inverse = [permutation.index(index) for index in range(12)]
    left = all(narrower(permutation, mine, theirs) for mine, theirs in pairs)
    right = all(narrower(inverse, theirs, mine) for mine, theirs in pairs)
    assert keeps(permutation, pairs) == ("left" if left else "right" if right else None)


@given(st.permutations(range(4)), st.data())
def test_windows_of_whole_chunks_are_kept(chunks, data):
    permutation = tuple(3 * chunks[index // 3] + index % 3 for index in range(12))
    mine = [
        (3 * at, 3 * at + 2 - data.draw(st.integers(0, 1))) for at in data.draw(st.sets(st.integers(0, 3), min_size=1))
    ]
    theirs = [(3 * chunks[first // 3], 3 * chunks[first // 3] + 2) for first, _ in mine]
    assert keeps(permutation, zip(mine, theirs, strict=True)) == "left"
    swapped = (permutation[1], permutation[0], *permutation[2:])
    assert keeps(swapped, [((0, 1), (min(swapped[:3]), max(swapped[:3])))]) is None
