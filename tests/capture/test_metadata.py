import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.db.errors import LanemapError
from lanemap.db.flow.metadata import decode, encode, pack_vectors
from lanemap.db.isa.instructions import DENSE, ONE_OF_TWO, PAIRWISE, TWO_OF_FOUR, sparsity

from .. import forms
from ..forms import SPARSE_FORMS
from .tables import at_random

FORMS = [(form, selector) for form in SPARSE_FORMS for selector in form.selectors]
WARPGROUP = [
    (form, selector)
    for form in forms.WARPGROUP
    if form.sparse and form.dimensions[1] == 24 and form.d in ("f32", "s32")
    for selector in form.selectors
]


def operands(complete, instruction, selector):
    return complete[instruction.key("A")], complete[instruction.key("E", selector)]


def pick(of_type, shape):
    return next(form for form in SPARSE_FORMS if (form.a, form.shape) == (of_type, shape))


@given(st.sampled_from([*FORMS, *WARPGROUP]), st.integers(0, 2**32 - 1))
def test_encode_is_the_inverse_of_decode(complete, form, seed):
    instruction, selector = form
    table = at_random([instruction]) if instruction.name == "wgmma.sp" else complete
    a, e = operands(table, instruction, selector)
    rule = sparsity(a.instruction, a.shape, a.type)
    vectors = np.random.default_rng(seed).choice(list(rule.indices), (a.threads, 8))
    columns = decode(pack_vectors(vectors), a, e)
    assert ((columns >= a.elements["col"]) & (columns <= a.elements["col_last"])).all()
    for row in range(a.dimensions[0]):
        mine = columns[a.elements["row"] == row]
        assert len(set(mine)) == len(mine) == instruction.dimensions[2] // 2
    contributing = np.isin(np.arange(a.threads), e.elements["lane"])
    assert (encode(columns, a, e) == np.where(contributing, pack_vectors(vectors), 0)).all()


@given(st.sampled_from(FORMS), st.integers(0, 2**32 - 1))
def test_a_documented_a_decodes_alike(documented, complete, form, seed):
    instruction, selector = form
    a, e = operands(complete, instruction, selector)
    words = pack_vectors(
        np.random.default_rng(seed).choice(list(sparsity(a.instruction, a.shape, a.type).indices), (3, 32, 8))
    )
    assert (decode(words, documented[a.key], e) == decode(words, a, e)).all()


def test_decode_by_hand(complete):
    a, e = operands(complete, pick("f16", "m16n8k16"), 0)
    columns = decode(np.full(32, 0x99999999, np.uint32), a, e)
    assert list(columns[:8]) == [1, 2, 1, 2, 5, 6, 5, 6]
    a, e = operands(complete, pick("tf32", "m16n8k8"), 0)
    assert list(decode(np.full(32, 0xEEEEEEEE, np.uint32), a, e)[:4]) == [1, 1, 3, 3]
    a, e = operands(complete, pick("u4", "m16n8k64"), 0)
    assert list(decode(np.full(32, 0xCCCCCCCC, np.uint32), a, e)[:8]) == [0, 1, 6, 7, 8, 9, 14, 15]


def test_steps_change_one_index():
    assert TWO_OF_FOUR.steps == PAIRWISE.steps == ((0x8, 0x9), (0x4, 0x8))
    assert ONE_OF_TWO.steps == ((0x4, 0xE),)
    assert (TWO_OF_FOUR.slots, ONE_OF_TWO.slots, DENSE.fields) == (16, 8, 1)


@pytest.mark.parametrize(
    ("of_type", "shape", "word", "said"),
    [
        (
            "f16",
            "m16n8k16",
            0x44444404,
            "metadata of lane 0 has 0x0 in bits 4 to 7: .* takes 0x4, 0x8, 0x9, 0xC, 0xD, 0xE",
        ),
        ("tf32", "m16n8k8", 0x4444448E, "metadata of lane 0 has 0x8 in bits 4 to 7: .* takes 0x4, 0xE"),
    ],
)
def test_metadata_that_is_not_valid_is_refused(complete, of_type, shape, word, said):
    a, e = operands(complete, pick(of_type, shape), 0)
    words = np.full(32, 0x44444444, np.uint32)
    words[0] = word
    with pytest.raises(LanemapError, match=said):
        decode(words, a, e)
    words[:] = 0x44444444
    words[~np.isin(np.arange(32), e.elements["lane"])] = 0
    decode(words, a, e)


@pytest.mark.parametrize(
    ("of_type", "shape", "change", "said"),
    [
        ("f16", "m16n8k16", [2, 1], "column 2 of lane 0, reg 0, slot 0 must be less than the next column of its chunk"),
        ("f16", "m16n8k16", [1, 1], "must be less than the next"),
        ("f16", "m16n8k16", [0, 4], "column 4 of lane 0, reg 0, slot 1 is outside the chunk of columns 0 to 3"),
        ("tf32", "m16n8k8", [2], "outside the chunk of columns 0 to 1"),
        ("tf32", "m16n8k8", [-1], "outside the chunk of columns 0 to 1"),
        (
            "f16",
            "m16n8k16",
            [0, 1, 0, 1, 3, 5],
            "column 3 of lane 1, .* is outside the chunk of columns 4 to 7",
        ),
        ("u4", "m16n8k64", [0, 1, 4, 6], "column 4 of lane 0, reg 0, slot 2 must be followed by its neighbour"),
        ("u4", "m16n8k64", [0, 1, 3, 4], "must be followed by its neighbour"),
        ("u4", "m16n8k64", [2, 3, 0, 1], "must be less than the next"),
    ],
)
def test_choices_that_are_not_valid_are_refused(complete, of_type, shape, change, said):
    a, e = operands(complete, pick(of_type, shape), 0)
    columns = decode(np.full(32, 0x44444444, np.uint32), a, e)
    columns[: len(change)] = change
    with pytest.raises(LanemapError, match=said):
        encode(columns, a, e)


def test_sizes_are_checked(complete, documented):
    a, e = operands(complete, pick("f16", "m16n8k16"), 0)
    with pytest.raises(LanemapError, match="128 columns are needed"):
        encode(np.zeros(3, int), a, e)
    with pytest.raises(LanemapError, match="give 32, one for each lane"):
        decode(np.zeros(3, int), a, e)
    with pytest.raises(LanemapError, match=r"no rows for E of mma\.sp m16n8k16 f16 selector 0: figure-only"):
        decode(np.zeros(32, int), a, documented[e.key])
