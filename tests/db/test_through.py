"""What goes through a tile of shared memory, against a model of memory that is written and read by hand."""

import numpy as np
import pytest

import lanemap

from ..shared_memory import SPANS, addressed, box, memory
from .test_banks import cycles


def read(word, steps, major, bits, product, extents):
    """The bit at which each element is read: product by product, by what the document says of a descriptor's fields."""
    found = np.zeros(extents, int)
    for mn, k, _, encoded in steps:
        for at in np.ndindex(*product):
            found[mn + at[0], k + at[1]] = addressed(word + encoded, major, bits, *at)
    return found


def written(mode, major, bits, extents):
    held = np.zeros(extents, int)
    for cell, bit in memory(mode, major, bits, *extents)[0].items():
        held[cell] = bit
    return held


@pytest.mark.slow
@pytest.mark.parametrize("mode", SPANS)
@pytest.mark.parametrize(("role", "major"), [("A", "K"), ("A", "MN"), ("B", "K"), ("B", "MN")])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_d_is_read_by_the_descriptor_of_its_mode_alone(database, mode, role, major, transposed):
    for other in SPANS:
        found = database.chain(
            "m64n64k16 f32 D", f"m64n64k16 f16 {role} {other}.{major}", through=mode, transpose=transposed
        )
        here = written(mode, major, 16, (64, 64))
        there = read(found.descriptor.word, found.descriptor.steps.rows, major, 16, (64, 16), (64, 64))
        assert np.array_equal(found.written, here)
        assert np.array_equal(found.read, there)
        assert found.moves_values == (not np.array_equal(here, there)) == (mode != other)
        assert (found.verdict == "right") == (mode == other)
        if mode != other:
            assert found.verdict.endswith(f": both agree in {other}")
    # A lane stores what lies next to each other along a line of the matrix, which is a line of the tile.
    by_row = (major == "K") ^ transposed ^ (role == "B")
    assert found.stores.major == ("row" if by_row else "col")
    worst = 1
    for step in range(len(found.stores.moves)):
        passed = [at for at in found.stores.addresses if at.step == step]
        cells = [(at.line, at.byte // 2) if major == "K" else (at.byte // 2, at.line) for at in passed]
        bytes_ = [here[cell] // 8 for cell in cells]
        for warp in range(0, len(bytes_), 32):
            worst = max(worst, *cycles(bytes_[warp : warp + 32], found.stores.width))
    assert found.degree(found.stores) == worst


@pytest.mark.parametrize("mode", SPANS)
@pytest.mark.parametrize("major", ["K", "MN"])
def test_a_box_is_read_by_the_descriptor_of_its_mode(database, mode, major):
    """As wide as a line, it is what an atom is; and what is not swizzled is only alike in lines of 16 bytes."""
    wide = SPANS[mode] // 2
    elements = 64 if mode == "none" else wide
    lines, shape = 64, f"64x{elements}"
    held = np.array(box(mode, lines, 2 * elements, 0)[::2]).reshape(lines, elements) * 8
    here = held if major == "K" else held.T
    role = "A" if major == "K" else "B"
    needed = (64, 16) if major == "K" else (8, 16)
    for other in SPANS:
        if here.shape[0] % needed[0] or here.shape[1] % needed[1]:
            continue
        second = f"m64n8k16 f16 {role} {other}.{major}"
        found = database.chain(f"cp.async.bulk.tensor {shape} b16 {mode} t", second, through=mode)
        there = read(found.descriptor.word, found.descriptor.steps.rows, major, 16, needed, here.shape)
        assert np.array_equal(found.written, here)
        assert found.moves_values == (not np.array_equal(here, there))
        assert found.moves_values != (mode == other != "none")


@pytest.mark.parametrize("mode", SPANS)
def test_a_tensor_map_reads_what_lanes_store(database, mode):
    elements = 64 if mode == "none" else SPANS[mode] // 2
    found = database.chain("m64n128k16 f32 D", f"cp.async.bulk.tensor 64x{elements} b16 {mode} t", through=mode)
    assert found.verdict == "right"
    size = 64 * (2 * elements if mode == "none" else SPANS[mode])
    for first in range(0, 128, elements):  # one box after the other
        held = np.array(box(mode, 64, 2 * elements, 0)[::2]).reshape(64, elements)
        assert np.array_equal(found.read[:, first : first + elements], (held + first // elements * size) * 8)


def test_lanes_load_what_lanes_store(database):
    found = database.chain("m64n128k16 f32 D", "m16n8k16 f16 A", through="128B")
    assert (found.verdict, found.degree(found.stores), found.degree(found.loads)) == ("right", 1, 1)
    for transposed, width, count in ((False, 8, 32), (True, 4, 64)):  # stmatrix would store 16 bits of each element
        plain = database.chain("m64n128k16 f32 D", "m16n8k8 tf32 A", through="128B", transpose=transposed)
        assert (plain.verdict, plain.stores.width, len(plain.stores.moves)) == ("right", width, count)
        assert f"written: {count} x st.shared, " in str(plain)
    assert "converted to 16 bits, 8 x stmatrix.x4, no conflict" in str(found)


@pytest.mark.parametrize("mode", ["none", "32B"])
@pytest.mark.parametrize(
    ("first", "second", "transposed", "extents", "count"),
    [
        ("m16n8k16 f32 D", "m16n8k16 f16 A", False, (16, 16), 2),
        ("m16n8k16 f32 D", "m16n8k16 f16 A", True, (16, 16), 2),
        ("m16n8k16 f32 D", "m64n64k16 f16 A {mode}.K", False, (64, 16), 8),
        ("m16n8k16 f32 D", "m64n64k16 f16 B {mode}.K", False, (64, 16), 8),
    ],
)
def test_several_d_make_one_operand(database, first, second, transposed, extents, count, mode):
    """Each of them is stored beside the others, and all of them fill the tile."""
    found = database.chain(first, second.format(mode=mode), through=mode, transpose=transposed)
    assert found.verdict == "right"
    assert np.array_equal(found.written, written(mode, "K", 16, extents))
    mn, k = found.first.dimensions[:: -1 if found.turned else 1]
    held = np.zeros(extents, int)
    for start in found.starts(found.stores):
        held[start[0] : start[0] + mn, start[1] : start[1] + k] += 1
    assert (held == 1).all()
    assert f", for each of {count} D" in str(found)


@pytest.mark.parametrize(
    ("first", "second", "mode", "words"),
    [
        ("m64n64k16 f32 D", "m64n64k16 f16 A 128B.K", "96B", "invalid swizzle '96b': choose from none, 32B, 64B, 128B"),
        ("m64n64k16 f16 A", "m64n64k16 f16 A 128B.K", "128B", "writes nothing to memory: name a D"),
        ("m64n64k16 f32 D", "m64n64k16 f32 D", "128B", "reads nothing from memory"),
        ("m64n8k16 f32 D", "m64n64k16 f16 A 128B.K", "128B", "these have 32: take none or 32B"),
        ("m64n24k16 f32 D", "m64n64k16 f16 A none.K", "none", "is 64 x 24 here, no multiple of 64 x 16"),
        ("cp.async.bulk.tensor 64x8 b16 none t", "m16n8k16 f16 A", "none", "is 64 x 8 here, no multiple of 16 x 16"),
        ("m64n24k16 f32 D", "m64n8k16 f16 B 32B.MN", "128B", "these have 48: take none"),
        ("m64n64k16 f32 D", "m64n64k32 e4m3 A 32B.K", "128B", "these have 64: take 32B"),
        ("m64n64k16 f32 D", "m64n64k32 e4m3 A 128B.K", "128B", "these have 64: take none, 32B or 64B"),
        (
            "m64n64k16 f32 D",
            "m64n64k32 e4m3 A 64B.K",
            "64B",
            "32 bits in memory, or 16: 8 bits need another conversion",
        ),
        ("cp.async.bulk.tensor 64x64 b16 128B t", "m64n64k16 f16 A 128B.K", "64B", "take 128B"),
        (
            "cp.async.bulk.tensor 64x64 b8 64B t",
            "m64n64k16 f16 A 64B.K",
            "64B",
            "elements of 8 bits, .* of 16: write b16",
        ),
        ("tcgen05.mma m64n64k16 f32 D", "m64n64k16 f16 A 128B.K", "128B", "lies in Tensor Memory"),
        ("m64n64k16 f32 D", lanemap.Query(), "128B", "name two operands, as in m64n64k16 f32 D m64n64k16 f16 A 128B.K"),
        ("m64n64k16 f32 D", None, "128B", "name two operands"),
        ("", "m64n64k16 f16 A 128B.K", "128B", "name two operands"),
    ],
)
def test_what_cannot_go_through_a_tile_is_refused(database, first, second, mode, words):
    with pytest.raises(lanemap.LanemapError, match=words):
        database.chain(first, second, through=mode)


def test_one_product_is_no_products(database):
    found = database.chain("cp.async.bulk.tensor 64x16 b16 32B t", "m64n16k16 f16 A 32B.K", through="32B")
    assert found.text().endswith("0xc000001000100000, 1 product")


@pytest.mark.parametrize("more", [{"relabel": True}, {"pitch": 256}, {"tile": "m128n128"}, {"count": 2}])
def test_what_means_nothing_through_a_tile_is_refused(database, more):
    with pytest.raises(lanemap.LanemapError, match=f"{next(iter(more))} is not for a chain through shared memory"):
        database.chain("m64n64k16 f32 D", "m64n64k16 f16 A 128B.K", through="128B", **more)


@pytest.mark.few(1)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("role", "mode"), [("B", "32B"), ("A", "128B")])
def test_elements_lie_in_the_words_of_their_bits(database, role, mode, transposed):
    """By row and column of D: columns count along M or N of B, and of an A that is D transposed."""
    of_second = f"m64n64k16 f16 {role} {mode}.K"
    found = database.chain("m64n64k16 f32 D", of_second, through=mode, transpose=transposed)
    lane, word, slot, row, col, last = np.array([*found.words(found.written)]).T
    cell = (col, row) if (role == "B") != transposed else (row, col)
    assert np.array_equal(found.written[cell], 32 * word + 16 * slot)
    assert len({*zip(row, col, strict=True)}) == found.written.size
    assert not lane.any()
    assert np.array_equal(col, last)
