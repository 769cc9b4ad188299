"""Functions that are called, whose parameters are registers, or bytes in local memory."""

import re

import numpy as np
import pytest

from .conftest import run

SPACES = {
    ".reg": (".reg .u32 %x, .reg .u32 %y, .reg .pred %twice", "(%t, 5, %p)", "", ""),
    ".param": (
        ".param .b32 x, .reg .u32 %y, .reg .pred %twice",
        "(given, 5, %p)",
        ".param .b32 given; st.param.b32 [given], %t;",
        ".reg .u32 %x; ld.param.b32 %x, [x];",
    ),
}
KERNEL = """
.func (.reg .u32 %sum, .reg .pred %odd) add({0})
{{
.reg .u32 %z; {3}
add.u32 %sum, %x, %y; @%twice add.u32 %sum, %sum, %sum; and.b32 %z, %x, 1; setp.ne.u32 %odd, %z, 0; ret;
}}
.visible .entry one(.param .u64 out) {{
.reg .b64 %out; .reg .u32 %t, %r; .reg .pred %p, %q;
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; setp.gt.u32 %p, %t, 15; {2}
call (%r, %q), add, {1};
@%q add.u32 %r, %r, 1000;
mad.wide.u32 %out, %t, 4, %out; st.global.u32 [%out], %r; ret;
}}
"""


@pytest.mark.parametrize("space", SPACES)
def test_registers_are_passed_and_come_back(space):
    found = run(KERNEL.format(*SPACES[space]), ["out=u32[32]=0"])
    assert found.ok, found
    number = np.arange(32)
    assert np.array_equal(found.outputs["out"], (number + 5) * (1 + (number > 15)) + 1000 * (number & 1))


def test_where_only_some_threads_call_the_others_keep_their_results():
    text = KERNEL.format(*SPACES[".reg"]).replace("call (", "mov.u32 %r, 7; setp.lt.u32 %q, %t, 0; @%p call (")
    number = np.arange(32)
    expected = np.where(number > 15, 2 * (number + 5) + 1000 * (number & 1), 7)
    assert np.array_equal(run(text, ["out=u32[32]=0"]).outputs["out"], expected)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("(%t, 5, %p)", "(%t, %p)", "add takes 3 values, not 2"),
        ("(%t, 5, %p)", "(%out, 5, %p)", "%x takes 4 bytes, not 8"),
        ("call (%r, %q), add", "call (%r), add", "add returns 2 values, not 1"),
        ("call (%r, %q), add", "call (%r, %q), sub", "the function sub is called and not defined"),
        (".reg .u32 %z;", ".reg .u32 %z; call (%z, %odd), add, (%x, %y, %twice);", "the function add calls itself"),
    ],
)
def test_a_call_that_does_not_fit_is_named(old, new, words):
    text = KERNEL.format(*SPACES[".reg"])
    assert old in text
    found = run(text.replace(old, new, 1), ["out=u32[32]=0"])
    assert words in found.notes[0], found.notes


def test_functions_are_called_by_address(nvcc):
    number = np.arange(32, dtype="i4")
    found = run(nvcc("calls"), {"A": number, "C": "s32[32]"}, entry="either")
    assert found.ok, found
    assert not found.notes
    assert np.array_equal(found.outputs["C"], np.where(number % 2, 2 * number, number**2) + 9)
    wrong = run(nvcc("calls"), {"A": number + 70, "C": "s32[32]"}, entry="either")
    assert "trap: the kernel traps (calls.cu:11, warp 0, lane 30, 2 times)" in wrong.text()
    assert [finding["count"] for finding in wrong.records()["findings"]] == [2]
    assert "calls itself, and has no stack here" in run(nvcc("calls"), ["C=s32[32]"], entry="itself").text()


def test_an_address_of_no_function_is_named(nvcc):
    text = nvcc("calls")
    pointer = re.search(r"mov.u64\s+%rd\d+, (_Z6squarei);", text)
    found = run(
        text[: pointer.start(1)] + "7" + text[pointer.end(1) :],
        {"A": np.arange(32, dtype="i4"), "C": "s32[32]=0"},
        entry="either",
    )
    assert "there is no function at 0x7" in found.text()
    assert not found.outputs["C"][::2].any()
    assert found.outputs["C"][1::2].all()


def test_functions_that_call_each_other_are_named():
    other = ".func more() { .reg .u32 %z; .reg .pred %q; call (%z, %q), add, (%z, %z, %q); ret; }"
    text = other + KERNEL.format(*SPACES[".reg"]).replace(".reg .u32 %z;", ".reg .u32 %z; call more, ();")
    assert "the function add calls itself" in run(text, ["out=u32[32]=0"]).text().replace("\n  ", " ")


def test_virtual_functions_and_tables_of_functions_are_called(nvcc):
    found = run(nvcc("virtual"), ["out=f32[32]"])
    assert found.ok, found
    x = np.arange(32)
    expected = np.where(x % 2, 2 * x, x + 3) + 4 + 3.25 + np.where(x < 16, x + 1, 2 * x)
    assert np.array_equal(found.outputs["out"], expected)


ITSELF = """
.global .u64 table[1] = {again};
.func again() { .reg .b64 %f; ld.global.u64 %f, [table]; now: .callprototype _ (); call %f, now; ret; }
.visible .entry one() { .reg .b64 %f; ld.global.u64 %f, [table]; now: .callprototype _ (); call %f, now; ret; }
"""


def test_a_function_that_calls_itself_by_a_table_is_named():
    assert "stopped: line 3: the function again calls itself, and has no stack here" in run(ITSELF).notes


BEGIN = """
.global .align 4 .{type_} first[{count}] = {{{numbers}}};
.visible .entry one(.param .u64 out) {{
.reg .b64 %out, %at; .reg .{type_} %x; .reg .b32 %t; mov.u32 %t, %tid.x; mov.u64 %at, first;
mad.wide.u32 %at, %t, {size}, %at; ld.param.u64 %out, [out]; mad.wide.u32 %out, %t, {size}, %out;
ld.global.{type_} %x, [%at]; st.global.{type_} [%out], %x; ret; }}
"""
WRITTEN = {
    "f32": ("f4", lambda x: (f"0f{np.float32(x).view('u4'):08X}", f"{np.float32(x):.9f}")),
    "f64": ("f8", lambda x: (f"0d{np.float64(x).view('u8'):016X}", f"{x:.17f}")),
    "s16": ("i2", lambda x: (str(int(x)),)),
    "u64": ("u8", lambda x: (str(abs(int(x))), hex(abs(int(x))))),
}


@pytest.mark.parametrize("type_", WRITTEN)
def test_variables_begin_with_what_is_written(type_, seed):
    native, written = WRITTEN[type_]
    random = np.random.default_rng(seed)
    values = [abs(x) if type_ == "u64" else x for x in random.normal(scale=1000, size=9)]
    numbers = ", ".join(str(random.choice(written(x))) for x in values)
    size = np.dtype(native).itemsize
    text = BEGIN.format(type_=type_, count="" if random.integers(2) else 9, numbers=numbers, size=size)
    out = run(text, [f"out={type_}[9]"], block=9).outputs["out"]
    expected = np.array(values).astype(native)
    assert np.array_equal(out, expected) or np.allclose(out, expected, rtol=1e-8 if type_ == "f32" else 0)


def test_variables_begin_with_addresses_and_their_bytes():
    text = """
    .global .align 8 .b8 other[32]; .global .u64 whole[2] = {other, generic(other)+8};
    .global .align 8 .b8 apart[8] = {MASKS};
    .visible .entry one(.param .u64 out) {
    .reg .b64 %out, %a, %b; ld.param.u64 %out, [out]; mov.u64 %b, other;
    ld.global.u64 %a, [whole]; sub.u64 %a, %a, %b; st.global.u64 [%out], %a;
    ld.global.u64 %a, [whole+8]; sub.u64 %a, %a, %b; st.global.u64 [%out+8], %a;
    ld.global.u64 %a, [apart]; sub.u64 %a, %a, %b; st.global.u64 [%out+16], %a; ret; }
    """
    masks = ", ".join(f"{0xFF << 8 * byte:#x}(other)" for byte in range(8))
    assert run(text.replace("MASKS", masks), ["out=u64[3]"], block=1).outputs["out"].tolist() == [0, 8, 0]
