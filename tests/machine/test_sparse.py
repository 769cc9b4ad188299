"""Products with metadata and block scales: right kernels have no finding, and what comes from other blocks is named."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanemap
from lanemap.capture.machine import product
from lanemap.capture.values import decode
from lanemap.db.isa.instructions import ONE_OF_TWO, PAIRWISE, TWO_OF_FOUR

from ..modes import examples

SPARSE = ["A=f16[32,32]", "E=u16[32,4]", "B=f16[16,64]", "C=f32[32,16]", "K=64"]
SPARSE_FORMULA = "C[m,n] = sparse(A,E)[m,k] B[n,k]"

SCALED = ["A=e4m3[32,96]", "SFA=ue8m0[32,3]", "B=e4m3[16,96]", "SFB=ue8m0[16,3]", "C=f32[32,16]", "K=96"]
SCALED_FORMULA = "C[m,n] = A[m,k] SFA[m,k/32] B[n,k] SFB[n,k/32]"
NVF4 = ["A=e2m1[32,128]", "SFA=ue4m3[32,8]", "B=e2m1[16,128]", "SFB=ue4m3[16,8]", "C=f32[32,16]", "K=128"]
NVF4_FORMULA = SCALED_FORMULA.replace("32", "16")


def sparse(database, text, given_=SPARSE, formula=SPARSE_FORMULA):
    return database.trace(text, given_, formula, block=32, grid=(2, 2))


def scaled(database, text, given_=SCALED, formula=SCALED_FORMULA):
    return database.trace(text, given_, formula, block=32, grid=(2, 2))


def test_a_sparse_product_is_right(nvcc, database):
    found = sparse(database, nvcc("sparse"))
    assert found.ok, found
    assert "8 mma.sp (m16n8k32 f16)" in found.counts
    assert sparse(database, nvcc("sparse"), [*SPARSE[:1], f"E=u16[32,4]={0xE4E4}", *SPARSE[2:]], None).ok


def test_its_output_is_that_of_the_columns_that_the_metadata_says(nvcc, database):
    random = np.random.default_rng(0)
    a, b = (random.integers(-2, 3, shape).astype("f2") for shape in ((32, 32), (16, 64)))
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    chosen = random.integers(0, 6, (32, 16))
    dense, e = np.zeros((32, 64)), np.zeros((32, 4), "u2")
    for row, chunk in np.ndindex(32, 16):
        for place, index in enumerate(pairs[chosen[row, chunk]]):
            dense[row, chunk * 4 + index] = a[row, chunk * 2 + place]
            e[row, chunk // 4] |= index << (chunk % 4 * 4 + place * 2)
    found = sparse(database, nvcc("sparse"), {"A": a, "E": e, "B": b, "C": "f32[32,16]", "K": 64})
    assert found.ok, found
    assert np.array_equal(found.outputs["C"], dense @ b.T.astype("f8"))


@pytest.mark.parametrize(
    ("chunk", "row", "words"),
    [
        (
            "1-member%2",
            "row",
            "the column of A[0][2] is chosen by E[0][1], must be by E[0][0]  (256 of 256 slots of A)",
        ),
        ("member%2", "row^8", "is chosen by E[8][0], must be by E[0][0]  (256 of 256 slots of A)"),
        ("member%2", "row+16", "is chosen by E[16][0], must be by E[0][0]  (256 of 256 slots of A)"),
    ],
)
def test_metadata_of_other_elements_is_named(nvcc, database, chunk, row, words):
    found = sparse(database, nvcc("sparse", "sm_80", f"CHUNK={chunk}", f"ROW={row}")).findings
    assert (found[0].kind, found[-1].kind) == ("metadata", "sum"), found
    assert found[0].words.startswith("E of mma.sp 1 (sparse.cu:")
    assert words in found[0].details[0]


def test_a_sparse_operand_in_other_registers_is_named(nvcc, database):
    text = re.sub(r"(%r\d+), (%r\d+)}, {(?=(?:%r\d+, ){3}%r\d+}, {%f)", r"\2, \1}, {", nvcc("sparse"))
    assert text != nvcc("sparse")
    found = sparse(database, text)
    assert "registers 2 and 3 are exchanged" in found.findings[0].words


def test_metadata_that_chooses_nothing_is_named(nvcc, database):
    e = np.full((32, 4), 0x4444, "u2")
    e[3, 2] = 0x4474
    with pytest.raises(lanemap.LanemapError, match="E has metadata that chooses no columns: 0x4, 0x8, 0x9, 0xc, 0xd"):
        sparse(database, nvcc("sparse"), {"A": "f16[32,32]", "E": e, "B": "f16[16,64]", "C": "f32[32,16]", "K": 64})
    found = sparse(database, nvcc("sparse"), [*SPARSE[:1], "E=u16[32,4]=0", *SPARSE[2:]], None)
    assert "metadata of lane 0 has 0x0 in bits 0 to 3: E of mma.sp m16n8k32 f16 selector 0 takes 0x4" in " ".join(
        found.text().split()
    )


@pytest.mark.parametrize(("defines", "formula"), [((), SCALED_FORMULA), (("NVF4",), NVF4_FORMULA)])
def test_a_product_with_block_scales_is_right(nvcc, database, defines, formula):
    text, given_ = nvcc("scaled", "sm_120a", *defines), NVF4 if defines else SCALED
    found = scaled(database, text, given_, formula)
    assert found.ok, found
    assert scaled(database, text, given_, None).ok
    wrong = scaled(database, nvcc("scaled", "sm_120a", "ROW=row", *defines), given_, formula).findings
    assert [each.kind for each in wrong] == ["scale", "sum"], wrong
    assert wrong[0].words.startswith("SFA of mma 1 (scaled.cu:")
    assert wrong[0].words.endswith("warp 0: scales of other blocks")
    assert wrong[0].details[0].startswith("block 0 of row 8 is scaled by SFA[0][0], must be by SFA[8][0]  (")
    assert " x SFA[0]" in wrong[1].details[0]


def test_a_register_of_scales_may_stand_in_braces(nvcc, database):
    """As CUTLASS writes it."""
    text, count = re.subn(r"(%r\d+)(, \{%rs)", r"{\1}\2", nvcc("scaled", "sm_120a"))
    assert count
    found = scaled(database, text)
    assert found.ok, found


def test_scales_that_no_form_has_are_named(nvcc, database):
    text = re.sub(r"(mov\.b16 \t?%rs\d+, )2;", r"\g<1>7;", nvcc("scaled", "sm_120a"))
    assert "block scale: " in scaled(database, text).text()


@examples(50)
@given(st.sampled_from([ONE_OF_TWO, TWO_OF_FOUR, PAIRWISE]), st.integers(1, 4), st.integers(0, 1 << 16), st.data())
def test_stored_columns_are_those_that_metadata_says(rule, numbers, seed, data):
    """Each chunk takes two bits for each run of its columns; the definition goes through them one by one."""
    columns = numbers * 4 * rule.width
    made = product.random_metadata((3, numbers), 16, columns, "E", np.random.default_rng(seed)).astype("u2")
    found = product.stored_columns(made, columns, "E")
    for row in range(3):
        bits = "".join(f"{int(number):016b}"[::-1] for number in made[row])
        expected = []
        for chunk in range(columns // rule.width):
            vector = bits[4 * chunk : 4 * chunk + 4]
            first, second = int(vector[1::-1], 2), int(vector[:1:-1], 2)
            runs = [second // 2] if rule is ONE_OF_TWO else [first, second]
            if rule is ONE_OF_TWO:
                assert (first, second) in ((0, 1), (2, 3))
                runs = [first // 2]
            expected += [chunk * rule.width + run * rule.group + i for run in runs for i in range(rule.group)]
        assert found[row].tolist() == expected


def test_scales_are_powers_of_two_and_floats_without_a_sign():
    powers = decode("ue8m0", 8, np.arange(255, dtype="u1")).astype("f8")
    assert powers.tolist() == [2.0 ** (code - 127) for code in range(255)]
    assert np.isnan(decode("ue8m0", 8, np.array([255], "u1"))).all()
    small = decode("ue4m3", 8, np.arange(0x7F, dtype="u1")).astype("f8")
    assert small.tolist() == [(code % 8 + 8 * (code >= 8)) * 2.0 ** (max(code // 8, 1) - 10) for code in range(0x7F)]


def test_metadata_that_does_not_fit_is_refused(nvcc, database):
    for shape, words in [
        ("64,4", "A and its metadata E have two dimensions and as many rows"),
        ("32,3", "E has 48 bits of metadata for 64 columns: 4 bits choose of 2, 4 or 8"),
    ]:
        with pytest.raises(lanemap.LanemapError, match=words):
            sparse(database, nvcc("sparse"), [SPARSE[0], f"E=u16[{shape}]", *SPARSE[2:]])
    with pytest.raises(lanemap.LanemapError, match="F of the product is no argument"):
        sparse(database, nvcc("sparse"), formula=SPARSE_FORMULA.replace("E", "F"))
