"""What ptxas reads is read: registers that are vectors, those of 128 bits, and several variables in one line."""

import subprocess

import numpy as np
import pytest

from lanemap.capture.machine.parse import parse
from lanemap.db.errors import LanemapError

from ..toolchain import program
from .conftest import run

KERNEL = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry turn(.param .u64 in, .param .u64 out)
{
.reg .b64 %in, %out, %x<2>; .reg .b32 %t, %s;
.reg .v4 .b32 %v; .reg .b128 %wide, %kept<3>;
.shared .align 16 .b8 first[512], second[512];
.shared .b32 one, two;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
mad.wide.u32 %in, %t, 16, %in; mad.wide.u32 %out, %t, 16, %out;
CHANGES
ret;
}
"""
#: What each leaves of four numbers.
CHANGES = {
    """ld.global.v4.b32 %v, [%in]; { .reg.b32 %h; mov.b32 %h, %v.x;
    st.global.v4.b32 [%out], {%h, %h, %h, %v.w}; }""": [0, 0, 0, 3],
    """ld.global.v4.b32 %v, [%in]; st.global.v4.b32 [%out], %v; mov.b32 %s, 0;
    createpolicy.fractional.L2::evict_last.b64 %x0, 1.0;
    red.relaxed.gpu.global.add.L2::cache_hint.u32 [%out], %s, %x0;
    atom.relaxed.gpu.global.exch.L2::cache_hint.b32 %t, [%out+4], %v.w, %x0;""": [0, 3, 2, 3],
    "ld.global.v4.b32 %v, [%in]; st.global.v4.b32 [%out], %v;": [0, 1, 2, 3],
    "ld.global.v4.b32 %v, [%in]; st.global.v4.b32 [%out], {%v.w, %v.z, %v.y, %v.x};": [3, 2, 1, 0],
    "ld.global.b128 %wide, [%in]; mov.b128 %kept2, %wide; st.global.b128 [%out], %kept2;": [0, 1, 2, 3],
    """ld.global.b128 %wide, [%in]; mov.b128 {%x0, %x1}, %wide; mov.b128 %kept0, {%x1, %x0};
    st.global.b128 [%out], %kept0;""": [2, 3, 0, 1],
    """ld.global.v4.b32 %v, [%in]; mad.lo.u32 %t, %t, 16, 0; mov.u32 %s, second; add.u32 %s, %s, %t;
    st.shared.v4.b32 [%s], %v; { .reg .v4 .b32 %v; mov.b32 %v.x, 0; } mov.u32 %s, first; add.u32 %s, %s, %t;
    st.shared.v4.b32 [%s], {%t, %t, %t, %t}; ld.shared.v4.b32 %v, [%s+512]; st.global.v4.b32 [%out], %v;""": [
        0,
        1,
        2,
        3,
    ],
}


CHANGES[
    """mov.b32 %s, 3 << 2; add.s32 %s, %s, -(3+4)*2; add.s32 %s, %s, 1 > 2 ? 4 : 3; .local .b32 three[0x2], four;
    st.local.b32 [three+2*2], %s; ld.local.b32 %t, [three+0b1*4]; mul.wide.u32 %x0, %t, 1 << 2;
    add.s64 %x0, %x0, %in; ld.global.b32 %t, [%x0]; ld.global.b32 %s, [%in+(1+1)*4]; st.global.v2.b32 [%out], {%t, %s};
    ld.global.b32 %t, [%in+-0U]; st.global.v2.b32 [%out+1*8], {%t, %t};"""
] = [1, 2, 0, 0]


@pytest.mark.parametrize("changes", CHANGES)
def test_vectors_are_their_elements(changes):
    given = np.arange(128, dtype="u4")
    found = run(KERNEL.replace("CHANGES", changes), {"in": given, "out": "u32[128]=0"})
    assert found.ok, found
    assert np.array_equal(found.outputs["out"].reshape(-1, 4), given.reshape(-1, 4)[:, CHANGES[changes]])


@pytest.mark.parametrize("changes", CHANGES)
def test_ptxas_reads_them(tmp_path, changes):
    (tmp_path / "turn.ptx").write_text(KERNEL.replace("CHANGES", changes))
    command = [program("ptxas"), "-arch=sm_90a", tmp_path / "turn.ptx", "-o", tmp_path / "turn.o"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_special_registers_are_vectors():
    changes = """mov.v4.u32 %v, %ctaid; add.u32 %s, %v.x, %v.y; add.u32 %s, %s, %v.z; setp.ne.u32 %p, %s, 0; @%p exit;
    mov.v4.u32 %v, %nctaid; st.global.v4.b32 [%out], %v;"""
    text = KERNEL.replace("CHANGES", changes).replace(".reg .v4", ".reg .pred %p; .reg .v4")
    found = run(text, {"in": "u32[128]", "out": "u32[128]=0"}, grid=(2, 3, 4))
    assert found.ok, found
    assert found.outputs["out"].reshape(-1, 4).tolist() == [[2, 3, 4, 0]] * 32


@pytest.mark.parametrize(
    "line",
    [
        *("mov.u32 %s, 1.5;", "mov.b32 %s, 1.5;", "add.u32 %s, %s, 0f3F800000;", "mov.b32 %s, 0d3FF0000000000000;"),
        *(
            "mov.f32 %f, 1;",
            "add.f16x2 %s, %s, 0x3c003c00;",
            "fma.rn.bf16x2 %s, %s, %s, 1.0;",
            "setp.eq.f32 %p, %f, 1;",
        ),
    ],
)
def test_an_immediate_is_of_the_type_of_its_operand(line, tmp_path):
    line = f"{{ .reg .f32 %f; .reg .pred %p; {line} }}"
    found = run(KERNEL.replace("CHANGES", line), {"in": "u32[128]", "out": "u32[128]=0"})
    assert "not known" in str(found)


@pytest.mark.parametrize("type_", ["b4", "u6", "b24", "b256"])
def test_a_type_that_no_register_has_is_named(type_):
    arguments = {"in": "u32[128]", "out": "u32[128]=0"}
    with pytest.raises(LanemapError, match=f"line 7 of the PTX cannot be read: .reg .{type_} %in"):
        run(KERNEL.replace(".reg .b64 %in", f".reg .{type_} %in"), arguments)
    found = run(KERNEL.replace("CHANGES", f"ld.global.{type_} %t, [%in];"), arguments)
    assert f"ld.global.{type_} is not known: it is of b8, u8" in str(found)


def test_a_few_of_many_entries_are_named():
    def said(count, name=None):
        with pytest.raises(LanemapError) as refused:
            parse("".join(f".visible .entry k{number}() {{ ret; }}\n" for number in range(count))).entry(name)
        return str(refused.value)

    assert said(0) == "no entry in it: is it PTX?"
    assert said(2) == "name one of 2 entries with --entry: choose from k0, k1"
    assert said(101, "k92x").startswith("no entry k92x: choose from k92, ")
    for name in (None, "k92x"):
        assert said(101, name).endswith(", or from all 101 that grep .entry lists")
        assert len(said(101, name)) < 120


def test_a_parameter_of_an_entry_in_no_param_space_is_named():
    with pytest.raises(LanemapError, match="line 5 of the PTX cannot be read"):
        run(KERNEL.replace("(.param .u64 in", "(.reg .u64 in"), {"in": "u32[128]", "out": "u32[128]=0"})


@pytest.mark.parametrize(
    "line",
    [
        ".reg .b32 %many<100000000>;",
        ".global .b8 large[99999999999999];",
        ".local .b8 large[200000000];",
        ".shared .b8 large[300000];",
        f"mov.b32 %t, {'{' * 2000}%t{'}' * 2000};",
        f"mov.b32 %t, {'9' * 5000};",
    ],
    ids=lambda line: line[:12],
)
def test_what_is_too_much_is_one_line(line):
    with pytest.raises(
        LanemapError, match=r"^(line 13 of the PTX cannot be read|the variables of a block take more)[^\n]*$"
    ):
        run(KERNEL.replace("CHANGES", line), {"in": "u32[128]", "out": "u32[128]=0"})


def test_words_of_an_instruction_may_stand_apart():
    """As TileLang's templates write them."""
    text = """.visible .entry k(.param .u64 out) { .reg .b64 %out; .reg .b32 %r; .reg .pred %p;
    ld .param .u64 %out, [out]; mov.u32 %r, 7; setp.eq .u32 %p, %r, 7; @%p st.global .u32 [%out], %r; ret; }"""
    assert run(text, ["out=u32[1]=0"], block=1).outputs["out"].tolist() == [7]


#: How the place of a call begins.
INLINED = "function_name $L__info_string0+12, inlined_at"

#: Places of one instruction after another, as nvcc writes them, and how each is called.
PLACES = {
    ".loc 1 7 3": "gemm.cu:7",
    ".loc 1 0 3": "line 19",
    ".loc 2 9 5": "copy.h:9",
    f".loc 1 7 3\n.loc 2 9 5, {INLINED} 1 7 3": "gemm.cu:7 via copy.h:9",
    f".loc 1 7 3\n.loc 2 9 5, {INLINED} 1 7 3\n.loc 3 4 1, {INLINED} 2 9 5": "gemm.cu:7 via ptx.h:4",
    # A function of the kernel's own file names its own line, and what it calls that of the call.
    f".loc 1 7 3\n.loc 1 5 3, {INLINED} 1 7 3": "gemm.cu:5",
    f".loc 1 7 3\n.loc 1 5 3, {INLINED} 1 7 3\n.loc 2 9 5, {INLINED} 1 5 3": "gemm.cu:5 via copy.h:9",
    f".loc 1 7 3\n.loc 2 9 5, {INLINED} 1 7 3\n.loc 1 5 3, {INLINED} 2 9 5": "gemm.cu:5",
    # One place of a header that is inlined again is of the last call.
    f".loc 2 9 5, {INLINED} 1 7 3\n.loc 2 9 5, {INLINED} 1 8 3\n.loc 3 4 1, {INLINED} 2 9 5": "gemm.cu:8 via ptx.h:4",
    f".loc 1 7 3\n.loc 1 0 3, {INLINED} 1 7 3": "gemm.cu:7",
    f".loc 1 7 3\n.loc 2 0 3, {INLINED} 1 7 3": "gemm.cu:7",
    # A kernel of a header calls a function of the file that is compiled, and that one functions of headers.
    f".loc 2 7 3\n.loc 1 5 5, {INLINED} 2 7 3": "gemm.cu:5",
    f".loc 2 7 3\n.loc 1 0 5, {INLINED} 2 7 3": "copy.h:7",
    f".loc 2 7 3\n.loc 1 9 5, {INLINED} 2 7 3\n.loc 2 11 9, {INLINED} 1 9 5": "gemm.cu:9 via copy.h:11",
    f".loc 2 7 3\n.loc 1 9 5, {INLINED} 2 7 3\n.loc 3 4 1, {INLINED} 1 9 5": "gemm.cu:9 via ptx.h:4",
    f".loc 2 7 3\n.loc 3 4 1, {INLINED} 2 7 3\n.loc 1 9 5, {INLINED} 3 4 1": "gemm.cu:9",
    f".loc 2 7 3\n.loc 3 4 1, {INLINED} 2 7 3": "copy.h:7 via ptx.h:4",
    f".loc 1 7 3\n.loc 4 4 1, {INLINED} 1 7 3": "gemm.cu:7 via other.cu:4",
}


@pytest.mark.parametrize("places", PLACES)
def test_an_inlined_instruction_is_of_the_line_that_calls(places):
    text = KERNEL.replace("CHANGES", f"{places}\nmov.u32 %s, 0;")
    text += '.file 1 "/src/gemm.cu"\n.file 2 "/include/copy.h"\n.file 3 "ptx.h"\n.file 4 "other.cu"\n'
    place = parse(text).functions["turn"].body[-2].place
    assert str(place) == PLACES[places].replace("line 19", f"line {place.line}")
    assert place.named == str(place).partition(" via ")[0]
