"""TVM takes the index functions as index maps."""

import ast
import importlib.util
from pathlib import Path

import pytest

from .test_python import functions


@pytest.fixture(scope="module")
def index_map():
    return pytest.importorskip("tvm.tirx", reason="needs the package apache-tvm, with tvm.tirx.IndexMap").IndexMap


def test_tvm_maps_every_element_as_the_rows_do_and_inverts_as_the_other_function_does(
    one_per_width, cells, places, index_map
):
    for fragment in one_per_width.values():
        forward, backward = map(index_map.from_func, functions(fragment))
        products = int(fragment.elements["computation"].max())
        extents = [products, *fragment.dimensions] if products > 1 else list(fragment.dimensions)
        inverse = forward.inverse(extents)
        for cell, place in zip(cells(fragment), places(fragment), strict=True):
            assert [int(number) for number in forward.map_indices(cell)] == place
            assert [int(number) for number in backward.map_indices(place)] == cell
            assert [int(number) for number in inverse.map_indices(place)] == cell


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("shared_16x16_to_ldmatrix_32x8_layout", "mma_m16n8k16_f16_a"),
        ("shared_16x32_to_ldmatrix_32x16_layout", "mma_m16n8k32_s8_a"),
    ],
)
def test_tvm_has_the_same_functions_of_its_own(corrected, index_map, theirs, ours):
    """Taken out of TVM's own file, because to import it registers every intrinsic, which takes ten seconds."""
    folder = Path(importlib.util.find_spec("tvm").origin).parent
    if not (file := folder / "s_tir" / "tensor_intrin" / "cuda.py").is_file():
        pytest.skip("this TVM keeps its intrinsics elsewhere")
    written = [node for node in ast.parse(file.read_text()).body if getattr(node, "name", "") == theirs]
    defined = {}
    exec(compile(ast.Module(written, []), file, "exec"), defined)
    forward, _ = functions(corrected[ours])
    rows, cols = corrected[ours].dimensions
    mine, its = index_map.from_func(forward), index_map.from_func(defined[theirs])
    every = [[row, col] for row in range(rows) for col in range(cols)]
    assert [list(mine.map_indices(cell)) for cell in every] == [list(its.map_indices(cell)) for cell in every]
