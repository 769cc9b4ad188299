"""Several fragments as one text: whole instructions, what is refused, and one source at a time."""

import pytest

from lanemap.db.errors import LanemapError
from lanemap.db.layout.fragment import Fragment, by_rule
from lanemap.db.render.notation import export, express

from ..shipped import CORRECTED


@pytest.fixture
def operands(corrected):
    """Those of one form, whose accumulator is of another type."""
    return [corrected[f"mma_m16n8k16_{name}"] for name in ("bf16_a", "bf16_b", "f32_c", "f32_d")]


def test_operands_of_several_types_make_the_traits_of_their_instruction(operands):
    text, refused = export(operands, "cute", "VERSION")
    assert refused == []
    assert text.count("struct ") == 1
    assert (
        "// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32\n"
        "struct mma_m16n8k16_row_col_f32_bf16_bf16_f32 {\n" in text
    )
    for missing in operands:
        assert (
            "struct" not in export([operand for operand in operands if operand is not missing], "cute", "VERSION").text
        )


def test_only_a_notation_of_instructions_says_anything_of_them(operands):
    assert "bf16.bf16" not in export(operands, "linear", "VERSION").text


def test_what_is_refused_is_left_out_and_told(operands, corrected):
    sparse = corrected["mma_sp_m16n8k16_f16_a"]
    text, refused = export([sparse, *operands], "cute", "VERSION")
    assert [str(error) for error in refused] == [f"{sparse}: lane 0 reg 0 slot 0 can stand for any column from 0 to 3"]
    assert text == export(operands, "cute", "VERSION").text
    with pytest.raises(LanemapError, match="^cute cannot express A of mma.sp m16n8k16 f16: .* to 3$"):
        export([sparse], "cute", "VERSION")


def test_block_scales_without_rows_are_left_out_and_told(operands):
    """Also where several that differ only in which scales they take would be one type."""
    scales, unknown = ("tcgen05.mma", "m128n8k96", "ue8m0", "SFA", 4, 4, None), {"status": "figure-only"}
    figures = [Fragment(*scales, qualifiers=f"scale_vec::3X.byte_id::{byte}", **unknown) for byte in (0, 1)]
    text, refused = export([*figures, *operands], "cpp", "VERSION")
    assert [str(error) for error in refused] == [f"{figure} has no rows: it is figure-only" for figure in figures]
    assert text == export(operands, "cpp", "VERSION").text


def test_traits_that_cute_cannot_hold_are_refused(operands):
    """C and D that differ: CuTe has one layout for both."""
    *others, d = operands
    rows = by_rule(1, *(d.elements[name].reshape(32, 4)[:, [0, 2, 1, 3]] for name in ("row", "col")))
    other = Fragment("mma", "m16n8k16", "f32", "D", 4, 1, rows, source=d.source)
    text, (error,) = export([*others, other], "cute", "VERSION")
    assert "CuTe has one layout for C and D" in str(error)
    assert "struct" not in text


def test_the_same_fragment_of_two_sources_is_too_many(operands, everything):
    both = [fragment for _, fragment in everything if fragment.key == operands[0].key]
    with pytest.raises(LanemapError, match=r"is in ptx-isa-9.4 and ptx-isa-9.4\+errata: export one source"):
        export(both, "cpp", "VERSION")


def test_a_name_that_no_notation_has_is_answered_with_those_that_there_are(operands):
    with pytest.raises(LanemapError, match="^'cutee' is not a notation: choose cute, linear, triton, .*, ptx-formula$"):
        export(operands, "cutee", "VERSION")


@pytest.mark.parametrize(("name", "rows"), [("m8n8k4_f64", 8), ("m8n8k16_s32", 8), ("m16n8k8_f32", 16)])
def test_an_accumulator_has_the_encoding_of_instructions_of_its_height(corrected, name, rows):
    """Also where it is lower than those that are tried first."""
    assert f"instrShape = [{rows}, 8]" in express("triton", corrected[f"mma_{name}_d"])


@pytest.mark.parametrize(
    ("kind", "stored"), [("k32_f16_none_MN", "2 of 4"), ("k64_e4m3_64B_K", "2 of 4"), ("k16_tf32_128B_K", "1 of 2")]
)
@pytest.mark.parametrize("form", ["cute", "ptx-formula"])
def test_the_layout_of_a_sparse_operand_in_memory_says_what_k_counts(every_width, form, kind, stored):
    """A sparse A has more columns than are stored, and a line may have just as many places."""
    of = {one.identifier: one for one in every_width if one.source == CORRECTED and one.instruction == "wgmma.sp"}
    a, b = (of[f"wgmma_sp_m64n8{kind}_{role}"] for role in "ab")
    assert express(form, a).startswith(f"// k counts what is stored, {stored} columns\n")
    assert "k counts" not in express(form, b)
