"""Boxes of tensors in shared memory: where a definition of one line says that each byte lies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemap import LanemapError

from .conftest import run

SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
KERNEL = """
.visible .entry copy(.param .align 64 .b8 map[128], .param .u64 out) {{
.reg .b32 %t, %to, %n; .reg .b64 %map, %out, %from; .reg .pred %p, %q; .shared .align 1024 .b8 tile[16384];
.shared .b64 full;
mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; mov.u32 %to, tile;
@%p bra WAIT;
mbarrier.init.shared.b64 [full], 1;
mov.b64 %map, map; cvta.param.u64 %map, %map;
mbarrier.arrive.expect_tx.shared.b64 _, [full], {bytes};
cp.async.bulk.tensor.{rank}d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%map, {{{at}}}], [full];
WAIT:
bar.sync 0;
AGAIN: mbarrier.try_wait.parity.shared.b64 %q, [full], 0; @!%q bra AGAIN;
ld.param.u64 %out, [out];
LOOP: add.u32 %n, %to, %t; ld.shared.u8 %n, [%n]; cvt.u64.u32 %from, %t; add.u64 %from, %from, %out;
st.global.u8 [%from], %n; add.u32 %t, %t, 32; setp.lt.u32 %p, %t, {size}; @%p bra LOOP;
ret; }}
"""


def of_map(array, box, **parts):
    """A tensor map as an argument; numbers are extents."""
    written = {"box": box, **parts}
    each = [f"{name}={'x'.join(map(str, of)) if not isinstance(of, str) else of}" for name, of in written.items() if of]
    return f"map({array}, {', '.join(each)})"


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data())
def test_a_box_lies_where_its_map_says(data):
    """Of a tensor with other extents and strides than its array, also with every so many rows, and filled with NaN."""
    rank = data.draw(st.integers(1, 5))
    mode = data.draw(st.sampled_from(list(SPANS)))
    line = 16 * data.draw(st.integers(1, SPANS[mode] // 16))
    outer = [data.draw(st.integers(1, 3)) for _ in range(rank - 1)]
    every = [*(data.draw(st.integers(1, 3)) for _ in outer), 1]
    shape = [*(data.draw(st.integers(1, 4)) for _ in outer), 4 * data.draw(st.integers(1, 16))]
    strides, end = [1], shape[-1]
    for extent in reversed(shape[:-1]):
        stride = -(-end // 16) * 16 + 16 * data.draw(st.integers(0, 1))
        strides, end = [stride, *strides], stride * (extent - 1) + end
    start = [data.draw(st.integers(-2, 3)) for _ in outer] + [16 * data.draw(st.integers(-1, 2))]
    array, nan = np.random.default_rng(0).integers(1, 100, end, np.uint8), data.draw(st.booleans())
    width = 4 if nan else 1  # of f32, whose elements are those of four bytes
    box = [-(-extent // step) for extent, step in zip((*outer, line), every, strict=True)]
    bytes_ = int(np.prod(box))
    pitch = line if mode == "none" else SPANS[mode]  # as an H200 has it
    size = bytes_ // line * pitch
    at = [*start[:-1], start[-1] // width]
    text = KERNEL.format(rank=rank, bytes=bytes_, size=size, at=", ".join(map(str, reversed(at))))

    def elements(counts):
        return [*counts[:-1], counts[-1] // width]

    map_ = of_map(
        "T",
        elements([*outer, line]),
        swizzle="" if mode == "none" else mode,
        shape=elements(shape),
        strides=[*(each // width for each in strides[:-1]), 1],
        every=every,
        fill="nan" * nan,
    )
    tensor = np.resize(array, -(-end // 4) * 4).view("f4") if nan else array
    found = run(text, {"T": tensor, "map": map_, "out": f"u8[{size}]=0"}).outputs["out"]
    expected = np.zeros(16384, np.uint8)
    for count, place in enumerate(np.ndindex(*box)):
        number = count // line * pitch + count % line
        at = np.add(np.multiply(place, every), start)
        inside = all(0 <= one < extent for one, extent in zip(at, shape, strict=True))
        filled = (0xF7, 0x7F)[count % 2] if nan else 0
        bits = {16: 0, 32: 1, 64: 3, 128: 7}[SPANS[mode]]
        expected[number ^ (number >> 7 & bits) << 4] = array[at @ strides] if inside else filled
    assert np.array_equal(found, expected[:size])


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data())
def test_pixels_lie_where_a_walk_finds_them(data):
    """One after the other, each dimension from its lower corner to its upper one, then the next (5.5.4)."""
    shape = [data.draw(st.integers(1, 3)), *data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)), 32]
    inner = shape[1:-1]
    lower = [data.draw(st.integers(-2, extent - 1)) for extent in inner]
    upper = [data.draw(st.integers(low + 1 - extent, 2)) for low, extent in zip(lower, inner, strict=True)]
    ends = [extent + high for extent, high in zip(inner, upper, strict=True)]
    every = [1, *(data.draw(st.integers(1, 3)) for _ in inner), 1]
    start = [data.draw(st.integers(low, end - 1)) for low, end in zip(lower, ends, strict=True)]
    first, channel = data.draw(st.integers(-1, shape[0])), 16 * data.draw(st.integers(-1, 2))
    offsets = [data.draw(st.integers(0, 3)) for _ in inner]
    pixels, array = data.draw(st.integers(1, 40)), np.random.default_rng(0).integers(1, 100, shape, np.uint8)
    at = ", ".join(map(str, [channel, *reversed(start), first]))
    text = KERNEL.replace(".tile.", ".im2col.").replace("[full];\nWAIT", "[full], {{{offsets}}};\nWAIT")
    text = text.format(
        rank=len(shape), bytes=32 * pixels, size=32 * pixels, at=at, offsets=", ".join(map(str, reversed(offsets)))
    )
    map_ = of_map("T", (pixels, 32), lower=lower, upper=upper, every=every)
    found = run(text, {"T": array, "map": map_, "out": f"u8[{32 * pixels}]=0"})
    assert found.ok, found
    place, expected = [first, *start], []
    for _ in range(pixels):
        moved = np.add(place, [0, *offsets])
        for one in range(channel, channel + 32):
            inside = all(0 <= each < extent for each, extent in zip((*moved, one), shape, strict=True))
            expected.append(array[(*moved, one)] if inside else 0)
        for axis in range(len(inner), 0, -1):
            place[axis] += every[axis]
            if place[axis] < ends[axis - 1]:
                break
            place[axis] = lower[axis - 1]
        else:
            place[0] += 1
    assert found.outputs["out"].tolist() == expected


@pytest.mark.parametrize(
    ("at", "lower", "upper", "loads", "words"),
    [
        ((0, 1), 1, 0, True, ""),
        ((0, -1), -1, 1, True, ""),
        ((0, 0), 1, 0, True, "begins at 0 of a dimension whose pixels are 1 to 3"),
        ((0, 3), 0, -1, True, "begins at 3 of a dimension whose pixels are 0 to 2"),
        ((0, 1), 0, 0, False, ""),
        ((0, 1), 0, 1, False, "the corners of its map lie outside of the tensor"),
        ((0, 1), -1, 0, False, "the corners of its map lie outside of the tensor"),
    ],
)
def test_what_a_card_refuses_of_pixels(at, lower, upper, loads, words):
    """As an H200 does: it ended kernels with an illegal instruction."""
    place = f"0, {at[1]}, {at[0]}"
    if loads:
        text = KERNEL.replace(".tile.", ".im2col.").replace("[full];\nWAIT", "[full], {{0}};\nWAIT")
        text = text.format(rank=3, bytes=32, size=32, at=place)
    else:
        text = STORED.replace("2d", "3d").format(how="", operation=".im2col_no_offs", at=place)
    given_ = {"T": np.zeros((3, 4, 32), "u1"), "map": of_map("T", (1, 32), lower=[lower], upper=[upper])}
    given_ |= {"out": "u8[32]=0"} if loads else {}
    found = run(text, given_, block=32 if loads else 1)
    assert words in " ".join(str(found).split()), found
    assert found.ok == (not words), found


@pytest.mark.parametrize("offsets", ["0", "0, 0, 0"])
def test_pixels_have_one_offset_for_each_dimension_between(offsets):
    text = KERNEL.replace(".tile.", ".im2col.").replace("[full];\nWAIT", f"[full], {{{{{offsets}}}}};\nWAIT")
    given_ = {"T": "u8[2,4,4,32]", "map": of_map("T", (1, 32), lower=(0, 0), upper=(0, 0)), "out": "u8[32]=0"}
    found = run(text.format(rank=4, bytes=32, size=32, at="0, 0, 0, 0"), given_)
    assert "is not known with these operands" in found.notes[0], found


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"shape": (4, 30), "strides": (32, 1), "every": (2, 1), "fill": "nan"}, ""),
        ({"shape": (2, 2, 32), "box": (2, 2, 8)}, ""),
        ({"shape": (3, 4, 8), "strides": (8, 32, 1), "box": (2, 2, 8)}, ""),
        ({"strides": (32,)}, "box, strides and every have 2 numbers, and at most 5"),
        ({"every": (1, 1, 1)}, "box, strides and every have 2 numbers"),
        ({"shape": (4, 0)}, "all extents are above 0"),
        ({"strides": (30, 1)}, "strides are multiples of 16 bytes, and the last is 1"),
        ({"strides": (32, 2)}, "strides are multiples of 16 bytes, and the last is 1"),
        ({"every": (9, 1)}, "every has numbers from 1 to 8, and the last is 1"),
        ({"every": (0, 1)}, "every has numbers from 1 to 8, and the last is 1"),
        ({"every": (1, 2)}, "every has numbers from 1 to 8, and the last is 1"),
        ({"strides": (64, 1)}, "it reaches element 223, and T has 128"),
        ({"shape": (4, 33), "strides": (32, 1)}, "it reaches element 128, and T has 128"),
        ({"lower": (0,), "upper": (0,)}, "its box has 2 numbers, strides and every 2, lower and upper 0"),
        ({"shape": (2, 2, 32), "lower": (0,)}, "its box has 2 numbers, strides and every 3, lower and upper 1"),
        ({"shape": (2, 2, 32), "lower": (0,), "upper": (-2,)}, "and there are pixels between them"),
        ({"shape": (2, 2, 32), "lower": (-40000,), "upper": (0,)}, "its corners are from -32768 to 32767, and"),
        (
            {"shape": (2, 2, 32), "lower": (0,), "upper": (0,), "every": (2, 1, 1)},
            "every has 1 for the first dimension",
        ),
        ({"shape": (2, 2, 32), "lower": (0,), "upper": (0,), "box": (1025, 8)}, "extents at most 1024"),
        ({"fill": "zero"}, "interleaved ones are not run"),
        ({"interleave": "16B"}, "interleaved ones are not run"),
        ({"box": ()}, "is no tensor map"),
    ],
)
def test_a_map_that_no_driver_takes_is_named(parts, words):
    given_ = {"T": "f16[4,32]", "map": of_map("T", parts.pop("box", (2, 8)), **parts), "out": "u8[32]=0"}
    if not words:
        rank = given_["map"].partition("shape=")[2].partition(",")[0].count("x") + 1
        run(KERNEL.format(rank=rank, bytes=32, size=32, at=", ".join(["0"] * rank)), given_)
        return
    with pytest.raises(LanemapError, match=words):
        run(KERNEL.format(rank=2, bytes=32, size=32, at="0, 0"), given_)


@pytest.mark.parametrize(("own", "how"), [({"lower": (0,), "upper": (0,)}, "tiled"), ({}, "im2col")])
def test_a_copy_has_a_map_of_its_kind(own, how):
    given_ = {"T": "u8[3,4,32]", "map": of_map("T", (1, 32) if own else (1, 1, 32), **own), "out": "u8[32]=0"}
    text = KERNEL.format(rank=3, bytes=32, size=32, at="0, 0, 0")
    if how == "im2col":
        text = text.replace(".tile.", ".im2col.").replace("[full];\nWAIT", "[full], {0};\nWAIT")
    assert f"with 3 coordinates names no {how} tensor map of so many" in " ".join(str(run(text, given_)).split())


def test_whole_numbers_are_not_filled_with_nan():
    given_ = {"T": "u32[4,32]", "map": "map(T,box=2x8,fill=nan)", "out": "u8[32]=0"}
    with pytest.raises(LanemapError, match="map, a map of T: fill=nan: u32 has no such number"):
        run(KERNEL.format(rank=2, bytes=64, size=32, at="0, 0"), given_)


def test_what_is_stored_leaves_what_lies_between_rows_and_elements():
    text = STORED.format(how="", operation="", at="0, 0").replace(
        "mov.b64 %map", "st.shared.b32 [tile], 0; mov.b64 %map"
    )
    given_ = {"T": np.full(128, 7, "u1"), "map": "map(T,box=4x16,shape=8x12,strides=16x1,every=2x1)"}
    left = run(text, given_, block=1).outputs["T"].reshape(8, 16)
    assert (left[:4:2, :12] == 0).all()
    assert (left[1::2] == 7).all()
    assert (left[:, 12:] == 7).all()
    assert (left[4:] == 7).all()


@pytest.mark.parametrize(("size", "words"), [(24, "24 bytes, which is no multiple of 16"), (64, "no race")])
def test_bytes_that_are_copied(size, words):
    text = f"""
.visible .entry copy(.param .u64 from, .param .u64 out) {{
.reg .b64 %from, %out; .reg .pred %q; .reg .b32 %r; .shared .align 16 .b8 tile[64]; .shared .b64 full;
ld.param.u64 %from, [from]; ld.param.u64 %out, [out];
mbarrier.init.shared.b64 [full], 1;
mbarrier.arrive.expect_tx.shared.b64 _, [full], {size};
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%from], {size}, [full];
AGAIN: mbarrier.try_wait.parity.shared.b64 %q, [full], 0; @!%q bra AGAIN;
cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], {size};
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
ret; }}"""
    found = run(text, ["a=u8[64]", "b=u8[64]=0"], "b[i] = a[i]", block=1)
    assert words in " ".join(found.text().split())
    assert found.ok == (size == 64)


@pytest.mark.parametrize(("at", "size", "right"), [(0, 16, True), (8, 16, False), (8, 8, False), (4, 0, True)])
def test_a_copy_begins_at_a_multiple_of_its_size(at, size, right):
    # On an H200 it faults, or copies from elsewhere, though it reads fewer bytes.
    text = f"""
.visible .entry copy(.param .u64 from, .param .u64 out) {{
.reg .b64 %from, %out; .reg .b32 %r, %size; .shared .align 16 .b8 tile[16];
ld.param.u64 %from, [from]; ld.param.u64 %out, [out]; mov.u32 %size, {size};
cp.async.cg.shared.global [tile], [%from+{at}], 16, %size; cp.async.wait_all;
ld.shared.b32 %r, [tile]; st.global.b32 [%out], %r; ret; }}"""
    found = run(text, ["a=u8[64]", "b=u32[1]=0"], block=1)
    assert found.ok == right, found
    assert right or "is not aligned to 16 bytes" in " ".join(found.text().split())


STORED = """
.visible .entry store(.param .align 64 .b8 map[128]) {{
.reg .b64 %map; .shared .align 128 .b8 tile[1024];
mov.b64 %map, map; cvta.param.u64 %map, %map;
cp{how}.async.bulk.tensor.2d.global.shared::cta{operation}.bulk_group [%map, {{{at}}}], [tile];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret; }}
"""


@pytest.mark.parametrize("grid", [(1, 1), (2, 4)])
@pytest.mark.parametrize(
    ("waits", "words"),
    [
        ("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;", ""),
        ("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;", ""),
        ("cp.async.bulk.commit_group; cp.async.bulk.wait_group 1;", "wait for its group (line"),
        ("cp.async.bulk.commit_group;", "may still read shared memory when its block ends"),
        ("cp.async.bulk.wait_group 0;", "may still read shared memory when its block ends"),
    ],
)
def test_a_block_waits_for_copies_of_its_memory_before_it_ends(waits, words, grid):
    text = STORED.format(how="", operation="", at="0, 0").partition("cp.async.bulk.commit")[0]
    text = text.replace("mov.b64 %map, map", "st.shared.b32 [tile], 0; fence.proxy.async; mov.b64 %map, map")
    text = text.replace("{\n", ".reqnctapercluster 2, 2\n{\n" if grid == (2, 4) else "{\n", 1)
    given_ = {"T": np.zeros(128, "u1"), "map": "map(T,box=1x16,shape=8x16)"}
    found = run(f"{text}{waits} ret; }}", given_, block=1, grid=(*grid, 1))
    assert words in " ".join(str(found).split()), found
    assert found.ok == (not words), found


@pytest.mark.parametrize(
    ("at", "operation", "type_", "words"),
    [
        ("8, 0", "", "f16", ""),
        ("4, 0", "", "f16", "its first coordinate is 4, which is 8 bytes: write a multiple of 16"),
        ("-4, 0", ".add", "f32", "its coordinate 1 is -4: only loads"),
        ("0, -1", "", "f16", "its coordinate 2 is -1: only loads"),
        ("-8, 0", "", "f16", "its coordinate 1 is -8: only loads"),
        ("0, 5", "", "f16", ""),
        ("0, 0", ".and", "s64", "reduces s64 by min and max alone"),
        ("0, 0", ".and", "int64", "reduces s64 by min and max alone"),
        ("0, 0", ".max", "s64", ""),
        ("0, 0", ".and", "u64", ""),
    ],
)
def test_a_box_that_a_card_refuses_is_named(at, operation, type_, words):
    """Where an H200 ends a kernel with an illegal instruction; what has no words it executes."""
    text = STORED.format(how=".reduce" * bool(operation), operation=operation, at=at)
    given_ = {"T": f"{type_}[4,32]=0", "map": "map(T,box=2x8)"}
    findings = run(text, given_, block=1).findings
    said = [" ".join(each.words.split()) for each in findings if "what nobody wrote" not in each.words]
    assert (words in " ".join(said)) if words else not said, said


@pytest.mark.parametrize(("at", "right"), [("16, -1", True), ("-16, 0", True), ("8, 0", False), ("-4, 0", False)])
def test_a_box_is_loaded_from_whole_units_also_before_its_tensor(at, right):
    text = KERNEL.format(rank=2, bytes=32, size=32, at=at)
    given_ = {"T": "u8[4,64]", "map": "map(T,box=2x16)", "out": "u8[32]=0"}
    found = run(text, given_)
    assert found.ok == right, found
    assert right or "write a multiple of 16" in " ".join(found.text().split())
