"""Requests in the names that people have."""

import re
from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap import DEFAULT_SOURCE, LanemapError
from lanemap.db import lookup
from lanemap.db.isa import spelling
from lanemap.db.isa.instructions import Key
from lanemap.db.isa.names import Query, accumulators
from lanemap.db.isa.parse import parse

from ..forms import FORMS, NARROW_FORMS
from ..forms import SPELT as EVERY


def options(form):
    """The words that a mnemonic may have or leave out, and that tell no layouts apart."""
    return {word for word, kind in spelling.tokens(form).items() if kind in spelling.OPTIONS}


def forms(name):
    return tuple(Query(name).forms)


some_form = st.sampled_from(FORMS)
registers = st.lists(st.sampled_from(["%0", "%17", "%rs4", "a", "d0"]), min_size=1, max_size=4).map(", ".join)


@st.composite
def in_a_kernel(draw, mnemonic: str) -> str:
    """A mnemonic as it stands in sources: cut into strings, with operands, line breaks and what is around it."""
    words = mnemonic.split(".")
    joints = [
        draw(st.sampled_from([".", "." if "::" in word else '."\n      "', ' ."\\n\\t"\n "'])) for word in words[1:]
    ]
    text = words[0] + "".join(
        joint.replace(".", "", 1) + "." + word for joint, word in zip(joints, words[1:], strict=True)
    )
    operands = draw(st.one_of(st.just(""), registers, st.lists(registers, min_size=4, max_size=5).map("}, {".join)))
    text += (" {" + operands + "};") if operands else ""
    before = draw(
        st.sampled_from(["", "  ", 'asm volatile("', 'asm("{\\n.reg .pred p;\\nsetp.ne.b32 p, %67, 0;\\n"\n"', "@%p1 "])
    )
    after = draw(st.sampled_from(["", '\\n"\n  : "=f"(d0) : "r"(a0), "f"(c0));', "\n"]))
    return before + text + (after if operands else "")


@given(st.data())
def test_every_mnemonic_is_read_as_its_form_wherever_it_stands(data):
    form = data.draw(some_form)
    text = data.draw(in_a_kernel(form.mnemonic))
    assert forms(text) == (form,)


def test_each_operand_of_a_form_is_asked_for_as_its_key():
    for form in FORMS:
        assert forms(form.mnemonic) == (form,)
        for role in form.types:
            asked = Query.parse([form.mnemonic, role]).parameters()
            key = form.key(role)
            assert (asked["instruction"], asked["shape"], asked["type"], asked["role"]) == key[:4]
            assert asked["major"] == (key.major if key.several_majors else None)
            if form.scale is None:
                assert Query(form.mnemonic).includes(key)
            elif role in ("SFA", "SFB"):
                chosen = {count: f"scale_vec::{count}X.byte_id::0.thread_id::1" for count in (1, 2, 4)}
                fit = [
                    n
                    for n, qualifiers in chosen.items()
                    if Query(form.mnemonic).includes(key._replace(qualifiers=qualifiers))
                ]
                assert [f"scale_vec::{count}X" in form.mnemonic for count in fit] == [True]


@pytest.mark.few(3)
@pytest.mark.parametrize("name", dict.fromkeys(form.name for form in EVERY))
def test_every_mnemonic_is_a_name_with_all_that_it_may_leave_out_and_add(name):
    """It is read as its form alone; its accumulator is found by the type of A."""
    for form in (form for form in EVERY if form.name == name):
        assert forms(form.mnemonic) == (form,)
        bare = form.mnemonic.replace(".shared", "")
        for word in options(form) - {"sp", "sp::ordered_metadata", *bare.split(".")}:
            assert form in forms(f"{bare}.{word}")
        if form.a == form.b:
            assert form.d in accumulators(form.name, form.shape, form.a)


TYPES = {type_ for form in EVERY for role, type_ in form.types.items() if not role.startswith("SF")}
WORDS = sorted({word for form in EVERY for word in (*form.mnemonic.lower().split("."), *options(form))} - {*"abcd"})
WHOLE = {word for form in EVERY if form.role for word in (form.qualifiers or "").split(".")} - {""}
SPARSE = ("sp", "sp::ordered_metadata")
SPACES = ("shared", "shared::cta", "global")


def in_form(words, form):
    """Whether each word is one of a form's mnemonic or of what it may add, as often as it is there.

    All its types are there in order or none, all that tells moves or majors apart or nothing,
    as often that it is sparse, and one state space.
    """
    its = form.mnemonic.lower().split(".")
    types, of_form = ([word for word in given if word in TYPES] for given in (words, its))
    apart, its_apart = ([word for word in given if word in WHOLE] for given in (words, its))
    return (
        types in ([], of_form)
        and (not apart or Counter(apart) == Counter(its_apart))
        and sum(map(words.count, SPARSE)) == sum(map(its.count, SPARSE))
        and sum(map(words.count, SPACES)) <= 1
        and Counter(words) <= Counter(its) | Counter(options(form))
    )


@pytest.mark.slow
@given(st.data())
def test_a_mnemonic_with_another_word_is_that_of_another_form_or_refused(data):
    """One word is replaced by any that some mnemonic has: there is a form of all words, or the name is refused."""
    form = data.draw(st.sampled_from(EVERY))
    words = form.mnemonic.lower().split(".")
    place = data.draw(st.integers(2 if form.name.startswith(("tcgen05", "wgmma", "wmma")) else 1, len(words) - 1))
    words[place] = data.draw(st.sampled_from(WORDS))
    near = ".".join(words)
    meant = {form.mnemonic for form in EVERY if form.name.split(".")[0] == words[0] and in_form(words, form)}
    try:
        found = {form.mnemonic for form in forms(near)}
    except LanemapError as error:
        assert not meant, near
        assert "\n" not in str(error)
        return
    assert found
    assert found <= meant, near


@pytest.mark.parametrize(
    ("name", "mnemonics"),
    [
        ("wgmma bf16 m64n8k16", ["m64n8k16.f32.bf16.bf16"]),
        ("wgmma m64n8k32 e4m3", ["m64n8k32.f16.e4m3.e4m3", "m64n8k32.f32.e4m3.e4m3"]),
        ("ldmatrix.sync.aligned.m8n8.trans.x4.shared.b16", ["m8n8.x4.trans.shared.b16"]),
        ("QMMA.16832.F32.E3M2.E3M2", ["m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e3m2.f32"]),
        (
            "QMMA.16832.F32.E4M3.E4M3",
            ["m16n8k32.row.col.f32.e4m3.e4m3.f32", "m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32"],
        ),
        (
            "QMMA.SF.16832.F32.E3M2.E3M2.E8",
            ["m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e3m2.e3m2.f32.ue8m0"],
        ),
    ],
)
def test_the_forms_of_a_name(name, mnemonics):
    """One type is that of A and B, words may come in any order, and an opcode says of block scales that there are."""
    assert [form.mnemonic.partition(".aligned.")[2] for form in Query.parse([name]).forms] == mnemonics


def test_a_role_begins_or_ends_each_of_two_operands():
    assert Query.split("D m16n8k16 f32 A mma m16n8k16 f16".split()) == [
        "D m16n8k16 f32".split(),
        "A mma m16n8k16 f16".split(),
    ]
    assert Query.split("m16n8k16 f32 D mma m16n8k16 f16 A".split()) == [
        "m16n8k16 f32 D".split(),
        "mma m16n8k16 f16 A".split(),
    ]
    ws = "tcgen05.mma m64n64k16 f32 D ws", "tcgen05.ld 16x256b x1"
    assert Query.split(" ".join(ws).split()) == [words.split() for words in ws]
    both = "m64n64k16 f16 D cta_group::2 ws", "tcgen05.mma m128n64k16 f16 A 128B.K"
    assert Query.split(" ".join(both).split()) == [words.split() for words in both]


@pytest.mark.parametrize("operand", ["m64n128k16 f16 A 128B.K", "tcgen05.mma m64n64k16 f32 D ws", "m16n8k16 f16 A x4"])
def test_no_word_behind_the_role_of_what_a_move_takes_is_lost(operand):
    for move in ("ldmatrix", "ld.shared"):
        assert Query.split([move, *operand.split()]) == [[move], operand.split()]


@pytest.mark.parametrize("name", ["m16n8k16 f16 B", "mma m16n8k16 half B", "mma.sp m16n8k32 e4m3 E", "m8n8 b16 r"])
def test_words_come_in_any_order(name):
    first, *more = ({**Query.parse(words).asked} for words in permutations(name.split()))
    assert {"shape", "type", "role"} <= first.keys()
    assert all(word == first for word in more)


def test_words_may_be_joined_by_semicolons():
    for words in ("m16n8k16;f16;A", ["m16n8k16;f16;A"], ["m16n8k16; f16", "A;"]):
        assert Query.parse(words) == Query.parse("m16n8k16 f16 A")
        assert Query.compared(words) == Query.compared("m16n8k16 f16 A")
    assert Query.split(["m16n8k16;f32;D;HMMA.16816.F32;A"]) == [["m16n8k16", "f32", "D"], ["HMMA.16816.F32", "A"]]


def test_one_block_is_what_tcgen05_mma_is_of_where_it_says_nothing(reader):
    names = "tcgen05.mma", "tcgen05.mma.cta_group::1", "tcgen05.mma cta_group::1"
    requests = [Query.parse(f"{name} m64n64k16 f32 D", source=DEFAULT_SOURCE) for name in names]
    found = [[fragment.key for fragment in lookup.fragments(reader, request)] for request in requests]
    assert [[key.qualifiers for key in keys] for keys in found] == [[None]] * 3
    assert found[1:] == found[:1] * 2


def test_a_third_word_is_a_role_or_says_which_form_it_is():
    assert [form.suffix for form in Query.parse("m16n8k256 b1 xor.popc").forms] == [".xor.popc"]
    assert [form.suffix for form in Query.parse("m16n8k256 b1 .and.popc").forms] == [".and.popc"]
    assert Query.parse("m16n8k16 f16 Q").role == "Q"
    with pytest.raises(LanemapError, match="did you mean .*xor.popc"):
        Query.parse("m16n8k16 f16 xor.popc").parameters()


PARENT = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>"


@pytest.mark.parametrize(
    ("words", "role", "shapes"),
    [
        (
            f"opIdx = 0, parent = {PARENT}, kWidth = 2",
            "A",
            {"m16n8k8 f16", "m16n8k8 bf16", "m16n8k16 f16", "m16n8k16 bf16"},
        ),
        (
            f"opIdx = 1, parent = {PARENT}, kWidth = 1",
            "B",
            {"m16n8k4 tf32", "m16n8k8 tf32", *(f"m16n8k{k} f64" for k in (4, 8, 16))},
        ),
        (
            "opIdx = 1, parent = #ttg.nvidia_mma<{versionMajor = 2, instrShape = [16, 8, 32]}>, kWidth = 4",
            "B",
            {"m16n8k32 s8", "m16n8k32 u8", "m16n8k32 e4m3", "m16n8k32 e5m2"},
        ),
    ],
)
def test_an_operand_of_triton_is_one_of_its_parent(words, role, shapes):
    """A lane's vector along K is one register: twice as many elements are of two products, in another order."""
    query = Query.parse(f"#ttg.dot_op<{{{words}}}>")
    assert query.parameters()["role"] == role
    found = {f"{form.shape} {form.types[role]}" for form in query.forms if not form.kind}
    assert {name for name in found if name.split()[1] not in ("e2m1", "e2m3", "e3m2")} == shapes
    for form in (form for form in query.forms if not form.kind):
        assert query.includes(form.key(role))
        assert not query.includes(form.key(role)._replace(shape="m8n8k4"))


@pytest.mark.parametrize(
    "words", ["m16n8k16 f16 A", "m16n8k32 s8 B", "m8n8k16 s8 A", "m64n64k16 f16 A", "m16n8k8 tf32 B"]
)
def test_an_operand_that_is_exported_for_triton_is_read_as_itself(words, database):
    shape, type_, role = words.split()
    encoding = re.search(r"#ttg.dot_op<.*>", database.export(query=words, format="triton").text)[0]
    query = Query.parse([encoding])
    assert query.parameters()["role"] == role
    assert (shape, type_) in {(form.shape, form.types[role]) for form in query.forms}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            f"#ttg.dot_op<{{opIdx = 0, parent = {PARENT.replace('2,', '3,', 1)}, kWidth = 2}}>",
            "did you mean #ttg.dot_op",
        ),
        ("#ttg.nvidia_mma<{versionMajor = 5, instrShape = [128, 64, 16]}>", "version 5 is tcgen05.mma"),
        (
            "#ttg.dot_op<{opIdx = 0, parent = #ttg.nvidia_mma<{versionMajor = 5}>, kWidth = 2}>",
            "version 5 is tcgen05.mma",
        ),
        ("SM90_t", "did you mean SM90_"),
        ("QGMMA.64x40x32.F32.E4M3", "did you mean QGMMA.64x40x32.F32.E4M3.E4M3"),
        ("SM120_16x8x32_TN<float_e4m3_t, float_e9m9_t, float>", "did you mean SM120_16x8x32_TN<float_e4m3_t, float"),
        ("SM120_16x8x32_TN<half_t, half_t, float>", "did you mean SM120_16x8x32_TN<float_"),
        ("SM120_16x8x32_TN<float_e4m3_t, float, float>", "did you mean SM120_16x8x32_TN<float_e4m3_t, float_e4m3_t"),
        ("#ttg.nvidia_mma<{versionMajor = 2, instrShape = [168, 16]}>", "did you mean #ttg.nvidia_mma"),
        ("#ttg.nvidia_mma<{versionMajor = 2, instrShape = [16, 81, 6]}>", "did you mean #ttg.nvidia_mma"),
        ("HMMA.16816.16816.F32", r"did you mean HMMA.16816.F"),
        ("LDSM.2.M88.2", "did you mean LDSM.16.M88.2"),
        ("SM70_16x8x16_F32F16F16F32_TN", r"or SM80_16x8x16_F32F16F16F32_TN\?"),
        ("SM90_U32x4_LDSM_N", "did you mean SM75_U32x4_LDSM_N or"),
        ("SM100_TMEM_LOAD_16dp256b1x", None),
        (
            "#ttg.nvidia_mma<{versionMajor = 2, instrShap = [16, 8]}>",
            "there is no attribute instrShap in .*: did you mean instrShape",
        ),
        (
            "#ttg.nvidia_mma<{versionMajor = 2, warps = [2, 2], instrShape = [16, 8]}>",
            "there is no attribute warps in .*: did you mean warpsPerCTA",
        ),
        (
            "#ttg.nvidia_mma<{versionMajor = 2, foo = [[2, 0]], instrShape = [16, 8]}>",
            "there is no attribute foo in .*: leave it out",
        ),
        ("#ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>", "as #mma is: write out what it stands for"),
        (
            "#ttg.dot_op<{opIdx = 0, parent = #ttg.amd_mfma<{version = 3, instrShape = [16, 16]}>, kWidth = 4}>",
            "none of AMD's instructions here is spelt so: import",
        ),
        ("#ttg.amd_mfma<{version = 3, warpsPerCTA = [1, 1], instrShape = [16, 16]}>", "none of AMD's instructions"),
        ("#ttg.blocked<{sizePerThread = [1, 1], order = [1, 0]}>", "ttg.blocked is not covered: it names no matrix"),
    ],
)
def test_names_that_no_form_has_are_not_taken_for_like_ones(name, words):
    if words is None:
        assert Query.parse([name]).forms
        return
    with pytest.raises(LanemapError, match=words) as refused:
        Query.parse([name]).parameters()
    assert "\n" not in str(refused.value)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32", "write .row.col instead of .row.row"),
        ("mma.sync.aligned.m16n8k16.row.col.kind::f16.f32.f16.f16.f32", "leave out .kind::f16"),
        (
            "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::1X.f32.e2m1.e2m1.f32.ue8m0",
            "write .scale_vec::2X or .scale_vec::4X instead of .scale_vec::1X",
        ),
        (
            "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3",
            "write .scale_vec::4X instead of .scale_vec::2X",
        ),
        ("mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32", "leave out .satfinite"),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.bf16.f32",
            "write .f32.bf16.bf16.f32 or .f32.f16.f16.f32 instead of .f32.f16.bf16.f32",
        ),
        ("mma.sync.aligned.m16n8k15.row.col.f32.f16.f16.f32", "its shapes are m16n8k8, m16n8k16"),
        (
            "mma.sp.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32",
            "write .sp::ordered_metadata instead of .sp",
        ),
        ("ldmatrix.sync.aligned.m8n8.x3.shared.b16", "write .x1, .x2 or .x4 instead of .x3"),
        ("ldmatrix.sync.aligned.m8n8.trans.shared.b16", "write .x1.trans, .x2.trans or .x4.trans instead of .trans"),
        ("ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8", "write .x1.trans or .x2.trans instead of .x4.trans"),
        ("ldmatrix.sync.aligned.m16n16.x2.shared.b8", "write .x2.trans instead of .x2"),
        ("ldmatrix.sync.aligned.m8n8.x4.global.b16", "write .shared instead of .global"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b8", "m8n8 is b16"),
        ("ldmatrix.sp.sync.aligned.m8n8.x4.shared.b16", "leave out .sp"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.shared.b16", "has .shared and .shared: write one"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16.b16", "write .b16 instead of .b16.b16"),
        ("tcgen05.ld.sync.aligned.16x256b.x64.b32", "write .x1, .x2, .x4, .x8, .x16 or .x32 instead of .x64"),
        ("tcgen05.st.sync.aligned.16x256b.x2.pack::16b.b32", "write .x2 instead of .x2.pack::16b"),
        ("wmma.load.d.sync.aligned.row.m16n16k16.shared.f16", "write .store instead of .load"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16.f16.f32", "write .f32.f16 instead of .f32.f16.f16.f32"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f64.f64.f64.f64", "its shapes are m8n8k4"),
        ("wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16", "m64nNk16 with N 8, 16, .., 256"),
        (
            "wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8",
            "m64nNk32 with N 8, 16, 24, 32, 48, 64, 80, ",
        ),
        ("wgmma.mma_async.sync.aligned.m64n24k16.f32.s8.s8", "write .f32.bf16.bf16 or .f32.f16.f16 instead"),
        ("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.bf16", "write .f32.bf16.bf16 or .f32.f16.f16 instead"),
        ("wgmma.mma_async.sync.aligned.m64n64k16.row.col.f32.f16.f16", "leave out .row.col"),
        ("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16.f32", "write .f32.f16.f16 instead of .f32.f16.f16.f32"),
        ("HMMA.16816.F64", r"did you mean HMMA.16816.F16 or HMMA.16816.F32\?"),
        ("HMMA.1688.BF16.F32", r"did you mean HMMA.1688.F32.BF16\?"),
        ("HMMA.16816.F32.F32", r"did you mean HMMA.16816.F32\?"),
        ("IMMA.16832.F32.S8", r"did you mean IMMA.16832.S8.S8\?"),
        ("HMMA.16832.F32", r"did you mean HMMA.SP.16832.F32\?"),
        ("HGMMA.64x8x32.F32", r"did you mean HGMMA.SP.64x8x32.F32\?"),
        ("OMMA.16864.F32.E2M1.E2M1", r"did you mean OMMA.SF.16864.F32.E2M1.E2M1.E8\?"),
        ("HGMMA.64x12x16.F32", "N 8, 16, .., 256"),
        ("LDSM.16.M88.3", r"did you mean LDSM.16.M88\?"),
        ("SM80_16x8x16_F32BF16BF16F32_NN", r"did you mean SM80_16x8x16_F32BF16BF16F32_TN\?"),
        ("SM80_16x8x15_F32BF16BF16F32_TN", "its shapes are m16n8k8, m16n8k16"),
        ("SM75_U32x3_LDSM_N", "did you mean SM75_U32x1_LDSM_N, SM75_U32x2_LDSM_N or SM75_U32x4_LDSM_N"),
        ("SM90_64x64x16_F32F16F16_SR", r"did you mean SM90_64x64x16_F32F16F16_SS\?"),
        ("SM120_16x8x32_TN<float_e4m3_t, float_e5m3_t, float>", "did you mean SM120_16x8x32_TN<float_e4m3_t, float"),
        ("#ttg.nvidia_mma<{versionMajor = 3, instrShape = [16, 12, 16]}>", r"instrShape = \[16, 16, 16\]}>\?"),
        ("m8n8.x3 b16", "instead of .x3"),
        (
            "m16n8k64.scale_vec::3X e2m1",
            "write .scale_vec::1X, .scale_vec::2X or .scale_vec::4X instead of",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f16.e4m3.e5m2.f32",
            "write .f16.e4m3.e5m2.f16 or .f32.e4m3.e5m2.f32 instead of .f16.e4m3.e5m2.f32",
        ),
        ("tcgen05.ld 64x64b x1", "its shapes are 16x64b$"),
        ("wmma.mma.sync.aligned.row.col.m16n8k16.f32.f32", "its shapes are m16n16k16$"),
        ("m16n8k16.byte_id::0 f16", "leave out .byte_id::0"),
        (
            "SM80_16x8x16_F32F16BF16F32_TN",
            r"or SM80_16x8x16_F32F16F16F32_TN\?",
        ),
        ("m16n8k32 nvfp4", "there is no m16n8k32 nvfp4: its shapes are m16n8k64, m16n8k128"),
    ],
)
def test_a_name_of_no_form_is_refused_with_what_to_write_instead(name, words):
    with pytest.raises(LanemapError, match=words):
        Query.parse([name]).parameters()


def test_a_product_without_block_scales_has_none():
    key = Key("mma", "m16n8k32", "ue8m0", "SFA", qualifiers="scale_vec::1X.byte_id::0.thread_id::0")
    scaled = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e5m2.f32.ue8m0"
    assert Query(scaled).includes(key)
    assert Query("m16n8k32 e4m3").includes(key)
    for other in ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", "m16n8k32 s8", "IMMA.16832.S8.S8"):
        assert not Query(other).includes(key)


def test_the_block_scales_of_a_product_are_as_many_as_it_says_or_as_its_kind_has():
    """All kinds but .kind::mxf4nvf4 may leave it out."""
    for form in (form for form in NARROW_FORMS if form.scale is not None):
        said = form.kind.split(".")[-1]
        short = form.mnemonic.replace(f".{said}", "")
        for mnemonic in [form.mnemonic] if "mxf4nvf4" in form.kind else [form.mnemonic, short]:
            for count in (1, 2, 4):
                scales = f"scale_vec::{count}X"
                key = Key(
                    form.name, form.shape, form.types["SFA"], "SFA", qualifiers=f"{scales}.byte_id::0.thread_id::0"
                )
                assert Query(mnemonic).includes(key) == (scales == said)


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["16x8x16", "half", "a"], ("mma", "m16n8k16", "f16", "A")),
        ([".M16N8K16", ".F16", "A"], ("mma", "m16n8k16", "f16", "A")),
        (["m16n8k16 bfloat16", "B"], ("mma", "m16n8k16", "bf16", "B")),
        (["mma.sp", "m16n8k32", "f16", "E"], ("mma.sp", "m16n8k32", "f16", "E")),
        (["mma.sp m16n8k64", "int8", "B"], ("mma.sp", "m16n8k64", "s8", "B")),
        (["SM80_16x8x16_F32BF16BF16F32_TN", "D"], ("mma", "m16n8k16", "f32", "D")),
        (["IMMA.16832.S8.S8", "C"], ("mma", "m16n8k32", "s32", "C")),
        (["m16n8k32", "fp8_e4m3", "A"], ("mma", "m16n8k32", "e4m3", "A")),
        (["m16n8k64", "nvfp4", "A"], ("mma", "m16n8k64", "e2m1", "A")),
        (["m8n8k4", "double", "D"], ("mma", "m8n8k4", "f64", "D")),
        (["nvfp4", "A"], ("mma", "m16n8k64", "e2m1", "A")),
        (["mxf4nvf4", "A"], ("mma", "m16n8k64", "e2m1", "A")),
        (["m16n8k64", "e2m1", "mxf4", "A"], ("mma", "m16n8k64", "e2m1", "A")),
        (["m16n8k64", "mxf4", "e2m1", "A"], ("mma", "m16n8k64", "e2m1", "A")),
        (["mma.sp nvfp4", "A"], ("mma.sp", "m16n8k128", "e2m1", "A")),
        (["hmma 16816", "bf16", "A"], ("mma", "m16n8k16", "bf16", "A")),
        (["HMMA 16816 F32", "A"], ("mma", "m16n8k16", "f16", "A")),
        (["imma 16832 s8", "B"], ("mma", "m16n8k32", "s8", "B")),
        (["hgmma 64x64x16 f32", "D"], ("wgmma", "m64n64k16", "f32", "D")),
        (["GMMA_64x8x32_F32F16F16_RS", "D"], ("wgmma.sp", "m64n8k32", "f32", "D")),
        (["MMA_64x8x16_F32F16F16_RS", "D"], ("wgmma", "m64n8k16", "f32", "D")),
    ],
    ids=" ".join,
)
def test_names_that_people_have(reader, words, asked):
    """However they are put into quotes."""
    for written in (words, [" ".join(words)], [words[0], f" {'  '.join(words[1:])} "]):
        found = lookup.one_operand(reader, Query.parse(written))
        assert {fragment.key[:4] for fragment in found} == {asked}


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("bf16", {"type": "bf16"}),
        ("half", {"type": "f16"}),
        ("float8_e4m3fn", {"type": "e4m3"}),
        ("nvfp4", {"type": "e2m1", "scale_vec": "scale_vec::4x"}),
        ("mxf4nvf4", {"type": "e2m1", "kind": "kind::mxf4nvf4"}),
        ("#ttg.nvidia_mma", {"instruction": "mma"}),
        (
            "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, instrShape = [16, 8]}>",
            {"instruction": "mma", "layouts": "row.col"},
        ),
        (
            "#ttg.nvidia_mma<{versionMajor = 2, CGALayout = [[1, 0], [0, 1]], CTAOrder = [1], instrShape = [16, 8]}>",
            {"instruction": "mma", "layouts": "row.col"},
        ),
        (
            "#mma = #ttg.nvidia_mma<{versionMajor = 3, warpsPerCTA = [4, 1], instrShape = [16, 128, 16]}>",
            {"instruction": "wgmma", "shape": "m64n128k16"},
        ),
    ],
)
def test_what_people_paste_is_what_it_means(text, parameters):
    of_kind = {kind: token for token, kind in Query(text).tokens.items() if kind != "spelling"}
    assert of_kind == parameters


@pytest.mark.parametrize("role", "CD")
@pytest.mark.parametrize(
    ("shape", "a", "type_"),
    [("m16n8k16", "bf16", "f32"), ("m16n8k32", "s8", "s32"), ("m16n8k32", "e4m3", "f32"), ("m16n8k8", "tf32", "f32")],
)
def test_c_and_d_are_found_by_the_type_of_a(reader, shape, a, type_, role):
    """Where there are two accumulators it is the most exact; a C that has the type itself stays what is meant."""
    found = lookup.one_operand(reader, Query(shape, a, role, source=DEFAULT_SOURCE))
    assert {fragment.type for fragment in found} == {type_}
    assert {fragment.type for fragment in lookup.fragments(reader, Query("m16n8k16", "f16", role))} == {"f16"}


def test_the_accumulators_of_a_form_are_in_order():
    for form in FORMS:
        assert form.d in accumulators(form.name, form.shape, form.a)
        assert list(accumulators(form.name, form.shape, form.a)) in (["f64"], ["s32"], ["f32"], ["f32", "f16"])


def test_a_whole_instruction_is_its_operands(reader):
    """The capture has every operand of every instruction that it could run; the document lists them all."""
    for form in FORMS:
        found = lookup.fragments(reader, Query(form.mnemonic))
        assert {(fragment.role, fragment.type) for fragment in found} <= set(form.types.items())
        if form.supports("sm_90a"):
            measured = [fragment for fragment in found if fragment.source == "h200-sm_90a"]
            assert {(fragment.role, fragment.type) for fragment in measured} == set(form.types.items())
            assert {fragment.major for fragment in measured if fragment.role in "AB"} == set(form.majors)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["m16n8k32", "fp8", "A"], "fp8 is e4m3 or e5m2: say which"),
        (["m16n8k32", "nvfp4", "A"], "there is no m16n8k32 nvfp4: its shapes are m16n8k64, m16n8k128"),
        (
            ["tcgen05.mma.cta_group::1.kind::f16", "A"],
            "tcgen05.mma.cta_group::1.kind::f16 is not covered: its mnemonics name neither shape nor types: write ",
        ),
        (
            ["tcgen05.mma.cta_group::1.kind::f16 m128n16k16 f32", "D"],
            "m128n16k16 f32 is not covered: its mnemonics name neither shape nor types: write ",
        ),
        (
            ["tcgen05.mma.cta_group::1.kind::f16", "D"],
            "name neither shape nor types: write tcgen05.mma m128n128k16 f16 D",
        ),
        (["tcgen05.mma.sp.cta_group::1.kind::f16", "A"], "types: write tcgen05.mma.sp m128n128k32 f16 A"),
        (
            ["HMMA.16816.F32.BF16", "HMMA.16816.F32"],
            "there are 2 instructions, HMMA.16816.F32.BF16 and HMMA.16816.F32: ",
        ),
        (["SM100_MMA_F16BF16_SS", "A"], "SM100_MMA_F16BF16_SS is not covered: it names neither shape nor types: write"),
        (["SM100_UTCCP_4x32dp128bit_1cta"], "1cta is not covered: it copies from shared memory to Tensor Memory"),
        (["UTCHMMA gdesc[UR4]", "A"], "UTCHMMA is not covered: it names neither shape nor types: write"),
        (["tcgen05", "A"], "there is no tcgen05: choose from tcgen05.mma, tcgen05.mma.sp, tcgen05.ld, "),
        (["wgmma.fence.sync.aligned", "A"], "wgmma.fence.sync.aligned is not covered: it only orders others of wgmma"),
        (["cp.async.cg.shared.global", "A"], "cp.async.cg.shared.global is not covered: it copies memory"),
        (['asm volatile("cp.async.ca.shared.global [%0], [%1], 16;")'], "^cp.async.ca.shared.global is not covered"),
        (["cp.async.bulk.tensor.2d.shared::cluster.global.tile"], "2d.shared::cluster.global.tile is not covered"),
        (["mbarrier.init.shared.b64"], "is not covered: it only synchronizes threads"),
        (["fma.rn.f32", "A"], "fma.rn.f32 is not covered: each thread has values of its own"),
        (["FFMA"], "FFMA is not covered"),
        (["multimem.ld_reduce.f32"], "multimem.ld_reduce.f32 is not covered"),
        (["tcgen05.ld.red.sync.aligned.32x32b.x1.min.u32", "r"], "write .x2, .x4, .x8"),
        (["tcgen05.ld.red.sync.aligned.16x64b.x2.min.u32", "r"], "its shapes are 16x32bx2, 32x32b"),
        (["tcgen05.ld.red.sync.aligned.32x32b.x2.min.abs.u32", "r"], "leave out .abs"),
        (["ldmatrix.sync.aligned.m8n16.x1.shared.s8.u4", "r"], "write .s8.s4 instead of .s8.u4"),
        (["ldmatrix.sync.aligned.m8n16.x1.trans.shared.s8.s4", "r"], "write .x1 instead of .x1.trans"),
        (["tcgen05.foo"], "there is no tcgen05.foo: choose from tcgen05.mma, tcgen05.mma.sp, tcgen05.ld, "),
        (["wgmma.mma.sync.aligned.m64n8k16.f32.f16.f16"], "write .mma_async instead of .mma$"),
        (["SM90_TMA_LOAD_2D", "A"], "SM90_TMA_LOAD_2D is not covered: it copies memory"),
        (["SM61_DP4A", "A"], "SM61_DP4A is not an atom with matrices in registers"),
        (["SM80_8x8x4_C64C64C64C64_TN", "A"], "multiplies complex numbers"),
        (["QMMA", "A"], "QMMA does not name a shape"),
        (["HMMA.16816.F33", "A"], r"did you mean HMMA.16816.F16 or HMMA.16816.F32\?"),
        (
            ["mma.sync.aligned.m16n8k16.row.col.f32.bf17.bf16.f32", "A"],
            "'bf17' is neither .* did you mean bf16",
        ),
        (
            ["mma.sync.alignd.m16n8k16.row.col.f32.bf16.bf16.f32", "A"],
            "'alignd' is neither .* did you mean aligned",
        ),
        (["mma.sync.aligned.m16n8k16.row.col.f32.f16.f32", "A"], "write .f32.f16.f16.f32 instead of .f32.f16.f32"),
        (["mma.sync.aligned.m16n8k16.row.col.f32.half.half.f32", "A"], "'half' is not a type of PTX: write f16"),
        (["m16n8k16", "f16", "A", "9", "3"], "9 is a number alone: say what it counts, as in --lane 5 or --row 9"),
        (["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.relu"], "'relu' is neither a type nor a qualifier: leave"),
        (["m16n8k64", "e2m1", "SFA", "block32"], "block32 is one scale for 32 elements .*: write scale_vec::1X for 32"),
        (["m16n8k64", "e2m1", "SFA", "block16"], "block16 is one scale for 16 elements .*: write scale_vec::4X for 64"),
        (["mma", "m16n8k16", "cta_group::1"], "leave out .cta_group::1"),
        (["m64n128k16", "f16", "B", "96B.K"], "96B is documented only: no CUtensorMapSwizzle"),
        (["m64n128k16", "f16", "B", "256B.K"], "no swizzling mode 256B: choose from none, 32B, 64B, 128B"),
        (["cp.async.bulk.tensor", "b16", "96B"], "96B is documented only: no CUtensorMapSwizzle"),
        (["m16n8k64.scale_vec::2X.byte_id::7 ue8m0", "SFA"], "they go from byte_id::0 to 3"),
        (["mma.m16n8k16.m16n8k8.f16", "A"], "has .m16n8k16 and .m16n8k8: write one"),
        (["mma.m16n8k16.f16 mma.m16n8k8.f16", "A"], "there are 2 instructions"),
        (["wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", "C"], "wgmma accumulates in D"),
        (["wgmma.mma_async.sp m64n128k32 f16", "C"], "wgmma accumulates in D: ask for D"),
        (["mma.m16n8k16.f16", "E"], "mma has no E: it has A, B, C, D"),
        (["wmma.load.a.sync.aligned.row.m16n16k16.f16", "B"], "holds A and no B"),
        *((nothing, "name an instruction: a mnemonic") for nothing in ([], "", " ")),
        (["NVIDIA"], "name an instruction: a mnemonic"),
        (["AMD"], "Lanemap ships nothing of AMD: .* lanemap list --vendor amd names what there is"),
    ],
    ids=" ".join,
)
def test_refused_with_a_reason(words, why):
    with pytest.raises(LanemapError, match=why):
        Query.parse(words).parameters()


@pytest.mark.parametrize(
    ("words", "qualifiers", "why"),
    [
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 r", "x1", "has x4 and not x1"),
        ("ldmatrix.x4 r", "x4.trans", "has x4 and not x4.trans"),
        ("wgmma m64n8k16 f16 A 128B.K", "none.K", "has 128b.k and not none.k"),
        ("tcgen05.ld.sync.aligned.16x256b.x4.b32 r", "x8", "has x4 and not x8"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.f16", "col", "has row and not col"),
        ("ldmatrix.x4 r", ".X4", None),
        ("wgmma m64n8k16 f16 A 128B.K", "128b.k", None),
    ],
)
def test_words_and_qualifiers_do_not_contradict_each_other(words, qualifiers, why):
    query = Query.parse(words, qualifiers=qualifiers)
    if why:
        with pytest.raises(LanemapError, match=why):
            query.parameters()
    else:
        assert query.parameters()["qualifiers"] == qualifiers.lower().lstrip(".")


@pytest.mark.parametrize(
    ("atom", "word"),
    [
        ("SM70_8x8x4_F32F16F16F32_NT", "col.row"),
        ("SM120_16x8x32_TN<float_e4m3_t, float_e5m2_t, float>", "f32.e4m3.e5m2.f32"),
        ("SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue8m0_t, 32>", "scale_vec::2x"),
    ],
)
def test_an_atom_of_cute_says_layouts_types_and_scales_in_an_order_of_its_own(atom, word):
    assert word in parse(atom)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("HMMA.16816.F32 m16n8k8", "its shapes are m16n8k16"),
        ("ldsm 16 m88 4", "16 is a number alone"),
        ("HMMA.16816.F32 foo", "'foo' is neither"),
        ("SM80_16x8x16_F32F16F16F32_TN bf16", "A of m16n8k16 is f16"),
        ("LDTM..X64", None),
    ],
)
def test_no_word_behind_a_name_is_passed_over(name, why):
    if why:
        with pytest.raises(LanemapError, match=why):
            Query(name).parameters()
    else:
        assert Query(name).token("instruction") == name.lower()


def test_an_atom_with_block_scales_and_no_arguments_has_them():
    assert {form.scale is None for form in Query("SM120_16x8x64_TN_VS").forms} == {False}
    assert {form.scale is None for form in Query("SM120_16x8x32_TN").forms} == {True}


@pytest.mark.parametrize("role", ["A", "C", "SFA", "SFB"])
def test_a_role_may_stand_behind_an_atom_in_the_same_text(role):
    atom = "SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue8m0_t, 32>"
    assert Query(f"{atom} {role}").parameters() == Query(atom, role=role).parameters()


def test_words_behind_a_name_in_one_piece_say_more_of_it():
    encoding = "#ttg.nvidia_mma<{versionMajor = 3, instrShape = [16, 128, 16]}>"
    assert [form.a for form in Query(f"{encoding} bf16").forms] == ["bf16"]
    assert Query("SM80_16x8x16_F32F16F16F32_TN f16").forms == Query("HMMA.16816.F32 m16n8k16").forms
    assert Query("HMMA.16816.F32 HMMA.16816.F32").forms == Query("HMMA.16816.F32").forms
    assert Query("m016n08k016 f16").tokens == Query("m16n8k16 f16").tokens


def test_names_that_contradict_each_other_are_refused():
    for query in (
        Query("HMMA.16816.F32.BF16", instruction="mma.sp"),
        Query("mma.sp m16n8k16 f16", "bf16"),
        Query("m16n8k16", instruction="mma.m16n8k8"),
    ):
        with pytest.raises(LanemapError, match="is the name of two instructions: name one"):
            query.parameters()


def test_a_word_that_is_no_shape_is_no_instruction_either(database):
    for names in ({"shape": "here", "instruction": "mma"}, {"shape": "here", "instruction": "nothing"}):
        with pytest.raises(LanemapError, match="^no shape or instruction (here|nothing)$"):
            database.matching(Query(**names))


@given(st.text(), st.one_of(st.none(), st.text(max_size=8)), st.one_of(st.none(), st.sampled_from("ABCDEX")))
def test_any_text_is_a_request_or_refused_in_one_line(shape, type_, role):
    try:
        Query(shape, type_, role).parameters()
    except LanemapError as error:
        assert not re.search(r"[\r\n]", str(error))
