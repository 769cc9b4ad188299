"""An instruction and thread-value layouts, as fragments."""

import numpy as np
import pytest

from lanemap import LanemapError
from lanemap.db.layout.algebra import strided
from lanemap.db.layout.structure import check
from lanemap.ingest.atom import AtomLayout, atom_operand, lanes, move_fragments, named_form, named_move

F16 = named_form("mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32")
SPARSE = named_form("mma.sync.aligned.kind::f8f6f4.sp::ordered_metadata.m16n8k64.row.col.f32.e4m3.e5m2.f32 ")
A = strided(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128)))
B = strided(((4, 8), (2, 2)), ((16, 1), (8, 64)))
WARP = strided(32)
QUAD_PAIR = strided((4, 2), (1, 16))


@pytest.mark.parametrize(
    ("mnemonic", "name", "shape", "majors", "types"),
    [
        ("mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f16", "mma", "m8n8k4", "col row", "f32 f16 f16 f16"),
        ("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc", "mma", "m8n8k128", "row col", "s32 b1 b1 s32"),
        ("mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "mma.sp", "m16n8k16", "row col", "f16 f16 f16 f16"),
        (
            "mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e5m2.e2m1.f32.ue8m0 ",
            "mma",
            "m16n8k32",
            "row col",
            "f32 e5m2 e2m1 f32",
        ),
    ],
)
def test_mnemonics(mnemonic, name, shape, majors, types):
    found = named_form(mnemonic)
    assert (found.name, found.shape, " ".join(found.majors)) == (name, shape, majors)
    assert " ".join(found.types[role] for role in "DABC") == types
    assert SPARSE.name == "mma.sp"


@pytest.mark.parametrize("mnemonic", ["wgmma.mma_async.sync.aligned.m64n8k16.f16", "dp4a.s32.s32 %0", "{%0, %1},", ""])
def test_other_instructions_are_none(mnemonic):
    assert named_form(mnemonic) is None


def test_a_quad_pair_is_four_computations():
    assert lanes(QUAD_PAIR).tolist() == [[4 * q + i for i in (0, 1, 2, 3, 16, 17, 18, 19)] for q in range(4)]
    assert lanes(WARP).tolist() == [list(range(32))]


@pytest.mark.parametrize(
    "threads", [strided(8, 3), strided(32, 2), strided(8, 0), strided(1), strided(64), strided(128)]
)
def test_threads_that_do_not_fill_a_warp_are_refused(threads):
    with pytest.raises(LanemapError, match="do not fill a group of 32"):
        lanes(threads)


def test_a_dense_operand_by_hand():
    found = atom_operand(F16, "A", AtomLayout(A, 4, 2), WARP)
    for lane, reg, slot, row, col, col_last, computation in found.elements.tolist():
        assert row == lane // 4 + 8 * (reg % 2)
        assert col == col_last == lane % 4 * 2 + slot + 8 * (reg // 2)
        assert computation == 1
    assert (found.major, found.type, found.status) == ("row", "f16", "imported")
    assert check(found) == []


def test_b_is_turned_over():
    found = atom_operand(F16, "B", AtomLayout(B, 2, 2), WARP)
    for lane, reg, slot, row, col, _, _ in found.elements.tolist():
        assert (row, col) == (lane % 4 * 2 + slot + 8 * reg, lane // 4)
    assert found.dimensions == (16, 8)
    assert (found.major, found.type) == ("col", "bf16")


@pytest.mark.parametrize(("chunk", "slots", "per_chunk"), [(4, 4, 2), (8, 4, 4)])
def test_a_sparse_element_has_its_chunk_as_its_window(chunk, slots, per_chunk):
    values = 32
    held = strided(((4, 8), (8, 2, 2)), ((128, 1), (16, 8, 512)))
    found = atom_operand(SPARSE, "A", AtomLayout(held, 4, slots, chunk), WARP)
    assert values // 2 == 4 * slots
    for lane, reg, slot, row, col, col_last, _ in found.elements.tolist():
        assert row == lane // 4 + 8 * (reg % 2)
        assert col == lane % 4 * 8 + 32 * (reg // 2) + slot // per_chunk * chunk
        assert col_last == col + chunk - 1
    assert check(found) == []


def test_metadata_belongs_to_the_type_of_a():
    held = strided(((2, 2, 8), 32), ((8, 512, 1), 16))
    found = atom_operand(SPARSE, "E", AtomLayout(held, 1, 16, 4), WARP, 0)
    assert (found.type, found.major, found.selector) == ("e4m3", None, 0)
    assert check(found) == []
    third = found.elements[(found.elements["lane"] == 7) & (found.elements["slot"] == 5)]
    assert third[["row", "col", "col_last"]].tolist() == [(9, 40, 43)]


@pytest.mark.parametrize(
    ("operand", "threads", "words"),
    [
        (AtomLayout(A, 4, 4), WARP, "8 values for 16 slots"),
        (AtomLayout(A, 2, 2), WARP, "8 values for 4 slots"),
        (AtomLayout(A, 4, 2), QUAD_PAIR, "for 32 threads, but 8 do the atom"),
        (AtomLayout(A, 3, 1, 2), WARP, "do not fill 3 slots"),
        (AtomLayout(A, 2, 2, 4), WARP, "does not keep the 4 columns of a chunk together"),
    ],
)
def test_layouts_that_do_not_fit_are_refused(operand, threads, words):
    with pytest.raises(LanemapError, match=words):
        atom_operand(F16, "A", operand, threads)


def test_two_slots_of_one_cell_are_imported_and_found():
    """A layout that is wrong is what an import is for: it comes in, and the structural check says so."""
    overlapping = strided(((4, 8), (2, 2)), ((8, 1), (8, 64)))
    found = atom_operand(F16, "B", AtomLayout(overlapping, 2, 2), WARP)
    assert any("held too often" in words for words in check(found))
    assert np.unique(found.elements["row"]).size < 16


def test_a_move_whose_registers_are_not_those_of_the_instruction_is_refused():
    key = named_move("ldmatrix.sync.aligned.m8n8.x1.shared.b16")
    rows = strided(((8, 4), 128), ((128, 0), 1))
    held, given = move_fragments(key, rows, strided((32, 32), (32, 1)), "here")
    assert all(
        (element.row, element.col) == (element.lane // 4, element.lane % 4 * 2 + element.slot)
        for element in held.records()
    )
    assert [(element.lane, element.row) for element in given.records()] == [(row, row) for row in range(8)]
    for wrong, words in (
        (strided((32, (2, 16)), (32, (16, 1))), "does not keep the 16 bits of an element together"),
        (strided((32, 16), (32, 1)), "for 16 bits of 32 threads"),
    ):
        with pytest.raises(LanemapError, match=words):
            list(move_fragments(key, rows, wrong, "here"))
