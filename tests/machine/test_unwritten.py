"""What nobody wrote is a finding where it reaches what a kernel leaves, and none where it does not."""

import numpy as np
import pytest

from ..gpu.corpus import right
from .conftest import run
from .kernels import ARGUMENTS, FORMULA
from .test_operands import MMA, changed

KERNEL = """.visible .entry keep(.param .u64 from, .param .u64 to) {
.reg .b64 %from, %to; .reg .b32 %t, %a, %never, %s; .reg .b16 %h, %g, %twin; .reg .f32 %f; .reg .pred %p;
.shared .align 16 .b8 tile[256];
ld.param.u64 %from, [from]; ld.param.u64 %to, [to]; mov.u32 %t, %tid.x; mov.u32 %s, tile;
mad.wide.u32 %from, %t, 4, %from; mad.wide.u32 %to, %t, 4, %to; mad.lo.u32 %s, %t, 4, %s;
ld.global.u32 %a, [%from]; setp.lt.u32 %p, %t, 5; mov.b32 {%h, %g}, %a;
LINE
ret; }"""
GIVEN = {"from": np.arange(64, dtype="u4"), "to": "u32[64]"}


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
        ("red.global.add.u32 [%to], %never;", 64, 0),
        ("st.global.u32 [%to], %a; @!%p st.global.u16 [%to+2], %twin;", 59, 5),
        ("xor.b32 %a, %a, %never; st.global.u32 [%to], %a;", 64, 0),
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
        """{ .reg .pred %q; @%p setp.gt.u32 %q, %a, 0; setp.gt.and.u32 %p, %a, 1000, %q;
        @%p st.global.u32 [%to], %s; st.global.u32 [%to], %a; }""",
        "xor.b32 %never, %never, %never; st.global.u32 [%to], %never;",
        "@%p mov.u32 %never, %a; setp.gt.and.u32 %p, %never, 3, %p; @%p st.global.u32 [%to], %a;",
        "@!%p mov.u32 %never, %a; setp.gt.or.u32 %p, %never, 3, %p; @%p st.global.u32 [%to], %a;",
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


def test_an_array_that_is_filled_may_hold_anything():
    """As a workspace of parts, of which some are padding."""
    assert left("st.global.u32 [%to], %never;", {**GIVEN, "to": "u32[64]=0"}).ok


def test_the_last_write_is_named_also_of_another_block():
    found = left("mov.u32 %a, %ctaid.x; setp.eq.u32 %p, %a, 1; @%p st.global.u32 [%to], %never;", block=48, grid=2)
    assert found.findings[0].details == ("the first is to[0], stored at line 7 by warp 0, lane 0 of block 1",)


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
