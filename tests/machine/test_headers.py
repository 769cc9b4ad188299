"""What nvcc makes of CUDA's own headers runs as it is defined, and nothing is found in it."""

import numpy as np
import pytest

from .conftest import run

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 1 << 32, (2, 32)).astype("u4")
LONG_ONES = RNG.integers(-(1 << 60), 1 << 60, 32), RNG.integers(1, 1 << 40, 32)
NUMBERS = RNG.integers(-100, 100, 1000).astype("i4")
FLOATS = RNG.integers(0, 99, (5, 64)).astype("f4")
PAIRS = RNG.integers(-8, 9, (2, 64)).astype("f4")

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("target", ["sm_80", "sm_90a"])]


def traced(nvcc, target, entry, arguments, block=32, **launch):
    """The outputs of a kernel in which nothing is found."""
    found = run(nvcc("headers", target), arguments, entry=entry, block=block, **launch)
    assert found.ok, found
    assert found.checked, found
    return found.outputs


def bf16(numbers):
    """The bits of numbers that are bf16, as an array of numpy that stands for them."""
    return (numbers.view("u4") >> 16).astype("u2")


def test_blocks_wait_for_the_whole_grid(nvcc, target):
    arguments = {"in": NUMBERS, "parts": "s32[4]", "out": "s32[1]", "n": 1000}
    assert traced(nvcc, target, "whole_grid", arguments, 128, grid=4)["out"][0] == NUMBERS.sum()


def test_pairs_of_bf16(nvcc, target):
    x, y = PAIRS
    arguments = {"a": bf16(x), "b": bf16(y), "out": "bf16[64]", "more": "f32[32]"}
    found = traced(nvcc, target, "pairs", arguments)
    out = np.abs(np.maximum(x * y + (x + y), x * 0.5)) + y
    assert np.array_equal(found["out"], out)
    assert np.array_equal(found["more"], out[::2] + x[::2] + (x[::2] > y[::2]))


def nth_set(mask, base, offset):
    """The place of a set bit of a mask as the instruction is defined, which counts from a base on."""
    step, left = (1 if offset > 0 else -1), abs(offset)
    while 0 <= base < 32:
        left -= mask >> base & 1
        if not left:
            return base
        base += step
    return -1


def test_packed_bytes_and_halves(nvcc, target):
    given = [part.tolist() for part in BYTES]
    a, b = (part.view("u1").reshape(-1, 4).astype("i8") for part in BYTES)
    signed, other = (part.view("i1").reshape(-1, 4).astype("i8") for part in BYTES)
    short, shorter = (part.view("i2").reshape(-1, 2).astype("i8") for part in BYTES)

    def joined(parts, type_):
        return np.ascontiguousarray(parts.astype(type_)).view("u4").ravel()

    expected = [
        joined(a + b, "u1"),
        joined(short - shorter, "u2"),
        joined(np.abs(a - b), "u1"),
        joined(np.maximum(signed, other), "u1"),
        np.abs(a - b).sum(axis=1),
        joined((a + b + 1) >> 1, "u1"),
        (a * b).sum(axis=1) + 7,
        (short * other[:, :2]).sum(axis=1) - 3,
        [nth_set(x, y & 31, 2) for x, y in zip(*given, strict=True)],
        [nth_set(x, y & 31, -1) for x, y in zip(*given, strict=True)],
    ]
    found = traced(nvcc, target, "packed", {"a": BYTES[0], "b": BYTES[1], "out": "u32[32,10]"})["out"]
    assert np.array_equal(found, np.array(expected, "i8").astype("u4").T)


def test_numbers_of_128_bits(nvcc, target):
    found = traced(nvcc, target, "wide", {"a": LONG_ONES[0], "b": LONG_ONES[1], "out": "s64[32]"})["out"]
    for x, y, out in zip(*(part.tolist() for part in LONG_ONES), found.tolist(), strict=True):
        quotient = abs(x * y) // (y + 1) * (-1 if x < 0 else 1)
        assert (quotient + (x * y >> 40) - out) % (1 << 64) == 0


def test_barriers_of_a_block(nvcc, target):
    given = NUMBERS[:192]
    found = traced(nvcc, target, "barriers", {"in": given, "out": "s32[3,64]"}, 64)
    assert np.array_equal(found["out"], given.reshape(3, 64)[:, ::-1])


def test_a_pipeline_and_what_it_prints(nvcc, target):
    found = traced(nvcc, target, "pipelined", {"in": FLOATS, "out": "f32[64]", "n": 5}, 64, shared=512)
    assert np.array_equal(found["out"], FLOATS[:, ::-1].sum(axis=0))


@pytest.mark.parametrize(("letter", "type_", "name"), [("d", "f8", "f64"), ("s", "i2", "s16")])
def test_templates(nvcc, target, letter, type_, name):
    given, entry = NUMBERS[:64].astype(type_), f"_Z8reversedI{letter}Li64EEvPKT_PS0_"
    found = traced(nvcc, target, entry, {"in": given, "out": f"{name}[64]"}, 64, shared=512)
    assert np.array_equal(found["out"], given[::-1])


def test_assembly_in_any_layout(nvcc, target):
    given = BYTES[0] * (np.arange(32) != 3).astype("u4")
    sums = np.where(given == 0, 7, given) + np.uint32(7 + 32)
    found = traced(nvcc, target, "assembly", {"in": given, "out": "u32[32]"})
    assert np.array_equal(found["out"], sums << np.uint32(16) | sums >> np.uint32(16))


NOTICES = dict.fromkeys(("whole_grid", "released", "sequential", "last_of_all", "last_reads_volatile"), "")
NOTICES["not_released"] = "and nothing orders the two"
NOTICES |= dict.fromkeys(
    ("not_acquired", "last_not_acquired"), "no fence behind the read that tells of it orders the two"
)


@pytest.mark.parametrize("entry", NOTICES)
def test_blocks_that_wait_for_each_other_need_what_orders_them(nvcc, target, entry):
    given = {"part": "f32[128]=0", "flag": "u32[1]=0", "out": "f32[128]=0"}
    found = run(nvcc("notices", target), given, entry=entry, block=64, grid=2)
    assert found.ok == (not NOTICES[entry]), found
    assert all(NOTICES[entry] in each.words for each in found.findings), found


#: Kernels that wait for what 64 threads do, what they leave, and what is lacking where one of them does not.
WAITS = {
    "meets": (np.arange(64) ^ 1, "phase 0 of the mbarrier lacks 1 arrivals and 0 bytes"),
    "gives_up": (np.ones(64), ""),
    "acquires": (np.ones(64), "ld reads 0 in shared memory"),
    "consumes": (np.repeat(np.arange(4), 16), "phase 1 of the mbarrier lacks 32 arrivals and 0 bytes"),
}


@pytest.mark.parametrize("entry", WAITS)
def test_who_waits_for_what_never_comes_ends_by_a_time_or_is_named(nvcc, target, entry):
    left, lacks = WAITS[entry]
    for count in (64, 63):
        found = run(nvcc("waits", target), {"out": "s32[64]=0", "count": count}, entry=entry, block=64)
        assert found.checked, found
        assert [each.kind for each in found.findings] == ["deadlock"] * (count == 63 and bool(lacks)), found
        assert all(lacks in each.words for each in found.findings), found
        if not found.findings:
            assert np.array_equal(found.outputs["out"], left * (count == 64)), found
