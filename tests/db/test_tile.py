"""Tiles against their definition, which goes from a cell to its places and shares no code with what makes them."""

import re
from dataclasses import replace
from itertools import cycle, product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lanemap
from lanemap.db.isa.tiling import Tiling, pieces
from lanemap.db.layout.fragment import elements
from lanemap.db.layout.structure import check

from ..modes import LONG
from ..notation.made import unheard_of

WARPS = [(1, 1), (2, 2), (4, 1), (1, 4), (2, 4), (1, 2), (8, 1), (3, 2)]
EXTENTS = re.compile(r"([mnk])(\d+)").findall
ORDERS = ["m", "n", "nkn", "mn", "nnm"]


def instructions(atom, tile, warps, order, *, contiguous):
    """Warp and number of the instruction at each step down and across, one layer for each copy: (copies, 2, ...)."""
    sizes = {axis: int(size) for axis, size in EXTENTS(atom.shape)}
    axes, of_warps = atom.key.axes.replace("s", "k"), {"m": warps[0], "n": warps[1], "k": 1}
    steps = np.indices([tile[axis] // sizes[axis] for axis in axes])
    there, nth = {"m": 0, "n": 0, "k": 0}, {}
    for axis, step in zip(axes, steps, strict=True):
        count, of = len(np.unique(step)), of_warps[axis]
        if contiguous:
            there[axis], nth[axis] = step // (count // of), step % (count // of)
        else:
            there[axis], nth[axis] = step % of, step // of
    number, size = 0, 1
    for axis in [*order[1:], *"mnk"]:
        if axis in nth:
            number = number + nth.pop(axis) * size
            size *= tile[axis] // sizes[axis] // of_warps[axis]
    copies = []
    for other_m, other_n in product(range(warps[0]), range(warps[1])):
        if ("m" in axes and other_m) or ("n" in axes and other_n):
            continue
        m, n = there["m"] + other_m, there["n"] + other_n
        copies.append([m + warps[0] * n if order[0] == "m" else n + warps[1] * m, number])
    return np.array(copies)


def places(atom, tile, warps, order, *, contiguous):
    """Thread, register and slot of every cell, one layer for each copy: an array (copies, 3, rows, cols)."""
    down, across = atom.dimensions
    row, col = np.indices([tile[axis] for axis in atom.key.axes])
    inside = np.stack(atom.find(row % down, col % across))
    held = instructions(atom, tile, warps, order, contiguous=contiguous)[:, :, row // down, col // across]
    begin = np.stack([held[:, 0] * atom.threads, held[:, 1] * atom.registers, 0 * held[:, 0]], axis=1)
    return begin + inside


def agrees(database, operand, tile, warps, order, contiguous):
    """Whether a tile is as defined, cell by cell and place by place, and holds nothing else."""
    (atom,) = database.operand(operand)
    named = "".join(f"{axis}{extent}" for axis, extent in tile.items())
    query = lanemap.Query.parse(
        operand, tile=named, warps="x".join(map(str, warps)), order=order, contiguous=contiguous
    )
    (fragment,) = database.operand(query)
    expected = places(atom, tile, warps, order, contiguous=contiguous)
    row, col = np.indices(fragment.dimensions)
    found = np.stack(fragment.find(row, col)).reshape(3, *row.shape, -1)
    ordered = np.take_along_axis(expected, np.argsort(expected[:, :1], axis=0), axis=0)
    there = np.array_equal(np.moveaxis(found, -1, 0), ordered)
    back = fragment.at(*np.moveaxis(expected, 1, 0))
    here = (back.row == row).all() and (back.col == col).all()
    sizes = fragment.threads * fragment.registers * fragment.slots
    return there and here and len(fragment.table) == expected[:, 0].size == sizes and not check(fragment)


@pytest.mark.few(2)
@pytest.mark.parametrize("operand", ["m16n8k16 f16 A", "m16n8k16 f16 B", "m16n8k16 f32 D", "m64n24k16 f32 D"])
@settings(max_examples=20)
@given(data=st.data())
def test_a_tile_is_as_defined(database, operand, data):
    warps = data.draw(st.sampled_from(WARPS[:-2] if "m64" in operand else WARPS))
    sizes = dict(zip("mnk", (64, 24, 16) if "m64" in operand else (16, 8, 16), strict=True))
    least = {axis: size * {"m": warps[0], "n": warps[1]}.get(axis, 1) for axis, size in sizes.items()}
    tile = {axis: size * data.draw(st.integers(1, max(1, 64 // size))) for axis, size in least.items()}
    assert agrees(database, operand, tile, warps, data.draw(st.sampled_from(ORDERS)), data.draw(st.booleans()))


def moved(atom, tile, warps, order, *, contiguous):
    """Every element of a tile by thread, register and slot, as numbers of 16 bits: those of one instruction, moved."""
    numbers = np.frombuffer(atom.packed, "<i2").reshape(-1, 7)
    of_lane = numbers.reshape(len(np.unique(numbers[:, 0])), 1, -1, 7)
    held = instructions(atom, tile, warps, order, contiguous=contiguous)
    warp, number = held[:, 0], held[:, 1]
    down, across = (step * size for step, size in zip(np.indices(warp.shape[1:]), atom.dimensions, strict=True))
    first = np.full((warps[0] * warps[1], 1, number.max() + 1, 1, 7), -1, "<i2")
    begin = warp * atom.threads, number * atom.registers, 0, down, across, across, 0
    first[warp, 0, number, 0] = np.stack(np.broadcast_arrays(*begin), axis=-1)
    assert (first >= 0).all()
    assert warp.size == first.size // 7
    return first + of_lane


#: Operands of all kinds that a group of threads holds: those that take a second, and others.
QUICK = ["m16n8k16 f16 A", "m64n24k16 f16 A"]
SLOW = ["m16n8k16 f16 B", "m16n8k16 f32 D", "m16n8k32 s8 A", "m16n8k32 e4m3 B", "m16n8k8 tf32 B", "m8n8k4 f64 D"]
SLOW += ["m8n8k128 b1 B", "wmma m16n16k16 f16 A", "wmma m8n32k16 s8 B", "wmma m16n16k16 f32 D", "m64n8k16 f32 D"]
SLOW += ["mma.sp m16n8k32 f16 A", "v_mfma_f32_32x32x8_f16"]
SLOW += ["m64n24k32 s32 D", "mma.sp m16n8k32 f16 E", "m16n8k64 e2m1 SFA", *["m8n8k4 f64 A"] * LONG]


@pytest.mark.parametrize("operand", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
@pytest.mark.timeout(3600 if LONG else 300)
def test_every_tile_up_to_256(database, operand):
    """Every shape, each of other warps and in another order than the one before it; in the long mode of all warps."""
    found = unheard_of(operand)[::2] if "mfma" in operand else [*database.operand(operand)][:: 1 if LONG else 3]
    ways = cycle(product(ORDERS, (False, True)))
    for atom in found:
        sizes, axes = {axis: int(size) for axis, size in EXTENTS(atom.shape)}, atom.key.axes.replace("s", "k")
        shapes = [*product(*(range(sizes[axis], 257, sizes[axis]) for axis in axes))]
        for at, extents in enumerate(shapes):
            tile = sizes | dict(zip(axes, extents, strict=True))
            fitting = []
            for warps in WARPS:
                of = dict(zip("mn", warps, strict=True))
                whole = all(tile[axis] % (sizes[axis] * count) == 0 for axis, count in of.items() if axis in axes)
                copies = prod([count for axis, count in of.items() if axis not in axes])
                fitting += [warps] * (whole and (LONG or copies <= 2) and prod(warps) * atom.threads <= 1024)
            for warps in fitting if LONG else [fitting[at % len(fitting)]]:
                named = "".join(f"{axis}{tile[axis]}" for axis in "mnk" if axis in axes)
                order, contiguous = next(ways)
                fragment = atom.tiled(named, "x".join(map(str, warps)), order, contiguous)
                expected = moved(atom, tile, warps, order, contiguous=contiguous)
                assert fragment.packed == expected.tobytes(), (operand, named, warps, order, contiguous)
        assert len(shapes) == prod([256 // sizes[axis] for axis in axes])


def test_what_is_found_of_a_tile(database):
    query = lanemap.Query.parse("m16n8k16 f16 D", tile="m64n64", warps="2x2")
    (found,) = database.operand(query).rows(row=37, col=21).records()
    # Row 37 is in the third instruction down, the second of warps 0 and 2; its row 5 is in the first register.
    wanted = {"thread": 22, "warp": 0, "lane": 22, "reg": 6, "slot": 1, "rep_m": 1, "rep_n": 1}
    assert {name: found[name] for name in wanted} == wanted
    frame = database.find("m16n8k16", "f16", "D", tile="m64n64", warps="2x2", row=37, col=21)
    assert frame[[*wanted]].values.tolist() == [[*wanted.values()]]


@pytest.mark.parametrize("role", "ABD")
def test_threads_are_found_by_thread_by_warp_and_by_lane(database, role):
    fragments = database.operand(f"m16n8k16 f16 {role}", tile="m32n32k32", warps="2x2")
    every = fragments.rows().records()
    assert [each["thread"] for each in every] == [each["warp"] * 32 + each["lane"] for each in every]
    for place in (
        {"lane": 5},
        {"warp": 3},
        {"thread": 69},
        {"warp": 1, "lane": 31, "reg": 0},
        {"warp": 1, "thread": 3},
    ):
        rows = [each for each in every if all(each[name] == value for name, value in place.items())]
        assert fragments.rows(**place).records() == rows
        assert fragments.frame(**place).thread.tolist() == [each["thread"] for each in rows]
    for name, largest in (("warp", 3), ("thread", 127), ("lane", 31)):
        with pytest.raises(lanemap.LanemapError, match=f"0 to {largest}"):
            fragments.rows(**{name: largest + 1})


def test_repetitions_are_those_of_the_pieces(database):
    for order, contiguous in product(ORDERS, (False, True)):
        query = lanemap.Query.parse("m16n8k16 f16 A", tile="m64n16k32", warps="2x1", order=order, contiguous=contiguous)
        fragments = database.operand(query)
        for each in fragments.rows().records():
            down = 2 * each["warp"] + each["rep_m"] if contiguous else 2 * each["rep_m"] + each["warp"]
            assert (each["row"] // 16, each["col"] // 16) == (down, each["rep_k"])


def test_pieces_begin_where_their_registers_say(database):
    tiling = Tiling("m64n64", (2, 2), "nn")
    (fragment,) = database.operand("m16n8k16 f16 D", tile="m64n64", warps="2x2", order="nn")
    table = fragment.table
    for piece in pieces(tiling, "m16n8k16", "mn", (16, 8)):
        its = table[(table["lane"] // 32 == piece.warp) & (table["reg"] // 2 == piece.number)]
        assert (its["row"].min(), its["col"].min()) == (piece.row, piece.col)
        assert (its["row"].max(), its["col"].max()) == (piece.row + 15, piece.col + 7)


def test_what_an_import_has_outside_is_outside_in_a_tile_too(database):
    """A row of -1 changes no other number of its element."""
    (atom,) = database.operand("m16n8k16 f16 D")
    columns = {name: atom.table[name] - (name == "row") for name in atom.table.dtype.names}
    outside = replace(atom, elements=elements(columns))
    fragment, right = (each.tiled("m64n64", "2x2") for each in (outside, atom))
    assert (fragment.table["row"] == right.table["row"] - 1).all()
    assert all((fragment.table[name] == right.table[name]).all() for name in columns if name != "row")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["E", "SFA", "A"])
def test_sparse_and_scaled_operands_repeat(database, name):
    """Windows move with the columns of the whole A, and scales with K."""
    shape, type_, instruction = ("m16n8k32", "e4m3", "mma") if name == "SFA" else ("m16n8k32", "f16", "mma.sp")
    which = {"instruction": instruction} | (
        {"qualifiers": "scale_vec::1X.byte_id::0.thread_id::0"} if name == "SFA" else {}
    )
    atoms = database.operand(f"{shape} {type_} {name}", **which)
    for atom, fragment in zip(
        atoms,
        database.operand(f"{shape} {type_} {name}", tile="m64k64", warps="2x1", **which),
        strict=True,
    ):
        assert not check(fragment)
        rows, cols = atom.dimensions
        assert fragment.dimensions == (4 * rows, 2 * cols)
        assert len(fragment.table) == 8 * len(atom.table)
        for lane, reg, slot, row, col, last, _ in fragment.tuples():
            number, warp = reg // atom.registers, lane // atom.threads
            its = atom.at(lane % atom.threads, reg % atom.registers, slot)
            down, across = its.row + (2 * (number % 2) + warp) * rows, number // 2 * cols
            assert (row, col, last) == (down, its.col + across, its.col_last + across)


@pytest.mark.parametrize(
    ("operand", "which", "words"),
    [
        ("m16n8k16 f16 D", {"tile": "m65n64", "warps": "2x2"}, "m must be a multiple of 32, for 2 warps of 16"),
        ("m16n8k16 f16 D", {"tile": "m16n64", "warps": "2x2"}, "m must be a multiple of 32"),
        ("m16n8k16 f16 A", {"tile": "m16k8"}, "k must be a multiple of 16, for instructions of 16"),
        ("m16n8k16 f16 D", {"tile": "m0n8"}, "m must be a multiple of 16"),
        ("m16n8k16 f16 D", {"tile": "m64n64", "warps": "0x2"}, "name one warp at least"),
        ("m16n8k16 f16 D", {"tile": "m64n64", "warps": "2"}, "as in 2x2"),
        ("m16n8k16 f16 D", {"tile": "m64n64", "order": "k"}, "write m or n"),
        ("m16n8k16 f16 D", {"tile": "m64n64", "order": "nmm"}, "write m or n"),
        ("m16n8k16 f16 D", {"tile": "n64m64"}, "write it like m64n64k32"),
        ("m16n8k16 f16 D", {"warps": "2x2"}, "warps are of a tile: name it"),
        ("m16n8k16 f16 D", {"contiguous": True}, "contiguous are of a tile: name it"),
        ("m16n8k16 f16 D", {"tile": "m64n64", "contiguous": "no"}, "contiguous 'no': write true or false"),
        ("m16n8k16 f16 D", {"tile": "m64n64", "contiguous": np.array([1, 0])}, "array.* write true or false"),
        ("m16n8k16 f16 D", {"tile": "m1024n8", "warps": "64x1"}, "are 2048 threads: a block has 1024"),
        ("m16n8k16 f16 D", {"tile": "m4096n4096"}, "more than 1048576 elements"),
        ("m16n8k16 f16 D", {"tile": "m99999n4096"}, "each dimension is 1 to"),
        ("m64n128k16 f16 B", {"tile": "m64n64"}, "is in shared memory"),
        ("ldmatrix m8n8 b16 r", {"tile": "m64n64"}, "no operand of a product in registers"),
        ("movmatrix m8n8 b16 D", {"tile": "m64n64"}, "no operand of a product in registers"),
    ],
)
def test_what_no_tile_is_says_what_would_be_right(database, operand, which, words):
    with pytest.raises(lanemap.LanemapError, match=words):
        database.operand(operand, **which)


@pytest.mark.slow
def test_a_file_that_claims_a_tile_is_compared(database, tmp_path):
    """As it is exported, and with one element elsewhere, another order of the warps, or read as one instruction."""
    named = {"tile": "m32n32k32", "warps": "2x2", "order": "n"}
    query = lanemap.Query.parse("m16n8k16 f16 D", instruction="mma", **named)
    for form in ("csv", "parquet"):
        database.export(tmp_path / f"d.{form}", query=query)
        assert database.diff(tmp_path / f"d.{form}", **named).exit_code == 0
    (result,) = database.diff(tmp_path / "d.csv", **named | {"order": "m"}).results
    assert "lanes are exchanged: left 32 is 64" in result.words
    assert database.diff(tmp_path / "d.csv").exit_code == 1
    lines = (tmp_path / "d.csv").read_text().splitlines()
    place = {name: at for at, name in enumerate(lines[0].split(","))}
    row = lines[7].split(",")
    row[place["row"]] = str(int(row[place["row"]]) + 1)
    (tmp_path / "wrong.csv").write_text("\n".join([*lines[:7], ",".join(row), *lines[8:]]) + "\n")
    (result,) = database.diff(tmp_path / "wrong.csv", **named).results
    assert result.difference.count == 1
    with pytest.raises(lanemap.LanemapError, match="name a file that claims some"):
        database.diff("ptx-isa-9.4", **named)


def test_a_chain_of_tiles_has_two_operands(database):
    chain = database.chain("m16n8k16 f32 D", "m16n8k16 f16 A", tile="m64n32k32", warps="4x1")
    assert not chain.moves_values
    moved = database.chain("m16n8k16 f32 D", "m16n8k16 f16 A", tile="m64n32k32", warps="2x2")
    assert moved.moves_values  # half of the columns are with the other warp
    with pytest.raises(lanemap.LanemapError, match="name both operands"):
        database.chain("m16n8k16 f32 D", tile="m64n32k32", warps="4x1")


def test_thick_lines_are_between_warps(database):
    """As many as there are borders of the instructions of other warps."""
    picture = database.draw("m16n8k16", "f16", "D", tile="m32n32", warps="2x2")
    walls = [box.cell.walls for box in picture.body.boxes]
    assert len(walls) == 32 * 16  # all of it, though its rows repeat
    assert [sum(wall[at] for wall in walls) for at in (0, 1)] == [3 * 32, 16]
    alone = database.draw("m16n8k16", "f16", "D")
    assert not any(any(box.cell.walls) for box in alone.body.boxes)


def test_a_tile_has_no_tiles(database):
    (fragment,) = database.operand("m16n8k16 f32 D", tile="m32n16", warps="2x1")
    with pytest.raises(lanemap.LanemapError, match="a tile already: name that of its instruction, D of mma m16n8k16"):
        fragment.tiled("m64n64")


def test_every_method_takes_a_tile_by_its_arguments(database):
    """As in a query that names the same."""
    tile = {"tile": "m64n32k32", "warps": "2x2", "order": "nkn", "contiguous": True}
    operand = "m16n8k16 f32 D"
    query = lanemap.Query.parse(operand, **tile)
    for asked in (operand, lanemap.Query.parse(operand)):
        assert database.prefer_dense(asked, **tile) == database.prefer_dense(query)
        for method in (database.operand, database.show):
            assert method(asked, **tile)[0].packed == database.operand(query)[0].packed
            assert method(asked, **tile)[0].tiling == Tiling("m64n32k32", (2, 2), "nkn", contiguous=True)
    reduced, wanted = database.reduce(operand, "col", **tile), database.reduce(query, "col")
    assert (reduced.warps, reduced.values) == (wanted.warps, wanted.values)
    assert reduced.warps
    for queries in (operand, [operand, "m16n8k16 f16 A"]):
        exported = database.export(format="cute", query=queries, **tile).text
        assert exported.count("_m64n32k32_2x2_nkn_contiguous = ") == (1 if queries == operand else 2)
    a, b = (np.random.default_rng(0).integers(-8, 8, shape) for shape in ((64, 32), (32, 32)))
    causes = database.blame("m16n8k16 f16", np.roll(a, 16, axis=1) @ b, a=a, b=b, **tile).causes
    assert "instructions of A that differ in bit 0 were exchanged" in [cause.words for cause in causes]


@pytest.mark.parametrize(("row", "col", "warp"), [(3, 5, 0), (43, 37, 0), (43, 45, 2), (20, 8, 3)])
def test_what_meets_in_a_tile_is_in_the_warp_that_holds_the_sum(database, row, col, warp):
    """Another warp holds the same row of A, and another the same column of B: these add to other elements."""
    tile = {"tile": "m64n64k32", "warps": "2x2"}
    query = lanemap.Query.parse("m16n8k16 f16", **tile)
    (d, *_), (a, *_), (b, *_) = (database.operand(f"m16n8k16 f16 {role}", **tile) for role in "DAB")
    assert d.find(row, col).lane // 32 == warp
    found = database.terms(query, row, col)
    for record in found.rows().records():
        for fragment, name, cell in ((a, "A", (row, record["k"])), (b, "B", (record["k"], col))):
            thread, reg, slot = map(int, re.fullmatch(r"(\d+):(\d+)\.(\d+)", record[name]).groups())
            assert thread // 32 == warp
            assert fragment.at(thread, reg, slot)[:2] == cell
    assert "as thread:reg.slot" in " ".join(str(found).split())
