"""What the document says of tcgen05.ld and tcgen05.st: registers in a table, layouts only in figures."""

import re
from itertools import product

import numpy as np
import pytest

import lanemap
from lanemap.db.isa.instructions import Key
from lanemap.db.layout.fragment import Fragment, Source, elements
from lanemap.db.layout.structure import check

from ..shipped import NUMBERED

#: Table 49, registers by shape, for x1, x2, x4, ...
REGISTERS = {
    "16x32bx2": [1, 2, 4, 8, 16, 32, 64, 128],
    "16x64b": [1, 2, 4, 8, 16, 32, 64, 128],
    "32x32b": [1, 2, 4, 8, 16, 32, 64, 128],
    "16x128b": [2, 4, 8, 16, 32, 64, 128],
    "16x256b": [4, 8, 16, 32, 64, 128],
}
MOVES = ("tcgen05.ld", "tcgen05.st")
SECTIONS = ["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"]


def test_every_shape_and_count_has_the_registers_of_the_table(sources):
    for name, source in sources.items():
        *_, chapter, higher = NUMBERED[name.removesuffix("+errata").removeprefix("ptx-isa-")]
        moves = [fragment for fragment in source.fragments if fragment.instruction.startswith(MOVES)]
        found = [fragment for fragment in moves if "spcompress" not in fragment.instruction]
        assert {
            (*fragment.key[:4], fragment.qualifiers): (fragment.registers, fragment.slots) for fragment in found
        } == {
            (name, shape, "b32", "r", f"x{1 << at}{packed}"): (registers, 2 if packed else 1)
            for name, pack in (("tcgen05.ld", ".pack::16b"), ("tcgen05.st", ".unpack::16b"))
            for shape, row in REGISTERS.items()
            for at, registers in enumerate(row)
            for packed in ("", pack)
        } | {
            ("tcgen05.ld.red", shape, type_, role, f"x{1 << at}"): (1 << at if role == "r" else 1, 1)
            for shape in ("32x32b", "16x32bx2")
            for type_ in ("f32", "u32", "s32")
            for role in ("r", "redval")
            for at in range(1, 8)
        }
        for fragment in found:
            assert (fragment.status, fragment.has_rows, fragment.threads) == ("figure-only", False, 32)
            at = SECTIONS.index(fragment.shape)
            assert (fragment.citation.section, fragment.citation.figures.partition(" ")[0]) == (
                f"{chapter}.2.3.1.{at + 1}",
                str(183 + higher + at),
            )


def test_all_that_a_warp_loads_fills_its_registers(sources):
    """The lanes of the shape, and its bits in each as often as it is repeated; half of each column if packed."""
    for fragment in next(iter(sources.values())).fragments:
        if not fragment.instruction.startswith(MOVES) or fragment.role not in ("r", "cdata"):
            continue
        lanes, bits, twice = re.fullmatch(r"(\d+)x(\d+)b(x2)?", fragment.shape).groups()
        count = int(re.match(r"x(\d+)", fragment.qualifiers)[1])
        packed = 2 if "pack" in fragment.qualifiers else 1
        assert fragment.dimensions == (int(lanes), int(bits) * count // 32 * packed)
        assert fragment.computations == (2 if twice else 1)
        stored = 2 if "spcompress" in fragment.instruction else 1
        assert fragment.computations * int(lanes) * int(bits) * count == 32 * 32 * fragment.registers * stored


def test_d_of_a_product_is_drawn_alone(sources):
    """For each power of two, whose columns are 32 bits wide whatever the type; lanes are those of Tensor Memory."""
    depths = {"f32": (8, 16, 32, 64), "f16": (16, 32), "s32": (32,)}
    for name, source in sources.items():
        *_, chapter, higher = NUMBERED[name.removesuffix("+errata").removeprefix("ptx-isa-")]
        whole = [one for one in source.fragments if one.instruction == "tcgen05.mma" and one.role == "D"]
        found = {one.key: one for each in whole for one in each.every}
        assert found.keys() == {
            Key("tcgen05.mma", f"m{m}n{n}k{k}", type_, "D")
            for m, (type_, deep) in product((64, 128), depths.items())
            for k in deep
            for n in (8, 16, 32, 64, 128, 256)
            if (m, k) != (64, 64)  # kinds with block scales have M of 128 alone
        }
        for one in found.values():
            m, n, _ = map(int, re.findall(r"\d+", one.shape))
            assert (one.status, one.has_rows, one.citation.section) == ("figure-only", False, f"{chapter}.10.5")
            assert (one.threads, one.registers, one.slots, one.first_bit) == (128, n, 1, 0)
            assert one.citation.figures.partition(" ")[0] == str({128: 211, 64: 215}[m] + higher)


@pytest.mark.parametrize("m", [64, 128])
def test_tvm_fills_what_is_drawn_of_d(own, m):
    """Its layouts D and F put each element once in a lane and a column, and are found once they are added."""
    layout = pytest.importorskip("tvm.tirx.layout")
    made = layout.tmem_datapath_layout({64: "F", 128: "D"}[m], m, 32)
    held = [[int(made.apply(r, c, shape=[m, 32])[axis]) for axis in ("TLane", "TCol")] for r, c in np.ndindex(m, 32)]
    lane, reg = np.array(held).T
    row, col = (index.ravel() for index in np.indices((m, 32)))
    key = Key("tcgen05.mma", f"m{m}n32k16", "f32", "D")
    cells = elements({"lane": lane, "reg": reg, "slot": 0 * reg, "row": row, "col": col})
    fragment = Fragment.of(key, cells, "imported")
    assert check(fragment) == []
    with lanemap.open(own) as database:
        with pytest.raises(lanemap.LanemapError, match="figure-only, figures 21"):
            database.find(str(key.shape), "f32", "D", instruction="tcgen05.mma", row=17)
        database.add([Source("tvm", "import", "tvm", [fragment])])
        found = database.find(str(key.shape), "f32", "D", instruction="tcgen05.mma", row=17, col=5)
        assert found[["lane", "reg", "source"]].values.tolist() == [[33 if m == 64 else 17, 5, "tvm"]]
