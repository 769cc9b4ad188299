"""What a tensor map writes of any box, and what is refused."""

import pytest

import lanemap
from lanemap.db.isa.shared import BOX_MODES

from ..shared_memory import box


@pytest.mark.parametrize("mode", list(BOX_MODES))
@pytest.mark.parametrize(("type_", "width", "elements"), [("b8", 1, 16), ("b16", 2, 16), ("b32", 4, 8)])
def test_each_element_lies_where_a_model_of_memory_puts_it(mode, type_, width, elements):
    written = lanemap.Database.descriptor(f"cp.async.bulk.tensor {type_} {mode}", f"m11n{elements}")
    held = box(mode, 11, elements * width, 0)
    assert [byte for _, _, byte in written.rows().rows] == held[::width]
    assert written.box.size > max(held) - 128
    assert written.tensor_map.box == (elements, 11)
    spelt = {"128B.atom32": "128B_ATOM_32B", "128B.atom64": "128B_ATOM_64B", "none": "NONE"}
    spelt["128B.atom32.flip8"] = "128B_ATOM_32B_FLIP_8B"
    assert written.tensor_map.swizzle == f"CU_TENSOR_MAP_SWIZZLE_{spelt.get(mode, mode)}"


def test_a_box_may_be_named_by_its_shape(run):
    said = run("descriptor", "cp.async.bulk.tensor", "64x64", "b16", "128B").out
    assert "size: 8192 bytes from a multiple of 1024" in said
    assert "tensor map: box 64 (n), 64 (m), element strides 1, CU_TENSOR_MAP_SWIZZLE_128B" in said
    narrow = run("descriptor", "cp.async.bulk.tensor", "b16", "128B", "--tile", "m100n24").out
    assert "rows: 48 bytes each, 128 apart" in narrow
    assert max(map(len, (said + narrow).splitlines())) <= 80
    shown = run("show", "64x64", "b16", "128B", "t").out
    assert shown.startswith("t of cp.async.bulk.tensor 64x64 b16 128B: ")


@pytest.mark.parametrize(
    ("operand", "tile", "words"),
    [
        ("b16", "m8n8", "say how it is swizzled: choose from none, 32B, 64B"),
        ("b16 64B.K", "m8n8", "there is no 64b.k: choose from none, 32B"),
        ("128B", "m8n8", "say the type of its elements: b8, b16 or b32"),
        ("b16 128B", None, "say the box: write m64n32 for 64 rows of 32 elements"),
        ("b16 128B", "k8n8", "'k8n8' is no box: write m64n32"),
        ("b16 128B", "m300n8", "m300n8 is no box: it has 1 to 256 rows and elements"),
        ("b16 128B", "m8n9", "9 elements of 16 bits are no multiple of 16 bytes: write n16"),
        ("b16 128B", "m64n65", "65 elements of 16 bits are no multiple of 16 bytes: write n64$"),
        ("b16 64B", "m8n64", "a row of 128 bytes is wider than the span of 64B: write n32, or none"),
        ("b32 none", "m256n256", "has 262144 bytes: a block has at most 232448 of shared memory"),
    ],
)
def test_what_is_no_box_is_refused_in_a_line(operand, tile, words):
    with pytest.raises(lanemap.LanemapError, match=words) as refused:
        lanemap.Database.descriptor(f"cp.async.bulk.tensor {operand}", tile)
    assert "\n" not in str(refused.value)


def test_no_descriptor_writes_a_box():
    with pytest.raises(lanemap.LanemapError, match="no matrix descriptor writes a box"):
        lanemap.Database.descriptor("cp.async.bulk.tensor b16 128B", "m8n8", decode=1)
