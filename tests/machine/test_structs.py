"""Structs by value: their fields lie as C++ lays them out, and pointers and tensor maps in them are those of arrays."""

import ctypes
import struct

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from lanemap.capture.machine import arguments, parameters
from lanemap.capture.machine.memory import Allocated
from lanemap.capture.machine.ptx import Variable
from lanemap.db.errors import LanemapError

from .conftest import run

ARRAYS = ["A=f16[16,64]", "B=f16[8,64]", "C=f32[16,8]"]
PRODUCT = "C[m,n] = 0.5 A[m,k] B[n,k]"
FIELDS = "p=struct(A, B, C, 64, 0.5, s64 64)"

#: By type as it is written: what it is in C, and a number of it.
NUMBERS = {
    "": (ctypes.c_int, 64),
    "s8": (ctypes.c_int8, -3),
    "u16": (ctypes.c_uint16, 65535),
    "u32": (ctypes.c_uint32, 1 << 31),
    "s64": (ctypes.c_int64, -1),
    "u64": (ctypes.c_uint64, (1 << 64) - 1),
    "f32": (ctypes.c_float, 1.5),
    "f64": (ctypes.c_double, 0.1),
    "pointer": (ctypes.c_void_p, 0x1234),
}


def packed(fields, size):
    made = [arguments.parse(f"p=struct({fields})"), arguments.parse("A=f16[4]")]
    made[1] = made[1].__class__("A", "f16", (4,), passed=False)
    return parameters.packed(made, [Variable("p", ".param", "b8", size, 8)], {"A": Allocated(0x1234, 8)})[0]


@drawn(st.lists(st.sampled_from(sorted(NUMBERS)), min_size=1, max_size=8))
def test_fields_lie_as_a_compiler_of_c_lays_them_out(types):
    members = [(f"f{number}", NUMBERS[type_][0]) for number, type_ in enumerate(types)]
    native = type("Params", (ctypes.Structure,), {"_fields_": members})()
    for number, type_ in enumerate(types):
        setattr(native, f"f{number}", NUMBERS[type_][1])
    fields = ", ".join("A" if each == "pointer" else f"{each} {NUMBERS[each][1]}" for each in types)
    assert packed(fields, ctypes.sizeof(native)) == bytes(native)
    offsets = [getattr(type(native), name).offset for name, _ in members]
    placed = ", ".join(f"{field}@{offset}" for field, offset in zip(fields.split(", "), offsets, strict=True))
    assert packed(placed, ctypes.sizeof(native)) == bytes(native)


@pytest.mark.parametrize(
    "field",
    [
        FIELDS,
        "p=struct(s64 64 @32, A@0, C@16, B@8, 64@24, 0.5)",
        f"p=struct(bytes:{struct.pack('<qqqifq', 1, 2, 3, 64, 0.5, 64).hex()}, A@0, B, C)",
    ],
)
def test_a_product_whose_arguments_are_a_struct_is_right(nvcc, field):
    found = run(nvcc("params"), [field, *ARRAYS], PRODUCT)
    assert found.ok, found
    assert "4 mma" in found.counts


def test_what_is_wrong_with_it_is_named_as_elsewhere(nvcc):
    found = run(nvcc("params"), ["p=struct(B, A, C, 64, 0.5, s64 64)", *ARRAYS], PRODUCT)
    assert "out of bounds" in str(found)
    found = run(nvcc("params"), ["p=struct(A, B, C, 48, 0.5, s64 64)", *ARRAYS], PRODUCT)
    assert "(16 of 64 products are missing)" in str(found)


def test_by_name_and_from_a_file(nvcc, database, tmp_path):
    a = (np.arange(1024).reshape(16, 64) % 5).astype("f2")
    found = database.trace(
        nvcc("params"), {"p": FIELDS[2:], "A": a, "B": "f16[8,64]", "C": "f32[16,8]"}, PRODUCT, block=32
    )
    assert found.ok, found
    settings = tmp_path / "params.trace.toml"
    lines = [f'{name} = "{value}"' for name, value in (each.split("=", 1) for each in (FIELDS, *ARRAYS))]
    settings.write_text("\n".join(["block = 32", f'product = "{PRODUCT}"', "[args]", *lines]))
    assert database.trace(nvcc("params"), args=settings).ok
    (tmp_path / "p.bin").write_bytes(struct.pack("<qqqifq", 1, 2, 3, 64, 0.5, 64))
    settings.write_text(
        settings.read_text().replace("struct(A, B, C, 64, 0.5, s64 64)", "struct(bytes:@p.bin, A@0, B, C)")
    )
    assert database.trace(nvcc("params"), args=settings).ok
    with pytest.raises(LanemapError, match="no file can be read here"):
        database.trace(nvcc("params"), ["p=struct(bytes:@p.bin, A@0)", *ARRAYS], block=32, files=False)


def test_parameters_are_listed_with_what_is_read_of_a_struct(nvcc):
    with pytest.raises(LanemapError) as refused:
        run(nvcc("params"), [])
    read = "struct(pointer@0, pointer@8, pointer@16, "
    assert f"takes 1, argument 1: 40 bytes, of which it reads {read}" in str(refused.value)
    assert str(refused.value).count("@24") == str(refused.value).count("@32") == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("", "is no struct: write p=struct(A, B@8, 64, f16 1.5)"),
        ("A,,B", "is no struct"),
        ("A, X", "a struct with X: the arrays and tensor maps are A, B, C"),
        ("A, f17 3", "f17 is no type of elements"),
        ("A, s8 1000", "1000 is no s8"),
        ("A, f16 70000", "70000 is no f16"),
        ("A, e4m3 1000", "1000 is no e4m3"),
        ("A, 1e300", "1e300 is no f32"),
        ("A, 3000000000", "3000000000 is no s32: write the type of the field before it, as in s64 64"),
        ("A, s32 1.5", "1.5 is no s32"),
        ("A, s64 1e400", "1e400 is no s64"),
        (f"A, u64 {1 << 64}", f"{1 << 64} is no u64"),
        ("A, B@1000000", "is no argument"),
        ("A, e2m1 1", "1 is no e2m1"),
        ("A, B@4, C@16", "p: two fields of the struct overlap at byte 4"),
        ("A, s8 1@7, B, C", "p: two fields of the struct overlap at byte 7"),
        ("A, B, C, 1, 1.0, s64 1, 1", "p is of 44 bytes, which is not what it is given for"),
        ("bytes:0g", "bytes are hexadecimal digits"),
        ("A, [16]", "is no argument"),
        ("A, struct(B, C)", "is no argument: write A=f16[32,64]"),
    ],
)
def test_what_is_no_struct_is_refused_in_one_line(nvcc, fields, words):
    with pytest.raises(LanemapError) as refused:
        run(nvcc("params"), [f"p=struct({fields})", *ARRAYS])
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_number_is_refused_that_its_parameter_cannot_hold():
    text = """.version 8.7
.target sm_80
.address_size 64
.visible .entry put(.param .u64 out, .param .u32 n)
{ .reg .b64 %out; .reg .b32 %n; ld.param.u64 %out, [out]; ld.param.u32 %n, [n]; st.global.u32 [%out], %n; ret; }"""
    assert run(text, ["out=u32[1]", "n=6"], block=1).outputs["out"].tolist() == [6]
    with pytest.raises(LanemapError, match="n = 6.5 is no u32: write a whole number"):
        run(text, ["out=u32[1]", "n=6.5"], block=1)
    wide = text.replace("u32 n", "f32 n")
    assert run(wide, ["out=f32[1]", "n=-inf"], block=1).outputs["out"].tolist() == [float("-inf")]
    for number in ("1e39", "-1e300", "1" + "0" * 400):
        with pytest.raises(LanemapError, match="does not fit 4 bytes"):
            run(wide, ["out=f32[1]", f"n={number}"], block=1)


@pytest.mark.parametrize(
    ("type_", "right", "wrong"),
    [
        ("u32", [0, -1, 2**32 - 1], [2**32, -(2**31) - 1]),
        ("s32", [-(2**31), 2**31], [-(2**31) - 1]),
        ("u64", [2**64 - 1, -(2**63)], [2**64]),
        ("f32", [0, 1.5, 2**70, 1e-40], [1e-60]),
        ("f64", [1e308, 10**20], []),
        ("b32", [1.5, -1], []),
        ("b16", [1.5, 65535], [1e6, 65536]),
    ],
)
def test_a_parameter_holds_the_numbers_of_its_type(type_, right, wrong):
    parameter = Variable("n", ".param", type_, int(type_[1:]) // 8, 1)
    for number in right:
        data = parameters.packed([arguments.Argument("n", number=number)], [parameter], {})[0]
        floats = type_[0] == "f" or isinstance(number, float)
        expected = np.array([number], f"f{parameter.size}").tobytes() if floats else None
        assert data == (expected or (number % 2 ** int(type_[1:])).to_bytes(parameter.size, "little"))
    for number in wrong:
        with pytest.raises(LanemapError, match=f"does not fit {parameter.size} bytes"):
            parameters.packed([arguments.Argument("n", number=number)], [parameter], {})
