"""What threads do together: votes, reductions, matches, barriers with a result, and branches to one of several."""

import functools
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.db.errors import LanemapError

from ..modes import examples
from .conftest import computed, run

WARP = 32


def warps(values):
    """The values of each warp."""
    return [values[at : at + WARP] for at in range(0, len(values), WARP)]


@examples(40)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=70), st.integers(0, 2**32 - 1))
def test_lanes_that_hold_the_same(small, seed):
    a = np.array(small, "u4")
    others = np.random.default_rng(seed).integers(0, 2**32, len(small), "u4")
    same = computed("match.any.sync.b32 %d, %a, 0xffffffff;", "u32", {"a": a}).tolist()
    text = "match.all.sync.b32 %d|%p, %a, 0xffffffff; @!%p mov.u32 %d, 7;"
    every = computed(text, "u32", {"a": a}).tolist()
    text = "setp.gt.u32 %p, %a, 2; vote.sync.ballot.b32 %d, %p, 0xffffffff;"
    ballots = computed(text, "u32", {"a": a}).tolist()
    reduced = {
        name: computed(f"redux.sync.{name} %d, %a, 0xffffffff;", "u32", {"a": others}).tolist()
        for name in ("add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32")
    }
    fold = {"add": operator.add, "and": operator.and_, "or": operator.or_, "xor": operator.xor, "max": max}
    for first, values in zip(range(0, len(small), WARP), warps(small), strict=True):
        rest = others[first : first + WARP].tolist()
        for lane, value in enumerate(values):
            mask = sum(1 << at for at, other in enumerate(values) if other == value)
            assert same[first + lane] == mask
            assert every[first + lane] == (mask if mask == (1 << len(values)) - 1 else 7)
            assert ballots[first + lane] == sum(1 << at for at, other in enumerate(values) if other > 2)
            for name, found in reduced.items():
                operation = name.partition(".")[0]
                signed = [each - (1 << 32) * (each >> 31) for each in rest]
                expected = min(signed) if operation == "min" else functools.reduce(fold[operation], rest)
                assert found[first + lane] == expected & 0xFFFFFFFF, name


def test_least_and_greatest_floats():
    a = np.array([1.5, -3.0, np.nan, 2.0], "f4")
    for name, expected in {"min": -3.0, "max": 2.0, "max.abs": 3.0, "min.abs": 1.5}.items():
        got = computed(f"redux.sync.{name}.f32 %d, %a, 0xffffffff;", "f32", {"a": a})
        assert got.tolist() == [expected] * 4, name
        assert np.isnan(computed(f"redux.sync.{name}.NaN.f32 %d, %a, 0xffffffff;", "f32", {"a": a})).all()


@examples(30)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=100), st.integers(0, 10))
def test_barriers_that_count(values, limit):
    a = np.array(values, "u4")
    text = f"setp.lt.u32 %q, %a, {limit}; barrier.cta.red.popc.u32 %d, 0, %q; bar.red.and.pred %p, 1, %q;"
    text += " @%p add.u32 %d, %d, 1000; bar.red.or.pred %p, 0, !%q; @%p add.u32 %d, %d, 2000;"
    below = [value < limit for value in values]
    expected = sum(below) + 1000 * all(below) + 2000 * (not all(below))
    assert computed(text, "u32", {"a": a}).tolist() == [expected] * len(values)


def test_lanes_wait_for_those_that_others_name():
    """Lanes with other numbers of rounds meet in each: who is behind need not have named anybody yet."""
    text = """.reg .b32 %n, %m; mov.u32 %m, 0; and.b32 %n, %a, 3; setp.ne.u32 %p, %n, 0; @%p bra LATE;
    JOIN: mov.u32 %m, -1; shfl.sync.bfly.b32 %d, %a, 1, 31, %m; bra OVER;
    LATE: sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0; @%p bra LATE; bra JOIN; OVER:"""
    a = np.arange(32, dtype="u4")
    assert computed(text, "u32", {"a": a}).tolist() == (a ^ 1).tolist()


def test_who_arrives_at_a_barrier_tells_those_who_wait():
    text = """
.visible .entry hand(.param .u64 out) {
.reg .b64 %out; .reg .b32 %t, %s; .reg .pred %p; .shared .align 4 .b8 tile[128];
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %s, tile; setp.ge.u32 %p, %t, 32; @%p bra READS;
mad.lo.u32 %s, %t, 4, %s; st.shared.u32 [%s], %t; bar.arrive 1, 64; ret;
READS: bar.sync 1, 64; mad.lo.u32 %s, %t, 4, %s; ld.shared.u32 %t, [%s+-128]; mad.wide.u32 %out, %t, 4, %out;
st.global.u32 [%out], %t; ret; }"""
    found = run(text, ["out=u32[32]=0"], block=64)
    assert found.ok, found
    assert found.outputs["out"].tolist() == [*range(32)]
    late = run(
        text.replace("st.shared.u32 [%s], %t; bar.arrive 1, 64;", "bar.arrive 1, 64; st.shared.u32 [%s], %t;"),
        ["out=u32[32]=0"],
        block=64,
    )
    assert "race" in {each.kind for each in late.findings}


@pytest.mark.parametrize(("name", "right"), [("min", [-0.0, -2.0, 5.0, 1.0]), ("max", [0.0, 3.0, 5.0, 4.0])])
def test_several_halves_are_compared_in_memory(name, right):
    text = f"""
.visible .entry compare(.param .u64 in, .param .u64 out) {{
.reg .b64 %in, %out; .reg .b16 %h<4>; ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
ld.global.v4.b16 {{%h0, %h1, %h2, %h3}}, [%in];
red.global.{name}.noftz.v4.f16 [%out], {{%h0, %h1, %h2, %h3}}; ret; }}"""
    given_ = {"in": np.array([0.0, -2.0, np.nan, 4.0], "f2"), "out": np.array([-0.0, 3.0, 5.0, 1.0], "f2")}
    found = run(text, given_, block=1)
    assert found.ok, found
    assert found.outputs["out"].view("u2").tolist() == np.array(right, "f2").view("u2").tolist()


SIZES = """
.visible .entry size(.param .u64 out) { .reg .b64 %out; .reg .b32 %n, %at; .shared .align 16 .b8 tile[200];
ld.param.u64 %out, [out]; mov.u32 %n, NAME; st.global.u32 [%out], %n; st.shared.u32 [tile], %n;
mov.u32 %at, AT; ld.shared.u32 %n, [%at]; st.global.u32 [%out+4], %n; ret; }"""


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("%total_smem_size", 256 + 512),
        ("%dynamic_smem_size", 512),
        ("%aggr_smem_size", 256 + 512 + 1024),
        ("%reserved_smem_offset_begin", 0),
        ("%reserved_smem_offset_end", 1024),
        ("%reserved_smem_offset_cap", 1024),
    ],
)
def test_shared_memory_is_given_in_units_behind_what_is_reserved(name, size):
    text = SIZES.replace("NAME", name).replace("AT", "tile")
    assert run(text, ["out=u32[2]=0"], block=1, shared=512).outputs["out"].tolist() == [size, size]


@pytest.mark.parametrize("name", ["%reserved_smem_offset_1", "%tid.x"])
def test_reserved_shared_memory_is_for_those_that_ask_where_it_lies(name):
    found = run(SIZES.replace("NAME", name).replace("AT", "64"), ["out=u32[2]=0"], block=1)
    assert [each.kind for each in found.findings] == ([] if "reserved" in name else ["bounds"]), found


BRANCHES = """
.visible .entry choose(.param .u64 out, .param .u32 several) {
.reg .b64 %out; .reg .b32 %t, %r, %n; .reg .pred %p;
ld.param.u64 %out, [out]; ld.param.u32 %n, [several]; mov.u32 %t, %tid.x; rem.u32 %r, %t, %n;
mul.wide.u32 %out, %t, 4; { .reg .b64 %base; ld.param.u64 %base, [out]; add.u64 %out, %out, %base; }
TABLE: .branchtargets ZERO, ONE, TWO;
brx.idx %r, TABLE;
ZERO: mov.u32 %r, 10; bra.uni OVER;
ONE: mov.u32 %r, 11; bra.uni OVER;
TWO: mov.u32 %r, 12;
OVER: bar.sync 0; st.global.u32 [%out], %r; ret; }
"""


def test_a_branch_to_one_of_several():
    found = run(BRANCHES, ["out=u32[96]=0", "several=3"], block=96)
    assert found.ok, found
    assert found.outputs["out"].tolist() == [10 + thread % 3 for thread in range(96)]
    beyond = run(BRANCHES, ["out=u32[96]=0", "several=4"], block=96)
    assert "out of bounds: brx.idx to label 3 of 3" in " ".join(beyond.text().split())


PARTED = """
.visible .entry part() {{
.reg .b32 %t; .reg .pred %p;
mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 16;
@%p bra LOW;
{barrier} 0; bra OVER;
LOW: {barrier} 0;
OVER: ret; }}
"""


@pytest.mark.parametrize(
    ("barrier", "whole"),
    [("bar.sync", True), ("barrier.sync.aligned", True), ("barrier.sync", False), ("barrier.cta.sync", False)],
)
def test_a_barrier_that_takes_whole_warps(barrier, whole):
    found = run(PARTED.format(barrier=barrier), block=64)
    assert [each.kind for each in found.findings] == ["divergence"] * 2 * whole, found
    meet = (
        PARTED.format(barrier=barrier)
        .replace(f"LOW: {barrier} 0;\nOVER:", "LOW: OVER:")
        .replace(f"{barrier} 0; bra OVER;", "nanosleep.u32 1; bra OVER;")
    )
    assert run(meet.replace("ret;", f"{barrier} 0; ret;"), block=64).ok


OUTSIDE = """.visible .entry one() {{ .reg .b32 %t, %d, %m; .reg .pred %p, %q, %r;
mov.u32 %t, %tid.x; mov.u32 %m, {mask}; setp.lt.u32 %p, %t, 4;
{guard} {what}
ret; }}"""
NAMING = [
    "bar.warp.sync %m;",
    "shfl.sync.idx.b32 %d, %t, 0, 31, %m;",
    "vote.sync.ballot.b32 %d, %p, %m;",
    "match.any.sync.b32 %d, %t, %m;",
    "redux.sync.add.u32 %d, %t, %m;",
    "elect.sync %d|%q, %m;",
]


@pytest.mark.parametrize("what", NAMING)
@pytest.mark.parametrize(
    ("mask", "guard", "lane", "times"), [(-1, "", 0, 0), (~32, "", 5, 2), (15, "@%p", 0, 0), (12, "@%p", 0, 2)]
)
def test_a_lane_outside_of_its_own_mask_is_named(what, mask, guard, lane, times):
    found = run(OUTSIDE.format(what=what, mask=mask, guard=guard), block=64)
    named = f"divergence: a lane not in its mask executes {what.split()[0]}"
    words = f"{named} (line 3, warp 0, lane {lane}, {times} times)"
    assert [each.words for each in found.findings] == [words] * bool(times), found


def test_a_copy_whose_source_is_not_read():
    text = """
.visible .entry copy(.param .u64 in, .param .u64 out) {
.reg .b64 %in, %out, %at; .reg .b32 %t, %r, %s; .reg .pred %p;
.shared .align 16 .b8 tile[128];
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
mad.wide.u32 %at, %t, 4, %in; mul.lo.u32 %s, %t, 4; mov.u32 %r, tile; add.u32 %s, %s, %r;
setp.ge.u32 %p, %t, 5; cp.async.ca.shared.global [%s], [%at], 4, %p; cp.async.wait_all;
ld.shared.u32 %r, [%s]; mad.wide.u32 %at, %t, 4, %out; st.global.u32 [%at], %r; ret; }"""
    found = run(text, {"in": np.arange(1, 6, dtype="u4"), "out": "u32[32]=9"})
    assert found.ok, found  # what is beyond the source is not read
    assert found.outputs["out"].tolist() == [1, 2, 3, 4, 5] + [0] * 27


def test_bytes_keep_their_origin_through_shifts_that_cut_none():
    """Codes of four bits in bytes of their own, which a product takes two bits higher (9.7.16.5.14)."""
    text = """
.visible .entry move(.param .u64 in, .param .u64 out) {
.reg .b64 %in, %out; .reg .b32 %r;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
ld.global.u32 %r, [%in]; shl.b32 %r, %r, 2; shr.u32 %r, %r, 2; st.global.u32 [%out], %r; ret; }"""
    given_ = {"a": np.array([3, 5, 7, 9], "u1"), "b": "u8[4]=0"}
    assert run(text, given_, "b[i] = a[i]", block=1).ok
    other = run(text.replace("shl.b32 %r, %r, 2;", "shl.b32 %r, %r, 10;"), given_, "b[i] = a[i]", block=1)
    assert "b[0] is 0, and must be 3" in other.text() or "b[1] has the sum" in other.text(), other


def test_blocks_know_their_cluster(nvcc):
    text = nvcc("cluster", "sm_90")
    (entry,) = (word for word in text.split() if "ranks" in word and word.endswith("("))
    found = run(text, ["out=s32[4,6]"], block=1, grid=(6, 4, 1), entry=entry[:-1])
    assert found.ok, found
    y, x = np.indices((4, 6)) % 2
    assert np.array_equal(found.outputs["out"], (2 * y + x) * 1000 + 400 + y * 10 + x)
    with pytest.raises(LanemapError, match="clusters have 2x2x1 blocks: a grid has whole ones"):
        run(text, ["out=s32[4,6]"], block=1, grid=(6, 3, 1), entry=entry[:-1])


def test_blocks_of_a_cluster_wait_for_each_other(nvcc):
    """What one wrote before it arrived is there for others, unless it arrives relaxed. None waits for what ended."""
    arrays = ["in=f32[4,2,64]", "between=f32[4,2,64]", "out=f32[4,2,64]"]
    for relaxed in ("", ".relaxed"):
        text = nvcc("cluster", "sm_90", f'RELAXED="{relaxed}"')
        (entry,) = (word for word in text.split() if "passed" in word and word.endswith("("))
        found = run(text, arrays, block=64, grid=(2, 4, 1), entry=entry[:-1])
        assert found.ok == (not relaxed), found
        assert (found.text().startswith("race: ld reads what st of cluster.cu:")) == bool(relaxed)
        if found.ok:
            from_other = found.outputs["between"].reshape(4, 2, 64)[[1, 0, 3, 2]]
            assert np.array_equal(found.outputs["out"].reshape(4, 2, 64), from_other)
    found = run(
        nvcc("cluster", "sm_90"),
        [each.replace("4,2", "4,4") for each in arrays],
        block=64,
        grid=(4, 4, 1),
        entry=entry[:-1],
    )
    assert found.ok, found


def test_memory_of_another_block_is_named(nvcc):
    text = nvcc("cluster", "sm_90")
    (entry,) = (word for word in text.split() if "neighbours" in word and word.endswith("("))
    found = run(text, ["out=s32[64]"], grid=2, entry=entry[:-1])
    assert not found.ok
    assert "memory of other blocks of the cluster is not run" in found.text().replace("\n  ", " ")


def test_a_cluster_may_have_one_extent_and_other_directives_behind_it():
    text = """.version 8.7
.target sm_90
.address_size 64
.visible .entry ranks(.param .u64 out) .reqnctapercluster 2 .maxntid 8, 1, 1
{ .reg .b64 %out, %at; .reg .b32 %r, %n; ld.param.u64 %out, [out]; mov.u32 %r, %ctaid.x;
mad.wide.u32 %at, %r, 4, %out; mov.u32 %n, %cluster_nctarank; st.global.u32 [%at], %n; ret; }"""
    found = run(text, ["out=s32[4]"], block=1, grid=4)
    assert found.outputs["out"].tolist() == [2] * 4, found


def test_the_zero_that_a_sum_begins_with_is_no_product_that_it_must_not_have():
    text = """.version 8.7
.target sm_90
.address_size 64
.visible .entry twice(.param .u64 a, .param .u64 b, .param .u64 c)
{ .reg .b64 %a, %b, %c; .reg .f32 %x, %y; ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c];
ld.global.f32 %x, [%a]; ld.global.f32 %y, [%b]; mul.f32 %x, %x, %y; red.global.add.f32 [%c], %x;
red.global.add.f32 [%c], %x; ret; }"""
    given_ = {"a": np.array([3], "f4"), "b": np.array([5], "f4")}
    found = run(text, {**given_, "c": "f32[1]=0"}, "c[i] = a[i] b[i]", block=1)
    assert "c[0] adds a[0] x b[0] 2 times" in found.text(), found
    found = run(text, {**given_, "c": "f32[1]=1"}, "c[i] = a[i] b[i]", block=1)
    assert "c[0] adds c[0] (1 of 3 products are not its own)" in found.text(), found


APART = """
.visible .entry apart() {{
.reg .b32 %t, %n; .reg .pred %p; mov.u32 %t, %tid.x; mov.u32 %n, 0; and.b32 %t, %t, {bit}; setp.ne.u32 %p, %t, 0;
@%p bra MEET;
A: add.u32 %n, %n, 1; setp.lt.u32 %p, %n, {before}; @%p bra A;
MEET: {meets} mov.u32 %n, 0;
B: add.u32 %n, %n, 1; setp.lt.u32 %p, %n, {behind}; @%p bra B;
ret; }}"""


@pytest.mark.parametrize("before", [5, 16, 40])
@pytest.mark.parametrize(("meets", "bit"), [("bar.sync 0;", 32), ("bar.sync 0;", 1), ("bar.warp.sync -1;", 1)])
def test_threads_that_have_met_go_round_together(before, meets, bit):
    """Where some went round more loops before, no instruction of a loop behind is executed again for the others."""

    def steps(behind):
        found = run(APART.format(before=before, behind=behind, meets=meets, bit=bit), block=64)
        assert found.ok, found
        return int(found.counts.partition(" steps")[0])

    assert steps(100) - steps(1) == 3 * 99
