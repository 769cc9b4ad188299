"""What operands hold, as fragments: of D, what its sums are stored as."""

from itertools import permutations

import numpy as np
import pytest

from lanemap.db.errors import LanemapError
from lanemap.db.isa.instructions import Key

from . import test_corpus, test_sparse
from .conftest import Stored, documented, run
from .kernels import ARGUMENTS, FORMULA, PRODUCT

TRUE = {role: documented()[Key("mma", "m16n8k16", "f32", role)] for role in "CD"}
STORES = "[%from], {%c0, %c1}", "[%from+256], {%c2, %c3}"


def changed(*changes):
    text = PRODUCT
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def renumbered(fragment, order):
    """A fragment whose register r holds what register order[r] held."""
    return {(lane, reg): fragment.at(lane, order[reg], 0)[:2] for lane in range(32) for reg in range(4)}


def cells(fragment):
    return renumbered(fragment, range(4))


@pytest.mark.few(4)
@pytest.mark.parametrize("order", [*permutations(range(4))], ids=str)
def test_d_is_what_its_registers_are_stored_as(order):
    """Whichever register is stored in the place of another."""
    stored = [f"[%from{at}], {{%c{order[reg]}, %c{order[reg + 1]}}}" for at, reg in (("", 0), ("+256", 2))]
    found = run(changed(STORES[0], stored[0], STORES[1], stored[1]), ARGUMENTS, FORMULA, block=64)
    inverse = np.argsort(order)
    assert cells(found.operand("D")) == renumbered(TRUE["D"], inverse)
    assert found.ok == (order == (0, 1, 2, 3))
    assert found.ok or found.findings[0].operand == ("D", 1, 0)


def test_d_without_a_product_is_what_its_registers_are_stored_as():
    """An array of one line has no rows."""
    for order in ((0, 1, 2, 3), (1, 0, 3, 2), (3, 2, 1, 0), (0, 2, 1, 3)):
        stored = [f"[%from{at}], {{%c{order[reg]}, %c{order[reg + 1]}}}" for at, reg in (("", 0), ("+256", 2))]
        text = changed(STORES[0], stored[0], STORES[1], stored[1])
        found = run(text, ARGUMENTS, block=64)
        assert found.ok, found
        assert cells(found.operand("D")) == renumbered(TRUE["D"], np.argsort(order))
    with pytest.raises(LanemapError, match="or none that can be followed"):
        run(PRODUCT, [*ARGUMENTS[:2], "C=f32[128]"], block=64).operand("D")


@pytest.mark.parametrize(("register", "role", "slots"), [("%a2", "A", 256), ("%b1", "B", 128)])
def test_a_register_that_nobody_wrote_is_named_by_its_operand(register, role, slots):
    """As a kernel leaves it that loads half of an operand."""
    text = changed(MMA, f"mov.b32 {register}, %never; {MMA}", ".reg .pred", ".reg .b32 %never; .reg .pred")
    (finding,) = run(text, ARGUMENTS, FORMULA, block=64).findings
    assert finding.operand == (role, 1, 0)
    assert finding.details[0].startswith("the first is C[0][0], stored at line")
    assert f"{role} of mma 1 (line" in finding.details[1]
    assert f"lane 0 register {register[-1]} slot 0 is uninitialised  (64 of {slots} slots)" in str(finding)


def test_d_that_is_stored_right_explains_no_wrong_sum():
    """B is transposed, and whatever its columns are called, no sum of another element is in C."""
    text = changed("ldmatrix.sync.aligned.m8n8.x2.shared", "ldmatrix.sync.aligned.m8n8.x2.trans.shared")
    operand, wrong = run(text, ARGUMENTS, "C[m,n] = relu(A[m,k] B[n,k])", block=64).findings
    assert operand.words.endswith("blocks of 8 x 8 are transposed")
    assert (wrong.kind, wrong.operand, len(wrong.details)) == ("sum", None, 1)
    assert "and must be" in wrong.details[0]


#: The product with another matrix added, which C is loaded from.
LOADED = """
    mad.lo.u32 %at, %pair, 8, %row;
    ld.param.u64 %from, [X];
    cvt.u64.u32 %offset, %at;
    add.u64 %from, %from, %offset;
    ld.global.v2.f32 {%c0, %c1}, [%from];
    ld.global.v2.f32 {%c2, %c3}, [%from+256];
"""
ADDED = changed("param .u64 C)", "param .u64 C, .param .u64 X)", "    mov.f32 %c0, 0f00000000;\n", LOADED)
ADDS = "{%c0, %c0, %c0, %c0}"
SUM = f"{FORMULA} + X[m,n]"


@pytest.mark.few(4)
@pytest.mark.parametrize("order", [*permutations(range(4))], ids=str)
def test_c_is_what_it_is_loaded_from(order):
    registers = ", ".join(f"%c{number}" for number in order)
    found = run(ADDED.replace(ADDS, f"{{{registers}}}"), [*ARGUMENTS, "X=f32[16,8]"], SUM, block=64)
    assert cells(found.operand("C")) == renumbered(TRUE["C"], order)
    assert cells(found.operand("D")) == cells(TRUE["D"])
    assert found.ok == (order == (0, 1, 2, 3))


def test_c_without_a_product_is_what_it_is_loaded_from():
    for order in ((0, 1, 2, 3), (1, 0, 3, 2), (3, 2, 1, 0)):
        registers = ", ".join(f"%c{number}" for number in order)
        found = run(ADDED.replace(ADDS, f"{{{registers}}}"), [*ARGUMENTS, "X=f32[16,8]"], block=64)
        assert cells(found.operand("C")) == renumbered(TRUE["C"], order)
    with pytest.raises(LanemapError, match="or none that can be followed"):
        run(PRODUCT, ARGUMENTS, block=64).operand("C")


BESIDE = {
    ("sparse", ""): ("sm_80", test_corpus.SPARSE, ["E"]),
    ("scaled", ""): ("sm_120a", test_corpus.SCALED, ["SFA", "SFB"]),
    ("scaled", "NVF4"): ("sm_120a", test_sparse.NVF4, ["SFA", "SFB"]),
}


@pytest.mark.parametrize("case", BESIDE, ids=" ".join)
def test_metadata_and_block_scales(nvcc, database, case):
    target, given, roles = BESIDE[case]
    formula = test_sparse.NVF4_FORMULA if case[1] else test_corpus.MUTATED[case[0]][2]
    how = {"block": 32, "grid": (2, 2, 1), "table": Stored(database)}
    defines = [name for name in case[1:] if name]
    found = run(nvcc(case[0], target, *defines), given, formula, **how)
    for number in range(1, len(found.judge.executions) + 1):
        for role in roles:
            assert found.operand(role, number, warp=1).same_layout(found.judge.must(role, number)), (role, number)
    swapped = ("CHUNK=member%2", "ROW=row^1") if roles == ["E"] else ("ROW=row+member%2*8^1",)
    wrong = run(nvcc(case[0], target, *swapped, *defines), given, formula, **how)
    held, must = wrong.operand(roles[0]), wrong.judge.must(roles[0], 1)
    assert cells_of(held) == [(row ^ 1, col) for row, col in cells_of(must)]
    assert wrong.findings[0].operand[:2] == (roles[0], 1)


def test_metadata_of_other_columns(nvcc, database):
    how = {"block": 32, "grid": (2, 2, 1), "table": Stored(database)}
    text = nvcc("sparse", "sm_80", "CHUNK=1-member%2", "ROW=row")
    found = run(text, test_corpus.SPARSE, test_corpus.MUTATED["sparse"][2], **how)
    held, must = found.operand("E"), found.judge.must("E", 1)
    assert cells_of(held) == [(row, col ^ 16) for row, col in cells_of(must)]


MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
AGAIN = f"{{%c0, %c1, %c2, %c3}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {ADDS};\n{MMA}\n"


def test_c_is_what_was_summed_before():
    """Of the sum of two products the first of which is left in other registers."""
    text = changed(f"{MMA}\n", f"{MMA}\n{AGAIN}")
    first, second = text.index(ADDS), text.rindex(ADDS)
    for order in ((0, 1, 2, 3), (1, 0, 3, 2), (2, 3, 0, 1)):
        registers = ", ".join(f"%c{number}" for number in order)
        twice = text[:second] + f"{{{registers}}}" + text[second + len(ADDS) :]
        found = run(twice, ARGUMENTS, f"C[m,n] = 2 {FORMULA.partition('= ')[2]}", block=64)
        with pytest.raises(LanemapError, match="or none that can be followed"):
            found.operand("C")
        assert cells(found.operand("C", 2)) == renumbered(TRUE["C"], order)
        assert cells(found.operand("D", 2)) == cells(TRUE["D"])
        assert cells(found.operand("D", 1)) == renumbered(TRUE["D"], order)  # which are exchanges
    assert first < second


def test_sums_of_several_places_are_followed_to_none():
    """A sum that is stored twice, or a part of two, has no place, nor has one that is not stored."""
    twice, less = (changed(STORES[1], f"[%from{at}], {{%c0, %c1}}") for at in ("+256", ""))
    both = changed(STORES[0], "[%from], {%c0, %c1}; add.f32 %c2, %c2, %c0; add.f32 %c3, %c3, %c1")
    for text in (twice, less, both):
        for formula in (FORMULA, None):
            with pytest.raises(LanemapError, match="or none that can be followed"):
                run(text, ARGUMENTS, formula, block=64).operand("D")


#: A tile of wmma, its product stored as it is, or transposed.
WMMA = """
.version 8.0 .target sm_80 .address_size 64
.visible .entry tile(.param .u64 A, .param .u64 B, .param .u64 C) {
.reg .b64 %from; .reg .b32 %a<8>, %b<8>; .reg .f32 %c<8>;
ld.param.u64 %from, [A]; cvta.to.global.u64 %from, %from;
wmma.load.a.sync.aligned.m16n16k16.row.global.f16 {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, [%from], 16;
ld.param.u64 %from, [B]; cvta.to.global.u64 %from, %from;
wmma.load.b.sync.aligned.m16n16k16.col.global.f16 {%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7}, [%from], 16;
mov.f32 %c0, 0f00000000;
wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7},
  {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, {%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7},
  {%c0, %c0, %c0, %c0, %c0, %c0, %c0, %c0};
ld.param.u64 %from, [C]; cvta.to.global.u64 %from, %from;
wmma.store.d.sync.aligned.m16n16k16.row.global.f32 [%from], {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}, 16;
ret; }"""


def test_d_of_wmma(database):
    given = ["A=f16[16,16]", "B=f16[16,16]", "C=f32[16,16]"]
    right = run(WMMA, given, FORMULA, table=Stored(database))
    assert right.ok, right
    held, must = right.operand("D"), right.judge.must("D", 1)
    assert (held.instruction, held.role) == ("wmma", "D")
    assert held.same_layout(must)
    wrong = run(WMMA.replace("k16.row.global.f32 [", "k16.col.global.f32 ["), given, FORMULA, table=Stored(database))
    assert cells_of(wrong.operand("D")) == [(col, row) for row, col in cells_of(must)]
    assert wrong.findings[0].operand == ("D", 1, 0)


def cells_of(fragment):
    return fragment.table[["row", "col"]].tolist()


def test_d_of_wgmma(nvcc, database):
    """Of every execution, as each adds to the same registers."""
    found = test_corpus.wgmma(database, nvcc("wgmma", "sm_90a"))
    for number in range(1, len(found.judge.executions) + 1):
        assert found.operand("D", number, warp=1).same_layout(found.judge.must("D", number))
    with pytest.raises(LanemapError, match="name A, B, D, and one of 8 executions"):
        found.operand("C")


@pytest.mark.parametrize("name", ["gemm", "sparse", "scaled"])
def test_c_and_d_of_compiled_kernels(nvcc, database, name):
    target, given, formula, how, _ = test_corpus.MUTATED[name]
    found = run(nvcc(name, target), given, formula, table=Stored(database), **how)
    count, followed = len(found.judge.executions), 0
    for number in range(1, count + 1):
        assert found.operand("D", number).same_layout(found.judge.must("D", number))
        try:
            held = found.operand("C", number)
        except LanemapError:  # the first of a sum adds to zero
            continue
        followed += 1
        assert held.same_layout(found.judge.must("C", number))
    assert 0 < followed < count


def test_a_product_between_others_is_stored_nowhere(nvcc):
    found = run(nvcc("attention"), test_corpus.ATTENTION, test_corpus.STEPS, block=128)
    by_array = {}
    for number in range(1, len(found.judge.executions) + 1):
        name = found.judge.names[found.judge.labels(found.judge.executions[number - 1].held["B"]).array.max()]
        by_array.setdefault(name, []).append(number)
    for number in by_array["V"]:
        assert found.operand("D", number).same_layout(found.judge.must("D", number))
    for number in by_array["K"]:
        with pytest.raises(LanemapError, match="or none that can be followed"):
            found.operand("D", number)


#: The same kernel of numbers of 8 bits, two of which ldmatrix moves as one.
OF_BYTES = PRODUCT.replace("m16n8k16.row.col.f32.f16.f16.f32", "m16n8k32.row.col.s32.s8.s8.s32")
BYTES = ["A=s8[16,32]", "B=s8[8,32]", "C=s32[16,8]"]
MOVES = {
    "ldmatrix": "",
    "movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 %b0, %b0; " * 2,
    "stmatrix": """bar.warp.sync -1; stmatrix.sync.aligned.m8n8.x2.shared.b16 [%at], {%b0, %b1}; bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%b0, %b1}, [%at];""",
}


@pytest.mark.parametrize("move", MOVES)
def test_each_byte_that_a_matrix_moves_keeps_its_origin(move):
    text = OF_BYTES.replace("    shr.u32 %group, %lane, 2;", f"    {MOVES[move]}\n    shr.u32 %group, %lane, 2;")
    text = text.replace(".target sm_80", ".target sm_90")
    right = run(text, BYTES, FORMULA, block=64)
    assert right.ok, right
    assert right.operand("B").same_layout(documented()[Key("mma", "m16n8k32", "s8", "B", "col")])
    a = run(text.replace("{%a0, %a1, %a2, %a3}", "{%a0, %a2, %a1, %a3}"), BYTES, FORMULA, block=64)
    assert "registers 1 and 2 are exchanged" in a.findings[0].words
    b = run(text.replace("{%b0, %b1}, {%c0", "{%b1, %b0}, {%c0"), BYTES, FORMULA, block=64)
    assert "column 0 of A has A[0][0], row 0 of B B[0][16]" in b.findings[0].details[0]
    where = f"at {b.findings[0].place} (32 of 32 products are not its own)"
    assert where in b.findings[1].details[0]
