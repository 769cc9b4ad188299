"""Numbers of 4 bits, two in a byte, are followed through what takes them apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.capture.machine.values import MIXED, NONE, Tape, shifted

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


def test_of_two_numbers_in_a_byte_of_an_output_only_the_lower_is_said_to_be_anothers(database):
    """The origin of a byte is that of its lower number: nothing is believed of where the upper one is from."""
    moved = COPY.replace("CHANGE", "shl.b32 %r1, %r1, 8;")
    found = database.trace(moved, ["A=u4[8,16]", "C=u4[8,16]"], "C[m,n] = A[m,n]", block=16)
    (said,) = (detail for finding in found.findings for detail in finding.details if "; so for " in detail)
    assert 0 < int(said.partition("; so for ")[2].split()[0]) <= 64


#: Elements of 4 bits of one argument, whose origins begin with 1.
COUNT = 24


@pytest.fixture(scope="module")
def tape():
    shares = np.zeros(1 + 2 * COUNT, np.int32)
    shares[1 : 1 + COUNT] = 1 + COUNT + np.arange(COUNT)
    return Tape(len(shares), shares)


#: The lower elements of the bytes of a register, which may be neighbours in memory; 0 where a byte is of none.
BYTES = st.one_of(
    st.integers(1, COUNT - 8).map(lambda first: [first, first + 2, first + 4, first + 6]),
    st.lists(st.integers(0, COUNT - 1), min_size=4, max_size=4),
)


def elements(origin):
    """The element that each half of each byte is of, as an origin says it; None where it says nothing."""
    found = []
    for each in origin.tolist():
        alone = each > COUNT
        one = [{each - COUNT}, {each - COUNT}] if alone else [{each}, {each + 1}]
        found += [None, None] if each == MIXED else [set(), set()] if each == NONE else one
    return found


@given(first=BYTES, by=st.integers(-31, 31), number=st.integers(0, 2**32 - 1))
def test_what_a_shift_leaves_of_bytes_is_what_lies_there(tape, first, by, number):
    origin, bits = np.array([first], np.int32), np.array([number], "u4")
    found = shifted(origin, bits, np.array([by]), tape)[0]
    at = np.arange(32) - by
    inside = (at >= 0) & (at < 32)
    before = elements(origin[0])
    held = [
        set().union(*(before[bit // 4] for bit in at[half : half + 4][inside[half : half + 4]].tolist()))
        for half in range(0, 32, 4)
    ]
    for half, said in enumerate(elements(found)):
        assert said is None or held[half] <= said, (half, held, said)
    if by % 8 == 0:
        assert MIXED not in found
    if by % 4 == 0 and first == list(range(first[0], first[0] + 8, 2)) and first[0] > 1:
        assert MIXED not in found


@given(first=BYTES, mask=st.binary(min_size=4, max_size=4))
def test_what_a_mask_leaves_of_bytes_is_what_is_in_it(tape, first, mask):
    origin, kept = np.array(first, np.int32), np.frombuffer(mask, "u1")
    found = tape.masked(origin, kept)
    for each, left, byte in zip(found.tolist(), mask, first, strict=True):
        held = [byte + half for half in (0, 1) if byte and left >> 4 * half & 0xF]
        if len(held) == 1:
            assert each in (held[0] + COUNT if held[0] <= COUNT else NONE, byte if left == 0xFF else None)
        elif held:
            assert each == (byte if left == 0xFF else MIXED)
