"""CUTLASS reads the CuTe layouts: nvcc compiles them against its headers, pycute evaluates them in Python."""

import json
import re

import numpy as np
import pytest

import lanemap
from lanemap.db.layout.fragment import Fragment, by_rule
from lanemap.db.render.notation.closed_forms import WRITERS
from lanemap.db.render.notation.table import RefusedError

from ..shipped import CORRECTED
from .made import matrices

#: CUTLASS's own atoms, and the traits that we write of the same instruction.
ATOMS = {
    "SM70_8x8x4_F16F16F16F16_TN": "m8n8k4_row_col_f16_f16_f16_f16",
    "SM70_8x8x4_F16F16F16F16_NT": "m8n8k4_col_row_f16_f16_f16_f16",
    "SM70_8x8x4_F16F16F16F16_NN": "m8n8k4_col_col_f16_f16_f16_f16",
    "SM70_8x8x4_F16F16F16F16_TT": "m8n8k4_row_row_f16_f16_f16_f16",
    "SM70_8x8x4_F32F16F16F32_TN": "m8n8k4_row_col_f32_f16_f16_f32",
    "SM80_16x8x8_F16F16F16F16_TN": "m16n8k8_row_col_f16_f16_f16_f16",
    "SM80_16x8x16_F16F16F16F16_TN": "m16n8k16_row_col_f16_f16_f16_f16",
    "SM80_16x8x8_F32F16F16F32_TN": "m16n8k8_row_col_f32_f16_f16_f32",
    "SM80_16x8x16_F32F16F16F32_TN": "m16n8k16_row_col_f32_f16_f16_f32",
    "SM80_16x8x8_F32BF16BF16F32_TN": "m16n8k8_row_col_f32_bf16_bf16_f32",
    "SM80_16x8x16_F32BF16BF16F32_TN": "m16n8k16_row_col_f32_bf16_bf16_f32",
    "SM80_16x8x4_F32TF32TF32F32_TN": "m16n8k4_row_col_f32_tf32_tf32_f32",
    "SM80_16x8x8_F32TF32TF32F32_TN": "m16n8k8_row_col_f32_tf32_tf32_f32",
    "SM80_8x8x4_F64F64F64F64_TN": "m8n8k4_row_col_f64_f64_f64_f64",
    "SM90_16x8x4_F64F64F64F64_TN": "m16n8k4_row_col_f64_f64_f64_f64",
    "SM90_16x8x8_F64F64F64F64_TN": "m16n8k8_row_col_f64_f64_f64_f64",
    "SM90_16x8x16_F64F64F64F64_TN": "m16n8k16_row_col_f64_f64_f64_f64",
    "SM80_8x8x16_S32S8S8S32_TN": "m8n8k16_row_col_s32_s8_s8_s32",
    "SM80_16x8x16_S32S8S8S32_TN": "m16n8k16_row_col_s32_s8_s8_s32",
    "SM80_16x8x32_S32U8U8S32_TN": "m16n8k32_row_col_s32_u8_u8_s32",
    "SM80_8x8x32_S32S4S4S32_TN": "m8n8k32_row_col_s32_s4_s4_s32",
    "SM80_16x8x64_S32U4U4S32_TN": "m16n8k64_row_col_s32_u4_u4_s32",
    "SM80_16x8x256_S32U1U1S32_TN_XORPOPC": "m16n8k256_row_col_s32_b1_b1_s32",
    "SM89_16x8x32_F32E4M3E4M3F32_TN": "m16n8k32_row_col_f32_e4m3_e4m3_f32",
    "SM89_16x8x32_F32E5M2E5M2F32_TN": "m16n8k32_row_col_f32_e5m2_e5m2_f32",
}

#: CUTLASS 4.2 has 32 where 64 is right, as a stride of B of this one, so that lanes share cells.
WRONG_B = {"SM80_16x8x32_S32S4S4S32_TN": "m16n8k32_row_col_s32_s4_s4_s32"}

ALIAS = r"^using (\w+) = Layout<(.*?),\n +(Stride.*|_\d+)>;"

SAME = """
template <class A, class B, int Mode>
constexpr bool same_mode = std::is_same_v<decltype(coalesce(get<Mode>(A{}))), decltype(coalesce(get<Mode>(B{})))>;
template <class A, class B>
constexpr bool same = same_mode<A, B, 0> && same_mode<A, B, 1>;
template <class Mine, class Theirs>
constexpr bool same_but_b = same<typename Mine::ALayout, typename Theirs::ALayout> &&
                            same<typename Mine::CLayout, typename Theirs::CLayout> &&
                            std::is_same_v<typename Mine::ThrID, typename Theirs::ThrID> &&
                            std::is_same_v<typename Mine::Shape_MNK, typename Theirs::Shape_MNK> &&
                            std::is_same_v<typename Mine::ValTypeD, typename Theirs::ValTypeD> &&
                            std::is_same_v<typename Mine::ValTypeA, typename Theirs::ValTypeA> &&
                            std::is_same_v<typename Mine::ValTypeB, typename Theirs::ValTypeB> &&
                            std::is_same_v<typename Mine::ValTypeC, typename Theirs::ValTypeC>;
template <class Mine, class Theirs>
constexpr bool same_b = same<typename Mine::BLayout, typename Theirs::BLayout>;
"""


def cell(fragment, row):
    """Where CuTe counts a cell: down the columns of A (M, K), of B (N, K), of C (M, N)."""
    rows, cols = fragment.dimensions
    return row["col"] + row["row"] * cols if fragment.role == "B" else row["row"] + row["col"] * rows


def thread(row, several):
    """The thread of a lane: of the quad pair, where a warp has four of them."""
    return row["lane"] % 4 + row["lane"] // 16 * 4 if several else row["lane"]


def test_nvcc_compiles_every_layout_against_cutlass_and_asserts_every_element(
    exported, one_per_width, in_memory, nvcc, tmp_path
):
    (tmp_path / "layouts.hpp").write_text(exported("cute"))
    lines = ['#include "layouts.hpp"']
    for name, fragment in one_per_width.items():
        several = fragment.elements["computation"].max() > 1
        for row in fragment.elements:
            value = row["reg"] * fragment.slots + row["slot"]
            call = f"lanemap::{name}{{}}({thread(row, several)}, {value})"
            lines.append(f"static_assert({call} == {cell(fragment, row)});")
    swizzled = (one for one in in_memory if one.instruction == "wgmma" or "flip8" in one.qualifiers)
    for fragment in (one for one in swizzled if one.slots == 2):
        for row in fragment.elements[::7]:
            line = ("col", "row") if fragment.role == "B" else ("row", "col")
            call = f"lanemap::{fragment.key.identifier}{{}}({row[line[0]]}, {row[line[1]]})"
            lines.append(f"static_assert({call} == {row['reg'] * fragment.slots + row['slot']});")
    (tmp_path / "elements.cu").write_text("\n".join(lines) + "\n")
    done = nvcc(tmp_path / "elements.cu")
    assert done.returncode == 0, done.stderr[:2000]


def test_nvcc_finds_every_traits_block_equal_to_cutlass_own_mma_traits(exported, nvcc, tmp_path):
    (tmp_path / "layouts.hpp").write_text(exported("cute", "--instruction", "mma"))
    includes = [f"#include <cute/atom/mma_traits_sm{number}.hpp>" for number in (70, 80, 89, 90)]
    pairs = {f"lanemap::mma_{ours}, MMA_Traits<{theirs}>": theirs for theirs, ours in (ATOMS | WRONG_B).items()}
    asserts = [f"static_assert(same_but_b<{pair}>);" for pair in pairs]
    asserts += [f"static_assert({'!' if name in WRONG_B else ''}same_b<{pair}>);" for pair, name in pairs.items()]
    source = [*includes, '#include "layouts.hpp"', "using namespace cute;", SAME, *asserts]
    (tmp_path / "traits.cu").write_text("\n".join(source) + "\n")
    done = nvcc(tmp_path / "traits.cu")
    assert done.returncode == 0, done.stderr[:4000]


def test_pycute_places_every_element_of_every_fragment_as_the_rows_do(exported, corrected):
    pycute = pytest.importorskip("pycute", reason="needs the package nvidia-cutlass")
    text = exported("cute")
    found = re.findall(ALIAS, text, re.MULTILINE)
    layouts = {name: pycute.Layout(tuples(shape), tuples(stride)) for name, shape, stride in found}
    checked = 0
    for name, fragment in corrected.items():
        several = fragment.elements["computation"].max() > 1
        if name not in layouts or (several and fragment.instruction != "mma"):
            continue
        layout = layouts[name]
        for row in fragment.elements:
            value = int(row["reg"]) * fragment.slots + int(row["slot"])
            assert layout(int(thread(row, several)), value) == cell(fragment, row)
        checked += 1
    assert checked > 100


def test_pycute_counts_through_one_matrix_after_the_other():
    pycute = pytest.importorskip("pycute", reason="needs the package nvidia-cutlass")
    rows = matrices().elements
    text = WRITERS["cute"].compose(matrices(), "x4")
    _, shape, stride = re.findall(ALIAS, text, re.MULTILINE)[0]
    layout = pycute.Layout(tuples(shape), tuples(stride))
    for row in rows.tolist():
        held = dict(zip(rows.dtype.names, row, strict=True))
        expected = held["row"] + held["col"] * 8 + (held["computation"] - 1) * 64
        assert layout(held["lane"], held["reg"] * 2 + held["slot"]) == expected


def test_a_layout_that_does_not_begin_with_cell_0_is_refused():
    lane, i = np.indices((32, 2))
    rows = by_rule(1, 7 - lane // 4, lane % 4 * 2 + i)
    with pytest.raises(RefusedError, match="lane 0 reg 0 slot 0 has cell 7, but layouts start at cell 0"):
        WRITERS["cute"].compose(Fragment("mma", "m8n8k4", "f64", "C", 2, 1, rows), "reversed")


@pytest.mark.parametrize(
    ("lanes", "why"),
    [
        ([8, 9], "lane 8 reg 0 slot 0 is not of the product, or not the cell, that its ThrID says"),
        ([0, 1, 2, 3, *range(32, 36)], "is not of the product"),
    ],
)
def test_a_product_whose_threads_are_not_those_beside_the_first_is_refused(lanes, why):
    """Four lanes hold each product: two lanes of the third changed places, or the first has been given others."""
    lane, i = np.indices((64, 4))
    place = np.arange(64)
    place[lanes] = place[np.roll(lanes, 1 if len(lanes) == 2 else 4)]
    rows = by_rule(1, i, place[lane] % 4, computation=place[lane] // 4 + 1)
    fragment = Fragment("x.blocks", "m4n4k4", "f32", "C", 4, 1, rows)
    with pytest.raises(RefusedError, match=why):
        WRITERS["cute"].compose(fragment, "blocks")


def test_a_type_that_cute_lacks_is_refused():
    lane = np.arange(32)[:, None]
    rows = by_rule(1, lane // 4, lane % 4)
    operands = {role: Fragment("x.product", "m8n4k4", "b16", role, 1, 1, rows) for role in "ABCD"}
    with pytest.raises(RefusedError, match="^x_b16: CuTe has no type b16$"):
        WRITERS["cute"].instruction("x_b16", operands, "x_b16")


def tuples(text):
    """Shape <Shape <_4,_8>,_2> as ((4, 8), 2)."""
    numbers = re.sub(r"Int<(\d+)>|_(\d+)", r"\1\2", text)
    read = json.loads(re.sub(r"(?:Shape |Stride)<", "[", numbers).replace(">", "]"))
    return as_tuple(read)


def as_tuple(tree):
    return tuple(map(as_tuple, tree)) if isinstance(tree, list) else tree


def test_the_file_says_where_each_layout_comes_from(exported):
    text = exported("cute", "--shape", "m16n8k256", "--type", "b1", "--role", "A")
    operand = "A of mma m16n8k256 b1: 16 (M) x 256 (K), row major"
    assert f"// {operand}; per lane 4 registers of 32 bits, 32 slots of 1 bit in each\n" in text
    anchor = "section 9.7.16.5.13 #warp-level-matrix-fragment-mma-168256"
    assert f"// {CORRECTED}, {anchor}, Lanemap {lanemap.__version__}\n// corrected: register 1" in text
