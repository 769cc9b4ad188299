"""What nobody wrote is a finding where it reaches what a kernel leaves, and none where it does not."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.capture.machine.values import UNSET as UNSET_ORIGIN

from ..gpu.corpus import right
from ..modes import examples
from .conftest import run
from .kernels import ARGUMENTS, FORMULA
from .test_operands import MMA, changed

KERNEL = """.visible .entry keep(.param .u64 from, .param .u64 to) {
.reg .b64 %from, %to; .reg .b32 %t, %a, %never, %s; .reg .b16 %h, %g, %twin; .reg .f32 %f; .reg .pred %p, %q;
.shared .align 16 .b8 tile[256];
ld.param.u64 %from, [from]; ld.param.u64 %to, [to]; mov.u32 %t, %tid.x; mov.u32 %s, tile;
mad.wide.u32 %from, %t, 4, %from; mad.wide.u32 %to, %t, 4, %to; mad.lo.u32 %s, %t, 4, %s;
ld.global.u32 %a, [%from]; setp.lt.u32 %p, %t, 5; mov.b32 {%h, %g}, %a;
LINE
ret; }"""
GIVEN = {"from": np.arange(64, dtype="u4"), "to": "u32[64]"}
FILLED = {**GIVEN, "to": "u32[64]=0"}


#: A predicate that hangs on what nobody wrote, and what keeps a number.
UNSET = "setp.eq.u32 %q, %never, 3;"
KEEP = "st.global.u32 [%to], %a;"


def left(line, given=GIVEN, **how):
    return run(KERNEL.replace("LINE", line), given, **{"block": 64} | how)


@pytest.mark.parametrize(
    ("line", "count", "lane"),
    [
        ("st.global.u32 [%to], %never;", 64, 0),
        ("add.u32 %a, %a, %never; st.global.u32 [%to], %a;", 64, 0),
        ("ld.shared.u32 %a, [%s]; st.global.u32 [%to], %a;", 64, 0),
        ("selp.b32 %a, %a, %never, %p; st.global.u32 [%to], %a;", 59, 5),
        ("@!%p st.global.u32 [%to], %never;", 59, 5),
        ("and.b32 %a, %never, 255; st.global.u32 [%to], %a;", 64, 0),
        ("mov.b32 %a, {%h, %h}; mov.b32 {%h, %g}, %never; mov.b32 %a, {%h, %g}; st.global.u32 [%to], %a;", 64, 0),
        ("cvt.rn.f32.s32 %f, %never; mul.f32 %f, %f, 0f00000000; st.global.f32 [%to], %f;", 64, 0),
        ("@%p st.shared.u32 [%s], %a; ld.shared.u32 %a, [%s]; st.global.u32 [%to], %a;", 59, 5),
        ("shfl.sync.idx.b32 %never, %never, 3, 31, -1; @%p st.global.u32 [%to], %never;", 5, 0),
        (f"@%p shfl.sync.idx.b32 %a, %a, 7, 31, 31; {KEEP}", 5, 0),  # a lane that does not execute it
        (f"and.b32 %s, %t, 16; shl.b32 %s, 0xffff, %s; shfl.sync.idx.b32 %a, %a, 7, 31, %s; {KEEP}", 32, 16),
        (f"shfl.sync.down.b32 %s, %t, 1, 31, -1; @%p shfl.sync.down.b32 %a, %s, 1, 31, 31; {KEEP}", 1, 4),
        ("red.global.add.u32 [%to], %never;", 64, 0),
        ("st.global.u32 [%to], %a; @!%p st.global.u16 [%to+2], %twin;", 59, 5),
        ("xor.b32 %a, %a, %never; st.global.u32 [%to], %a;", 64, 0),
        ("@%p add.u32 %never, %never, 1; st.global.u32 [%to], %never;", 64, 0),
        (f"{UNSET} selp.u32 %a, %a, 7, %q; {KEEP}", 63, 0),
        (f"{UNSET} not.pred %q, %q; selp.u32 %a, 6, 7, %q; {KEEP}", 64, 0),
        (f"{UNSET} xor.pred %q, %q, %p; vote.sync.ballot.b32 %a, %q, -1; {KEEP}", 64, 0),
        (f"@%p bra OVER; mov.u32 %never, %a; OVER: {UNSET} vote.sync.ballot.b32 %a, %q, 0xffffffff; {KEEP}", 32, 0),
        (f"{UNSET} vote.sync.uni.pred %q, %q, -1; selp.u32 %a, 6, 7, %q; {KEEP}", 64, 0),
        (f"match.any.sync.b32 %a, %never, -1; {KEEP}", 64, 0),
        (f"redux.sync.add.u32 %a, %never, -1; {KEEP}", 64, 0),
        (f"@%p mov.u32 %never, %a; {UNSET} bar.red.popc.u32 %a, 0, %q; {KEEP}", 64, 0),
        (f"{UNSET} and.pred %q, %q, %p; bar.red.or.pred %q, 0, %q; selp.u32 %a, 6, 7, %q; {KEEP}", 64, 0),
        (f"set.gt.u32.u32 %a, %never, 3; {KEEP}", 64, 0),
        (f"set.eq.u32.u32 %a, %never, 77; {KEEP}", 64, 0),
        (f"slct.u32.s32 %a, %a, 7, %never; {KEEP}", 63, 0),
        (f"add.cc.u32 %s, %never, 1; addc.u32 %a, 0, 0; {KEEP}", 64, 0),
        (f"shl.b32 %a, 3, %never; {KEEP}", 64, 0),
        (f"bmsk.clamp.b32 %a, 3, %never; {KEEP}", 64, 0),
        (f"prmt.b32 %a, 0x03020100, 0, %never; {KEEP}", 64, 0),
        (f"popc.b32 %a, %never; {KEEP}", 64, 0),
        (f"min.s32 %a, %never, 0; {KEEP}", 64, 0),
        ("cvt.rn.f32.s32 %f, %never; min.f32 %f, %f, 0f00000000; st.global.f32 [%to], %f;", 64, 0),
        (f"dp4a.u32.u32 %a, %never, 1, %a; {KEEP}", 64, 0),
        (f"mov.b32 %s, {{%g, %twin}}; add.u32 %a, %a, %s; {KEEP}", 64, 0),
    ],
)
def test_what_nobody_wrote_and_is_stored_is_named(line, count, lane):
    (finding,) = left(line).findings
    assert finding.kind == "unset"
    assert finding.words == f"to: {count} of 64 elements are made of what nobody wrote"
    assert finding.details == (f"the first is to[{lane}], stored at line 7 by warp 0, lane {lane}",)
    assert finding.place == "line 7"


@pytest.mark.parametrize(
    "line",
    [
        "ld.shared.u32 %never, [%s]; st.global.u32 [%to], %a;",
        "selp.b32 %a, %a, %never, %p; @%p st.global.u32 [%to], %a;",
        "and.b32 %never, %never, 0; or.b32 %a, %a, %never; st.global.u32 [%to], %a;",
        "mul.lo.u32 %never, %never, 0; add.u32 %a, %a, %never; st.global.u32 [%to], %a;",
        "mad.lo.u32 %a, %never, 0, %a; st.global.u32 [%to], %a;",
        "st.global.u32 [%to], %never; st.global.u32 [%to], %a;",
        "bfi.b32 %a, %a, %never, 0, 32; st.global.u32 [%to], %a;",
        "mov.b32 {%h, %g}, %never; mov.b32 {%h, %g}, %a; mov.b32 %a, {%h, %g}; st.global.u32 [%to], %a;",
        "@%p mov.u32 %never, %a; @%p st.global.u32 [%to], %never;",
        "prmt.b32 %a, %a, %never, 0x3210; st.global.u32 [%to], %a;",
        "lop3.b32 %a, %a, %never, %never, 0xF0; st.global.u32 [%to], %a;",
        "st.shared.u32 [%s], %never; st.shared.u32 [%s], %a; ld.shared.u32 %a, [%s]; st.global.u32 [%to], %a;",
        """@%p setp.gt.u32 %q, %a, 0; setp.gt.and.u32 %p, %a, 1000, %q;
        @%p st.global.u32 [%to], %s; st.global.u32 [%to], %a; """,
        "xor.b32 %never, %never, %never; st.global.u32 [%to], %never;",
        f"@%p shfl.sync.down.b32 %s, %a, 1, 31, 31; setp.lt.u32 %q, %t, 4; @%q add.u32 %a, %a, %s; {KEEP}",
        f"@%p shfl.sync.up.b32 %s, %a, 1, 0, 31; @%p st.global.u32 [%to], %s; @!%p {KEEP}",
        f"""setp.lt.u32 %q, %t, 32; selp.b32 %s, 0xffffffe0, -1, %q; @!%p shfl.sync.bfly.b32 %never, %a, 3, 31, %s;
        selp.b32 %a, %a, 9, %p; {KEEP}""",
        f"and.b32 %s, %t, 16; shl.b32 %s, 0xffff, %s; shfl.sync.bfly.b32 %a, %a, 7, 31, %s; {KEEP}",
        "@%p mov.u32 %never, %a; setp.gt.and.u32 %p, %never, 3, %p; @%p st.global.u32 [%to], %a;",
        "@!%p mov.u32 %never, %a; setp.gt.or.u32 %p, %never, 3, %p; @%p st.global.u32 [%to], %a;",
        f"{UNSET} selp.u32 %a, %a, %a, %q; {KEEP}",
        f"{UNSET} and.pred %q, %q, %p; selp.u32 %a, 6, 7, %q; @!%p st.global.u32 [%to], %a;",
        f"{UNSET} or.pred %q, %q, %p; vote.sync.any.pred %q, %q, -1; selp.u32 %a, 6, 7, %q; @%p {KEEP}",
        f"{UNSET} or.pred %q, %q, %p; bar.red.or.pred %q, 0, %q; selp.u32 %a, 6, 7, %q; {KEEP}",
        f"{UNSET} and.pred %q, %q, %p; bar.red.and.pred %q, 0, %q; selp.u32 %a, 6, 7, %q; {KEEP}",
        f"setp.lt.u32 %p, %never, 0; @%p st.global.u32 [%to], %never; {KEEP}",
        f"setp.ge.u32 %p, %never, 0; @%p st.global.u32 [%to], %a; {KEEP}",
        f"sub.u32 %never, %never, %never; add.u32 %a, %a, %never; {KEEP}",
        f"setp.eq.u32 %p, %never, %never; @%p st.global.u32 [%to], %a; {KEEP}",
        f"min.u32 %s, %never, 0; add.u32 %a, %a, %s; {KEEP}",
        f"max.u32 %s, %never, -1; add.u32 %a, %a, %s; {KEEP}",
        f"dp4a.u32.u32 %a, %never, 0, %a; {KEEP}",
        f"mul.wide.u16 %s, %twin, 0; add.u32 %a, %a, %s; {KEEP}",
        f"mov.b32 %s, {{%h, %twin}}; add.u32 %a, %a, %s; and.b32 %a, %a, 0xffff; {KEEP}",
        f"mov.b32 %s, {{%h, %twin}}; mul.lo.u32 %a, %a, %s; cvt.u32.u16 %a, %a; {KEEP}",
        f"mov.b32 %s, {{%h, %twin}}; shl.b32 %s, %s, 16; {{ .reg .b16 %u; mov.b32 {{%u, %h}}, %s; }} {KEEP}",
        f"rem.u32 %s, %never, 1; add.u32 %a, %a, %s; {KEEP}",
        f"lop3.b32 %s, %never, %never, %never, 0x00; add.u32 %a, %a, %s; {KEEP}",
        f"shr.u32 %s, %never, 32; add.u32 %a, %a, %s; {KEEP}",
    ],
)
def test_what_nobody_wrote_and_is_not_used_is_none(line):
    found = left(line)
    assert found.ok, found


@pytest.mark.parametrize(
    ("line", "lane", "count"),
    [
        ("@%p mov.u32 %never, %a; setp.gt.u32 %p, %never, 3; @%p st.global.u32 [%to], %a;", 5, 59),
        ("setp.gt.or.u32 %p, %never, 3, %p; @%p st.global.u32 [%to], %a;", 5, 59),
        ("setp.gt.and.u32 %p, %never, 3, %p; @%p st.global.u32 [%to], %a;", 0, 5),
        ("setp.gt.xor.u32 %p, %never, 3, %p; @%p st.global.u32 [%to], %a;", 0, 64),
    ],
)
def test_a_predicate_that_hangs_on_what_nobody_wrote_is_named_where_it_does(line, lane, count):
    (finding,) = [each for each in left(line).findings if "predicate" in each.words]
    assert finding.words.endswith(f"a predicate is uninitialised (line 7, warp 0, lane {lane}, {count} times)")


COPIES = "cp.async.ca.shared.global [%s], [%from], 4"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("atom.global.cas.b32 %a, [%to], %never, 7;", "what cas compares with"),
        (f"{COPIES}, %never;", "what says how much is copied"),
        (f"{UNSET} {COPIES}, %q;", "what says how much is copied"),
        ("ld.global.u32 %a, [%never+16];", "an address"),
        ("and.b32 %never, %never, 4; xor.b32 %s, %s, %never; ld.shared.u32 %a, [%s];", "an address"),
    ],
)
def test_what_an_instruction_does_by_what_nobody_wrote_is_named(line, what):
    """Once for all threads that do so, and not for those that have written it."""
    for written, count in (("", 64), ("@%p mov.u32 %never, 0;", 59)):
        said = [each.words for each in left(f"{written} {line}", FILLED).findings if each.kind == "unset"]
        assert len(said) == 1, said
        assert f"uninitialised: {what} is uninitialised (line 7" in said[0]
        assert said[0].endswith(f", {count} times)")
    assert "unset" not in {each.kind for each in left(f"mov.u32 %never, 0; {line}", FILLED).findings}


def test_an_array_that_is_filled_may_hold_anything():
    """As a workspace of parts, of which some are padding."""
    assert left("st.global.u32 [%to], %never;", FILLED).ok


REDUCED = """st.shared.u32 [%s], VALUE; bar.sync 0; setp.eq.u32 %p, %t, 0;
@%p cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%to], [tile], 256; cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;"""


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("red.global.add.u32 [%to], VALUE;", 64),
        ("red.global.add.f32 [%to], VALUE;", 64),
        ("red.global.max.u32 [%to], VALUE;", 64),
        ("atom.global.add.u32 %a, [%to], VALUE;", 64),
        ("atom.global.exch.b32 %a, [%to], VALUE;", 64),
        ("atom.global.cas.b32 %a, [%to], 0, VALUE;", 64),
        ("@%p atom.global.cas.b32 %a, [%to], 0, VALUE;", 5),
        (f"fence.proxy.async; {REDUCED}", 64),
        ("st.global.u32 [%to], VALUE; red.global.add.u32 [%to], 1;", 64),
    ],
)
def test_what_nobody_wrote_and_is_combined_with_what_somebody_did_is_named(line, count):
    """Also where an array is filled, as that of a sum of parts."""
    (finding,) = [each for each in left(line.replace("VALUE", "%never"), FILLED).findings if each.kind != "race"]
    assert finding.words == f"to: {count} of 64 elements are made of what nobody wrote"
    assert re.fullmatch(r"the first is to\[0\], stored at line \d+ by warp 0, lane 0", finding.details[0])
    assert {each.kind for each in left(line.replace("VALUE", "%a"), FILLED).findings} <= {"race"}


@pytest.mark.parametrize(
    "line",
    [
        "@!%p mov.u32 %never, 3; @!%p red.global.add.u32 [%to], %never;",
        "red.global.add.u32 [%to], %a; st.global.u32 [%to], %never;",
        "red.global.add.u32 [%to], %never; st.global.u32 [%to], %a;",
        "atom.global.cas.b32 %a, [%to], 1, %never;",
        "and.b32 %never, %never, 0; red.global.add.u32 [%to], %never;",
    ],
)
def test_what_is_not_combined_with_what_nobody_wrote_is_none(line):
    assert left(line, FILLED).ok


def test_the_last_write_is_named_also_of_another_block():
    found = left("mov.u32 %a, %ctaid.x; setp.eq.u32 %p, %a, 1; @%p st.global.u32 [%to], %never;", block=48, grid=2)
    assert found.findings[0].details == ("the first is to[0], stored at line 7 by warp 0, lane 0 of block 1",)


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ("shl.b32 %never, %never, 1; and.b32 %a, %never, 1;", False),
        ("shl.b32 %never, %never, 1; or.b32 %never, %never, 1; and.b32 %a, %never, 1;", False),
        ("shl.b32 %never, %never, 1; or.b32 %never, %never, 1; and.b32 %a, %never, 2;", True),
        (" ".join(f"bfi.b32 %never, %a, %never, {at}, 4;" for at in range(0, 32, 4)) + "mov.b32 %a, %never;", False),
        (" ".join(f"bfi.b32 %never, %a, %never, {at}, 4;" for at in range(0, 28, 4)) + "mov.b32 %a, %never;", True),
        ("and.b32 %never, %never, 15; st.shared.u8 [%s], %never; ld.shared.u8 %a, [%s]; shr.u32 %a, %a, 4;", False),
        ("and.b32 %never, %never, 15; st.shared.u8 [%s], %never; ld.shared.u8 %a, [%s]; shr.u32 %a, %a, 3;", True),
        ("and.b32 %never, %never, 7; shfl.sync.idx.b32 %a, %never, 3, 31, -1; bfe.u32 %a, %a, 3, 29;", False),
        ("and.b32 %never, %never, 8; setp.ne.u32 %q, %never, 0; selp.u32 %a, 6, 7, %q;", True),
        ("and.b32 %never, %never, 8; bfe.u32 %never, %never, 0, 3; add.u32 %a, %a, %never;", False),
        ("and.b32 %never, %never, 8; add.u32 %a, %a, %never; and.b32 %a, %a, 7;", True),  # said of whole bytes
    ],
)
def test_bits_that_nobody_wrote_are_told_from_those_beside_them(lines, named):
    kinds = {each.kind for each in left(f"{lines} {KEEP}").findings}
    assert kinds == ({"unset"} if named else set())


@pytest.mark.parametrize("formula", [FORMULA, None])
@pytest.mark.parametrize(("register", "count"), [("%a0", 64), ("%a1", 64), ("%b0", 128)])
def test_what_a_product_makes_of_what_nobody_wrote_is_named(formula, register, count):
    text = changed(MMA, f"mov.b32 {register}, %never; {MMA}", ".reg .pred", ".reg .b32 %never; .reg .pred")
    (finding,) = run(text, ARGUMENTS, formula, block=64).findings
    assert finding.words == f"C: {count} of 128 elements are made of what nobody wrote"
    assert finding.operand == (register[1].upper(), 1, 0)
    assert "is uninitialised" in str(finding)


@pytest.mark.parametrize("sources", ["%x, %c0", "%c0, %x"])
def test_what_is_computed_of_such_a_sum_and_another_is_named(sources):
    declared = ".reg .b32 %never; .reg .f32 %x; .reg .b16 %h<2>; .reg .pred"
    text = changed(MMA, f"mov.b32 %b0, %never; {MMA}", ".reg .pred", declared)
    other = "mov.b32 {%h0, %h1}, %a0; cvt.f32.f16 %x, %h0;"
    stored = "st.global.v2.f32 [%from], {%c0, %c1};"
    assert stored in text
    (finding,) = run(text.replace(stored, f"{other} max.f32 %c0, {sources}; {stored}"), ARGUMENTS, block=64).findings
    assert finding.words == "C: 128 of 128 elements are made of what nobody wrote"
    assert finding.operand == ("B", 1, 0)


@pytest.mark.parametrize("formula", [FORMULA, None])
def test_sums_that_begin_with_what_nobody_wrote_are_named(formula):
    """Registers that nobody wrote hold zeros here, so that the product is right; a card does not promise that."""
    text = changed("{%c0, %c0, %c0, %c0}", "{%c0, %c0, %c2, %c0}")
    (finding,) = run(text, ARGUMENTS, formula, block=64).findings
    assert finding.words == "C: 32 of 128 elements are made of what nobody wrote"


@pytest.mark.slow
def test_no_right_kernel_of_the_corpus_leaves_any(database):
    """Also where outputs are given no values and no product, so that all that they hold is judged."""
    for case in right():
        given = case.given
        if not isinstance(given, dict):
            given = [text.removesuffix("=0") for text in given]
        found = database.trace(case.kernel, given, block=case.block, grid=case.grid)
        assert "unset" not in {finding.kind for finding in found.findings}, (case.name, str(found))
        assert found.checked, case.name


BYTE = """.visible .entry byte(.param .u64 to) {
.reg .b64 %to; .reg .b32 %t, %s, %x, %d, %o; .reg .pred %p, %q; .shared .align 4 .b8 tile[1024];
ld.param.u64 %to, [to]; mov.u32 %t, %tid.x; mov.u32 %s, tile; mad.lo.u32 %s, %t, 4, %s; mad.wide.u32 %to, %t, 4, %to;
STORES
ld.shared.u32 %x, [%s]; mov.u32 %o, OTHER; setp.lt.u32 %p, %o, 0x8000000;
LINE
st.global.u32 [%to], %d; ret; }"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    """add.u32 %d, %x, %o; sub.u32 %d, %o, %x; mul.lo.u32 %d, %x, %o; mul.hi.s32 %d, %x, %o; mad.lo.s32 %d, %x, %o, %x;
    and.b32 %d, %x, %o; or.b32 %d, %o, %x; xor.b32 %d, %x, %x; lop3.b32 %d, %x, %o, %x, 0x5c; min.u32 %d, %x, %o;
    max.s32 %d, %x, %o; shl.b32 %d, %x, 12; shr.s32 %d, %x, 12; bfe.s32 %d, %x, 6, 20; bfi.b32 %d, %x, %o, 9, 11;
    prmt.b32 %d, %x, %o, 0xa165; popc.b32 %d, %x; clz.b32 %d, %x; dp4a.s32.s32 %d, %x, %o, %o; abs.s32 %d, %x;
    setp.gt.u32 %q, %x, %o; selp.b32 %d, %x, %o, %p; set.ge.u32.s32 %d, %x, %o; slct.s32.s32 %d, 9, %o, %x;
    cvt.s32.s16 %d, %x; cvt.rn.f32.u32 %d, %x; cvt.sat.u8.s32 %d, %x; sad.u32 %d, %x, %o, %x; brev.b32 %d, %x""".split(
        "; "
    ),
)
def test_what_changes_with_a_byte_is_what_nobody_wrote_without_it(line):
    """Against all 256 values of one byte, each in another thread: no byte of a result is called unset that stays."""
    random, missed, count = np.random.default_rng(0), 0, 0
    line = line.strip() + ";" + " selp.b32 %d, 1, 0, %q;" * line.strip().startswith("setp")
    for unset in (0, 1, 2, 3) * 2:
        data, other = random.integers(0, 256, 4), random.choice([0, 3, 0x8000, 0xFFFFFFFF, random.integers(1 << 32)])
        stores = [f"st.shared.u8 [%s+{at}], {byte};" for at, byte in enumerate(data) if at != unset]
        text = BYTE.replace("LINE", line).replace("OTHER", str(other))
        every = run(
            text.replace("STORES", " ".join([*stores, f"st.shared.u8 [%s+{unset}], %t;"])), ["to=u8[1024]"], block=256
        )
        found = run(text.replace("STORES", " ".join(stores)), ["to=u8[1024]"], block=256)
        values = every.outputs["to"].reshape(256, 4)
        said, changes = found.judge.stored.ids.reshape(256, 4) == UNSET_ORIGIN, (values != values[0]).any(axis=0)
        assert not (said & ~changes).any(), (line, data, other, unset)
        missed, count = missed + np.count_nonzero(~said & changes), count + 1024
    assert missed <= count / 100, (missed, count)


BITS = """and.b32 %x, %x, I; or.b32 %x, %x, I; xor.b32 %x, %x, I; not.b32 %x, %x; shl.b32 %x, %x, F; shr.u32 %x, %x, F;
shr.s32 %x, %x, F; bfe.u32 %x, %x, F, F; bfe.s32 %x, %x, F, F; bfi.b32 %x, %o, %x, F, F; bfi.b32 %x, %x, %o, F, F;
prmt.b32 %x, %x, %o, I; shf.l.wrap.b32 %x, %x, %o, F; szext.clamp.s32 %x, %x, F""".replace("\n", " ").split("; ")


@pytest.mark.slow
@examples(100)
@given(st.data())
def test_bits_that_change_with_a_byte_are_those_that_nobody_wrote(data):
    """Against all 256 values of one byte, after several instructions, each of which has what nobody wrote once."""
    amount, word = st.integers(0, 40).map(str), st.integers(0, 2**32 - 1).map(str)
    chosen = data.draw(st.lists(st.sampled_from(BITS), min_size=1, max_size=4))
    lines = [re.sub("[IF]", lambda found: data.draw(word if found[0] == "I" else amount), line) for line in chosen]
    lines += [f"bfe.u32 %d, %x, {bit}, 1; st.global.u8 [%to+{bit}], %d" for bit in range(32)]
    unset, known = data.draw(st.integers(0, 3)), data.draw(st.tuples(*[st.integers(0, 255)] * 4))
    stores = [f"st.shared.u8 [%s+{at}], {byte};" for at, byte in enumerate(known) if at != unset]
    text = BYTE.replace("LINE\nst.global.u32 [%to], %d;", "; ".join(lines) + ";").replace("OTHER", data.draw(word))
    text = text.replace("mad.wide.u32 %to, %t, 4, %to;", "mad.wide.u32 %to, %t, 32, %to;")
    every, found = (
        run(text.replace("STORES", " ".join([*stores, *more])), ["to=u8[256,32]"], block=256)
        for more in ([f"st.shared.u8 [%s+{unset}], %t;"], [])
    )
    bits, ids = every.outputs["to"], found.judge.stored.ids.reshape(256, 32)
    assert ((ids == UNSET_ORIGIN) == (bits != bits[0]).any(axis=0)).all(), chosen
