"""Whatever an instruction looks like, a run answers: with a report, or with one line that says what is wrong."""

import re
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemap.capture.machine import arithmetic, bulk, moves, opcodes, tensor
from lanemap.capture.machine.ptx import TYPE, bits_of
from lanemap.db.errors import LanemapError
from lanemap.db.isa.forms import forms

from ..modes import LONG
from ..toolchain import program
from .conftest import run

TYPES = """pred b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 u16x2 s16x2 f16 f16x2 bf16 bf16x2 tf32 f32 f32x2 f64
    e4m3x2 e5m2x2 e2m1x2 ue8m0x2 b4""".split()
#: What an instruction takes, by its first word.
TAKES = [(name, takes) for name, rows in opcodes.TAKES.items() for takes in rows]
#: Words that some instruction has between its first word and its types.
WORDS = sorted(
    {
        *(word for row in TAKES for group in row[1].words.split() for word in group.strip("[+]").split("|")),
        *(*moves._CACHING.split(), *moves._SPACES, *moves._ATOMIC, *bulk._WORDS.split()),
        *"""wide hi cc eq ne ltu num and or xor popc sync arrive aligned cta up idx bfly ballot any all uni f4e rc8 l r
        clamp wrap rni rzi rna satfinite pack parity expect_tx finite to shiftamt cas acq_rel""".split(),
    }
)
NAMES = sorted({*opcodes.MAKERS, *tensor.NAMES, "wgmma", "mbarrier", "cp", "tcgen05", "nothing"})
MNEMONICS = [form.mnemonic for name in (*tensor.NAMES, "wgmma", "tcgen05.ld", "tcgen05.st") for form in forms(name)]
REGISTERS = "%p !%p %c %h %r %l %f %g %far %tid.x %clock64 %none tile kernel OVER _".split()
NUMBERS = "0 1 -1 7 31 0x7fffffffffffffff 18446744073709551616 0f3F800000 0d3FF0000000000000 1.5".split()
ADDRESSES = """[%far] [tile] [%r] [%l] [%far+4] [%far+9223372036854775808] [%far+-9223372036854775809] [tile+-8] [4096]
    [%p] [none]""".split()
ITEM = st.sampled_from(REGISTERS + NUMBERS)
OPERAND = st.one_of(
    ITEM,
    st.sampled_from(ADDRESSES),
    st.lists(ITEM, max_size=8).map(lambda items: f"{{{', '.join(items)}}}"),
    st.tuples(ITEM, ITEM).map("|".join),
    st.lists(ITEM, max_size=3).map(lambda items: f"[%far, {{{', '.join(items)}}}]"),
    st.sampled_from(["{%r, %r, %r, %r}", "{%r, %r}", "{%f, %f, %f, %f}", "{%h, %h}", "(%r)"]),
)
#: The registers of each type, so that some lines are right.
OF_TYPE = {"pred": "%p", "f32": "%f", "f64": "%g"} | dict.fromkeys(["b16", "u16", "s16", "f16", "bf16"], "%h")
OF_TYPE |= dict.fromkeys(["b64", "u64", "s64", "f32x2"], "%l")


@st.composite
def lines(draw):
    """A line: a guard, words, and operands, each of which may be any, or as many and of the type that there must be."""
    guard = draw(st.sampled_from(["", "", "@%p ", "@!%p "]))
    if draw(st.integers(0, 5)) == 0:
        opcode = draw(st.sampled_from(MNEMONICS))
        return f"{guard}{opcode} {', '.join(draw(st.lists(OPERAND, max_size=6)))};"
    name = draw(st.sampled_from(NAMES))
    takes = draw(st.sampled_from(opcodes.TAKES.get(name, [None])))
    if takes is None or draw(st.booleans()):
        words, types = (
            draw(st.lists(st.sampled_from(WORDS), max_size=2)),
            draw(st.lists(st.sampled_from(TYPES), max_size=2)),
        )
    else:
        words = [
            draw(st.sampled_from(group.strip("[+]").split("|")))
            for group in takes.words.replace("*", "").split()
            if group[0] != "[" or draw(st.booleans())
        ]
        types = [draw(st.sampled_from(takes.types))]
    count = draw(st.integers(takes.least, takes.most + ("+" in takes.words))) if takes else draw(st.integers(0, 6))
    own = OF_TYPE.get(types[-1], "%r") if types else "%r"
    operands = [own if draw(st.integers(0, 3)) else draw(OPERAND) for _ in range(count)]
    if name in ("ld", "ldu", "st", "atom", "red") and operands:
        operands[name in ("ld", "ldu", "atom")] = draw(st.sampled_from(ADDRESSES))
    return f"{guard}{'.'.join([name, *words, *types])} {', '.join(operands)};"


KERNEL = """.visible .entry kernel(.param .u64 out) {{
.reg .pred %p; .reg .b8 %c; .reg .b16 %h; .reg .b32 %r; .reg .b64 %l, %far; .reg .f32 %f; .reg .f64 %g;
.shared .align 128 .b8 tile[1024];
ld.param.u64 %far, [out]; mov.u32 %r, %laneid; mov.b32 %f, %r; cvt.u64.u32 %l, %r; cvt.u16.u32 %h, %r;
setp.lt.u32 %p, %r, 16; cvt.f64.f32 %g, %f;
{}
OVER: ret; }}"""
FIRST = KERNEL.partition("{}")[0].count("\n") + 1


def refused(text):
    """The lines that a run of a kernel does not know, or where it stops. All that it says of them is one line each."""
    try:
        found = run(text, {"out": np.arange(64, dtype="u4")}, limit=500)
    except LanemapError as error:
        assert "\n" not in str(error)
        return {int(number) for number in re.findall(r"line (\d+) of the PTX", str(error))}
    assert str(found)
    assert all("\n" not in note for note in found.notes)
    numbers = {int(line) for note in found.notes for line in re.findall(r"stopped: line (\d+)", note)}
    for note in found.notes:
        if not note.startswith("not known"):
            continue
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", note.rpartition(", line")[2]):
            numbers |= {*range(int(first), int(last or first) + 1)}
    return numbers


@settings(max_examples=200 if LONG else 6)
@given(st.lists(lines(), min_size=25, max_size=25))
def test_any_instruction_is_answered(lines):
    """What a run does not know is left out of the next one, so that all that it knows is executed."""
    while lines and (bad := refused(KERNEL.format("\n".join(lines)))):
        rest = [line for number, line in enumerate(lines, FIRST) if number not in bad]
        if len(rest) == len(lines):
            break
        lines = rest


@pytest.mark.parametrize(
    "line",
    [
        "shl.f32 %f, %f, 1;",
        "cvt.f16x2.u32 %r, %r;",
        "cvt.pack.b8 %r;",
        "cvt.pack.sat.s64.s32 %r, %r, %r;",
        "cvt.rn.rni.s32.f32 %r, %f;",
        "ld.global.u32 %r, [%far+9223372036854775808];",
    ],
)
def test_what_a_line_cannot_mean_is_said(line):
    found = run(KERNEL.format(line), {"out": "u32[64]"})
    assert not found.checked, found
    assert found.notes


#: Instructions of a type T, with registers R as wide as that and W of twice as many bits.
OF_ANY_TYPE = """abs.T R, R; neg.T R, R; not.T R, R; cnot.T R, R; popc.T %r, R; clz.T %r, R; bfind.T %r, R; brev.T R, R;
    sqrt.rn.T R, R; rsqrt.approx.T R, R; sin.approx.T R, R; lg2.approx.T R, R; tanh.approx.T R, R; mov.T R, R;
    add.T R, R, R; sub.T R, R, R; mul.T R, R, R; mul.lo.T R, R, R; mul.hi.T R, R, R; mul.wide.T W, R, R; rem.T R, R, R;
    min.T R, R, R; max.T R, R, R; copysign.T R, R, R; and.T R, R, R; or.T R, R, R; xor.T R, R, R; sad.T R, R, R, R;
    mad.lo.T R, R, R, R; mad.hi.T R, R, R, R; mad.wide.T W, R, R, W; fma.rn.T R, R, R, R; lop3.T R, R, R, R, 9;
    shl.T R, R, %r; shr.T R, R, %r; bfe.T R, R, %r, %r; bfi.T R, R, R, %r, %r; prmt.T %r, %r, %r, %r; add.cc.T R, R, R;
    shf.l.wrap.T %r, %r, %r, %r; bmsk.clamp.T %r, %r, %r; szext.clamp.T %r, %r, %r; mul24.lo.T R, R, R;
    mad24.lo.T R, R, R, R; setp.eq.T %p, R, R; setp.lt.T %p, R, R; set.eq.u32.T %r, R, R; selp.T R, R, R, %p;
    testp.finite.T %p, R; cvta.global.T R, R; shfl.sync.idx.T %r, %r, %r, 31, -1; match.any.sync.T %r, R, -1;
    redux.sync.add.T R, R, -1; redux.sync.and.T R, R, -1; ld.global.T R, [%far]; st.global.T [%far], R;
    atom.global.and.T R, [%far], R; atom.global.min.T R, [%far], R; atom.global.inc.T R, [%far], R;
    atom.global.exch.T R, [%far], R; atom.global.cas.T R, [%far], R, R; cvt.T.u32 R, %r; cvt.rn.T.f32 R, %f;
    cvt.rzi.T.f32 R, %f; cvt.T.T R, R; cvt.f32.T %f, R; cvt.rn.f32.T %f, R; cvt.rni.T.T R, R;"""


@pytest.mark.slow
def test_instructions_are_of_the_types_that_they_are_for_ptxas(tmp_path):
    registers = {1: "%p", 8: "%c", 16: "%h", 32: "%r", 64: "%l"}
    types = [each for each in TYPES if TYPE.fullmatch(each) and each not in ("b4", "b128")]
    lines = [
        line.replace("T", type_)
        .replace("R", registers[bits_of(type_)])
        .replace("W", registers.get(2 * bits_of(type_), "%l"))
        for line in re.findall(r"[^;\s][^;]*;", OF_ANY_TYPE)
        for type_ in types
    ]
    text = ".version 9.0 .target sm_120a .address_size 64 " + KERNEL.format("\n".join(lines))
    (tmp_path / "all.ptx").write_text(text)
    command = [program("ptxas"), "-arch=sm_120a", tmp_path / "all.ptx", "-o", tmp_path / "all.o"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    numbers = {int(number) for number in re.findall(r"line (\d+); error", said)}
    here = refused(text)
    assert [line for number, line in enumerate(lines, FIRST) if (number in numbers) != (number in here)] == []


def test_a_mistake_in_a_rule_of_our_own_is_not_taken_for_one_of_the_kernel(monkeypatch):
    monkeypatch.setitem(arithmetic.RULES, "add", arithmetic.Rule(lambda a, b: a.nothing))
    with pytest.raises(AttributeError):
        run(KERNEL.format("add.u32 %r, %r, %r;"), {"out": "u32[64]"})
