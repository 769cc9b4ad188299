"""What libraries write to shared memory for wgmma, compared with what its descriptors read."""

import re
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import lanemap
from lanemap.db.isa.shared import MODES

TYPES = {"f16": (16, 16), "tf32": (32, 8), "e4m3": (8, 32)}


def read(type_, mode, major, rows, depth, name="wgmma"):
    """The bit at which each element of a tile of B is read."""
    k, n = TYPES[type_][1], 16 if major == "MN" else 8
    return lanemap.Database.descriptor(f"{name} m64n{n}k{k} {type_} B {mode}.{major}", f"n{rows}k{depth}").read


def cases(widths=(16,)):
    """Of these widths the lines may run along N, too."""
    for (type_, (bits, k)), mode, major in product(TYPES.items(), MODES, ("K", "MN")):
        if major == "K" or bits in widths:
            line = MODES[mode] * 8 // bits
            yield type_, bits, mode, major, line, max(k, line) if major == "K" else k


@pytest.mark.skipif(not find_spec("cutlass_library"), reason="nvidia-cutlass is not installed")
@pytest.mark.parametrize(("type_", "bits", "mode", "major", "line", "depth"), [*cases((8, 16))])
def test_atoms_of_cute_are_what_a_descriptor_reads(type_, bits, mode, major, line, depth):
    """As its header has them, in bits: put one after the other, first along K, as Lanemap's tiles are.

    Those of UMMA are the same by name, and of 8 bits they run along N, too.
    """
    folder = Path(find_spec("cutlass_library").submodule_search_locations[0])
    text = (folder / "source/include/cute/atom/mma_traits_sm90_gmma.hpp").read_text()
    name = f"Layout_{major}_{'INTER' if mode == 'none' else f'SW{mode[:-1]}'}_Atom_Bits"
    found = re.search(rf"using {name}\s*=\s*(.*);", text)[1]
    count, first, shift, *extents = map(int, re.findall(r"(?<=[<,_ ])\d+(?=[,>])", found))
    (outer, inner), strides = extents[:2], extents[2:]
    rows = 16 if major == "K" else 2 * line
    later = (folder / "source/include/cute/atom/mma_traits_sm100.hpp").read_text()
    assert f"using cute::GMMA::{name.removesuffix('_Bits')};" in later
    right = read(type_, mode, major, rows, depth, "tcgen05.mma")
    if major == "K" or bits == 16:
        assert np.array_equal(right, read(type_, mode, major, rows, depth))
    size, deep = outer * inner, depth * bits if major == "K" else depth
    for mn, k in np.ndindex(right.shape):
        at = (mn, k * bits) if major == "K" else (mn * bits, k)
        atom = at[0] // outer * (-(-deep // inner)) + at[1] // inner
        bit = atom * size + at[0] % outer * strides[0] + at[1] % inner * strides[1]
        byte = bit // 8
        byte ^= byte >> shift & ((1 << count) - 1) << first
        assert right[mn, k] == byte * 8 + bit % 8


def test_wider_tiles_of_tvm_have_their_second_line_behind_all_rows():
    utilities = pytest.importorskip("tvm.backend.cuda.tile_primitive.tma_utils")
    layout = utilities.mma_shared_layout("float16", [*MODES].index("64B"), [16, 64])
    assert int(layout.apply(0, 32, shape=[16, 64])["m"]) * 2 == 16 * 64
    assert read("f16", "64B", "K", 16, 64)[0, 32] // 8 == 8 * 64


@pytest.mark.parametrize("mode", ["32B", "64B", "128B"])
def test_wider_tiles_of_triton_need_other_strides(mode):
    """A second line of a row lies behind all rows, where a tile of Lanemap has it behind eight."""
    pytest.importorskip("triton")
    from triton.experimental.gluon import language

    from lanemap.ingest.python.mappings import triton

    line = MODES[mode] // 2
    layout = language.NVMMASharedLayout(swizzle_byte_width=MODES[mode], element_bitwidth=16, rank=2, transposed=False)
    bases = triton._builder.to_linear_layout(layout._to_ir(triton._builder), [64, 2 * line]).offset_bases
    assert bases[-1] == [0, line]
    of_lanemap = read("f16", mode, "K", 64, 2 * line)
    assert of_lanemap[0, line] == 8 * MODES[mode] * 8
    boxes = lanemap.Database.descriptor(f"cp.async.bulk.tensor b16 {mode}", f"m64n{line}").box
    assert boxes.size * 8 == 1 << len(bases) - 1 << 4
