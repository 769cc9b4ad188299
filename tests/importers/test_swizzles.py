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


def read(type_, mode, major, rows, depth):
    """The bit at which each element of a tile of B is read."""
    k = TYPES[type_][1]
    return lanemap.Database.descriptor(f"m64n8k{k} {type_} B {mode}.{major}", f"n{rows}k{depth}").read


def cases():
    for (type_, (bits, k)), mode, major in product(TYPES.items(), MODES, ("K", "MN")):
        if major == "K" or bits == 16:
            line = MODES[mode] * 8 // bits
            yield type_, bits, mode, major, line, max(k, line) if major == "K" else k


@pytest.mark.skipif(not find_spec("cutlass_library"), reason="nvidia-cutlass is not installed")
@pytest.mark.parametrize(("type_", "bits", "mode", "major", "line", "depth"), [*cases()])
def test_atoms_of_cute_are_what_a_descriptor_reads(type_, bits, mode, major, line, depth):
    """As its header has them, in bits: put one after the other, first along K, as Lanemap's tiles are."""
    folder = Path(find_spec("cutlass_library").submodule_search_locations[0])
    text = (folder / "source/include/cute/atom/mma_traits_sm90_gmma.hpp").read_text()
    name = f"Layout_{major}_{'INTER' if mode == 'none' else f'SW{mode[:-1]}'}_Atom_Bits"
    found = re.search(rf"using {name}\s*=\s*(.*);", text)[1]
    count, first, shift, *extents = map(int, re.findall(r"(?<=[<,_ ])\d+(?=[,>])", found))
    (outer, inner), strides = extents[:2], extents[2:]
    rows = 16 if major == "K" else 2 * line
    right = read(type_, mode, major, rows, depth)
    size, deep = outer * inner, depth * bits if major == "K" else depth
    for mn, k in np.ndindex(right.shape):
        at = (mn, k * bits) if major == "K" else (mn * bits, k)
        atom = at[0] // outer * (-(-deep // inner)) + at[1] // inner
        bit = atom * size + at[0] % outer * strides[0] + at[1] % inner * strides[1]
        byte = bit // 8
        byte ^= byte >> shift & ((1 << count) - 1) << first
        assert right[mn, k] == byte * 8 + bit % 8


@pytest.mark.parametrize(("type_", "bits", "mode", "major", "line", "depth"), [*cases()])
def test_shared_layouts_of_triton_are_what_a_descriptor_reads(type_, bits, mode, major, line, depth):
    """``nvmma_shared`` as a linear layout, of a tile that is one line wide."""
    pytest.importorskip("triton")
    from triton.experimental.gluon import language

    from lanemap.ingest.python.mappings import triton

    if mode == "none" and (depth > line or major == "MN"):
        pytest.skip("without a swizzle its rows follow each other, however wide they are")
    rows, deep = (16, line) if major == "K" else (line, 16)
    layout = language.NVMMASharedLayout(
        swizzle_byte_width=MODES[mode] if mode != "none" else 0,
        element_bitwidth=bits,
        rank=2,
        transposed=major == "MN",
    )
    bases = triton._builder.to_linear_layout(layout._to_ir(triton._builder), [rows, deep]).offset_bases
    right = read(type_, mode, major, rows, max(deep, depth))
    for offset in range(rows * deep):
        cell = np.bitwise_xor.reduce([basis for bit, basis in enumerate(bases) if offset >> bit & 1] + [[0, 0]])
        assert right[*cell] == offset * bits


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
