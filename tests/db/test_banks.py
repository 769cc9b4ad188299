"""Bank conflicts against a memory of 32 banks that serves one word of each in a cycle."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanemap
from lanemap.db.layout.banks import degrees

#: How many units of 16 bytes each mode exchanges.
SWIZZLES = {"none": 1, "32B": 2, "64B": 4, "128B": 8}


def cycles(addresses, size):
    """Of each phase: words are taken out of the banks, one of each in a cycle, until all lanes have theirs."""
    lanes = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[size]
    counted = []
    for first in range(0, len(addresses), lanes):
        wanted = {byte // 4 for at in addresses[first : first + lanes] for byte in range(at, at + size)}
        count = 0
        while wanted:
            wanted -= set({word % 32: word for word in wanted}.values())
            count += 1
        counted.append(count)
    return counted


@given(st.sampled_from([1, 2, 4, 8, 16]), st.lists(st.integers(0, 600), min_size=32, max_size=32))
def test_the_degree_is_the_number_of_cycles(size, units):
    addresses = [unit * size for unit in units]
    assert degrees(np.array(addresses), size).tolist() == cycles(addresses, size)


@pytest.mark.parametrize(("size", "phases"), [(4, 1), (8, 2), (16, 4)])
def test_a_warp_that_reads_what_is_contiguous_has_no_conflict(size, phases):
    addresses = np.arange(3 * 32).reshape(3, 32) * size
    assert degrees(addresses, size).tolist() == 3 * [phases * [1]]
    assert degrees(0 * addresses, size).tolist() == 3 * [phases * [1]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ldmatrix", "m16n8k16 f16 A"),
        ("ldmatrix", "m16n8k16 f16 B"),
        ("ldmatrix", "m16n8k32 e4m3 A"),
        ("m64n64k16 f16 D", "stmatrix"),
    ],
)
def test_the_degree_of_a_recipe(database, first, second):
    """With every pitch and swizzle; and padding as it advises leaves none."""
    plain = database.chain(first, second, major="row")[0]
    _, width = plain.tile
    for pitch, (mode, units) in product(range(width, width + 272, 16), SWIZZLES.items()):
        if pitch % (16 * units):
            with pytest.raises(lanemap.LanemapError, match="needs a pitch"):
                database.chain(first, second, major="row", pitch=pitch, swizzle=mode)
            continue
        (recipe,) = database.chain(first, second, major="row", pitch=pitch, swizzle=mode)
        rows = recipe.rows().records()
        straight = [row["line"] * pitch + row["byte"] for row in rows]
        addresses = [at ^ at // 128 % units * 16 for at in straight]
        assert [row["address"] for row in rows] == addresses
        worst = max(max(cycles(addresses[warp : warp + 32], 16)) for warp in range(0, len(addresses), 32))
        assert recipe.degree == worst
        assert ("no conflict" in str(recipe)) == (worst == 1)
        assert recipe.laid(*recipe.choices[1]).degree == 1


def test_what_no_one_asked_about_is_said_where_there_is_a_conflict(database):
    """As of D in rows of 256 bytes: it takes eight times as long on a card, and padding mends it."""
    (recipe,) = database.chain("m64n128k16 f16 D", "stmatrix", major="row")
    assert recipe.degree == 8
    assert recipe.laid(272, None).degree == 1
    assert "8-way conflict with rows 256 bytes apart; 2 with swizzle 128B; none 272 bytes apart" in " ".join(
        str(recipe).split()
    )
    assert "banks" not in str(database.chain("ldmatrix", "m16n8k8 f16 A", major="row"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pitch": 24}, "invalid pitch 24: it is a multiple of 16 from 32 on"),
        ({"pitch": 16}, "invalid pitch 16: it is a multiple of 16 from 32 on"),
        ({"pitch": 1 << 20}, "exceed the 232448 bytes of a block"),
        ({"swizzle": "96B"}, "invalid swizzle '96b': choose from none, 32B, 64B, 128B"),
        ({"pitch": 144, "swizzle": "64B"}, "swizzle 64B needs a pitch that is a multiple of 64, not 144"),
    ],
)
def test_what_no_tile_can_have_is_refused(database, options, words):
    with pytest.raises(lanemap.LanemapError, match=words):
        database.chain("ldmatrix", "m16n8k16 f16 A", **options)
