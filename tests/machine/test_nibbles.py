"""Numbers of 4 bits, two in a byte, are followed through what takes them apart."""

import pytest

ARGUMENTS = ["A=f16[16,16]", "B={}[8,16]", "C=f32[16,8]"]
FORMULA = "C[m,n] = A[m,k] B[n,k]"
WAYS = range(8)


def traced(database, text, way):
    type_ = "s4" if way == 5 else "u4"
    return database.trace(text, [each.format(type_) for each in ARGUMENTS], FORMULA, block=32)


@pytest.mark.parametrize("way", WAYS)
def test_a_right_kernel_has_no_finding(nvcc, database, way):
    found = traced(database, nvcc("nibbles", "sm_80", f"WAY={way}"), way)
    assert found.ok, found
    assert not found.findings, found


@pytest.mark.parametrize("way", WAYS)
def test_two_numbers_of_a_byte_that_are_exchanged_are_named(nvcc, database, way):
    found = traced(database, nvcc("nibbles", "sm_80", f"WAY={way}", "FIRST=1"), way)
    assert not found.ok
    assert "A and B of mma 1" in found.text()
    assert "column 0 of A has A[0][0], row 0 of B B[0][1]" in found.text()


COPY = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 A, .param .u64 C) {
  .reg .b64 %a<3>;
  .reg .b32 %r<5>;
  ld.param.u64 %a0, [A];
  ld.param.u64 %a1, [C];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %a2, %r0, 4;
  add.u64 %a0, %a0, %a2;
  add.u64 %a1, %a1, %a2;
  ld.global.b32 %r1, [%a0];
  CHANGE
  st.global.b32 [%a1], %r1;
  ret;
}
"""

CHANGES = {
    "": True,
    "shf.l.wrap.b32 %r1, %r1, %r1, 8; shf.r.wrap.b32 %r1, %r1, %r1, 8;": True,
    "and.b32 %r2, %r1, 0x0f0f0f0f; and.b32 %r3, %r1, 0xf0f0f0f0; or.b32 %r1, %r2, %r3;": True,
    "shl.b32 %r2, %r1, 4; and.b32 %r2, %r2, 0xf0f0f0f0; shr.u32 %r3, %r1, 4; and.b32 %r3, %r3, 0x0f0f0f0f;"
    " or.b32 %r1, %r2, %r3;": False,
    "shr.u32 %r1, %r1, 4;": False,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_matrix_of_4_bits_is_an_output(database, change):
    given = ["A=u4[8,16]", "C=u4[8,16]"]
    found = database.trace(COPY.replace("CHANGE", change), given, "C[m,n] = A[m,n]", block=16)
    assert found.ok == CHANGES[change], found
    if not found.ok:
        assert "C: " in found.text()
        assert "elements are wrong" in found.text()
