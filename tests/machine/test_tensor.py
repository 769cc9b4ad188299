"""The probes' own kernels on the machine give what a model in numpy computes, whatever the table says.

The group shares the arithmetic of values with the machine, but neither layouts as arrays nor how registers move.
"""

import numpy as np
import pytest

from lanemap.capture.device import Probes
from lanemap.capture.kernels import kernels, module_text
from lanemap.capture.verify import _random, simulate
from lanemap.db.isa.forms import forms

from ..capture.group import SimulatedGroup
from ..capture.tables import at_random
from ..modes import some
from .conftest import documented, run

FORMS = [form for name in ("mma", "mma.sp") for form in forms(name)]
FORMS += [
    form for name in ("wgmma", "wgmma.sp") for form in forms(name) if form.shape.startswith("m64n64k") and form.captured
]
FORMS += [form for form in forms("wmma") if form.a not in ("s4", "u4", "b1") or not form.role]
FORMS += [
    form
    for name in ("ldmatrix", "stmatrix", "movmatrix")
    for form in forms(name)
    if form.shape != "m16n8" and "x16" not in form.packed  # of m16n8, nothing says which lanes name what
]


def launched(kernel, patterns, table, spelt=str):
    """What the machine leaves of the output, without a finding; of a kernel that is spelt in some way."""
    found, left = simulate(kernel, patterns, table, spelt(module_text([kernel], "sm_120a")))
    assert not [finding for finding in found.findings if finding.kind != "operand"], found
    return left


@pytest.mark.parametrize("form", [form for form in forms("ldmatrix") if "x16" in form.packed], ids=str)
def test_numbers_of_few_bits_become_bytes(form):
    """Each line has 16 numbers of 4 or 6 bits, low bits first, and padding; by whole numbers of Python."""
    bits = int(form.packed[2])
    table = at_random([form])
    (kernel,) = kernels(form)
    random = np.random.default_rng(0)
    patterns = {port.name: _random(kernel, port, table, random, 2) for port in kernel.inputs}
    found = launched(kernel, patterns, table)
    moved, lanes = table[form.key("r")].table, table[form.key("p")].table
    names = {(row["computation"], row["row"]): row["lane"] for row in lanes}
    for probe in range(2):
        memory = patterns["memory"].reshape(2, -1)[probe].view("u1")
        for row in moved:
            start = int(patterns["p"][probe, 0, names[row["computation"], row["row"]]])
            line = int.from_bytes(memory[start : start + 16].tobytes(), "little")
            register = int(found[probe, row["reg"], row["lane"]])
            assert register >> 8 * int(row["slot"]) & 0xFF == line >> bits * int(row["col"]) & (1 << bits) - 1


def at_random_of(kernel, table, random):
    """Four random patterns of each input."""
    return {port.name: _random(kernel, port, table, random, 4) for port in kernel.inputs}


def test_metadata_are_read_alike_where_no_word_says_that_they_are_ordered():
    form = next(form for form in forms("mma.sp", "m16n8k32") if form.a == "f16")
    table = documented() | at_random([form])
    kernel = next(iter(kernels(form)))
    patterns = at_random_of(kernel, table, np.random.default_rng(0))

    def without_the_word(text):
        assert ".sp::ordered_metadata." in text
        return text.replace(".sp::ordered_metadata.", ".sp.")

    found = launched(kernel, patterns, table, without_the_word)
    assert np.array_equal(found, launched(kernel, patterns, table))


@pytest.mark.few(6)
@pytest.mark.parametrize("form", some(FORMS, 7), ids=str)
def test_an_instruction_does_what_the_table_says(form):
    # Four products in a warp are no random table; movmatrix gets its source from ldmatrix, and scales are documented.
    quads = form.name == "mma" and form.shape == "m8n8k4"
    table = documented() | ({} if quads else at_random([*forms("ldmatrix", "m8n8"), form]))
    random = np.random.default_rng(0)
    for kernel in kernels(form):
        patterns = at_random_of(kernel, table, random)
        picks = np.tile(np.arange(4, dtype=np.uint32)[:, None], (1, len(kernel.inputs)))
        expected = SimulatedGroup(table).run(kernel, Probes(patterns, picks)).data
        found = launched(kernel, patterns, table)
        assert np.array_equal(found[:, : expected.shape[1]], expected)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%h, %f, %f, %f}, {%r, %r}, {%r}, {%f, %f, %f, %f};",
            "%h has 16 bits",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f, %f, %f, %f}, {%r, %w}, {%r}, {%f, %f, %f, %f};",
            "%w has 64 bits, and b32 has 32",
        ),
        ("add.f32 %f, %h, %f;", "%h has 16 bits, and f32 has 32"),
        ("st.shared.v2.b64 [%r], {%w, %r};", "%r has 32 bits, and b64 has 64"),
    ],
)
def test_a_register_of_another_width_is_named(line, words):
    text = ".visible .entry k() { .reg .b16 %h; .reg .b32 %r, %f; .reg .b64 %w;\n" + line + "\nret; }"
    assert words in " ".join(run(text).text().split())


@pytest.mark.parametrize("rounding", ["", ".rn", ".rz"])
def test_a_product_of_f64_may_name_its_rounding(rounding):
    """As nvcc writes it."""
    text = f""".visible .entry d(.param .u64 A, .param .u64 B, .param .u64 C) {{
    .reg .b64 %p, %q; .reg .b32 %l; .reg .f64 %a, %b, %c, %d; mov.u32 %l, %tid.x;
    ld.param.u64 %p, [A]; mad.wide.u32 %q, %l, 8, %p; ld.global.f64 %a, [%q];
    ld.param.u64 %p, [B]; mad.wide.u32 %q, %l, 8, %p; ld.global.f64 %b, [%q]; mov.f64 %c, 0d0000000000000000;
    mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64{rounding} {{%c, %d}}, {{%a}}, {{%b}}, {{%c, %c}};
    ld.param.u64 %p, [C]; mad.wide.u32 %q, %l, 16, %p; st.global.v2.f64 [%q], {{%c, %d}}; ret; }}"""
    found = run(text, ["A=f64[8,4]", "B=f64[8,4]", "C=f64[8,8]"], "C[m,n] = A[m,k] B[n,k]")
    assert found.ok, found
