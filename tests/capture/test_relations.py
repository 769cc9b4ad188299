from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.capture.device import Contradiction, Side
from lanemap.capture.product import blocks, common, strands


def side(size, kind):
    return Side(size, lambda number: f"{kind} {number}")


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.randoms())
def test_blocks_are_found_from_their_pairs(block_of_left, random):
    used = sorted(set(block_of_left))
    block_of_right = [random.choice(used) for _ in range(10)] + used
    pairs = [(a, b) for a, x in enumerate(block_of_left) for b, y in enumerate(block_of_right) if x == y]
    random.shuffle(pairs)
    left, right = np.array(pairs + pairs[:3]).T
    of_left, of_right = blocks(left, right, side(len(block_of_left), "a"), side(len(block_of_right), "b"))
    for a, x in enumerate(block_of_left):
        for b, y in enumerate(block_of_right):
            assert (of_left[a] == of_right[b]) == (x == y)


def test_every_other_relation_of_three_with_four_is_a_contradiction():
    for cells in product((False, True), repeat=12):
        met = np.array(cells).reshape(3, 4)
        given = *np.nonzero(met), side(3, "a"), side(4, "b")
        apart = all((one == other).all() or not (one & other).any() for one in met for other in met)
        if apart and met.any(axis=0).all() and met.any(axis=1).all():
            of_left, of_right = blocks(*given)
            assert np.array_equal(of_left[:, None] == of_right, met)
        else:
            with pytest.raises(Contradiction):
                blocks(*given)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([(0, 0), (0, 1), (1, 1)], "a 0 and a 1 meet some of the same but not all"),
        ([(0, 0), (0, 1), (1, 0), (1, 2)], "a 0 and a 1 meet some of the same but not all"),
        ([(0, 0), (0, 1)], "a 1 meets nothing"),
        ([(0, 0), (1, 0)], "b 1 meets nothing"),
    ],
)
def test_other_relations_are_contradictions(pairs, said):
    left, right = np.array(pairs).T
    with pytest.raises(Contradiction, match=said):
        blocks(left, right, side(2, "a"), side(3 if (right == 2).any() else 2, "b"))


def test_strands_are_connected_parts():
    left, right = np.array([(0, 5), (0, 4), (1, 4), (1, 3), (2, 0), (2, 2), (3, 1)]).T
    assert list(strands(left, right, 4, 6)) == [0, 1, 0, 2, 2, 2]


def test_a_label_is_common_to_a_block_and_to_no_other():
    names = side(4, "d")
    assert list(common(np.array([7, 7, 9, 9]), np.array([1, 1, 0, 0]), names, "row")) == [9, 7]
    with pytest.raises(Contradiction, match="d 0 and d 1 are in one row as measured, in two by the documented D"):
        common(np.array([7, 8, 9, 9]), np.array([0, 0, 1, 1]), names, "row")
    with pytest.raises(Contradiction, match="d 0 and d 2 are in two rows as measured, in one by the documented D"):
        common(np.array([7, 7, 7, 7]), np.array([0, 0, 1, 1]), names, "row")
