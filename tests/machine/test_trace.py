"""A right kernel has no finding, and what is planted in it is named."""

from fractions import Fraction

import numpy as np
import pytest

from lanemap.capture.machine.arguments import named
from lanemap.capture.machine.trace import trace
from lanemap.db.errors import LanemapError
from lanemap.db.isa.instructions import Key

from .conftest import documented, run
from .kernels import ARGUMENTS, FORMULA, PRODUCT


def product(*changes, formula=FORMULA, given=ARGUMENTS, **how):
    text = PRODUCT
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return run(text, given, formula, block=64, **how)


def line(fragment):
    """Where a part of the kernel stands."""
    return next(number for number, text in enumerate(PRODUCT.splitlines(), 1) if fragment in text)


def only(found):
    """The one finding of a run."""
    assert len(found.findings) == 1, found
    return found.findings[0]


def kinds(found):
    return {finding.kind for finding in found.findings}


@pytest.mark.parametrize("formula", [FORMULA, None])
def test_a_right_kernel_has_no_finding(formula):
    found = product(formula=formula, given=ARGUMENTS if formula else [*ARGUMENTS[:2], "C=f32[16,8]=0"])
    assert found.ok, found
    assert "1 mma (m16n8k16 f16) in 1 place" in found.counts


def test_the_output_is_the_product():
    a, b = (np.arange(count).reshape(shape) % 7 - 3 for count, shape in ((256, (16, 16)), (128, (8, 16))))
    given = {"A": a.astype("f2"), "B": b.astype("f2"), "C": "f32[16,8]"}
    assert np.array_equal(product(given=given).outputs["C"], a @ b.T)


@pytest.mark.parametrize("fill", ["inf", "nan"])
def test_no_number_is_right_where_the_product_has_none(fill, recwarn):
    found = product(given=[f"A=f16[16,16]={fill}", *ARGUMENTS[1:]])
    assert found.ok, found
    assert not recwarn.list
    wrong = product("mov.f32 %c0, 0f00000000;", "mov.f32 %c0, 0f7FC00000;")
    assert "C[0][0] is nan, and must be" in wrong.findings[0].details[-1]


@pytest.mark.parametrize("formula", [FORMULA, None])
def test_exchanged_registers_are_named(formula):
    found = product("{%a0, %a1, %a2, %a3}", "{%a0, %a2, %a1, %a3}", formula=formula)
    finding = found.findings[0]
    assert finding.kind == "operand"
    assert finding.words.startswith(f"A of mma 1 (line {line('mma.sync')}), warp 0: registers 1 and 2 are exchanged")
    assert "lane 0 register 1 slot 0 holds A[0][8], must hold A[8][0]" in finding.details[0]
    assert kinds(found) == ({"operand", "sum"} if formula else {"operand"})


def test_the_other_register_of_b_is_named():
    found = product("{%b0, %b1}, {%c0", "{%b1, %b0}, {%c0")
    assert found.findings[0].kind == "pairing"  # B alone is a renumbering of K
    assert "column 0 of A has A[0][0], row 0 of B B[0][8]" in found.findings[0].details[0]


def test_k_renumbered_alike_is_right():
    found = product("{%b0, %b1}, {%c0", "{%b1, %b0}, {%c0", "{%a0, %a1, %a2, %a3}", "{%a2, %a3, %a0, %a1}")
    assert found.ok, found


def test_rows_renumbered_in_a_and_the_result_are_right():
    found = product(
        "{%a0, %a1, %a2, %a3}",
        "{%a1, %a0, %a3, %a2}",
        "[%from], {%c0, %c1}",
        "[%from], {%c2, %c3}",
        "[%from+256], {%c2, %c3}",
        "[%from+256], {%c0, %c1}",
    )
    assert found.ok, found


def test_a_tile_that_is_not_transposed_is_named():
    found = product("x2.shared", "x2.trans.shared")
    assert "blocks of 8 x 8 are transposed" in found.findings[0].words


def test_a_result_stored_elsewhere_is_named():
    found = product("[%from], {%c0, %c1}", "[%from], {%c2, %c3}", "[%from+256], {%c2, %c3}", "[%from+256], {%c0, %c1}")
    finding = only(found)
    assert finding.kind == "store"
    assert "C[0][0] has the sum of C[8][0]" in finding.details[0]


def test_a_barrier_that_is_missing_is_a_race():
    finding = only(product("    bar.sync 0;\n", "    nanosleep 1;\n"))
    assert finding.kind == "race"
    assert f"ldmatrix reads what st of line {line('st.shared')} writes" in finding.words


@pytest.mark.few(4)
@pytest.mark.parametrize("formula", [FORMULA, None])
@pytest.mark.parametrize("other", ["B", "C"])
@pytest.mark.parametrize("lanes", [4, 8, 31, 32])
@pytest.mark.parametrize("loads", [("a0",), ("a0", "a2"), ("a1", "a3"), ("a0", "a1"), ("a0", "a1", "a2", "a3")])
def test_an_operand_may_hold_elements_of_another_array(loads, lanes, other, formula):
    given = ARGUMENTS if formula else [*ARGUMENTS[:2], "C=f32[16,8]=0"]
    changes = []
    for load, offset in {"a0": "", "a1": "+256", "a2": "+16", "a3": "+272"}.items():
        if load in loads:
            loaded = f"ld.global.b32 %{load}, [%from{offset}];"
            instead = f".reg .pred %p{load};\n.reg .b64 %q{load};\nsetp.lt.u32 %p{load}, %lane, {lanes};\n"
            instead += f"ld.param.u64 %q{load}, [{other}];\n@%p{load} ld.global.b32 %{load}, [%q{load}+{len(changes)}];"
            changes += [loaded, f"{loaded}\n{instead}"]
    assert bool(formula) <= (not product(*changes, given=given, formula=formula).ok)


def test_what_is_never_written_is_counted():
    finding = only(product("st.global.v2.f32 [%from+256]", "@%second st.global.v2.f32 [%from+256]"))
    assert finding.kind == "unwritten"
    assert "64 of 128 elements are never written" in finding.words
    assert finding.details == ("the first is C[8][0]",)


@pytest.mark.parametrize("number", [5, 0x3F8000003F800000, 1 << 63, (1 << 64) - 64])
def test_a_number_in_place_of_a_pointer_is_named(number):
    found = product("ld.param.u64 %from, [A];", f"mov.u64 %from, {number:#x};")
    assert f"out of bounds: global memory at {number:#x} is out of bounds" in found.findings[0].words


def test_addresses_out_of_bounds_are_named():
    found = product("[%from+272]", "[%from+2720]")
    assert "out of bounds: global memory" in found.findings[0].words
    assert f"line {line('+272')}, warp 0, lane 0, 32 times" in found.findings[0].words


def test_misaligned_addresses_are_named():
    found = product("f32 [%from+256]", "f32 [%from+252]")
    words = "misaligned: global memory at C+252 of 512 bytes is not aligned to 8 bytes"
    assert words in " ".join(found.text().split())


def test_what_nobody_computed_is_named_where_it_is_an_address():
    found = product("mad.lo.u32 %at, %pair, 4, %row;", "")
    assert "an address is uninitialised" not in " ".join(found.text().split())  # it has that of the tile still
    found = product("and.b32 %pair, %lane, 3;", "")
    assert "an address is uninitialised" in " ".join(found.text().split())


def test_an_address_out_of_bounds_is_named_by_the_array_beside_it():
    for offset, where in (
        ("+512", "A+512 of 512 bytes"),
        ("+511", "A+511 of 512 bytes"),
        ("+-256", "A-256 of 512 bytes"),
        ("+2048", "A+2048 of 512 bytes"),
        ("+4096", "B-512 of 256 bytes"),
        ("+1048576", "0x"),
    ):
        found = product("ld.global.b32 %a1, [%from+256];", f"ld.global.b32 %a1, [%from{offset}];")
        assert f"global memory at {where}" in found.findings[0].words, found


def test_terms_that_are_missing_are_named():
    found = product(
        "{%c0, %c0, %c0, %c0};", "{%c0, %c0, %c0, %c0};", "ld.global.b32 %a3, [%from+272];", "mov.b32 %a3, 0;"
    )
    finding = only(found)
    assert finding.kind == "sum"
    assert "C[8][0] lacks A[8][8] x B[0][8] (8 of 16 products are missing)" in finding.details[0]


def test_terms_that_are_added_twice_are_named():
    mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    again = mma + " {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3};\n"
    finding = only(product("mad.lo.u32 %at, %pair, 8, %row;", f"{again}mad.lo.u32 %at, %pair, 8, %row;"))
    assert "C[0][0] adds A[0][0] x B[0][0] 2 times" in finding.details[0]


def test_lanes_that_part_before_mma_are_named():
    found = product("    mma.sync", "    @%second ret;\n    setp.lt.u32 %second, %lane, 7;\n    @%second mma.sync")
    assert "divergence" in kinds(found)


def test_what_is_not_known_stops_the_run_and_is_listed():
    found = product("    mma.sync", "    wondrous.b32 %a0, %a1;\n    mma.sync")
    assert not found.ok
    assert f"not known: wondrous.b32 is not known, line {line('mma.sync')}" in found.notes
    assert f"stopped: line {line('mma.sync')}: wondrous.b32 is not known (reached by 1 warp)" in found.notes


def test_what_is_not_known_and_not_reached_stops_nothing():
    found = product("LOADED:", "    bra LOADED;\n    wondrous.b32 %a0, %a1;\nLOADED:")
    assert found.ok, found
    assert f"not known: wondrous.b32 is not known, line {line('LOADED:') + 1}" in found.notes


def test_a_run_that_does_not_end_is_stopped():
    found = product("LOADED:", "LOADED: add.u32 %pair, %pair, 1;\n    bra LOADED;", limit=1000)
    text = " ".join(found.text().split())
    assert "still running after 1000 instructions" in text
    assert "no race; nothing out of bounds until it stopped" in text


def test_a_barrier_that_not_all_reach_is_a_deadlock():
    found = product("    @!%second bra LOADED;", "    @!%second bar.sync 1, 64;\n    @!%second bra LOADED;")
    assert "deadlock: warp 0 waits for ever: barrier 1 lacks 32 of 64 threads" in " ".join(found.text().split())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (ARGUMENTS[:2], "2 arguments are given: gemm takes 3, A: u64, B: u64, C: u64"),
        (["A=f16[16]", *ARGUMENTS[1:]], "A has 1 dimensions, and 2 indices"),
        (["A=f16[32,8]", *ARGUMENTS[1:]], "k is 8 of A, and 16 of B"),
        (["X=f16[16,16]", *ARGUMENTS[1:]], "A of the product is no argument: there is X, B, C"),
        (["A=f17[16,16]", *ARGUMENTS[1:]], "f17 is no type of elements"),
        (["A=f16(16)", *ARGUMENTS[1:]], "write A=f16[32,64]"),
        (["A=f16[16,16]", "A=f16[8,16]", "C=f32[16,8]"], "two arguments are called A"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(given, words):
    with pytest.raises(LanemapError) as refused:
        product(given=given)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("value", "number"),
    [(np.array(40), 40), (np.array(True), 1), (np.float32(1.5), 1.5), (Fraction(1, 2), 0.5), (Fraction(4), 4)],
)
def test_a_number_of_python_or_numpy_is_a_number(value, number):
    (argument,) = named({"n": value})
    assert (argument.number, type(argument.number)) in ((number, type(number)), (number, bool))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ((40,), "(40,) is a shape of no type: write it like f16[32,64]"),
        (None, "a NoneType is none that a kernel takes: give a number, an array, or a text like f16[32,64]"),
        (np.zeros(2, complex), "an array of complex128 is none that a kernel takes"),
        ([], "an array of no elements is none that a kernel takes"),
        ([[1], [2, 3]], "a list is none that a kernel takes"),
        ("f16[2", "'f16[2' is no argument: write A=f16[32,64]"),
    ],
)
def test_what_is_no_argument_is_named(value, words):
    with pytest.raises(LanemapError) as refused:
        named({"a": value})
    assert words in str(refused.value)


@pytest.mark.parametrize("formula", ["C[m,n]", "C = A B", "C[m,n] = A[m,k B[n,k]", "C[m,n] = 2 (A)", "=", ""])
def test_what_is_no_product_is_refused(formula):
    if formula:
        with pytest.raises(LanemapError, match="write it like"):
            product(formula=formula)


def test_an_operand_is_a_fragment():
    right = product()
    true = documented()[Key("mma", "m16n8k16", "f16", "A", "row")]
    assert right.operand("A").same_layout(true)
    wrong = product("{%a0, %a1, %a2, %a3}", "{%a0, %a2, %a1, %a3}").operand("A")
    assert not wrong.same_layout(true)
    assert tuple(wrong.at(0, 1, 0))[:2] == (0, 8)
    assert wrong.draw().svg().startswith("<svg")
    for role, number in (("A", 2), ("A", 0), ("E", 1)):
        with pytest.raises(LanemapError, match="name A, B, C, D, and one of 1 executions"):
            right.operand(role, number)


def test_the_check_raises_with_the_findings():
    with pytest.raises(AssertionError, match="registers 1 and 2 are exchanged"):
        product("{%a0, %a1, %a2, %a3}", "{%a0, %a2, %a1, %a3}").check()
    product().check()


def test_a_number_before_arrays_is_no_element():
    text = PRODUCT.replace("entry gemm(", "entry gemm(.param .u32 first, ")
    found = run(text, ["first=1", *ARGUMENTS], FORMULA, block=64)
    assert found.ok, found


def test_lanes_that_come_late_are_waited_for():
    late = """    setp.eq.u32 %second, %lane, 3;
    @!%second bra JOINED;
    atom.shared.add.u32 %pair, [count], 1;
JOINED:
    mma.sync"""
    found = product("    mma.sync", late, "    .reg .b64 %from", "    .shared .b32 count;\n    .reg .b64 %from")
    assert "divergence" not in kinds(found), found


@pytest.mark.parametrize(
    ("pitch", "lanes", "degree"), [(4, 32, 1), (8, 32, 2), (132, 32, 1), (128, 32, 32), (128, 5, 5)]
)
def test_bank_conflicts_are_counted(pitch, lanes, degree):
    text = f"""
.visible .entry one() {{
.reg .b32 %t, %at; .reg .pred %p; .shared .align 128 .b8 tile[4352];
mov.u32 %t, %tid.x; mov.u32 %at, tile; mad.lo.u32 %at, %t, {pitch}, %at; setp.ge.u32 %p, %t, {lanes};
@!%p st.shared.u32 [%at], %t;
ret; }}"""
    found = run(text, block=64)
    assert found.conflicts == (() if degree == 1 else (f"st of line 5 has {degree}-way conflicts",))
    assert found.ok  # slow is not wrong


def test_a_long_run_says_how_many_blocks_have_ended():
    text = """.visible .entry count(.param .u64 out) { .reg .b32 %r, %n; .reg .pred %p;
    mov.u32 %r, 0; mad.lo.u32 %n, %ctaid.x, 600, 600;
    AGAIN: add.u32 %r, %r, 1; setp.lt.u32 %p, %r, %n; @%p bra AGAIN; ret; }"""
    said = []
    arguments = named(["out=u32[1]"])
    trace(text, {}.get, arguments, block=(1, 1, 1), grid=(3, 1, 1), progress=lambda *of: said.append(of))
    assert {total for _, total in said} == {3}
    assert [done for done, _ in said] == sorted(done for done, _ in said)
    assert (said[0][0], said[-1][0]) == (0, 3)
    assert len(said) > 3
