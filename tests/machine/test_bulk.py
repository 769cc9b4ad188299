"""Boxes of tensors in shared memory: where a definition of one line says that each byte lies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemap.capture.machine.memory import MappedTensor

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


@settings(max_examples=30)
@given(st.data())
def test_a_box_lies_where_its_map_says(data):
    rank = data.draw(st.integers(1, 5))
    mode = data.draw(st.sampled_from(list(SPANS)))
    line = 16 * data.draw(st.integers(1, SPANS[mode] // 16))
    outer = [data.draw(st.integers(1, 3)) for _ in range(rank - 1)]
    shape = [*(data.draw(st.integers(1, 4)) for _ in outer), 16 * data.draw(st.integers(1, 4))]
    start = [data.draw(st.integers(-2, 3)) for _ in outer] + [16 * data.draw(st.integers(-1, 2))]
    tensor = np.random.default_rng(0).integers(1, 256, shape, np.uint8)
    box = [*outer, line]
    bytes_ = int(np.prod(box))
    pitch = line if mode == "none" else SPANS[mode]  # as an H200 has it
    size = bytes_ // line * pitch
    text = KERNEL.format(rank=rank, bytes=bytes_, size=size, at=", ".join(map(str, reversed(start))))
    swizzle = "" if mode == "none" else f",swizzle={mode}"
    given_ = {"T": tensor, "map": f"map(T,box={'x'.join(map(str, box))}{swizzle})", "out": f"u8[{size}]=0"}
    found = run(text, given_).outputs["out"]
    expected = np.zeros(16384, np.uint8)
    for count, place in enumerate(np.ndindex(*box)):
        number = count // line * pitch + count % line
        at = tuple(np.add(place, start))
        inside = all(0 <= one < extent for one, extent in zip(at, shape, strict=True))
        bits = {16: 0, 32: 1, 64: 3, 128: 7}[SPANS[mode]]
        expected[number ^ (number >> 7 & bits) << 4] = tensor[at] if inside else 0
    assert np.array_equal(found, expected[:size])


def test_units_outside_of_a_tensor_are_marked():
    place, inside = MappedTensor(0, (4, 32), 16, (2, 16), "none").units(np.array([3, 24]))
    assert inside.tolist() == [True, False, False, False]
    assert place[0] == (3 * 32 + 24) * 2


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
