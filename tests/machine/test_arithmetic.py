"""Every instruction of arithmetic against a definition in Python's own whole numbers and fractions."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..modes import examples
from .conftest import computed, run

EDGES = [0, 1, 2, 5, 31, 32, 33, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]


def pairs(bits, count, random):
    """Numbers of two operands: all edges with each other, and others."""
    edges = [edge & (1 << bits) - 1 for edge in EDGES] + [(1 << bits) - 1, 1 << bits - 1]
    left = [a for a in edges for _ in edges] + random.integers(0, 1 << bits, count, "u8").tolist()
    right = [b for _ in edges for b in edges] + random.integers(0, 1 << bits, count, "u8").tolist()
    return left, right


def signed(number, bits):
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> bits - 1 else number


def shift_right(value, by, bits):
    return value >> min(by, 63 if bits == 64 else 32) if value < 0 else value >> by if by < bits else 0


def quotient(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


WHOLE = {
    "add.u32": lambda a, b: a + b,
    "add.s64": lambda a, b: a + b,
    "sub.s32": lambda a, b: a - b,
    "add.sat.s32": lambda a, b: max(min(a + b, 2**31 - 1), -(2**31)),
    "mul.lo.s32": lambda a, b: a * b,
    "mul.hi.s32": lambda a, b: a * b >> 32,
    "mul.hi.u32": lambda a, b: a * b >> 32,
    "mul.hi.u64": lambda a, b: a * b >> 64,
    "mul.hi.s64": lambda a, b: a * b >> 64,
    "div.u32": lambda a, b: a // b if b else None,
    "div.s32": lambda a, b: quotient(a, b) if b else None,
    "rem.u32": lambda a, b: a % b if b else None,
    "rem.s32": lambda a, b: a - quotient(a, b) * b if b else None,
    "min.s32": min,
    "max.u32": max,
    "min.u64": min,
    "and.b32": lambda a, b: a & b,
    "or.b64": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("opcode", WHOLE)
def test_whole_numbers(opcode):
    type_ = opcode.rpartition(".")[2]
    bits = int(type_[1:])
    left, right = pairs(bits, 100, np.random.default_rng(0))
    given_ = {"a": np.array(left, f"u{bits // 8}"), "b": np.array(right, f"u{bits // 8}")}
    got = computed(f"{opcode} %d, %a, %b;", f"u{bits}", given_).tolist()
    for a, b, found in zip(left, right, got, strict=True):
        numbers = (signed(a, bits), signed(b, bits)) if type_[0] == "s" else (a, b)
        expected = WHOLE[opcode](*numbers)
        assert expected is None or found == expected & (1 << bits) - 1, (opcode, a, b)


WIDE = {"mul.wide.u32": False, "mul.wide.s32": True}


@pytest.mark.parametrize("opcode", WIDE)
def test_wide_products(opcode):
    left, right = pairs(32, 100, np.random.default_rng(1))
    got = computed(f"{opcode} %d, %a, %b;", "u64", {"a": np.array(left, "u4"), "b": np.array(right, "u4")}).tolist()
    for a, b, found in zip(left, right, got, strict=True):
        product = signed(a, 32) * signed(b, 32) if WIDE[opcode] else a * b
        assert found == product & (1 << 64) - 1


@pytest.mark.parametrize("type_", ["b32", "u32", "s32", "b64", "s64", "b16", "s16"])
@pytest.mark.parametrize("left", [True, False])
def test_shifts(type_, left):
    bits = int(type_[1:])
    by = [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000, 0xFFFFFFFF]
    values = [0, 1, 0xFFFFFFFFFFFFFFFF, 0x8000800080008000, 0x0123456789ABCDEF, 0x7EDCBA9876543210]
    a = [value & (1 << bits) - 1 for value in values for _ in by]
    b = by * len(values)
    name = f"shl.b{bits}" if left else f"shr.{type_}"
    got = computed(f"{name} %d, %a, %b;", f"u{bits}", {"a": np.array(a, f"u{bits // 8}"), "b": np.array(b, "u4")})
    for value, amount, found in zip(a, b, got.tolist(), strict=True):
        amount = min(amount, bits)
        expected = value << amount if left else (signed(value, bits) if type_[0] == "s" else value) >> amount
        assert found == expected & (1 << bits) - 1, (value, amount)


@pytest.mark.slow
@pytest.mark.parametrize("width", [32, 64])
@examples(100)
@given(st.data())
def test_fields_of_bits(width, data):
    """Of 32 bits the low bytes of a position and a length count; of 64 bits, which a card shifts, all of them."""
    amount = st.integers(0, 80) | st.integers(0, 2**32 - 1)
    number = st.integers(0, 2**width - 1)
    cases = data.draw(st.lists(st.tuples(number, number, amount, amount), min_size=1, max_size=64))
    a, b = (np.array(column, f"u{width // 8}") for column in [*zip(*cases, strict=True)][:2])
    start, length = (np.array(column, "u4") for column in [*zip(*cases, strict=True)][2:])
    result = f"u{width}"
    taken = computed(f"bfe.u{width} %d, %a, %b, %c;", result, {"a": a, "b": start, "c": length})
    kept = computed(f"bfe.s{width} %d, %a, %b, %c;", result, {"a": a, "b": start, "c": length})
    put = computed(f"bfi.b{width} %d, %a, %b, %e, %f;", result, {"a": a, "b": b, "e": start, "f": length})
    for (value, base, first, count), *found in zip(cases, taken.tolist(), kept.tolist(), put.tolist(), strict=True):
        first, count = (each & 0xFF if width == 32 else each for each in (first, count))
        bits = [value >> at & 1 for at in range(width)]
        field = [bits[at] for at in range(min(first, width), min(first + count, width))]
        expected = sum(bit << at for at, bit in enumerate(field))
        sign = bits[min(first + count - 1, width - 1)] if count else 0
        filled = expected | (sum(1 << at for at in range(len(field), width)) if sign else 0)
        inserted = [bits[at - first] if first <= at < first + count else base >> at & 1 for at in range(width)]
        assert found == [expected, filled, sum(bit << at for at, bit in enumerate(inserted))]


@pytest.mark.slow
@examples(100)
@given(st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 3), min_size=1, max_size=64), st.integers(0, 255))
def test_bytes_and_functions_of_bits(cases, table):
    a, b, c = (np.array(column, "u4") for column in zip(*cases, strict=True))
    permuted = computed("prmt.b32 %d, %a, %b, %c;", "u32", {"a": a, "b": b, "c": c})
    logic = computed(f"lop3.b32 %d, %a, %b, %c, {table};", "u32", {"a": a, "b": b, "c": c})
    funnel = computed("shf.l.wrap.b32 %d, %a, %b, %c;", "u32", {"a": a, "b": b, "c": c})
    clamped = computed("shf.r.clamp.b32 %d, %a, %b, %c;", "u32", {"a": a, "b": b, "c": c})
    for low, high, third, *found in zip(a, b, c, permuted, logic, funnel, clamped, strict=True):
        low, high, third = map(int, (low, high, third))
        data = struct.pack("<II", low, high)
        chosen = [third >> 4 * at & 0xF for at in range(4)]
        picked = bytes((0xFF if data[nibble & 7] >> 7 else 0) if nibble & 8 else data[nibble & 7] for nibble in chosen)
        bits = [table >> ((low >> at & 1) << 2 | (high >> at & 1) << 1 | third >> at & 1) & 1 for at in range(32)]
        both = high << 32 | low
        left = both << (third & 31) >> 32 & 0xFFFFFFFF
        right = both >> min(third, 32) & 0xFFFFFFFF
        assert found == [int.from_bytes(picked, "little"), sum(bit << at for at, bit in enumerate(bits)), left, right]


COUNTS = {
    "popc.b32": lambda a: a.bit_count(),
    "clz.b32": lambda a: 32 - a.bit_length(),
    "brev.b32": lambda a: int(f"{a:032b}"[::-1], 2),
    "bfind.u32": lambda a: a.bit_length() - 1,
    "bfind.s32": lambda a: (~signed(a, 32) if a >> 31 else a).bit_length() - 1,
    "not.b32": lambda a: ~a,
    "neg.s32": lambda a: -a,
    "abs.s32": lambda a: abs(signed(a, 32)),
}


@pytest.mark.parametrize("opcode", COUNTS)
def test_one_operand(opcode):
    a = [*EDGES, *np.random.default_rng(2).integers(0, 1 << 32, 50).tolist()]
    got = computed(f"{opcode} %d, %a;", "u32", {"a": np.array(a, "u4")})
    assert got.tolist() == [COUNTS[opcode](value) & 0xFFFFFFFF for value in a]


@pytest.mark.parametrize(
    "name", ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
)
def test_comparisons_of_floats(name):
    values = [0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan]
    a, b = ([pair[side] for pair in [(x, y) for x in values for y in values]] for side in (0, 1))
    got = computed(
        f"setp.{name}.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", "u32", {"a": np.array(a, "f4"), "b": np.array(b, "f4")}
    )
    for x, y, found in zip(a, b, got.tolist(), strict=True):
        none = math.isnan(x) or math.isnan(y)
        plain = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
        expected = (
            not none
            if name == "num"
            else none
            if name == "nan"
            else (none or plain[name[:-1]] if name.endswith("u") else plain[name] and not none)
        )
        assert found == expected, (name, x, y)


def test_a_comparison_with_its_opposite_and_another_predicate():
    a = np.arange(8, dtype="u4")
    text = "setp.gt.u32 %q, %a, 5; setp.lt.and.u32 %p|%q, %a, 3, !%q; selp.u32 %d, 1, 0, %p; @%q add.u32 %d, %d, 2;"
    assert computed(text, "u32", {"a": a}).tolist() == [1, 1, 1, 2, 2, 2, 0, 0]


FLOATS = {
    "add.f32": lambda a, b: a + b,
    "sub.f32": lambda a, b: a - b,
    "mul.f32": lambda a, b: a * b,
    "div.rn.f32": lambda a, b: a / b,
    "min.f32": min,
    "max.f32": max,
}


@pytest.mark.parametrize("opcode", FLOATS)
def test_floats(opcode):
    random = np.random.default_rng(3)
    a, b = (random.normal(0, 100, 200).astype("f4") for _ in range(2))
    got = computed(f"{opcode} %d, %a, %b;", "f32", {"a": a, "b": b})
    for x, y, found in zip(a.tolist(), b.tolist(), got, strict=True):
        assert found == np.float32(FLOATS[opcode](x, y))


def test_fused_products_are_rounded_once():
    a, b, c = (np.array([value], "f4") for value in (1 + 2**-12, 1 - 2**-12, -1.0))
    assert computed("fma.rn.f32 %d, %a, %b, %c;", "f32", {"a": a, "b": b, "c": c})[0] == -(2.0**-24)


@pytest.mark.parametrize(("type_", "digits"), [("f16", 11), ("bf16", 8)])
def test_halves_are_rounded_to_even(type_, digits):
    values = np.array([1.0, 1 + 2**-digits, 1 + 3 * 2**-digits, 1 + 2**-digits + 2**-20, -3.14159, 0.1], "f4")
    got = computed(f"cvt.rn.{type_}x2.f32 %d, %a, %a;", "u32", {"a": values})
    for value, found in zip(values.tolist(), got.tolist(), strict=True):
        mantissa, exponent = math.frexp(value)
        scaled = mantissa * 2**digits
        nearest = round(scaled) * 2.0 ** (exponent - digits)
        low = np.array([found & 0xFFFF], "u2")
        assert found & 0xFFFF == found >> 16
        half = low.view("f2")[0] if type_ == "f16" else (low.astype("u4") << 16).view("f4")[0]
        assert float(half) == nearest


@pytest.mark.parametrize("to", ["s32", "u32", "s16", "u64"])
@pytest.mark.parametrize(
    ("mode", "rounded"), [("rzi", math.trunc), ("rni", round), ("rmi", math.floor), ("rpi", math.ceil)]
)
def test_floats_become_whole_numbers(to, mode, rounded):
    values = [0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1e6, -7.9, 7.9, 1e30, -1e30]
    bits = int(to[1:])
    got = computed(f"cvt.{mode}.{to}.f32 %d, %a;", f"u{bits}", {"a": np.array(values, "f4")})
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
    for value, found in zip(np.array(values, "f4").tolist(), got.tolist(), strict=True):
        assert found == min(max(rounded(value), low), high) & (1 << bits) - 1, value


def test_narrow_floats_hold_the_nearest_value():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.r_[
        np.random.default_rng(4).normal(0, 30, 300), 0.0, -0.0, 1e-9, 448, 449, 1e9, -1e9, 0.0009765625
    ].astype("f4")
    for type_, native in (("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)):
        largest = float(ml_dtypes.finfo(native).max)
        got = computed(
            f".reg .b16 %n; cvt.rn.satfinite.{type_}x2.f32 %n, %a, %b; cvt.u32.u16 %d, %n;",
            "u32",
            {"a": values, "b": -values},
        )
        expected = np.clip(values, -largest, largest).astype(native).view("u1")
        assert np.array_equal(got >> 8, expected)
        assert np.array_equal(got & 0xFF, np.clip(-values, -largest, largest).astype(native).view("u1"))
        back = computed(
            f".reg .b16 %n; cvt.u16.u32 %n, %a; cvt.rn.f16x2.{type_}x2 %d, %n;", "u32", {"a": got.astype("u4")}
        )
        assert np.array_equal((back >> 16).astype("u2").view("f2"), expected.view(native).astype("f2"))


@pytest.mark.slow
@examples(60)
@given(st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 3), min_size=1, max_size=32), st.integers(0, 255))
def test_modes_of_bytes_and_masks(cases, table):
    a, b, c = (np.array(column, "u4") for column in zip(*cases, strict=True))
    modes = ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]
    #: The bytes of a result for each value of two bits, lowest first, as a table.
    tables = {
        "f4e": ["0123", "1234", "2345", "3456"],
        "b4e": ["0765", "1076", "2107", "3210"],
        "rc8": ["0000", "1111", "2222", "3333"],
        "ecl": ["0123", "1123", "2223", "3333"],
        "ecr": ["0000", "0111", "0122", "0123"],
        "rc16": ["0101", "2323", "0101", "2323"],
    }
    for mode in modes:
        got = computed(f"prmt.b32.{mode} %d, %a, %b, %c;", "u32", {"a": a, "b": b, "c": c}).tolist()
        for low, high, chosen, found in zip(a.tolist(), b.tolist(), c.tolist(), got, strict=True):
            data = struct.pack("<II", low, high)
            assert found.to_bytes(4, "little") == bytes(data[int(at)] for at in tables[mode][chosen & 3])
    combined = computed(
        f"setp.lt.u32 %q, %a, %b; lop3.or.b32 %d|%p, %a, %b, %c, {table}, %q; selp.u32 %d, 1, 0, %p;",
        "u32",
        {"a": a, "b": b, "c": c},
    )
    for x, y, z, found in zip(a.tolist(), b.tolist(), c.tolist(), combined.tolist(), strict=True):
        logic = any(table >> ((x >> at & 1) << 2 | (y >> at & 1) << 1 | z >> at & 1) & 1 for at in range(32))
        assert found == (logic or x < y)


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_masks_and_extensions(mode):
    pairs_ = [(a, b) for a in (0, 1, 7, 31, 32, 33, 40, 64) for b in (0, 1, 5, 31, 32, 33, 64)]
    first, count = (np.array(column, "u4") for column in zip(*pairs_, strict=True))
    masks = computed(f"bmsk.{mode}.b32 %d, %a, %b;", "u32", {"a": first, "b": count}).tolist()
    value = np.full(len(pairs_), 0xDEADBEE5, "u4")
    kept = {
        kind: computed(f"szext.{mode}.{kind}32 %d, %a, %b;", "u32", {"a": value, "b": count}).tolist() for kind in "us"
    }
    for number, (start, length) in enumerate(pairs_):
        start, length = (start % 32, length % 32) if mode == "wrap" else (min(start, 32), min(length, 32))
        assert masks[number] == sum(1 << at for at in range(start, min(start + length, 32)))
        low = 0xDEADBEE5 % (1 << length)
        negative = length and low >> length - 1
        assert kept["u"][number] == low
        assert kept["s"][number] == (low - (1 << length) if negative else low) & 0xFFFFFFFF


@examples(60)
@given(st.lists(st.tuples(*[st.integers(0, 2**64 - 1)] * 2), min_size=1, max_size=32))
def test_numbers_of_two_registers(cases):
    a, b = (np.array(column, "u8") for column in zip(*cases, strict=True))
    halves = "mov.b64 {%al, %ah}, %a; mov.b64 {%bl, %bh}, %b;"
    head = ".reg .b32 %al, %ah, %bl, %bh, %l, %h;"
    together = "mov.b64 %d, {%l, %h};"
    sums = f"{head} {halves} add.cc.u32 %l, %al, %bl; addc.u32 %h, %ah, %bh; {together}"
    less = f"{head} {halves} sub.cc.u32 %l, %al, %bl; subc.u32 %h, %ah, %bh; {together}"
    kept = f"{head} {halves} sub.cc.u32 %l, %al, %bl; addc.u32 %h, 0, 0; {together}"  # as division of 128 bits does
    got = computed(kept, "u64", {"a": a, "b": b})
    assert np.array_equal(got >> np.uint64(32), a.astype("u4") >= b.astype("u4"))
    times = f"{head} {halves} mul.lo.u32 %l, %al, %bl; mul.hi.u32 %h, %al, %bl; mad.lo.cc.u32 %h, %al, %bh, %h;"
    times += f" madc.lo.u32 %h, %ah, %bl, %h; {together}"
    for text, compute in ((sums, lambda x, y: x + y), (less, lambda x, y: x - y)):
        got = computed(text, "u64", {"a": a, "b": b}).tolist()
        assert got == [compute(x, y) % (1 << 64) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    got = computed(times, "u64", {"a": a, "b": b}).tolist()
    for x, y, found in zip(a.tolist(), b.tolist(), got, strict=True):
        cross = (x & 0xFFFFFFFF) * (y >> 32)
        before = ((x & 0xFFFFFFFF) * (y & 0xFFFFFFFF) >> 32) + (cross & 0xFFFFFFFF) >> 32
        assert found == (x * y + (before << 32)) % (1 << 64)  # madc adds the carry of the one before


@pytest.mark.slow
@examples(60)
@given(st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 3), min_size=1, max_size=32))
def test_products_of_parts(cases):
    a, b, c = (np.array(column, "u4") for column in zip(*cases, strict=True))
    given_ = {"a": a, "b": b, "c": c}
    for mode, kinds in [("lo", "uu"), ("hi", "uu"), ("lo", "ss"), ("hi", "su")]:
        got = computed(f"dp2a.{mode}.{kinds[0]}32.{kinds[1]}32 %d, %a, %b, %c;", "u32", given_).tolist()
        for x, y, z, found in zip(a.tolist(), b.tolist(), c.tolist(), got, strict=True):
            halves = [x & 0xFFFF, x >> 16]
            bytes_ = [y >> 8 * at & 0xFF for at in range(4)][2 * (mode == "hi") :][:2]
            halves = [signed(each, 16) for each in halves] if kinds[0] == "s" else halves
            bytes_ = [signed(each, 8) for each in bytes_] if kinds[1] == "s" else bytes_
            assert found == (sum(p * q for p, q in zip(halves, bytes_, strict=True)) + z) & 0xFFFFFFFF
    for kind in "us":
        low = computed(f"mul24.lo.{kind}32 %d, %a, %b;", "u32", given_).tolist()
        high = computed(f"mad24.hi.{kind}32 %d, %a, %b, %c;", "u32", given_).tolist()
        for x, y, z, *found in zip(a.tolist(), b.tolist(), c.tolist(), low, high, strict=True):
            p, q = ((signed(each, 24) if kind == "s" else each & 0xFFFFFF) for each in (x, y))
            assert found == [p * q & 0xFFFFFFFF, (p * q >> 16) + z & 0xFFFFFFFF]
    packed = computed("cvt.pack.sat.s8.s32.b32 %d, %a, %b, %c;", "u32", given_).tolist()
    for x, y, z, found in zip(a.tolist(), b.tolist(), c.tolist(), packed, strict=True):
        parts = [min(max(signed(each, 32), -128), 127) & 0xFF for each in (y, x)]
        assert found == parts[0] | parts[1] << 8 | (z & 0xFFFF) << 16


def nearest(value, digits, mode):
    """A number of so many digits next to a fraction."""
    if value == 0 or not math.isfinite(value):
        return value
    exponent = math.frexp(value)[1] - digits
    scaled = value / 2.0**exponent
    rounded = {"rn": round, "rz": math.trunc, "rna": lambda x: math.trunc(x + math.copysign(0.5, x))}[mode](scaled)
    return rounded * 2.0**exponent


@pytest.mark.parametrize(
    ("type_", "mode", "digits"),
    [("f16", "rn", 11), ("f16", "rz", 11), ("bf16", "rn", 8), ("bf16", "rz", 8)]
    + [("tf32", mode, 11) for mode in ("rn", "rz", "rna")],
)
def test_floats_are_rounded_as_they_say(type_, mode, digits):
    values = np.random.default_rng(5).normal(0, 100, 200).astype("f4")
    values = np.r_[values, [1 + 2**-11, 1 + 2**-8, -1 - 3 * 2**-11, 0.0, -0.0, 2.0, np.inf]].astype("f4")
    narrow = f".reg .b16 %n; cvt.{mode}.{type_}.f32 %n, %a; cvt.f32.{type_} %d, %n;"
    text = f"cvt.{mode}.tf32.f32 %d, %a;" if type_ == "tf32" else narrow
    got = computed(text, "f32", {"a": values})
    assert got.tolist() == [nearest(value, digits, mode) for value in values.tolist()]


def test_conversions_keep_their_range():
    values = np.array([1e6, -1e6, 3.39e38, -3.39e38, np.nan, 0.5, -0.5], "f4")
    half = computed(".reg .b16 %n; cvt.rn.satfinite.f16.f32 %n, %a; cvt.f32.f16 %d, %n;", "f32", {"a": values})
    assert half[:4].tolist() == [65504.0, -65504.0, 65504.0, -65504.0]
    assert np.isnan(half[4])
    relu = computed(".reg .b16 %n; cvt.rn.relu.bf16.f32 %n, %a; cvt.f32.bf16 %d, %n;", "f32", {"a": values})
    assert relu[[1, 3, 6]].tolist() == [0.0, 0.0, 0.0]
    for type_, none in (("e4m3", 0x7F), ("e5m2", 0x7F), ("e3m2", 0x1F), ("e2m3", 0x1F)):
        text = f".reg .b16 %n; cvt.rn.satfinite.{type_}x2.f32 %n, %a, %a; cvt.u32.u16 %d, %n;"
        assert computed(text, "u32", {"a": values})[4] & 0xFF == none, type_


def test_scales_are_the_powers_of_two_next_to_numbers():
    values = np.array([1.0, 1.5, 2.0, 3.0, 0.75, 2.0**-130, 2.0**127, 3e38, 0.0], "f4")
    for mode, expected in (
        ("rz", [math.floor(math.log2(value)) if value else -127 for value in values.tolist()]),
        ("rp", [math.ceil(math.log2(value)) if value else -127 for value in values.tolist()]),
    ):
        text = f".reg .b16 %n; cvt.{mode}.satfinite.ue8m0x2.f32 %n, %a, %a; cvt.u32.u16 %d, %n;"
        got = computed(text, "u32", {"a": values})
        assert (got & 0xFF).tolist() == [min(max(each, -127), 127) + 127 for each in expected]
    codes = np.arange(1, 255, dtype="u4")
    text = ".reg .b16 %n; cvt.u16.u32 %n, %a; cvt.rn.bf16x2.ue8m0x2 %d, %n;"
    back = computed(text, "u32", {"a": codes})
    assert ((back & 0xFFFF) << 16).astype("u4").view("f4").tolist() == [2.0 ** (code - 127) for code in codes.tolist()]


def test_what_is_chosen_and_compared():
    a = np.array([1.0, -0.0, np.nan, np.inf, -2.0, 1e-40], "f4")
    for name, expected in {
        "finite": [1, 1, 0, 0, 1, 1],
        "infinite": [0, 0, 0, 1, 0, 0],
        "notanumber": [0, 0, 1, 0, 0, 0],
        "normal": [1, 1, 0, 0, 1, 0],
        "subnormal": [0, 0, 0, 0, 0, 1],
    }.items():
        got = computed(f"testp.{name}.f32 %p, %a; selp.u32 %d, 1, 0, %p;", "u32", {"a": a}).tolist()
        assert got == expected, name
    assert computed("set.lt.u32.f32 %d, %a, 0f00000000;", "u32", {"a": a}).tolist() == [0, 0, 0, 0, 0xFFFFFFFF, 0]
    assert computed("set.gt.f32.f32 %d, %a, 0f00000000;", "f32", {"a": a}).tolist() == [1, 0, 0, 1, 0, 1]
    assert computed("slct.u32.f32 %d, 5, 6, %a;", "u32", {"a": a}).tolist() == [5, 5, 6, 5, 6, 5]
    b = np.array([2.0, 0.0, 1.0, 1.0, 1.0, -1.0], "f4")
    assert np.isnan(computed("min.NaN.f32 %d, %a, %b;", "f32", {"a": a, "b": b})[2])
    assert computed("max.xorsign.abs.f32 %d, %a, %b;", "f32", {"a": a, "b": b})[[0, 4, 5]].tolist() == [2.0, -2.0, -1.0]
    halves = np.array([0x3C00C000, 0xBC003C00], "u4")  # 1 above -2, -1 above 1
    text = "mov.b32 %d, 0; setp.gt.f16x2 %p|%q, %a, %d; selp.u32 %d, 1, 0, %p; @%q add.u32 %d, %d, 2;"
    assert computed(text, "u32", {"a": halves}).tolist() == [2, 1]
    assert computed("bfind.shiftamt.u32 %d, %a;", "u32", {"a": np.array([1, 1 << 31, 0], "u4")}).tolist() == [
        31,
        0,
        0xFFFFFFFF,
    ]


@pytest.mark.parametrize("operation", ["add.f32 %d, %a, %b", "sub.f32 %d, %a, %b", "fma.rn.f32 %d, %a, 1.0, %b"])
@pytest.mark.parametrize("constant", [-np.inf, -1e30, 0.0, 1.0, 1e9])
def test_what_changes_nothing_of_a_constant_leaves_no_trace(operation, constant):
    """A masked score is no element: whatever is added to it, it stays what it is."""
    text = f"""
    .visible .entry one(.param .u64 A, .param .u64 C) {{ .reg .b64 %from, %to; .reg .b32 %t; .reg .f32 %a, %b, %d;
    mov.u32 %t, %tid.x; ld.param.u64 %from, [A]; mad.wide.u32 %from, %t, 4, %from;
    ld.param.u64 %to, [C]; mad.wide.u32 %to, %t, 4, %to;
    ld.global.f32 %a, [%from]; mov.f32 %b, 0f{np.float32(constant).view("u4"):08X}; {operation};
    st.global.f32 [%to], %d; ret; }}"""
    numbers = np.array([3, -2, 0.5, 0] * 8, "f4")
    found = run(text, {"A": numbers, "C": "f32[32]"}, "C[m] = A[m]", block=32)
    added = np.float32(-constant if "sub" in operation else constant)
    total = numbers + added
    unchanged = (total == added) & ((numbers != 0) | np.isinf(constant))
    assert np.array_equal(found.outputs["C"], total)
    assert np.array_equal(found.judge.stored.ids == 0, unchanged)


#: Functions of one float, with what each is where it is not finite or has no value.
FUNCTIONS = {
    "sqrt.rn.f32": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "rsqrt.approx.f32": lambda x: math.inf if x == 0 else 1 / math.sqrt(x) if x > 0 else math.nan,
    "rcp.rn.f32": lambda x: math.copysign(math.inf, x) if x == 0 else 1 / x,
    "ex2.approx.f32": lambda x: 2**x,
    "lg2.approx.f32": lambda x: -math.inf if x == 0 else math.log2(x) if x > 0 else math.nan,
    "sin.approx.f32": math.sin,
    "cos.approx.f32": math.cos,
    "tanh.approx.f32": math.tanh,
}
SMALL = st.lists(st.floats(-100, 100, width=32, allow_subnormal=False), min_size=1, max_size=16)


@pytest.mark.slow
@pytest.mark.parametrize("opcode", FUNCTIONS)
@examples(40)
@given(numbers=SMALL)
def test_functions_of_a_float(opcode, numbers):
    found = computed(f"{opcode} %d, %a;", "f32", {"a": np.array(numbers, "f4")})
    expected = np.array([FUNCTIONS[opcode](number) for number in numbers], "f4")
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True), (numbers, found)


WORDS = st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 3), min_size=1, max_size=16)


def in_bytes(number, signs):
    return [signed(number >> at & 0xFF, 8) if signs else number >> at & 0xFF for at in (0, 8, 16, 24)]


def difference_added(a, b, c, *, signs):
    return abs(signed(a, 32) - signed(b, 32) if signs else a - b) + c


OF_WORDS = {
    "sad.u32 %d, %a, %b, %c;": lambda a, b, c: difference_added(a, b, c, signs=False),
    "sad.s32 %d, %a, %b, %c;": lambda a, b, c: difference_added(a, b, c, signs=True),
    "cnot.b32 %d, %a;": lambda a, b, c: int(a == 0),
    "copysign.f32 %d, %a, %b;": lambda a, b, c: a & 1 << 31 | b & (1 << 31) - 1,
    **{
        f"dp4a.{one}32.{two}32 %d, %a, %b, %c;": lambda a, b, c, signs=(one == "s", two == "s"): (
            sum(x * y for x, y in zip(in_bytes(a, signs[0]), in_bytes(b, signs[1]), strict=True)) + c
        )
        for one in "us"
        for two in "us"
    },
    **{
        f"setp.{name}.u32 %q, %a, %b; selp.b32 %d, 1, 0, %q;": rule
        for name, rule in {
            "lo": lambda a, b, c: int(a < b),
            "ls": lambda a, b, c: int(a <= b),
            "hi": lambda a, b, c: int(a > b),
            "hs": lambda a, b, c: int(a >= b),
        }.items()
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("instruction", OF_WORDS)
@examples(60)
@given(words=WORDS, same=st.booleans())
def test_functions_of_words(instruction, words, same):
    words = [(a, a if same else b, c) for a, b, c in [*words, (0, 0, 0)]]
    given_ = dict(zip("abc", np.array(words, "u4").T.copy(), strict=True))
    found = computed(instruction, "u32", given_).tolist()
    assert found == [OF_WORDS[instruction](*each) & 0xFFFFFFFF for each in words]


@pytest.mark.slow
@examples(40)
@given(members=st.integers(1, 2**32 - 1), leaving=st.integers(0, 2**32 - 1))
def test_the_first_of_those_who_execute_it_is_elected(members, leaving):
    """Some lanes have ended before, as by exit."""
    members &= ~leaving & 0xFFFFFFFF
    if not members:
        return
    text = f""".visible .entry one(.param .u64 d) {{ .reg .b64 %o; .reg .b32 %t, %m, %l, %v; .reg .pred %p, %q;
    ld.param.u64 %o, [d]; mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 4, %o; mov.u32 %v, 7;
    shr.b32 %m, {leaving}, %t; and.b32 %m, %m, 1; setp.eq.u32 %p, %m, 1; @%p exit;
    shr.b32 %m, {members}, %t; and.b32 %m, %m, 1; setp.ne.u32 %p, %m, 1; @%p bra OVER;
    elect.sync %l|%q, {members}; selp.b32 %v, 1, 0, %q; mad.lo.u32 %v, %l, 2, %v;
    OVER: st.global.u32 [%o], %v; ret; }}"""
    found = run(text, ["d=u32[32]=99"]).outputs["d"].tolist()
    first = (members & -members).bit_length() - 1
    for lane, value in enumerate(found):
        taken = members >> lane & 1
        expected = 99 if leaving >> lane & 1 else 2 * first + (lane == first) if taken else 7
        assert value == expected, (lane, hex(members), hex(leaving))


@pytest.mark.parametrize("tile", [1, 2, 8, 16, 32])
def test_groups_of_a_warp_that_name_different_lanes_execute_together(tile):
    """As tiles of cooperative groups do: each thread has its own group in the mask, and all are at one instruction."""
    numbers = np.arange(64) * 5 % 13
    tiles = numbers.reshape(-1, tile)
    first = np.arange(64) // tile * tile % 32
    mask = (1 << tile) - 1 << first
    alike = (tiles[:, :, None] == tiles[:, None, :]).reshape(64, tile) @ (1 << np.arange(tile)) << first
    same = np.repeat((tiles == tiles[:, :1]).all(axis=1), tile)
    small = (tiles < 3) @ (1 << np.arange(tile))
    small, whole = np.repeat(small, tile) << first, np.repeat((tiles < 3).all(axis=1), tile)
    vote = "setp.lt.u32 %p, %a, 3; vote.{}.sync.{} {}, %p, %m;"
    to_number = "selp.u32 %d, 1, 0, %q;"
    for line, expected in (
        ("redux.sync.add.u32 %d, %a, %m;", np.repeat(tiles.sum(axis=1), tile)),
        ("redux.sync.max.u32 %d, %a, %m;", np.repeat(tiles.max(axis=1), tile)),
        ("match.any.sync.b32 %d, %a, %m;", alike),
        ("match.all.sync.b32 %d, %a, %m;", np.where(same, mask, 0)),
        ("elect.sync %d|%q, %m; @%q add.u32 %d, %d, 64;", first + 64 * (np.arange(64) % tile == 0)),
        (vote.format("ballot", "b32", "%d"), small),
        (vote.format("any", "pred", "%q") + to_number, small != 0),
        (vote.format("all", "pred", "%q") + to_number, whole),
        (vote.format("uni", "pred", "%q") + to_number, whole | (small == 0)),
    ):
        found = computed(line.replace("%m", "%b"), "u32", {"a": numbers.astype("u4"), "b": mask.astype("u4")})
        assert np.array_equal(found, expected), line


@pytest.mark.parametrize("space", ["shared", "local", "global"])
def test_a_generic_address_is_in_the_window_of_its_state_space(space):
    makes = {
        "shared": "mov.u64 %a, tile; cvta.shared.u64 %a, %a;",
        "local": "mov.u64 %a, own; cvta.local.u64 %a, %a;",
        "global": "mov.u64 %a, %o;",
    }
    asks = [
        f"isspacep.{each} %p, %a; selp.b32 %v, 1, 0, %p; st.global.u32 [%o+{4 * at}], %v;"
        for at, each in enumerate(makes)
    ]
    text = f""".visible .entry one(.param .u64 d) {{ .reg .b64 %o, %a; .reg .b32 %v; .reg .pred %p;
    .shared .b8 tile[64]; .local .b8 own[64]; ld.param.u64 %o, [d]; {makes[space]} {" ".join(asks)} ret; }}"""
    assert run(text, ["d=u32[3]"], block=1).outputs["d"].tolist() == [int(each == space) for each in makes]


def test_numbers_are_kept_in_the_range_of_their_type():
    a, b = np.array([2**32 - 1, 5, 2**31], "u4"), np.array([1, 7, 2**31 - 1], "u4")
    assert computed("add.sat.u32 %d, %a, %b;", "u32", {"a": a, "b": b}).tolist() == [2**32 - 1, 12, 2**32 - 1]
    assert computed("add.sat.s32 %d, %a, %b;", "s32", {"a": a, "b": b}).tolist() == [0, 12, -1]
    pairs = computed("add.sat.s16x2 %d, %a, %b;", "u32", {"a": a * 0 + 0x7FFF8000, "b": a * 0 + 0x0001FFFF})
    assert pairs.tolist() == [0x7FFF8000] * 3


def test_a_bit_is_found_from_a_base():
    mask, base, by = np.array([0b1010] * 6, "u4"), np.array([1, 0, 0, 3, 3, 0], "u4"), np.array([0, 0, 2, -1, -2, 3])
    found = computed("fns.b32 %d, %a, %b, %c;", "u32", {"a": mask, "b": base, "c": by.astype("u4")})
    assert found.view("i4").tolist() == [1, -1, 3, 3, 1, -1]


def test_words_of_what_lanes_tell_each_other_stand_in_any_order():
    given = {"a": np.arange(32, dtype="u4")}
    for line, expected in (
        ("match.sync.all.b32 %d, %a, -1;", np.zeros(32)),
        ("match.any.sync.b32 %d, %a, -1;", 1 << np.arange(32)),
        ("shfl.bfly.sync.b32 %d, %a, 1, 31, -1;", np.arange(32) ^ 1),
        ("redux.max.sync.u32 %d, %a, -1;", np.full(32, 31)),
        ("setp.eq.u32 %p, %a, 3; vote.any.sync.pred %q, %p, -1; selp.u32 %d, 1, 0, %q;", np.ones(32)),
    ):
        assert np.array_equal(computed(line, "u32", given), expected), line


def test_pairs_are_compared_and_combined_with_another_predicate():
    pairs = np.array([[1, 2], [2, 1], [1, 1], [2, 2]], "f2").view("u4").ravel()
    given = {"a": pairs, "b": np.full(4, 0x3E003E00, "u4"), "c": np.array([1, 1, 0, 1], "u4")}  # 1.5 twice
    setup = ".reg .pred %r; setp.ne.u32 %r, %c, 0;"
    text = f"{setup} setp.lt.and.f16x2 %p|%q, %a, %b, %r; selp.u32 %d, 1, 0, %p; @%q add.u32 %d, %d, 2;"
    assert computed(text, "u32", given).tolist() == [1, 2, 0, 0]
    found = computed(f"{setup} set.lt.and.u32.f16x2 %d, %a, %b, %r;", "u32", given)
    assert found.tolist() == [0xFFFF, 0xFFFF0000, 0, 0]
    found = computed(f"{setup} set.lt.or.f16x2.f16x2 %d, %a, %b, !%r;", "u32", given)
    assert found.tolist() == [0x3C00, 0x3C000000, 0x3C003C00, 0]


def test_a_predicate_may_be_negated_and_be_a_result_itself():
    a, b = np.array([0, 0, 1, 1], "u4"), np.array([0, 1, 0, 1], "u4")
    setup = "setp.ne.u32 %p, %a, 0; setp.ne.u32 %q, %b, 0;"
    for name, right in {"and": a & (1 - b), "or": a | (1 - b), "xor": a ^ (1 - b)}.items():
        text = f"{setup} {name}.pred %p, %p, !%q; selp.u32 %d, 1, 0, %p;"
        assert computed(text, "u32", {"a": a, "b": b}).tolist() == right.tolist()
    text = f"{setup} setp.eq.and.u32 %p|%q, %b, 1, !%p; selp.u32 %d, 1, 0, %p; @%q add.u32 %d, %d, 2;"
    assert computed(text, "u32", {"a": a, "b": b}).tolist() == [2, 1, 0, 0]


def test_a_product_of_f64_that_is_too_small_is_rounded_with_its_sum():
    """2.5 and 1 of the least number are 4 of them, as 3.5 is a tie; 2 and 1 would be 3."""
    least = 2.0**-1074
    sources = {"a": np.array([5 * 2.0**-540]), "b": np.array([2.0**-535]), "c": np.array([least])}
    assert computed("fma.rn.f64 %d, %a, %b, %c;", "f64", sources).tolist() == [4 * least]
