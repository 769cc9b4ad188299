"""Matrix descriptors against a model of memory that shares no formula with the package."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanemap
from lanemap.db.isa.shared import descriptor

from ..modes import examples, some
from ..shared_memory import SPANS, addressed, memory, moved

TILES = [
    ("m64n128k16 f16 B", "n128k64", 16),
    ("m64n64k16 bf16 A", "m128k128", 16),
    ("m64n64k8 tf32 B", "n128k64", 32),
    ("m64n32k32 e4m3 A", "m64k256", 8),
    ("m64n256k256 b1 B", "n256k1024", 1),
    ("m64n8k16 f16 B", "n512k128", 16),
    ("tcgen05.mma m128n64k16 bf16 A", "m128k64", 16),
    ("tcgen05.mma m64n64k32 e4m3 B", "n128k128", 8),
    ("tcgen05.mma m128n8k64 e2m1 B", "n16k512", 4),
    ("tcgen05.mma m128n16k16 s1z4m11 B", "n64k64", 16),
    ("tcgen05.mma.sp m128n8k64 s8 B", "n16k256", 8),
]
CASES = [
    (operand, extents, bits, f"{mode}.{major}")
    for operand, extents, bits in TILES
    for major in ("K", "MN")[: 1 + (bits == 16 or ("e4m3 B" in operand))]
    for mode in ("none", "32B", "64B", "128B")
]


@pytest.mark.slow
@pytest.mark.parametrize(("operand", "extents", "bits", "qualifiers"), some(CASES, 3))
def test_every_product_of_a_tile_is_read_at_its_advance(operand, extents, bits, qualifiers):
    answer = lanemap.Database.descriptor(f"{operand} {qualifiers}", extents)
    mode, major = qualifiers.split(".")
    mn, k = map(int, re.findall(r"\d+", extents))
    lies, size = memory(mode, major, bits, mn, k)
    assert answer.tile.size == size
    m, n, depth = map(int, re.search(r"m(\d+)n(\d+)k(\d+)", operand).groups())
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
@pytest.mark.parametrize(("operand", "extents", "bits", "qualifiers"), some(CASES, 3))
def test_a_tensor_map_writes_the_tile_in_its_order(operand, extents, bits, qualifiers):
    """The box is written with its innermost dimension fastest, as the lines of the tile follow each other."""
    answer = lanemap.Database.descriptor(f"{operand} {qualifiers}", extents)
    mode, major = qualifiers.split(".")
    mn, k = map(int, re.findall(r"\d+", extents))
    box, axes, named = answer.tensor_map
    assert named == f"CU_TENSOR_MAP_SWIZZLE_{mode.upper()}"
    lies, size = memory(mode, major, bits, mn, k)
    lines, one = {bit: cell for cell, bit in lies.items()}, size * 8 // bits // answer.copies

    def at(number):
        return lines[moved(mode, number * bits // 8) * 8 + number * bits % 8]

    for number in range(0, mn * k, 7):
        first, rest = number // one * one, number % one
        step = {"mn": 1, "k": 1}
        cell = dict(zip(step, at(first), strict=True))
        for extent, axis in zip(box, axes, strict=True):
            letter, within = "k" if axis[0] == "k" else "mn", extent * (8 if axis == "k / 8" else 1)
            rest, count = divmod(rest, within)
            cell[letter] += count * step[letter]
            step[letter] *= within
        assert at(number) == (cell["mn"], cell["k"])
    assert max(box) <= 256


@pytest.mark.parametrize(
    ("operand", "extents", "box", "axes", "copies"),
    [
        ("m64n8k16 f16 B 128B.K", "n128k64", (64, 128), ("k", "n"), 1),
        ("m64n8k16 f16 B 128B.K", "n512k64", (64, 256), ("k", "n"), 2),
        ("m64n8k16 f16 B 128B.K", "n264k64", (64, 88), ("k", "n"), 3),  # atoms stay whole
        ("m64n8k16 f16 A 128B.MN", "m128k512", (64, 256), ("m", "k"), 4),
        ("m64n8k16 f16 B none.K", "n8k4096", (8, 8, 256), ("k", "n", "k"), 2),
        ("m64n8k256 b1 B 128B.K", "n16k2048", (128, 8, 2, 2), ("k / 8", "n", "k", "n"), 1),
    ],
)
def test_no_extent_of_a_box_exceeds_256_and_none_counts_bits(operand, extents, box, axes, copies):
    answer = lanemap.Database.descriptor(operand, extents)
    assert answer.tensor_map[:2] == (box, axes)
    assert answer.copies == copies
    assert ("copies" in answer.text()) == (copies > 1)


STARTS = "the start address is {}, it must be 0, 32, 64 or 96 bytes past a multiple of 1024"


@pytest.mark.parametrize(
    ("word", "verdict"),
    [
        (0x4000004000400000, "right"),
        (0x4000004000000000, "right"),  # the leading offset is not read
        (
            0x4000000800000000,
            "columns 8 to 15 read what lies in columns 1 to 8: the stride byte offset is 128, it must be 1024",
        ),
        (
            0xC000004000400000,
            "column 1 at k 0 reads what lies in column 0 at k 16: the swizzling mode is 32B, it must be 128B",
        ),
        (
            0x4000004000400003,
            "columns 0 to 127 at k 16 read what lies in columns 0 to 127 at k 24: " + STARTS.format(48),
        ),
        (
            0x4000004000400018,
            "columns 0 to 124 at k 48 read what lies in columns 3 to 127 at k 0: " + STARTS.format(384),
        ),
        (
            0x4006004000400000,
            "column 0 at k 0 reads what lies in column 0 at k 40: the base offset is 3, it must be 0",
        ),
        (0x4006004000400018, "right"),  # the tile begins at 384, and its pattern with it
        (
            0x4004004000400018,
            "column 0 at k 0 reads what lies in column 0 at k 8: the base offset is 2, it must be 3",
        ),
    ],
)
def test_a_word_says_what_it_reads(word, verdict):
    answer = lanemap.Database.descriptor("m64n128k16 f16 B 128B.K", "n128k64", decode=word)
    assert answer.verdict == verdict
    assert answer.wrong.any() == (verdict != "right")
    assert verdict in " ".join(str(answer).split())


NAMES = {"swizzling mode": "mode", "start address": "start", "leading byte offset": "leading"}
NAMES |= {"stride byte offset": "stride", "base offset": "base"}


@pytest.mark.slow
@examples(160)
@given(
    case=st.sampled_from(CASES),
    start=st.integers(0, 130).map(lambda units: units * 16),
    base=st.sampled_from([0, 0, 0, *range(1, 8)]),
    changed=st.sampled_from([{}, {}, {"leading": 32}, {"stride": 144}, {"mode": "64B"}, {"leading": 0, "stride": 0}]),
)
def test_a_verdict_is_what_memory_says_and_its_advice_makes_it_right(case, start, base, changed):
    operand, extents, bits, qualifiers = case
    right = lanemap.Database.descriptor(f"{operand} {qualifiers}", extents)
    word = descriptor(right.fields._replace(start=start, base=base, **changed))
    found = lanemap.Database.descriptor(f"{operand} {qualifiers}", extents, decode=word)
    mode, major = qualifiers.split(".")
    lies, _ = memory(mode, major, bits, *map(int, re.findall(r"\d+", extents)))
    alignment = 16 if mode == "none" else 8 * SPANS[mode]
    # A tile begins where its pattern does, which the base offset may put at any row of 128 bytes.
    begin = start // alignment * alignment + (start % alignment // 128 * 128 if base else 0)
    held = {bit + begin * 8: cell for cell, bit in lies.items()}
    cells = [(0, 0), (1, 0), (0, 1), *((mn, k) for mn in range(2, found.reads.shape[0], 7) for k in (0, 3, -1))]
    cells = [(mn, k % found.reads.shape[1]) for mn, k in cells]
    for mn, k in cells:
        assert tuple(found.reads[mn, k]) == held.get(addressed(word, major, bits, mn, k), (-1, -1))
    begins = {(mn, k) for mn, k, _, _ in right.steps.rows}
    assert found.begins in begins
    assert (found.verdict == "right") == (not found.wrong.any())
    if found.verdict == "right":
        assert tuple(found.reads[0, 0]) == found.begins
        assert not found.corrections
        return
    fields = found.fields
    for name, _, needed in re.findall(r"the ([a-z ]+) is (\S+), it must be ([^;]+)", found.verdict):
        if NAMES[name] == "start":
            choices = [int(number) for number in re.findall(r"\d+", needed.partition("bytes past")[0])]
            multiple = int(re.findall(r"\d+", needed)[-1])
            value = choices[-1] if "past" in needed else multiple
        else:
            value = needed if NAMES[name] == "mode" else int(needed)
        fields = fields._replace(**{NAMES[name]: value})
    assert fields != found.fields
    again = lanemap.Database.descriptor(f"{operand} {qualifiers}", extents, decode=descriptor(fields))
    assert again.verdict == "right"


#: Operands with tiles of two atoms each way, or two products.
SMALL = [
    ("m64n16k16 f16 B", "n32k64", 16, ("K", "MN")),
    ("m64n16k8 tf32 B", "n32k64", 32, ("K",)),
    ("m64n8k256 b1 B", "n16k1024", 1, ("K",)),
    ("tcgen05.mma m64n16k32 s8 B", "n128k128", 8, ("K", "MN")),
    ("tcgen05.mma.sp m64n16k32 f16 B", "n32k64", 16, ("K",)),
]
FLIPPED = [
    (operand, extents, bits, f"{mode}.{major}")
    for operand, extents, bits, majors in SMALL
    for major in majors
    for mode in ("none", "32B", "64B", "128B")
    if not (mode == "128B" and major == "MN" and bits == 16)  # its lines are longer than the tile
]


@pytest.mark.few(9)
@pytest.mark.parametrize(("operand", "extents", "bits", "qualifiers"), FLIPPED)
def test_no_word_with_a_wrong_bit_is_right_but_where_it_reads_the_same(operand, extents, bits, qualifiers):
    """Each bit of the word is turned, alone and with another: it is refused, or reads what the model says."""
    right = lanemap.Database.descriptor(f"{operand} {qualifiers}", extents)
    (mode, major), (mn, k) = qualifiers.split("."), map(int, re.findall(r"\d+", extents))
    lies, _ = memory(mode, major, bits, mn, k)
    alignment, reserved = 16 if mode == "none" else 8 * SPANS[mode], {14, 15, 30, 31, 46, 47, 48, *range(52, 62)}
    for flipped in [(), *((bit,) for bit in range(64)), *((bit, (bit * 29 + 7) % 64) for bit in range(64))]:
        word = right.word ^ sum(1 << bit for bit in {*flipped})
        try:
            found = lanemap.Database.descriptor(f"{operand} {qualifiers}", extents, decode=word)
        except lanemap.LanemapError:
            assert reserved & {*flipped}
            continue
        assert not reserved & {*flipped}
        start, base = (word & 0x3FFF) * 16, word >> 49 & 7
        begin = start // alignment * alignment + (start % alignment // 128 * 128 if base else 0)
        held = {bit + begin * 8: cell for cell, bit in lies.items()}
        rows, columns = found.reads.shape[:2]
        same = True
        for at in {(row, column) for row in range(rows) for column in {0, 1, columns // 2, columns - 1}}:
            cell = held.get(addressed(word, major, bits, *at), (-1, -1))
            assert tuple(found.reads[at]) == cell, (flipped, at)
            same &= cell == (found.begins[0] + at[0], found.begins[1] + at[1])
        assert (found.verdict == "right") <= same, flipped
        if found.verdict != "right":
            wrong = tuple(map(int, np.argwhere(found.wrong)[0]))
            cell = held.get(addressed(word, major, bits, *wrong), (-1, -1))
            assert cell != (found.begins[0] + wrong[0], found.begins[1] + wrong[1]), flipped


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
        ("tcgen05.mma m128n8k192 e2m1 A 128B.K", None, "K of e2m1 is 192: it must be 32, 64, 96 or 128"),
        (
            "tcgen05.mma m128n8k96 e2m1 A 32B.K",
            None,
            "a product takes 48 bytes along K, and a line has 32: write none.K",
        ),
        ("tcgen05.mma m128n8k96 e2m1 A 128B.K", "m128k768", "48 of 128 bytes of a line, and a later one leaves it"),
        ("tcgen05.mma m128n8k64 e3m2 A 128B.K", None, "how e3m2 with K of 64 is packed is figure-only: name one of 8"),
        ("tcgen05.mma.sp m128n8k16 f16 A 128B.K", None, "K of f16 is 16: it must be 32"),
        (
            "tcgen05.mma m128n8k8 tf32 A 128B.MN",
            None,
            "tf32 lies along M or N in 128B.atom32 alone, which is figure-only",
        ),
        ("tcgen05.mma.sp m128n8k32 u4 B 128B.K", None, "tcgen05.mma.sp has no A or B of u4"),
        ("tcgen05.mma m96n8k16 f16 A 128B.K", None, "M of f16 with K of 16 is 96: it must be 32, 64 or 128"),
        ("tcgen05.mma m256n16k16 f16 A 128B.K", None, "M of 256 lies in two blocks: name what one of them holds"),
        ("tcgen05.mma m128n24k32 e4m3 B 128B.MN", None, "N of e4m3 with M of 128 is 24: it must be 16, 32, .., 256"),
        ("tcgen05.mma m128n24k16 s8 B 128B.K", None, "K of s8 is 16: it must be 32"),
        ("tcgen05.mma m128n24k16 u4 B 128B.K", None, "tcgen05.mma has no A or B of u4"),
        ("tcgen05.mma m128n24k16 B 128B.K", None, "say the type of B: write tcgen05.mma m128n24k16 f16 B"),
        ("tcgen05.mma m128n24k16 f16 B", None, "say how B lies in shared memory: none.K, 32B.K"),
    ],
)
def test_what_cannot_be_says_what_would_be_right(operand, extents, why):
    with pytest.raises(lanemap.LanemapError, match=re.escape(why)):
        lanemap.Database.descriptor(operand, extents)


def test_reserved_bits_are_refused():
    for word, bits in ((1 << 14, "bit 14"), (3 << 14, "bits 14-15"), (1 << 46, "bit 46")):
        with pytest.raises(lanemap.LanemapError, match=f"0x{word:016x} is no descriptor: {bits} must be 0"):
            lanemap.Database.descriptor("m64n128k16 f16 B 128B.K", decode=word)
    for word, bits in ((0, "bit 46 must be 1"), (3 << 46, "bit 47 must be 0"), (1 << 46 | 1 << 61, "bit 61 must be 0")):
        with pytest.raises(lanemap.LanemapError, match=f"0x{word:016x} is no descriptor: {bits}"):
            lanemap.Database.descriptor("tcgen05.mma m64n128k16 f16 B 128B.K", decode=word)


@pytest.mark.parametrize("name", ["wgmma", "tcgen05.mma"])
def test_both_instructions_read_a_tile_alike_by_words_that_differ_in_a_constant(name):
    found = lanemap.Database.descriptor(f"{name} m64n128k16 f16 B 64B.MN", "n128k64")
    fields = {"leading": found.fields.leading, "stride": found.fields.stride, "swizzle": found.fields.mode}
    words = " ".join(f"{field}={value}" for field, value in fields.items())
    spelt = lanemap.Database.descriptor(f"tcgen05.mma shared {words}").word
    assert found.word == spelt & ~(0 if name == "tcgen05.mma" else 1 << 46)


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


@pytest.mark.parametrize(("narrow", "name"), [("e2m1", "16U4_ALIGN16B"), ("e3m2", "16U6_ALIGN16B")])
def test_narrow_elements_are_read_with_their_padding_as_bytes_are(narrow, name):
    operand, tile = "tcgen05.mma m128n8k32 {} A 128B.K", "m128k256"
    right = lanemap.Database.descriptor(operand.format(narrow), tile)
    assert right.word == lanemap.Database.descriptor(operand.format("e4m3"), tile).word
    assert f"tensor map: CU_TENSOR_MAP_DATA_TYPE_{name}, box 128 (k)" in str(right)
    for word in (right.word, right.word + 2, right.word + (1 << 33), right.word ^ 6 << 61):
        read, bytes_read = (
            lanemap.Database.descriptor(operand.format(of), tile, decode=word) for of in (narrow, "e4m3")
        )
        assert (read.verdict, read.reads.tolist()) == (bytes_read.verdict, bytes_read.reads.tolist())
    with pytest.raises(lanemap.LanemapError, match=f"{narrow} is K-major only"):
        lanemap.Database.descriptor(f"tcgen05.mma m128n8k32 {narrow} B 128B.MN")
