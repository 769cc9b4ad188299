"""Tiles as CUTLASS, Triton and TileLang have them: their own tiled layouts, for a grid of shapes, warps and orders."""

import re
from itertools import product

import numpy as np
import pytest

import lanemap
from lanemap.db.render.notation import NOTATIONS, express
from lanemap.db.render.notation.table import RefusedError
from lanemap.ingest import python as mappings
from lanemap.ingest.importing import MAPPINGS
from lanemap.ingest.python.mapping import Claim, LibraryEntry

from ..modes import LONG
from ..wild.run import environment


def tile(database, operand, **which):
    (fragment,) = database.operand(operand, **which)
    return fragment


@pytest.fixture(scope="module")
def gluon():
    """Triton's own answer for an encoding: row and col over (thread, element)."""
    language = pytest.importorskip("triton.experimental.gluon.language", reason="needs a triton with gluon")
    from triton._C import libtriton

    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    builder = libtriton.gluon_ir.GluonOpBuilder(context)

    def span(bases):
        cells = np.zeros((1, 2), int)
        for basis in bases:
            cells = np.concatenate([cells, cells ^ np.array(basis)])
        return cells

    def answer(shape, version, warps, instruction, operand=None, _alive=context):
        layout = language.NVMMADistributedLayout(version=[version, 0], warps_per_cta=warps, instr_shape=instruction)
        if operand is not None:
            layout = language.DotOperandLayout(operand, layout, 2)
        linear = builder.to_linear_layout(layout._to_ir(builder), list(shape))
        return span([*linear.lane_bases, *linear.warp_bases])[:, None] ^ span(linear.reg_bases)

    return answer


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not LONG, reason="the long mode installs TileLang")
def test_tiles_are_those_of_tilelang(database, tmp_path):
    """Each copy of A and B, and C, as its emitter gives it: the instructions of a warp are neighbours."""
    wanted, tasks = [], []
    kinds = (("float16", "f16", "f32", 16), ("int8", "s8", "s32", 32))
    grid = product([(1, 1), (2, 2), (4, 1), (1, 4), (2, 4)], [(16, 16), (32, 32), (64, 16), (16, 64)], kinds)
    for (m, n), (down, across), (dtype, type_, d, depth) in grid:
        warps, sizes = f"{m}x{n}", {"m": m * down, "n": n * across, "k": 2 * depth}
        for matrix, held, axes, copies in (("A", type_, "mk", n), ("B", type_, "nk", m), ("C", d, "mn", 1)):
            tile = "".join(f"{axis}{sizes[axis]}" for axis in axes)
            which = {"tile": tile, "warps": warps, "order": "mn", "contiguous": True}
            (fragment,) = database.operand(f"m16n8k{depth} {held} {matrix}", **which)
            row, col = np.indices(fragment.dimensions)
            thread, reg, slot = (at.reshape(*row.shape, copies) for at in fragment.find(row, col))
            for copy in range(copies):
                made = {"matrix": matrix, "dtype": dtype, "transposed": False, "warps": [m, n], "tile": [down, across]}
                made |= {"depth": sizes["k"], "copy": copy}
                its = np.stack([thread, reg * fragment.slots + slot], axis=2)[..., copy]
                wanted.append((made, its.swapaxes(0, 1) if matrix == "B" else its))
                claim = Claim(shape=f"m16n8k{depth}", types=held, role=matrix)
                extents = tuple(sizes[axis] for axis in axes)
                entry = LibraryEntry(
                    name="fragment", form="cell", adapter=True, make=made, tile=extents, claims=(claim,)
                )
                tasks.append(mappings._task(entry, MAPPINGS / "tilelang.toml"))
    version, answers = mappings.answers(tasks, "tilelang", [str(tmp_path)], environment("tilelang"))
    assert version
    for (made, its), answer in zip(wanted, answers, strict=True):
        assert "values" in answer, (made, answer)
        assert answer["values"] == its.reshape(-1, 2).tolist(), made


#: An operand, its number in Triton, its version and instruction, the tile, and its rows and columns.
TRITON = [
    ("m16n8k16 f32 D", None, 2, [16, 8], "m{0}n{1}", (64, 128)),
    ("m16n8k16 f16 A", 0, 2, [16, 8], "m{0}k{1}", (128, 64)),
    ("m16n8k16 f16 B", 1, 2, [16, 8], "n{1}k{0}", (32, 64)),
    ("m64n64k16 f32 D", None, 3, [16, 64, 16], "m{0}n{1}", (256, 128)),
    ("m64n64k16 f16 A", 0, 3, [16, 64, 16], "m{0}k{1}", (256, 64)),
]


@pytest.mark.parametrize(("operand", "number", "version", "instruction", "named", "shape"), TRITON)
@pytest.mark.parametrize("warps", [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (4, 2)], ids=str)
def test_tiles_are_those_of_triton(database, gluon, operand, number, version, instruction, named, shape, warps):
    """Warps count along N first in version 2 and along M first in version 3, instructions along K, then N, then M."""
    per_cta = [4 * warps[0], warps[1]] if version == 3 else [*warps]
    theirs = gluon(shape, version, per_cta, instruction, number)
    which = {"tile": named.format(*shape), "warps": "x".join(map(str, warps))}

    def cells(order):
        fragment = tile(database, operand, order=order, **which)
        table = fragment.table
        return fragment, np.stack([table["row"], table["col"]], axis=-1).reshape(fragment.threads, -1, 2)

    usual = "nkn" if version == 2 else "mkn"
    fragment, ours = cells(usual)
    assert np.array_equal(ours, theirs)
    assert f"warpsPerCTA = {per_cta}" in express("triton", fragment)
    for order in ("m", "n", "nmn", "mmn", "mkm"):
        other, same = cells(order)
        if np.array_equal(same, theirs):
            express("triton", other)
        else:
            with pytest.raises(RefusedError, match=f"are in the order {usual}"):
                express("triton", other)


TILINGS = [
    {"tile": "m64n64k32", "warps": "2x2"},
    {"tile": "m64n64k32", "warps": "2x2", "order": "n"},
    {"tile": "m64n64k32", "warps": "2x2", "contiguous": True},
    {"tile": "m128n32k16", "warps": "4x1", "order": "n", "contiguous": True},
    {"tile": "m16n128k48", "warps": "1x4"},
    {"tile": "m96n48k16", "warps": "3x2", "order": "n"},
]

SAME = """
template <class Mine, class Theirs>
constexpr bool same = std::is_same_v<decltype(coalesce(Mine{}, Step<_1, _1>{})),
                                     decltype(coalesce(Theirs{}, Step<_1, _1>{}))>;
"""


#: The same over warpgroups, of which the third has no second along N.
WARPGROUPS = [
    {"tile": "m128n128k64", "warps": "2x1"},
    {"tile": "m256n128k64", "warps": "2x1", "contiguous": True},
    {"tile": "m128n256k64", "warps": "2x2", "order": "n"},
]

#: What a product in words has: the operands that registers hold, and where CuTe's atom takes A.
PRODUCTS = [
    ("m16n8k16", "f16", "mma", "f32", "", "ABC", TILINGS if LONG else TILINGS[::5]),
    ("m64n64k16", "bf16", "wgmma", "f32", "", "D", WARPGROUPS if LONG else WARPGROUPS[2:]),
    ("m64n64k16", "f16", "wgmma", "f16", "_rs", "AD", WARPGROUPS if LONG else WARPGROUPS[:1]),
    ("m64n64k32", "s8", "wgmma", "s32", "_rs", "AD", WARPGROUPS[1:2]),
    ("m64n64k8", "tf32", "wgmma", "f32", "_rs", "AD", WARPGROUPS[1:2] * LONG),
    ("m64n64k32", "e4m3", "wgmma", "f16", "", "D", WARPGROUPS[1:2] * LONG),
]


@pytest.mark.slow
def test_nvcc_finds_every_tile_equal_to_the_layouts_of_its_tiled_mma(database, nvcc, tmp_path):
    """In one file, as it takes a compiler longer to read CuTe than to compare a tile."""
    source = ["#include <cute/tensor.hpp>", "#include <cute/atom/mma_atom.hpp>"]
    asserts = []
    of_each = [(*product, tiling) for *product, tilings in PRODUCTS for tiling in tilings]
    for shape, type, instruction, accumulated, ending, roles, tiling in of_each:
        # The words name a whole instruction, with C and D of every type.
        query = lanemap.Query.parse(f"{shape} {type}", instruction=instruction, **tiling)
        text = database.export(format="cute", query=query).text
        types = [accumulated, type, type, accumulated]
        called = re.search(rf"using (\w+{'_'.join(types)}\w+_tiled_mma{ending}) =", text)[1]
        (tmp_path / f"{called}.hpp").write_text(text)
        source.append(f'#include "{called}.hpp"')
        for role in roles:
            held = type if role in "AB" else accumulated
            fragment = tile(database, f"{shape} {held} {role}", **tiling)
            theirs = f"decltype(lanemap::{called}{{}}.get_layout{role.replace('D', 'C')}_TV())"
            asserts.append(f"static_assert(same<{theirs}, lanemap::{fragment.identifier}>);")
            for order in ("nkn", "nnm"):
                wrong = tile(database, f"{shape} {held} {role}", **tiling | {"order": order})
                if wrong.digest != fragment.digest:
                    name = f"wrong_{len(asserts)}"
                    asserts.append(f"namespace lanemap {{ {express('cute', wrong, name)} }}")
                    asserts.append(f"static_assert(!same<{theirs}, lanemap::{name}>);")
    assert any("!same" in line for line in asserts)
    (tmp_path / "tiles.cu").write_text("\n".join([*source, "using namespace cute;", SAME, *asserts]) + "\n")
    done = nvcc(tmp_path / "tiles.cu")
    assert done.returncode == 0, done.stderr[:4000]


def test_cute_refuses_an_order_that_its_tiled_mma_lacks(database):
    query = lanemap.Query("m16n8k16", "f16", instruction="mma", tile="m64n64k32", warps="2x2", order="mn")
    exported = database.export(format="cute", query=query)
    assert "_tiled_mma" not in exported.text
    assert "CuTe counts the instructions of a warp along M, then N, then K" in str(exported.refused[0])


@pytest.mark.parametrize("form", NOTATIONS)
@pytest.mark.parametrize("role", "ABD")
def test_every_notation_says_a_tile_or_why_not(database, form, role):
    fragment = tile(database, f"m16n8k16 f16 {role}", tile="m64n64k32", warps="2x2", order="nkn")
    if form == "python" and role != "D":
        with pytest.raises(RefusedError, match="holds a cell that another slot also holds"):
            express(form, fragment)
    else:
        # ``ptx-formula`` has no name.
        assert form == "ptx-formula" or fragment.identifier.lower() in express(form, fragment).lower()


def test_names_of_tiles_are_names_in_every_language(database):
    names = {
        tile(database, "m16n8k16 f16 D", tile="m64n64", warps="2x2", order=order, contiguous=contiguous).identifier
        for order, contiguous in product(("m", "n", "nkn"), (False, True))
    }
    assert len(names) == 6
    assert all(re.fullmatch(r"[a-z]\w*", name) for name in names)
