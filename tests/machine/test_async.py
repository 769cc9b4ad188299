"""Reductions in bulk, copies to the block itself by its number in the cluster, stores that complete on a mbarrier."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..modes import examples
from .conftest import run

OPERATIONS = {
    "add": operator.add,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "inc": lambda old, new: 0 if old >= new else old + 1,
    "dec": lambda old, new: new if old == 0 or old > new else old - 1,
}
TAKES = {
    "add": ["u32", "s32", "u64", "f32", "f64", "f16", "bf16"],
    "min": ["u32", "s32", "u64", "s64", "f16", "bf16"],
    "max": ["u32", "s32", "u64", "s64", "f16", "bf16"],
    **{name: ["b32", "b64"] for name in ("and", "or", "xor")},
    **{name: ["u32"] for name in ("inc", "dec")},
}
CASES = [(operation, type_) for operation, types in TAKES.items() for type_ in types]
REDUCE = """
.visible .entry reduce({parameters}) {{
.reg .b64 %in, %out; .reg .b32 %t, %s, %v; .reg .pred %p; .shared .align 128 .b8 tile[1024];
ld.param.u64 %in, [in]; mov.u32 %t, %tid.x; mov.u32 %s, tile; mad.lo.u32 %s, %t, 4, %s;
mad.wide.u32 %in, %t, 4, %in; ld.global.u32 %v, [%in]; st.shared.u32 [%s], %v;
fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p, %t, 0; @%p bra OVER;
{copy}
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
OVER: ret; }}
"""
BYTES = """ld.param.u64 %out, [out];
cp.reduce.async.bulk.global.shared::cta.bulk_group.{name} [%out], [tile], 128;"""
BOX = """mov.b64 %out, map; cvta.param.u64 %out, %out;
cp.reduce.async.bulk.tensor.2d.global.shared::cta.{name}.tile.bulk_group [%out, {{0, 1}}], [tile];"""


def numbers(type_, random, count):
    """Small ones, which every type has exactly."""
    width = {"b": "u", "f": "f", "u": "u", "s": "i"}[type_[0]]
    values = random.integers(-4 if type_[0] in "sf" or type_ == "bf16" else 0, 9, count)
    return values, values.astype(f"{width}{int(type_.strip('bfus')) // 8}") if type_ != "bf16" else values


def bits(type_, values):
    """As words of 32 bits."""
    if type_ == "bf16":
        return (values.astype("f4").view("u4") >> 16).astype("u2").view("u4")
    return values.view("u4")


@examples(40)
@given(st.sampled_from(CASES), st.integers(0, 2**32 - 1))
def test_what_is_there_and_what_is_copied_make(case, seed):
    operation, type_ = case
    random, count = np.random.default_rng(seed), 1024 // int(type_.strip("bfus"))
    (plain_old, old), (plain_new, new) = (numbers(type_, random, count) for _ in range(2))
    name = f"{operation}.{'noftz.' if operation == 'add' and type_ in ('f16', 'bf16') else ''}{type_}"
    text = REDUCE.format(parameters=".param .u64 in, .param .u64 out", copy=BYTES.format(name=name))
    found = run(text, {"in": bits(type_, new), "out": bits(type_, old)})
    assert found.ok, found
    expected = [
        OPERATIONS[operation](one, other) for one, other in zip(plain_old.tolist(), plain_new.tolist(), strict=True)
    ]
    wanted = np.array(expected).astype(old.dtype)
    assert np.array_equal(found.outputs["out"], bits(type_, wanted)), (operation, type_)


@pytest.mark.parametrize("type_", ["f32", "f16", "s32"])
def test_a_box_is_added(type_):
    size = {"f32": 8, "s32": 8, "f16": 16}[type_]
    given_ = {"T": f"{type_}[4,{size}]=3", "map": f"map(T,box=2x{size})", "in": "u32[32]"}
    random = np.random.default_rng(1)
    _, new = numbers(type_, random, 2 * size)
    given_["in"] = np.concatenate([bits(type_, new), np.zeros(32 - new.nbytes // 4, "u4")])
    parameters = ".param .align 64 .b8 map[128], .param .u64 in"
    found = run(REDUCE.format(parameters=parameters, copy=BOX.format(name="add")), given_)
    assert found.ok, found
    expected = np.full((4, size), 3, new.dtype)
    expected[1:3] += new.reshape(2, size)
    assert np.array_equal(found.outputs["T"], expected)
    beyond = BOX.format(name="add").replace("{0, 1}", "{0, 4}")
    found = run(REDUCE.format(parameters=parameters, copy=beyond), given_)
    assert found.ok, found
    assert (found.outputs["T"] == 3).all()


def test_a_token_says_how_many_arrivals_a_phase_lacked():
    text = """
.visible .entry count(.param .u64 out) {
.reg .b64 %out, %s; .reg .b32 %n; .reg .pred %p; .shared .align 8 .b64 bar;
ld.param.u64 %out, [out]; mbarrier.init.shared.b64 [bar], 5;
mbarrier.arrive.noComplete.shared.b64 %s, [bar], 2; mbarrier.pending_count.b64 %n, %s; st.global.u32 [%out], %n;
mbarrier.arrive_drop.shared.b64 %s, [bar]; mbarrier.pending_count.b64 %n, %s; st.global.u32 [%out+4], %n;
mbarrier.arrive.shared.b64 %s, [bar], 2; mbarrier.pending_count.b64 %n, %s; st.global.u32 [%out+8], %n;
mbarrier.test_wait.shared.b64 %p, [bar], %s; selp.u32 %n, 1, 0, %p; st.global.u32 [%out+12], %n;
mbarrier.arrive.shared.b64 %s, [bar]; mbarrier.pending_count.b64 %n, %s; st.global.u32 [%out+16], %n; ret; }"""
    assert run(text, ["out=u32[5]=9"], block=1).outputs["out"].tolist() == [5, 3, 2, 1, 4]


def test_blocks_add_without_a_race_and_copies_race():
    text = REDUCE.format(parameters=".param .u64 in, .param .u64 out", copy=BYTES.format(name="add.u32"))
    given_ = {"in": np.arange(32, dtype="u4"), "out": "u32[32]=0"}
    found = run(text, given_, grid=3)
    assert found.ok, found
    assert found.outputs["out"].tolist() == [3 * each for each in range(32)]
    copied = (
        text.replace("cp.reduce", "cp")
        .replace(".add.u32", "")
        .replace("%v, [%in];", "%v, [%in]; add.u32 %v, %v, %ctaid.x;")
    )
    assert "race" in {
        each.kind
        for each in run(
            copied.replace(", %ctaid.x", ", %c")
            .replace(".reg .b32 %t,", ".reg .b32 %c, %t,")
            .replace("ld.param.u64 %in", "mov.u32 %c, %ctaid.x; ld.param.u64 %in", 1),
            given_,
            grid=3,
        ).findings
    }


MOVES = """
.visible .entry move(.param .u64 in, .param .u64 out) {{
.reg .b64 %in, %out, %at; .reg .b32 %t, %s, %v, %w, %o; .reg .b16 %m; .reg .pred %p, %q;
.shared .align 128 .b8 tile[256]; .shared .align 8 .b64 full;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; mov.b16 %m, {mask};
@!%p mbarrier.init.shared.b64 [full], 1;
@!%p mbarrier.arrive.expect_tx.shared.b64 _, [full], {bytes};
bar.sync 0;
{move}
AGAIN: mbarrier.try_wait.parity.shared.b64 %q, [full], 0; @!%q bra AGAIN;
mov.u32 %s, tile; mad.lo.u32 %s, %t, 4, %s; xor.b32 %s, %s, 4; ld.shared.u32 %v, [%s];
mad.wide.u32 %at, %t, 4, %out; st.global.u32 [%at], %v; ret; }}
"""
MULTICAST = """@!%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
[tile], [%in], 128, [full], %m;"""
STORE = """mov.u32 %s, tile; mad.lo.u32 %s, %t, 4, %s; mapa.shared::cluster.u32 %o, %s, 0;
mad.wide.u32 %at, %t, 4, %in; ld.global.u32 %w, [%at];
st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%o], %w, [full];"""
WHOLE = {"in": np.arange(7, 39, dtype="u4"), "out": "u32[32]=0"}


@pytest.mark.parametrize("move", [MULTICAST, STORE])
def test_what_completes_on_a_mbarrier_is_there_after_a_wait(move):
    text = MOVES.format(move=move, bytes=128, mask=1)
    found = run(text, WHOLE)
    assert found.ok, found
    assert found.outputs["out"].tolist() == [7 + (lane ^ 1) for lane in range(32)]
    assert "phase 0 of the mbarrier lacks 0 arrivals and 4 bytes" in " ".join(
        run(text.replace(", 128;\nbar", ", 132;\nbar"), WHOLE).text().split()
    )
    early = run(
        text.replace("AGAIN:", "bra OVER; AGAIN:").replace(
            "mov.u32 %s, tile; mad.lo.u32 %s, %t, 4, %s; xor", "OVER: mov.u32 %s, tile; mad.lo.u32 %s, %t, 4, %s; xor"
        ),
        WHOLE,
    )
    assert "race" in {each.kind for each in early.findings}, early


WITHIN = """.shared .align 128 .b8 other[256]; mad.wide.u32 %at, %t, 4, %in; ld.global.u32 %w, [%at];
mov.u32 %o, other; mad.lo.u32 %s, %t, 4, %o; st.shared.u32 [%s], %w; {fence} bar.sync 0;
@!%p cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [tile], [other], 128, [full];"""


def test_a_copy_within_shared_memory():
    text = MOVES.format(move=WITHIN.format(fence="fence.proxy.async;"), bytes=128, mask=1)
    found = run(text, WHOLE)
    assert found.ok, found
    assert found.outputs["out"].tolist() == [7 + (lane ^ 1) for lane in range(32)]
    again = text.replace("st.global.u32 [%at], %v;", "st.global.u32 [%at], %v; st.shared.u32 [other], %t;", 1)
    assert "race" not in {each.kind for each in run(again.replace("], %t;", "], 5;"), WHOLE).findings}
    unfenced = run(MOVES.format(move=WITHIN.format(fence=""), bytes=128, mask=1), WHOLE).findings
    assert "race: cp reads what st of line" in unfenced[0].words


ADDS = """mad.wide.u32 %at, %t, 4, %in; ld.global.u32 %w, [%at]; mov.u32 %s, tile; mad.lo.u32 %o, %t, 4, %s;
st.shared.u32 [%o], 1; bar.sync 0; and.b32 %o, %t, 15; mad.lo.u32 %o, %o, 4, %s;
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{} [%o], %w, [full];"""


@pytest.mark.parametrize("name", ["add.u32", "max.s32", "xor.b32", "and.b32"])
def test_a_reduction_completes_on_a_mbarrier(name):
    """Two lanes each reduce to one place."""
    found = run(MOVES.format(move=ADDS.format(name), bytes=128, mask=1), WHOLE)
    assert found.ok, found
    make = OPERATIONS[name.partition(".")[0]]
    expected = [make(make(1, 7 + lane), 23 + lane) for lane in range(16)] + [1] * 16
    assert found.outputs["out"].tolist() == [expected[lane ^ 1] for lane in range(32)]
    early = MOVES.format(move=ADDS.format(name), bytes=0, mask=1)
    assert "race" in {
        each.kind
        for each in run(
            early.replace("AGAIN: mbarrier", "bra OVER; AGAIN: mbarrier").replace(
                "mov.u32 %s, tile; mad.lo.u32 %s, %t", "OVER: mov.u32 %s, tile; mad.lo.u32 %s, %t"
            ),
            WHOLE,
        ).findings
    }


def test_copies_to_other_blocks_are_named_and_not_run():
    found = run(MOVES.format(move=MULTICAST, bytes=128, mask=3), WHOLE)
    assert "a copy to other blocks of the cluster is not run" in " ".join(found.notes)
    assert found.exit_code == 1


@pytest.mark.parametrize(("rank", "runs"), [("%cluster_ctarank", True), ("0", False), ("1", False)])
def test_a_copy_with_the_mask_of_its_own_block(rank, runs):
    """Of two blocks of a cluster each copies to itself; with the mask of one of them the other does not."""
    own = f"mov.u32 %v, {rank}; mov.u32 %w, 1; shl.b32 %w, %w, %v; cvt.u16.u32 %m, %w; {MULTICAST}"
    text = MOVES.format(move=own, bytes=128, mask=0).replace("u64 out)", "u64 out) .reqnctapercluster 2")
    text = text.replace("mad.wide.u32 %at, %t", "mad.lo.u32 %t, %ctaid.x, 32, %t; mad.wide.u32 %at, %t", 1)
    found = run(text, {"in": np.arange(7, 39, dtype="u4"), "out": "u32[64]=0"}, grid=2)
    assert ("a copy to other blocks of the cluster is not run" in " ".join(found.notes)) != runs, found
    if runs:
        assert found.ok, found
        assert found.outputs["out"].tolist() == [7 + (lane ^ 1) for lane in range(32)] * 2
