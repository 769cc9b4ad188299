"""The instruction descriptor of tcgen05.mma, against shifts written out by hand and the bit fields of CuTe's header."""

import re
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import pytest

import lanemap
from lanemap.db.flow.instruction_descriptor import fields

F8 = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
#: By kind: the numbers of types of D, then those of A and B.
TYPES = {
    "tf32": ({"f32": 1}, {"tf32": 2}),
    "f16": ({"f32": 1, "f16": 0}, {"f16": 0, "bf16": 1}),
    "f8f6f4": ({"f16": 0, "f32": 1}, F8),
    "i8": ({"s32": 2}, {"u8": 0, "s8": 1}),
    "ti16": ({"s32": 2}, {"s1z4m11": 3}),
}
#: Of kinds with block scales: the numbers of types of A and B, and those of scales.
SCALED = {
    "mxf8f6f4": (F8, {"ue8m0": 1}),
    "mxf4": ({"e2m1": 1}, {"ue8m0": 1}),
    "mxf4nvf4": ({"e2m1": 1}, {"ue4m3": 0, "ue8m0": 1, "ue5m3": 2}),
}


def exists(kind, m, n, *, sparse=False):
    """Whether an instruction of a kind has a shape, of one block or of two, with .ws or without."""
    if m == 32 and kind in TYPES:
        return n in (64, 128) or (n == 256 and not sparse)
    if kind == "i8" and m in (64, 128) and n > 32:
        return n % 16 == 0 and n <= 256
    steps = {128: 8, 256: 16} if kind in SCALED else {64: 8, 128: 8, 256: 16}
    steps |= {"i8": {256: 32}, "ti16": {128: 16, 256: 32}}.get(kind, {})
    return m in steps and 0 < n <= 256 and n % steps[m] == 0


def described(words):
    return lanemap.Database.descriptor(f"tcgen05.mma {words}")


@pytest.mark.parametrize("kind", TYPES)
def test_words_are_the_fields_of_a_descriptor(kind):
    of_d, of_ab = TYPES[kind]
    turns = ("no", "yes") if kind != "ti16" else ("no",)
    for (d, dd), (a, aa), (b, bb), turn, (m, n) in product(
        of_d.items(), of_ab.items(), of_ab.items(), turns, [(64, 8), (128, 256)]
    ):
        other = f" transpose_B={turn}" if kind != "ti16" else ""
        if d == "f16" and "bf16" in (a, b):
            continue
        found = described(f"kind::{kind} m{m}n{n} {d} {a} {b} sparse=Yes selector=2 shift=16{other}")
        right = (
            2 | 1 << 2 | dd << 4 | aa << 7 | bb << 10 | (turn == "yes") << 16 | n // 8 << 17 | m // 16 << 24 | 2 << 30
        )
        assert (found.word, found.wrong) == (right, [])


@pytest.mark.parametrize("kind", SCALED)
def test_words_are_the_fields_of_a_descriptor_with_scales(kind):
    of_ab, scales = SCALED[kind]
    for (a, aa), (b, bb), (scale, number), m in product(of_ab.items(), of_ab.items(), scales.items(), (128, 256)):
        found = described(f"kind::{kind} m{m}n64 {a} {b} scale_type={scale} scale_A=2 scale_B=2 negate_A=yes")
        right = 2 << 4 | aa << 7 | bb << 10 | 1 << 13 | 8 << 17 | number << 23 | m // 128 << 27 | 2 << 29
        assert (found.word, found.wrong) == (right, [])


@pytest.mark.parametrize(
    ("kind", "k", "sparse", "bits"),
    [
        *[("tf32", 8, "no", 0), ("tf32", 16, "yes", 0), ("f16", 16, "no", 0), ("f16", 32, "yes", 0)],
        *[("f8f6f4", 32, "no", 0), ("f8f6f4", 64, "yes", 0), ("f8f6f4", 64, "no", 1 << 29)],
        *[("mxf8f6f4", 64, "yes", 0), ("mxf8f6f4", 64, "no", 1 << 31), ("mxf8f6f4", 128, "yes", 1 << 31)],
        *[("mxf4", 64, "no", 0), ("mxf4", 96, "no", 1 << 31), ("mxf4", 192, "yes", 1 << 31), ("mxf4", 128, "no", 8)],
    ],
)
def test_k_is_that_of_a_dense_or_a_sparse_product(kind, k, sparse, bits):
    """That of 4 bits with scales has its upper bit apart."""
    types = [next(iter(numbers)) for numbers in (TYPES.get(kind) or SCALED[kind][:1])]
    words = " ".join([*types, types[-1]])
    plain, found = (described(f"kind::{kind} m128n64{depth} {words} sparse={sparse}") for depth in ("", f"k{k}"))
    assert found.word ^ plain.word == bits


@pytest.mark.parametrize(("kind", "k", "bits"), [("f16", 32, 4), ("i8", None, 4), ("mxf4", 192, 1 << 31 | 4)])
def test_that_of_a_sparse_product_says_so(kind, k, bits):
    types = [next(iter(numbers)) for numbers in (TYPES.get(kind) or SCALED[kind][:1])]
    words = f"kind::{kind} m128n64 {' '.join([*types, types[-1]])}"
    depth = f"k{k}" if k else ""
    found = lanemap.Database.descriptor(f"tcgen05.mma.sp {words.replace('n64', f'n64{depth}')}")
    assert found.word == described(words).word | bits
    dense = lanemap.Database.descriptor(f"tcgen05.mma.sp kind::{kind}", decode=described(words).word)
    assert dense.wrong == ["sparse is 0 (no): for tcgen05.mma.sp it must be 1 (yes)"]
    assert "tcgen05.mma.sp" in str(found)


@pytest.mark.few(20)
@pytest.mark.parametrize("kind", [*TYPES, *SCALED])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_shape_that_no_instruction_has_is_refused(kind, sparse):
    types = [next(iter(numbers)) for numbers in (TYPES.get(kind) or SCALED[kind][:1])]
    step = 16 if kind in TYPES else 128
    for m, n in product(range(0, 512, step), range(0, 512, 8)):
        words = f"kind::{kind} m{m}n{n} {' '.join([*types, types[-1]])} sparse={'yes' if sparse else 'no'}"
        if exists(kind, m, n, sparse=sparse):
            assert described(words).wrong == []
        else:
            with pytest.raises(lanemap.LanemapError, match=f"no tcgen05.mma kind::{kind} has this shape: [MN] is "):
                described(words)


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", [*TYPES, *SCALED])
def test_a_word_is_read_back_and_what_is_reserved_is_refused(kind):
    table = fields(kind)
    bits = [bit for field in table for bit in field.bits]
    assert len(bits) == len({*bits})
    types = [next(iter(numbers)) for numbers in (TYPES.get(kind) or SCALED[kind][:1])]
    word = described(f"kind::{kind} m128n64 {' '.join([*types, types[-1]])}").word
    assert lanemap.Database.descriptor(f"tcgen05.mma kind::{kind}", decode=word).wrong == []
    for bit in {*range(32)} - {*bits}:
        found = lanemap.Database.descriptor(f"tcgen05.mma kind::{kind}", decode=word | 1 << bit)
        assert found.wrong == [f"bit {bit} must be 0"]
    for field, number in lanemap.Database.descriptor(f"tcgen05.mma kind::{kind}", decode=word).numbers():
        for other in range(1 << len(field.bits)):
            changed = word
            for at, bit in enumerate(field.bits):
                changed = changed & ~(1 << bit) | (other >> at & 1) << bit
            said = lanemap.Database.descriptor(f"tcgen05.mma kind::{kind}", decode=changed)
            assert [found for one, found in said.numbers() if one == field] == [other]
            shape = {"M": 128, "N": 64} | {field.name: other * field.times}
            known = other in field.values.values() if field.values else exists(kind, shape["M"], shape["N"])
            assert bool(said.wrong) != bool(known), (field, other, number)


#: What CuTe calls a field.
NAMES = {
    "sparse_id2_": "selector",
    "sparse_flag_": "sparse",
    "saturate_": "saturate",
    "c_format_": "D",
    "a_format_": "A",
    "b_format_": "B",
    "a_negate_": "negate_A",
    "b_negate_": "negate_B",
    "a_major_": "transpose_A",
    "b_major_": "transpose_B",
    "n_dim_": "N",
    "m_dim_": "M",
    "max_shift_": "shift",
    "b_sf_id_": "scale_B",
    "a_sf_id_": "scale_A",
    "scale_format_": "scale_type",
    "k_size_": "K",
}


@pytest.mark.skipif(not find_spec("cutlass_library"), reason="nvidia-cutlass is not installed")
def test_each_field_is_where_cute_has_it():
    folder = Path(find_spec("cutlass_library").submodule_search_locations[0])
    text = (folder / "source/include/cute/arch/mma_sm100_desc.hpp").read_text()
    for union, kind in (
        ("InstrDescriptor", "i8"),
        ("InstrDescriptor", "f16"),
        ("InstrDescriptorBlockScaled", "mxf8f6f4"),
    ):
        body = text[text.index(f"union {union}\n") :]
        body = re.sub(r"//.*", "", body[body.index("struct {") + 8 : body.index("};")])
        first, held = 0, {}
        for name, width in re.findall(r"(\w*)\s*:\s*(\d+)", body):
            held[NAMES.get(name)] = [*range(first, first + int(width))]
            first += int(width)
        assert first == 32
        for field in fields(kind):
            if field.name in held:  # of M of scaled products CuTe's has the bits that are 0, too
                bits = held[field.name][-len(field.bits) :]
                assert [*field.bits] == bits, field
    for name, kind in (
        ("F16F32Format", "f16"),
        ("S8Format", "i8"),
        ("MXF8F6F4Format", "f8f6f4"),
        ("ScaleFormat", "mxf4nvf4"),
    ):
        declared = re.search(rf"enum class {name} .*?\}};", text, re.S)[0]
        field = next(one for one in fields(kind) if one.name == ("scale_type" if name == "ScaleFormat" else "A"))
        numbers = {word.lower(): int(number) for word, number in re.findall(r"(\w+)\s*=\s*(\d)", declared)}
        numbers = {word.replace("uint8", "u8").replace("int8", "s8"): number for word, number in numbers.items()}
        assert {*field.values.items()} & {*numbers.items()} >= {*numbers.items()} - {("tf32", 2), ("invalid", 7)}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("m128n256k16 bf16 128B.K", "as in kind::f16; for the descriptor of a matrix A or B, or shared and its fields"),
        ("kind::mxf8f6f4 m128n64 f32 e4m3 e4m3", "name the shape and the types of A and B alone, as in m128n256"),
        ("", "name one kind of tcgen05.mma, as in kind::f16"),
        ("kind::f4 m128n64", "no kind 'f4' of tcgen05.mma: choose from tf32, f16"),
        ("kind::f16", "name the shape and the types of D, A and B, as in m128n256"),
        ("kind::mxf4 m128n64 e2m1", "name the shape and the types of A and B, as in m128n256"),
        ("kind::f16 m120n256 f32 f16 f16", "M is not 120: it is 0 to 496 in steps of 16"),
        ("kind::f16 m128n256 f32 f16 e4m3", "B is not e4m3: choose from f16, bf16"),
        ("kind::f16 m128n256 f16 f16 bf16", r"D is 0 \(f16\): of bf16 it must be 1 \(f32\)"),
        ("kind::f8f6f4 m128n256k64 f32 e4m3 e2m1", r"K is 1 \(dense 64\): no dense product of e2m1 and e4m3 has it"),
        ("kind::f16 m128n256k16 f32 f16 f16 sparse=YES", "K is not sparse 16"),
        ("kind::f16 m128n256 m64n64 f32 f16 f16", "M or N is said twice"),
        ("kind::f16 m128n256 f32 f16 f16 d=f16", "D is said twice"),
        ("kind::f16 m128n256 f32 f16 f16 transpose_A=yes transpose_a=no", "TRANSPOSE_A is said twice"),
        ("kind::f16 m128n256 f32 f16 f16 saturate=yes", "kind::f16 has no saturate: its fields are selector, sparse"),
    ],
)
def test_what_no_descriptor_has_is_refused(words, said):
    with pytest.raises(lanemap.LanemapError, match=said):
        described(words)


def test_what_a_word_must_be_is_said():
    found = lanemap.Database.descriptor("tcgen05.mma kind::i8", decode=0x08400490)
    assert found.verdict == "D is 1: it must be 2 (s32)"
    found = lanemap.Database.descriptor("tcgen05.mma.sp kind::mxf4", decode=0x08A0048C)
    assert found.verdict == "K is 2 (dense 128): no sparse product of e2m1 has it"
    with pytest.raises(lanemap.LanemapError, match="it has 32 bits"):
        lanemap.Database.descriptor("tcgen05.mma kind::i8", decode=1 << 32)


MODES = {"none": 0, "128B.atom32": 1, "128B": 2, "64B": 4, "32B": 6}


@pytest.mark.parametrize("mode", MODES)
def test_words_are_the_fields_of_a_descriptor_of_shared_memory(mode):
    for start, leading, stride, base, absolute in product((0, 1040), (16, 0x3FFF0), (128, 4096), (0, 7), (0, 1)):
        kept = "address" if absolute else "offset"
        words = f"start={start} leading={leading} stride={stride} base={base} leading_is={kept} swizzle={mode}"
        found = described(f"shared {words}")
        right = start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | base << 49 | absolute << 52
        assert (found.word, found.wrong) == (right | MODES[mode] << 61, [])
        read = lanemap.Database.descriptor("tcgen05.mma shared", decode=found.word)
        given = {"start": str(start), "leading": str(leading), "stride": str(stride), "base": str(base)}
        said = {row["field"]: row["meaning"] for row in read.rows().records()}
        assert said == given | {"constant": "1", "leading_is": kept, "lut_B": "0", "swizzle": mode}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (0, "constant is 0"),
        (1 << 46 | 3 << 61, "swizzle is 3"),
        (1 << 46 | 1 << 55, "bit 55 must be 0"),
        (1 << 46 | 1 << 15, "bit 15 must be 0"),
    ],
)
def test_what_no_descriptor_of_shared_memory_has_is_named(word, said):
    assert said in lanemap.Database.descriptor("tcgen05.mma shared", decode=word).verdict


@pytest.mark.parametrize("words", ["leading=24", "start=262144", "base=8", "swizzle=96B", "m128n64", "kind::f16 f16"])
def test_a_field_of_shared_memory_that_cannot_be_is_refused(words):
    with pytest.raises(lanemap.LanemapError, match="shared|it is 0 to|choose from|name"):
        described(f"shared {words}")
