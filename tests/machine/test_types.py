"""An array of another type than an instruction reads is named, and what a kernel converts is not."""

import numpy as np
import pytest

from .conftest import run
from .kernels import FORMULA, PRODUCT
from .test_corpus import WGMMA

GIVEN = ["A={}[16,16]", "B={}[8,16]", "C=f32[16,8]=0"]


def said(found):
    return [each.words.partition(" (")[0] for each in found.findings if each.kind == "type"]


def product(read, a, b, formula=FORMULA):
    text = PRODUCT.replace("f32.f16.f16.f32", f"f32.{read}.{read}.f32")
    return run(text, [GIVEN[0].format(a), GIVEN[1].format(b), GIVEN[2]], formula, block=64)


@pytest.mark.parametrize("formula", [FORMULA, None])
@pytest.mark.parametrize("read", ["f16", "bf16"])
def test_an_array_of_another_type_is_named(read, formula):
    other = {"f16": "bf16", "bf16": "f16"}[read]
    words = {name: f"type: {name} is given as {other}, and mma reads it as {read}" for name in "AB"}
    assert said(product(read, other, other, formula)) == [words["A"], words["B"]]
    assert said(product(read, other, read, formula)) == [words["A"]]
    assert said(product(read, read, other, formula)) == [words["B"]]
    assert product(read, read, read, formula).ok


def test_numbers_without_a_product_may_stand_for_anything():
    assert said(product("bf16", "u16", "bf16")) == ["type: A is given as u16, and mma reads it as bf16"]
    assert product("bf16", "u16", "bf16", None).ok


def test_zeros_are_of_every_type():
    given = {"A": np.zeros((16, 16), "f2"), "B": np.zeros((8, 16), "f2"), "C": "f32[16,8]=0"}
    assert run(PRODUCT.replace("f32.f16.f16.f32", "f32.bf16.bf16.f32"), given, FORMULA, block=64).ok


@pytest.mark.parametrize(("read", "given"), [("f16", "bf16"), ("bf16", "f16")])
def test_what_a_descriptor_names_is_read_as_its_type(nvcc, database, read, given):
    text = nvcc("wgmma", "sm_90a").replace("f32.f16.f16", f"f32.{read}.{read}")
    arrays = [each.replace("f16[", f"{given}[") for each in WGMMA]
    found = database.trace(text, arrays, FORMULA, block=128, grid=(1, 2))
    assert sorted(said(found)) == [f"type: {name} is given as {given}, and wgmma reads it as {read}" for name in "AB"]
    right = [each.replace("f16[", f"{read}[") for each in WGMMA]
    assert database.trace(text, right, FORMULA, block=128, grid=(1, 2)).ok


CONVERTS = """
.visible .entry product(.param .u64 A, .param .u64 B, .param .u64 C) {{
.reg .b64 %p; .reg .b32 %l, %g, %q, %i, %a<4>, %b<2>; .reg .b16 %h<2>; .reg .f32 %f<2>, %c<4>;
mov.u32 %l, %tid.x; shr.u32 %g, %l, 2; and.b32 %q, %l, 3;
{loads}
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%c0, %c1, %c2, %c3}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}},
  {{0f00000000, 0f00000000, 0f00000000, 0f00000000}};
mad.lo.u32 %i, %g, 32, 0; mad.lo.u32 %i, %q, 8, %i; ld.param.u64 %p, [C]; mad.wide.u32 %p, %i, 1, %p;
st.global.v2.f32 [%p], {{%c0, %c1}}; st.global.v2.f32 [%p+256], {{%c2, %c3}}; ret; }}
"""
CONVERTED = """
mad.lo.u32 %i, %g, 64, {start}; mad.lo.u32 %i, %q, 8, %i; ld.param.u64 %p, [{name}]; mad.wide.u32 %p, %i, 1, %p;
ld.global.v2.f32 {{%f0, %f1}}, [%p]; cvt.rn.f16.f32 %h0, %f0; cvt.rn.f16.f32 %h1, %f1; mov.b32 {register}, {{%h0, %h1}};
"""


def test_what_is_converted_has_its_numbers():
    places = {
        "%a0": ("A", 0),
        "%a1": ("A", 512),
        "%a2": ("A", 32),
        "%a3": ("A", 544),
        "%b0": ("B", 0),
        "%b1": ("B", 32),
    }
    loads = "".join(CONVERTED.format(register=each, name=name, start=start) for each, (name, start) in places.items())
    given = ["A=f32[16,16]", "B=f32[8,16]", "C=f32[16,8]"]
    text = CONVERTS.format(loads=loads)
    assert run(text, given, FORMULA).ok
    halves = loads.replace("cvt.rn.f16.f32 %h0, %f0", "mov.b32 {%h0, %h1}, %f0").replace("cvt.rn.f16.f32 %h1, %f1;", "")
    found = run(CONVERTS.format(loads=halves), given, FORMULA)
    assert said(found) == [f"type: {name} is given as f32, and mma reads it as f16" for name in "AB"]
    scaled = loads.replace("cvt.rn.f16.f32 %h0, %f0;", "mul.f32 %f0, %f0, 0f40000000; cvt.rn.f16.f32 %h0, %f0;")
    assert scaled != loads
    assert not said(run(CONVERTS.format(loads=scaled), given, FORMULA))  # zeros are those of its bits, others are not
