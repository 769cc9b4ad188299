"""Several fragments as one text: whole instructions, what is refused, and one source at a time."""

import pytest

from lanemap.db.errors import LanemapError
from lanemap.db.layout.fragment import Fragment, by_rule
from lanemap.db.render.notation import export, express


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
