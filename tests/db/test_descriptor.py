"""Matrix descriptors against a model of memory that shares no formula with the package."""

import re

import pytest

import lanemap

from ..shared_memory import addressed, memory, moved

TILES = [
    ("m64n128k16 f16 B", "n128k64", 16),
    ("m64n64k16 bf16 A", "m128k128", 16),
    ("m64n64k8 tf32 B", "n128k64", 32),
    ("m64n32k32 e4m3 A", "m64k256", 8),
    ("m64n256k256 b1 B", "n256k1024", 1),
]
CASES = [
    (operand, extents, bits, f"{mode}.{major}")
    for operand, extents, bits in TILES
    for major in ("K", "MN")[: 1 + (bits == 16)]
    for mode in ("none", "32B", "64B", "128B")
]


@pytest.mark.slow
@pytest.mark.parametrize(("operand", "extents", "bits", "qualifiers"), CASES)
def test_every_product_of_a_tile_is_read_at_its_advance(operand, extents, bits, qualifiers):
    answer = lanemap.Database.descriptor(f"{operand} {qualifiers}", extents)
    mode, major = qualifiers.split(".")
    mn, k = map(int, re.findall(r"\d+", extents))
    lies, size = memory(mode, major, bits, mn, k)
    assert answer.tile.size == size
    m, n, depth = map(int, re.findall(r"\d+", operand.split()[0]))
    width = m if operand.endswith("A") else n
    assert len(answer.steps.rows) == mn // width * k // depth
    for first, start, byte, encoded in answer.steps.rows:
        assert byte == 16 * encoded
        for row in range(0, width, 3):
            for column in range(0, depth, 3):
                read = addressed(answer.word + encoded, major, bits, row, column)
                assert read == lies[first + row, start + column]
        assert lanemap.Database.descriptor(
            f"{operand} {qualifiers}", extents, decode=answer.word + encoded
        ).verdict == ("right")


@pytest.mark.slow
@pytest.mark.parametrize(("operand", "extents", "bits", "qualifiers"), CASES)
def test_a_tensor_map_writes_the_tile_in_its_order(operand, extents, bits, qualifiers):
    """The box is written with its innermost dimension fastest, as the lines of the tile follow each other."""
    answer = lanemap.Database.descriptor(f"{operand} {qualifiers}", extents)
    mode, major = qualifiers.split(".")
    mn, k = map(int, re.findall(r"\d+", extents))
    box, axes, named = answer.tensor_map
    assert named == f"CU_TENSOR_MAP_SWIZZLE_{mode.upper()}"
    steps, strides = {"k": 1, "mn": 1}, []
    for extent, axis in zip(box, axes, strict=True):
        letter = "k" if axis == "k" else "mn"
        strides.append((extent, letter, steps[letter]))
        steps[letter] *= extent
    lies, _ = memory(mode, major, bits, mn, k)
    for number in range(0, mn * k, 7):
        rest, cell = number, {"k": 0, "mn": 0}
        for extent, letter, step in strides:
            rest, at = divmod(rest, extent)
            cell[letter] += at * step
        assert lies[cell["mn"], cell["k"]] == moved(mode, number * bits // 8) * 8 + number * bits % 8


@pytest.mark.parametrize(
    ("word", "verdict"),
    [
        (0x4000004000400000, "right"),
        (0x4000004000000000, "right"),  # the leading offset is not read
        (
            0x4000000800000000,
            "columns 8 to 15 read what lies in columns 1 to 8: the stride byte offset is 128, it must be 1024",
        ),
        (0xC000004000400000, "column 1 reads what lies in column 0: the swizzling mode is 32B, it must be 128B"),
    ],
)
def test_a_word_says_what_it_reads(word, verdict):
    answer = lanemap.Database.descriptor("m64n128k16 f16 B 128B.K", "n128k64", decode=word)
    assert answer.verdict == verdict
    assert answer.wrong.any() == (verdict != "right")
    assert verdict in " ".join(str(answer).split())


@pytest.mark.parametrize(
    ("operand", "extents", "why"),
    [
        ("m64n128k16 f16 B 128B.K", "n128k16", "128B needs rows of 128 bytes, and these have 32: write 32B.K"),
        ("m64n128k16 f16 B 128B.K", "n64k64", "n64 of the tile is no multiple of 128, as one product has it"),
        ("m64n128k16 f16 B 128B.K", "m64k64", "'m64k64' is no tile of B: write n128k64"),
        ("m64n128k16 f16 B", None, "say how B lies in shared memory: none.K, 32B.K"),
        ("m64n128k8 tf32 B 128B.MN", None, "tf32 is K-major only: choose from none.K"),
        ("m64n128k16 f16 B 128B.K", "n1024k128", "has 262144 bytes: a block has at most 232448"),
        ("m64n128k16 f16 D 128B.K", None, "a descriptor names A or B of"),
    ],
)
def test_what_cannot_be_says_what_would_be_right(operand, extents, why):
    with pytest.raises(lanemap.LanemapError, match=re.escape(why)):
        lanemap.Database.descriptor(operand, extents)


def test_reserved_bits_are_refused():
    with pytest.raises(lanemap.LanemapError, match="bits 14 are reserved, and must be 0"):
        lanemap.Database.descriptor("m64n128k16 f16 B 128B.K", decode=1 << 14)


@pytest.mark.parametrize(
    ("operand", "leading"),
    [
        ("m64n64k16 f16 B 32B.K", "not read"),
        ("wgmma.sp m64n64k32 f16 B 32B.K", "256 bytes"),  # twice as deep as a line
        ("m64n64k16 f16 B none.K", "128 bytes"),
        ("m64n64k16 f16 B 128B.MN", "2048 bytes"),
    ],
)
def test_the_leading_offset_is_given_where_it_is_read(operand, leading):
    assert f"leading dimension byte offset: {leading}\n" in str(lanemap.Database.descriptor(operand))
