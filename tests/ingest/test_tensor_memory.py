"""What the document says of tcgen05.ld and tcgen05.st: registers in a table, layouts only in figures."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import lanemap
from lanemap import Query
from lanemap.db.isa.instructions import Key
from lanemap.db.layout.fragment import Fragment, Source, elements
from lanemap.db.layout.structure import check
from lanemap.db.render.facts import facts
from lanemap.ingest.catalogue import document

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


#: By M and qualifiers of D: the letter of its layout in the table of 9.7.18.10.5, and how many columns lie in one.
LAYOUTS = {
    (32, "ws"): ("G", 4),
    (64, "ws"): ("E", 2),
    (64, None): ("F", 1),
    (128, None): ("D", 1),
    (128, "ws"): ("D", 1),
    (128, "cta_group::2"): ("B", 2),
    (256, "cta_group::2"): ("A", 1),
}
#: The number of the first figure of each layout, by version, as its text prints it.
FIGURES = {"9.1": dict(zip("ABCDEFG", range(205, 219, 2), strict=True))}
FIGURES["9.4"] = dict(zip("ABCDEFG", range(211, 225, 2), strict=True))


def drawn(source, *roles):
    """Each operand of tcgen05.mma that lies in Tensor Memory."""
    whole = [one for one in source.fragments if one.instruction.startswith("tcgen05.mma") and one.role in roles]
    return [one for each in whole for one in each.every if not one.tile]


def test_d_of_a_product_is_drawn_alone(sources):
    """For each power of two, whose columns are 32 bits wide whatever the type; lanes are those of Tensor Memory."""
    for name, source in sources.items():
        version = name.removesuffix("+errata").removeprefix("ptx-isa-")
        *_, chapter, _ = NUMBERED[version]
        found = drawn(source, "D")
        assert {one.instruction for one in found} == {"tcgen05.mma", "tcgen05.mma.sp"}
        for one in found:
            m, n, k = map(int, re.findall(r"\d+", one.shape))
            letter, folded = LAYOUTS[m, one.qualifiers]
            if letter == "B" and one.instruction.endswith(".sp"):
                letter, folded = "C", 1
            assert (one.status, one.has_rows, one.citation.section) == ("figure-only", False, f"{chapter}.10.5")
            blocks = 2 if one.qualifiers == "cta_group::2" else 1
            assert (one.threads, one.registers, one.slots, one.first_bit) == (128 * blocks, n // folded, 1, 0)
            first = f"{FIGURES[version][letter]} #tcgen05-data-path-layout-{letter.lower()}1"
            assert one.citation.figures.startswith(first)
            assert (k < 64 or m in (128, 256)) or one.instruction.endswith(".sp")
        dense = {
            one.shape for one in found if one.type == "f32" and (one.qualifiers, one.instruction[11:]) == (None, "")
        }
        assert {f"m128n{n}k96" for n in (8, 16, 32, 64, 128, 256)} <= dense
        assert "m64n8k96" not in dense


def test_scales_are_drawn_alone_with_the_byte_that_is_chosen(sources):
    """Of each number of scales, the bytes of a word that may be chosen; ue5m3 and eight scales came with 9.4."""
    bytes_of = {1: {0, 1, 2, 3}, 2: {0, 2}, 3: {0, 1, 2, 3}, 4: {0}, 6: {0, 2}, 8: {0}}
    first = {"SFA": {"9.1": 231, "9.4": 237}, "SFB": {"9.1": 240, "9.4": 257}}
    last = {"SFA": {"9.1": 239, "9.4": 256}, "SFB": {"9.1": 258, "9.4": 278}}
    for name, source in sources.items():
        version = name.removesuffix("+errata").removeprefix("ptx-isa-")
        for role in ("SFA", "SFB"):
            chosen = {}
            for one in drawn(source, role):
                count, byte = map(int, re.fullmatch(r"scale_vec::(\d)X\.byte_id::(\d)", one.qualifiers).groups())
                n, k = map(int, re.findall(r"\d+", one.shape)[1:])
                chosen.setdefault(count, set()).add(byte)
                assert one.status == "figure-only"
                for figure in map(int, re.findall(r"(\d+) #", one.citation.figures)):
                    assert first[role][version] <= figure <= last[role][version]
                lines = 128 if role == "SFA" else n
                assert (one.slots, one.registers) == (4, -(-lines // 32) * (1 + (byte + count > 4)))
                assert one.dimensions == ((128, count) if role == "SFA" else (count, n))
                stored = k // (2 if one.instruction.endswith(".sp") else 1)
                assert stored / count in ((32, 64) if count == 1 else (16, 32))
            assert chosen == {count: ids for count, ids in bytes_of.items() if count < 8 or version == "9.4"}
        types = {one.type for one in drawn(source, "SFA", "SFB")}
        assert types == {"ue8m0", "ue4m3", *(["ue5m3"] if version == "9.4" else [])}


def test_figures_of_the_later_version_are_those_that_it_prints(sources):
    """New figures stand between: 9.4 has those of scales in 128 lanes, and of compressed B."""
    printed = {
        "tcgen05-packing-formats-mxf8f6f4-tmem-dig1": 202,
        "tcgen05-packing-formats-mxf4-tmem-dig1": 210,
        "tcgen05-mma-scale-factor-a-2x-dig": 239,
        "tcgen05-mma-scale-factor-a-4x-dig": 241,
        "tcgen05-mma-scale-factor-a-block32-k96-dig4": 246,
        "tcgen05-mma-scale-factor-a-block16-k96-dig2": 252,
        "tcgen05-mma-scale-factor-b-block32-k96-ngt128-dig6": 269,
        "tcgen05-mma-scale-factor-b-block16-k96-ngt128-dig4": 275,
        "tcgen05-sparse-matrices-sparsity-selector-kind-f16-m64-dig": 287,
        "tcgen05-sparse-matrices-sparsity-selector-kind-f8f6f4-mxf8f6f4-m128-256-dig": 292,
    }
    every = ", ".join(one.citation.figures for one in drawn(sources["ptx-isa-9.4"], "A", "D", "E", "SFA", "SFB"))
    found = {anchor: int(number) for number, anchor in re.findall(r"(\d+) #([\w-]+)", every)}
    assert printed.items() <= found.items()


def _numbers(text, n):
    """A shape or a stride of CuTe as its template arguments, with its letters for numbers, as a nested list."""
    named = {"N_MMA": n, "MMA_MN": n, "SUBPART_DPs": 32, "MMA_VS": 1, "REP": 4}
    text = re.sub(r"Int<([^<>]*)>", lambda found: str(_computed(found[1], named)), re.sub(r"\s", "", text))
    text = re.sub(r"\b_(\d+)", r"\1", text).replace("REP", "4")
    return json.loads(re.sub(r"(?:Shape|Stride)<", "[", text).replace(">", "]"))


def _computed(text, named):
    dividend, _, divisor = text.partition("/")
    of = [named.get(word) or int(word) for word in (dividend, divisor) if word]
    return of[0] // of[1] if len(of) > 1 else of[0]


def _addresses(shape, stride):
    """The address of each index of a layout, the first index fastest."""
    if isinstance(shape, int):
        return np.arange(shape) * stride
    parts = [_addresses(*pair) for pair in zip(shape, stride, strict=True)]
    found = parts[0]
    for part in parts[1:]:
        found = (part[:, None] + found[None, :]).ravel()
    return found


def _header(struct, *marks):
    """The shape and stride of the first layout in a struct of CuTe's header behind some of its lines."""
    folder = Path(find_spec("cutlass_library").submodule_search_locations[0])
    text = (folder / "source/include/cute/atom/mma_traits_sm100.hpp").read_text()
    for mark in (f"struct {struct}", *marks):
        text = text[text.index(mark) + len(mark) :]
    layout = re.search(r"tmem_atom = Layout\s*<\s*(Shape.*?>)\s*,\s*(Stride\s*<.*?)>\s*\{\}", text, re.DOTALL)
    return layout.groups()


@pytest.fixture(scope="module")
def cutlass():
    return {one.key: one for each in document("cutlass-4.2.0").fragments for one in each.every}


@pytest.mark.skipif(not find_spec("cutlass_library"), reason="nvidia-cutlass is not installed")
def test_cute_says_where_operands_lie_in_tensor_memory(cutlass):
    """Each of ``tmem_frg`` is computed from the header's text: an address counts 128 lanes first, then columns."""
    marks = {
        (128, None): ("tmem_frg ", "N_SM == 1)", "M_MMA == 128)"),
        (64, None): ("tmem_frg ", "N_SM == 1)", "M_MMA == 64)"),
        (64, "ws"): ("tmem_frg_ws ", "M_MMA == 64)"),
        (32, "ws"): ("tmem_frg_ws ", "M_MMA == 32)"),
        (128, "cta_group::2"): ("tmem_frg ", "N_SM == 2)", "M_MMA == 64 && TmemAlloc == UMMA::TmemAllocMode::Inter"),
        (256, "cta_group::2"): ("tmem_frg ", "N_SM == 2)", "M_MMA == 128)"),
    }
    seen = set()
    for key, one in cutlass.items():
        if not key.instruction.startswith("tcgen05.mma") or key.role not in "AD":
            continue
        seen.add((m := one.dimensions[0], key.qualifiers))
        blocks, packed = 2 if key.qualifiers == "cta_group::2" else 1, one.slots
        of_block, columns = m // blocks, one.dimensions[1]
        shape, stride = (_numbers(text, columns) for text in _header(*marks[m, key.qualifiers]))
        at = _addresses(shape, stride)
        assert len(at) == of_block * columns
        wanted = {}
        for block in range(blocks):
            for index, address in enumerate(at.tolist()):
                lane, number = address % 128 + 128 * block, address // 128
                cell = (index % of_block + of_block * block, index // of_block)
                wanted[lane, number // packed, number % packed] = cell
        assert {(e.lane, e.reg, e.slot): (e.row, e.col) for e in one.records()} == wanted
        assert check(one) == []
    assert seen == marks.keys()


@pytest.mark.skipif(not find_spec("cutlass_library"), reason="nvidia-cutlass is not installed")
def test_cute_says_where_scales_lie_in_tensor_memory(cutlass):
    """``tmem_sf_frg`` of a byte each, four times; where a byte is chosen, it begins there."""
    number = 0
    for key, one in cutlass.items():
        if not key.instruction.startswith("tcgen05.mma") or key.role not in ("SFA", "SFB"):
            continue
        number += 1
        lines, scales = one.dimensions[:: 1 if key.role == "SFA" else -1]
        if lines < 32:
            continue
        byte = int(key.qualifiers[-1])
        texts = [text.replace("Int<MMA_NSF>", f"_{scales}") for text in _header("tmem_sf_frg", "Is_SFA ||")]
        at = _addresses(*(_numbers(text, lines) for text in texts)).reshape(scales, 4, lines)
        wanted = {}
        for scale, copy, line in np.ndindex(at.shape):
            lane, place = at[scale, copy, line] % 128, at[scale, copy, line] // 128 + byte
            wanted[lane, place // 4, place % 4] = (line, scale) if key.role == "SFA" else (scale, line)
        assert {(e.lane, e.reg, e.slot): (e.row, e.col) for e in one.records()} == wanted
        assert check(one) == []
    assert number > 50


@pytest.mark.skipif(not find_spec("cutlass_library"), reason="nvidia-cutlass is not installed")
def test_cute_says_where_metadata_lies_in_tensor_memory(cutlass):
    """``tmem_e_frg``: an address counts 128 lanes first, then elements of A, of which a word has 32 bits of metadata.

    A chunk of so many elements, of two or of four or of four pairs, has four bits.
    """
    seen = set()
    for key, one in cutlass.items():
        if not key.instruction.startswith("tcgen05.mma") or key.role != "E":
            continue
        bits, chunk = {(16, 2): (32, 2), (32, 4): (16, 4), (64, 4): (8, 4), (128, 8): (4, 8)}[
            one.dimensions[1], one.chunk
        ]
        seen.add(bits)
        shape, stride = (_numbers(text, 0) for text in _header("tmem_e_frg", f"::value == {bits:2})"))
        m, k = (_addresses(*pair) for pair in zip(shape, stride, strict=True))
        wanted = {}
        for row, column in np.ndindex(len(m), len(k)):
            lane, number = (m[row] + k[column]) % 128, (m[row] + k[column]) // 128
            bit = number // chunk * 4  # that where the four of its chunk begin
            for slot in range(bit % 32 // one.slot_bits, (bit % 32 + 4) // one.slot_bits):
                first = column // chunk * chunk
                wanted[lane, bit // 32, slot] = (row, first, first + chunk - 1)
        assert {(e.lane, e.reg, e.slot): (e.row, e.col, e.col_last) for e in one.records()} == wanted
        assert check(one) == []
    assert seen == {4, 8, 16, 32}


@pytest.mark.parametrize("m", [64, 128])
def test_tvm_fills_what_is_drawn_of_d(own, m):
    """Its layouts D and F put each element once in a lane and a column, and are found once they are added."""
    layout = pytest.importorskip("tvm.tirx.layout")
    made = layout.tmem_datapath_layout({64: "F", 128: "D"}[m], m, 32)
    held = [[int(made.apply(r, c, shape=[m, 32])[axis]) for axis in ("TLane", "TCol")] for r, c in np.ndindex(m, 32)]
    lane, reg = np.array(held).T
    row, col = (index.ravel() for index in np.indices((m, 32)))
    key = Key("tcgen05.mma.sp", f"m{m}n32k32", "f32", "D")
    cells = elements({"lane": lane, "reg": reg, "slot": 0 * reg, "row": row, "col": col})
    fragment = Fragment.of(key, cells, "imported")
    assert check(fragment) == []
    with lanemap.open(own) as database:
        with pytest.raises(lanemap.LanemapError, match=r"figure-only, figures 2[12]\d"):
            database.find(key.shape, "f32", "D", instruction=key.instruction, row=17)
        database.add([Source("tvm", "import", "tvm", [fragment])])
        found = database.find(key.shape, "f32", "D", instruction=key.instruction, row=17, col=5)
        assert found[["lane", "reg", "source"]].values.tolist() == [[33 if m == 64 else 17, 5, "tvm"]]


def test_d_without_qualifiers_is_that_of_one_block(database):
    """And no other that somebody has rows of: with ``.ws`` its columns lie in other lanes."""
    assert {one.qualifiers for one in database.matching(Query.parse("tcgen05.mma m64n64k16 f32 D"))} == {None}
    assert database.find("tcgen05.mma m64n64k16 f32 D", row=3, col=40)["lane"].tolist() == [3]
    with pytest.raises(lanemap.LanemapError, match="no source has rows for D of tcgen05.mma.sp m64n64k32 f32:"):
        database.find("tcgen05.mma.sp m64n64k32 f32 D", row=3, col=4)
    assert {one.qualifiers for one in database.matching(Query.parse("tcgen05.mma m32n64k16 f32 D"))} == {"ws"}


def test_what_lies_in_tensor_memory_is_not_said_to_be_in_registers(database):
    """Its columns are called so in what is said of it, also where those of a large D are folded."""
    d = database.operand("tcgen05.mma m128n64k16 f32 D")[0]
    assert facts(d)["per lane"] == "64 memory columns of 32 bits, 1 slot of 32 bits in each"
    assert "register" not in "".join([*facts(d).values(), database.show("tcgen05.mma m128n64k16 f32 D").text(80)])
    assert "4 registers of 32 bits" in facts(database.operand("m16n8k16 f16 A")[0])["per lane"]
