"""Bank conflicts against a memory of 32 banks that serves one word of each in a cycle."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanemap
from lanemap.db.layout.banks import degrees

from ..modes import some

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


@pytest.mark.slow
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


PLAIN = [
    *("m16n8k16 f16 A", "m16n8k16 f16 B", "m16n8k16 f32 D", "m16n8k8 tf32 A", "m8n8k4 f64 A", "m16n8k32 s8 B"),
    *(
        "m16n8k64 s4 A",
        "m16n8k256 b1 B",
        "m64n64k16 f16 D",
        "m64n24k8 f32 D",
        "m64n8k16 f16 A",
        "mma.sp m16n8k32 f16 B",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("operand", "major", "mode"), some(product(PLAIN, ["row", "col"], SWIZZLES), 5))
def test_plain_moves_bring_each_element_where_it_belongs(database, operand, major, mode):
    """Memory of numbered bits is loaded as told, a vector for each lane, and compared with the rows of the operand."""
    fragment = database.fragment(operand)
    rows, cols = fragment.dimensions
    lines, places = (rows, cols) if major == "row" else (cols, rows)
    width = fragment.slot_bits
    pitch = -(-places * width // 8 // 128) * 128
    try:
        recipe = database.chain("ld.shared", operand, major=major, pitch=pitch, swizzle=mode)[0]
    except lanemap.LanemapError as error:
        held = {(lane, reg, slot): (row, col) for lane, reg, slot, row, col, *_ in fragment.tuples()}
        step = (0, 1) if major == "row" else (1, 0)
        apart = {(b[0] - a[0], b[1] - a[1]) for (*at, slot), a in held.items() if (b := held.get((*at, slot + 1)))}
        assert "are not next to each other in memory" in str(error)
        assert apart != {step}
        return
    memory = {}
    for line, place in product(range(lines), range(places)):
        cell = (line, place) if major == "row" else (place, line)
        for bit in range(width):
            byte, rest = divmod((line * pitch * 8 + place * width) + bit, 8)
            memory[(byte ^ byte // 128 % SWIZZLES[mode] * 16) * 8 + rest] = (*cell, bit)
    first, size, worst = 0, recipe.width, 1
    loaded = {}
    for step, move in enumerate(recipe.moves):
        regs = recipe.registers[first : first + move.registers]
        first += move.registers
        passed = [row for row in recipe.rows().records() if row["step"] == step]
        assert [row["lane"] for row in passed] == list(range(fragment.threads))
        assert len(regs) * 4 == size
        for row in passed:
            assert row["address"] % size == 0
            for at, reg in enumerate(regs):
                bits = [memory.get((row["address"] + at * 4) * 8 + bit) for bit in range(32)]
                loaded[row["lane"], reg] = bits
        for warp in range(0, len(passed), 32):
            worst = max(worst, *cycles([row["address"] for row in passed[warp : warp + 32]], size))
    assert recipe.degree == worst
    for lane, reg, slot, row, col, *_ in fragment.tuples():
        first = reg * fragment.register_bits + slot * width
        for bit in range(width):
            assert loaded[lane, (first + bit) // 32][(first + bit) % 32] == (row, col, bit)


def test_plain_moves_are_as_wide_as_the_operand_allows(database):
    widths = {
        words: database.chain(words, "st.shared", major="row")[0].width
        for words in ("m16n8k16 f32 D", "m16n8k16 f16 D")
    }
    assert widths == {"m16n8k16 f32 D": 8, "m16n8k16 f16 D": 4}
    assert database.chain("ld.shared", "tcgen05.st 32x32b x4", major="row")[0].width == 16
    stored = database.chain("m16n8k16 f32 D", "st.shared", major="row", pitch=128)[0]
    assert (stored.degree, stored.laid(160, None).degree) == (4, 1)
    assert "4-way conflict with rows 128 bytes apart; 2 with swizzle 64B; none 160 bytes apart" in " ".join(
        str(stored).split()
    )
    assert stored.choices[1] == (160, "none")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("m16n8k16 f16 A", "ld.shared"), "write ldmatrix before what it loads"),
        (("st.shared", "m16n8k16 f32 D"), "stmatrix after what it stores"),
        (("ld.shared", "st.shared"), "both are matrix moves"),
        (("ld.shared", "tcgen05.ld 32x32b x4"), "one move must load the registers and the other store them"),
    ],
)
def test_plain_moves_stand_where_they_belong(database, words, said):
    with pytest.raises(lanemap.LanemapError, match=said):
        database.chain(*words)
